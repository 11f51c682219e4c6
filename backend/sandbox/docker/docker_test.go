package docker

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/providertest"
)

var testSecret = []byte("a secret of the tests")

// newProvider returns a provider on the machine's own engine, with a data
// directory and an instance of its own.
func newProvider(t *testing.T, dataDir, instance string) *Provider {
	t.Helper()
	return newProviderOn(t, Options{}, dataDir, instance)
}

// newProviderOn is newProvider on another engine, or by another way.
func newProviderOn(t *testing.T, o Options, dataDir, instance string) *Provider {
	t.Helper()
	p, err := New(Options{Host: o.Host, ByExec: o.ByExec, DataDir: dataDir, Instance: instance, Secret: testSecret, Version: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	needEngine(t, p)
	p.opts.DefaultImage, err = p.ImportTiny(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// needEngine skips where no engine answers, and fails where one is required.
func needEngine(t *testing.T, p *Provider) {
	t.Helper()
	if _, err := p.Ping(t.Context()); err != nil {
		if strings.Contains(os.Getenv("GLOVEBOX_TEST_REQUIRE"), "docker") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// ownProvider is newProvider with fresh names, and a check that the test left
// nothing.
func ownProvider(t *testing.T) *Provider {
	t.Helper()
	p := newProvider(t, t.TempDir(), "test-"+strings.ToLower(rand.Text()[:10]))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := p.Release(ctx, "root"); err != nil {
			t.Errorf("Release = %v", err)
		}
		if left := leftOf(t, p); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	return p
}

// leftOf names what a provider's instance still has.
func leftOf(t *testing.T, p *Provider) []string {
	t.Helper()
	var left []string
	found, err := p.list(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found {
		left = append(left, "container "+strings.Join(c.Names, " "))
	}
	boxes, err := filepath.Glob(filepath.Join(p.boxes(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(left, boxes...)
}

func TestProvider(t *testing.T) {
	testProvider(t, Options{}, ownProvider(t))
}

// The same holds where guests are reached through the engine.
func TestProvider_byExec(t *testing.T) {
	testProvider(t, Options{ByExec: true}, ownProvider(t))
}

func testProvider(t *testing.T, o Options, own *Provider) {
	engine := own.engine
	id := func(h sandbox.Handle) string { return h.SandboxID }
	providertest.Test(t, providertest.Harness{
		New: func(t *testing.T, dataDir, instance string) sandbox.Provider {
			return newProviderOn(t, o, dataDir, instance)
		},
		Secret: testSecret,
		NoPath: func(name string) bool { // podman's API, which makes one text of a mount
			f := own.facts.Load()
			return f != nil && f.podman && strings.ContainsAny(name, `,"`)
		},
		Spec: func(workspace string) sandbox.Spec { return sandbox.Spec{Workspace: workspace} },
		Kill: func(t *testing.T, h sandbox.Handle) {
			t.Helper()
			ended, failed := engine.ContainerWait(t.Context(), id(h), container.WaitConditionNextExit)
			if err := engine.ContainerKill(t.Context(), id(h), "KILL"); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case err := <-failed:
				t.Fatal(err)
			case <-time.After(20 * time.Second):
				t.Fatal("a killed container runs on")
			}
		},
		Remove: func(t *testing.T, h sandbox.Handle) {
			t.Helper()
			if err := engine.ContainerRemove(t.Context(), id(h), container.RemoveOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
		},
		Pause: func(t *testing.T, h sandbox.Handle) {
			t.Helper()
			if err := engine.ContainerPause(t.Context(), id(h)); err != nil {
				t.Fatal(err)
			}
		},
		Left: func(t *testing.T, dataDir, instance string) []string {
			t.Helper()
			p, err := New(Options{Host: o.Host, DataDir: dataDir, Instance: instance})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			return leftOf(t, p)
		},
	})
}

// A data directory that was copied has the instance of another one. What that has
// made since is listed as nobody's, so that it is not reaped.
func TestList_copiedDirectory(t *testing.T) {
	p := ownProvider(t)
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir(), User: "root"})
	sessions := func(p *Provider) (sessions []string) {
		found, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Ref.ID() == h.SandboxID {
				sessions = append(sessions, f.RootTaskID)
			}
		}
		return sessions
	}
	if got := sessions(p); !slices.Equal(got, []string{"root"}) {
		t.Errorf("its own directory lists it as of %q", got)
	}
	if got := sessions(newProvider(t, t.TempDir(), p.opts.Instance)); !slices.Equal(got, []string{""}) {
		t.Errorf("another directory lists it as of %q, want of nobody", got)
	}
}
