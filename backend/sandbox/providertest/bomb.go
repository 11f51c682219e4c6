package providertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// bomb forks until nothing more can be forked; what it has made spins, and does
// not end by itself.
const bomb = "{ while :; do { while :; do :; done; } & done; } & exec sleep 30"

// testForkBomb lets a bomb take all the processes that a sandbox may have, and
// with them nearly all of its CPU. Its timeout still ends it, all of it, and
// leaves another call's processes alone.
func testForkBomb(t *testing.T, f *fixture) {
	spec := f.Spec(f.workspace(t, 1000))
	spec.Resources = map[string]string{"pids": "300"}
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
	c := f.guest(t, h)
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
