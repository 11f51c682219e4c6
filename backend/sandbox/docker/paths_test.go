package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// mapped is a provider whose engine knows a directory by another name than this
// program, as one in a container does: engine and here are those names.
func mapped(t *testing.T) (p *Provider, engine, here string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a directory at a second place")
	}
	p = ownProvider(t)
	dir := t.TempDir()
	for at := dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil { // for the users of sandboxes
			t.Fatal(err)
		}
	}
	engine, here = filepath.Join(dir, "engine's"), filepath.Join(dir, "ours")
	for _, d := range []string{engine, here} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bind(t, engine, here, 0)
	p.opts.PathMap = map[string]string{engine: here}
	seen, err := p.opts.configured()
	if err != nil {
		t.Fatal(err)
	}
	p.elsewhere.Store(seen)
	p.unseen.Store(true)
	return p, engine, here
}

// bind mounts a directory at a second place for the time of a test.
func bind(t *testing.T, from, at string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", at, err)
		}
	})
	if flags != 0 {
		if err := unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// A workspace that the engine knows by another name is mounted by that name: the
// same files on both sides, and again after a stop.
func TestAllocate_mappedPaths(t *testing.T) {
	p, engine, here := mapped(t)
	ws := filepath.Join(here, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(ws, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(ws, "a"), []byte("from here\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := mustAllocate(t, p, sandbox.Spec{Workspace: ws})
	if out, code := run(t, p, h, "cat a; echo from inside >b; ls -A"); code != 0 || out != "from here\na\nb" {
		t.Errorf("inside: %q, %d", out, code)
	}
	if body, err := os.ReadFile(filepath.Join(ws, "b")); err != nil || string(body) != "from inside\n" {
		t.Errorf("here: %q, %v", body, err)
	}
	found := false
	for _, m := range mustInspect(t, p, h).HostConfig.Mounts {
		found = found || m.Source == filepath.Join(engine, "ws")
	}
	if !found || p.MountsHost() {
		t.Errorf("mounted by the engine's name: %v; the data directory can be mounted: %v", found, p.MountsHost())
	}
	info, err := p.Ping(t.Context())
	if err != nil || info.Channel != "exec" || info.Mounts || !strings.Contains(info.Shared, here+" ("+engine+" there)") {
		t.Errorf("Ping = %+v, %v", info, err)
	}
	if err := p.Stop(t.Context(), refOf(t, h)); err != nil {
		t.Fatal(err)
	}
	h, err = p.Start(t.Context(), refOf(t, h))
	if err != nil {
		t.Fatal(err)
	}
	if out, code := run(t, p, h, "cat b"); code != 0 || out != "from inside" {
		t.Errorf("after a start: %q, %d", out, code)
	}
	// What it has mounted is judged again at a start.
	if err := p.Stop(t.Context(), refOf(t, h)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(ws, ws+".before"), os.Symlink("/etc", ws)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), refOf(t, h)); err == nil || !strings.Contains(err.Error(), "deny list") {
		t.Errorf("Start over a link = %v", err)
	}
}

// A source that the engine does not have, has otherwise, or must not give away is
// refused by the field that names it, and nothing is made.
func TestAllocate_unmappedPaths(t *testing.T) {
	p, engine, here := mapped(t)
	sub := func(name string) string {
		dir := filepath.Join(here, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	outside := t.TempDir()
	bind(t, outside, sub("covered"), 0)
	sub("me/.ssh/x")
	frozen := filepath.Join(outside, "frozen")
	if err := errors.Join(os.Mkdir(frozen, 0o755), os.Mkdir(filepath.Join(outside, "real"), 0o755)); err != nil {
		t.Fatal(err)
	}
	bind(t, filepath.Join(outside, "real"), frozen, unix.MS_RDONLY)
	p.elsewhere.Load().paths = append(p.elsewhere.Load().paths, shared{filepath.Join(outside, "real"), frozen}, shared{"/var/lib/docker/x", filepath.Join(outside, "real")})
	if err := os.Mkdir(filepath.Join(outside, "wrong"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.elsewhere.Load().paths = append(p.elsewhere.Load().paths, shared{filepath.Join(engine, "ws"), filepath.Join(outside, "wrong")})
	ws := sub("ws")
	for _, test := range []struct {
		name, field, want string
		spec              sandbox.Spec
	}{
		{"a workspace elsewhere", "workspace", "both see: ", sandbox.Spec{Workspace: outside}},
		{"a mount elsewhere", "mounts[0].source", "both see: ", sandbox.Spec{Workspace: ws, Mounts: []sandbox.Mount{{Source: outside, Target: "/x", Mode: sandbox.ReadOnly}}}},
		{"another file system on top", "workspace", "other files there", sandbox.Spec{Workspace: filepath.Join(here, "covered")}},
		{"read-only here", "workspace", "read-only for this program", sandbox.Spec{Workspace: frozen}},
		{"the engine's own files", "workspace", "deny list", sandbox.Spec{Workspace: filepath.Join(outside, "real")}},
		{"keys", "workspace", ".ssh", sandbox.Spec{Workspace: filepath.Join(here, "me/.ssh/x")}},
		{"a map that is wrong", "workspace", "correct docker.path_map", sandbox.Spec{Workspace: filepath.Join(outside, "wrong")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := p.Allocate(t.Context(), "root", test.spec)
			var field *sandbox.FieldError
			if !errors.As(err, &field) || field.Field != test.field || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Allocate = %v, want a fault of %s with %q", err, test.field, test.want)
			}
		})
	}
	if _, err := New(Options{DataDir: t.TempDir(), Instance: "x", PathMap: map[string]string{"relative": "/x"}}); err == nil {
		t.Error("a relative path was taken")
	}
}

func TestMountPointIn(t *testing.T) {
	const list = `22 1 8:1 / / rw,relatime - ext4 /dev/root rw
30 22 8:1 /srv /work rw - ext4 /dev/root rw
31 30 0:9 / /work/a\040b ro,nosuid - tmpfs none rw
32 22 8:1 /x /worker rw - ext4 /dev/root rw
`
	for path, want := range map[string]string{"/work": "/work", "/work/x": "/work", "/work/a b/c": "/work/a b ro", "/worker/x": "/worker", "/workshop": "/"} {
		at, ro, err := mountPointIn(strings.NewReader(list), path)
		if ro {
			at += " ro"
		}
		if err != nil || at != want {
			t.Errorf("mountPointIn(%s) = %q, %v, want %q", path, at, err, want)
		}
	}
}

// A program outside sees the mounts of a container that files are copied into,
// and does not take it for its own.
func TestContainerOf(t *testing.T) {
	id := strings.Repeat("0af", 21) + "0"
	for _, tt := range []struct{ name, line, want string }{
		{"docker", "91 80 254:0 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw - ext4 /dev/vda rw", id},
		{"podman", "91 80 254:0 /containers/overlay-containers/" + id + "/userdata/hosts /etc/hosts rw - ext4 /dev/vda rw", id},
		{"copied into", "58 46 254:0 /var/lib/docker/containers/" + id + "/hostname /var/lib/docker/overlay2/x/merged/etc/hostname rw - ext4 /dev/vda rw", ""},
		{"none", "46 1 254:0 / / rw - ext4 /dev/vda rw", ""},
	} {
		if got := containerOf([]byte(tt.line + "\n")); got != tt.want {
			t.Errorf("%s: container %q, want %q", tt.name, got, tt.want)
		}
	}
}
