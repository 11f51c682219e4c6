package lifetime_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// relays is an Egress that tells which relays are open.
type relays struct {
	events chan string        // "open ROOT" and "end ROOT"
	cut    chan chan struct{} // the one that takes it breaks
}

func newRelays() *relays {
	return &relays{events: make(chan string, 100), cut: make(chan chan struct{})}
}

func (r *relays) Serve(ctx context.Context, root string, _ sandbox.Network, l net.Listener) error {
	r.events <- "open " + root
	defer func() { r.events <- "end " + root }()
	defer l.Close()
	broken := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		broken <- err
	}()
	select {
	case <-ctx.Done():
		l.Close()
		<-broken
		return nil
	case err := <-broken:
		return err
	case done := <-r.cut:
		l.Close()
		close(done)
		return <-broken
	}
}

func (r *relays) await(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-r.events:
		if got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("no %s", want)
	}
}

func (r *relays) quiet(t *testing.T) {
	t.Helper()
	select {
	case got := <-r.events:
		t.Fatalf("%s, want nothing", got)
	default:
	}
}

func relayManager(t *testing.T, h *host, r *relays) *lifetime.Manager {
	t.Helper()
	m := lifetime.New(lifetime.Options{
		Providers: map[sandbox.Wall]sandbox.Provider{sandbox.WallDocker: h},
		Ledger:    h, Secret: []byte("secret"), Egress: r, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { m.Close() })
	return m
}

func TestRelay_isHeldWhileTheSandboxRuns(t *testing.T) {
	w, r := newWorld(), newRelays()
	m := relayManager(t, w.host(-1), r)
	runManager(t, m)
	ctx := t.Context()
	if _, err := m.Allocate(ctx, "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	r.await(t, "open t1")
	if _, err := m.Attach(ctx, "t1"); err != nil { // the same channel
		t.Fatal(err)
	}
	r.quiet(t)
	done := make(chan struct{})
	r.cut <- done
	<-done
	r.await(t, "end t1")
	r.await(t, "open t1")
	if err := m.Stop(ctx, "t1"); err != nil {
		t.Fatal(err)
	}
	r.await(t, "end t1")
	if _, err := m.Start(ctx, "t1"); err != nil {
		t.Fatal(err)
	}
	r.await(t, "open t1")
	if err := m.Release(ctx, "t1", lifetime.Remove); err != nil {
		t.Fatal(err)
	}
	r.await(t, "end t1")

	sealed := docker()
	sealed.Network.Mode = sandbox.NetworkNone
	if _, err := m.Allocate(ctx, "t2", sealed, nil); err != nil {
		t.Fatal(err)
	}
	r.quiet(t)
}

// Whoever is given a sandbox finds its way out open: the first command needs it.
func TestRelay_isOpenBeforeTheFirstCall(t *testing.T) {
	w, r := newWorld(), newRelays()
	m := relayManager(t, w.host(-1), r)
	for range 20 {
		if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		for _, b := range w.boxes {
			if b.root == "t1" && b.relayed.Load() == 0 {
				t.Error("a sandbox without a way out was handed over")
			}
		}
		w.mu.Unlock()
		r.await(t, "open t1")
		if err := m.Release(t.Context(), "t1", lifetime.Remove); err != nil {
			t.Fatal(err)
		}
		r.await(t, "end t1")
	}
}

// A process that takes the ledger over opens the relays of what runs, and starts
// nothing that is stopped.
func TestRelay_isReopenedByTheNextProcess(t *testing.T) {
	w, r := newWorld(), newRelays()
	first := relayManager(t, w.host(-1), r)
	for _, root := range []string{"t1", "t2"} {
		if _, err := first.Allocate(t.Context(), root, docker(), nil); err != nil {
			t.Fatal(err)
		}
		r.await(t, "open "+root)
	}
	if err := first.Stop(t.Context(), "t2"); err != nil {
		t.Fatal(err)
	}
	r.await(t, "end t2")
	first.Close()
	r.await(t, "end t1")

	second := relayManager(t, w.host(-1), r)
	runManager(t, second)
	r.await(t, "open t1")
	if c, _ := second.Condition("t2"); c.Value != sandbox.StateStopped {
		t.Errorf("a stopped sandbox is %s", c.Value)
	}
	second.Close()
	r.await(t, "end t1")
	r.quiet(t)
}
