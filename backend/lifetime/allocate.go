package lifetime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Allocate makes the sandbox of a root task and opens its channel. A root task
// has one sandbox: callers at the same time get the same one, and a task that
// has one already gets that one, attached. On failure nothing is left, and the
// row says failed. report may be nil.
//
// spec.Wall must be set. A fault of the spec wraps sandbox.ErrSpec.
func (m *Manager) Allocate(ctx context.Context, rootTaskID string, spec sandbox.Spec, report func(sandbox.Step)) (Binding, error) {
	if err := m.check(spec); err != nil {
		return Binding{}, err
	}
	return m.bind(ctx, "allocate", rootTaskID, func(ctx context.Context, r *root) (Binding, error) {
		rec, ok, err := m.live(ctx, rootTaskID)
		switch {
		case err != nil:
			return Binding{}, err
		case ok && rec.State != sandbox.StateAllocating && rec.State != sandbox.StateReleasing:
			return m.attach(ctx, r, rec)
		case ok: // of a process that died half-way
			if err := m.finish(ctx, r); err != nil {
				return Binding{}, err
			}
		}
		spec.Network.Mode = spec.NetworkOrDefault() // kept in the row, whatever the default becomes
		if spec.Share != "" {
			return m.share(ctx, r, spec)
		}
		return m.make(ctx, r, spec, report)
	})
}

// Reprovision makes a new sandbox, from the last one's spec, for a root task
// whose own is lost, failed, released or detached, else the error wraps ErrHeld.
// report may be nil.
func (m *Manager) Reprovision(ctx context.Context, rootTaskID string, report func(sandbox.Step)) (Binding, error) {
	return m.bind(ctx, "reprovision", rootTaskID, func(ctx context.Context, r *root) (Binding, error) {
		rows, err := m.rows(ctx, rootTaskID)
		if err != nil {
			return Binding{}, err
		}
		if len(rows) == 0 {
			return Binding{}, fmt.Errorf("task %s never had a sandbox to make again: %w", rootTaskID, sandbox.ErrGone)
		}
		last := rows[len(rows)-1]
		if last.Spec.Adopt != "" && !last.State.Held() {
			// Nobody can make that again; the row stays what it is.
			if _, err := m.Resolve(ctx, last.Wall, last.Spec.Adopt); errors.Is(err, sandbox.ErrGone) {
				return Binding{}, fmt.Errorf("the container %s, which was there before the session, is gone, and only who made it can make it again; open a new session (this one's log stays): %w",
					cmp.Or(last.ShortID, last.Spec.Adopt), sandbox.ErrGone)
			} else if err != nil {
				return Binding{}, err
			}
		}
		switch last.State {
		case sandbox.StateLost, sandbox.StateAllocating, sandbox.StateReleasing:
			// What an engine may still keep of it (a volume, a name) goes first.
			if err := m.clear(ctx, r, rows); err != nil {
				return Binding{}, err
			}
		case sandbox.StateFailed, sandbox.StateReleased, sandbox.StateDetached: // a detached one is its user's
		default:
			return Binding{}, fmt.Errorf("%w: it is %s; release it first", ErrHeld, last.State)
		}
		if last.Spec.Network.Mode == "" { // of a time when that meant none
			last.Spec.Network.Mode = sandbox.NetworkNone
		}
		last.Spec.Share = "" // what it shared is gone; it gets one of its own
		if err := m.check(last.Spec); err != nil {
			return Binding{}, err
		}
		return m.make(ctx, r, last.Spec, report)
	})
}

// bind runs an operation that ends with a root task's sandbox being reached.
// Nothing else is done to the task meanwhile, and callers who ask for the same
// at the same time share one run.
func (m *Manager) bind(ctx context.Context, verb, rootTaskID string, do func(context.Context, *root) (Binding, error)) (Binding, error) {
	ctx, done, err := m.begin(ctx)
	if err != nil {
		return Binding{}, err
	}
	defer done()
	r := m.root(rootTaskID)
	return m.bindings.do(ctx, verb+" "+rootTaskID, func() (Binding, error) {
		unlock, err := m.acquire(ctx, r)
		if err != nil {
			return Binding{}, err
		}
		defer unlock()
		b, err := do(ctx, r)
		m.mu.Lock()
		r.used = time.Now()
		m.mu.Unlock()
		return b, err
	})
}

