package providertest

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func rand() string { return crand.Text()[:10] }

func testAllocate(t *testing.T, f *fixture) {
	h := f.allocate(t, "root-1")
	hello, err := f.guest(t, h).Hello(t.Context())
	if err != nil {
		t.Fatalf("Hello = %v", err)
	}
	if hello.Hostname != h.ShortID {
		t.Errorf("hostname = %q, want the short id %q", hello.Hostname, h.ShortID)
	}
	if hello.GuestID != h.GuestID || h.GuestID == "" {
		t.Errorf("guest id = %q, the handle has %q", hello.GuestID, h.GuestID)
	}
	if hello.Workdir != sandbox.DefaultWorkdir || h.Workdir != sandbox.DefaultWorkdir {
		t.Errorf("workdir = %q, the handle has %q", hello.Workdir, h.Workdir)
	}
	base, id, err := sandbox.DecodeRef(ref(t, h))
	if err != nil || base != h.BaseURL || id != h.SandboxID {
		t.Errorf("DecodeRef(%s) = %q, %q, %v", ref(t, h), base, id, err)
	}
	if got := f.must(t, h, "hostname; pwd"); got != h.ShortID+"\n"+h.Workdir {
		t.Errorf("hostname and pwd = %q", got)
	}
	is(t, f.condition(t, h), sandbox.StateReady, "")
}

func testSteps(t *testing.T, f *fixture) {
	p, ok := f.provider.(sandbox.Progress)
	if !ok {
		t.Skip("the provider does not tell its steps")
	}
	var steps []string
	_, err := p.AllocateWithProgress(t.Context(), f.released("root-1"), f.Spec(f.workspace(t, os.Getuid())), func(s sandbox.Step) {
		steps = append(steps, s.Name)
	})
	if err != nil {
		t.Fatalf("AllocateWithProgress = %v", err)
	}
	if want := []string{"create", "start", "guest ready"}; !slices.Equal(steps, want) {
		t.Errorf("steps = %q, want %q", steps, want)
	}
}

