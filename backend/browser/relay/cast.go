package relay

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// Metadata is what the browser says of a frame; inputs are mapped by it.
type Metadata struct {
	OffsetTop       float64 `json:"offset_top"`        // of the page in the frame, in device independent pixels
	PageScaleFactor float64 `json:"page_scale_factor"` // of a pinch
	DeviceWidth     float64 `json:"device_width"`      // of what the frame shows, in device independent pixels
	DeviceHeight    float64 `json:"device_height"`
	ScrollX         float64 `json:"scroll_x"` // in CSS pixels
	ScrollY         float64 `json:"scroll_y"`
}

// Frame is one picture of the active tab, a JPEG. It is shared by all viewers and
// must not be changed.
type Frame struct {
	Seq   uint64    `json:"seq"` // an input names the frame that it was made on by it
	Tab   int       `json:"tab"`
	Shown time.Time `json:"shown"` // when the browser painted it, by the browser's clock
	At    time.Time `json:"at"`    // when it came here
	Meta  Metadata  `json:"meta"`
	Image []byte    `json:"-"`

	// Shot says that it is a screenshot that stands in for a frame: Shown is when it
	// was asked for, by the clock that At is by.
	Shot bool `json:"-"`

	cast *cast
}

// AppendBinary writes a frame as one binary message: the length of the head in
// four bytes, big-endian, the head as JSON, and the JPEG.
func (f *Frame) AppendBinary(b []byte) ([]byte, error) {
	head, err := json.Marshal(f)
	if err != nil {
		return b, err
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	b = append(b, head...)
	return append(b, f.Image...), nil
}

// size is how large and how good a screencast is.
type size struct{ width, height, quality int }

// cast is one screencast of a tab. Its frames come by events and end with it.
type cast struct {
	tab       *tabs.Tab
	size      size
	began     time.Time
	life      context.Context
	end       context.CancelFunc
	unfollow  func()
	frames    chan devtools.Event // 32: the browser stops at a few that are not acknowledged
	documents int
	crashed   bool

	// Guarded by the Relay's lock.
	expecting bool   // a screenshot is on its way should no frame come
	before    uint64 // seq of the frame that it is to be newer than
}

// size is that of the largest viewer; quiet ones count where there is no other.
func (r *Relay) size() size {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s size
	quiet := r.allQuiet()
	for v := range r.viewers {
		if v.view.Quiet && !quiet {
			continue
		}
		dpr := v.view.DPR
		if dpr <= 0 {
			dpr = 1
		}
		s.width = max(s.width, int(math.Ceil(v.view.Width*dpr)))
		s.height = max(s.height, int(math.Ceil(v.view.Height*dpr)))
		s.quality = max(s.quality, v.view.Quality)
	}
	if s.width <= 0 || s.height <= 0 {
		s.width, s.height = defaultWidth, defaultHeight
	}
	if s.quality <= 0 {
		s.quality = defaultQuality
	}
	s.width, s.height, s.quality = min(s.width, maxWidth), min(s.height, maxHeight), min(s.quality, 100)
	return s
}

func (r *Relay) startCast(tab *tabs.Tab, s size) {
	r.stopCast()
	c := &cast{tab: tab, size: s, began: time.Now(), frames: make(chan devtools.Event, 32), documents: tab.Info().Documents, crashed: tab.Info().Crashed}
	c.life, c.end = context.WithCancel(r.life)
	r.mu.Lock()
	// A picture of another size shows the same page: it stays until there is a new
	// one.
	if r.cast == nil && r.frame != nil && r.frame.Tab != tab.Number() {
		r.frame = nil
	}
	r.cast, r.unsure = c, false
	r.stats.Casts++
	r.mu.Unlock()

	c.unfollow = tab.Follow(func(e devtools.Event) {
		switch e.Method {
		case page.ScreencastFrame.Method, page.ScreencastVisibilityChanged.Method, input.DragIntercepted.Method:
			select {
			case c.frames <- e:
			default: // the browser sends without waiting for us; it gets no answer
			}
		}
	})
	r.work.Go(func() { r.receive(c) })
	session := tab.Session()
	devtools.Post(session, page.BringToFront, cdp.Empty{})
	devtools.Post(session, input.SetInterceptDrags, input.SetInterceptDragsParams{Enabled: true})
	c.start()
	r.expect(c)
}

// start asks the browser for frames, of which the first is of what it shows.
func (c *cast) start() {
	quality := int64(c.size.quality)
	devtools.Post(c.tab.Session(), page.StartScreencast, page.StartScreencastParams{
		Format: page.StartScreencastFormatJpeg, Quality: &quality, MaxWidth: int64(c.size.width), MaxHeight: int64(c.size.height),
	})
}

func (r *Relay) stopCast() {
	r.mu.Lock()
	c := r.cast
	r.cast = nil
	r.drag = nil
	if c != nil && len(r.viewers) == 0 {
		r.frame = nil // nobody sees to it that it stays true
	}
	r.flush()
	r.mu.Unlock()
	if c == nil {
		return
	}
	c.unfollow()
	c.end()
	devtools.Post(c.tab.Session(), page.StopScreencast, cdp.Empty{})
	devtools.Post(c.tab.Session(), input.SetInterceptDrags, input.SetInterceptDragsParams{Enabled: false})
}

// receive takes the frames of one screencast.
func (r *Relay) receive(c *cast) {
	for {
		select {
		case <-c.life.Done():
			// What came before the end is acknowledged all the same.
			for {
				select {
				case e := <-c.frames:
					r.take(c, e)
				default:
					return
				}
			}
		case e := <-c.frames:
			r.take(c, e)
		}
	}
}

func (r *Relay) take(c *cast, e devtools.Event) {
	if ev, ok := devtools.Decode(e, input.DragIntercepted); ok && ev.Data != nil {
		r.mu.Lock()
		held := r.cast == c && r.pressed != nil
		if held {
			r.drag = &drag{data: ev.Data}
		}
		r.mu.Unlock()
		if !held { // the button was let go before the page began
			devtools.Post(c.tab.Session(), input.DispatchDragEvent, input.DispatchDragEventParams{Type: input.DispatchDragEventTypeDragCancel, Data: ev.Data})
		}
		return
	}
	if ev, ok := devtools.Decode(e, page.ScreencastVisibilityChanged); ok {
		if !ev.Visible {
			// What is hidden paints nothing; it is shown here, so it is not hidden.
			devtools.Post(c.tab.Session(), page.BringToFront, cdp.Empty{})
		}
		return
	}
	ev, ok := devtools.Decode(e, page.ScreencastFrame)
	if !ok || ev.Metadata == nil {
		return
	}
	f := &Frame{
		Tab: c.tab.Number(), At: time.Now(), Shown: clock(float64(ev.Metadata.Timestamp)), Image: ev.Data, cast: c,
		Meta: Metadata{
			OffsetTop: ev.Metadata.OffsetTop, PageScaleFactor: ev.Metadata.PageScaleFactor,
			DeviceWidth: ev.Metadata.DeviceWidth, DeviceHeight: ev.Metadata.DeviceHeight,
			ScrollX: ev.Metadata.ScrollOffsetX, ScrollY: ev.Metadata.ScrollOffsetY,
		},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Frames++
	r.stats.Bytes += uint64(len(f.Image))
	if r.cast != c {
		r.answer(ack{cast: c, id: ev.SessionID})
		return
	}
	alone := len(r.acks) == 0 && f.At.Sub(r.acked) > underWay
	known := r.frame != nil && r.frame.cast == c && bytes.Equal(r.frame.Image, f.Image)
	r.unsure = r.unsure || !alone && !(known && f.At.Sub(r.rested) < asked)
	r.rest.Stop()
	r.publish(f)
	r.acks = append(r.acks, ack{cast: c, id: ev.SessionID, seq: f.Seq, at: f.At})
	r.settle()
	r.wait(keepUp)
}

// wait comes back to the frames that are not acknowledged. The lock is held. The
// timer is harmless when they are by then, or when the relay has ended.
func (r *Relay) wait(d time.Duration) {
	if len(r.acks) == 0 || r.timing {
		return
	}
	r.timing = true
	time.AfterFunc(d, r.late)
}

// clock reads seconds since the epoch.
func clock(seconds float64) time.Time {
	return time.Unix(0, int64(seconds*1e9))
}

// publish makes a frame the newest. The lock is held.
func (r *Relay) publish(f *Frame) {
	r.seq++
	f.Seq = r.seq
	r.frame = f
	r.metas = append(r.metas, seen{f.Seq, f.cast, f.Meta})
	if len(r.metas) > 128 {
		r.metas = append(r.metas[:0], r.metas[64:]...)
	}
	for v := range r.viewers {
		v.ring()
	}
}

// late ends the wait for viewers that do not keep up.
func (r *Relay) late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timing = false
	for _, a := range r.acks {
		if time.Since(a.at) < keepUp {
			break
		}
		for v := range r.viewers {
			if v.taken < a.seq {
				v.prompt, v.streak = false, 0
			}
		}
	}
	r.settle()
	r.wait(keepUp)
}

// settle acknowledges the frames that were waited for long enough. The lock is
// held.
func (r *Relay) settle() {
	for len(r.acks) > 0 && r.due(r.acks[0]) {
		r.answer(r.acks[0])
		r.acks = r.acks[1:]
	}
	if len(r.acks) > 0 {
		return
	}
	r.acks = nil
	if r.unsure {
		r.rest.Reset(restTime)
	}
}

// atRest makes sure of the picture that a page came to rest with.
//
// While a few frames are not acknowledged the browser drops what it paints, also the
// last before a page is still. So where several may have been on their way, the
// screencast is begun afresh, which gives one of now. If that is what there was, the
// page is at rest. A screenshot would do it too, but resizes the page for a moment
// where its screen is emulated.
func (r *Relay) atRest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.unsure || len(r.acks) > 0 || r.cast == nil || len(r.viewers) == 0 {
		return // something came meanwhile, or nobody looks
	}
	r.unsure, r.rested = false, time.Now()
	r.stats.Rests++
	devtools.Post(r.cast.tab.Session(), page.StopScreencast, cdp.Empty{})
	r.cast.start()
}

