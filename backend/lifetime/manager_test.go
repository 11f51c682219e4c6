package lifetime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/google/go-cmp/cmp"
)

var (
	_ sandbox.Provider  = (*host)(nil)
	_ sandbox.Inspector = (*host)(nil)
	_ sandbox.Lister    = (*host)(nil)
	_ sandbox.Stopper   = (*host)(nil)
	_ sandbox.Remover   = (*host)(nil)
	_ sandbox.Watcher   = (*host)(nil)
	_ lifetime.Ledger   = (*host)(nil)
)

func TestAllocate(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), true)
	b, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b.Ref != "docker://fake#box0001" || b.ShortID != "box0001" || b.Hello.BootID != "box0001-boot1" || b.Record.State != sandbox.StateReady {
		t.Errorf("Allocate() = %+v", b)
	}
	if got := w.records(); len(got) != 1 || cmp.Diff(got[0], b.Record) != "" {
		t.Errorf("ledger = %+v, want the binding's row %+v", got, b.Record)
	}
	c, ok := m.Condition("t1")
	if !ok || c.Value != sandbox.StateReady || c.ObservedAt.IsZero() || c.Source == "" {
		t.Errorf("Condition() = %+v, %v, want ready with its age and source", c, ok)
	}
	if s, err := m.Stats(t.Context(), "t1"); err != nil || s.PIDs != 7 {
		t.Errorf("Stats() = %+v, %v", s, err)
	}
	o.await(t, "t1 allocating ")
	o.await(t, "t1 ready ")
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil || w.made != 1 {
		t.Errorf("a second Allocate() made %d sandboxes, %v; want the same one again", w.made, err)
	}
}

func TestAllocate_oncePerRootTask(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), true)
	refs := make([]sandbox.Ref, 10)
	var all sync.WaitGroup
	for i := range refs {
		all.Go(func() {
			b, err := m.Allocate(t.Context(), "t1", docker(), nil)
			if err != nil {
				t.Error(err)
			}
			refs[i] = b.Ref
		})
	}
	all.Wait()
	for _, ref := range refs {
		if ref != refs[0] {
			t.Errorf("callers got %s and %s, want one sandbox", ref, refs[0])
		}
	}
	if w.times("allocate") != 1 {
		t.Errorf("the provider was asked %d times, want once", w.times("allocate"))
	}
}

