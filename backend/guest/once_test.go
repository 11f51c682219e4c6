//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func count(t *testing.T, file string) int {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(body, []byte("\n"))
}

func TestRun_sameIDRunsOnce(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	ran := filepath.Join(p.cfg.Workdir, "ran")
	cmd := shell("echo ran >> ran; echo first; read x < go; echo last")
	cmd.Call.ID = "call-1"
	sh(t, c, "mkfifo go")

	// Two at once, then one that comes in the middle from an offset.
	results := make(chan string, 3)
	ask := func(f func(func(execenv.Chunk)) (execenv.Outcome, error)) {
		var live strings.Builder
		o, err := f(func(ch execenv.Chunk) { live.Write(ch.Data) })
		if err != nil {
			t.Error(err)
		}
		results <- live.String() + "|" + text(o.Stdout)
	}
	for range 2 {
		go ask(func(live func(execenv.Chunk)) (execenv.Outcome, error) {
			return c.Run(t.Context(), execenv.Caller{}, cmd, live)
		})
	}
	eventually(t, func() error {
		if count(t, ran) == 0 {
			return errors.New("not begun")
		}
		return nil
	})
	go ask(func(live func(execenv.Chunk)) (execenv.Outcome, error) {
		return c.Follow(t.Context(), "call-1", 6, 0, live)
	})
	sh(t, c, "echo > go")
	got := map[string]int{}
	for range 3 {
		got[<-results]++
	}
	if got["first\nlast\n|first\nlast\n"] != 2 || got["last\n|first\nlast\n"] != 1 {
		t.Errorf("results %v", got)
	}
	if o, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil); err != nil || text(o.Stdout) != "first\nlast\n" {
		t.Errorf("again: %+v, %v", o, err)
	}
	if n := count(t, ran); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	if err := c.Ack(t.Context(), "call-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Follow(t.Context(), "call-1", 0, 0, nil); !errors.Is(err, execenv.ErrOutcomeUnknown) {
		t.Errorf("after the acknowledgement: %v", err)
	}
}

func TestRun_acrossRestarts(t *testing.T) {
	p := newPlace(t, withNamespace)
	c := p.start()
	h, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := shell("echo ended >> log; echo out; exit 3")
	ended.Call = execenv.Call{ID: "ended"}
	if _, err := c.Run(t.Context(), execenv.Caller{}, ended, nil); err != nil {
		t.Fatal(err)
	}
	missing := shell("true")
	missing.Call, missing.Dir = execenv.Call{ID: "missing"}, "/no/such/place"
	if _, err := c.Run(t.Context(), execenv.Caller{}, missing, nil); !errors.Is(err, execenv.ErrWorkdirGone) {
		t.Fatal(err)
	}
	cut := shell("echo cut >> log; echo begun; sleep 100")
	cut.Call = execenv.Call{ID: "cut"}
	begun := make(chan struct{}, 1)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), execenv.Caller{}, cut, func(execenv.Chunk) { begun <- struct{}{} })
		failed <- err
	}()
	<-begun
	p.kill()
	if err := <-failed; !errors.Is(err, execenv.ErrUnreachable) {
		t.Errorf("a guest that was killed: %v", err)
	}
	if _, err := c.Hello(t.Context()); !errors.Is(err, execenv.ErrUnreachable) {
		t.Errorf("no guest: %v", err)
	}

	c = p.start()
	ended.Call.Boot, cut.Call.Boot, missing.Call.Boot = h.BootID, h.BootID, h.BootID
	o, err := c.Run(t.Context(), execenv.Caller{}, ended, nil)
	if err != nil || o.ExitCode != 3 || text(o.Stdout) != "out\n" {
		t.Errorf("a finished call: %+v, %v", o, err)
	}
	if _, err := c.Run(t.Context(), execenv.Caller{}, cut, nil); !errors.Is(err, execenv.ErrOutcomeUnknown) {
		t.Errorf("a call that was cut: %v", err)
	}
	if _, err := c.Run(t.Context(), execenv.Caller{}, missing, nil); !errors.Is(err, execenv.ErrWorkdirGone) {
		t.Errorf("a call that failed: %v", err)
	}
	never := shell("echo never >> log")
	never.Call = execenv.Call{ID: "never", Boot: h.BootID}
	if _, err := c.Run(t.Context(), execenv.Caller{}, never, nil); !errors.Is(err, execenv.ErrOutcomeUnknown) {
		t.Errorf("an unknown call of another boot: %v", err)
	}
	now, err := c.Hello(t.Context())
	if err != nil || now.BootID == h.BootID {
		t.Fatalf("boot %s again, %v", now.BootID, err)
	}
	never.Call.Boot = now.BootID
	if _, err := c.Run(t.Context(), execenv.Caller{}, never, nil); err != nil {
		t.Errorf("an unknown call of this boot: %v", err)
	}
	if n := count(t, filepath.Join(p.cfg.Workdir, "log")); n != 3 {
		t.Errorf("%d effects, want 3", n)
	}
}

