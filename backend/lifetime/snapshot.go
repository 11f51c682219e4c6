package lifetime

import (
	"context"
	"fmt"

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
	snap, err := s.Snapshot(ctx, rec.Ref, name)
	if err != nil {
		return sandbox.Snapshot{}, fmt.Errorf("make a snapshot: %w", err)
	}
	return snap, nil
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
