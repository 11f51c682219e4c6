//go:build linux

package container_test

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// browserPaths are the files of this machine that its Chromium needs beside the
// libraries that it is linked with.
var browserPaths = []string{
	"/usr/bin/chromium", "/usr/lib/chromium", "/etc/chromium.d", "/etc/fonts", "/usr/share/fontconfig", "/usr/share/fonts",
	"/usr/lib/x86_64-linux-gnu/nss", "/usr/lib/x86_64-linux-gnu/libsoftokn3.so", "/usr/lib/x86_64-linux-gnu/libfreebl3.so",
	"/usr/lib/x86_64-linux-gnu/libfreeblpriv3.so", "/usr/lib/x86_64-linux-gnu/libnssckbi.so",
}

// browserImage makes an image of this machine's own Chromium, which takes some
// seconds, and keeps it for the next run of the tests. It returns its name.
func browserImage(t *testing.T) string {
	t.Helper()
	binary, err := os.Stat("/usr/lib/chromium/chromium")
	if err != nil {
		const other = "the image is made of Debian's Chromium, and this machine has another one:"
		if required("chromium") {
			t.Fatal(other, err)
		}
		t.Skip(other, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "2 %d %v", binary.Size(), binary.ModTime()))
	tag := hex.EncodeToString(sum[:6])
	ref := "glovebox/test-chromium:" + tag
	engine := engineClient()
	defer engine.CloseIdleConnections()
	answer, err := engine.Get("http://engine/images/" + ref + "/json")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return ref
	}
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := browserTree(w)
		w.CloseWithError(err)
		written <- err
	}()
	query := url.Values{
		"fromSrc": {"-"}, "repo": {"glovebox/test-chromium"}, "tag": {tag},
		"changes": {"ENV PATH=/usr/bin:/bin", "LABEL glovebox-test=chromium", `CMD ["sh"]`},
	}
	answer, err = engine.Post("http://engine/images/create?"+query.Encode(), "application/x-tar", r)
	r.Close()
	if treeErr := <-written; treeErr != nil && err == nil {
		err = treeErr
	}
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil || answer.StatusCode != http.StatusOK || strings.Contains(string(said), `"error"`) {
		t.Fatalf("import %s: %s, %v, %s", ref, answer.Status, err, said)
	}
	return ref
}

// browserTree writes a root tree with a browser and a static shell.
func browserTree(to io.Writer) error {
	t := &tree{w: tar.NewWriter(to), seen: map[string]bool{}}
	for _, dir := range []string{"dev", "home", "proc", "run", "sys", "workspace"} {
		t.put(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
	}
	for _, dir := range []string{"tmp", "var/tmp"} {
		t.put(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o1777}, nil)
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/nsswitch.conf": "hosts: files dns\n",
	} {
		t.put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}, strings.NewReader(text))
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return err
	}
	t.file(busybox, "/bin/busybox")
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" {
			t.put(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	linked, err := exec.Command("ldd", "/usr/lib/chromium/chromium").Output()
	if err != nil {
		return err
	}
	for _, word := range strings.Fields(string(linked)) {
		if strings.HasPrefix(word, "/") {
			t.file(word, word)
		}
	}
	for _, path := range browserPaths {
		err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(name, "/locales/") && !strings.HasPrefix(d.Name(), "en-US") {
				return nil // not everything is on every machine
			}
			t.file(name, name)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if t.err != nil {
		return t.err
	}
	return t.w.Close()
}

// tree writes files into a tar and keeps the first error.
type tree struct {
	w    *tar.Writer
	seen map[string]bool
	err  error
}

// file adds what a path of this machine leads to; one that leads nowhere is left out.
func (t *tree) file(from, as string) {
	info, err := os.Stat(from)
	if err != nil || !info.Mode().IsRegular() || t.seen[as] {
		return
	}
	t.seen[as] = true
	f, err := os.Open(from)
	if err != nil {
		t.err = err
		return
	}
	defer f.Close()
	t.put(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(as, "/"), Mode: int64(info.Mode().Perm()), Size: info.Size()}, f)
}

func (t *tree) put(h *tar.Header, body io.Reader) {
	if t.err == nil {
		t.err = t.w.WriteHeader(h)
	}
	if t.err == nil && body != nil {
		_, t.err = io.Copy(t.w, body)
	}
}