// make writes the row, then lets the provider make the sandbox.
func (m *Manager) make(ctx context.Context, r *root, spec sandbox.Spec, report func(sandbox.Step)) (Binding, error) {
	p, err := m.provider(spec.Wall)
	if err != nil {
		return Binding{}, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	late := time.AfterFunc(allocateTimeout, func() { end(errSlow) })
	defer late.Stop()
	steps := func(s sandbox.Step) {
		late.Reset(allocateTimeout)
		if report != nil {
			report(s)
		}
	}
	m.mu.Lock()
	r.cancelAllocate = func() { end(nil) } // a release does not wait for a pull to end
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		r.cancelAllocate = nil
		m.mu.Unlock()
	}()

	now := time.Now().UTC()
	rec := sandbox.Record{
		RootTaskID: r.id, Wall: spec.Wall, Workdir: spec.WorkdirOrDefault(), Spec: spec,
		State: sandbox.StateAllocating, CreatedAt: now, UpdatedAt: now,
	}
	if rec.ID, err = m.ledger.InsertRecord(ctx, rec); err != nil {
		return Binding{}, errLedger("write", r.id, err)
	}
	m.dropChannel(r)
	m.set(r, rec, sandbox.Condition{Value: sandbox.StateAllocating, Source: "ledger"}, "")

	h, err := allocate(ctx, p, r.id, spec, steps)
	if err != nil {
		return Binding{}, m.fail(ctx, r, rec, fmt.Errorf("%s: %w", making(spec), err))
	}
	b, err := m.open(ctx, r, &rec, h)
	if err != nil {
		err = fmt.Errorf("%s: %w", making(spec), err)
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if rerr := m.discard(rctx, r, spec.Wall); rerr != nil {
			// The row stays allocating, so that the next sweep removes it.
			return Binding{}, errors.Join(err, fmt.Errorf("remove it again: %w", rerr))
		}
		return Binding{}, m.fail(ctx, r, rec, err)
	}
	return b, nil
}

// making says what is done to have the sandbox of spec.
func making(spec sandbox.Spec) string {
	if spec.Adopt != "" {
		return "attach the container"
	}
	return fmt.Sprintf("allocate a %s sandbox", spec.Wall)
}

func allocate(ctx context.Context, p sandbox.Provider, rootTaskID string, spec sandbox.Spec, report func(sandbox.Step)) (sandbox.Handle, error) {
	if spec.Adopt != "" {
		a, ok := p.(sandbox.Adopter)
		if !ok {
			return sandbox.Handle{}, fmt.Errorf("adopt a %s sandbox: %w", spec.Wall, sandbox.ErrUnsupported)
		}
		return a.Adopt(ctx, rootTaskID, spec, report)
	}
	if pp, ok := p.(sandbox.Progress); ok {
		return pp.AllocateWithProgress(ctx, rootTaskID, spec, report)
	}
	return p.Allocate(ctx, rootTaskID, spec)
}

// errSlow ends an allocation that does not get on.
var errSlow = fmt.Errorf("no step of it was done for %v", allocateTimeout)

// fail writes that an allocation failed, and returns why. What went wrong only
// because ctx was cancelled is no reason.
func (m *Manager) fail(ctx context.Context, r *root, rec sandbox.Record, why error) error {
	cond := sandbox.Condition{Value: sandbox.StateFailed, Cause: why.Error(), Source: "ledger"}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSlow):
		why, cond.Cause = fmt.Errorf("%s: %w", making(rec.Spec), errSlow), errSlow.Error()
	case errors.Is(ctx.Err(), context.Canceled):
		why, cond.Cause = ErrCalledOff, sandbox.CauseCalledOff
	}
	if err := m.write(ctx, r, &rec, cond, why.Error()); err != nil {
		return errors.Join(why, err)
	}
	return why
}
