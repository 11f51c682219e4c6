package providertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func testMalformedRefs(t *testing.T, f *fixture) {
	for _, r := range []sandbox.Ref{"", "nonsense", "http://127.0.0.1:1#x", "docker://#", "namespace://local#", "docker:///s#../../etc"} {
		if _, err := f.provider.Attach(t.Context(), r); !errors.Is(err, sandbox.ErrRef) {
			t.Errorf("Attach(%q) = %v, want %v", r, err, sandbox.ErrRef)
		}
	}
}

func testBadSpecs(t *testing.T, f *fixture) {
	dir := f.workspace(t, os.Getuid())
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	mount := func(m sandbox.Mount) func(*sandbox.Spec) {
		return func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{m} }
	}
	resource := func(key, value string) func(*sandbox.Spec) {
		return func(s *sandbox.Spec) { s.Resources = map[string]string{key: value} }
	}
	for _, test := range []struct {
		name  string
		field string
		edit  func(*sandbox.Spec)
	}{
		{"another wall", "wall", func(s *sandbox.Spec) { s.Wall = sandbox.WallRemote }},
		{"unknown user", "user", func(s *sandbox.Spec) { s.User = "nobody" }},
		{"unknown network", "network.mode", func(s *sandbox.Spec) { s.Network.Mode = "bridge" }},
		{"a host that is none", "network.allow[0]", func(s *sandbox.Spec) {
			s.Network = sandbox.Network{Mode: sandbox.NetworkProxy, Allow: []string{"http://host"}}
		}},
		{"relative workdir", "workdir", func(s *sandbox.Spec) { s.Workdir = "workspace" }},
		{"missing workspace", "workspace", func(s *sandbox.Spec) { s.Workspace = missing }},
		{"no workspace", "workspace", func(s *sandbox.Spec) { s.Workspace = "" }},
		{"file as workspace", "workspace", func(s *sandbox.Spec) { s.Workspace = file }},
		{"the root as workspace", "workspace", func(s *sandbox.Spec) { s.Workspace = "/" }},
		{"our own data as workspace", "workspace", func(s *sandbox.Spec) { s.Workspace = f.dataDir }},
		{"relative source", "mounts[0].source", mount(sandbox.Mount{Source: "x", Target: "/x"})},
		{"missing source", "mounts[0].source", mount(sandbox.Mount{Source: missing, Target: "/x"})},
		{"link to /proc", "mounts[0].source", mount(sandbox.Mount{Source: link, Target: "/x"})},
		{"engine's socket", "mounts[0].source", mount(sandbox.Mount{Source: "/var/run/docker.sock", Target: "/x"})},
		{"relative target", "mounts[0].target", mount(sandbox.Mount{Source: dir, Target: "x"})},
		{"the guest's directory", "mounts[0].target", mount(sandbox.Mount{Source: dir, Target: "/run/glovebox/x"})},
		{"mode", "mounts[0].mode", mount(sandbox.Mount{Source: dir, Target: "/x", Mode: "rx"})},
		{"nas", "mounts[0].kind", mount(sandbox.Mount{Source: "x", Target: "/x", Kind: sandbox.NAS})},
		{"pvc", "mounts[0].kind", mount(sandbox.Mount{Source: "x", Target: "/x", Kind: sandbox.PVC})},
		{"two on one target", "mounts[1].target", func(s *sandbox.Spec) {
			s.Mounts = []sandbox.Mount{{Source: dir, Target: "/x"}, {Source: file, Target: "/x/"}}
		}},
		{"unknown resource", "resources.gpu", resource("gpu", "1")},
		{"memory in words", "resources.memory", resource("memory", "2 gigs")},
		{"no memory", "resources.memory", resource("memory", "0")},
		{"more memory than there is", "resources.memory", resource("memory", "900t")},
		{"the system's directory, by a detour", "mounts[0].target", mount(sandbox.Mount{Source: dir, Target: "/workspace/../etc"})},
		{"negative processors", "resources.cpus", resource("cpus", "-1")},
		{"no processes", "resources.pids", resource("pids", "0")},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := f.Spec(dir)
			test.edit(&spec)
			_, err := f.provider.Allocate(t.Context(), f.released("root-bad"), spec)
			var field *sandbox.FieldError
			if !errors.As(err, &field) || !errors.Is(err, sandbox.ErrSpec) {
				t.Fatalf("Allocate = %v, want a sandbox.FieldError", err)
			}
			if field.Field != test.field || field.Reason == "" {
				t.Errorf("fault of %q: %s; want one of %q", field.Field, field.Reason, test.field)
			}
		})
	}
	f.nothingLeft(t)
	if _, err := os.Stat(missing); err == nil {
		t.Error("a missing source was created")
	}
}

func testCancel(t *testing.T, f *fixture) {
	p, ok := f.provider.(sandbox.Progress)
	if !ok {
		t.Skip("the provider does not tell its steps")
	}
	for _, step := range []string{"", "create", "start"} {
		ctx, cancel := context.WithCancel(t.Context())
		if step == "" {
			cancel()
		}
		_, err := p.AllocateWithProgress(ctx, f.released("root-"+step), f.Spec(f.workspace(t, os.Getuid())), func(s sandbox.Step) {
			if s.Name == step {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %q: Allocate = %v", step, err)
		}
		f.nothingLeft(t)
	}
}
