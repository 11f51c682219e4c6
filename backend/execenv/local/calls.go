package local

import (
	"context"
	"fmt"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// keptCalls is how many outcomes are kept; one of a command is up to 256 KiB.
const keptCalls = 128

// calls makes effects happen once for each call id. The zero value is empty.
type calls struct {
	mu    sync.Mutex
	known map[string]*effect
	order []string // ids by age
}

// effect is one call and, once done is closed, how it ended.
type effect struct {
	kind  string
	done  chan struct{}
	value any
	err   error
}

// once does an effect, or waits for the earlier one with the same id and
// returns what that returned.
func once[T any](ctx context.Context, c *calls, kind string, call execenv.Call, do func() (T, error)) (T, error) {
	var none T
	if call.ID == "" && call.Boot == "" {
		return do()
	}
	c.mu.Lock()
	known, ok := c.known[call.ID]
	if !ok && call.Boot != "" {
		c.mu.Unlock()
		return none, fmt.Errorf("call %s began in another process on the host: %w", call.ID, execenv.ErrOutcomeUnknown)
	}
	if !ok {
		e := c.begin(kind, call.ID)
		c.mu.Unlock()
		defer close(e.done)
		value, err := do()
		e.value, e.err = value, err
		return value, err
	}
	c.mu.Unlock()

	if known.kind != kind {
		return none, fmt.Errorf("call %s was a %s: %w", call.ID, known.kind, execenv.ErrInvalid)
	}
	select {
	case <-known.done:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	value, _ := known.value.(T)
	return value, known.err
}

// begin adds a call and forgets the oldest one that is over. mu is held.
func (c *calls) begin(kind, id string) *effect {
	if c.known == nil {
		c.known = make(map[string]*effect)
	}
	e := &effect{kind: kind, done: make(chan struct{})}
	c.known[id] = e
	c.order = append(c.order, id)
	for i := 0; len(c.order) > keptCalls && i < len(c.order); i++ {
		select {
		case <-c.known[c.order[i]].done:
			delete(c.known, c.order[i])
			c.order = append(c.order[:i], c.order[i+1:]...)
			return e
		default:
		}
	}
	return e
}
