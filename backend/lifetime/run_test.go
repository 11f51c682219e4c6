package lifetime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/google/go-cmp/cmp"
)

// A process dies between any two effects of an allocate, a release or a
// re-provision. The next one leaves nothing that no row holds, and no row that
// is half-way.
func TestRun_crashAnywhere(t *testing.T) {
	stories := map[string]func(t *testing.T, m *lifetime.Manager, w *world) error{
		"allocate": func(t *testing.T, m *lifetime.Manager, _ *world) error {
			_, err := m.Allocate(t.Context(), "t1", docker(), nil)
			return err
		},
		"release": func(t *testing.T, m *lifetime.Manager, _ *world) error {
			if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
				return err
			}
			return m.Release(t.Context(), "t1", lifetime.Remove)
		},
		"keep": func(t *testing.T, m *lifetime.Manager, _ *world) error {
			if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
				return err
			}
			return m.Release(t.Context(), "t1", lifetime.Keep)
		},
		"reprovision": func(t *testing.T, m *lifetime.Manager, w *world) error {
			b, err := m.Allocate(t.Context(), "t1", docker(), nil)
			if err != nil {
				return err
			}
			w.remove(b.Ref.ID())
			if _, err := m.Attach(t.Context(), "t1"); !errors.Is(err, sandbox.ErrGone) {
				return err
			}
			_, err = m.Reprovision(t.Context(), "t1", nil)
			return err
		},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			for steps := 0; ; steps++ {
				w := newWorld()
				m, _ := newManager(t, w.host(steps), false)
				err := story(t, m, w)
				m.Close()
				next, _ := newManager(t, w.host(-1), true)
				checkSettled(t, w, fmt.Sprintf("crash after step %d", steps))
				if err == nil {
					if steps < 3 {
						t.Errorf("only %d steps were crashed at", steps)
					}
					return
				}
				if err := next.Release(t.Context(), "t1", lifetime.Remove); err != nil {
					t.Errorf("crash after step %d: Release() = %v", steps, err)
				}
			}
		})
	}
}

// checkSettled fails unless each sandbox is held by a row and each row is at rest.
func checkSettled(t *testing.T, w *world, when string) {
	t.Helper()
	held := make(map[string]bool)
	for _, r := range w.records() {
		switch r.State {
		case sandbox.StateAllocating, sandbox.StateReleasing:
			t.Errorf("%s: row %d is still %s", when, r.ID, r.State)
		case sandbox.StateReady, sandbox.StateStopped, sandbox.StateDetached:
			held[r.Ref.ID()] = true
		}
	}
	for _, id := range w.there() {
		if !held[id] {
			t.Errorf("%s: nobody holds %s", when, id)
		}
	}
}

// slowLedger answers when it is read a second time, which is to reap, only at
// the end of ctx.
type slowLedger struct {
	*host
	reads atomic.Int32
	asked chan struct{}
}