func (r *Relay) due(a ack) bool {
	if a.cast != r.cast || len(r.viewers) == 0 {
		return true
	}
	prompt, all, any := false, true, false
	for v := range r.viewers {
		took := v.taken >= a.seq
		any = any || took
		if v.prompt {
			prompt = true
			all = all && took
		}
	}
	if prompt {
		return all
	}
	wait := slowest
	if r.allQuiet() {
		wait = keepUp // a page paints no faster than is acknowledged, and the agent uses it
	}
	return any || time.Since(a.at) >= wait
}

// flush acknowledges everything. The lock is held.
func (r *Relay) flush() {
	for _, a := range r.acks {
		r.answer(a)
	}
	r.acks = nil
}

func (r *Relay) answer(a ack) {
	r.stats.Acks++
	r.acked = time.Now()
	devtools.Post(a.cast.tab.Session(), page.ScreencastFrameAck, page.ScreencastFrameAckParams{SessionID: a.id})
}

// expect takes a screenshot should the screencast give no frame in a moment: one
// begins with the next paint, and a page that is still paints nothing.
// Asked again meanwhile, it waits for one that is newer.
func (r *Relay) expect(c *cast) {
	r.mu.Lock()
	c.before = r.seq
	waits := c.expecting
	c.expecting = true
	r.mu.Unlock()
	if waits {
		return
	}
	r.work.Go(func() {
		wait := firstFrame
		for {
			pause := time.NewTimer(wait)
			select {
			case <-pause.C:
			case <-c.life.Done():
				pause.Stop()
				return
			}
			r.mu.Lock()
			before := c.before
			if r.seq > before || r.cast != c {
				c.expecting = false
				r.mu.Unlock()
				return
			}
			r.mu.Unlock()
			wait = again
			if r.shoot(c, before) {
				wait = 0
			}
		}
	})
}