func TestRun_callsOutliveTheirConnection(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	gone := p.client("guest-1", p.secret)
	sh(t, c, "mkfifo go")
	cmd := shell("echo begun; read x < go; echo ended")
	cmd.Call.ID = "outlives"
	begun := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Run(t.Context(), execenv.Caller{}, cmd, func(execenv.Chunk) {
			select {
			case begun <- struct{}{}:
			default:
			}
		})
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	_, err := gone.Follow(ctx, "outlives", 0, 0, func(execenv.Chunk) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a follower that went away: %v", err)
	}
	sh(t, c, "echo > go")
	<-done
	o, err := c.Follow(t.Context(), "outlives", 0, 0, nil)
	if err != nil || o.Interrupted || text(o.Stdout) != "begun\nended\n" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestFence(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	at := func(g int64) execenv.Caller { return execenv.Caller{RootTaskID: "root", Generation: g} }
	run := func(g int64) error {
		_, err := c.Run(t.Context(), at(g), shell("true"), nil)
		return err
	}
	if err := run(2); err != nil {
		t.Fatal(err)
	}
	if err := run(1); !errors.Is(err, execenv.ErrFenced) {
		t.Errorf("an older generation: %v", err)
	}
	file := filepath.Join(p.cfg.Workdir, "f")
	if _, err := c.WriteFile(t.Context(), at(1), execenv.WriteRequest{Path: file}); !errors.Is(err, execenv.ErrFenced) {
		t.Errorf("an older generation's write: %v", err)
	}
	if _, err := c.Stat(t.Context(), at(1), p.cfg.Workdir); !errors.Is(err, execenv.ErrFenced) {
		t.Errorf("an older generation's read: %v", err)
	}
	if _, err := c.Run(t.Context(), execenv.Caller{RootTaskID: "other", Generation: 1}, shell("true"), nil); err != nil {
		t.Errorf("another task: %v", err)
	}
	p.kill()
	c = p.start()
	if err := run(1); !errors.Is(err, execenv.ErrFenced) {
		t.Errorf("an older generation after a restart: %v", err)
	}
	if err := run(3); err != nil {
		t.Errorf("a newer generation: %v", err)
	}
	sh(t, c, "true") // a person
}

func TestFileEffectsHappenOnce(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	file := filepath.Join(p.cfg.Workdir, "f")
	write := execenv.WriteRequest{Call: execenv.Call{ID: "w"}, Path: file, Data: []byte("one"), Mode: execenv.WriteExclusive}
	first, err := c.WriteFile(t.Context(), execenv.Caller{}, write)
	if err != nil || !first.Created {
		t.Fatalf("%+v, %v", first, err)
	}
	edit := execenv.EditRequest{Call: execenv.Call{ID: "e"}, Path: file, Old: "one", New: "one one"}
	if _, err := c.EditFile(t.Context(), execenv.Caller{}, edit); err != nil {
		t.Fatal(err)
	}
	bad := edit
	bad.Call.ID, bad.Old = "bad", "three"
	if _, err := c.EditFile(t.Context(), execenv.Caller{}, bad); !errors.Is(err, execenv.ErrNoMatch) {
		t.Fatal(err)
	}
	for range 2 {
		again, err := c.WriteFile(t.Context(), execenv.Caller{}, write)
		if err != nil || !again.Created || again.Hash != first.Hash {
			t.Errorf("write again: %+v, %v", again, err)
		}
		if e, err := c.EditFile(t.Context(), execenv.Caller{}, edit); err != nil || e.Replaced != 1 {
			t.Errorf("edit again: %+v, %v", e, err)
		}
		if _, err := c.EditFile(t.Context(), execenv.Caller{}, bad); !errors.Is(err, execenv.ErrNoMatch) {
			t.Errorf("failed edit again: %v", err)
		}
		if body, _ := os.ReadFile(file); string(body) != "one one" {
			t.Errorf("the file is %q", body)
		}
		p.kill()
		c = p.start()
	}
}

func TestShutdown(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	nap := naptime()
	sh(t, c, "sleep "+nap+" & echo")
	done := make(chan execenv.Outcome, 1)
	begun := make(chan struct{}, 1)
	go func() {
		o, _ := c.Run(t.Context(), execenv.Caller{}, shell("echo; sleep "+nap), func(execenv.Chunk) { begun <- struct{}{} })
		done <- o
	}()
	<-begun
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := <-done; o.Kill == nil || o.Kill.Cause != "shutdown" {
		t.Errorf("outcome %+v", o)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the guest ended with %v", err)
	}
	if left := tagged(nap); len(left) > 0 {
		t.Errorf("alive: %v", left)
	}
}

// An engine that has asked a guest to end sends it a signal as well, which may come
// at any moment up to the last. It ends as one that was asked all the same.
func TestShutdown_signalled(t *testing.T) {
	for range 20 {
		p := newPlace(t)
		c := p.start()
		stop := make(chan struct{})
		var signals sync.WaitGroup
		signals.Go(func() {
			for p.cmd.Process.Signal(syscall.SIGTERM) == nil {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		if err := c.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("the guest ended with %v", err)
		}
		close(stop)
		signals.Wait()
	}
}
