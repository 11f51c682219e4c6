package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// A stream of events that says nothing may be a quiet engine or a hanging one,
// so the engine is asked for a sign of life this often. Together with
// pingTimeout it bounds how long a hang stays unseen.
const heartbeat = 2 * time.Second

// How long Watch waits before it connects again.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// Watch reports changes of this instance's containers, whoever made them,
// until ctx ends; see sandbox.Watcher. A silent engine makes every container
// unreachable, and its return brings back what the engine says then.
func (p *Provider) Watch(ctx context.Context, report func(sandbox.Change), relist func()) error {
	w := &watch{p: p, report: report, last: map[string]sandbox.Condition{}}
	backoff, level := firstBackoff, slog.LevelWarn
	for {
		begun := time.Now()
		connected, err := w.follow(ctx, relist)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if connected {
			level = slog.LevelWarn
			if time.Since(begun) > backoff { // not of one that is cut as soon as it is there
				backoff = firstBackoff
			}
		}
		p.log.Log(ctx, level, "engine events interrupted", "err", err, "again_in", backoff)
		level = slog.LevelDebug // said once; that it goes on is no news
		silent := errors.Is(err, sandbox.ErrUnreachable)
		if !silent {
			_, err = p.connect(ctx)
			silent = err != nil && ctx.Err() == nil
		}
		if silent {
			w.silence()
			p.listeners.tell()
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return ctx.Err()
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

// watch remembers what was reported, so that a change is reported once.
type watch struct {
	p      *Provider
	report func(sandbox.Change)
	last   map[string]sandbox.Condition // by container id
}

// follow reads one stream of events to its end, and says whether it ever had
// one. It subscribes before it lists: nothing falls between the two.
func (w *watch) follow(ctx context.Context, relist func()) (connected bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := w.p.connect(ctx); err != nil {
		return false, err
	}
	late := time.AfterFunc(readTimeout, cancel) // Events returns when the engine has answered
	of := filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)))
	for _, action := range watched {
		of.Add("event", string(action))
	}
	stream, failed := w.p.engine.Events(ctx, events.ListOptions{Filters: of})
	defer func() { // the client's goroutine ends with its error
		cancel()
		for range failed {
		}
	}()
	if !late.Stop() {
		return false, fmt.Errorf("follow the engine's events: no answer in time: %w", sandbox.ErrUnreachable)
	}
	if err := w.compare(ctx); err != nil {
		return false, err
	}
	relist()
	w.p.listeners.tell()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case e := <-stream:
			if err := w.look(ctx, e); err != nil {
				return true, err
			}
		case err := <-failed:
			return true, fmt.Errorf("follow the engine's events: %w", err)
		case <-beat.C:
			if _, err := w.p.connect(ctx); err != nil {
				return true, err
			}
		}
	}
}

// watched are the events that change what a container is: all of the engine's,
// since guests live in others' containers too.
var watched = []events.Action{
	events.ActionCreate, events.ActionStart, events.ActionRestart, events.ActionDie, events.ActionStop, events.ActionKill,
	events.ActionOOM, events.ActionPause, events.ActionUnPause, events.ActionDestroy, events.ActionRename,
	"remove", // podman's word for destroy
}

// look reads back what an event has made of its container: an event says what
// happened, the engine says what is.
func (w *watch) look(ctx context.Context, e events.Message) error {
	defer w.p.listeners.tell()
	for _, at := range w.spots(e) {
		if e.Action == events.ActionDestroy || e.Action == "remove" {
			w.tell(at.String(), lost())
			continue
		}
		c, err := w.p.observe(ctx, at)
		if errors.Is(err, sandbox.ErrForeign) {
			continue
		}
		if err != nil {
			return err
		}
		w.tell(at.String(), c)
	}
	return nil
}

// spots are what this instance has in the container of an event.
func (w *watch) spots(e events.Message) (spots []spot) {
	id := e.Actor.ID
	if _, known := w.last[id]; known || e.Actor.Attributes[labelInstance] == w.p.opts.Instance {
		spots = append(spots, spot{id: id})
	}
	guests, err := w.p.adoptions(func(o owner) bool { return o.Container == id && !o.Adopted.Left })
	if err != nil {
		w.p.log.Warn("read the guests of a container", "container", id, "err", err)
	}
	for b := range guests {
		spots = append(spots, spot{id, b.guestID})
	}
	return spots
}

// compare reports what became of the known containers while nobody looked.
func (w *watch) compare(ctx context.Context) error {
	found, err := w.p.List(ctx)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, f := range found {
		id := f.Ref.ID()
		there[id] = true
		if _, known := w.last[id]; !known {
			w.last[id] = f.Condition // the caller relists: no news
			continue
		}
		w.tell(id, f.Condition)
	}
	for id := range w.last {
		if !there[id] {
			w.tell(id, lost())
		}
	}
	return nil
}

// silence reports every known container as unreachable.
func (w *watch) silence() {
	for id, c := range w.last {
		if c.Value != sandbox.StateLost {
			w.tell(id, unreachable())
		}
	}
}

// tell reports a condition unless it was the last one reported.
func (w *watch) tell(id string, c sandbox.Condition) {
	last, known := w.last[id]
	if known && last.Value == c.Value && last.Cause == c.Cause {
		return
	}
	if c.Value == sandbox.StateLost {
		delete(w.last, id)
	} else {
		w.last[id] = c
	}
	if ref, err := w.p.ref(id); err == nil {
		w.report(sandbox.Change{Ref: ref, Condition: c})
	}
}
