package lifetime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// causeShared explains a released sandbox that is still there.
const causeShared = "others share it; it stays"

// share binds a root task to the sandbox that another has. From then on both hold
// it, and the last of them to let go has it removed. Its row is written before
// the other's state is read, and a release writes its own before it looks who
// else holds the sandbox: so one of the two sees the other, whatever the order.
func (m *Manager) share(ctx context.Context, r *root, spec sandbox.Spec) (Binding, error) {
	p, err := m.provider(spec.Wall)
	if err != nil {
		return Binding{}, err
	}
	from, err := m.sharable(ctx, spec.Share)
	if err != nil {
		return Binding{}, err
	}
	now := time.Now().UTC()
	rec := sandbox.Record{
		RootTaskID: r.id, Wall: from.Wall, Ref: from.Ref, ShortID: from.ShortID, Workdir: from.Workdir, Spec: spec,
		State: sandbox.StateAllocating, CreatedAt: now, UpdatedAt: now,
	}
	if rec.ID, err = m.ledger.InsertRecord(ctx, rec); err != nil {
		return Binding{}, errLedger("write", r.id, err)
	}
	m.dropChannel(r)
	m.set(r, rec, sandbox.Condition{Value: sandbox.StateAllocating, Source: "ledger"}, "")

	var b Binding
	again, err := m.sharable(ctx, spec.Share)
	if err == nil && again.Ref != from.Ref {
		err = fmt.Errorf("session %s has been given another sandbox meanwhile: %w", spec.Share, sandbox.ErrGone)
	}
	if err == nil {
		b, err = m.join(ctx, p, r, &rec)
	}
	if err == nil {
		return b, nil
	}
	err = fmt.Errorf("share the sandbox of session %s: %w", spec.Share, err)
	rows := []sandbox.Record{rec}
	if cerr := m.clear(ctx, r, rows); cerr != nil { // it may have become ours to remove
		return Binding{}, errors.Join(err, cerr)
	}
	return Binding{}, m.fail(ctx, r, rows[0], err)
}

// join opens the channel to a shared sandbox and starts it where that is needed.
func (m *Manager) join(ctx context.Context, p sandbox.Provider, r *root, rec *sandbox.Record) (Binding, error) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	h, err := p.Attach(ctx, rec.Ref)
	if err != nil {
		return Binding{}, err
	}
	return m.open(ctx, r, rec, h)
}

// sharable returns the row of a sandbox that another root task can share.
func (m *Manager) sharable(ctx context.Context, rootTaskID string) (sandbox.Record, error) {
	rec, err := m.held(ctx, rootTaskID)
	if err == nil && !rec.State.Held() {
		err = fmt.Errorf("session %s has a sandbox that is %s: %w", rootTaskID, rec.State, sandbox.ErrGone)
	}
	return rec, err
}

// heldElsewhere returns the ids of the sandboxes that root tasks other than this
// one hold and are not letting go, or have kept for their user.
func (m *Manager) heldElsewhere(ctx context.Context, rootTaskID string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	rows, err := m.ledger.Records(ctx)
	if err != nil {
		return nil, errLedger("read", rootTaskID, err)
	}
	ids := make(map[string]bool)
	for _, rec := range rows {
		if rec.RootTaskID == rootTaskID || rec.Ref == "" {
			continue
		}
		if rec.State.Held() || rec.State == sandbox.StateAllocating || rec.State == sandbox.StateDetached {
			ids[rec.Ref.ID()] = true
		}
	}
	return ids, nil
}

// released returns what becomes of a sandbox that a root task has let go of, of
// those that others hold.
func (m *Manager) released(rec sandbox.Record, shared map[string]bool) sandbox.Condition {
	if shared[rec.Ref.ID()] && !m.lent(rec.Wall) {
		return sandbox.Condition{Value: sandbox.StateReleased, Cause: causeShared, Source: "ledger"}
	}
	return sandbox.Condition{Value: sandbox.StateReleased, Source: "engine"}
}

// lent reports whether what is behind a wall is there before and after us, shared
// or not.
func (m *Manager) lent(w sandbox.Wall) bool {
	_, lent := m.providers[w].(sandbox.Borrower)
	return lent
}

// discard removes what a failed allocation has made, and nothing that is kept or
// shared. The caller operates on r.
func (m *Manager) discard(ctx context.Context, r *root, wall sandbox.Wall) error {
	rows, err := m.rows(ctx, r.id)
	if err != nil {
		return err
	}
	shared, err := m.heldElsewhere(ctx, r.id)
	if err != nil {
		return err
	}
	return m.remove(ctx, wall, r.id, rows, shared)
}

// Shares returns, by root task, the others that hold the same sandbox now, in the
// order of their ids. Root tasks with a sandbox of their own are not in it.
func (m *Manager) Shares() map[string][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	holders := make(map[sandbox.Ref][]string) // a ref names its wall
	for id, r := range m.roots {
		if r.rec.Ref != "" && r.rec.State.Held() {
			holders[r.rec.Ref] = append(holders[r.rec.Ref], id)
		}
	}
	shares := make(map[string][]string)
	for _, ids := range holders {
		if len(ids) == 1 {
			continue
		}
		slices.Sort(ids)
		for i, id := range ids {
			shares[id] = slices.Delete(slices.Clone(ids), i, i+1)
		}
	}
	return shares
}

// sharersLocked returns the other roots that hold the sandbox of r.
func (m *Manager) sharersLocked(r *root) []*root {
	if r.rec.Ref == "" || !r.rec.State.Held() {
		return nil
	}
	var out []*root
	for _, o := range m.roots {
		if o != r && o.rec.Ref == r.rec.Ref && o.rec.Wall == r.rec.Wall && o.rec.State.Held() {
			out = append(out, o)
		}
	}
	return out
}

// stoppedByAnother returns why the sandbox of r stopped: an operation on another
// root task that shares it knows better than the engine.
func (m *Manager) stoppedByAnother(r *root, cause string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.sharersLocked(r) {
		if o.intent.Value == sandbox.StateStopped {
			return o.intent.Cause
		}
		if o.rec.State == sandbox.StateStopped && o.rec.Cause != "" {
			return o.rec.Cause
		}
	}
	return cause
}

// relayHeldLocked reports whether another root holds the relay of the sandbox of
// r: a guest has one, and a second would take it away from the first.
func (m *Manager) relayHeldLocked(r *root) bool {
	return slices.ContainsFunc(m.sharersLocked(r), func(o *root) bool { return o.relay != nil })
}

// passRelays has those who share the sandboxes of rows hold their relays from now
// on.
func (m *Manager) passRelays(rows []sandbox.Record) {
	m.mu.Lock()
	var next []*root
	for _, rec := range rows {
		for _, o := range m.roots {
			if rec.Ref != "" && o.rec.Ref == rec.Ref && o.client != nil && o.rec.State.Held() {
				next = append(next, o)
			}
		}
	}
	m.mu.Unlock()
	for _, o := range next {
		m.holdRelay(o)
	}
}