// shoot publishes a screenshot as a frame, unless one came meanwhile.
func (r *Relay) shoot(c *cast, before uint64) bool {
	ctx, cancel := context.WithTimeout(c.life, 3*time.Second)
	defer cancel()
	quality := int64(c.size.quality)
	frames, err := c.tab.Frames(ctx)
	if err != nil {
		return false
	}
	var m struct{ Width, Height, Scale, X, Y float64 }
	if err := frames[0].Eval(ctx, `() => { const v = visualViewport, s = v?.scale ?? 1;
		return {width: innerWidth * s, height: innerHeight * s, scale: s, x: scrollX, y: scrollY} }`, &m); err != nil || m.Width <= 0 {
		return false
	}
	asked := time.Now()
	shot, err := tabs.Call(ctx, c.tab, c.tab.Session(), page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatJpeg, Quality: &quality})
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cast != c || r.seq > before {
		return true
	}
	r.stats.Shots++
	r.publish(&Frame{
		Tab: c.tab.Number(), At: time.Now(), Shown: asked, Image: shot.Data, Shot: true, cast: c,
		Meta: Metadata{PageScaleFactor: m.Scale, DeviceWidth: m.Width, DeviceHeight: m.Height, ScrollX: m.X, ScrollY: m.Y},
	})
	return true
}
