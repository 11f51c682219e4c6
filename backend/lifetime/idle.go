package lifetime

import (
	"context"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// How often idle sandboxes are looked for. The end of what runs in one is seen
// that much too late, never too early.
const (
	idleLook      = time.Minute
	idleLooks     = 10 // per IdleStop, where that is short
	idleLookLeast = 50 * time.Millisecond
)

// stopIdle stops sandboxes in which nothing has run for long enough, until ctx
// ends.
func (m *Manager) stopIdle(ctx context.Context) {
	tick := time.NewTicker(max(idleLookLeast, min(idleLook, m.idleStop/idleLooks)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, r := range m.idleCandidates() {
			if ctx.Err() != nil {
				return
			}
			if m.isIdle(ctx, r) && m.canAsk(ctx, r) {
				m.stopOne(ctx, r)
			}
		}
	}
}

// idleCandidates are the roots whose sandbox runs and is ours to stop.
func (m *Manager) idleCandidates() []*root {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*root
	for _, r := range m.roots {
		p := m.providers[r.rec.Wall]
		_, stops := p.(sandbox.Stopper)
		if r.cond.Value != sandbox.StateReady || r.rec.State != sandbox.StateReady || r.rec.Spec.Adopt != "" || !stops || m.lent(r.rec.Wall) {
			continue
		}
		if r.used.IsZero() {
			r.used = time.Now() // what was before this process, nobody knows
		}
		out = append(out, r)
	}
	return out
}

// canAsk makes sure of a channel to the guest of an idle sandbox: one that nobody
// has called in this process may well have something running. It is no use.
func (m *Manager) canAsk(ctx context.Context, r *root) bool {
	m.mu.Lock()
	asked, used := r.client != nil || r.handle != nil, r.used
	m.mu.Unlock()
	if asked {
		return true
	}
	_, err := m.Attach(ctx, r.id)
	m.mu.Lock()
	defer m.mu.Unlock()
	r.used = used
	return err == nil
}

// isIdle reports whether nothing has run in a sandbox for long enough, neither
// for r nor for those who share it. What runs now is noted as use.
func (m *Manager) isIdle(ctx context.Context, r *root) bool {
	m.mu.Lock()
	all := append(m.sharersLocked(r), r)
	c := r.client
	m.mu.Unlock()
	now := time.Now()
	active := false
	for _, o := range all {
		active = active || m.busy != nil && m.busy(o.id)
	}
	if !active && c != nil {
		sctx, cancel := context.WithTimeout(ctx, inspectTimeout)
		st, err := c.Stats(sctx)
		cancel()
		active = err != nil || st.Calls+st.Terminals+st.Processes > 0 // one that does not say is not known to be idle
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if active {
		r.used = now
		return false
	}
	for _, o := range all {
		if now.Sub(o.used) < m.idleStop {
			return false
		}
	}
	return true
}

// stopOne stops an idle sandbox. Whoever wants to use it from the moment on that
// this is decided waits for the end and has it started again. While an operation
// is under way on any root task that shares it, it is used.
func (m *Manager) stopOne(ctx context.Context, r *root) {
	m.mu.Lock()
	all := append(m.sharersLocked(r), r)
	m.mu.Unlock()
	for _, o := range all {
		unlock, ok := m.tryAcquire(o)
		if !ok {
			return
		}
		defer unlock()
	}
	mark := func(idling bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, o := range all {
			o.idling = idling
		}
	}
	mark(true)
	defer mark(false)
	m.mu.Lock()
	rec := r.rec
	m.mu.Unlock()
	if rec.State != sandbox.StateReady || !m.isIdle(ctx, r) {
		return
	}
	if err := m.stop(ctx, r, rec, sandbox.CauseIdle); err != nil && ctx.Err() == nil {
		m.log.WarnContext(ctx, "stop an idle sandbox", "task", r.id, "err", err)
	}
}
