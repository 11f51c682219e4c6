package lifetime_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestRestart(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), false)
	b, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing comes between the stop and the start, and nobody's leave ends it.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := m.Restart(ctx, "t1")
	if err != nil || got.Ref != b.Ref || got.Hello.BootID == b.Hello.BootID {
		t.Errorf("Restart() = %s in boot %s, %v, want %s in a new boot", got.Ref, got.Hello.BootID, err, b.Ref)
	}
	o.await(t, "t1 stopped by hand")
	if n := o.count("t1 ready "); n != 2 {
		t.Errorf("ready was told %d times, want once before and once after", n)
	}
	if states := w.states("t1"); !slices.Equal(states, []sandbox.State{sandbox.StateReady}) {
		t.Errorf("rows %q", states)
	}

	var together sync.WaitGroup
	for range 4 {
		together.Go(func() {
			if _, err := m.Restart(t.Context(), "t1"); err != nil {
				t.Errorf("Restart() = %v", err)
			}
			if _, _, err := m.Client(t.Context(), "t1"); err != nil && !errors.Is(err, sandbox.ErrStopped) {
				t.Errorf("Client() = %v", err)
			}
		})
	}
	together.Wait()

	if err := m.Stop(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Restart(t.Context(), "t1"); err != nil {
		t.Errorf("Restart() of a stopped one = %v", err)
	}
}

func TestRestart_refused(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), false)
	if _, err := m.Restart(t.Context(), "none"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Restart() of nothing = %v, want gone", err)
	}
	b, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.silence(true)
	if _, err := m.Restart(t.Context(), "t1"); !errors.Is(err, sandbox.ErrUnreachable) {
		t.Errorf("Restart() behind a silent engine = %v, want unreachable", err)
	}
	w.silence(false)
	if states := w.states("t1"); !slices.Equal(states, []sandbox.State{sandbox.StateReady}) {
		t.Errorf("a restart that did not begin left %q", states)
	}
	w.remove(b.Ref.ID())
	if _, err := m.Restart(t.Context(), "t1"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Restart() of one that was removed = %v, want gone", err)
	}
	if states := w.states("t1"); !slices.Equal(states, []sandbox.State{sandbox.StateLost}) {
		t.Errorf("rows %q, want lost", states)
	}
	if n := w.times("allocate"); n > 1 {
		t.Errorf("a restart allocates: %d", n)
	}
}
