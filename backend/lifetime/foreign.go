package lifetime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// errNoGuest is what is asked of a guest where somebody else's server is.
var errNoGuest = fmt.Errorf("this sandbox has no guest: %w", sandbox.ErrUnsupported)

// Handle returns the live address of a root task's sandbox, and attaches to it
// where that is not known. Sandboxes without a guest have no channel: they are
// spoken to by their handle. The errors are those of Client. Use it for one
// call; do not keep it.
func (m *Manager) Handle(ctx context.Context, rootTaskID string) (sandbox.Handle, sandbox.Record, error) {
	for range 2 {
		m.mu.Lock()
		r, known := m.roots[rootTaskID]
		if known && r.handle != nil && !r.idling {
			r.used = time.Now()
			h, rec := *r.handle, r.rec
			m.mu.Unlock()
			return h, rec, nil
		}
		if known && r.cond.Value != sandbox.StateAllocating && r.cond.Value != "" {
			if err := down(r.cond); err != nil && !errors.Is(err, sandbox.ErrUnreachable) {
				m.mu.Unlock()
				return sandbox.Handle{}, sandbox.Record{}, err
			}
		}
		m.mu.Unlock()
		if _, err := m.Attach(ctx, rootTaskID); err != nil {
			return sandbox.Handle{}, sandbox.Record{}, err
		}
	}
	return sandbox.Handle{}, sandbox.Record{}, fmt.Errorf("the sandbox went away while it was attached: %w", sandbox.ErrUnreachable)
}

// openForeign is open for a sandbox without a guest.
func (m *Manager) openForeign(ctx context.Context, r *root, rec *sandbox.Record, next sandbox.Record, h sandbox.Handle) (Binding, error) {
	if h.Greet == nil {
		return Binding{}, errNoGuest
	}
	gctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if err := h.Greet(gctx); err != nil {
		return Binding{}, err
	}
	m.dropChannel(r)
	m.mu.Lock()
	r.handle = &h
	m.mu.Unlock()
	if err := m.write(ctx, r, &next, sandbox.Condition{Value: sandbox.StateReady, Source: sourceServer}, ""); err != nil {
		m.dropChannel(r)
		return Binding{}, err
	}
	*rec = next
	return Binding{Record: next, Ref: next.Ref, ShortID: next.ShortID, Workdir: next.Workdir}, nil
}

// sourceServer is who said how a remote sandbox is: itself.
const sourceServer = "server"

// silence is the condition of a sandbox behind a wall of which nobody said
// anything, for the reason err.
func silence(w sandbox.Wall, err error) sandbox.Condition {
	cond := sandbox.Condition{Value: sandbox.StateUnreachable, Cause: sandbox.CauseEngine, ObservedAt: time.Now(), Source: "engine"}
	if w == sandbox.WallRemote {
		cond.Cause, cond.Source = sandbox.CauseServer, sourceServer
	}
	if errors.Is(err, sandbox.ErrUnauthorized) {
		cond.Cause = sandbox.CauseKey
	}
	return cond
}
