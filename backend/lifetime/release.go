package lifetime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// How says what a release leaves.
type How int

// Remove, the default, removes the sandbox. Keep leaves it to the user: the row
// is detached and the sandbox never reaped. StopOnly stops it and keeps the
// binding. A place that was there before the session is left running by Remove
// and Keep alike, and StopOnly is refused there; see [Manager.MayStop].
const (
	Remove How = iota
	Keep
	StopOnly
)

// Stop stops a root task's sandbox and keeps its contents. One that is stopped
// already is no error.
func (m *Manager) Stop(ctx context.Context, rootTaskID string) error {
	ctx, done, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	r := m.root(rootTaskID)
	unlock, err := m.acquire(ctx, r)
	if err != nil {
		return err
	}
	defer unlock()
	rec, ok, err := m.live(ctx, rootTaskID)
	if err != nil {
		return err
	}
	if !ok || rec.Ref == "" {
		return errNone(rootTaskID)
	}
	if err := m.ours(rec, "stop"); err != nil {
		return err
	}
	return m.stop(ctx, r, rec, sandbox.CauseByHand)
}

// MayStop returns why Stop, Restart (the verb is "stop" or "restart") or a release
// that only stops would be refused for what a root task has, so that nothing is
// ended on the way to a refusal. A place that was there before the session is not
// ours to stop: others may be in it. The error wraps sandbox.ErrForeign then.
func (m *Manager) MayStop(ctx context.Context, rootTaskID, verb string) error {
	rec, ok, err := m.live(ctx, rootTaskID)
	if err != nil || !ok || rec.Ref == "" {
		return err
	}
	return m.ours(rec, verb)
}

// ours refuses a verb for a place that was there before its session.
func (m *Manager) ours(rec sandbox.Record, verb string) error {
	switch {
	case rec.Spec.Adopt != "":
		return fmt.Errorf("the container %s was there before the session, and others may use it; %s it by hand (docker %[2]s %[1]s), or release the session, which leaves it running: %[3]w",
			rec.ShortID, verb, sandbox.ErrForeign)
	case m.lent(rec.Wall):
		at, _, err := sandbox.DecodeRef(rec.Ref)
		if err != nil {
			return err
		}
		return fmt.Errorf("the sandbox at %s was there before the session, and others may use it; %s it where it was started, or release the session, which leaves it running: %w",
			at, verb, sandbox.ErrForeign)
	}
	return nil
}

// stop stops the sandbox of rec, for a cause.
func (m *Manager) stop(ctx context.Context, r *root, rec sandbox.Record, cause string) error {
	p, err := m.provider(rec.Wall)
	if err != nil {
		return err
	}
	s, ok := p.(sandbox.Stopper)
	if !ok {
		return fmt.Errorf("stop a %s sandbox: %w", rec.Wall, sandbox.ErrUnsupported)
	}
	m.intend(r, sandbox.Condition{Value: sandbox.StateStopped, Cause: cause})
	defer m.intend(r, sandbox.Condition{})
	// Begun is done: a user who closes the window has still clicked Stop.
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = s.Stop(sctx, rec.Ref)
	switch {
	case errors.Is(err, sandbox.ErrGone):
		cond := sandbox.Condition{Value: sandbox.StateLost, Cause: sandbox.CauseRemoved, Source: "engine"}
		m.dropChannel(r)
		return errors.Join(down(cond), m.write(ctx, r, &rec, cond, err.Error()))
	case err != nil:
		return fmt.Errorf("stop the sandbox: %w", err)
	}
	m.dropChannel(r)
	return m.write(ctx, r, &rec, sandbox.Condition{Value: sandbox.StateStopped, Cause: cause, Source: "engine"}, "")
}

// intend says what the operation under way is about to bring about, for the calls
// that it breaks.
func (m *Manager) intend(r *root, c sandbox.Condition) {
	m.mu.Lock()
	r.intent = c
	m.mu.Unlock()
}

