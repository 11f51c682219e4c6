package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/browser/pane"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
)

// panes are the browsers that are in use. Sessions that share a sandbox share its
// browser, and so its one lease: whoever takes control has it of all their agents.
type panes struct {
	work sync.WaitGroup // of the goroutines that go with each Pane

	mu     sync.Mutex
	ended  string // why there are no more, "" while there are
	byRoot map[string]*hold
}

// hold is one root task's use of a Pane. It is in panes.byRoot until it ends.
type hold struct {
	ready chan struct{} // closed when p or err is set
	p     *pane.Pane
	err   error

	// Guarded by the lock of panes.
	over    string // why it has ended, "" while it has not
	viewers map[*relay.Viewer]struct{}
}

// get returns a root task's Pane: its own, that of one of those it shares its
// sandbox with, or a new one, which attend is started beside.
func (ps *panes) get(ctx context.Context, root string, others []string, open func(context.Context) (pane.Options, error), attend func(string, *pane.Pane)) (*hold, error) {
	for {
		h, made, opens, err := ps.find(root, others)
		if err != nil {
			return nil, err
		}
		if opens != nil {
			select {
			case <-opens:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if made {
			ps.fill(ctx, root, h, open, attend)
		}
		select {
		case <-h.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if h.err != nil && !made && ctx.Err() == nil && (errors.Is(h.err, context.Canceled) || errors.Is(h.err, context.DeadlineExceeded)) {
			continue // that was the end of who asked first
		}
		return h, h.err
	}
}

// find returns a root task's hold. One that is made is still to be filled, unless
// somebody shares a Pane with it; while one of those is opening theirs there is only
// that to wait for.
func (ps *panes) find(root string, others []string) (h *hold, made bool, opens <-chan struct{}, err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ended != "" {
		return nil, false, nil, fmt.Errorf("open the browser: %s: %w", ps.ended, context.Canceled)
	}
	if h := ps.byRoot[root]; h != nil {
		return h, false, nil, nil
	}
	h = &hold{ready: make(chan struct{}), viewers: map[*relay.Viewer]struct{}{}}
	for _, o := range others {
		shared := ps.byRoot[o]
		switch {
		case shared == nil:
		case shared.filled():
			h.p = shared.p
			close(h.ready)
			ps.byRoot[root] = h
			return h, false, nil, nil
		default:
			return nil, false, shared.ready, nil
		}
	}
	ps.byRoot[root] = h
	return h, true, nil, nil
}

// filled reports whether there is a Pane. The lock of panes is held.
func (h *hold) filled() bool {
	select {
	case <-h.ready:
		return h.p != nil
	default:
		return false
	}
}

// fill makes a hold's Pane.
func (ps *panes) fill(ctx context.Context, root string, h *hold, open func(context.Context) (pane.Options, error), attend func(string, *pane.Pane)) {
	defer close(h.ready)
	o, err := open(ctx)
	var p *pane.Pane
	if err == nil {
		p = pane.New(o)
	}
	ps.mu.Lock()
	if h.over != "" { // meanwhile
		ps.mu.Unlock()
		if p != nil {
			p.Close(h.over)
		}
		h.err = fmt.Errorf("open the browser: %s: %w", h.over, pane.ErrEnded)
		return
	}
	defer ps.mu.Unlock()
	if err != nil {
		h.err = err
		delete(ps.byRoot, root)
		return
	}
	h.p = p
	ps.work.Go(func() { attend(root, p) })
}

// end ends a root task's use of its Pane, and the Pane itself where nobody else
// uses it. It returns at once; the end is waited for by close.
func (ps *panes) end(root, reason string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.endLocked(root, reason)
}

func (ps *panes) endLocked(root, reason string) {
	h := ps.byRoot[root]
	if h == nil {
		return
	}
	delete(ps.byRoot, root)
	h.over = reason
	if !h.filled() {
		return // whoever fills it sees
	}
	for _, o := range ps.byRoot {
		if o.filled() && o.p == h.p {
			for v := range h.viewers {
				v.Leave()
			}
			return
		}
	}
	ps.work.Go(func() { h.p.Close(reason) })
}

// endAll ends a Pane for everybody and waits for that.
func (ps *panes) endAll(root, reason string) {
	ps.mu.Lock()
	h := ps.byRoot[root]
	if h == nil || !h.filled() {
		ps.endLocked(root, reason)
		ps.mu.Unlock()
		return
	}
	for o, other := range ps.byRoot {
		if other.filled() && other.p == h.p {
			delete(ps.byRoot, o)
			other.over = reason
		}
	}
	ps.mu.Unlock()
	h.p.Close(reason)
}

// close ends all there are and waits until nothing of them is left.
func (ps *panes) close(reason string) {
	ps.mu.Lock()
	ps.ended = reason
	for root := range ps.byRoot {
		ps.endLocked(root, reason)
	}
	ps.mu.Unlock()
	ps.work.Wait()
}

// users are the root tasks that use a Pane now.
func (ps *panes) users(p *pane.Pane) (roots []string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for root, h := range ps.byRoot {
		if h.filled() && h.p == p {
			roots = append(roots, root)
		}
	}
	return roots
}

// now returns a root task's Pane if there is one, and how many look on.
func (ps *panes) now(root string) (p *pane.Pane, viewers int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if h := ps.byRoot[root]; h != nil && h.filled() {
		return h.p, len(h.viewers)
	}
	return nil, 0
}

// seen reports whether somebody looks at a root task's browser.
func (ps *panes) seen(root string) bool {
	_, viewers := ps.now(root)
	return viewers > 0
}

// join adds a viewer to a hold that has not ended.
func (ps *panes) join(h *hold, view relay.View) (*relay.Viewer, error) {
	if h.p.Relay() == nil {
		return nil, pane.ErrNoView
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if h.over != "" {
		return nil, fmt.Errorf("look at the browser: %s: %w", h.over, pane.ErrEnded)
	}
	v := h.p.Relay().Join(view)
	h.viewers[v] = struct{}{}
	return v, nil
}

func (ps *panes) leave(h *hold, v *relay.Viewer) {
	v.Leave()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(h.viewers, v)
}
