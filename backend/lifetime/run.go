package lifetime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// How often a wall is looked at without being asked.
const (
	refreshEvery = 5 * time.Second // the age that a state is shown with
	reapEvery    = 2 * time.Minute
	watchRetry   = time.Second
	watchRetryUp = 30 * time.Second
)

// Run keeps what is known of every sandbox true until ctx ends. It first
// reconciles the ledger with the engines: what a dead process had begun is ended,
// what it held is looked at, and what nobody holds is removed. Then it follows
// the engines' events, lists each wall every few seconds and, less often, reaps
// again. A wall that does not answer delays no other.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.running {
		m.mu.Unlock()
		return errors.New("the sandbox manager runs already")
	}
	m.running = true
	m.mu.Unlock()
	ctx, done, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer done()

	begun := time.Now()
	if err := m.load(ctx); err != nil {
		return err
	}
	var first sync.WaitGroup
	walls := make(map[sandbox.Wall]bool)
	for w := range m.providers {
		walls[w] = true
		first.Go(func() { m.sweep(ctx, w, true) })
	}
	for _, r := range m.unprovided(walls) {
		m.unanswered(r, 0, fmt.Errorf("its wall is not available here: %w", sandbox.ErrNoWall))
	}
	first.Wait()
	m.log.InfoContext(ctx, "sandboxes reconciled", "took", time.Since(begun))
	close(m.ready)

	var loops sync.WaitGroup
	for w, p := range m.providers {
		relist := make(chan struct{}, 1) // one wake is enough: a listing sees all
		loops.Go(func() { m.refresh(ctx, w, relist) })
		if watcher, ok := p.(sandbox.Watcher); ok {
			loops.Go(func() { m.watch(ctx, w, watcher, relist) })
		}
	}
	if m.idleStop > 0 && !m.lookOnly {
		loops.Go(func() { m.stopIdle(ctx) })
	}
	<-ctx.Done()
	loops.Wait()
	return nil
}

// load takes the newest row of each root task into memory.
func (m *Manager) load(ctx context.Context) error {
	lctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	rows, err := m.ledger.Records(lctx)
	if err != nil {
		return fmt.Errorf("read the sandbox ledger: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range rows {
		r := m.rootLocked(rec.RootTaskID)
		if r.version > 0 || rec.ID < r.rec.ID {
			continue // an operation of this process is ahead of the rows
		}
		r.rec = rec
		r.cond = sandbox.Condition{Value: rec.State, Cause: rec.Cause, ObservedAt: rec.UpdatedAt, Source: "ledger"}
	}
	return nil
}

// unprovided returns the root tasks whose wall is none of walls.
func (m *Manager) unprovided(walls map[sandbox.Wall]bool) []*root {
	m.mu.Lock()
	defer m.mu.Unlock()
	var roots []*root
	for _, r := range m.roots {
		if !walls[r.rec.Wall] && r.rec.State.Held() {
			roots = append(roots, r)
		}
	}
	return roots
}

// refresh lists a wall from time to time, and at once when the watcher may have
// missed something.
func (m *Manager) refresh(ctx context.Context, w sandbox.Wall, relist <-chan struct{}) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	reaped, answered := time.Now(), true
	for {
		reap := false
		select {
		case <-ctx.Done():
			return
		case <-relist:
			reap = true
		case <-tick.C:
			reap = !answered || time.Since(reaped) >= reapEvery
		}
		if answered = m.sweep(ctx, w, reap); answered && reap {
			reaped = time.Now()
		}
	}
}

// watch follows the events of a wall, with a pause that grows while it fails.
func (m *Manager) watch(ctx context.Context, w sandbox.Wall, watcher sandbox.Watcher, relist chan<- struct{}) {
	pause := watchRetry
	for {
		began := time.Now()
		err := watcher.Watch(ctx, func(c sandbox.Change) { m.changed(w, c.Ref) }, func() {
			select {
			case relist <- struct{}{}:
			default:
			}
		})
		if ctx.Err() != nil {
			return
		}
		m.log.WarnContext(ctx, "the engine's events ended", "wall", w, "err", err)
		if time.Since(began) > watchRetryUp {
			pause = watchRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, watchRetryUp)
	}
}

// changed looks at the sandbox that an event names. The event is only a wake:
// by the time it is handled the engine may know better.
func (m *Manager) changed(w sandbox.Wall, ref sandbox.Ref) {
	m.mu.Lock()
	var hit []*root // several share one
	for _, r := range m.roots {
		if r.rec.Wall == w && r.rec.Ref != "" && r.rec.Ref.ID() == ref.ID() {
			hit = append(hit, r)
		}
	}
	m.mu.Unlock()
	for _, r := range hit {
		m.lookSoon(r)
	}
}

// sweep compares what a wall has with what is known, and reports whether the
// wall answered. With reap it also ends what dead processes began and removes
// what nobody holds.
func (m *Manager) sweep(ctx context.Context, w sandbox.Wall, reap bool) bool {
	p := m.providers[w]
	lister, ok := p.(sandbox.Lister)
	if !ok {
		m.lookAll(ctx, m.known(w))
		return true
	}
	known := m.known(w) // before the listing: what is made meanwhile is not in it
	lctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	found, err := lister.List(lctx)
	cancel()
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		for _, s := range known {
			m.unanswered(s.r, s.version, err)
		}
		return false
	}
	var differ []sighting
	for _, s := range known {
		if !m.same(s, found) {
			differ = append(differ, s)
		}
	}
	m.lookAll(ctx, differ)
	if m.lookOnly {
		return true
	}
	m.reopenRelays(w)
	if reap {
		m.reap(ctx, w, p, found)
	}
	return true
}

