package lifetime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// An engine that has just killed a container reports it as running, then as
// exited, then as not there, within moments of each other: a broken channel is
// worth so many looks, so far apart. Before a sandbox that runs is blamed on its
// guest, an engine on a machine that stands still has the time to see its end.
const (
	whyLooks = 3
	whyPause = 300 * time.Millisecond
	whyLast  = 3 * time.Second
)

// Why asks the engine why the channel to a root task's sandbox broke. The error
// wraps sandbox.ErrGone, ErrStopped or ErrUnreachable; it is nil when the sandbox
// runs and its guest answers, perhaps from another boot: then the call may be
// taken up again. Callers at the same time share the looks.
func (m *Manager) Why(ctx context.Context, rootTaskID string) error {
	ctx, done, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	r := m.root(rootTaskID)
	if err := m.intended(r); err != nil {
		return err
	}
	var cond sandbox.Condition
	for i := range whyLooks {
		if i > 0 {
			pause := whyPause
			if i == whyLooks-1 && cond.Value == sandbox.StateReady {
				pause = whyLast
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
		if cond, err = m.look(ctx, r); err != nil {
			return err
		}
		if err := m.intended(r); err != nil {
			return err
		}
		m.mu.Lock()
		if r.cond.Value == cond.Value { // an operation has done it, and says why
			cond = r.cond
		}
		m.mu.Unlock()
		switch cond.Value {
		case sandbox.StateReady:
			if !m.hasChannel(r) || m.greet(ctx, r) == nil {
				return nil // without a channel the next call opens one
			}
		case sandbox.StateStopped:
			if cond.Cause == sandbox.CauseByHand || cond.Cause == sandbox.CauseOutOfMemory {
				return down(cond)
			}
		case sandbox.StateUnreachable:
			// The engine is silent; the guest may well not be.
			if m.greet(ctx, r) == nil {
				return nil
			}
			return down(cond)
		case sandbox.StateAllocating: // somebody starts it
		default:
			return down(cond)
		}
	}
	if cond.Value != sandbox.StateReady {
		return down(cond)
	}
	cond = sandbox.Condition{Value: sandbox.StateUnreachable, Cause: causeGuest, Source: "guest", ObservedAt: time.Now()}
	m.mu.Lock()
	if r.cond.Value == sandbox.StateReady {
		m.observedLocked(r, cond, "the sandbox runs and its guest does not answer")
	}
	m.mu.Unlock()
	m.tell(r)
	return down(cond)
}

// intended returns the end that an operation under way is bringing to r's
// sandbox: calls that break meanwhile need no other reason.
func (m *Manager) intended(r *root) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.intent.Value == "" {
		return nil
	}
	return down(r.intent)
}

func (m *Manager) hasChannel(r *root) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.client != nil
}

