package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// View is a session as it is now: what its log says, and what was last
// observed of its sandbox.
type View struct {
	task.Summary
	Condition *sandbox.Condition // nil on the local wall and before the first observation
	Step      string             // of an allocation under way
}

// views folds the store's log to summaries, each event once.
type views struct {
	store *store.Store
	turn  chan struct{} // capacity one: whoever holds the token reads and folds

	seen  int64
	roots map[string]*task.Summary
}

func newViews(s *store.Store) *views {
	v := &views{store: s, turn: make(chan struct{}, 1), roots: map[string]*task.Summary{}}
	v.turn <- struct{}{}
	return v
}

// all returns the summaries of all root tasks, newest first.
func (v *views) all(ctx context.Context) ([]task.Summary, error) {
	select {
	case <-v.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { v.turn <- struct{}{} }()
	if err := v.catchUp(ctx); err != nil {
		return nil, err
	}
	out := make([]task.Summary, 0, len(v.roots))
	for _, s := range v.roots {
		c := *s
		c.Open, c.Waiting = slices.Clone(s.Open), slices.Clone(s.Waiting)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b task.Summary) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

func (v *views) catchUp(ctx context.Context) error {
	const page = 1000
	for {
		events, err := v.store.Events(ctx, store.Query{After: v.seen, Limit: page})
		if err != nil {
			return err
		}
		for _, e := range events {
			v.seen = e.Seq
			if e.TaskID != e.RootTaskID {
				continue
			}
			s, ok := v.roots[e.RootTaskID]
			if !ok {
				s = &task.Summary{}
				v.roots[e.RootTaskID] = s
			}
			s.Apply(e)
		}
		if len(events) < page {
			return nil
		}
	}
}

// Views returns all sessions, newest first.
func (s *Service) Views(ctx context.Context) ([]View, error) {
	summaries, err := s.views.all(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the sessions: %w", err)
	}
	out := make([]View, len(summaries))
	for i, sum := range summaries {
		out[i] = View{Summary: sum, Step: s.step(sum.ID)}
		if c, ok := s.o.Lifetime.Condition(sum.ID); ok {
			out[i].Condition = &c
		}
	}
	return out, nil
}

// View returns one session. id may be shortened to any prefix that is its own;
// the error is ErrUnknown, or says that several match.
func (s *Service) View(ctx context.Context, id string) (View, error) {
	views, err := s.Views(ctx)
	if err != nil {
		return View{}, err
	}
	var found []View
	for _, v := range views {
		if v.ID == id {
			return v, nil
		}
		if id != "" && (strings.HasPrefix(v.ID, id) || strings.HasPrefix(strings.TrimPrefix(v.ID, sessionPrefix), id)) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 0:
		return View{}, fmt.Errorf("session %q: %w", id, ErrUnknown)
	case 1:
		return found[0], nil
	}
	return View{}, fmt.Errorf("session %q: %d sessions begin so; give more of the id: %w", id, len(found), ErrUnknown)
}
