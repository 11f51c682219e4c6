//go:build linux

package namespace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/providertest"
)

var secret = []byte("the secret of a test's data directory")

// requireWall skips a test where bubblewrap is missing, unless CI asked for it.
func requireWall(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("GLOVEBOX_TEST_REQUIRE"), ","), "bwrap") {
		t.Fatal("bwrap is required and not installed")
	}
	t.Skip("bwrap is not installed")
}

func newProvider(t *testing.T, dataDir, instance string) *Provider {
	t.Helper()
	// The directories that the testing package makes are closed to others, and
	// a sandbox may run as another user.
	for dir := dataDir; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	p, err := New(Options{DataDir: dataDir, Instance: instance, Secret: secret, Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestProvider(t *testing.T) {
	requireWall(t)
	providers := map[string]*Provider{} // the latest of each data directory
	of := func(t *testing.T, h sandbox.Handle) (*Provider, *box) {
		t.Helper()
		for _, p := range providers {
			if m, err := p.read(h.SandboxID); err == nil {
				return p, &box{meta: m, dir: filepath.Join(p.boxes, m.ID)}
			}
		}
		t.Fatalf("no provider has %s", h.ShortID)
		return nil, nil
	}
	kill := func(t *testing.T, h sandbox.Handle) {
		t.Helper()
		_, b := of(t, h)
		if err := b.kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	providertest.Test(t, providertest.Harness{
		New: func(t *testing.T, dataDir, instance string) sandbox.Provider {
			providers[dataDir] = newProvider(t, dataDir, instance)
			return providers[dataDir]
		},
		Secret: secret,
		Spec:   func(workspace string) sandbox.Spec { return sandbox.Spec{Workspace: workspace} },
		Kill:   kill,
		Remove: func(t *testing.T, h sandbox.Handle) {
			_, b := of(t, h)
			r, err := b.run()
			if err != nil {
				t.Fatal(err)
			}
			kill(t, h)
			if err := errors.Join(b.delete(), removeCgroups(t.Context(), r.Cgroups)); err != nil {
				t.Fatal(err)
			}
		},
		Left:    left,
		Foreign: sandbox.ErrGone, // another data directory knows nothing of it
		OneUser: os.Getuid() != 0,
	})
}

// left names what is left of the sandboxes of a data directory: boxes, the
// processes whose arguments or files name one, and cgroups without processes.
func left(t *testing.T, dataDir, _ string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dataDir, "boxes", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(names, inside(t, dataDir)...)
}

// inside names the processes that have a directory of a sandbox mounted, as all in it do.
func inside(t *testing.T, dataDir string) []string {
	t.Helper()
	tables, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	// What is mounted is told from the root of its file system on, which need not be ours.
	boxes := filepath.Join(filepath.Base(filepath.Dir(dataDir)), filepath.Base(dataDir), "boxes")
	return slices.DeleteFunc(tables, func(name string) bool {
		mounts, err := os.ReadFile(name)
		return err != nil || !bytes.Contains(mounts, []byte(boxes))
	})
}

// fixture is a provider with one sandbox.
type fixture struct {
	*Provider
	handle    sandbox.Handle
	box       *box
	workspace string
}

func allocate(t *testing.T, uid int, edit func(*sandbox.Spec)) *fixture {
	t.Helper()
	requireWall(t)
	f := &fixture{Provider: newProvider(t, t.TempDir(), "test"), workspace: workspace(t, uid)}
	spec := sandbox.Spec{Workspace: f.workspace}
	if edit != nil {
		edit(&spec)
	}
	var err error
	if f.handle, err = f.Allocate(t.Context(), "root", spec); err != nil {
		t.Fatal(err)
	}
	f.box = &box{meta: meta{ID: f.handle.SandboxID}, dir: filepath.Join(f.boxes, f.handle.SandboxID)}
	t.Cleanup(func() {
		if err := f.Release(context.Background(), "root"); err != nil {
			t.Error(err)
		}
	})
	return f
}

// workspace makes a directory of a user's own that the user can get to.
func workspace(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "glovebox-workspace-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, uid, uid)); err != nil {
		t.Skipf("only root makes a workspace of another user: %v", err)
	}
	return dir
}

func (f *fixture) guest(t *testing.T) *client.Client {
	t.Helper()
	c := f.client(f.box, f.handle.Dial)
	t.Cleanup(func() { c.Close() })
	return c
}

// sh runs a script in the sandbox.
func (f *fixture) sh(t *testing.T, script string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	outcome, err := f.guest(t).Run(ctx, execenv.Caller{}, execenv.Command{
		Call:    execenv.Call{ID: newID()},
		Argv:    []string{"/bin/sh", "-c", script},
		Timeout: 50 * time.Second,
	}, nil)
	if err != nil {
		t.Fatalf("run %q: %v", script, err)
	}
	text := bytes.Join([][]byte{outcome.Stdout.Head, outcome.Stdout.Tail, outcome.Stderr.Head}, nil)
	return strings.TrimSpace(string(text)), outcome.ExitCode
}

func (f *fixture) must(t *testing.T, script string) string {
	t.Helper()
	output, code := f.sh(t, script)
	if code != 0 {
		t.Fatalf("%q ended with %d: %s", script, code, output)
	}
	return output
}
