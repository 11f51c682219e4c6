package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/egress"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// EgressDecided records that the egress proxy has decided about a connection of
// a session's sandbox. Equal decisions are counted, and written together.
func (s *Service) EgressDecided(root string, d egress.Decision) {
	s.egress.add(root, d, task.EgressDecided{Count: 1})
}

// EgressEnded records the end of a connection that was allowed.
func (s *Service) EgressEnded(root string, d egress.Decision) {
	e := task.EgressDecided{Sent: d.Sent, Received: d.Received, Longest: d.Duration, Error: d.Error}
	if d.Error != "" {
		e.Failed = 1
	}
	s.egress.add(root, d, e)
}

// FlushEgress writes what has been counted and not yet written. It is called
// once, when nothing is decided any more.
func (s *Service) FlushEgress() { s.egress.close() }

// EgressRow is an entry of a session's record of decisions.
type EgressRow struct {
	Seq int64
	At  time.Time
	task.EgressDecided
}

// MaxEgress is the most rows that Egress returns.
const MaxEgress = 1000

// Egress returns the last decisions about a session's connections, newest first.
// Those of the last moments may not be among them yet.
func (s *Service) Egress(ctx context.Context, id string, limit int) ([]EgressRow, error) {
	v, err := s.View(ctx, id)
	if err != nil {
		return nil, err
	}
	if limit <= 0 || limit > MaxEgress {
		limit = MaxEgress
	}
	events, err := s.o.Store.Events(ctx, store.Query{RootTaskID: v.ID, Kind: task.KindEgressDecided, Newest: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	rows := make([]EgressRow, 0, len(events))
	for _, e := range events {
		row := EgressRow{Seq: e.Seq, At: e.At}
		p, err := task.Decode(e)
		if err != nil {
			return nil, err
		}
		d, ok := p.(*task.EgressDecided)
		if !ok {
			return nil, fmt.Errorf("event %d is no decision", e.Seq)
		}
		row.EgressDecided = *d
		rows = append(rows, row)
	}
	return rows, nil
}

// A decision is in the log after firstFlush. While equal ones follow, they are
// written at growing distances, so that thousands of connections to one registry
// make a handful of events.
const (
	firstFlush = time.Second
	lastFlush  = 30 * time.Second
	maxPending = 64 // destinations of a session at once that are named singly
)

// egressLog gathers decisions into events.
type egressLog struct {
	write func(root string, e task.EgressDecided)

	mu      sync.Mutex
	pending map[string]map[egressKey]*gathered // by session
	closed  bool
	timers  sync.WaitGroup // one for each that is armed
}

type egressKey struct {
	protocol, host string
	port           uint16
	allowed        bool
	reason         string
}

type gathered struct {
	e     task.EgressDecided // since it was last written
	wait  time.Duration
	timer *time.Timer
}

func newEgressLog(write func(root string, e task.EgressDecided)) *egressLog {
	return &egressLog{write: write, pending: map[string]map[egressKey]*gathered{}}
}

// add counts one decision, or the end of one, in.
func (l *egressLog) add(root string, d egress.Decision, more task.EgressDecided) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	mine := l.pending[root]
	if mine == nil {
		mine = map[egressKey]*gathered{}
		l.pending[root] = mine
	}
	key := egressKey{d.Protocol, d.Host, d.Port, d.Allowed, d.Reason}
	g, ok := mine[key]
	if !ok && len(mine) >= maxPending {
		// A sandbox that tries every name there is does not fill the log with them.
		key = egressKey{allowed: d.Allowed, reason: "many others at the same time, not listed singly"}
		d.Address = ""
		g, ok = mine[key]
	}
	if !ok {
		g = &gathered{wait: firstFlush}
		mine[key] = g
		g.e = key.event()
		l.arm(root, key, g)
	}
	if g.e.Count+g.e.Failed == 0 && g.e.Sent+g.e.Received == 0 {
		g.e.First = d.At
	}
	if d.Address != "" {
		g.e.Address = d.Address
	}
	if more.Error != "" {
		g.e.Error = more.Error
	}
	g.e.Count += more.Count
	g.e.Failed += more.Failed
	g.e.Sent += more.Sent
	g.e.Received += more.Received
	g.e.Longest = max(g.e.Longest, more.Longest)
}

func (k egressKey) event() task.EgressDecided {
	return task.EgressDecided{Protocol: k.protocol, Host: k.host, Port: k.port, Allowed: k.allowed, Reason: k.reason}
}

// arm lets g be written after its wait.
func (l *egressLog) arm(root string, key egressKey, g *gathered) {
	l.timers.Add(1)
	g.timer = time.AfterFunc(g.wait, func() {
		defer l.timers.Done()
		l.flush(root, key, g)
	})
}

func (l *egressLog) flush(root string, key egressKey, g *gathered) {
	l.mu.Lock()
	e := g.e
	address := e.Address
	g.e = key.event()
	g.e.Address = address
	switch quiet := e.Count+e.Failed == 0 && e.Sent+e.Received == 0; {
	case quiet:
		delete(l.pending[root], key)
		if len(l.pending[root]) == 0 {
			delete(l.pending, root)
		}
		l.mu.Unlock()
		return
	case !l.closed:
		g.wait = min(4*g.wait, lastFlush)
		l.arm(root, key, g)
	}
	l.mu.Unlock()
	l.write(root, e)
}

// close writes what is left, and waits for what is being written.
func (l *egressLog) close() {
	l.mu.Lock()
	l.closed = true
	type left struct {
		root string
		key  egressKey
		g    *gathered
	}
	var rest []left
	for root, mine := range l.pending {
		for key, g := range mine {
			if g.timer.Stop() {
				l.timers.Done()
				rest = append(rest, left{root, key, g})
			}
		}
	}
	l.mu.Unlock()
	for _, r := range rest {
		l.flush(r.root, r.key, r.g)
	}
	l.timers.Wait()
}

// recordEgress appends a decision to a session's log. One that has ended, or was
// never known, has none to append to.
func (s *Service) recordEgress(root string, e task.EgressDecided) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.append(ctx, root, 0, &e)
	if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrEnded) {
		s.o.Log.Warn("egress not recorded", "session", root, "host", e.Host, "err", err)
	}
}
