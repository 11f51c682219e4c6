//go:build linux

package namespace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Watch implements sandbox.Watcher. It waits for the kernel alone: by inotify
// for boxes that come, go or are started, by pidfd for processes that end.
func (p *Provider) Watch(ctx context.Context, report func(sandbox.Change), relist func()) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch the boxes: %w", err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, p.boxes, unix.IN_CREATE|unix.IN_DELETE|unix.IN_ONLYDIR); err != nil {
		events.Close()
		return fmt.Errorf("watch the boxes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{p: p, fd: fd, wake: make(chan struct{}, 1), known: map[string]*watched{}}
	defer w.wg.Wait()
	defer cancel()
	defer events.Close()
	w.wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			if _, err := events.Read(buf); err != nil {
				return // closed
			}
			w.ring()
		}
	})
	// What is there already is the business of the list.
	if err := w.scan(ctx, func(sandbox.Change) {}); err != nil {
		return err
	}
	relist()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
			if err := w.scan(ctx, report); err != nil {
				return err
			}
		}
	}
}

// watch is the state of one Watch.
type watch struct {
	p     *Provider
	fd    int
	wake  chan struct{} // capacity 1: one look at everything is enough for any number of events
	wg    sync.WaitGroup
	known map[string]*watched
}

// watched is a box as it was last seen.
type watched struct {
	condition sandbox.Condition
	process   identity // whose end is waited for
}

func (w *watch) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// scan looks at every box of ours and reports what has changed.
func (w *watch) scan(ctx context.Context, report func(sandbox.Change)) error {
	ids, err := w.p.ids()
	if err != nil {
		return fmt.Errorf("watch the boxes: %w", err)
	}
	there := map[string]bool{}
	for _, id := range ids {
		there[id] = true
		// Before the look, so that nothing falls between the two. A directory
		// that is missing is being made or removed, which rings as well.
		dir := filepath.Join(w.p.boxes, id)
		unix.InotifyAddWatch(w.fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR)
		unix.InotifyAddWatch(w.fd, filepath.Join(dir, "run"), unix.IN_MOVED_TO|unix.IN_DELETE|unix.IN_ONLYDIR)

		m, err := w.p.read(id)
		if err != nil || m.Instance != w.p.opts.Instance {
			continue
		}
		seen := w.known[id]
		if seen == nil {
			seen = &watched{}
			w.known[id] = seen
		}
		if err := w.follow(ctx, id, seen); err != nil {
			return err
		}
		c, err := w.p.condition(ctx, id)
		if err != nil {
			return err
		}
		if c.Value != seen.condition.Value || c.Cause != seen.condition.Cause {
			seen.condition = c
			report(sandbox.Change{Ref: m.ref(), Condition: c})
		}
	}
	for id := range w.known {
		if there[id] {
			continue
		}
		delete(w.known, id)
		c, err := w.p.condition(ctx, id)
		if err != nil {
			return err
		}
		report(sandbox.Change{Ref: meta{ID: id}.ref(), Condition: c})
	}
	return nil
}

// follow waits for the end of a box's process, once for each process.
func (w *watch) follow(ctx context.Context, id string, seen *watched) error {
	b := &box{meta: meta{ID: id}, dir: filepath.Join(w.p.boxes, id)}
	proc, err := b.process()
	if proc == nil || err != nil {
		return err
	}
	if proc.id == seen.process {
		proc.Close()
		return nil
	}
	seen.process = proc.id
	w.wg.Go(func() {
		defer proc.Close()
		if proc.wait(ctx) == nil {
			w.ring()
		}
	})
	return nil
}