func (l *slowLedger) Records(ctx context.Context) ([]sandbox.Record, error) {
	if l.reads.Add(1) == 1 {
		return l.host.Records(ctx)
	}
	close(l.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRun_endsWithoutComplaint(t *testing.T) {
	h := newWorld().host(-1)
	ledger := &slowLedger{host: h, asked: make(chan struct{})}
	var log bytes.Buffer
	m := lifetime.New(lifetime.Options{
		Providers: map[sandbox.Wall]sandbox.Provider{sandbox.WallDocker: h}, Ledger: ledger, Secret: []byte("secret"),
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	t.Cleanup(func() { m.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	<-ledger.asked
	cancel()
	if err := <-ended; err != nil || log.Len() > 0 {
		t.Errorf("Run() = %v, and logged:\n%s", err, &log)
	}
}

func TestRun_reapsOnlyOurOrphans(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), true)
	mine, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.halt(mine.Ref.ID(), sandbox.StateStopped, "")
	m.Close()
	another := w.add("t9", "us") // of a task that no row is of: another ledger's
	older := w.add("t1", "us")   // of our task, and not the one its row names
	unlabelled := w.add("", "us")
	unreadable := w.add("t8", "")

	newManager(t, w.host(-1), true)
	want := []string{mine.Ref.ID(), another.id, unlabelled.id, unreadable.id}
	slices.Sort(want)
	if diff := cmp.Diff(want, w.there()); diff != "" {
		t.Errorf("sandboxes, with %s to reap (-want +got):\n%s", older.id, diff)
	}
}

// What comes to light later, such as a container that a slow engine made for a
// server that had died, goes with one of the looks that follow.
func TestRun_reapsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		m, _ := newManager(t, w.host(-1), true)
		mine, err := m.Allocate(t.Context(), "t1", docker(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Allocate(t.Context(), "t2", docker(), nil); err != nil {
			t.Fatal(err)
		}
		if err := m.Release(t.Context(), "t2", lifetime.Remove); err != nil {
			t.Fatal(err)
		}
		late, another := w.add("t2", "us"), w.add("t9", "us")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		want := []string{mine.Ref.ID(), another.id}
		slices.Sort(want)
		if diff := cmp.Diff(want, w.there()); diff != "" {
			t.Errorf("sandboxes, with %s to reap (-want +got):\n%s", late.id, diff)
		}
	})
}

func TestRun_reconciles(t *testing.T) {
	tests := []struct {
		name   string
		befall func(w *world)
		want   sandbox.State
		row    sandbox.State
		client error
	}{
		{"running", func(*world) {}, sandbox.StateReady, sandbox.StateReady, nil},
		{"exited", func(w *world) { w.halt("box0001", sandbox.StateStopped, sandbox.CauseKilled) }, sandbox.StateStopped, sandbox.StateStopped, sandbox.ErrStopped},
		{"paused", func(w *world) { w.halt("box0001", sandbox.StatePaused, "") }, sandbox.StatePaused, sandbox.StatePaused, sandbox.ErrStopped},
		{"removed", func(w *world) { w.remove("box0001") }, sandbox.StateLost, sandbox.StateLost, sandbox.ErrGone},
		{"engine silent", func(w *world) { w.silence(true) }, sandbox.StateUnreachable, sandbox.StateReady, sandbox.ErrUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			m, _ := newManager(t, w.host(-1), false)
			if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
				t.Fatal(err)
			}
			m.Close()
			tt.befall(w)

			m, _ = newManager(t, w.host(-1), true)
			if c, ok := m.Condition("t1"); !ok || c.Value != tt.want {
				t.Errorf("Condition() = %+v, want %s", c, tt.want)
			}
			if diff := cmp.Diff([]sandbox.State{tt.row}, w.states("t1")); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			if _, _, err := m.Client(t.Context(), "t1"); !errors.Is(err, tt.client) {
				t.Errorf("Client() = %v, want %v", err, tt.client)
			}
			if w.times("allocate") != 1 {
				t.Errorf("the provider was asked to allocate %d times, want once", w.times("allocate"))
			}

			w.silence(false)
			b, err := m.Attach(t.Context(), "t1")
			if tt.want == sandbox.StateLost {
				if !errors.Is(err, sandbox.ErrGone) {
					t.Errorf("Attach() = %v, want gone", err)
				}
				return
			}
			if err != nil || b.Ref != "docker://fake#box0001" {
				t.Errorf("Attach() = %s, %v, want the same sandbox again", b.Ref, err)
			}
		})
	}
}

// What befalls a sandbox behind our back is told without anybody asking.
func TestRun_watches(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), true)
	for i := range 3 {
		if _, err := m.Allocate(t.Context(), fmt.Sprintf("t%d", i+1), docker(), nil); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	w.remove("box0001")
	w.halt("box0002", sandbox.StateStopped, sandbox.CauseOutOfMemory)
	o.await(t, "t1 lost removed")
	o.await(t, "t2 stopped out of memory")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := o.count("t1 lost removed"); n != 1 {
		t.Errorf("lost was told %d times", n)
	}
	if _, _, err := m.Client(t.Context(), "t2"); err == nil || err.Error() != "the sandbox is stopped: out of memory" {
		t.Errorf("Client() = %v", err)
	}
	if _, _, err := m.Client(t.Context(), "t3"); err != nil {
		t.Errorf("Client() of the one that nothing befell = %v", err)
	}
}

// A sandbox that somebody is starting is not one whose allocation was broken off.
func TestRun_leavesAStartAlone(t *testing.T) {
	w := newWorld()
	m, o := newManager(t, w.host(-1), true)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	w.halt("box0001", sandbox.StateStopped, sandbox.CauseExited)
	o.await(t, "t1 stopped exited")
	w.halt("box0001", sandbox.StateAllocating, "")
	if err := m.Why(t.Context(), "t1"); !errors.Is(err, sandbox.ErrUnreachable) {
		t.Errorf("Why() during a start = %v", err)
	}
	if diff := cmp.Diff([]sandbox.State{sandbox.StateStopped}, w.states("t1")); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	before := o.count("t1 ready ")
	w.halt("box0001", sandbox.StateReady, "")
	o.awaitMore(t, "t1 ready ", before)
}

