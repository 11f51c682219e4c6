package providertest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// bomb forks until nothing more can be forked; what it has made spins, and does
// not end by itself.
const bomb = "{ while :; do { while :; do :; done; } & done; } & exec sleep 30"

// testForkBomb lets a bomb take all the processes that a sandbox may have, and
// with them nearly all of its CPU. Its timeout still ends it, all of it, and
// leaves another call's processes alone.
func testForkBomb(t *testing.T, f *fixture) {
	h, c := f.limited(t, "300")
	type end struct {
		execenv.Outcome
		err error
	}
	other := make(chan end, 1)
	up := make(chan struct{})
	go func() {
		o, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{
			Argv: []string{"/bin/sh", "-c", "echo up; while [ ! -e go ]; do :; done; echo kept"}, Timeout: time.Minute,
		}, func(ch execenv.Chunk) {
			if ch.Offset == 0 {
				close(up)
			}
		})
		other <- end{o, err}
	}()
	<-up
	begun := time.Now()
	o, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{
		Argv: []string{"/bin/sh", "-c", bomb}, Timeout: 2 * time.Second,
	}, nil)
	took := time.Since(begun)
	if err != nil || !o.TimedOut || o.Kill == nil {
		t.Fatalf("the bomb: %+v, %v", o, err)
	}
	if len(o.Kill.Left) > 0 || len(o.Kill.Killed) < 50 {
		t.Errorf("%d killed, left %v, in %d rounds and %v", len(o.Kill.Killed), o.Kill.Left, o.Kill.Rounds, o.Kill.Took)
	}
	if took > 30*time.Second {
		t.Errorf("it took %v, the kill %v of it in %d rounds", took, o.Kill.Took, o.Kill.Rounds)
	}
	f.must(t, h, "touch go")
	if o := <-other; o.err != nil || o.ExitCode != 0 || !strings.HasSuffix(string(o.Stdout.Head), "kept\n") {
		t.Errorf("the other call: %+v", o)
	}
}

// testFullTable asks a guest for much at once while its sandbox has no room for one
// more process or thread. It answers all of it, and is the same guest afterwards.
func testFullTable(t *testing.T, f *fixture) {
	h, c := f.limited(t, "80")
	before, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.must(t, h, "mkdir many; for i in $(seq 200); do head -c 20000 /dev/zero > many/$i; done")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{
			Argv: []string{"/bin/sh", "-c", bomb}, Timeout: 3 * time.Second,
		}, nil)
		if err != nil || !o.TimedOut {
			t.Errorf("the bomb: %+v, %v", o, err)
		}
	}()
	var askers sync.WaitGroup
	for i := range 40 {
		askers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				var err error
				if i%2 == 0 {
					_, err = c.Grep(t.Context(), execenv.Caller{}, execenv.GrepRequest{Pattern: "nowhere", Path: h.Workdir + "/many"})
				} else {
					_, err = c.ReadFile(t.Context(), execenv.Caller{}, execenv.ReadRequest{Path: h.Workdir + "/many/1"})
				}
				if err != nil {
					t.Errorf("asked while nothing more could be forked: %v", err)
					return
				}
			}
		})
	}
	askers.Wait()
	after, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.BootID != before.BootID {
		t.Errorf("the guest was started again: boot %s, then %s", before.BootID, after.BootID)
	}
}

// limited makes a sandbox that may have so many processes and threads.
func (f *fixture) limited(t *testing.T, pids string) (sandbox.Handle, *client.Client) {
	t.Helper()
	spec := f.Spec(f.workspace(t, 1000))
	spec.Resources = map[string]string{"pids": pids}
	h, err := f.provider.Allocate(t.Context(), f.released("root-1"), spec)
	if err != nil {
		t.Fatalf("Allocate = %v", err)
	}
	d, err := f.provider.(sandbox.Describer).Describe(t.Context(), ref(t, h))
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(d.NotEnforced, func(s string) bool { return strings.Contains(s, "pids") }) {
		t.Skip("the number of processes is not limited on this machine: the bomb would hit all of it")
	}
	return h, f.guest(t, h)
}