// sighting is a root task as it was known before a listing.
type sighting struct {
	r       *root
	version int
	id      string // of the sandbox
}

func (m *Manager) known(w sandbox.Wall) []sighting {
	m.mu.Lock()
	defer m.mu.Unlock()
	var known []sighting
	for _, r := range m.roots {
		if r.rec.Wall == w && r.rec.Ref != "" && (r.rec.State.Held() || r.rec.State == sandbox.StateLost) {
			known = append(known, sighting{r, r.version, r.rec.Ref.ID()})
		}
	}
	return known
}

// same refreshes what is known from a listing and reports whether nothing
// differs. A difference is looked at before it is believed.
func (m *Manager) same(s sighting, found []sandbox.Found) bool {
	cond := sandbox.Condition{Value: sandbox.StateLost, ObservedAt: time.Now(), Source: "engine"}
	for _, f := range found {
		if f.Ref.ID() == s.id {
			cond = f.Condition
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.r.version != s.version {
		return true // an operation has said more since
	}
	if s.r.cond.Value != cond.Value || s.r.cond.Source == "ledger" && cond.Value != sandbox.StateReady {
		return false // only what runs has no cause that a closer look may tell
	}
	s.r.cond.ObservedAt, s.r.cond.Source = time.Now(), cond.Source
	return true
}

// lookAll looks at several sandboxes, a few at a time.
func (m *Manager) lookAll(ctx context.Context, sightings []sighting) {
	const atOnce = 4
	slots := make(chan struct{}, atOnce)
	var looks sync.WaitGroup
	for _, s := range sightings {
		slots <- struct{}{}
		looks.Go(func() {
			defer func() { <-slots }()
			if _, err := m.look(ctx, s.r); err != nil && ctx.Err() == nil {
				m.log.WarnContext(ctx, "look at a sandbox", "task", s.r.id, "err", err)
			}
		})
	}
	looks.Wait()
}

// reap ends what dead processes began behind a wall and removes the sandboxes of
// this instance that no row holds. A root task that is being operated on is left
// for the next time. Without a readable ledger nothing is removed.
func (m *Manager) reap(ctx context.Context, w sandbox.Wall, p sandbox.Provider, found []sandbox.Found) {
	lctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	rows, err := m.ledger.Records(lctx)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		m.log.ErrorContext(ctx, "read the sandbox ledger; nothing is reaped", "err", err)
		return
	}
	unfinished := make(map[string]bool)
	for _, rec := range rows {
		if rec.Wall == w && (rec.State == sandbox.StateAllocating || rec.State == sandbox.StateReleasing) {
			unfinished[rec.RootTaskID] = true
		}
	}
	for id := range unfinished {
		m.operate(ctx, id, m.finish)
	}
	for _, f := range found {
		if f.RootTaskID == "" || f.Instance == "" {
			continue // unreadable: for the user to judge
		}
		m.operate(ctx, f.RootTaskID, func(ctx context.Context, r *root) error {
			return m.reapOne(ctx, r, p, f)
		})
	}
}

// operate runs do on a root task unless somebody operates on it already.
func (m *Manager) operate(ctx context.Context, rootTaskID string, do func(context.Context, *root) error) {
	r := m.root(rootTaskID)
	unlock, ok := m.tryAcquire(r)
	if !ok {
		return
	}
	defer unlock()
	if err := do(ctx, r); err != nil && ctx.Err() == nil {
		m.log.WarnContext(ctx, "reap", "task", rootTaskID, "err", err)
	}
}

// reapOne removes a sandbox that was found, when the ledger knows its root task
// and no row holds it. A row is written before anything is made, so a root task
// without one is of another ledger: one that was lost, or is newer than a backup
// that was put in its place. Its sandbox is the user's to judge.
func (m *Manager) reapOne(ctx context.Context, r *root, p sandbox.Provider, f sandbox.Found) error {
	remover, ok := p.(sandbox.Remover)
	if !ok {
		return nil
	}
	rows, err := m.rows(ctx, r.id)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		m.log.DebugContext(ctx, "sandbox of an unknown task left alone", "task", r.id, "ref", f.Ref)
		return nil
	}
	for _, rec := range rows {
		switch rec.State {
		case sandbox.StateReleased, sandbox.StateFailed:
			continue
		}
		// By id alone: an engine may be spoken to by another address today. A row
		// without one is of an allocation that has not been cleared up yet.
		if rec.Ref == "" || rec.Ref.ID() == f.Ref.ID() {
			return nil
		}
	}
	if shared, err := m.heldElsewhere(ctx, r.id); err != nil || shared[f.Ref.ID()] {
		return err
	}
	rctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := remover.Remove(rctx, f.Ref); err != nil {
		return fmt.Errorf("remove %s: %w", f.ShortID, err)
	}
	m.log.InfoContext(ctx, "orphan removed", "task", r.id, "ref", f.Ref)
	return nil
}
