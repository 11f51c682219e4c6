//go:build linux

package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// etcFiles are the files of the host's /etc that programs need and that tell
// nothing. They are copied, since a mount for each would be most of what a
// start costs.
var etcFiles = []string{
	"bash.bashrc", "ca-certificates.conf", "debian_version", "inputrc", "ld.so.cache", "ld.so.conf", "locale.alias",
	"localtime", "magic", "magic.mime", "mime.types", "os-release", "profile", "protocols", "services",
	"ssl/cert.pem", "ssl/openssl.cnf", "timezone",
}

// etcDirs are the directories, which are mounted. Private keys lie beside the
// certificates, hence not all of ssl.
var etcDirs = []string{
	"alternatives", "chromium", "chromium.d", "crypto-policies", "fonts", "java-*-openjdk", "ld.so.conf.d",
	"pki/ca-trust", "pki/tls/certs", "ssl/certs", "terminfo",
}

// bindEtc writes the box's etc anew and adds it to a start's arguments.
func (b *box) bindEtc(a *arguments) error {
	dir := filepath.Join(b.dir, "etc")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, name := range etcFiles {
		if err := copyPublic(filepath.Join("/etc", name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for name, lines := range b.names() {
		if err := writePublic(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n")); err != nil {
			return err
		}
	}
	var dirs []string
	for _, pattern := range etcDirs {
		found, err := filepath.Glob(filepath.Join("/etc", pattern))
		if err != nil {
			return err
		}
		for _, source := range found {
			if info, err := os.Stat(source); err != nil || !info.IsDir() {
				continue
			}
			if err := makePublic(filepath.Join(b.dir, source)); err != nil {
				return err
			}
			dirs = append(dirs, source)
		}
	}
	if err := a.bind(dir, "/etc", true); err != nil {
		return err
	}
	for _, source := range dirs {
		a.add("--ro-bind", source, source)
	}
	return nil
}

// names are the files that are ours: users and groups inside, and a hosts file
// without the host's.
func (b *box) names() map[string][]string {
	passwd := []string{"root:x:0:0:root:/root:/bin/sh", "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"}
	group := []string{"root:x:0:", "nogroup:x:65534:"}
	switch b.UID {
	case 0:
		passwd[0] = "root:x:0:0:root:" + insideHome + ":/bin/sh"
	case 65534:
		passwd[1] = "nobody:x:65534:65534:nobody:" + insideHome + ":/bin/sh"
	default:
		passwd = append(passwd, fmt.Sprintf("glovebox:x:%d:%d:Glovebox:%s:/bin/sh", b.UID, b.GID, insideHome))
	}
	if b.GID != 0 && b.GID != 65534 {
		group = append(group, fmt.Sprintf("glovebox:x:%d:", b.GID))
	}
	return map[string][]string{
		"passwd":        passwd,
		"group":         group,
		"hostname":      {b.short()},
		"hosts":         {"127.0.0.1 localhost " + b.short(), "::1 localhost ip6-localhost"},
		"nsswitch.conf": {"passwd: files", "group: files", "shadow: files", "hosts: files", "services: files", "protocols: files"},
	}
}

// copyPublic copies a file that everybody may read; others are left out.
func copyPublic(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0) {
		return nil
	}
	body, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writePublic(to, body)
}

func writePublic(name string, body []byte) error {
	if err := makePublic(filepath.Dir(name)); err != nil {
		return err
	}
	if err := os.WriteFile(name, body, 0o644); err != nil {
		return err
	}
	return os.Chmod(name, 0o644) // whatever the umask
}

// makePublic makes a directory below a box that everybody may enter.
func makePublic(dir string) error {
	err := os.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := makePublic(filepath.Dir(dir)); err != nil {
			return err
		}
		return makePublic(dir)
	case err != nil:
		return err
	}
	return os.Chmod(dir, 0o755)
}