func TestWhy(t *testing.T) {
	tests := []struct {
		name   string
		befall func(w *world, b *box)
		want   error
		text   string
	}{
		{"removed", func(w *world, b *box) { w.remove(b.id) }, sandbox.ErrGone, "the sandbox is gone: removed"},
		{"killed", func(w *world, b *box) { w.halt(b.id, sandbox.StateStopped, sandbox.CauseKilled) }, sandbox.ErrStopped, "the sandbox is stopped: killed"},
		{"engine silent, guest gone", func(w *world, b *box) {
			w.silence(true)
			w.deafen(b)
		}, sandbox.ErrUnreachable, "the sandbox is unreachable: engine not answering"},
		{"engine silent, guest there", func(w *world, _ *box) { w.silence(true) }, nil, ""},
		{"guest silent", func(w *world, b *box) { w.deafen(b) }, sandbox.ErrUnreachable, "the sandbox is unreachable: guest not answering"},
		{"nothing", func(*world, *box) {}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			m, _ := newManager(t, w.host(-1), false)
			if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
				t.Fatal(err)
			}
			tt.befall(w, w.boxes["box0001"])
			before := w.requests()
			err := m.Why(t.Context(), "t1")
			if !errors.Is(err, tt.want) || err != nil && err.Error() != tt.text {
				t.Errorf("Why() = %v, want %q", err, tt.text)
			}
			if n := w.requests() - before; n < 1 || n > 3 {
				t.Errorf("Why() made %d requests to the engine, want 1 to 3", n)
			}
			before = w.requests()
			if _, _, err := m.Client(t.Context(), "t1"); tt.want != sandbox.ErrUnreachable && !errors.Is(err, tt.want) {
				t.Errorf("Client() = %v, want %v", err, tt.want)
			}
			if n := w.requests() - before; n > 0 {
				t.Errorf("the next call made %d requests, want none", n)
			}
		})
	}
}

// An engine on a machine that stands still sees the end of a sandbox after those whose
// calls it broke, who are told of that end and not of a guest that says nothing.
func TestWhy_engineSeesItLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		m, _ := newManager(t, w.host(-1), false)
		if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
			t.Fatal(err)
		}
		w.deafen(w.boxes["box0001"])
		time.AfterFunc(2*time.Second, func() { w.halt("box0001", sandbox.StateStopped, sandbox.CauseKilled) })
		if err := m.Why(t.Context(), "t1"); !errors.Is(err, sandbox.ErrStopped) {
			t.Errorf("Why() = %v, want that it is stopped", err)
		}
		if c, _ := m.Condition("t1"); c.Value != sandbox.StateStopped || c.Cause != sandbox.CauseKilled {
			t.Errorf("Condition() = %+v, want it killed", c)
		}
	})
}

// What an operation overtook while it was read is not believed, and may be true all
// the same: it is looked at again without anybody asking.
func TestWhy_overtaken(t *testing.T) {
	w := newWorld()
	h := w.host(-1)
	m, o := newManager(t, h, false) // no events and no listing, which would tell too
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	h.meanwhile = func() {
		if err := m.Stop(t.Context(), "t1"); err != nil {
			t.Error(err)
		}
		w.remove("box0001")
	}
	if err := m.Why(t.Context(), "t1"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Why() = %v, want that it is gone", err)
	}
	o.await(t, "t1 lost removed")
	if n := o.count("t1 stopped by hand"); n != 1 {
		t.Errorf("the stop was told %d times", n)
	}
}

// A guest that has come back in another boot is seen as such.
func TestWhy_notesTheNewBoot(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), false)
	b, err := m.Allocate(t.Context(), "t1", docker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.reboot(w.boxes["box0001"])
	if err := m.Why(t.Context(), "t1"); err != nil {
		t.Errorf("Why() = %v, want that it runs", err)
	}
	if _, got, err := m.Client(t.Context(), "t1"); err != nil || got.Hello.BootID == b.Hello.BootID {
		t.Errorf("Client() is still of boot %s, %v", got.Hello.BootID, err)
	}
}

func TestAttach_foreignSandbox(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), false)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	w.boxes["box0001"].instance = "them"
	if _, err := m.Attach(t.Context(), "t1"); !errors.Is(err, sandbox.ErrForeign) {
		t.Errorf("Attach() = %v, want foreign", err)
	}
}

// A second attach leaves the channel, and so the calls on it, alone.
func TestAttach_keepsTheChannel(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), false)
	if _, err := m.Allocate(t.Context(), "t1", docker(), nil); err != nil {
		t.Fatal(err)
	}
	before, _, err := m.Client(t.Context(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Attach(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if after, _, err := m.Client(t.Context(), "t1"); err != nil || after != before {
		t.Errorf("Client() = %p, %v, want %p still", after, err, before)
	}
}

func TestAttach_neverAllocates(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), true)
	if _, err := m.Attach(t.Context(), "t1"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Attach() of a task without a sandbox = %v", err)
	}
	if w.made > 0 {
		t.Error("Attach() made a sandbox")
	}
}
