package lifetime_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func shared(root string) sandbox.Spec {
	s := docker()
	s.Share = root
	return s
}

func TestShare_theLastOneOutRemoves(t *testing.T) {
	for _, order := range [][]string{{"t1", "t2", "t3"}, {"t3", "t1", "t2"}, {"t2", "t3", "t1"}} {
		w := newWorld()
		m, _ := newManager(t, w.host(-1), true)
		b, err := m.Allocate(t.Context(), "t1", docker(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, root := range []string{"t2", "t3"} {
			got, err := m.Allocate(t.Context(), root, shared("t1"), nil)
			if err != nil || got.Ref != b.Ref || got.ShortID != b.ShortID {
				t.Fatalf("%s shares %s, %v, want %s", root, got.Ref, err, b.Ref)
			}
		}
		if got := m.Shares()["t2"]; !slices.Equal(got, []string{"t1", "t3"}) {
			t.Errorf("Shares(t2) = %q", got)
		}
		for i, root := range order {
			if err := m.Release(t.Context(), root, lifetime.Remove); err != nil {
				t.Fatal(err)
			}
			if got := w.states(root); !slices.Equal(got, []sandbox.State{sandbox.StateReleased}) {
				t.Errorf("%q: rows of %s: %q", order, root, got)
			}
			left := order[i+1:]
			if (len(w.there()) == 1) != (len(left) > 0) {
				t.Errorf("%q: after %s there is %q", order, root, w.there())
			}
			for _, other := range left {
				if _, got, err := m.Client(t.Context(), other); err != nil || got.Hello.BootID != b.Hello.BootID {
					t.Errorf("%q: after %s, %s is in boot %s, %v, want %s", order, root, other, got.Hello.BootID, err, b.Hello.BootID)
				}
			}
		}
		if n := w.times("allocate"); n != 1 {
			t.Errorf("allocated %d times", n)
		}
	}
}

// What is let go at once by all is removed by one of them.
func TestShare_allLetGoAtOnce(t *testing.T) {
	for range 30 {
		w := newWorld()
		m, _ := newManager(t, w.host(-1), false)
		if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		if _, err := m.Allocate(t.Context(), "t2", shared("t1"), nil); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { m.Release(t.Context(), "t1", lifetime.Remove) })
		all.Go(func() { m.Release(t.Context(), "t2", lifetime.Remove) })
		// One that comes meanwhile has it, or learns that it is gone.
		all.Go(func() {
			_, err := m.Allocate(t.Context(), "t3", shared("t1"), nil)
			if err != nil && !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("Allocate() = %v", err)
			}
			m.Release(t.Context(), "t3", lifetime.Remove)
		})
		all.Wait()
		if left := w.there(); len(left) > 0 {
			t.Fatalf("left: %q; rows %q %q %q", left, w.states("t1"), w.states("t2"), w.states("t3"))
		}
	}
}

func TestShare_ofWhatIsKept(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), true)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Allocate(t.Context(), "t2", shared("t1"), nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Release(t.Context(), "t2", lifetime.Keep); err != nil {
		t.Fatal(err)
	}
	if err := m.Release(t.Context(), "t1", lifetime.Remove); err != nil {
		t.Fatal(err)
	}
	if len(w.there()) != 1 {
		t.Error("what the user kept is gone")
	}
	if _, err := m.Allocate(t.Context(), "t3", shared("t1"), nil); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("a share of what was released = %v, want gone", err)
	}
}

// A session that is given a new sandbox does not take the former one from those
// who share it, and a sharer whose own is lost gets one to itself.
func TestShare_reprovision(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), true)
	first, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Allocate(t.Context(), "t2", shared("t1"), nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Release(t.Context(), "t1", lifetime.Remove); err != nil {
		t.Fatal(err)
	}
	second, err := m.Reprovision(t.Context(), "t1", nil)
	if err != nil || second.Ref == first.Ref {
		t.Fatalf("Reprovision() = %s, %v", second.Ref, err)
	}
	if err := m.Release(t.Context(), "t1", lifetime.Remove); err != nil {
		t.Fatal(err)
	}
	if got := w.there(); !slices.Equal(got, []string{first.Ref.ID()}) {
		t.Errorf("there is %q, want what t2 holds, %s", got, first.Ref.ID())
	}
	w.remove(first.Ref.ID())
	o.await(t, "t2 lost removed")
	third, err := m.Reprovision(t.Context(), "t2", nil)
	if err != nil || third.Ref == first.Ref || third.Record.Spec.Share != "" {
		t.Errorf("Reprovision() of a sharer = %s, %v", third.Ref, err)
	}
	if n := w.times("allocate"); n != 3 {
		t.Errorf("allocated %d times", n)
	}
}

