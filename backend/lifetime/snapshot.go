package lifetime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Snapshot makes an image of what a root task's sandbox holds, in whatever state
// that is. Nothing else is done to the sandbox meanwhile; calls to it wait while
// it is paused. The error wraps sandbox.ErrUnsupported behind a wall that has no
// images.
func (m *Manager) Snapshot(ctx context.Context, rootTaskID, name string) (sandbox.Snapshot, error) {
	ctx, done, err := m.begin(ctx)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	defer done()
	r := m.root(rootTaskID)
	unlock, err := m.acquire(ctx, r)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	defer unlock()
	rec, err := m.held(ctx, rootTaskID)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	p, err := m.provider(rec.Wall)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	s, ok := p.(sandbox.Snapshotter)
	if !ok {
		return sandbox.Snapshot{}, fmt.Errorf("make a snapshot: the %s wall has no images; fork the session instead, fresh or shared: %w", rec.Wall, sandbox.ErrUnsupported)
	}
	m.freeze(r, true)
	snap, err := s.Snapshot(ctx, rec.Ref, name)
	m.freeze(r, false)
	var fault *sandbox.FieldError
	if errors.As(err, &fault) {
		return sandbox.Snapshot{}, fault // of what was asked for, which says so itself
	}
	if err != nil {
		return sandbox.Snapshot{}, fmt.Errorf("make a snapshot: %w", err)
	}
	return snap, nil
}

// freeze notes that the sandbox of r is paused for a moment, or is not any more:
// nobody did that by hand, and it is no state to be shown.
func (m *Manager) freeze(r *root, frozen bool) {
	m.mu.Lock()
	r.frozen = frozen
	sharers := m.sharersLocked(r)
	m.mu.Unlock()
	if frozen {
		return
	}
	for _, o := range sharers {
		m.lookSoon(o) // what was not believed meanwhile
	}
}

// frozenByAnother reports whether one that shares the sandbox of r has it paused.
func (m *Manager) frozenByAnother(r *root) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.sharersLocked(r), func(o *root) bool { return o.frozen })
}

// Unpause lets a root task's paused sandbox go on. One that runs is left alone;
// for one in any other state the error says which, as Client does.
func (m *Manager) Unpause(ctx context.Context, rootTaskID string) (Binding, error) {
	return m.bind(ctx, "unpause", rootTaskID, func(ctx context.Context, r *root) (Binding, error) {
		rec, err := m.held(ctx, rootTaskID)
		if err != nil {
			return Binding{}, err
		}
		p, err := m.provider(rec.Wall)
		if err != nil {
			return Binding{}, err
		}
		cond, err := m.inspect(ctx, p, rec)
		if err != nil {
			return Binding{}, fmt.Errorf("unpause: %w", err)
		}
		if cond.Value != sandbox.StatePaused && cond.Value != sandbox.StateReady {
			return Binding{}, down(cond)
		}
		return m.attach(ctx, r, rec)
	})
}