// Release ends a root task's hold on its sandbox, every generation of it. It is
// idempotent, ends an allocation that is under way, works on a sandbox that is
// stopped, paused or not there any more, and is not interrupted by the end of
// ctx once it has begun. When it fails, the row stays releasing and Run tries
// again.
func (m *Manager) Release(ctx context.Context, rootTaskID string, how How) error {
	ctx, done, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	r := m.root(rootTaskID)
	m.mu.Lock()
	if r.cancelAllocate != nil {
		r.cancelAllocate()
	}
	m.mu.Unlock()
	unlock, err := m.acquire(ctx, r)
	if err != nil {
		return err
	}
	defer unlock()

	rows, err := m.rows(ctx, rootTaskID)
	if err != nil {
		return err
	}
	if how == Keep && adopted(rows) {
		how = Remove // what is kept is the container, and no release touches that
	}
	switch how {
	case StopOnly:
		return m.stopNewest(ctx, r, rows)
	case Keep:
		return m.detach(ctx, r, rows)
	}
	return m.clear(ctx, r, rows)
}

// adopted reports whether the newest row is of a place that was there before.
func adopted(rows []sandbox.Record) bool {
	return len(rows) > 0 && rows[len(rows)-1].Spec.Adopt != ""
}

func (m *Manager) stopNewest(ctx context.Context, r *root, rows []sandbox.Record) error {
	for _, rec := range slices.Backward(rows) {
		switch rec.State {
		case sandbox.StateReady, sandbox.StatePaused, sandbox.StateUnreachable:
			if err := m.ours(rec, "stop"); err != nil {
				return err
			}
			return m.stop(ctx, r, rec, sandbox.CauseByHand)
		}
	}
	return nil
}

// detach leaves what is there to the user and clears the rest.
func (m *Manager) detach(ctx context.Context, r *root, rows []sandbox.Record) error {
	rest := rows[:0:0]
	for _, rec := range rows {
		if rec.State.Held() {
			m.dropChannel(r)
			cond := sandbox.Condition{Value: sandbox.StateDetached, Cause: sandbox.CauseByHand, Source: "ledger"}
			if err := m.write(ctx, r, &rec, cond, ""); err != nil {
				return err
			}
		}
		rest = append(rest, rec)
	}
	return m.clear(ctx, r, rest)
}

// clear removes what the owned rows among rows hold and writes them released.
// The caller operates on r.
func (m *Manager) clear(ctx context.Context, r *root, rows []sandbox.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	walls := make(map[sandbox.Wall]bool)
	for _, rec := range rows {
		if rec.State.Owned() {
			walls[rec.Wall] = true
		}
	}
	if len(walls) == 0 {
		return nil
	}
	m.intend(r, sandbox.Condition{Value: sandbox.StateReleased})
	defer m.intend(r, sandbox.Condition{})
	for i := range rows {
		if rows[i].State.Owned() && rows[i].State != sandbox.StateReleasing {
			cond := sandbox.Condition{Value: sandbox.StateReleasing, Source: "ledger"}
			if err := m.write(ctx, r, &rows[i], cond, ""); err != nil {
				return err
			}
		}
	}
	m.dropChannel(r)
	// Only now: a root task that comes to share one of them has its row by now, or
	// will see that this one is being released.
	shared, err := m.heldElsewhere(ctx, r.id)
	if err != nil {
		return err
	}

	for wall := range walls {
		if err := m.remove(ctx, wall, r.id, rows, shared); err != nil {
			m.mu.Lock()
			rec := r.rec
			m.mu.Unlock()
			m.set(r, rec, sandbox.Condition{Value: sandbox.StateReleasing, Cause: clip(err.Error()), Source: "ledger"}, err.Error())
			return fmt.Errorf("release the sandbox of task %s: %w; it is tried again", r.id, err)
		}
		for i := range rows {
			if rows[i].Wall == wall && rows[i].State == sandbox.StateReleasing {
				if err := m.write(ctx, r, &rows[i], m.released(rows[i], shared), ""); err != nil {
					return err
				}
			}
		}
	}
	m.passRelays(rows)
	return nil
}

