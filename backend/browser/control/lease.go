// Package control decides whose hands are on a browser: the agent's, or those of
// one person who has taken control.
//
//	l := control.New()
//	state, err := l.Take(viewer, 5*time.Minute) // a person; from here on no input of the agent
//	err = l.Agent(func() { session.Post(press) }) // refused: HeldError
//	err = l.GiveBack(viewer)
//	look, err := l.Look()                         // the agent has to look before it acts
//	picture := capture()
//	err = look.Done()
//
// While a person has control the agent's inputs and looks are refused, not
// queued: what it meant to do was for a page that is no longer there, and what
// the page shows meanwhile may be a person's secret. After that its first act is
// a look; until then its inputs are refused with [ErrLook].
package control

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// How long a person may hold control without a word.
const (
	DefaultHold = 5 * time.Minute
	MaxHold     = 60 * time.Minute
)

// ErrLook refuses an agent's input after a person gave control back.
var ErrLook = errors.New("a person used the browser since your last look: take a fresh look (browser_extract or browser_screenshot) before the next input")

// ErrNotHolder refuses an input of a person who has not taken control.
var ErrNotHolder = errors.New("take control first: the agent has the browser")

// ErrClosed refuses control of a browser that nobody uses any more.
var ErrClosed = errors.New("the browser was let go of: there is nothing to take control of")

// ErrHeld is what every HeldError is.
var ErrHeld = errors.New("a person has control of the browser")

// HeldError says that a person has control.
type HeldError struct {
	Viewer string
	Left   time.Duration
}

// Is makes a HeldError one of ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

func (e *HeldError) Error() string {
	return fmt.Sprintf("a person has taken control of the browser (for up to %s more): nothing was done; wait for them to give it back, then look at the page afresh", e.Left.Round(time.Second))
}

// State is who has control, as it was when it was asked for.
type State struct {
	Viewer string // "" when the agent has control
	Until  time.Time
	Left   time.Duration
	Look   bool // the agent has to look before its next input

	// Turn rises whenever control goes from one to another: who finds the same
	// value twice knows that nobody had it between.
	Turn uint64
}

// Held reports whether a person has control.
func (s State) Held() bool { return s.Viewer != "" }

// The causes of a Change.
const (
	Taken     = "taken"
	Extended  = "extended"
	GivenBack = "given_back"
	Expired   = "expired" // its time was over
	Left      = "left"    // its viewer went away
	Ended     = "ended"   // the browser ended: stopped, released or lost
)

// Change is one change of who has control.
type Change struct {
	Seq    uint64
	At     time.Time
	Viewer string // who takes, has or had control
	Until  time.Time
	Cause  string
}

// keptChanges is how many changes can be asked for afterwards.
const keptChanges = 256

// Lease is the control of one browser. Its methods may be called from several
// goroutines at once; none of them waits for a browser or a person.
type Lease struct {
	sent sent

	mu       sync.Mutex
	viewer   string
	until    time.Time
	turn     uint64 // raised by every take and return: what a look began under
	look     bool
	expiry   *time.Timer
	closed   bool
	changes  []Change // the newest
	begun    begun
	watchers map[chan struct{}]struct{}
}

// New returns a Lease that the agent has.
func New() *Lease { return &Lease{watchers: map[chan struct{}]struct{}{}} }

// Take gives control to a viewer for d ([DefaultHold] when 0, at most [MaxHold]).
// When it returns, every input of the agent that was let through has been sent,
// and none will be until the viewer gives control back or the time is over. A
// viewer that has control already gets the new time; another one's is a
// HeldError.
func (l *Lease) Take(viewer string, d time.Duration) (State, error) {
	if viewer == "" {
		return State{}, errors.New("take control: no viewer named")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if l.closed {
		return l.state(), ErrClosed
	}
	if l.viewer != "" && l.viewer != viewer {
		return l.state(), &HeldError{Viewer: l.viewer, Left: time.Until(l.until)}
	}
	cause := Extended
	if l.viewer == "" {
		l.turn++
		cause = Taken
		l.settle()
	}
	l.viewer, l.look = viewer, true
	l.hold(d, cause)
	return l.state(), nil
}

// Extend gives the holder another d from now.
func (l *Lease) Extend(viewer string, d time.Duration) (State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if viewer == "" || l.viewer != viewer {
		return l.state(), ErrNotHolder
	}
	l.hold(d, Extended)
	return l.state(), nil
}

// GiveBack returns control to the agent. Of a viewer that does not have it, it
// is no error: its time may just have ended.
func (l *Lease) GiveBack(viewer string) State { return l.letGo(viewer, GivenBack) }

// Leave is GiveBack for a viewer that is not there to say so.
func (l *Lease) Leave(viewer string) State { return l.letGo(viewer, Left) }

// Close ends control with the browser, for good: it is nobody's to take then.
func (l *Lease) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	l.closed = true
	l.release()
	if l.viewer != "" {
		l.end(Ended)
	}
}

