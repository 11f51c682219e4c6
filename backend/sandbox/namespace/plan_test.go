//go:build linux

package namespace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestPlan_refusesByName(t *testing.T) {
	requireWall(t)
	p := newProvider(t, t.TempDir(), "test")
	dir := workspace(t, os.Getuid())
	if err := os.Symlink("/oldroot/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(target string) []sandbox.Mount { return []sandbox.Mount{{Source: "/usr/share", Target: target}} }
	tests := []struct {
		name  string
		field string
		edit  func(*sandbox.Spec)
	}{
		{"docker", "wall", func(s *sandbox.Spec) { s.Wall = sandbox.WallDocker }},
		{"image", "image", func(s *sandbox.Spec) { s.Image = "debian" }},
		{"aio", "wire", func(s *sandbox.Spec) { s.Wire = "aio" }},
		{"the image's user", "user", func(s *sandbox.Spec) { s.User = "image" }},
		{"root", "user", func(s *sandbox.Spec) { s.User = "root" }},
		{"open network", "network.mode", func(s *sandbox.Spec) { s.Network.Mode = sandbox.NetworkOpen }},
		{"volume", "mounts[0].kind", func(s *sandbox.Spec) {
			s.Mounts = []sandbox.Mount{{Source: "v", Target: "/v", Kind: sandbox.Volume}}
		}},
		{"over /proc", "mounts[0].target", func(s *sandbox.Spec) { s.Mounts = at("/proc/sys") }},
		{"over /usr", "mounts[0].target", func(s *sandbox.Spec) { s.Mounts = at("/usr") }},
		{"over the guest", "mounts[0].target", func(s *sandbox.Spec) { s.Mounts = at("/run") }},
		{"over HOME", "mounts[0].target", func(s *sandbox.Spec) { s.Mounts = at("/home") }},
		{"through a link in the workspace", "mounts[0].target", func(s *sandbox.Spec) { s.Mounts = at("/workspace/link/x") }},
		{"workdir over the tree", "workdir", func(s *sandbox.Spec) { s.Workdir = "/usr" }},
		{"more processors than there are", "resources.cpus", func(s *sandbox.Spec) { s.Resources = map[string]string{"cpus": "4000"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := sandbox.Spec{Workspace: dir}
			tt.edit(&spec)
			_, err := p.plan(spec)
			var fault *sandbox.FieldError
			if !errors.As(err, &fault) || fault.Field != tt.field {
				t.Errorf("plan() = %v, want a fault of %s", err, tt.field)
			}
		})
	}
}

func TestPlan_saysWhatIsInTheWay(t *testing.T) {
	requireWall(t)
	if os.Getuid() != 0 {
		t.Skip("only root makes sandboxes of other users")
	}
	dir := workspace(t, 1000)
	inner := filepath.Join(dir, "closed", "inner")
	if err := errors.Join(os.MkdirAll(inner, 0o755), os.Chown(inner, 1000, 1000), os.Chmod(filepath.Dir(inner), 0o700)); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, t.TempDir(), "test")
	var fault *sandbox.FieldError
	_, err := p.plan(sandbox.Spec{Workspace: inner})
	if !errors.As(err, &fault) || fault.Field != "workspace" || !strings.Contains(err.Error(), "chmod o+x "+filepath.Dir(inner)+",") {
		t.Errorf("plan() = %v, want what to do about %s", err, filepath.Dir(inner))
	}
	if err := os.Chmod(p.opts.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = p.plan(sandbox.Spec{Workspace: dir})
	if err == nil || !strings.Contains(err.Error(), "chmod o+x "+p.opts.DataDir+",") || !strings.Contains(err.Error(), "--data") {
		t.Errorf("plan() = %v, want what to do about %s", err, p.opts.DataDir)
	}
	if _, err := p.plan(sandbox.Spec{Workspace: workspace(t, 0)}); err != nil {
		t.Errorf("plan() of root's own = %v", err)
	}
}

func TestPlan_refusesOtherUsersToAPlainOne(t *testing.T) {
	requireWall(t)
	if os.Getuid() != 0 {
		t.Skip("needs root, to run as somebody else")
	}
	data := t.TempDir()
	newProvider(t, data, "test")
	if err := errors.Join(os.Chown(data, 1000, 1000), os.Chown(filepath.Join(data, "boxes"), 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, 1000, data, "root", workspace(t, 0), "")
	if !strings.Contains(s.said, "workspace: ") || !strings.Contains(s.said, "belongs to user 0") {
		t.Errorf("the server said %q, want a refusal of root's workspace", s.said)
	}
}

func TestProbe(t *testing.T) {
	requireWall(t)
	p := newProvider(t, t.TempDir(), "test")
	if err := p.Probe(t.Context()); err != nil {
		t.Errorf("Probe() = %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	err := p.Probe(t.Context())
	if !errors.Is(err, sandbox.ErrNoWall) || !strings.Contains(err.Error(), "install the package bubblewrap") {
		t.Errorf("Probe() without bubblewrap = %v", err)
	}
	p = newProvider(t, t.TempDir(), "test")
	if _, err := p.Allocate(t.Context(), "root", sandbox.Spec{Workspace: workspace(t, os.Getuid())}); !errors.Is(err, sandbox.ErrNoWall) {
		t.Errorf("Allocate() without bubblewrap = %v", err)
	}
}

func TestProbe_tellsAnOldOne(t *testing.T) {
	requireWall(t)
	dir := t.TempDir()
	old := "#!/bin/sh\necho 'bwrap: Unknown option --disable-userns' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte(old), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	p := newProvider(t, t.TempDir(), "test")
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := p.Probe(t.Context()); !errors.Is(err, sandbox.ErrNoWall) || !strings.Contains(err.Error(), "too old") {
		t.Errorf("Probe() = %v", err)
	}
}