func testConcurrent(t *testing.T, f *fixture) {
	const n = 8
	handles := make([]sandbox.Handle, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		root, spec := f.released(fmt.Sprintf("root-%d", i)), f.Spec(f.workspace(t, os.Getuid()))
		wg.Go(func() { handles[i], errs[i] = f.provider.Allocate(t.Context(), root, spec) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	ids, guests := map[string]bool{}, map[string]bool{}
	for _, h := range handles {
		ids[h.ShortID], guests[h.GuestID] = true, true
		if got := f.must(t, h, "hostname"); got != h.ShortID {
			t.Errorf("hostname = %q, want %q", got, h.ShortID)
		}
	}
	if len(ids) != n || len(guests) != n {
		t.Errorf("%d sandboxes and %d guests, want %d of each", len(ids), len(guests), n)
	}
}

func testAttach(t *testing.T, f *fixture) {
	h := f.allocate(t, "root-1")
	f.must(t, h, `echo kept > "$HOME/marker"`)
	before, err := f.guest(t, h).Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.provider = f.New(t, f.dataDir, f.instance)
	again, err := f.provider.Attach(t.Context(), ref(t, h))
	if err != nil {
		t.Fatalf("Attach = %v", err)
	}
	if again.SandboxID != h.SandboxID || again.ShortID != h.ShortID || again.GuestID != h.GuestID || again.Workdir != h.Workdir || again.BaseURL != h.BaseURL {
		t.Errorf("Attach = %+v, want %+v", again, h)
	}
	after, err := f.guest(t, again).Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.BootID != before.BootID {
		t.Errorf("the guest was started again: boot %s, then %s", before.BootID, after.BootID)
	}
	if got := f.must(t, again, `cat "$HOME/marker"`); got != "kept" {
		t.Errorf("marker = %q", got)
	}
}

func testConcurrentAttach(t *testing.T, f *fixture) {
	h := f.allocate(t, "root-1")
	f.Kill(t, h)
	const n = 4
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = f.provider.Attach(t.Context(), ref(t, h)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("Attach = %v", err)
	}
	f.must(t, h, "true")
}

func testRelease(t *testing.T, f *fixture) {
	h := f.allocate(t, "root-1")
	other := f.allocate(t, "root-11") // a name that begins like the released one's
	begun := time.Now()
	for range 2 {
		if err := f.provider.Release(t.Context(), "root-1"); err != nil {
			t.Fatalf("Release = %v", err)
		}
	}
	t.Logf("released twice in %v", time.Since(begun))
	if err := f.provider.Release(t.Context(), "never-allocated"); err != nil {
		t.Errorf("Release of an unknown task = %v", err)
	}
	if _, err := f.provider.Attach(t.Context(), ref(t, h)); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Attach after Release = %v, want %v", err, sandbox.ErrGone)
	}
	is(t, f.condition(t, h), sandbox.StateLost, sandbox.CauseRemoved)
	f.must(t, other, "true")
}

func testStopped(t *testing.T, f *fixture) {
	stopper, ok := f.provider.(sandbox.Stopper)
	if !ok {
		t.Skip("the provider cannot stop a sandbox")
	}
	h := f.allocate(t, "root-1")
	f.must(t, h, `echo kept > "$HOME/marker"; echo kept > marker`)
	before, err := f.guest(t, h).Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stopper.Stop(t.Context(), ref(t, h)); err != nil {
		t.Fatalf("Stop = %v", err)
	}
	is(t, f.condition(t, h), sandbox.StateStopped, sandbox.CauseByHand)
	if err := stopper.Stop(t.Context(), ref(t, h)); err != nil {
		t.Errorf("Stop of a stopped sandbox = %v", err)
	}
	again, err := f.provider.Attach(t.Context(), ref(t, h))
	if err != nil {
		t.Fatalf("Attach = %v", err)
	}
	if got := f.must(t, again, `cat "$HOME/marker" marker; hostname`); got != "kept\nkept\n"+h.ShortID {
		t.Errorf("after the start: %q", got)
	}
	after, err := f.guest(t, again).Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.BootID == before.BootID || after.GuestID != before.GuestID {
		t.Errorf("boot %q, guest %q; before %q, %q", after.BootID, after.GuestID, before.BootID, before.GuestID)
	}
	is(t, f.condition(t, h), sandbox.StateReady, "")
	if err := stopper.Stop(t.Context(), ref(t, h)); err != nil {
		t.Errorf("Stop = %v", err)
	}
	// The clean-up releases a stopped sandbox.
}

// testStopBusy stops a sandbox in which so much runs that its end takes a while. What
// became of it is written down.
func testStopBusy(t *testing.T, f *fixture) {
	stopper, ok := f.provider.(sandbox.Stopper)
	if !ok {
		t.Skip("the provider cannot stop a sandbox")
	}
	h := f.allocate(t, "root-1")
	c := f.guest(t, h)
	const calls = 60
	id := func(i int) string { return fmt.Sprint("call-", i) }
	var ran sync.WaitGroup
	up := make(chan struct{}, calls)
	for i := range calls {
		ran.Go(func() {
			_, _ = c.Run(t.Context(), execenv.Caller{}, execenv.Command{ // whose channel the end may cut
				Call: execenv.Call{ID: id(i)}, Argv: []string{"/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 600; done"},
			}, func(execenv.Chunk) { up <- struct{}{} })
		})
	}
	for range calls {
		<-up
	}
	if err := stopper.Stop(t.Context(), ref(t, h)); err != nil {
		t.Fatalf("Stop = %v", err)
	}
	ran.Wait()
	is(t, f.condition(t, h), sandbox.StateStopped, sandbox.CauseByHand)
	again, err := f.provider.Attach(t.Context(), ref(t, h))
	if err != nil {
		t.Fatalf("Attach = %v", err)
	}
	c = f.guest(t, again)
	for i := range calls {
		if o, err := c.Follow(t.Context(), id(i), 0, 0, nil); err != nil || o.Kill == nil || o.Kill.Cause != "shutdown" {
			t.Errorf("%s: killed as %+v, %v", id(i), o.Kill, err)
		}
	}
}

func testKilled(t *testing.T, f *fixture) {
	h := f.allocate(t, "root-1")
	f.Kill(t, h)
	is(t, f.condition(t, h), sandbox.StateStopped, sandbox.CauseKilled)
	again, err := f.provider.Attach(t.Context(), ref(t, h))
	if err != nil {
		t.Fatalf("Attach = %v", err)
	}
	f.must(t, again, "true")
}

func testRemoved(t *testing.T, f *fixture) {
	h := f.allocate(t, "root-1")
	f.Remove(t, h)
	is(t, f.condition(t, h), sandbox.StateLost, sandbox.CauseRemoved)
	if _, err := f.provider.Attach(t.Context(), ref(t, h)); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Attach = %v, want %v", err, sandbox.ErrGone)
	}
	// The clean-up releases a task whose sandbox is gone.
}

func testPaused(t *testing.T, f *fixture) {
	if f.Pause == nil {
		t.Skip("this wall does not pause")
	}
	h := f.allocate(t, "root-1")
	f.Pause(t, h)
	is(t, f.condition(t, h), sandbox.StatePaused, sandbox.CauseByHand)
	again, err := f.provider.Attach(t.Context(), ref(t, h))
	if err != nil {
		t.Fatalf("Attach = %v", err)
	}
	f.must(t, again, "true")
	f.Pause(t, h) // the clean-up releases a paused sandbox
}

func testWatch(t *testing.T, f *fixture) {
	watcher, ok := f.provider.(sandbox.Watcher)
	if !ok {
		t.Skip("the provider does not watch")
	}
	h := f.allocate(t, "root-1")
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan sandbox.Change, 64) // more than one sandbox's life makes
	listed := make(chan struct{}, 8)
	done := make(chan error, 1)
	go func() {
		done <- watcher.Watch(ctx, func(c sandbox.Change) { changes <- c }, func() { listed <- struct{}{} })
	}()
	wait := func(value sandbox.State, cause string) {
		t.Helper()
		limit := time.After(30 * time.Second)
		for {
			select {
			case c := <-changes:
				if c.Ref == ref(t, h) && c.Condition.Value == value && c.Condition.Cause == cause {
					return
				}
			case <-limit:
				t.Fatalf("no change to %s, %q", value, cause)
			}
		}
	}
	select {
	case <-listed:
	case <-time.After(30 * time.Second):
		t.Fatal("Watch did not ask for a list")
	}
	f.Kill(t, h)
	wait(sandbox.StateStopped, sandbox.CauseKilled)
	if _, err := f.provider.Attach(t.Context(), ref(t, h)); err != nil {
		t.Fatal(err)
	}
	wait(sandbox.StateReady, "")
	f.Remove(t, h)
	wait(sandbox.StateLost, sandbox.CauseRemoved)
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Watch = %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Watch outlived its context")
	}
}

