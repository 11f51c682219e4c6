package execenv

import (
	"context"
	"fmt"
)

// Caller is who drives a task: the fence of every request of an agent. The zero
// Caller is a person, who is not fenced.
type Caller struct {
	RootTaskID string
	Generation int64
}

// Binder finds the live place that a root task is bound to and opens its Env
// for a caller. It attaches when it has to and never allocates.
type Binder interface {
	Bind(ctx context.Context, rootTaskID string, c Caller) (Env, error)
}

// Router finds the Env of a task. Subtasks, at any depth, share the place of
// their root task; a task bound to no place is refused, never run on the host.
type Router struct {
	binders map[string]Binder // by wall
}

// NewRouter returns a Router over one Binder per wall.
func NewRouter(binders map[string]Binder) *Router { return &Router{binders: binders} }

// Env returns the Env of the root task that is bound behind wall.
func (r *Router) Env(ctx context.Context, wall, rootTaskID string, c Caller) (Env, error) {
	b, ok := r.binders[wall]
	if !ok {
		return nil, fmt.Errorf("task %s is bound to no known wall (%q): %w", rootTaskID, wall, ErrUnsupported)
	}
	return b.Bind(ctx, rootTaskID, c)
}
