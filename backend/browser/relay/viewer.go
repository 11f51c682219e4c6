package relay

import (
	"context"
	"reflect"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// View is how a viewer looks on. Width and Height are those of its picture in CSS
// pixels of its screen, DPR is the screen's pixels per CSS pixel.
type View struct {
	ID            string // under which it takes control
	Width, Height float64
	DPR           float64
	Quality       int // of JPEG, 60 when 0

	// Quiet is a view that nobody may notice: it takes what others get, at the size
	// that they chose, holds nobody up, starts no browser and counts for no viewer.
	Quiet bool
}

// State is the browser and who has control, as a viewer is to show it. It is
// always whole; Notices are those since the viewer's last State.
type State struct {
	Rev     uint64        `json:"rev"`
	Lost    string        `json:"lost,omitzero"`  // why there is no browser; it is tried again
	Ended   string        `json:"ended,omitzero"` // why nothing more will come
	Active  int           `json:"active"`         // number of the tab that is shown
	Tabs    []tabs.Info   `json:"tabs"`
	Dialog  *tabs.Dialog  `json:"dialog,omitzero"`
	Control Control       `json:"control"`
	Notices []tabs.Notice `json:"notices,omitzero"`
}

// Control is who has the browser.
type Control struct {
	Viewer string    `json:"viewer,omitzero"` // "" for the agent
	Until  time.Time `json:"until,omitzero"`
	Look   bool      `json:"look"` // the agent has to look before it acts
}

// Message is what a viewer gets: one of the two.
type Message struct {
	State *State
	Frame *Frame
}

// Viewer is one open view. Next and NextState are for one goroutine at a time; the
// other methods may be called beside them.
type Viewer struct {
	r    *Relay
	wake chan struct{} // one: there may be something to take
	done chan struct{}

	// Guarded by the Relay's lock.
	view    View
	taken   uint64 // seq of the newest frame that it has
	rev     uint64 // of the State that it has
	noticed uint64 // seq of the newest notice that it has
	prompt  bool   // it keeps up: the browser waits for it
	streak  int    // frames in a row that it took in time, while it is not
	waiting bool   // it is in Next
	seen    time.Time
	ended   bool // it has the last State
}

// Join adds a viewer.
func (r *Relay) Join(view View) *Viewer {
	r.tell() // nobody may have looked on for long
	v := &Viewer{
		r: r, view: view, wake: make(chan struct{}, 1), done: make(chan struct{}),
		prompt: !view.Quiet, seen: time.Now(), noticed: r.o.Browser.Seq(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.viewers[v] = struct{}{}
	if r.state.Rev == 0 {
		r.state.Rev = 1
	}
	r.rouse()
	return v
}

// ID is the name under which the viewer takes control.
func (v *Viewer) ID() string { return v.view.ID } // which never changes

// Leave ends the view.
func (v *Viewer) Leave() {
	v.r.mu.Lock()
	defer v.r.mu.Unlock()
	v.r.remove(v)
}

// Done is closed when the viewer has left or was dropped. Whoever is in the
// middle of sending to it may end that then.
func (v *Viewer) Done() <-chan struct{} { return v.done }

// Resize tells how the viewer looks on now.
func (v *Viewer) Resize(width, height, dpr float64) {
	v.r.mu.Lock()
	defer v.r.mu.Unlock()
	v.view.Width, v.view.Height, v.view.DPR = width, height, dpr
	v.r.rouse()
}

// Fresh asks for a picture of now. Where the page does not paint one in a moment,
// a screenshot stands in for it.
func (v *Viewer) Fresh() {
	v.r.mu.Lock()
	defer v.r.mu.Unlock()
	v.r.fresh = true
	v.r.rouse()
}

// Next waits for something that the viewer does not have: the State when it has
// changed or something happened, else the newest frame. Calling it is how a
// viewer says that it has what it got before, and that it lives: one that has not
// called it for about a minute is dropped.
func (v *Viewer) Next(ctx context.Context) (Message, error) {
	r := v.r
	r.mu.Lock()
	v.seen, v.waiting = time.Now(), true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		v.seen, v.waiting = time.Now(), false
		r.mu.Unlock()
	}()
	return v.wait(ctx, true)
}

// NextState is Next without the frames: for a viewer that has not shown yet what it
// was sent, and must hear all the same who has control or that the view has ended.
// It is no sign that the viewer lives.
func (v *Viewer) NextState(ctx context.Context) (State, error) {
	m, err := v.wait(ctx, false)
	if err != nil {
		return State{}, err
	}
	return *m.State, nil
}

func (v *Viewer) wait(ctx context.Context, frames bool) (Message, error) {
	for {
		m, err := v.pick(frames)
		if err != nil || m != (Message{}) {
			return m, err
		}
		select {
		case <-v.wake:
		case <-ctx.Done():
			return Message{}, context.Cause(ctx)
		}
	}
}

func (v *Viewer) pick(frames bool) (Message, error) {
	r := v.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.viewers[v]; !ok {
		return Message{}, ErrLeft
	}
	if v.ended {
		return Message{}, ErrEnded
	}
	if v.rev != r.state.Rev {
		s := r.state
		s.Notices = r.o.Browser.Notices(v.noticed)
		if n := len(s.Notices); n > 0 {
			v.noticed = s.Notices[n-1].Seq
		}
		v.rev, v.ended = s.Rev, s.Ended != ""
		return Message{State: &s}, nil
	}
	if f := r.frame; frames && f != nil && f.Seq > v.taken {
		if !v.prompt && !v.view.Quiet {
			// Two frames in a row, each in time, and it counts again.
			if f.Seq == v.taken+1 && time.Since(f.At) < keepUp {
				v.streak++
			} else {
				v.streak = 0
			}
			v.prompt = v.streak >= 2
		}
		v.taken = f.Seq
		r.settle()
		return Message{Frame: f}, nil
	}
	return Message{}, nil
}

// ring wakes a viewer that waits.
func (v *Viewer) ring() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// tell makes a State of what is now, and wakes everybody when it is a new one.
func (r *Relay) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != "" {
		return
	}
	b := r.o.Browser.State()
	l := r.o.Lease.State()
	seq := r.o.Browser.Seq()
	s := State{Rev: r.state.Rev, Tabs: b.Tabs, Dialog: b.Dialog, Control: Control{Viewer: l.Viewer, Until: l.Until, Look: l.Look}}
	for _, t := range b.Tabs {
		if t.Active {
			s.Active = t.Number
		}
	}
	if b.Connected {
		r.lost = ""
	} else {
		s.Lost = r.lost
		switch {
		case s.Lost != "":
		case b.Lost != "": // in the words of the connection
			s.Lost = "The browser ended unexpectedly; it is being started again."
		default:
			s.Lost = "The browser is being started."
		}
	}
	missing := false
	for v := range r.viewers {
		missing = missing || v.noticed < seq && v.rev == r.state.Rev
	}
	if reflect.DeepEqual(s, r.state) && !missing {
		return
	}
	s.Rev++
	r.state = s
	for v := range r.viewers {
		v.ring()
	}
}
