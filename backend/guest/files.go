//go:build linux

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/journal"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

func (g *Guest) fileRoutes(mux *http.ServeMux) {
	s := g.files
	handle(mux, g, g.working, wire.PathRead, s.ReadFile)
	handle(mux, g, g.working, wire.PathStat, func(ctx context.Context, r wire.PathRequest) (execenv.FileInfo, error) {
		return s.Stat(ctx, r.Path)
	})
	handle(mux, g, g.working, wire.PathList, func(ctx context.Context, r wire.PathRequest) (execenv.ListResult, error) {
		return s.List(ctx, r.Path)
	})
	handle(mux, g, g.searches, wire.PathGlob, s.Glob)
	handle(mux, g, g.searches, wire.PathGrep, s.Grep)
	handle(mux, g, g.searches, wire.PathSnapshot, s.Snapshot)
	mux.HandleFunc("POST "+wire.PathWatch, g.watch)

	effect(mux, g, wire.PathWrite, s.WriteFile, func(r execenv.WriteRequest) execenv.Call { return r.Call })
	effect(mux, g, wire.PathEdit, s.EditFile, func(r execenv.EditRequest) execenv.Call { return r.Call })
	change := func(ctx context.Context, r execenv.ChangeRequest) (struct{}, error) {
		return struct{}{}, s.Change(ctx, r)
	}
	effect(mux, g, wire.PathChange, change, func(r execenv.ChangeRequest) execenv.Call { return r.Call })
}

// handle serves an operation without effects, which takes a slot.
func handle[Req, Res any](mux *http.ServeMux, g *Guest, slots slots, path string, do func(context.Context, Req) (Res, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var req Req
		if err := decode(w, r, &req); err != nil {
			fail(w, err)
			return
		}
		var res Res
		var err error
		if slots.do(r.Context(), func() { res, err = do(r.Context(), req) }) != nil {
			return // nobody waits for it any more
		}
		if err != nil {
			fail(w, g.missing(err))
			return
		}
		answer(w, res)
	})
}

// missing turns the error of a path that is not there into that of a workspace
// that is not there, where that is why.
func (g *Guest) missing(err error) error {
	var p *execenv.PathError
	dir := g.cfg.Workdir
	if !errors.As(err, &p) || !errors.Is(err, execenv.ErrNotFound) || isDir(dir) {
		return err
	}
	if p.Path != dir && !strings.HasPrefix(p.Path, strings.TrimSuffix(dir, "/")+"/") {
		return err
	}
	return &execenv.PathError{Path: dir, Err: execenv.ErrWorkdirGone}
}

// effect serves an operation that happens once for each call id.
func effect[Req, Res any](mux *http.ServeMux, g *Guest, path string, do func(context.Context, Req) (Res, error), call func(Req) execenv.Call) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var req Req
		if err := decode(w, r, &req); err != nil {
			fail(w, err)
			return
		}
		caller, _ := callerOf(r) // the fence has read it before
		end, err := g.effects.once(r.Context(), path, caller, call(req), func(ctx context.Context) ended {
			var res Res
			var err error
			_ = g.working.do(ctx, func() { res, err = do(ctx, req) }) // what has begun ends
			if err == nil {
				var body []byte
				if body, err = json.Marshal(res); err == nil {
					return ended{Body: body}
				}
			}
			e, status := wire.EncodeError(g.missing(err))
			return ended{Error: &e, Status: status}
		})
		switch {
		case err != nil:
			fail(w, err)
		case end.Error != nil:
			body, _ := json.Marshal(end.Error) // strings alone: cannot fail
			send(w, end.Status, body)
		default:
			send(w, http.StatusOK, end.Body)
		}
	})
}

// effects makes file operations happen once.
type effects struct {
	journal *journal.Journal
	boot    string

	mu      sync.Mutex
	running map[string]chan struct{}
}

// once does an effect, or returns how it ended when its id is known. An effect
// that has begun is not cut short when its request goes away.
func (e *effects) once(ctx context.Context, kind string, caller execenv.Caller, call execenv.Call, do func(context.Context) ended) (ended, error) {
	if call.ID == "" {
		return do(context.WithoutCancel(ctx)), nil
	}
	if len(call.ID) > maxID {
		return ended{}, fmt.Errorf("a call id of %d bytes: %w", len(call.ID), execenv.ErrInvalid)
	}
	for {
		e.mu.Lock()
		running, ok := e.running[call.ID]
		if !ok {
			break // mu stays held
		}
		e.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return ended{}, ctx.Err()
		}
	}
	if entry, ok := e.journal.Lookup(call.ID); ok {
		e.mu.Unlock()
		return e.recall(entry, kind)
	}
	if call.Boot != "" && call.Boot != e.boot {
		e.mu.Unlock()
		return ended{}, fmt.Errorf("call %s began in another boot of the sandbox: %w", call.ID, execenv.ErrOutcomeUnknown)
	}
	done := make(chan struct{})
	e.running[call.ID] = done
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.running, call.ID)
		e.mu.Unlock()
		close(done)
	}()
	err := e.journal.Start(journal.Entry{
		ID: call.ID, Kind: kind, Root: caller.RootTaskID, Generation: caller.Generation,
		Boot: e.boot, StartedAt: time.Now(),
	})
	if err != nil {
		return ended{}, err
	}
	end := do(context.WithoutCancel(ctx))
	body, err := json.Marshal(end)
	if err != nil {
		return ended{}, fmt.Errorf("encode the outcome of call %s: %w", call.ID, err)
	}
	_ = e.journal.Finish(call.ID, body) // a full disk does not hold the answer back
	return end, nil
}

func (e *effects) recall(entry journal.Entry, kind string) (ended, error) {
	switch {
	case entry.Kind != kind:
		return ended{}, fmt.Errorf("call %s was a %s: %w", entry.ID, entry.Kind, execenv.ErrInvalid)
	case !entry.Finished:
		return ended{}, fmt.Errorf("call %s began at %s: %w", entry.ID, entry.StartedAt.Format(time.RFC3339), execenv.ErrOutcomeUnknown)
	}
	body, err := e.journal.Outcome(entry.ID)
	if err != nil {
		return ended{}, err
	}
	var end ended
	if err := json.Unmarshal(body, &end); err != nil {
		return ended{}, fmt.Errorf("read the outcome of call %s: %w", entry.ID, err)
	}
	return end, nil
}