func (l *Lease) letGo(viewer, cause string) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if viewer != "" && l.viewer == viewer {
		l.end(cause)
	}
	return l.state()
}

// Changes returns the changes after the one numbered after, oldest first; the
// last 256 are kept.
func (l *Lease) Changes(after uint64) []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	i := len(l.changes)
	for i > 0 && l.changes[i-1].Seq > after {
		i--
	}
	return slices.Clone(l.changes[i:])
}

// Had reports whether a person had control at a moment that is over or is now. It
// goes by the changes that are kept.
func (l *Lease) Had(at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	held := false
	for _, c := range l.changes {
		if c.At.After(at) {
			break
		}
		held = c.Cause == Taken || c.Cause == Extended
	}
	return held
}

// changed notes a change, at the end of what makes it.
func (l *Lease) changed(viewer, cause string) {
	c := Change{Seq: 1, At: time.Now(), Viewer: viewer, Until: l.until, Cause: cause}
	if n := len(l.changes); n > 0 {
		c.Seq = l.changes[n-1].Seq + 1
	}
	if len(l.changes) == keptChanges {
		l.changes = append(l.changes[:0], l.changes[1:]...)
	}
	l.changes = append(l.changes, c)
	l.ring()
}

// State tells who has control now.
func (l *Lease) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	return l.state()
}

// Agent runs send, which puts one input of the agent on its way, unless a person
// has control or the agent has yet to look. The lease stands still meanwhile, so
// send must only enqueue. Inputs that belong together, like a press and its
// release, belong in one send.
func (l *Lease) Agent(send func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refused(); err != nil {
		return err
	}
	if l.look {
		return ErrLook
	}
	l.release() // what persons did comes before
	send()
	return nil
}

// Person runs send for the viewer that has control, like Agent; for a moment after
// a take it may be run a little later, see [Lease.Begin].
func (l *Lease) Person(viewer string, send func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if viewer == "" || l.viewer != viewer {
		if l.viewer != "" {
			return &HeldError{Viewer: l.viewer, Left: time.Until(l.until)}
		}
		return ErrNotHolder
	}
	l.pass(send)
	return nil
}

// May tells whether the agent may begin something that ends with inputs.
func (l *Lease) May() error { return l.Agent(func() {}) }

// Look is a look at the page that has begun.
type Look struct {
	l    *Lease
	turn uint64
}

// Look begins a look of the agent; it is refused while a person has control.
func (l *Lease) Look() (Look, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refused(); err != nil {
		return Look{}, err
	}
	return Look{l, l.turn}, nil
}

// Do runs send, which is a part of the look, unless a person took control while it
// lasted. Like that of [Lease.Agent], it must only enqueue.
func (k Look) Do(send func()) error {
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	if err := k.l.refused(); err != nil {
		return err
	}
	if k.turn != k.l.turn {
		return ErrLook
	}
	send()
	return nil
}

// Done ends a look. Its error means that a person took control while it lasted:
// what was seen must be thrown away. Otherwise the agent may act again.
func (k Look) Done() error {
	return k.Do(func() {
		k.l.look = false
		k.l.ring()
	})
}

// Watch returns a channel that gets a value, at least one, after each change,
// and a func that ends the watch.
func (l *Lease) Watch() (<-chan struct{}, func()) {
	bell := make(chan struct{}, 1) // a wake, not a message
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers[bell] = struct{}{}
	return bell, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, bell)
	}
}

func (l *Lease) refused() error {
	l.expire()
	if l.viewer != "" {
		return &HeldError{Viewer: l.viewer, Left: time.Until(l.until)}
	}
	return nil
}

func (l *Lease) hold(d time.Duration, cause string) {
	if d <= 0 {
		d = DefaultHold
	}
	d = min(d, MaxHold)
	l.until = time.Now().Add(d)
	if l.expiry != nil {
		l.expiry.Stop()
	}
	// Whoever asks sees the end by the clock; the timer is for those who watch.
	l.expiry = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.expire()
	})
	l.changed(l.viewer, cause)
}

func (l *Lease) expire() {
	if l.viewer != "" && !time.Now().Before(l.until) {
		l.end(Expired)
	}
}

func (l *Lease) end(cause string) {
	viewer := l.viewer
	l.viewer, l.until = "", time.Time{}
	l.turn++
	if l.expiry != nil {
		l.expiry.Stop()
		l.expiry = nil
	}
	l.changed(viewer, cause)
}

func (l *Lease) state() State {
	s := State{Viewer: l.viewer, Until: l.until, Look: l.look, Turn: l.turn}
	if l.viewer != "" {
		s.Left = time.Until(l.until)
	}
	return s
}

func (l *Lease) ring() {
	for bell := range l.watchers {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}