func TestAllocate_twentyRootTasks(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), true)
	var all sync.WaitGroup
	for i := range 20 {
		root := fmt.Sprintf("t%d", i)
		all.Go(func() {
			b, err := m.Allocate(t.Context(), root, docker(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, got, err := m.Client(t.Context(), root); err != nil || got.Ref != b.Ref {
				t.Errorf("Client(%s) = %s, %v, want %s", root, got.Ref, err, b.Ref)
			}
			if i%2 == 0 {
				if err := m.Release(t.Context(), root, lifetime.Remove); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := len(w.there()); got != 10 {
		t.Errorf("%d sandboxes left, want the 10 that were not released", got)
	}
}

func TestAllocate_failureLeavesNothing(t *testing.T) {
	tests := []struct {
		name string
		spec sandbox.Spec
		want error
		rows []sandbox.State
	}{
		{"no wall", sandbox.Spec{}, sandbox.ErrSpec, nil},
		{"local wall", sandbox.Spec{Wall: sandbox.WallLocal}, sandbox.ErrUnsupported, nil},
		{"wall without provider", sandbox.Spec{Wall: sandbox.WallNamespace}, sandbox.ErrNoWall, nil},
		{"spec", sandbox.Spec{Wall: sandbox.WallDocker, User: "nobody"}, sandbox.ErrSpec, nil},
		{"provider refuses", sandbox.Spec{Wall: sandbox.WallDocker, Image: "bad"}, sandbox.ErrSpec, []sandbox.State{sandbox.StateFailed}},
		{"guest never answers", sandbox.Spec{Wall: sandbox.WallDocker, Image: "deaf"}, nil, []sandbox.State{sandbox.StateFailed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			m, _ := newManager(t, w.host(-1), false)
			_, err := m.Allocate(t.Context(), "t1", tt.spec, nil)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Allocate() = %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(tt.rows, w.states("t1")); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if left := w.there(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// What the engine says at length is in the error; the row has a line of it.
func TestAllocate_causeIsOneShortLine(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), false)
	spec := docker()
	spec.Image = "verbose"
	_, err := m.Allocate(t.Context(), "t1", spec, nil)
	if err == nil || !strings.Contains(err.Error(), "the last word") {
		t.Errorf("Allocate() = %v, want all of it", err)
	}
	cause := w.records()[0].Cause
	if !strings.Contains(cause, "docker sandbox: a long tale") || !strings.HasSuffix(cause, "…") || len(cause) > 200 || strings.Contains(cause, "\n") || !utf8.ValidString(cause) {
		t.Errorf("cause = %q, want one short line", cause)
	}
}

// A caller that goes away takes its attempt along, not the other callers.
func TestAllocate_impatientCaller(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), false)
	slow := docker()
	slow.Image = "slow"
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := m.Allocate(ctx, "t1", slow, nil)
		first <- err
	}()
	o.await(t, "t1 allocating ")
	second := make(chan error, 1)
	go func() {
		_, err := m.Allocate(t.Context(), "t1", docker(), nil)
		second <- err
	}()
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) || err.Error() != "stopped before the sandbox was ready" {
		t.Errorf("the first caller got %v, want its own end, and no word of the call that it broke off", err)
	}
	o.await(t, "t1 failed stopped before it was ready")
	if err := <-second; err != nil {
		t.Errorf("the second caller got %v, want a sandbox", err)
	}
}

func TestRelease(t *testing.T) {
	released := []sandbox.State{sandbox.StateReleased}
	tests := []struct {
		name   string
		befall func(w *world)
		how    lifetime.How
		want   []sandbox.State
		left   int
	}{
		{"running", func(*world) {}, lifetime.Remove, released, 0},
		{"paused", func(w *world) { w.halt("box0001", sandbox.StatePaused, "") }, lifetime.Remove, released, 0},
		{"stopped", func(w *world) { w.halt("box0001", sandbox.StateStopped, "") }, lifetime.Remove, released, 0},
		{"removed already", func(w *world) { w.remove("box0001") }, lifetime.Remove, released, 0},
		{"keep", func(*world) {}, lifetime.Keep, []sandbox.State{sandbox.StateDetached}, 1},
		{"stop only", func(*world) {}, lifetime.StopOnly, []sandbox.State{sandbox.StateStopped}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			m, _ := newManager(t, w.host(-1), true)
			if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
				t.Fatal(err)
			}
			tt.befall(w)
			for i := range 2 {
				if err := m.Release(t.Context(), "t1", tt.how); err != nil {
					t.Errorf("Release() no. %d = %v", i+1, err)
				}
			}
			if diff := cmp.Diff(tt.want, w.states("t1")); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if left := w.there(); len(left) != tt.left {
				t.Errorf("left behind: %v, want %d", left, tt.left)
			}
			if tt.how == lifetime.Remove && w.times("release") != 1 {
				t.Errorf("the provider was asked to release %d times, want once", w.times("release"))
			}
			if _, _, err := m.Client(t.Context(), "t1"); err == nil {
				t.Error("Client() after a release gave a channel")
			}
		})
	}
}

func TestRelease_unknownTask(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), false)
	if err := m.Release(t.Context(), "never", lifetime.Remove); err != nil {
		t.Errorf("Release() = %v, want nothing to do", err)
	}
}

func TestRelease_endsAnAllocation(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), false)
	slow := docker()
	slow.Image = "slow"
	ended := make(chan error, 1)
	go func() {
		_, err := m.Allocate(context.Background(), "t1", slow, nil)
		ended <- err
	}()
	o.await(t, "t1 allocating ")
	if err := m.Release(t.Context(), "t1", lifetime.Remove); err != nil {
		t.Errorf("Release() = %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Allocate() = %v, want its end", err)
	}
	o.await(t, "t1 failed stopped before it was ready")
}

