package docker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/system"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// A label goes to the engine in the one form that it takes, is looked at again
// like any mount, and is refused for paths that the form cannot hold.
func TestAllocate_labels(t *testing.T) {
	p := ownProvider(t)
	base := t.TempDir()
	dir := func(name string) string {
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ws, odd, fixed, colon := dir("ws"), dir(`a b,"$HOME"`), dir("fixed"), dir("a:b")
	spec := sandbox.Spec{Workspace: ws, Mounts: []sandbox.Mount{
		{Source: ws, Target: "/workspace", SELinux: sandbox.SELinuxShared},
		{Source: odd, Target: "/odd", SELinux: sandbox.SELinuxPrivate},
		{Source: fixed, Target: "/workspace/fixed", Mode: sandbox.ReadOnly, SELinux: sandbox.SELinuxShared},
		{Source: colon, Target: "/plain"},
	}}
	h := mustAllocate(t, p, spec)
	c := mustInspect(t, p, h)
	want := []string{ws + ":/workspace:z", odd + ":/odd:Z", fixed + ":/workspace/fixed:ro,z"}
	if got := slices.Clone(c.HostConfig.Binds); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("Binds = %q, want %q", got, want)
	}
	const script = `echo x >f && cat f && echo y >/odd/f && echo z >/plain/f && ! (echo no >fixed/f) 2>/dev/null && echo refused`
	if got, code := run(t, p, h, script); code != 0 || got != "x\nrefused" {
		t.Errorf("in the mounts: %q, %d", got, code)
	}
	for _, name := range []string{ws, odd, colon} {
		if _, err := os.Stat(filepath.Join(name, "f")); err != nil {
			t.Error(err)
		}
	}
	line := sandbox.ShellLine(p.makeArguments(t.Context(), c))
	if !strings.Contains(line, "--volume "+ws+":/workspace:z") || !strings.Contains(line, "--mount") {
		t.Errorf("by hand: %s", line)
	}
	d, err := p.Describe(t.Context(), refOf(t, h))
	if err != nil || len(d.Mounts) != 5 { // and HOME
		t.Errorf("Describe = %+v, %v", d.Mounts, err)
	}

	if err := p.Stop(t.Context(), refOf(t, h)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(odd, odd+".away"), os.Symlink("/etc", odd)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Attach(t.Context(), refOf(t, h)); !errors.Is(err, sandbox.ErrStopped) {
		t.Errorf("Attach over a link to /etc = %v, want %v", err, sandbox.ErrStopped)
	}

	for _, m := range []sandbox.Mount{
		{Source: colon, Target: "/x", SELinux: sandbox.SELinuxShared},
		{Source: ws, Target: "/x:y", SELinux: sandbox.SELinuxShared},
		{Source: fixed, Target: "/x", SELinux: "z"},
		{Source: "name", Target: "/x", Kind: sandbox.Volume, SELinux: sandbox.SELinuxShared},
	} {
		_, err := p.Allocate(t.Context(), "root", sandbox.Spec{Workspace: ws, Mounts: []sandbox.Mount{m}})
		var field *sandbox.FieldError
		if !errors.As(err, &field) || field.Field != "mounts[0].selinux" {
			t.Errorf("Allocate with %+v = %v", m, err)
		}
	}
}

// On an engine with SELinux the guest's own files are labelled, or it could not
// be started, and a workspace without a label is pointed out.
func TestLabels_onAnEngineThatNeedsThem(t *testing.T) {
	needs := &facts{Info: system.Info{SecurityOptions: []string{"name=seccomp,profile=default", "name=selinux"}}}
	pl := plan{facts: needs, placed: []sandbox.Mount{{Source: "/ws", Target: "/workspace"}}}
	mounts, binds := pl.engineMounts("/data/guest", box{path: "/data/boxes/1"})
	want := []string{"/data/guest:" + insideGuest + ":ro,z", "/data/boxes/1/box:" + insideBox + ":z", "/data/boxes/1/home:" + insideHome + ":z"}
	if !slices.Equal(binds, want) || len(mounts) != 1 || mounts[0].Source != "/ws" {
		t.Errorf("engineMounts = %v, %q, want %q", mounts, binds, want)
	}
	p := &Provider{opts: Options{DataDir: "/data:1"}, endpoint: endpoint{host: "unix://" + defaultSocket}}
	var field *sandbox.FieldError
	if err := p.checkLabels(sandbox.Spec{}, nil, &facts{}); err != nil {
		t.Errorf("without SELinux: %v", err)
	}
	p.elsewhere.Store(&elsewhere{})
	if err := p.checkLabels(sandbox.Spec{}, nil, needs); !errors.As(err, &field) || field.Field != "data" {
		t.Errorf("a data directory that cannot be labelled: %v", err)
	}
}
