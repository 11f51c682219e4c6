package recording

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
)

// The times of a recorder.
const (
	tail   = 10 * time.Second       // for which it goes on after a call
	stale  = 2 * time.Minute        // after which a call that has not ended counts as over
	slow   = time.Second            // between two pictures
	quick  = 500 * time.Millisecond // between two where much changes
	settle = 250 * time.Millisecond // after a hold, in which pictures of it may still come
)

// Viewer is under which name a recorder looks on. It never takes control.
const Viewer = "recording"

// Source is a browser that can be recorded.
type Source struct {
	Relay *relay.Relay
	Lease *control.Lease
}

// recorder looks on at a browser while that is wanted, and keeps what it sees.
type recorder struct {
	to     *recording
	from   Source
	wanted func() bool
	woke   time.Time // when the call began that it records
	log    *slog.Logger

	state  relay.State
	last   *relay.Frame  // the newest that was kept
	kept   Entry         // what was said of it
	turn   uint64        // of the lease, under which pictures are kept
	masked bool          // a person has control, or the agent has yet to look
	over   time.Time     // since when that is over
	since  time.Time     // from when on pictures that come may be kept
	behind time.Duration // how far the browser's clock is, and a picture's way here at least: of all that came
}

// run records until that is not wanted any more, the view ends, or life does. It
// reports whether the view could go on.
func (r *recorder) run(life context.Context) bool {
	v := r.from.Relay.Join(relay.View{ID: Viewer, Width: pictureWidth, Height: pictureHeight, Quality: pictureQuality, Quiet: true})
	defer v.Leave()
	// What is on the screen may be from before, so it begins as after a hold.
	s := r.from.Lease.State()
	r.turn, r.masked, r.behind = s.Turn, true, math.MaxInt64
	if !s.Held() && !s.Look {
		at := r.woke.Add(-time.Millisecond) // before what the call did, where times are told in milliseconds
		if last := r.to.newest(); last.After(at) {
			at = last
		}
		r.gap(at, GapBegun, "The agent used the browser again, and there is no picture of it yet.")
	}
	for r.wanted() {
		ctx, cancel := context.WithTimeout(life, tail)
		m, err := v.Next(ctx)
		cancel()
		switch {
		case life.Err() != nil:
			r.gap(time.Now(), GapEnded, "The recording ended with the server.")
			return false
		case errors.Is(err, relay.ErrEnded):
			r.gap(time.Now(), GapEnded, "The browser was let go of.")
			return false
		case errors.Is(err, relay.ErrLeft):
			r.gap(time.Now(), GapIdle, "The recording was too slow.")
			return true
		case m.State != nil:
			r.state = *m.State
		case m.Frame != nil && !m.Frame.Shot:
			r.behind = min(r.behind, m.Frame.At.Sub(m.Frame.Shown))
		}
		switch r.sight() {
		case shut:
			pause(life, quick)
		case opened:
			pause(life, settle)
			r.since = time.Now()
			v.Fresh()
		case plain:
			if m.Frame != nil {
				pause(life, r.take(v, m.Frame))
			}
		}
	}
	r.gap(time.Now(), GapIdle, "The agent did not use the browser.")
	return true
}

// pause waits for d, or for the end of life.
func pause(life context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-life.Done():
	}
}

// sight is whether pictures may be kept.
type sight int

const (
	shut   sight = iota // a person has control, or the agent has yet to look after it
	opened              // that has ended since the last call: what is under way may still be of it
	plain
)

// sight is asked after a picture has come and before it is kept.
func (r *recorder) sight() sight {
	s := r.from.Lease.State()
	private := s.Held() || s.Look
	if !private && !r.masked && s.Turn == r.turn {
		return plain
	}
	if private || s.Turn != r.turn {
		r.gap(r.taken(), GapHeld, "A person had control: nothing is recorded then.")
	}
	r.turn, r.masked, r.last, r.over = s.Turn, private, nil, time.Now()
	if private {
		return shut
	}
	return opened
}

// taken is when a person took control last: what the agent did since, and was
// refused, is in their time.
func (r *recorder) taken() time.Time {
	for _, c := range slices.Backward(r.from.Lease.Changes(0)) {
		if c.Cause == control.Taken {
			return c.At
		}
	}
	return time.Now()
}

// take keeps a picture, unless it could be one of what a person did, and returns
// how long the next one may wait.
func (r *recorder) take(v *relay.Viewer, f *relay.Frame) time.Duration {
	painted := f.Shown
	if !f.Shot { // by the browser's clock
		painted = painted.Add(r.behind)
	}
	if !f.At.After(r.since) || !painted.After(r.over) {
		v.Fresh() // a page that is still paints no other
		return quick
	}
	e := Entry{
		At: f.At, Tab: f.Tab, Width: f.Meta.DeviceWidth, Height: f.Meta.DeviceHeight, OffsetTop: f.Meta.OffsetTop,
		ScrollX: f.Meta.ScrollX, ScrollY: f.Meta.ScrollY,
	}
	for _, t := range r.state.Tabs {
		if t.Number == f.Tab {
			e.URL, e.Title = t.URL, t.Title
		}
	}
	was := r.kept
	was.At = e.At
	if r.last != nil && r.last.Tab == f.Tab && (f.Shot && alike(r.last.Image, f.Image) || was == e && bytes.Equal(r.last.Image, f.Image)) {
		return slow // it makes sure that the last one was
	}
	picture := fit(f.Image)
	if r.from.Lease.State().Turn != r.turn { // a person took control meanwhile
		return 0
	}
	if _, err := r.to.frame(e, picture); err != nil {
		r.log.Warn("picture not recorded", "err", err)
		return tail
	}
	r.kept = e
	pause := slow
	if r.last == nil || much(r.last, f) {
		pause = quick
	}
	r.last = f
	return pause
}

// much tells from the outside of two pictures whether they show quite different
// things.
func much(a, b *relay.Frame) bool {
	if a.Tab != b.Tab || a.Meta != b.Meta {
		return true
	}
	n, d := len(a.Image), len(a.Image)-len(b.Image)
	return max(d, -d) > n/8
}

func (r *recorder) gap(at time.Time, reason, label string) {
	if err := r.to.gap(at, reason, label); err != nil {
		r.log.Warn("gap not recorded", "err", err)
	}
}
