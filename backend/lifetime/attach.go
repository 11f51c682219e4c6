package lifetime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Attach reconnects a root task to its sandbox and starts it when it is stopped,
// paused or only created. It never makes one. The error wraps sandbox.ErrGone
// (the row is then lost), ErrStopped, ErrUnreachable (the binding holds) or
// ErrForeign. One that was left to its user is taken back.
func (m *Manager) Attach(ctx context.Context, rootTaskID string) (Binding, error) {
	return m.reconnect(ctx, rootTaskID, "attach", sandbox.Provider.Attach)
}

// Start starts a root task's sandbox that is stopped or paused; it is Attach on
// a user's word.
func (m *Manager) Start(ctx context.Context, rootTaskID string) (Binding, error) {
	return m.reconnect(ctx, rootTaskID, "start", func(p sandbox.Provider, ctx context.Context, ref sandbox.Ref) (sandbox.Handle, error) {
		if s, ok := p.(sandbox.Starter); ok {
			return s.Start(ctx, ref)
		}
		return p.Attach(ctx, ref)
	})
}

// secondLook bounds the look before a sandbox is refused as paused.
const secondLook = 2 * time.Second

// Client returns the open channel to a root task's sandbox, and opens it when it
// is not. A sandbox that is known to be stopped or lost is not tried: the error
// says so at once. Use it for one call; do not keep it, do not close it.
func (m *Manager) Client(ctx context.Context, rootTaskID string) (*client.Client, Binding, error) {
	return m.client(ctx, rootTaskID, false)
}

func (m *Manager) client(ctx context.Context, rootTaskID string, use bool) (*client.Client, Binding, error) {
	c, b, err := m.channel(rootTaskID, use)
	if err != nil && m.isBack(ctx, rootTaskID) {
		c, b, err = m.channel(rootTaskID, use)
	}
	// A sandbox that is hardly used can be stopped as idle again before whoever had it
	// started has the channel.
	for range openTries {
		if c != nil || err != nil {
			return c, b, err
		}
		if _, err := m.Attach(ctx, rootTaskID); err != nil {
			return nil, Binding{}, err
		}
		c, b, err = m.channel(rootTaskID, use)
	}
	if c == nil && err == nil {
		err = fmt.Errorf("the channel closed while it was opened: %w", sandbox.ErrUnreachable)
	}
	return c, b, err
}

// openTries is how often a channel is opened for one call.
const openTries = 3

// isBack looks once more at a sandbox that was seen paused, and reports whether it
// goes on: whoever has just unpaused one by hand is not refused because the
// engine's word of it is still on its way.
func (m *Manager) isBack(ctx context.Context, rootTaskID string) bool {
	m.mu.Lock()
	r, ok := m.roots[rootTaskID]
	paused := ok && !m.closed && r.cond.Value == sandbox.StatePaused
	m.mu.Unlock()
	if !paused {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, secondLook)
	defer cancel()
	cond, err := m.look(ctx, r)
	return err == nil && cond.Value == sandbox.StateReady
}

// Channel is Client in the words of the layers below this one.
//
// It counts as use, which Client does not.
func (m *Manager) Channel(ctx context.Context, rootTaskID string) (*client.Client, sandbox.Record, wire.Hello, error) {
	c, b, err := m.client(ctx, rootTaskID, true)
	return c, b.Record, b.Hello, err
}

// channel returns the channel that is open, an error when none can be, or
// neither when it is worth trying. With use, the sandbox is used by that.
func (m *Manager) channel(rootTaskID string, use bool) (*client.Client, Binding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.roots[rootTaskID]
	switch {
	case m.closed:
		return nil, Binding{}, ErrClosed
	case !ok:
		return nil, Binding{}, nil
	}
	if r.idling && use {
		return nil, Binding{}, nil // it is started again once it has stopped
	}
	switch r.cond.Value {
	case sandbox.StateReady, sandbox.StateUnreachable:
		// A silent engine does not close a channel that is open: the guest
		// answers by itself, or the call asks why it does not.
		if r.client != nil {
			if use {
				r.used = time.Now()
			}
			return r.client, r.bindingLocked(), nil
		}
		if r.handle != nil {
			return nil, Binding{}, errNoGuest
		}
		return nil, Binding{}, nil
	case sandbox.StateAllocating, "":
		return nil, Binding{}, nil // wait for it as Attach does
	}
	return nil, Binding{}, down(r.cond)
}

func (r *root) bindingLocked() Binding {
	return Binding{Record: r.rec, Ref: r.rec.Ref, ShortID: r.rec.ShortID, Workdir: r.rec.Workdir, Hello: r.hello}
}

type attachFunc func(sandbox.Provider, context.Context, sandbox.Ref) (sandbox.Handle, error)

func (m *Manager) reconnect(ctx context.Context, rootTaskID, verb string, by attachFunc) (Binding, error) {
	return m.bind(ctx, verb, rootTaskID, func(ctx context.Context, r *root) (Binding, error) {
		rec, err := m.held(ctx, rootTaskID)
		if err != nil {
			var left bool
			if rec, left = m.detached(ctx, rootTaskID); !left {
				return Binding{}, err
			}
		}
		return m.attachBy(ctx, r, rec, by)
	})
}

// held returns the row of the sandbox that a root task has and is not letting go.
func (m *Manager) held(ctx context.Context, rootTaskID string) (sandbox.Record, error) {
	rec, ok, err := m.live(ctx, rootTaskID)
	if err == nil && (!ok || rec.Ref == "" || rec.State == sandbox.StateReleasing) {
		err = errNone(rootTaskID)
	}
	return rec, err
}

