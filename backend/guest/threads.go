//go:build linux

package guest

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/guest/process"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// A Go program starts a thread where system calls block all that it has, and
// crashes where the kernel has none to give. A command that takes every process
// that its sandbox may have, as a fork bomb does, would end the guest so, and the
// sandbox with it. Therefore a guest makes all threads that it can ever need before
// its first command, and bounds what blocks them: what runs Go code, operations on
// files, searches with a worker per processor, and kills. The others are locked
// ones, the runtime's own, and those of short calls.
const (
	maxProcs       = 8
	filesAtOnce    = 8
	searchesAtOnce = 2
	otherThreads   = 10
)

// reserve makes the guest's threads, which the runtime keeps. The warning says that
// the sandbox has no room for all of them, which only one can that others made.
func (m *memory) reserve() (warning string) {
	procs := min(runtime.GOMAXPROCS(0), maxProcs)
	runtime.GOMAXPROCS(procs)
	want := procs + filesAtOnce + searchesAtOnce*procs + process.KillsAtOnce + otherThreads
	n := want
	var s wire.Stats
	if m.stats(&s); s.PIDsLimit > 0 {
		n = min(n, (s.PIDsLimit-s.PIDs)/2)
	}
	makeThreads(n)
	if n < want {
		return fmt.Sprintf("%d processes and threads are allowed here, too few for the guest's own: a command that takes all of them may end it", s.PIDsLimit)
	}
	return ""
}

// makeThreads returns when the process has at least n threads that wait for work.
func makeThreads(n int) {
	if n <= 0 {
		return
	}
	var there, gone sync.WaitGroup
	there.Add(n)
	leave := make(chan struct{})
	for range n {
		gone.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			there.Done()
			<-leave
		})
	}
	there.Wait()
	close(leave)
	gone.Wait()
}

// slots are how many may do something at once; who comes then waits.
type slots chan struct{}

// do runs f in a slot. The error is that of ctx, which ended before there was one.
func (s slots) do(ctx context.Context, f func()) error {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s }()
	f()
	return nil
}
