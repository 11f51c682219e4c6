package control

import (
	"context"
	"sync"
	"time"
)

// How long a person's inputs wait at most for what the agent had begun when they
// took control, and the agent for what a person did last. A page that takes longer
// than the first answers nobody, or the machine is very busy.
const (
	begunTime = 5 * time.Second
	sentTime  = time.Second
)

// maxWaiting bounds how many of a person's inputs wait; those beyond go at once.
const maxWaiting = 1024

// begun is what the agent has on its way to the page, and what waits for it.
type begun struct {
	acts    int
	until   time.Time   // from when on nothing waits any more
	timer   *time.Timer // at until
	waiting []func()
}

// Begin notes that the agent begins something that is done by and by: a script
// that runs in the page, an input that is yet to be answered, a trap set for a
// click. A take refuses what would follow of it and cannot take back what is on
// its way; so the inputs of a person who takes control wait until end is called,
// for five seconds at most, and also when control has gone back before that.
// Otherwise they would reach a page that is still being changed: a script gives
// another field the keyboard, and what the person types goes there. end may be called
// more than once.
func (l *Lease) Begin() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun.acts++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.begun.acts--; l.begun.acts == 0 {
			l.release()
		}
	})
}

// settle has the inputs of who has just taken control wait for what is on its way.
func (l *Lease) settle() {
	if l.begun.acts == 0 {
		return
	}
	if l.begun.timer != nil {
		l.begun.timer.Stop()
	}
	l.begun.until = time.Now().Add(begunTime)
	l.begun.timer = time.AfterFunc(begunTime, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.release()
	})
}

// pass runs send, or has it wait.
func (l *Lease) pass(send func()) {
	if l.begun.acts > 0 && time.Now().Before(l.begun.until) && len(l.begun.waiting) < maxWaiting {
		l.begun.waiting = append(l.begun.waiting, send)
		return
	}
	l.release()
	send()
}

// release runs what waits, in its order.
func (l *Lease) release() {
	if l.begun.timer != nil {
		l.begun.timer.Stop()
		l.begun.timer = nil
	}
	l.begun.until = time.Time{}
	if len(l.begun.waiting) == 0 {
		return
	}
	for _, send := range l.begun.waiting {
		send()
	}
	l.begun.waiting = nil
	l.sent.begin()
}

// After runs send, which puts something on its way to the page that is to come behind
// everything that persons did so far. Like that of [Lease.Agent] it must only enqueue.
func (l *Lease) After(send func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.begun.waiting) > 0 {
		l.begun.waiting = append(l.begun.waiting, send)
		return
	}
	send()
}

// sent is what persons have on its way to the page. Its lock is taken beside the
// Lease's and never around it: an answer may come in the middle of a send.
type sent struct {
	mu   sync.Mutex
	n    int
	last time.Time
	none chan struct{} // closed when n is 0 again
}

// begin has the time of the last input begin now: it had to wait before it was sent.
func (s *sent) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
}

// Sent notes that an input of a person is about to be sent, until answered is
// called, be it that it was not sent after all.
func (l *Lease) Sent() (answered func()) {
	l.sent.mu.Lock()
	defer l.sent.mu.Unlock()
	if l.sent.n++; l.sent.n == 1 {
		l.sent.none = make(chan struct{})
	}
	l.sent.last = time.Now()
	return sync.OnceFunc(func() {
		l.sent.mu.Lock()
		defer l.sent.mu.Unlock()
		if l.sent.n--; l.sent.n == 0 {
			close(l.sent.none)
		}
	})
}

// Settle waits until the page has taken what persons did, for a second after the
// last of it at most: inputs and scripts go to a page by different ways, and a click
// of a person that comes late would change the page under the agent's hands.
func (l *Lease) Settle(ctx context.Context) {
	l.sent.mu.Lock()
	n, none, rest := l.sent.n, l.sent.none, time.Until(l.sent.last.Add(sentTime))
	l.sent.mu.Unlock()
	if n == 0 || rest <= 0 {
		return
	}
	late := time.NewTimer(rest)
	defer late.Stop()
	select {
	case <-none:
	case <-late.C:
	case <-ctx.Done():
	}
}