// detached returns the row of a sandbox that a root task has left to its user,
// where that is the last one that it had.
func (m *Manager) detached(ctx context.Context, rootTaskID string) (sandbox.Record, bool) {
	rows, err := m.rows(ctx, rootTaskID)
	if err != nil || len(rows) == 0 {
		return sandbox.Record{}, false
	}
	last := rows[len(rows)-1]
	return last, last.State == sandbox.StateDetached
}

func (m *Manager) attach(ctx context.Context, r *root, rec sandbox.Record) (Binding, error) {
	return m.attachBy(ctx, r, rec, sandbox.Provider.Attach)
}

func (m *Manager) attachBy(ctx context.Context, r *root, rec sandbox.Record, by attachFunc) (Binding, error) {
	p, err := m.provider(rec.Wall)
	if err != nil {
		return Binding{}, fmt.Errorf("%w: %w", sandbox.ErrUnreachable, err)
	}
	actx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	h, err := by(p, actx, rec.Ref)
	if err == nil {
		var b Binding
		if b, err = m.open(actx, r, &rec, h); err == nil {
			return b, nil
		}
	}
	if ctx.Err() != nil {
		return Binding{}, ctx.Err()
	}
	cond, known := m.judge(actx, p, rec, err)
	if !known {
		return Binding{}, fmt.Errorf("attach: %w", err)
	}
	if cond.Value == sandbox.StateUnreachable {
		m.set(r, rec, cond, err.Error()) // the row keeps its state: the binding holds
		return Binding{}, fmt.Errorf("attach: %w (%w)", down(cond), err)
	}
	m.dropChannel(r)
	if werr := m.write(ctx, r, &rec, cond, err.Error()); werr != nil {
		return Binding{}, errors.Join(down(cond), werr)
	}
	if cond.Value == sandbox.StateStopped { // say why it did not start, as where its workspace is missing
		return Binding{}, fmt.Errorf("%w (%v)", down(cond), err)
	}
	return Binding{}, down(cond)
}

// judge turns the error of an attach into the condition that it shows. It is not
// known for an error that says nothing about the sandbox.
func (m *Manager) judge(ctx context.Context, p sandbox.Provider, rec sandbox.Record, err error) (sandbox.Condition, bool) {
	cond := sandbox.Condition{Source: "engine"}
	switch {
	case errors.Is(err, sandbox.ErrGone):
		cond.Value, cond.Cause = sandbox.StateLost, sandbox.CauseRemoved
	case errors.Is(err, sandbox.ErrStopped):
		cond.Value, cond.Cause = sandbox.StateStopped, sandbox.CauseExited
		if seen, _ := m.inspect(ctx, p, rec); seen.Value == sandbox.StateStopped && seen.Cause != "" {
			cond = seen
		}
	case errors.Is(err, sandbox.ErrForeign), errors.Is(err, sandbox.ErrRef), errors.Is(err, sandbox.ErrUnsupported):
		return cond, false
	case errors.Is(err, errGuestSilent):
		cond.Value, cond.Cause, cond.Source = sandbox.StateUnreachable, causeGuest, "guest"
	case errors.Is(err, sandbox.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		cond = silence(rec.Wall, err)
	default:
		return cond, false
	}
	return cond, true
}

// causeGuest explains a sandbox that runs and whose guest says nothing.
const causeGuest = "guest not answering"

var errGuestSilent = errors.New(causeGuest)

// open opens the channel to a sandbox that a provider has handed over and writes
// that it is ready. A channel that is open and answers from the same boot is
// kept, so that a second attach breaks no running call.
func (m *Manager) open(ctx context.Context, r *root, rec *sandbox.Record, h sandbox.Handle) (Binding, error) {
	next := *rec
	if next.Ref == "" {
		ref, err := h.Ref()
		if err != nil {
			return Binding{}, err
		}
		next.Ref = ref
	}
	if h.ShortID != "" {
		next.ShortID = h.ShortID
	}
	if h.Workdir != "" {
		next.Workdir = h.Workdir
	}
	if h.Dial == nil {
		return m.openForeign(ctx, r, rec, next, h)
	}

	m.mu.Lock()
	old, oldHello := r.client, r.hello
	m.mu.Unlock()
	c := client.New(client.Options{Dial: h.Dial, GuestID: h.GuestID, Key: client.DeriveKey(m.secret, h.GuestID), Log: m.log})
	hctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	hello, err := c.Hello(hctx)
	if err != nil {
		c.Close()
		return Binding{}, fmt.Errorf("%w: %w", errGuestSilent, err)
	}
	if old != nil && oldHello.BootID == hello.BootID && oldHello.GuestID == hello.GuestID {
		c.Close()
		c, old = old, nil
	}

	m.mu.Lock()
	if r.client != c {
		r.dropRelayLocked()
	}
	r.client, r.hello, r.handle = c, hello, &h
	m.mu.Unlock()
	if old != nil {
		old.Close()
	}
	if err := m.write(ctx, r, &next, sandbox.Condition{Value: sandbox.StateReady, Source: "guest"}, ""); err != nil {
		m.dropChannel(r)
		return Binding{}, err
	}
	*rec = next
	awaitRelay(ctx, m.holdRelay(r))
	return Binding{Record: next, Ref: next.Ref, ShortID: next.ShortID, Workdir: next.Workdir, Hello: hello}, nil
}
