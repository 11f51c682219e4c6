// Package relay shows one browser to any number of viewers and carries the inputs
// of the one who has control.
//
//	r := relay.New(relay.Options{Browser: b, Lease: lease})
//	defer r.End("the session was closed")
//	v := r.Join(relay.View{ID: "window-7", Width: 900, Height: 500})
//	defer v.Leave()
//	for {
//		m, err := v.Next(ctx) // a State or a Frame
//
// There is one screencast of the active tab, whoever looks. A viewer gets the
// newest frame, never a backlog; what it must not miss, the State, comes first
// and whole, with every notice since its last. Frames come only when the page
// paints, so a still page costs nothing, and with no viewer there is no
// screencast. Every frame is acknowledged to the browser: once the viewers who
// keep up have taken it, so that the browser paints no faster than they look,
// and in any case after a moment, so that one who does not read slows nobody.
//
// It knows no transport: whoever serves a viewer calls Next and sends what it
// gives. Viewers never get the browser's debugging connection.
package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// The times of a relay.
const (
	keepUp     = 66 * time.Millisecond  // within which a viewer that keeps up takes a frame
	slowest    = time.Second            // between frames when no viewer keeps up
	firstFrame = 150 * time.Millisecond // for the screencast to begin, before a screenshot is taken instead
	again      = time.Second            // until a screenshot that failed is tried again
	stateTime  = 40 * time.Millisecond  // between two states, which a page could change without end
	resizeTime = 300 * time.Millisecond // between two sizes of the screencast, while a panel is dragged
	sweepTime  = 5 * time.Second
	deadTime   = 45 * time.Second // without a Next, after which a viewer is gone
	orphanTime = 15 * time.Second // after which the control of a viewer that is gone goes back
	retryTime  = 2 * time.Second  // between two tries to reach the browser

	// A picture that comes sooner than this behind an acknowledgement may have been
	// painted before the browser had that, and one that comes later is alone.
	underWay = 250 * time.Millisecond
	restTime = 300 * time.Millisecond // without a picture, after which a page is at rest
	asked    = time.Second            // within which it paints what it was asked for, maybe twice
)

// The size of the screencast where no viewer says one, and at most.
const (
	defaultWidth, defaultHeight = 1280, 800
	maxWidth, maxHeight         = 1920, 1200
	defaultQuality              = 60
)

// ErrLeft says that the viewer has left, or was dropped because it did not read.
var ErrLeft = errors.New("this viewer has left, or was dropped because it did not read; join again")

// ErrEnded says that the relay has ended; the last State says why.
var ErrEnded = errors.New("the view of the browser has ended")

// Options are what a Relay is made of; Browser and Lease are needed.
type Options struct {
	Browser *tabs.Browser
	Lease   *control.Lease
	Log     *slog.Logger
}

// Relay is the view of one browser. Its methods may be called from several
// goroutines.
type Relay struct {
	o    Options
	log  *slog.Logger
	life context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	wake chan struct{} // one: the viewers have changed

	mu      sync.Mutex
	viewers map[*Viewer]struct{}
	cast    *cast
	frame   *Frame // the newest of the cast that runs
	seq     uint64
	metas   []seen      // of the newest frames, for inputs that were made on them
	acks    []ack       // frames that are not acknowledged yet, oldest first
	timing  bool        // somebody comes back to them
	acked   time.Time   // when the browser was last told that a frame was taken
	unsure  bool        // whether the newest frame is what the page came to rest with
	rest    *time.Timer // asks for it; it runs while the page may be at rest
	rested  time.Time   // when that was asked for last
	state   State
	lost    string // why there is no browser, as it was last tried
	ended   string
	stats   Stats
	fresh   bool      // a picture of now was asked for
	left    time.Time // since when the viewer that has control is not here
	pressed *press    // a mouse button that somebody holds down
	drag    *drag
}

// seen is the metadata of a frame that was shown.
type seen struct {
	seq  uint64
	cast *cast
	meta Metadata
}

// ack is a frame that the browser waits for.
type ack struct {
	cast *cast
	id   int64
	seq  uint64
	at   time.Time
}

// Stats count what a relay did, for measuring.
type Stats struct {
	Viewers int    `json:"viewers"`
	Frames  uint64 `json:"frames"` // that came from the browser
	Bytes   uint64 `json:"bytes"`
	Acks    uint64 `json:"acks"`
	Shots   uint64 `json:"shots"` // screenshots that stood in for a frame
	Casts   uint64 `json:"casts"` // screencasts that were started
	Rests   uint64 `json:"rests"` // times that a page was made to paint what it had come to rest with
}

// New returns a Relay. Nothing is asked of the browser before somebody looks.
func New(o Options) *Relay {
	r := &Relay{o: o, log: o.Log, wake: make(chan struct{}, 1), viewers: map[*Viewer]struct{}{}, state: State{Tabs: []tabs.Info{}}}
	if r.log == nil {
		r.log = slog.Default()
	}
	r.life, r.stop = context.WithCancel(context.Background())
	r.rest = time.AfterFunc(restTime, r.atRest)
	r.rest.Stop()
	r.work.Go(r.run)
	return r
}

