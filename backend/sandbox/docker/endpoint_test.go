package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func sha256hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// ownHome gives a test a home without any of the machine's settings, and returns
// it with what writes a file below it.
func ownHome(t *testing.T) (home string, write func(path, body string)) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	for _, name := range []string{"DOCKER_CONFIG", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, "")
	}
	return home, func(path, body string) {
		t.Helper()
		path = filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// metaOf is where the docker command keeps a context, below the home directory.
func metaOf(context string) string {
	return filepath.Join(".docker", "contexts", "meta", sha256hex(context), "meta.json")
}

func TestFindEndpoint(t *testing.T) {
	_, write := ownHome(t)
	write(metaOf("mine"), `{"Name":"mine","Endpoints":{"docker":{"Host":"unix:///tmp/x y/d.sock"}}}`)
	write(metaOf("far"), `{"Endpoints":{"docker":{"Host":"ssh://me@far"}}}`)
	write(metaOf("empty"), `{"Name":"empty","Endpoints":{}}`)
	write(metaOf("null"), `null`)
	write(metaOf("broken"), `{"Name":`)
	write(metaOf("windows"), `{"Endpoints":{"docker":{"Host":"npipe:////./pipe/docker"}}}`)

	for _, test := range []struct {
		name, setting, host, context string
		config                       string // the current context, or a whole file in braces
		want, why                    string
		fault                        []string // what the error says
	}{
		{name: "default", want: "unix:///var/run/docker.sock", why: "default socket"},
		{name: "current context", config: "mine", want: "unix:///tmp/x y/d.sock", why: "current docker context (mine)"},
		{name: "the current context is the default", config: "default", want: "unix:///var/run/docker.sock", why: "default socket"},
		{name: "DOCKER_CONTEXT wins over it", config: "far", context: "mine", want: "unix:///tmp/x y/d.sock", why: "DOCKER_CONTEXT (mine)"},
		{name: "DOCKER_CONTEXT of the default", config: "far", context: "default", want: "unix:///var/run/docker.sock", why: "DOCKER_CONTEXT (default)"},
		{name: "DOCKER_HOST wins over that", context: "far", host: "unix:///h.sock", want: "unix:///h.sock", why: "DOCKER_HOST"},
		{name: "the setting wins over all", setting: "unix:///s.sock", host: "unix:///h.sock", context: "far", config: "mine", want: "unix:///s.sock", why: "setting"},
		{name: "ssh", context: "far", want: "ssh://me@far", why: "DOCKER_CONTEXT (far)"},
		{name: "another machine", host: "tcp://192.0.2.1:2375", want: "tcp://192.0.2.1:2375", why: "DOCKER_HOST"},
		{name: "loopback", host: "tcp://127.0.0.1:2375", want: "tcp://127.0.0.1:2375", why: "DOCKER_HOST"},

		{name: "unknown context", context: "nope", fault: []string{"DOCKER_CONTEXT (nope) does not exist", "docker context ls"}},
		{name: "unknown current context", config: "gone", fault: []string{"the current docker context (gone)", "docker context use"}},
		{name: "a context without an engine", config: "empty", fault: []string{"current docker context (empty)", "names no engine", "docker context create"}},
		{name: "a context that is null", context: "null", fault: []string{"DOCKER_CONTEXT (null)", "names no engine"}},
		{name: "a broken context", config: "broken", fault: []string{"current docker context (broken)", "meta.json", "docker context create"}},
		{name: "a context of another system", config: "windows", fault: []string{"current docker context (windows)", "npipe", "use unix, tcp or ssh"}},
		{name: "a broken configuration", config: `{"currentContext":`, fault: []string{"config.json", "DOCKER_HOST"}},
		{name: "a configuration of another kind", config: `{"currentContext":7}`, fault: []string{"config.json", "DOCKER_HOST"}},
		{name: "no scheme", host: "/var/run/docker.sock", fault: []string{"DOCKER_HOST", "no scheme", "write unix:///"}},
		{name: "a scheme alone", setting: "unix://", fault: []string{"the docker host setting", "write unix:///"}},
		{name: "a relative path", host: "unix://docker.sock", fault: []string{"DOCKER_HOST", "not absolute", "write unix:///"}},
		{name: "no port", host: "tcp://192.0.2.1", fault: []string{"DOCKER_HOST", "tcp://HOST:PORT"}},
		{name: "ssh with a password", host: "ssh://me:secret@far", fault: []string{"DOCKER_HOST", "password", "use a key"}},
		{name: "ssh without a host", host: "ssh://-oProxyCommand=x", fault: []string{"DOCKER_HOST", "no host", "ssh://USER@HOST"}},
		{name: "unknown scheme", host: "fd://", fault: []string{"DOCKER_HOST"}},
		{name: "another system's scheme", host: "npipe:////./pipe/docker", fault: []string{"DOCKER_HOST", "npipe", "use unix, tcp or ssh"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("DOCKER_HOST", test.host)
			t.Setenv("DOCKER_CONTEXT", test.context)
			config := test.config
			if !strings.HasPrefix(config, "{") {
				config = `{"currentContext":"` + config + `"}`
			}
			write(".docker/config.json", config)
			got, err := findEndpoint(test.setting, usualSockets())
			if test.fault != nil {
				for _, want := range test.fault {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("findEndpoint = %v, %v; want a fault that says %q", got, err, want)
					}
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("a password is told: %v", err)
				}
				return
			}
			if err != nil || got.host != test.want || !strings.Contains(got.why, test.why) {
				t.Errorf("findEndpoint = %+v, %v; want %q because of %q", got, err, test.want, test.why)
			}
			if _, err := sandbox.EncodeRef(got.baseURL(), someID); err != nil {
				t.Error(err)
			}
		})
	}
}