// What stops, stops for all who share it, for the same reason.
func TestShare_stopsForAll(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), true)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Allocate(t.Context(), "t2", shared("t1"), nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Stop(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	o.await(t, "t2 stopped by hand")
	before := o.count("t1 ready ")
	if _, err := m.Start(t.Context(), "t2"); err != nil {
		t.Fatal(err)
	}
	o.awaitMore(t, "t1 ready ", before)
}

func TestShare_crashAnywhere(t *testing.T) {
	for steps := range 12 {
		w := newWorld()
		first := w.host(-1)
		m, _ := newManager(t, first, false)
		if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
			t.Fatal(err)
		}
		first.mu.Lock()
		first.steps = steps
		first.mu.Unlock()
		if _, err := m.Allocate(t.Context(), "t2", shared("t1"), nil); err == nil {
			m.Release(t.Context(), "t1", lifetime.Remove)
			m.Release(t.Context(), "t2", lifetime.Remove)
		}
		m.Close()
		next, _ := newManager(t, w.host(-1), true)
		held := false
		for _, rec := range w.records() {
			held = held || rec.State == sandbox.StateReady
		}
		if there := len(w.there()) == 1; there != held {
			t.Errorf("after %d steps: there %v, held %v; rows %q %q", steps, there, held, w.states("t1"), w.states("t2"))
		}
		for _, root := range []string{"t1", "t2"} {
			if err := next.Release(t.Context(), root, lifetime.Remove); err != nil {
				t.Errorf("after %d steps: Release(%s) = %v", steps, root, err)
			}
		}
		if left := w.there(); len(left) > 0 {
			t.Errorf("after %d steps: left %q", steps, left)
		}
	}
}

// What others hold stays, and whoever lets go of it is told so: also where the
// process that had begun to release it died.
func TestShare_releasedSaysThatOthersHaveIt(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w := newWorld()
		host := w.host(-1)
		m, o := newManager(t, host, false)
		if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Allocate(t.Context(), "t2", shared("t1"), nil); err != nil {
			t.Fatal(err)
		}
		if crash {
			host.mu.Lock()
			host.steps = 1 // the row is releasing
			host.mu.Unlock()
		}
		if err := m.Release(t.Context(), "t2", lifetime.Remove); (err != nil) != crash {
			t.Fatalf("Release() = %v, want a crash: %v", err, crash)
		}
		if crash {
			m.Close()
			_, o = newManager(t, w.host(-1), true)
		}
		o.await(t, "t2 released others share it; it stays")
		if got := w.records()[0]; got.RootTaskID != "t2" || got.State != sandbox.StateReleased || got.Cause != "others share it; it stays" {
			t.Errorf("after a crash %v: the row of %s is %s, %q", crash, got.RootTaskID, got.State, got.Cause)
		}
		if len(w.there()) != 1 {
			t.Errorf("after a crash %v: what t1 holds is gone", crash)
		}
	}
}

// One relay per sandbox: a second would take the first one's place, again and again.
func TestShare_oneHoldsTheRelay(t *testing.T) {
	w, r := newWorld(), newRelays()
	m := relayManager(t, w.host(-1), r)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	r.await(t, "open t1")
	if _, err := m.Allocate(t.Context(), "t2", shared("t1"), nil); err != nil {
		t.Fatal(err)
	}
	r.quiet(t)
	if err := m.Release(t.Context(), "t1", lifetime.Remove); err != nil {
		t.Fatal(err)
	}
	r.awaitBoth(t, "end t1", "open t2")
	if err := m.Release(t.Context(), "t2", lifetime.Remove); err != nil {
		t.Fatal(err)
	}
	r.await(t, "end t2")
}

// awaitBoth awaits two events in whatever order.
func (r *relays) awaitBoth(t *testing.T, a, b string) {
	t.Helper()
	got := []string{<-r.events, <-r.events}
	if slices.Sort(got); !slices.Equal(got, []string{a, b}) {
		t.Fatalf("%q, want %q and %q", got, a, b)
	}
}