// What the user kept survives the release of what came after it, and the reaper.
func TestRelease_keepSurvives(t *testing.T) {
	w := newWorld()
	h := w.host(-1)
	m, _ := newManager(t, h, true)
	for _, how := range []lifetime.How{lifetime.Keep, lifetime.Remove} {
		if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
			t.Fatal(err)
		}
		if err := m.Release(t.Context(), "t1", how); err != nil {
			t.Fatal(err)
		}
	}
	newManager(t, w.host(-1), true)
	if diff := cmp.Diff([]string{"box0001"}, w.there()); diff != "" {
		t.Errorf("sandboxes (-want +got):\n%s", diff)
	}
}

func TestRelease_silentEngine(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), true)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	w.silence(true)
	if err := m.Release(t.Context(), "t1", lifetime.Remove); !errors.Is(err, sandbox.ErrUnreachable) {
		t.Errorf("Release() = %v, want unreachable", err)
	}
	if diff := cmp.Diff([]sandbox.State{sandbox.StateReleasing}, w.states("t1")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	w.silence(false)
	newManager(t, w.host(-1), true)
	if left := w.there(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStopStart(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), false) // no events: every request is a call's
	b, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Stop(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	o.await(t, "t1 stopped by hand")
	before := w.requests()
	for range 5 {
		if _, _, err := m.Client(t.Context(), "t1"); !errors.Is(err, sandbox.ErrStopped) {
			t.Errorf("Client() = %v, want stopped", err)
		}
	}
	if n := w.requests() - before; n > 0 {
		t.Errorf("calls to a stopped sandbox made %d requests", n)
	}
	got, err := m.Start(t.Context(), "t1")
	if err != nil || got.Ref != b.Ref || got.Hello.BootID == b.Hello.BootID {
		t.Errorf("Start() = %s in boot %s, %v, want %s in a new boot", got.Ref, got.Hello.BootID, err, b.Ref)
	}
	if _, _, err := m.Client(t.Context(), "t1"); err != nil {
		t.Errorf("Client() = %v", err)
	}
}

func TestReprovision(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), true)
	b, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Reprovision(t.Context(), "t1", nil); err == nil {
		t.Error("Reprovision() replaced a sandbox that is there")
	}
	w.remove(b.Ref.ID())
	o.await(t, "t1 lost removed")
	got, err := m.Reprovision(t.Context(), "t1", nil)
	if err != nil || got.Ref == b.Ref {
		t.Fatalf("Reprovision() = %s, %v, want another sandbox", got.Ref, err)
	}
	if diff := cmp.Diff(b.Record.Spec, got.Record.Spec); diff != "" {
		t.Errorf("spec (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff([]sandbox.State{sandbox.StateReleased, sandbox.StateReady}, w.states("t1")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if err := m.Release(t.Context(), "t1", lifetime.Remove); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Reprovision(t.Context(), "t1", nil); err != nil {
		t.Errorf("Reprovision() after a release = %v", err)
	}
}

func TestClose(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), false)
	slow := docker()
	slow.Image = "slow"
	ended := make(chan error, 1)
	go func() {
		_, err := m.Allocate(context.Background(), "t1", slow, nil)
		ended <- err
	}()
	o.await(t, "t1 allocating ")
	for range 2 {
		if err := m.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	if err := <-ended; err == nil {
		t.Error("an operation outlived Close")
	}
	if _, err := m.Attach(t.Context(), "t1"); !errors.Is(err, lifetime.ErrClosed) {
		t.Errorf("Attach() after Close = %v, want %v", err, lifetime.ErrClosed)
	}
}

// What a provider does not see, since it looks at another engine, is not released.
func TestRelease_ofAnotherEngine(t *testing.T) {
	w := newWorld()
	first, _ := newManager(t, w.host(-1), false)
	b, err := first.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	h := w.host(-1)
	h.elsewhere = true
	m, _ := newManager(t, h, false)
	if err := m.Release(t.Context(), "t1", lifetime.Remove); !errors.Is(err, sandbox.ErrUnreachable) {
		t.Errorf("Release() = %v, want %v", err, sandbox.ErrUnreachable)
	}
	if c, ok := m.Condition("t1"); !ok || c.Value != sandbox.StateReleasing {
		t.Errorf("condition %+v", c)
	}
	h.elsewhere = false
	if err := m.Release(t.Context(), "t1", lifetime.Remove); err != nil || len(w.there()) > 0 {
		t.Errorf("Release() on its engine = %v; there is %v, made was %s", err, w.there(), b.Ref)
	}
}
