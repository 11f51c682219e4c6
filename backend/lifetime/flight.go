package lifetime

import (
	"context"
	"sync"
)

// flights lets callers that want the same thing at the same time share one
// attempt at it. The zero value is ready to use.
type flights[T any] struct {
	mu sync.Mutex

	byKey map[string]*flight[T]
}

type flight[T any] struct {
	done      chan struct{}
	value     T
	err       error
	abandoned bool // it failed because the caller that flew it went away
}

// do runs fly in the caller's goroutine, or waits for the one that another
// caller is in and returns its result. An attempt that ended because the ctx of
// the caller that made it ended decides nothing for the others: one of them
// makes the next.
func (g *flights[T]) do(ctx context.Context, key string, fly func() (T, error)) (T, error) {
	for {
		g.mu.Lock()
		f, joined := g.byKey[key]
		if !joined {
			f = &flight[T]{done: make(chan struct{}), abandoned: true}
			if g.byKey == nil {
				g.byKey = make(map[string]*flight[T])
			}
			g.byKey[key] = f
		}
		g.mu.Unlock()
		if !joined {
			return g.lead(ctx, key, f, fly)
		}
		select {
		case <-ctx.Done():
			var zero T
			return zero, ctx.Err()
		case <-f.done:
		}
		if !f.abandoned {
			return f.value, f.err
		}
		if err := ctx.Err(); err != nil {
			var zero T
			return zero, err
		}
	}
}

// doAnew is do with an attempt that begins after the call: one that is under way
// may have seen what was before the change that the caller has heard of.
func (g *flights[T]) doAnew(ctx context.Context, key string, fly func() (T, error)) (T, error) {
	g.mu.Lock()
	f, busy := g.byKey[key]
	g.mu.Unlock()
	if busy {
		select {
		case <-ctx.Done():
			var zero T
			return zero, ctx.Err()
		case <-f.done:
		}
	}
	return g.do(ctx, key, fly)
}

func (g *flights[T]) lead(ctx context.Context, key string, f *flight[T], fly func() (T, error)) (T, error) {
	defer func() {
		g.mu.Lock()
		delete(g.byKey, key)
		g.mu.Unlock()
		close(f.done)
	}()
	f.value, f.err = fly()
	f.abandoned = f.err != nil && ctx.Err() != nil
	return f.value, f.err
}
