package lifetime_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// idleManager stops what is idle for a little while; busy says what is used in a
// way that no guest sees.
func idleManager(t *testing.T, h *host, after time.Duration, busy func(string) bool) (*lifetime.Manager, *told) {
	t.Helper()
	o := &told{wake: make(chan struct{}, 1)}
	m := lifetime.New(lifetime.Options{
		Providers: map[sandbox.Wall]sandbox.Provider{sandbox.WallDocker: h}, Ledger: h, Secret: []byte("secret"),
		Log: slog.New(slog.DiscardHandler), Observe: o.observe, IdleStop: after, Busy: busy,
	})
	t.Cleanup(func() { m.Close() })
	runManager(t, m)
	return m, o
}

func TestIdle_isStoppedAndStartedByTheNextCall(t *testing.T) {
	w := newWorld()
	m, o := idleManager(t, w.host(-1), 300*time.Millisecond, nil)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	o.await(t, "t1 stopped idle")
	if len(w.there()) != 1 {
		t.Fatal("an idle sandbox was removed")
	}
	if _, _, err := m.Client(t.Context(), "t1"); !errors.Is(err, sandbox.ErrStopped) {
		t.Errorf("Client() = %v; to look is no reason to start it", err)
	}
	// The engine does not know why it stopped; a later look leaves the reason.
	w.halt(w.there()[0], sandbox.StateStopped, sandbox.CauseExited)
	if err := m.Why(t.Context(), "t1"); !errors.Is(err, sandbox.ErrStopped) { // it looks
		t.Errorf("Why() = %v, want stopped", err)
	}
	if c, _ := m.Condition("t1"); c.Value != sandbox.StateStopped || c.Cause != sandbox.CauseIdle {
		t.Errorf("condition %+v", c)
	}
	if _, err := m.Attach(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if c, _ := m.Condition("t1"); c.Value != sandbox.StateReady {
		t.Errorf("condition %+v", c)
	}
}

// Who looks at a sandbox that is being stopped as idle sees its end and starts nothing.
func TestIdle_lookedAtWhileItStops(t *testing.T) {
	w := newWorld()
	h := w.host(-1)
	looked := make(chan error, 1)
	var m *lifetime.Manager
	m = lifetime.New(lifetime.Options{
		Providers: map[sandbox.Wall]sandbox.Provider{sandbox.WallDocker: h}, Ledger: h, Secret: []byte("secret"),
		Log: slog.New(slog.DiscardHandler), IdleStop: 100 * time.Millisecond,
		Observe: func(_ string, _ sandbox.Record, c sandbox.Condition, _ string) {
			if c.Value != sandbox.StateStopped {
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_, _, err := m.Client(ctx, "t1")
			looked <- err
		},
	})
	t.Cleanup(func() { m.Close() })
	runManager(t, m)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	if err := <-looked; !errors.Is(err, sandbox.ErrStopped) {
		t.Errorf("Client() = %v, want that it is stopped", err)
	}
}

func TestIdle_whatIsUsedRunsOn(t *testing.T) {
	w := newWorld()
	var busy atomic.Bool // somebody uses t2
	busy.Store(true)
	m, o := idleManager(t, w.host(-1), 300*time.Millisecond, func(root string) bool { return root == "t2" && busy.Load() })
	runs, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.boxes[runs.Ref.ID()].running.Store(1) // a background process
	w.mu.Unlock()
	for _, root := range []string{"t2", "t3"} {
		if _, err := m.Allocate(t.Context(), root, docker(), nil); err != nil {
			t.Fatal(err)
		}
	}
	o.await(t, "t3 stopped idle")
	if c, _ := m.Condition("t2"); c.Value != sandbox.StateReady {
		t.Errorf("what somebody uses is %s", c.Value)
	}
	busy.Store(false)
	o.await(t, "t2 stopped idle")
	if c, _ := m.Condition("t1"); c.Value != sandbox.StateReady {
		t.Errorf("where something runs it is %s", c.Value)
	}
	w.mu.Lock()
	w.boxes[runs.Ref.ID()].running.Store(0)
	w.mu.Unlock()
	o.await(t, "t1 stopped idle")
}

// Calls made while it is stopped for want of use are served after all.
func TestIdle_callsAtTheLastMoment(t *testing.T) {
	w := newWorld()
	m, o := idleManager(t, w.host(-1), 60*time.Millisecond, nil)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	end := time.After(30 * time.Second)
	for n := 0; n < 20 || o.count("t1 stopped idle") == 0; n++ {
		_, _, _, err := m.Channel(t.Context(), "t1")
		if errors.Is(err, sandbox.ErrStopped) {
			_, err = m.Attach(t.Context(), "t1")
		}
		if err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		select {
		case <-end:
			t.Fatalf("it was idle %d times in %d calls", o.count("t1 stopped idle"), n+1)
		case <-time.After(time.Duration(50+13*n%90) * time.Millisecond): // before, about when, and after it is
		}
	}
}

// Nobody knows what ran before this process; the guest is asked.
func TestIdle_inTheNextProcess(t *testing.T) {
	w := newWorld()
	first, _ := newManager(t, w.host(-1), false)
	b, err := first.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	w.mu.Lock()
	w.boxes[b.Ref.ID()].running.Store(1)
	w.mu.Unlock()
	m, o := idleManager(t, w.host(-1), 200*time.Millisecond, nil)
	if _, err := m.Allocate(t.Context(), "t2", docker(), nil); err != nil {
		t.Fatal(err)
	}
	o.await(t, "t2 stopped idle")
	if c, _ := m.Condition("t1"); c.Value != sandbox.StateReady {
		t.Errorf("where something runs it is %s", c.Value)
	}
	w.mu.Lock()
	w.boxes[b.Ref.ID()].running.Store(0)
	w.mu.Unlock()
	o.await(t, "t1 stopped idle")
}

// Whoever unpauses a sandbox by hand may use it at once: the engine's word of that
// can be late.
func TestClient_unpausedUnseen(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), true)
	b, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.halt(b.Ref.ID(), sandbox.StatePaused, sandbox.CauseByHand)
	o.await(t, "t1 paused by hand")
	if _, _, err := m.Client(t.Context(), "t1"); !errors.Is(err, sandbox.ErrStopped) {
		t.Errorf("Client() of a paused one = %v, want ErrStopped", err)
	}
	w.mu.Lock()
	w.boxes[b.Ref.ID()].state, w.boxes[b.Ref.ID()].cause = sandbox.StateReady, ""
	w.mu.Unlock()
	if _, _, err := m.Client(t.Context(), "t1"); err != nil {
		t.Errorf("Client() of one that goes on again = %v", err)
	}
}

func TestUnpause(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), true)
	b, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Unpause(t.Context(), "t1"); err != nil {
		t.Errorf("Unpause() of one that runs = %v", err)
	}
	w.halt(b.Ref.ID(), sandbox.StatePaused, sandbox.CauseByHand)
	o.await(t, "t1 paused by hand")
	if got, err := m.Unpause(t.Context(), "t1"); err != nil || got.Ref != b.Ref {
		t.Errorf("Unpause() = %s, %v", got.Ref, err)
	}
	if err := m.Stop(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Unpause(t.Context(), "t1"); !errors.Is(err, sandbox.ErrStopped) {
		t.Errorf("Unpause() of one that was stopped = %v", err)
	}
	w.remove(b.Ref.ID())
	if _, err := m.Unpause(t.Context(), "t1"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Unpause() of one that is gone = %v", err)
	}
	if _, err := m.Snapshot(t.Context(), "t1", "x"); !errors.Is(err, sandbox.ErrGone) && !errors.Is(err, sandbox.ErrUnsupported) {
		t.Errorf("Snapshot() behind a wall without images = %v", err)
	}
}
