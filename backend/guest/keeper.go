//go:build linux

package guest

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/guest/process"
)

// keeper is one thread with the guest's own rights over files, which lower takes
// from all others. It has them from before the first command to its end: a thread
// that changed its ids for a moment would make the guest undumpable for that long.
type keeper struct {
	work chan func()
	life chan struct{} // closed by close
	wg   sync.WaitGroup
}

// newKeeper starts a keeper in a guest that has been lowered.
func newKeeper() (*keeper, error) {
	k := &keeper{work: make(chan func()), life: make(chan struct{})}
	ready := make(chan error)
	k.wg.Go(func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		ready <- takeOwnRights()
		for {
			select {
			case f := <-k.work:
				f()
			case <-k.life:
				return
			}
		}
	})
	if err := <-ready; err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// takeOwnRights gives the calling thread the rights that the guest has.
func takeOwnRights() error {
	_, permitted, err := process.Capabilities()
	if err == nil {
		err = process.SetCapabilities(permitted, permitted)
	}
	if err != nil {
		return fmt.Errorf("raise capabilities: %w", err)
	}
	_ = unix.Setfsgid(os.Getegid()) // whether it worked is asked next
	_ = unix.Setfsuid(os.Geteuid())
	if uid, gid := fsIDs(); uid != os.Geteuid() || gid != os.Getegid() {
		return fmt.Errorf("file access stayed with %d:%d; the guest needs SETUID and SETGID", uid, gid)
	}
	// The change can have taken some out of effect.
	if err := process.SetCapabilities(permitted, permitted); err != nil {
		return fmt.Errorf("raise capabilities: %w", err)
	}
	return nil
}

// do runs f with the guest's rights and returns after it. A keeper that is closed
// has none left to give.
func (k *keeper) do(f func()) {
	done := make(chan struct{})
	select {
	case k.work <- func() { defer close(done); f() }:
		<-done
	case <-k.life:
		f()
	}
}

func (k *keeper) close() {
	close(k.life)
	k.wg.Wait()
}

// asGuest runs f with the guest's own rights over files: on the calling thread
// until the guest has been lowered.
func (g *Guest) asGuest(f func()) {
	if g.keeper == nil {
		f()
		return
	}
	g.keeper.do(f)
}
