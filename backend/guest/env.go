//go:build linux

package guest

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// commandEnv is what every command starts with: what the image set, then what
// the guest knows better, then what the provider asked for.
func commandEnv(inherited []string, u user, cfg wire.GuestConfig) []string {
	var env environment
	for _, kv := range inherited {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "GLOVEBOX_"), name == "GOGC", name == "GOMEMLIMIT", name == "GODEBUG", name == "GOTRACEBACK":
			continue
		}
		env.set(kv)
	}
	env.setDefault("PATH=" + defaultPath)
	env.setDefault("LANG=C.UTF-8")
	env.set("HOME=" + u.home)
	env.set("USER=" + u.name)
	env.set("LOGNAME=" + u.name)
	env.set("TERM=dumb")
	// The workspace may belong to another user than git expects.
	env.set("GIT_CONFIG_COUNT=1")
	env.set("GIT_CONFIG_KEY_0=safe.directory")
	env.set("GIT_CONFIG_VALUE_0=*")
	if cfg.Relay != "" {
		env.proxy("http://" + cfg.Relay)
	}
	for _, kv := range cfg.Env {
		env.set(kv)
	}
	return env
}

// environment is a list of NAME=value in which each name occurs once.
type environment []string

func (e *environment) set(kv string) {
	name, _, ok := strings.Cut(kv, "=")
	if !ok || name == "" {
		return
	}
	for i, old := range *e {
		if strings.HasPrefix(old, name+"=") {
			(*e)[i] = kv
			return
		}
	}
	*e = append(*e, kv)
}

// proxy points programs at the relay, in both of the spellings that they look
// for. What is inside the sandbox is reached without it.
func (e *environment) proxy(url string) {
	for _, kv := range wire.ProxyVariables(url) {
		e.set(kv)
	}
}

func (e *environment) setDefault(kv string) {
	name, _, _ := strings.Cut(kv, "=")
	if e.get(name) == "" {
		e.set(kv)
	}
}

func (e environment) get(name string) string {
	for _, kv := range e {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// lookPath finds the file that a command names, as a shell in dir would. It is
// "" when there is none; denied says that one was found that cannot be executed.
func lookPath(name, path, dir string) (file string, denied bool) {
	if strings.Contains(name, "/") {
		path, dir = ".", filepath.Join(dir, filepath.Dir(name))
		if filepath.IsAbs(name) {
			dir = filepath.Dir(name)
		}
		name = filepath.Base(name)
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		f := filepath.Join(d, name)
		info, err := os.Stat(f)
		if err != nil {
			continue
		}
		if info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return f, false
		}
		denied = true
	}
	return "", denied
}

// findShell returns the shell that a script runs in.
func findShell(path string) string {
	for _, name := range []string{"bash", "sh"} {
		if f, _ := lookPath(name, path, "/"); f != "" {
			return f
		}
	}
	return ""
}
