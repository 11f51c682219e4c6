package lifetime

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Egress carries what sandboxes send out.
type Egress interface {
	// Serve carries the connections that l hands out under a sandbox's policy
	// until l breaks or ctx ends, then closes l and returns when nothing is left.
	Serve(ctx context.Context, rootTaskID string, network sandbox.Network, l net.Listener) error
}

// How long a broken relay is left alone before it is opened again.
const (
	relayFirst   = 2 * time.Second // what the first command waits for its way out
	relayPause   = 100 * time.Millisecond
	relayPauseUp = 10 * time.Second
	reopenPause  = 10 * time.Second // for one whose sandbox has to be attached first
	reopenUp     = 5 * time.Minute
)

// relayed says whether a sandbox's way out is ours to hold open.
func (m *Manager) relayed(spec sandbox.Spec) bool {
	return m.egress != nil && spec.NetworkOrDefault() == sandbox.NetworkProxy
}

// holdRelay holds the relay of r's sandbox open from now on, by its present
// channel and until that is dropped. What it returns is closed once it is open, or
// could not be opened at once; nil where it was held already, or is not ours.
func (m *Manager) holdRelay(r *root) (tried <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || r.client == nil || r.relay != nil || !m.relayed(r.rec.Spec) || m.relayHeldLocked(r) {
		return nil
	}
	ctx, cancel := context.WithCancel(m.life)
	r.relay, r.reopen = cancel, 0
	c, network := r.client, r.rec.Spec.Network
	first := make(chan struct{})
	m.work.Go(func() {
		defer cancel()
		m.relay(ctx, r.id, network, c, sync.OnceFunc(func() { close(first) }))
	})
	return first
}

// awaitRelay waits a moment for a relay that is being opened, so that what is run
// next has its way out from its first byte on.
func awaitRelay(ctx context.Context, tried <-chan struct{}) {
	if tried == nil {
		return
	}
	late := time.NewTimer(relayFirst)
	defer late.Stop()
	select {
	case <-tried:
	case <-late.C:
	case <-ctx.Done():
	}
}

// dropRelayLocked ends the relay of r, if one is held.
func (r *root) dropRelayLocked() {
	if r.relay != nil {
		r.relay()
		r.relay = nil
	}
}

// relay opens the relay's channel and serves it, again and again. It calls tried
// after each attempt to open it.
func (m *Manager) relay(ctx context.Context, rootTaskID string, network sandbox.Network, c *client.Client, tried func()) {
	defer tried()
	pause := relayPause
	for {
		began := time.Now()
		l, err := c.Relay(ctx)
		tried()
		if err == nil {
			m.log.DebugContext(ctx, "relay open", "task", rootTaskID)
			err = m.egress.Serve(ctx, rootTaskID, network, l)
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, execenv.ErrUnsupported) {
			m.log.WarnContext(ctx, "sandbox has no relay", "task", rootTaskID, "err", err)
			return
		}
		m.log.DebugContext(ctx, "relay broken", "task", rootTaskID, "err", err)
		if time.Since(began) > relayPauseUp {
			pause = relayPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, relayPauseUp)
	}
}

// reopenRelays attaches to those running sandboxes of a wall that nobody has
// called since this process began: what runs in them has a way out all the same.
func (m *Manager) reopenRelays(w sandbox.Wall) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.egress == nil || m.closed || m.reopening[w] {
		return
	}
	var roots []string
	for _, r := range m.roots {
		if r.rec.Wall != w || r.client != nil || r.rec.State != sandbox.StateReady || r.cond.Value != sandbox.StateReady ||
			r.cond.Source == "ledger" || !m.relayed(r.rec.Spec) || now.Before(r.reopenAt) {
			continue
		}
		r.reopen = min(max(2*r.reopen, reopenPause), reopenUp)
		r.reopenAt = now.Add(r.reopen)
		roots = append(roots, r.id)
	}
	if len(roots) == 0 {
		return
	}
	m.reopening[w] = true
	m.work.Go(func() {
		for _, id := range roots {
			if _, err := m.Attach(m.life, id); err != nil && m.life.Err() == nil {
				m.log.Debug("relay not reopened", "task", id, "err", err)
			}
		}
		m.mu.Lock()
		m.reopening[w] = false
		m.mu.Unlock()
	})
}