// Where nobody says which engine, its usual places are looked at in order.
func TestSockets(t *testing.T) {
	home, write := ownHome(t)
	usual := sockets{
		docker: filepath.Join(home, "run", "docker.sock"), podman: filepath.Join(home, "podman.sock"),
		inHome: []string{".docker/desktop/docker.sock"}, runtime: filepath.Join(home, "user"),
	}
	want := func(path, why string) {
		t.Helper()
		got, err := findEndpoint("", usual)
		if err != nil || got.host != "unix://"+filepath.Join(home, path) || got.why != why {
			t.Errorf("findEndpoint = %+v, %v; want %s, %s", got, err, path, why)
		}
	}
	want("run/docker.sock", "the default socket") // with nothing there, the one to start
	for _, next := range []struct{ path, why string }{
		{"podman.sock", "podman's socket"},
		{"user/podman/podman.sock", "the socket of the user's podman"},
		{".docker/desktop/docker.sock", "the socket of Docker Desktop"},
		{"user/docker.sock", "the rootless engine's socket"},
		{"run/docker.sock", "the default socket"},
	} {
		write(next.path, "")
		want(next.path, next.why)
	}
}

// A context's engine is the one that is talked to, also by a path with a space.
func TestPing_ofTheCurrentContext(t *testing.T) {
	host := (&stubEngine{newest: "1.41", oldest: "1.12"}).start(t)
	_, write := ownHome(t)
	if !strings.Contains(host, " ") {
		t.Fatalf("%s has no space", host)
	}
	write(metaOf("mine"), `{"Name":"mine","Endpoints":{"docker":{"Host":"`+host+`"}}}`)
	write(".docker/config.json", `{"currentContext":"mine"}`)
	info, err := stubProvider(t, "").Ping(t.Context())
	if err != nil || info.Version != "stub" || info.Endpoint != host || info.Why != "the current docker context (mine)" {
		t.Errorf("Ping = %+v, %v", info, err)
	}
}

// A setting that names no engine keeps nobody from anything else: what needs the
// engine says what to mend.
func TestNew_withoutAnEngine(t *testing.T) {
	ownHome(t)
	t.Setenv("DOCKER_CONTEXT", "nope")
	p := stubProvider(t, "")
	info, err := p.Ping(t.Context())
	if !errors.Is(err, sandbox.ErrUnreachable) || !Refused(err) || !strings.Contains(err.Error(), "DOCKER_CONTEXT (nope) does not exist") || info.Why != "DOCKER_CONTEXT (nope)" {
		t.Errorf("Ping = %+v, %v", info, err)
	}
	for name, do := range map[string]func() error{
		"allocate": func() error {
			_, err := p.Allocate(t.Context(), "root", sandbox.Spec{Workspace: t.TempDir()})
			return err
		},
		"release": func() error { return p.Release(t.Context(), "root") },
		"list":    func() error { _, err := p.List(t.Context()); return err },
		"pull":    func() error { return p.Pull(t.Context(), "debian:12", nil) },
	} {
		if err := do(); !errors.Is(err, sandbox.ErrUnreachable) || !strings.Contains(err.Error(), "DOCKER_CONTEXT (nope)") {
			t.Errorf("%s = %v", name, err)
		}
	}
}

// No address that somebody sets makes the search panic, and what it takes for good
// makes a reference.
func FuzzCheckEndpoint(f *testing.F) {
	for _, seed := range []string{"", "unix:///a b", "unix://", "tcp://[::1]:1", "tcp://:1", "tcp://x", "ssh://a:b@c", "ssh://a@[::1]:2/s", "ssh://%zz", "://", "a://b", "http://x:1/", "npipe:////./x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, host string) {
		e, err := checkEndpoint(endpoint{host: host, why: "test"})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "test is ") {
				t.Errorf("the error does not say what was set: %v", err)
			}
			return
		}
		if _, err := e.client(); err != nil {
			t.Errorf("client of %q: %v", host, err)
		}
		ref, err := sandbox.EncodeRef(e.baseURL(), someID)
		if err != nil {
			t.Errorf("reference on %q: %v", host, err)
		} else if base, id, err := sandbox.DecodeRef(ref); err != nil || base != e.baseURL() || id != someID {
			t.Errorf("reference %q on %q is read as %q, %q, %v", ref, host, base, id, err)
		}
	})
}
