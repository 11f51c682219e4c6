package lifetime

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// root is what the Manager knows of one root task. All but sem is guarded by
// Manager.mu.
type root struct {
	id string

	// sem holds one token: whoever put it there operates on the root task.
	sem chan struct{}

	rec     sandbox.Record // its newest row
	cond    sandbox.Condition
	client  *client.Client // nil while no channel is open
	hello   wire.Hello
	handle  *sandbox.Handle // nil until it is attached
	version int             // raised by whatever is set, so that older observations are known

	cancelAllocate context.CancelFunc // while one runs
	intent         sandbox.Condition  // what an operation is about to bring about

	untold  []change // for Options.Observe, in order
	telling bool     // a goroutine is handing untold over

	used   time.Time // when a call was last seen to be made, or something to run
	idling bool      // it is about to be stopped for want of use

	relay    context.CancelFunc // ends the relay that is held by client; nil when none is
	reopen   time.Duration      // pause after the last attempt to reopen it
	reopenAt time.Time          // not before

	looking bool // a goroutine looks at the engine on an event
	again   bool // another event came meanwhile, or one came during an operation
}

type change struct {
	rec    sandbox.Record
	cond   sandbox.Condition
	detail string
}

// root returns the entry of a root task and makes it when there is none.
func (m *Manager) root(id string) *root {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rootLocked(id)
}

func (m *Manager) rootLocked(id string) *root {
	r, ok := m.roots[id]
	if !ok {
		r = &root{id: id, sem: make(chan struct{}, 1)}
		m.roots[id] = r
	}
	return r
}

// acquire makes the caller the only one to operate on r until it calls the
// returned function.
func (m *Manager) acquire(ctx context.Context, r *root) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case r.sem <- struct{}{}:
		return func() { m.unlock(r) }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *Manager) tryAcquire(r *root) (unlock func(), ok bool) {
	select {
	case r.sem <- struct{}{}:
		return func() { m.unlock(r) }, true
	default:
		return nil, false
	}
}

// unlock also looks at what happened while nobody could write it down.
func (m *Manager) unlock(r *root) {
	<-r.sem
	m.mu.Lock()
	missed := r.again && !r.looking
	m.mu.Unlock()
	if missed {
		m.lookSoon(r)
	}
}

// set makes rec and cond what is known of r after an operation.
func (m *Manager) set(r *root, rec sandbox.Record, cond sandbox.Condition, detail string) {
	m.mu.Lock()
	if rec.ID < r.rec.ID { // an older generation: not what is shown
		m.mu.Unlock()
		return
	}
	r.rec = rec
	r.version++
	m.observedLocked(r, cond, detail)
	m.mu.Unlock()
	m.tell(r)
}

// observedLocked takes an observation in. Only a change of value or cause is
// told; a mere refresh moves the time.
func (m *Manager) observedLocked(r *root, cond sandbox.Condition, detail string) {
	if cond.ObservedAt.IsZero() {
		cond.ObservedAt = time.Now()
	}
	changed := cond.Value != r.cond.Value || cond.Cause != r.cond.Cause
	r.cond = cond
	if changed {
		r.untold = append(r.untold, change{r.rec, cond, detail})
	}
}

// tell hands what is untold of r to Options.Observe, one change at a time and in
// order, whoever calls it.
func (m *Manager) tell(r *root) {
	for {
		m.mu.Lock()
		if r.telling || len(r.untold) == 0 {
			m.mu.Unlock()
			return
		}
		r.telling = true
		changes := r.untold
		r.untold = nil
		m.mu.Unlock()

		for _, c := range changes {
			m.log.Info("sandbox state", "task", r.id, "ref", c.rec.Ref, "state", c.cond.Value, "cause", c.cond.Cause)
			if m.observe != nil {
				m.observe(r.id, c.rec, c.cond, c.detail)
			}
		}

		m.mu.Lock()
		r.telling = false
		m.mu.Unlock()
	}
}

// write puts a row into its new state, in the ledger first and then in memory.
// It is not interrupted by the end of ctx: the effect has happened.
func (m *Manager) write(ctx context.Context, r *root, rec *sandbox.Record, cond sandbox.Condition, detail string) error {
	cond.Cause = clip(cond.Cause)
	next := *rec
	next.State, next.Cause, next.UpdatedAt = cond.Value, cond.Cause, time.Now().UTC()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	if err := m.ledger.UpdateRecord(ctx, next); err != nil {
		return errLedger("update", r.id, err)
	}
	*rec = next
	m.set(r, next, cond, detail)
	return nil
}

// dropChannel closes the channel of r, if one is open.
func (m *Manager) dropChannel(r *root) {
	m.mu.Lock()
	c := r.client
	r.client, r.hello, r.handle = nil, wire.Hello{}, nil
	r.dropRelayLocked()
	m.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// rows returns the ledger's rows of one root task, oldest first.
func (m *Manager) rows(ctx context.Context, rootTaskID string) ([]sandbox.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	all, err := m.ledger.Records(ctx)
	if err != nil {
		return nil, errLedger("read", rootTaskID, err)
	}
	var mine []sandbox.Record
	for _, rec := range all {
		if rec.RootTaskID == rootTaskID {
			mine = append(mine, rec)
		}
	}
	slices.SortFunc(mine, func(a, b sandbox.Record) int { return cmp.Compare(a.ID, b.ID) })
	return mine, nil
}

// live returns the newest row of a root task that still holds something.
func (m *Manager) live(ctx context.Context, rootTaskID string) (sandbox.Record, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	rec, ok, err := m.ledger.LiveRecord(ctx, rootTaskID)
	if err != nil {
		return sandbox.Record{}, false, errLedger("read", rootTaskID, err)
	}
	return rec, ok && rec.State.Owned(), nil
}
