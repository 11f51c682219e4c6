package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// reconcile measures how long a server that starts takes until it knows what has
// become of the sandboxes that the last one left, by its own log.
func (b *bench) reconcile(ctx context.Context) {
	n := b.many(20, 2)
	what := fmt.Sprintf("reconcile %d sandboxes at start", n)
	b.eachWall(ctx, what, func(wall sandbox.Wall) (err error) {
		data := filepath.Join(b.o.Dir, "reconcile-"+string(wall))
		ids, instance, err := b.leaveSandboxes(ctx, data, wall, n)
		defer func() {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
			defer cancel()
			err = errors.Join(err, b.takeSandboxes(clean, data, ids))
		}()
		if err != nil {
			return err
		}
		var values, floors []time.Duration
		for range b.many(10, 1) {
			took, err := b.reconciled(ctx, data, ids)
			if err != nil {
				return err
			}
			values = append(values, took)
			if wall != sandbox.WallDocker || b.engine.client == nil {
				continue
			}
			least, err := timed(func() error { return b.engine.list(ctx, instance) })
			if err != nil {
				return err
			}
			floors = append(floors, least)
		}
		row := Row{What: fmt.Sprintf("%s, %s", what, wall), Unit: "ms", Value: millis(values), Floor: millis(floors)}
		if len(floors) > 0 {
			row.FloorIs = "the engine's list of them"
		}
		b.report(row, atMost(150, "ms"))
		return nil
	})
}

// leaveSandboxes runs a server that opens sessions and ends, and leaves them.
func (b *bench) leaveSandboxes(ctx context.Context, data string, wall sandbox.Wall, n int) (ids []string, instance string, err error) {
	s, err := b.serve(ctx, data)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var about httpapi.About
	if err := s.api.Call(ctx, "GET", "/about", nil, &about); err != nil {
		return nil, "", err
	}
	for range n {
		id, _, err := openSession(ctx, s.api, wall)
		if id != "" {
			ids = append(ids, id)
		}
		if err != nil {
			return ids, "", err
		}
	}
	return ids, about.Instance, nil
}

// takeSandboxes runs a server that closes sessions.
func (b *bench) takeSandboxes(ctx context.Context, data string, ids []string) error {
	s, err := b.serve(ctx, data)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, closeSession(ctx, s.api, id))
	}
	return errors.Join(append(errs, s.stop())...)
}

// tookToReconcile finds in a server's log how long it took.
var tookToReconcile = regexp.MustCompile(`msg="sandboxes reconciled".* took=(\S+)`)

// reconciled runs a server until it has seen all sandboxes itself, and returns
// how long its first look took.
func (b *bench) reconciled(ctx context.Context, data string, ids []string) (time.Duration, error) {
	s, err := b.serve(ctx, data, "--verbose")
	if err != nil {
		return 0, err
	}
	err = seenAll(ctx, s.api, ids)
	if err := errors.Join(err, s.stop()); err != nil {
		return 0, err
	}
	m := tookToReconcile.FindSubmatch(s.log.Bytes())
	if m == nil {
		return 0, errors.New("the server's log does not say when it was done")
	}
	return time.ParseDuration(string(m[1]))
}

// seenAll returns when the state of each session is somebody's word but the
// ledger's.
func seenAll(ctx context.Context, api API, ids []string) error {
	for _, id := range ids {
		err := api.Follow(ctx, id, func(f httpapi.Frame) error {
			all := f.Sessions
			if f.Session != nil {
				all = append(all, *f.Session)
			}
			for _, v := range all {
				if v.ID == id && v.Sandbox != nil && v.Sandbox.Source != "ledger" {
					return errSeen
				}
			}
			return nil
		})
		if !errors.Is(err, errSeen) {
			return err
		}
	}
	return nil
}

// list asks the engine for the containers of an instance.
func (e *engine) list(ctx context.Context, instance string) error {
	filters := url.QueryEscape(fmt.Sprintf(`{"label":["glovebox.instance=%s"]}`, instance))
	var all []struct{ ID string }
	return e.call(ctx, "GET", "/containers/json?all=1&filters="+filters, nil, &all)
}