// greet asks the guest of r whether it is there, and notes its boot.
func (m *Manager) greet(ctx context.Context, r *root) error {
	m.mu.Lock()
	c := r.client
	m.mu.Unlock()
	if c == nil {
		return errGuestSilent
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	hello, err := c.Hello(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	if r.client == c {
		r.hello = hello
	}
	m.mu.Unlock()
	return nil
}

// look reads the condition of r's sandbox from the engine and writes down what
// changed. Callers at the same time share one request that begins after they asked.
// The error is ctx's, or says that there is nothing to look at.
func (m *Manager) look(ctx context.Context, r *root) (sandbox.Condition, error) {
	return m.looks.doAnew(ctx, r.id, func() (sandbox.Condition, error) {
		m.mu.Lock()
		rec, version := r.rec, r.version
		m.mu.Unlock()
		if rec.ID == 0 {
			var ok bool
			var err error
			if rec, ok, err = m.live(ctx, r.id); err != nil {
				return sandbox.Condition{}, err
			} else if !ok {
				return sandbox.Condition{}, errNone(r.id)
			}
			m.adopt(r, rec)
		}
		if rec.Ref == "" || !rec.State.Owned() {
			return sandbox.Condition{Value: rec.State, Cause: rec.Cause, ObservedAt: time.Now(), Source: "ledger"}, nil
		}
		p, err := m.provider(rec.Wall)
		if err != nil {
			return m.unanswered(r, version, err), nil
		}
		cond, err := m.inspect(ctx, p, rec)
		if ctx.Err() != nil {
			return sandbox.Condition{}, ctx.Err()
		}
		if err != nil {
			return m.unanswered(r, version, err), nil
		}
		if cond.Value == sandbox.StateUnreachable {
			return m.unanswered(r, version, down(cond)), nil
		}
		return m.observed(ctx, r, version, cond), nil
	})
}

// adopt takes a row into memory that was found in the ledger.
func (m *Manager) adopt(r *root, rec sandbox.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.rec.ID < rec.ID {
		r.rec = rec
	}
}

// inspect asks a provider for the condition of one sandbox.
func (m *Manager) inspect(ctx context.Context, p sandbox.Provider, rec sandbox.Record) (sandbox.Condition, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	cond := sandbox.Condition{Value: sandbox.StateLost, Cause: sandbox.CauseRemoved, Source: "engine"}
	switch p := p.(type) {
	case sandbox.Inspector:
		var err error
		cond, err = p.Inspect(ctx, rec.Ref)
		switch {
		case errors.Is(err, sandbox.ErrGone):
			cond.Value = sandbox.StateLost
		case errors.Is(err, sandbox.ErrForeign):
			cond = sandbox.Condition{Value: sandbox.StateLost, Cause: sandbox.CauseForeign, Source: "engine"}
		case err != nil:
			return sandbox.Condition{}, err
		}
	case sandbox.Lister:
		found, err := p.List(ctx)
		if err != nil {
			return sandbox.Condition{}, err
		}
		for _, f := range found {
			if f.Ref.ID() == rec.Ref.ID() {
				cond = f.Condition
			}
		}
	default:
		return sandbox.Condition{}, fmt.Errorf("inspect a %s sandbox: %w", rec.Wall, sandbox.ErrUnsupported)
	}
	if cond.Value == sandbox.StateLost && cond.Cause == "" {
		cond.Cause = sandbox.CauseRemoved
	}
	if cond.ObservedAt.IsZero() {
		cond.ObservedAt = time.Now()
	}
	return cond, nil
}

// unanswered notes that nobody said what r's sandbox is. The row keeps its state.
func (m *Manager) unanswered(r *root, version int, why error) sandbox.Condition {
	m.mu.Lock()
	cond := silence(r.rec.Wall, why)
	if r.version == version && r.rec.State.Held() {
		m.observedLocked(r, cond, why.Error())
	}
	m.mu.Unlock()
	m.tell(r)
	return cond
}

// observed writes down a condition that was read from the engine when r was at
// version. While an operation is under way it only asks for another look at its
// end, and what was read before one ended is dropped: operations know better.
func (m *Manager) observed(ctx context.Context, r *root, version int, cond sandbox.Condition) sandbox.Condition {
	unlock, ok := m.tryAcquire(r)
	if !ok {
		m.lookSoon(r)
		return cond
	}
	defer unlock()
	m.mu.Lock()
	rec := r.rec
	before := r.cond
	silent := before.Source == "guest" && before.Value == sandbox.StateUnreachable && r.client != nil
	overtaken := r.version != version
	stale := overtaken || !(rec.State.Held() || rec.State == sandbox.StateLost)
	m.mu.Unlock()
	if overtaken {
		m.lookSoon(r) // it may be news all the same, read after the operation's own look
	}
	// One that somebody is just starting is none of the states that a row at rest
	// has; what comes of it is seen by the next look.
	if stale || !(cond.Value.Held() || cond.Value == sandbox.StateLost) || cond.Value == sandbox.StatePaused && m.frozenByAnother(r) {
		return cond
	}
	if cond.Value == sandbox.StateStopped && rec.State == sandbox.StateStopped &&
		(rec.Cause == sandbox.CauseByHand || rec.Cause == sandbox.CauseIdle) {
		cond.Cause = rec.Cause // the engine does not know who stopped it
	}
	if cond.Value == sandbox.StateStopped && rec.State != sandbox.StateStopped {
		cond.Cause = m.stoppedByAnother(r, cond.Cause)
	}
	if cond.Value == sandbox.StateReady && silent && m.greet(ctx, r) != nil {
		before.ObservedAt = cond.ObservedAt
		m.set(r, rec, before, "")
		return cond
	}
	if cond.Value == sandbox.StateStopped || cond.Value == sandbox.StateLost {
		m.dropChannel(r)
	}
	if m.lookOnly || cond.Value == rec.State && cond.Cause == rec.Cause {
		m.set(r, rec, cond, "")
		return cond
	}
	if err := m.write(ctx, r, &rec, cond, ""); err != nil {
		m.log.ErrorContext(ctx, "write an observed state", "task", r.id, "state", cond.Value, "err", err)
		m.set(r, rec, cond, "")
	}
	return cond
}

// lookSoon looks at r in the background, once more when it is asked again
// meanwhile.
func (m *Manager) lookSoon(r *root) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.again = true
	if r.looking || m.closed {
		return
	}
	r.looking = true
	m.work.Go(func() {
		for {
			m.mu.Lock()
			// During an operation its end asks again.
			if !r.again || len(r.sem) > 0 || m.life.Err() != nil {
				r.looking = false
				m.mu.Unlock()
				return
			}
			r.again = false
			m.mu.Unlock()
			if _, err := m.look(m.life, r); err != nil && m.life.Err() == nil {
				m.log.Warn("look at a sandbox", "task", r.id, "err", err)
			}
		}
	})
}