// remove removes every sandbox that a wall holds for a root task with these rows,
// but for those that others share, and those whose row is not about to be
// released: they are kept. What lives where the provider does not look, as on the
// engine of another context, is not gone because nobody sees it.
func (m *Manager) remove(ctx context.Context, wall sandbox.Wall, rootTaskID string, rows []sandbox.Record, shared map[string]bool) error {
	p, err := m.provider(wall)
	if err != nil {
		return err
	}
	if m.lent(wall) {
		return p.Release(ctx, rootTaskID)
	}
	reacher, _ := p.(sandbox.Reacher)
	kept := make(map[string]bool)
	var shares []sandbox.Ref // that were made for others, and that this one may be the last to have
	for _, rec := range rows {
		if rec.Ref == "" {
			continue
		}
		id, leaving := rec.Ref.ID(), rec.State == sandbox.StateReleasing || rec.State == sandbox.StateAllocating
		if leaving && rec.Wall == wall && reacher != nil {
			if err := reacher.Reaches(rec.Ref); errors.Is(err, sandbox.ErrUnreachable) {
				return err
			}
		}
		switch {
		case shared[id], rec.State.Owned() && !leaving && rec.State != sandbox.StateLost, rec.State == sandbox.StateDetached:
			kept[id] = true
		case leaving && rec.Wall == wall && rec.Spec.Share != "":
			shares = append(shares, rec.Ref)
		}
	}
	shares = slices.DeleteFunc(shares, func(ref sandbox.Ref) bool { return kept[ref.ID()] })
	lister, ok := p.(sandbox.Lister)
	remover, ok2 := p.(sandbox.Remover)
	if len(kept)+len(shares) > 0 && !(ok && ok2) {
		return fmt.Errorf("remove one of several %s sandboxes: %w", wall, sandbox.ErrUnsupported)
	}
	for _, ref := range shares {
		if err := remover.Remove(ctx, ref); err != nil {
			return err
		}
	}
	if len(kept) == 0 {
		return p.Release(ctx, rootTaskID)
	}
	found, err := lister.List(ctx)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.RootTaskID == rootTaskID && !kept[f.Ref.ID()] {
			if err := remover.Remove(ctx, f.Ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish ends what a process that died had begun for a root task: rows that are
// allocating become failed, rows that are releasing become released, both after
// what they made is gone. The caller operates on r.
func (m *Manager) finish(ctx context.Context, r *root) error {
	rows, err := m.rows(ctx, r.id)
	if err != nil {
		return err
	}
	unfinished := make(map[sandbox.Wall]bool)
	for _, rec := range rows {
		if rec.State == sandbox.StateAllocating || rec.State == sandbox.StateReleasing {
			unfinished[rec.Wall] = true
		}
	}
	if len(unfinished) == 0 {
		return nil
	}
	shared, err := m.heldElsewhere(ctx, r.id)
	if err != nil {
		return err
	}
	for wall := range unfinished {
		rctx, cancel := context.WithTimeout(ctx, releaseTimeout)
		err := m.remove(rctx, wall, r.id, rows, shared)
		cancel()
		if err != nil {
			return fmt.Errorf("remove what is left of task %s: %w", r.id, err)
		}
		for i := range rows {
			if rows[i].Wall != wall {
				continue
			}
			var cond sandbox.Condition
			switch rows[i].State {
			case sandbox.StateAllocating:
				cond = sandbox.Condition{Value: sandbox.StateFailed, Cause: "interrupted while it was made", Source: "ledger"}
			case sandbox.StateReleasing:
				cond = m.released(rows[i], shared)
			default:
				continue
			}
			if err := m.write(ctx, r, &rows[i], cond, ""); err != nil {
				return err
			}
		}
	}
	return nil
}
