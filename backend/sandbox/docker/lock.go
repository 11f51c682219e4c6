package docker

import (
	"context"
	"sync"
)

// keyedLock is one lock per key, whose waiters can give up.
type keyedLock struct {
	mu    sync.Mutex
	slots map[string]*slot
}

type slot struct {
	held  chan struct{} // capacity 1: full while somebody holds the key
	users int           // holder and waiters
}

// lock returns what unlocks key, or the error of a ctx that ended first.
func (l *keyedLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	s := l.slots[key]
	if s == nil {
		if l.slots == nil {
			l.slots = map[string]*slot{}
		}
		s = &slot{held: make(chan struct{}, 1)}
		l.slots[key] = s
	}
	s.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(l.slots, key)
		}
	}
	select {
	case s.held <- struct{}{}:
		return func() { <-s.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