// End ends the view for everybody, who are told why, and waits until nothing of
// it is left.
func (r *Relay) End(reason string) {
	r.mu.Lock()
	if r.ended == "" {
		if reason == "" {
			reason = "The view has ended."
		}
		r.ended = reason
		r.state.Ended = reason
		r.state.Rev++
		r.flush()
	}
	for v := range r.viewers {
		v.ring()
	}
	r.mu.Unlock()
	r.stop()
	r.work.Wait()
}

// Stats returns the counts so far.
func (r *Relay) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	for v := range r.viewers {
		if !v.view.Quiet {
			s.Viewers++
		}
	}
	return s
}

// run keeps the screencast and the state as the viewers and the browser are.
func (r *Relay) run() {
	lease, unwatch := r.o.Lease.Watch()
	defer unwatch()
	sweep := time.NewTicker(sweepTime)
	defer sweep.Stop()
	var retry, later <-chan time.Time
	var told time.Time
	for {
		if r.idle() {
			r.stopCast()
			select {
			case <-r.wake:
			case <-lease:
				r.reveal()
				r.letGo()
			case <-sweep.C:
				r.sweep()
			case <-r.life.Done():
				return
			}
			continue
		}
		bell := r.o.Browser.Watch()
		retry = r.follow(retry)
		if wait := stateTime - time.Since(told); wait > 0 {
			if later == nil {
				later = time.After(wait)
			}
		} else {
			r.tell()
			told, later = time.Now(), nil
		}
		select {
		case <-r.wake:
		case <-bell:
		case <-lease:
			r.reveal()
			r.letGo()
		case <-later:
			later = nil
		case <-retry:
			retry = nil
		case <-sweep.C:
			r.sweep()
		case <-r.life.Done():
			r.stopCast()
			return
		}
	}
}

// reveal shows a person who has control what is covered of secrets. It is covered
// again by the agent's next look.
func (r *Relay) reveal() {
	if holder := r.o.Lease.State().Viewer; holder != "" {
		r.o.Lease.Person(holder, r.o.Browser.Reveal)
	}
}

func (r *Relay) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.viewers) == 0
}

// quiet reports whether all who look on do so quietly.
func (r *Relay) quiet() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.allQuiet()
}

// allQuiet is quiet with the lock held.
func (r *Relay) allQuiet() bool {
	for v := range r.viewers {
		if !v.view.Quiet {
			return false
		}
	}
	return true
}

// follow sees to it that the active tab is the one that is cast, at the size that
// the viewers have. It returns when to come again, nil for at the next change.
func (r *Relay) follow(retry <-chan time.Time) <-chan time.Time {
	tab := r.o.Browser.Current()
	if tab == nil {
		if retry != nil || r.quiet() {
			return retry
		}
		r.tell() // that it is being started, which takes a while
		ctx, cancel := context.WithTimeout(r.life, 20*time.Second)
		defer cancel()
		var err error
		if tab, err = r.o.Browser.Active(ctx); err != nil {
			r.mu.Lock()
			r.lost = err.Error()
			r.mu.Unlock()
			return time.After(retryTime)
		}
	}
	info := tab.Info()
	size := r.size()
	r.mu.Lock()
	c, fresh := r.cast, r.fresh
	r.fresh = false
	r.mu.Unlock()
	switch {
	case c == nil || c.tab != tab || (c.crashed && !info.Crashed):
		r.startCast(tab, size)
	case c.size != size:
		if wait := resizeTime - time.Since(c.began); wait > 0 {
			return time.After(wait)
		}
		r.startCast(tab, size)
	case c.documents != info.Documents:
		// A page of another process goes on casting, once it paints.
		c.documents = info.Documents
		r.expect(c)
	case info.Crashed:
		c.crashed = true
	case fresh:
		r.expect(c)
	}
	return nil
}

// sweep drops viewers that do not read, and gives control back that nobody is
// left to give back.
func (r *Relay) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	here := false
	holder := r.o.Lease.State().Viewer
	for v := range r.viewers {
		if !v.waiting && time.Since(v.seen) > deadTime {
			r.log.Warn("viewer dropped", "viewer", v.view.ID, "silent", time.Since(v.seen))
			r.remove(v)
			continue
		}
		here = here || v.view.ID == holder
	}
	switch {
	case holder == "" || here:
		r.left = time.Time{}
	case r.left.IsZero():
		r.left = time.Now()
	case time.Since(r.left) > orphanTime:
		r.o.Lease.Leave(holder)
		r.left = time.Time{}
	}
}

// remove takes a viewer away. The lock is held.
func (r *Relay) remove(v *Viewer) {
	if _, ok := r.viewers[v]; !ok {
		return
	}
	delete(r.viewers, v)
	close(v.done)
	v.ring()
	r.settle()
	r.rouse()
}

func (r *Relay) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
