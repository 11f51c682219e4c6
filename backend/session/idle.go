package session

import (
	"context"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Busy reports whether a session uses its sandbox in a way that no guest sees: a
// turn runs, be it that the model thinks, a person's command does, one looks at the browser,
// or something is made of the sandbox.
func (s *Service) Busy(root string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.drivers[root]
	return ok && d.cancel != nil || s.works[root] != nil || s.hands[root] > 0 || s.panes.seen(root)
}

// using counts a person's command in until the returned function is called.
func (s *Service) using(root string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hands[root]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hands[root]--; s.hands[root] == 0 {
			delete(s.hands, root)
		}
	}
}

// rouse starts a sandbox again that was stopped for want of use.
func (s *Service) rouse(ctx context.Context, root string) error {
	c, ok := s.o.Lifetime.Condition(root)
	if !ok || c.Value != sandbox.StateStopped || c.Cause != sandbox.CauseIdle {
		return nil
	}
	_, err := s.o.Lifetime.Attach(ctx, root)
	return err
}

// rouseFor is rouse for a person, who has named the session in whatever way. To
// look at files starts nothing.
func (s *Service) rouseFor(ctx context.Context, id string) error {
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	return s.rouse(ctx, v.ID)
}
