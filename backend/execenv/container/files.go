package container

import (
	"context"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// ReadFile reads a piece of a file.
func (e *Env) ReadFile(ctx context.Context, r execenv.ReadRequest) (execenv.ReadResult, error) {
	return ask(ctx, e, func(c channel) (execenv.ReadResult, error) {
		q := r
		q.Path = c.abs(r.Path)
		return c.ReadFile(ctx, e.caller, q)
	})
}

// Stat describes a path.
func (e *Env) Stat(ctx context.Context, path string) (execenv.FileInfo, error) {
	return ask(ctx, e, func(c channel) (execenv.FileInfo, error) { return c.Stat(ctx, e.caller, c.abs(path)) })
}

// List lists a directory.
func (e *Env) List(ctx context.Context, path string) (execenv.ListResult, error) {
	return ask(ctx, e, func(c channel) (execenv.ListResult, error) { return c.List(ctx, e.caller, c.abs(path)) })
}

// Glob finds files by a pattern.
func (e *Env) Glob(ctx context.Context, r execenv.GlobRequest) (execenv.GlobResult, error) {
	return ask(ctx, e, func(c channel) (execenv.GlobResult, error) {
		q := r
		q.Base = c.abs(r.Base)
		return c.Glob(ctx, e.caller, q)
	})
}

// Grep searches contents.
func (e *Env) Grep(ctx context.Context, r execenv.GrepRequest) (execenv.GrepResult, error) {
	return ask(ctx, e, func(c channel) (execenv.GrepResult, error) {
		q := r
		q.Path = c.abs(r.Path)
		return c.Grep(ctx, e.caller, q)
	})
}

// Snapshot lists trees with selected contents.
func (e *Env) Snapshot(ctx context.Context, r execenv.SnapshotRequest) (execenv.SnapshotResult, error) {
	return ask(ctx, e, func(c channel) (execenv.SnapshotResult, error) {
		q := r
		q.Roots = c.allAbs(r.Roots)
		return c.Snapshot(ctx, e.caller, q)
	})
}

// WriteFile replaces or makes a file.
func (e *Env) WriteFile(ctx context.Context, r execenv.WriteRequest) (execenv.WriteResult, error) {
	return effect(ctx, e, r.Call, "write "+r.Path, func(c channel, call execenv.Call) (execenv.WriteResult, error) {
		q := r
		q.Call, q.Path, q.Within = call, c.abs(r.Path), c.allAbs(r.Within)
		return c.WriteFile(ctx, e.caller, q)
	})
}

// EditFile replaces exact text in a file.
func (e *Env) EditFile(ctx context.Context, r execenv.EditRequest) (execenv.EditResult, error) {
	return effect(ctx, e, r.Call, "edit "+r.Path, func(c channel, call execenv.Call) (execenv.EditResult, error) {
		q := r
		q.Call, q.Path, q.Within = call, c.abs(r.Path), c.allAbs(r.Within)
		return c.EditFile(ctx, e.caller, q)
	})
}

// Change changes a directory's entries.
func (e *Env) Change(ctx context.Context, r execenv.ChangeRequest) error {
	_, err := effect(ctx, e, r.Call, string(r.Kind)+" "+r.Path, func(c channel, call execenv.Call) (struct{}, error) {
		q := r
		q.Call, q.Path, q.Within = call, c.abs(r.Path), c.allAbs(r.Within)
		if r.Kind == execenv.ChangeRename {
			q.To = c.abs(r.To)
		}
		return struct{}{}, c.Change(ctx, e.caller, q)
	})
	return err
}

// ask makes a request without effects. One whose channel broke is made once more
// if the guest answers again.
func ask[T any](ctx context.Context, e *Env, do func(channel) (T, error)) (T, error) {
	return request(ctx, e, func(err error) error { return err }, func(c channel, _ string) (T, error) { return do(c) })
}

// effect makes a request that must have its effect once. One whose channel broke
// is taken up by its call id; without an id, nobody can say what became of it.
func effect[T any](ctx context.Context, e *Env, call execenv.Call, what string, do func(channel, execenv.Call) (T, error)) (T, error) {
	return request(ctx, e, midway, func(c channel, before string) (T, error) {
		again := call
		switch {
		case before != "" && call.ID == "":
			var none T
			return none, fmt.Errorf("%s: the connection broke before the answer: %w", what, execenv.ErrOutcomeUnknown)
		case before != "" && call.Boot == "":
			again.Boot = before
		}
		return do(c, again)
	})
}

// request makes a request of the guest. When its channel breaks it asks why, and
// where the guest answers it makes the request once more; before is then the
// boot that the first one was made in. down turns the reason of a sandbox that
// went down meanwhile into the request's error.
func request[T any](ctx context.Context, e *Env, down func(error) error, do func(c channel, before string) (T, error)) (T, error) {
	var none T
	c, err := e.channel(ctx)
	if err != nil {
		return none, err
	}
	v, err := do(c, "")
	if !broken(err) {
		return v, err
	}
	if err := e.why(ctx); err != nil {
		return none, down(err)
	}
	before := c.boot
	if c, err = e.channel(ctx); err != nil {
		return none, err
	}
	if v, err = do(c, before); broken(err) {
		return none, silent(err)
	}
	return v, err
}

// why returns why the channel broke, in the words of an Env; nil when the guest
// answers. It ends with ctx.
func (e *Env) why(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return translate(e.channels.Why(ctx, e.root))
}