func testList(t *testing.T, f *fixture) {
	lister, ok := f.provider.(sandbox.Lister)
	if !ok {
		t.Skip("the provider does not list")
	}
	running, killed := f.allocate(t, "root-1"), f.allocate(t, "root-2")
	f.Kill(t, killed)
	found, err := lister.List(t.Context())
	if err != nil {
		t.Fatalf("List = %v", err)
	}
	got := map[string]string{}
	for _, s := range found {
		if s.Instance != f.instance || s.CreatedAt.IsZero() || s.ShortID == "" {
			t.Errorf("List has %+v", s)
		}
		got[s.RootTaskID+" "+string(s.Ref)] = string(s.Condition.Value)
	}
	want := map[string]string{
		"root-1 " + string(ref(t, running)): "ready",
		"root-2 " + string(ref(t, killed)):  "stopped",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("List = %v, want %v", got, want)
	}
}

func testRemoveVerb(t *testing.T, f *fixture) {
	remover, ok := f.provider.(sandbox.Remover)
	if !ok {
		t.Skip("the provider does not remove by address")
	}
	h := f.allocate(t, "root-1")
	for range 2 {
		if err := remover.Remove(t.Context(), ref(t, h)); err != nil {
			t.Errorf("Remove = %v", err)
		}
	}
	is(t, f.condition(t, h), sandbox.StateLost, sandbox.CauseRemoved)
	f.nothingLeft(t)
}

func testForeign(t *testing.T, f *fixture) {
	h := f.allocate(t, "root-1")
	stranger := newFixture(t, f.Harness)
	want := f.Foreign
	if want == nil {
		want = sandbox.ErrForeign
	}
	if _, err := stranger.provider.Attach(t.Context(), ref(t, h)); !errors.Is(err, want) {
		t.Errorf("Attach = %v, want %v", err, want)
	}
	if err := stranger.provider.Release(t.Context(), "root-1"); err != nil {
		t.Errorf("Release of another instance's task = %v", err)
	}
	if r, ok := stranger.provider.(sandbox.Remover); ok {
		if err := r.Remove(t.Context(), ref(t, h)); want == sandbox.ErrForeign && !errors.Is(err, want) {
			t.Errorf("Remove = %v, want %v", err, want)
		}
	}
	if l, ok := stranger.provider.(sandbox.Lister); ok {
		if found, err := l.List(t.Context()); err != nil || len(found) != 0 {
			t.Errorf("List = %v, %v, want nothing", found, err)
		}
	}
	f.must(t, h, "true")
}
