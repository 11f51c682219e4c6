//go:build linux

package namespace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// reap collects the bubblewrap outside when it ends, which it does when the
// sandbox has ended, and notes why. Only the process that started it can: to
// any other one, why a sandbox ended is not to be had.
func (p *Provider) reap(b *box, outer *os.Process) {
	id, dir := b.ID, b.dir
	done := make(chan struct{})
	p.mu.Lock()
	p.reaping[id] = reaper{outer.Pid, done}
	p.mu.Unlock()
	p.reapers.Go(func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.reaping[id].done == done {
				delete(p.reaping, id)
			}
			close(done)
		}()
		// A child of ours keeps its number until it is collected below.
		if who, err := identify(outer.Pid); err == nil {
			proc, err := find(who)
			if err != nil {
				p.log.Error("watch bubblewrap", "container", short(id), "err", err)
				return
			}
			if proc != nil {
				defer proc.Close()
				if proc.wait(p.life) != nil {
					return // closed: the sandbox runs on, and init collects it
				}
			}
		}
		state, err := outer.Wait()
		if err != nil {
			p.log.Error("collect bubblewrap", "container", short(id), "err", err)
			return
		}
		cause, err := noteEnd(dir, outer.Pid, state.Sys().(syscall.WaitStatus))
		if err != nil {
			p.log.Error("note the end of a sandbox", "container", short(id), "err", err)
		}
		if cause != "" {
			p.log.Info("sandbox ended", "container", short(id), "cause", cause)
		}
	})
}

// reaper waits for the end of a bubblewrap that we started.
type reaper struct {
	outer int
	done  chan struct{} // closed when the end has been noted
}

// collected returns when the end of a sandbox, one that is known to have ended,
// has been noted, if that is up to us.
func (p *Provider) collected(ctx context.Context, id string, outer int) error {
	p.mu.Lock()
	r, ok := p.reaping[id]
	p.mu.Unlock()
	if !ok || r.outer != outer {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// noteEnd writes down why a sandbox ended, unless whoever ended it did.
// bubblewrap exits as the init did: with 128 and the signal's number. One that
// was killed itself says nothing of the sandbox. The cause is empty when that
// lives on.
func noteEnd(dir string, outer int, status syscall.WaitStatus) (cause string, err error) {
	cause = sandbox.CauseExited
	var r run
	if err := readJSON(filepath.Join(dir, processFile), &r); err != nil || r.Outer != outer {
		return cause, nil // removed, never admitted, or started again since
	}
	// The bubblewrap outside can be killed by itself, and is not needed any more.
	if proc, err := find(r.identity); proc != nil || err != nil {
		if proc != nil {
			proc.Close()
		}
		return "", err
	}
	name := filepath.Join(dir, stoppedFile)
	var s stopped
	if err := readJSON(name, &s); err == nil {
		return s.Cause, nil
	}
	switch {
	case status.Signaled():
		cause = sandbox.CauseUnseen
	case status.ExitStatus() == 128+int(syscall.SIGKILL):
		cause = sandbox.CauseKilled
		if outOfMemory(r.Cgroups) {
			cause = sandbox.CauseOutOfMemory
		}
	}
	err = writeJSON(name, stopped{Cause: cause, At: time.Now().UTC()})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // removed in between
	}
	return cause, err
}
