package session

import (
	"context"
	"fmt"
	"maps"
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
	Shares    []string           // the other sessions that hold the same sandbox now
	Work      *Work              // a snapshot or fork of it that is being made, else nil
	Step      *sandbox.Step      // of an allocation under way, else nil
}

// holds reports whether the session has a sandbox now, running or not.
func (v View) holds() bool {
	return v.Bound != nil && v.Condition != nil && v.Condition.Value.Held()
}

// whyNone says in brackets how it is with the sandbox of a session that holds none.
func (v View) whyNone() string {
	if v.Condition == nil {
		return ""
	}
	return fmt.Sprintf(" (it is %s)", v.Condition.Value)
}

// views folds the store's log to summaries, each event once.
type views struct {
	store *store.Store
	turn  chan struct{} // capacity one: whoever holds the token reads and folds

	seen  int64
	roots map[string]*task.Summary
	subs  map[string]map[string]*task.Summary // by root: the subtasks that go on
}

func newViews(s *store.Store) *views {
	v := &views{store: s, turn: make(chan struct{}, 1), roots: map[string]*task.Summary{}, subs: map[string]map[string]*task.Summary{}}
	v.turn <- struct{}{}
	return v
}

// all returns the summaries of all root tasks, newest first.
func (v *views) all(ctx context.Context) ([]task.Summary, error) { return v.find(ctx, "") }

// find returns the summary of the root task of an id, or of all whose id begins
// so, newest first. What is not asked for is not copied: every call asks.
func (v *views) find(ctx context.Context, id string) ([]task.Summary, error) {
	select {
	case <-v.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { v.turn <- struct{}{} }()
	if err := v.catchUp(ctx); err != nil {
		return nil, err
	}
	var out []task.Summary
	add := func(s *task.Summary) {
		c := *s
		c.Open, c.Waiting = slices.Clone(s.Open), slices.Clone(s.Waiting)
		v.addSubtasks(&c)
		out = append(out, c)
	}
	if s, ok := v.roots[id]; ok {
		add(s)
		return out, nil
	}
	for root, s := range v.roots {
		if strings.HasPrefix(root, id) || strings.HasPrefix(strings.TrimPrefix(root, sessionPrefix), id) {
			add(s)
		}
	}
	slices.SortFunc(out, func(a, b task.Summary) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// addSubtasks adds to a session's summary what waits for a person in its subtasks.
// Its turn is under way then and waits for them.
func (v *views) addSubtasks(s *task.Summary) {
	if s.Status != task.StatusRunning && s.Status != task.StatusWaiting {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(v.subs[s.ID])) {
		if waiting := v.subs[s.ID][id].Waiting; len(waiting) > 0 {
			s.Waiting, s.Status = append(s.Waiting, waiting...), task.StatusWaiting
		}
	}
}

// applySubtask folds an event of a subtask, which is forgotten once it has ended.
func (v *views) applySubtask(e task.Event) {
	if root := v.roots[e.RootTaskID]; root != nil {
		root.ApplySubtask(e)
	}
	subs := v.subs[e.RootTaskID]
	if subs == nil {
		subs = map[string]*task.Summary{}
		v.subs[e.RootTaskID] = subs
	}
	s := subs[e.TaskID]
	if s == nil {
		s = &task.Summary{}
		subs[e.TaskID] = s
	}
	if s.Apply(e); s.Status == task.StatusEnded {
		delete(subs, e.TaskID)
	}
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
				v.applySubtask(e)
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
	shares := s.o.Lifetime.Shares()
	out := make([]View, len(summaries))
	for i, sum := range summaries {
		out[i] = s.view(sum, shares)
	}
	return out, nil
}

func (s *Service) view(sum task.Summary, shares map[string][]string) View {
	v := View{Summary: sum, Step: s.step(sum.ID), Shares: shares[sum.ID], Work: s.working(sum.ID)}
	if c, ok := s.o.Lifetime.Condition(sum.ID); ok {
		v.Condition = &c
	}
	return v
}

// View returns one session. id may be shortened to any prefix that is its own;
// the error is ErrUnknown, or says that several match.
func (s *Service) View(ctx context.Context, id string) (View, error) {
	var found []task.Summary
	if id != "" {
		var err error
		if found, err = s.views.find(ctx, id); err != nil {
			return View{}, fmt.Errorf("read the sessions: %w", err)
		}
	}
	switch len(found) {
	case 0:
		return View{}, fmt.Errorf("session %q: %w", id, ErrUnknown)
	case 1:
		return s.view(found[0], s.o.Lifetime.Shares()), nil
	}
	return View{}, fmt.Errorf("session %q: %d sessions begin so; give more of the id: %w", id, len(found), ErrUnknown)
}
