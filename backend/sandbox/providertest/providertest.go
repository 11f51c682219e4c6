// Package providertest is the suite that every [sandbox.Provider] passes,
// whatever its wall: what a sandbox's life looks like, what it leaves behind
// (nothing), and what a command in it can reach.
//
// A provider's test hands in a [Harness] and calls [Test]:
//
//	func TestProvider(t *testing.T) {
//		providertest.Test(t, providertest.Harness{New: ..., Spec: ..., Kill: ...})
//	}
//
// The suite speaks to guests through guest/client and runs commands with the
// sandbox's own sh. It knows nothing of engines and kernels: what only a wall
// can do, or see, is a function of the Harness.
package providertest

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Harness is one wall, as the suite needs it.
type Harness struct {
	// New returns a provider as a process of the data directory would make it.
	// Two calls with the same arguments are two such processes.
	New func(t *testing.T, dataDir, instance string) sandbox.Provider

	// Secret is what the providers derive their guests' keys from.
	Secret []byte

	// Spec asks for the smallest sandbox on a workspace, with no network.
	Spec func(workspace string) sandbox.Spec

	// Kill ends a sandbox's first process from outside, by SIGKILL. Remove
	// removes a sandbox and Pause freezes it; nil where the wall knows neither.
	Kill   func(t *testing.T, h sandbox.Handle)
	Remove func(t *testing.T, h sandbox.Handle)
	Pause  func(t *testing.T, h sandbox.Handle)

	// Left names what an instance still has: containers, processes, directories.
	Left func(t *testing.T, dataDir, instance string) []string

	// Foreign is what Attach answers for a sandbox of another instance:
	// sandbox.ErrForeign where nil.
	Foreign error

	// OneUser says that the wall cannot serve workspaces of other users than
	// the one who runs the tests.
	OneUser bool

	// NoPath says that the wall refuses by name to mount a path of this name; nil
	// for one that mounts all.
	NoPath func(name string) bool
}

// Test runs the suite.
func Test(t *testing.T, h Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"allocate answers with a ready sandbox", testAllocate},
		{"allocate tells its steps", testSteps},
		{"concurrent allocates make distinct sandboxes", testConcurrent},
		{"attach after a crash finds the same sandbox", testAttach},
		{"concurrent attaches start it once", testConcurrentAttach},
		{"release is idempotent", testRelease},
		{"stopped starts again with its files", testStopped},
		{"a stop leaves word of what it ended", testStopBusy},
		{"killed is stopped and says so", testKilled},
		{"removed is lost", testRemoved},
		{"paused goes on", testPaused},
		{"watch sees what others do", testWatch},
		{"list finds what this instance made", testList},
		{"remove works by address", testRemoveVerb},
		{"another instance keeps its hands off", testForeign},
		{"malformed addresses are refused", testMalformedRefs},
		{"a bad spec is refused before anything exists", testBadSpecs},
		{"a cancelled allocate leaves nothing", testCancel},
		{"isolation, workspace of a user", func(t *testing.T, f *fixture) { testIsolation(t, f, 1000) }},
		{"isolation, workspace of root", func(t *testing.T, f *fixture) { testIsolation(t, f, 0) }},
		{"mounts", testMounts},
		{"a fork bomb ends with its call", testForkBomb},
		{"a guest outlives a full table of processes", testFullTable},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newFixture(t, h)) })
	}
}

// fixture is one data directory with its provider.
type fixture struct {
	Harness
	dataDir  string
	instance string
	provider sandbox.Provider

	mu    sync.Mutex
	roots []string
}

func newFixture(t *testing.T, h Harness) *fixture {
	t.Helper()
	f := &fixture{Harness: h, dataDir: t.TempDir(), instance: "test-" + strings.ToLower(rand())}
	f.provider = h.New(t, f.dataDir, f.instance)
	t.Cleanup(func() {
		for _, root := range f.roots {
			if err := f.provider.Release(context.WithoutCancel(t.Context()), root); err != nil {
				t.Errorf("Release(%s) = %v", root, err)
			}
		}
		f.nothingLeft(t)
	})
	return f
}

// nothingLeft fails the test when the instance has anything left.
func (f *fixture) nothingLeft(t *testing.T) {
	t.Helper()
	if left := f.Left(t, f.dataDir, f.instance); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// released makes the end of the test release a root task.
func (f *fixture) released(root string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.roots = append(f.roots, root)
	return root
}

// allocate makes a sandbox for a root task on a fresh workspace.
func (f *fixture) allocate(t *testing.T, root string) sandbox.Handle {
	t.Helper()
	h, err := f.provider.Allocate(t.Context(), f.released(root), f.Spec(f.workspace(t, os.Getuid())))
	if err != nil {
		t.Fatalf("Allocate(%s) = %v", root, err)
	}
	return h
}

// workspace makes a directory that belongs to uid and that uid can get to,
// which those of t.TempDir are not.
func (f *fixture) workspace(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "glovebox-workspace-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if uid != os.Getuid() {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Skipf("only root makes a workspace of another user: %v", err)
		}
	}
	return dir
}

// guest returns a client of a sandbox's guest.
func (f *fixture) guest(t *testing.T, h sandbox.Handle) *client.Client {
	t.Helper()
	c := client.New(client.Options{Dial: h.Dial, GuestID: h.GuestID, Key: client.DeriveKey(f.Secret, h.GuestID)})
	t.Cleanup(func() { c.Close() })
	return c
}

// sh runs a script in a sandbox.
func (f *fixture) sh(t *testing.T, h sandbox.Handle, script string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := client.New(client.Options{Dial: h.Dial, GuestID: h.GuestID, Key: client.DeriveKey(f.Secret, h.GuestID)})
	defer c.Close()
	outcome, err := c.Run(ctx, execenv.Caller{}, execenv.Command{
		Call:    execenv.Call{ID: rand()},
		Argv:    []string{"/bin/sh", "-c", script},
		Timeout: 20 * time.Second,
	}, nil)
	if err != nil {
		t.Fatalf("run %q: %v", script, err)
	}
	text := bytes.Join([][]byte{outcome.Stdout.Head, outcome.Stdout.Tail, outcome.Stderr.Head}, nil)
	return strings.TrimSpace(string(text)), outcome.ExitCode
}

// must is sh for a script that has to work.
func (f *fixture) must(t *testing.T, h sandbox.Handle, script string) string {
	t.Helper()
	output, code := f.sh(t, h, script)
	if code != 0 {
		t.Fatalf("%q ended with %d: %s", script, code, output)
	}
	return output
}

// ref returns the durable address of a handle.
func ref(t *testing.T, h sandbox.Handle) sandbox.Ref {
	t.Helper()
	r, err := h.Ref()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// condition inspects a sandbox.
func (f *fixture) condition(t *testing.T, h sandbox.Handle) sandbox.Condition {
	t.Helper()
	inspector, ok := f.provider.(sandbox.Inspector)
	if !ok {
		t.Fatal("the provider is no sandbox.Inspector")
	}
	c, err := inspector.Inspect(t.Context(), ref(t, h))
	if err != nil {
		t.Fatalf("Inspect = %v", err)
	}
	if c.ObservedAt.IsZero() || c.Source == "" {
		t.Errorf("Inspect = %+v, without its age or source", c)
	}
	return c
}

// is fails the test when a condition is not the wanted one.
func is(t *testing.T, got sandbox.Condition, value sandbox.State, cause string) {
	t.Helper()
	if got.Value != value || got.Cause != cause {
		t.Errorf("condition = %s, %q, want %s, %q", got.Value, got.Cause, value, cause)
	}
}
