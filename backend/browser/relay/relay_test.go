package relay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"

	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

type room struct {
	t     *testing.T
	tabs  *tabs.Browser
	lease *control.Lease
	relay *relay.Relay
	url   string
	other string
}

func newRoom(t *testing.T, pages map[string]string) *room {
	t.Helper()
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, pages[r.URL.Path])
	}))
	t.Cleanup(srv.Close)
	place := browsertest.Context(t)
	o := &room{t: t, lease: control.New(), url: srv.URL, other: strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)}
	o.tabs = tabs.New(tabs.Options{Dial: place.Dial, Context: place.ID, Held: func() bool { return o.lease.State().Held() }})
	t.Cleanup(func() { o.tabs.Close() })
	o.relay = relay.New(relay.Options{Browser: o.tabs, Lease: o.lease, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	t.Cleanup(func() { o.relay.End("") })
	return o
}

func (o *room) visit(url string) *tabs.Tab {
	o.t.Helper()
	tab, err := o.tabs.Active(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	if _, err := tab.Navigate(o.t.Context(), nil, url); err != nil {
		o.t.Fatal(err)
	}
	return tab
}

// watcher reads everything that a viewer gets.
type watcher struct {
	t      testing.TB
	r      *relay.Relay
	v      *relay.Viewer
	frame  *relay.Frame
	state  *relay.State
	told   []tabs.Notice
	frames int
}

func watch(t testing.TB, r *relay.Relay, view relay.View) *watcher {
	v := r.Join(view)
	t.Cleanup(v.Leave)
	return &watcher{t: t, r: r, v: v}
}

// until reads until ok; what it waits for is said when it does not come.
func (w *watcher) until(what string, ok func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !ok() {
		m, err := w.v.Next(ctx)
		if err != nil {
			w.t.Fatalf("%s: %v; last state %+v, %d frames; %+v", what, err, w.state, w.frames, w.r.Stats())
		}
		if m.Frame != nil {
			w.frame = m.Frame
			w.frames++
		} else {
			w.state = m.State
			w.told = append(w.told, m.State.Notices...)
		}
	}
}

// colour is the colour in the middle of the newest frame.
func (w *watcher) colour() color.RGBA {
	if w.frame == nil {
		return color.RGBA{}
	}
	img, err := jpeg.Decode(bytes.NewReader(w.frame.Image))
	if err != nil {
		w.t.Fatal(err)
	}
	return at(img, img.Bounds().Dx()/2, img.Bounds().Dy()/2)
}

func at(img image.Image, x, y int) color.RGBA {
	return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)
}

func near(a, b color.RGBA) bool {
	d := func(x, y uint8) bool { return int(x)-int(y) < 24 && int(y)-int(x) < 24 }
	return d(a.R, b.R) && d(a.G, b.G) && d(a.B, b.B)
}

var (
	red   = color.RGBA{255, 0, 0, 255}
	green = color.RGBA{0, 128, 0, 255}
	blue  = color.RGBA{0, 0, 255, 255}
)

func plain(name, background string) string {
	return fmt.Sprintf("<title>%s</title><body style='margin:0;background:%s'>", name, background)
}

func TestRelay_followsWhatIsActive(t *testing.T) {
	o := newRoom(t, map[string]string{"/red": plain("red", "red"), "/green": plain("green", "green"), "/blue": plain("blue", "blue")})
	tab := o.visit(o.url + "/red")
	first := watch(t, o.relay, relay.View{ID: "a", Width: 640, Height: 400})
	first.until("the first picture", func() bool { return near(first.colour(), red) })
	first.until("the state", func() bool {
		return first.state != nil && first.state.Active == tab.Number() && first.state.Tabs[0].Title == "red" && first.state.Lost == ""
	})

	// A late viewer of a page that is still gets the picture that there is.
	began := time.Now()
	late := watch(t, o.relay, relay.View{ID: "b", Width: 320, Height: 200})
	late.until("the late one's first picture", func() bool { return near(late.colour(), red) })
	t.Logf("late viewer's first picture after %v", time.Since(began))
	late.v.Leave()
	if _, err := late.v.Next(t.Context()); !errors.Is(err, relay.ErrLeft) {
		t.Errorf("Next() after leaving: %v", err)
	}

	o.visit(o.other + "/green") // another process
	first.until("the other process's picture", func() bool { return near(first.colour(), green) })
	o.visit(o.url + "/red")
	first.until("the way back", func() bool { return near(first.colour(), red) })
	second, err := o.tabs.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	o.visit(o.url + "/blue")
	first.until("the other tab", func() bool { return near(first.colour(), blue) && first.frame.Tab == second.Number() })
	if err := o.tabs.Activate(nil, tab); err != nil {
		t.Fatal(err)
	}
	first.until("the first tab again", func() bool { return near(first.colour(), red) && first.frame.Tab == tab.Number() })

	first.v.Leave()
	again := watch(t, o.relay, relay.View{ID: "a", Width: 640, Height: 400})
	again.until("the picture of who comes back", func() bool { return near(again.colour(), red) })
	again.v.Resize(200, 120, 1)
	again.until("the smaller picture", func() bool {
		c, _, err := image.DecodeConfig(bytes.NewReader(again.frame.Image))
		return err == nil && c.Width <= 200
	})
}

// TestRelay_costsNothing holds that a page that is still sends no frame, and that
// nobody looking means no screencast.
func TestRelay_costsNothing(t *testing.T) {
	o := newRoom(t, map[string]string{"/": plain("still", "red"), "/busy": `<body><script>let n = 0; (function f() { document.body.textContent = n++; requestAnimationFrame(f) })()</script>`})
	o.visit(o.url + "/")
	w := watch(t, o.relay, relay.View{ID: "a", Width: 640, Height: 400})
	w.until("the first picture", func() bool { return near(w.colour(), red) })
	// A busy machine may take its time for what the page has painted; then nothing comes,
	// however long one waits.
	still := false
	for limit := time.Now().Add(time.Minute); !still && time.Now().Before(limit); {
		before := o.relay.Stats()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_, err := w.v.Next(ctx)
		cancel()
		still = err != nil && o.relay.Stats().Bytes == before.Bytes
	}
	if !still {
		t.Errorf("a still page sends without end: %+v", o.relay.Stats())
	}

	o.visit(o.url + "/busy")
	n := w.frames
	w.until("ten frames", func() bool { return w.frames > n+10 })
	w.v.Leave()
	// The frames that are on their way come to an end, and all are acknowledged.
	for i, last := 0, uint64(0); ; i++ {
		s := o.relay.Stats()
		if s.Frames == last && s.Acks == s.Frames {
			break
		}
		if i == 200 {
			t.Fatalf("with nobody looking, frames still come or are not acknowledged: %+v", s)
		}
		last = s.Frames
		<-time.After(250 * time.Millisecond)
	}
}

// The point that a click on the picture reaches in the page is within a CSS pixel
// of what was aimed at, whatever the picture's size, the screen's or the page's.
func TestRelay_clicksWhereThePersonPoints(t *testing.T) {
	o := newRoom(t, map[string]string{"/": `<meta name=viewport content="width=device-width"><title>0</title><body style="margin:0;height:3000px;background:red">
		<script>let got = []; addEventListener('mousedown', e => got.push([e.clientX, e.clientY]));
		addEventListener('wheel', e => got.push(['w', e.clientX, e.clientY, e.deltaY]), {passive: true})</script>`})
	tab := o.visit(o.url + "/")
	w := watch(t, o.relay, relay.View{ID: "ann", Width: 640, Height: 320})
	if err := w.v.Input(relay.Input{Kind: relay.Mouse, Type: "down", Frame: 1, Width: 640, Height: 320, X: 5, Y: 5}); !errors.Is(err, relay.ErrNoFrame) {
		t.Errorf("an input before the first frame: %v, want ErrNoFrame", err)
	}
	w.until("a picture", func() bool { return w.frame != nil })
	in := relay.Input{Kind: relay.Mouse, Type: "down", Frame: w.frame.Seq, Width: 640, Height: 320, X: 5, Y: 5, Button: "left"}
	if err := w.v.Input(in); !errors.Is(err, control.ErrNotHolder) {
		t.Errorf("an input without control: %v, want ErrNotHolder", err)
	}
	if _, err := o.lease.Take("ann", 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	w.until("the news that ann has control", func() bool { return w.state != nil && w.state.Control.Viewer == "ann" })

	ask := func() (out []any) {
		t.Helper()
		var res struct {
			Result struct {
				Value string `json:"value"`
			} `json:"result"`
		}
		if err := tab.Session().Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": "JSON.stringify(got.splice(0))"}, &res); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(res.Result.Value), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	got := func(n int) (out []any) {
		t.Helper()
		for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); <-time.After(10 * time.Millisecond) {
			if out = append(out, ask()...); len(out) >= n {
				break
			}
		}
		return out
	}
	click := func(in relay.Input) {
		t.Helper()
		up := in
		up.Type, up.Buttons = "up", 0
		if err := errors.Join(w.v.Input(in), w.v.Input(up)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dpr := range []float64{1, 1.25, 2, 3} {
		for _, pinch := range []float64{1, 2} {
			if _, err := cdp.Call(t.Context(), tab.Session(), emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1000, Height: 633, DeviceScaleFactor: dpr, Mobile: pinch > 1}); err != nil {
				t.Fatal(err)
			}
			if _, err := cdp.Call(t.Context(), tab.Session(), emulation.SetPageScaleFactor, emulation.SetPageScaleFactorParams{PageScaleFactor: pinch}); err != nil {
				t.Fatal(err)
			}
			w.until(fmt.Sprintf("a frame at dpr %v, scale %v", dpr, pinch), func() bool {
				return w.frame.Meta.DeviceWidth == 1000 && w.frame.Meta.DeviceHeight == 633 && w.frame.Meta.PageScaleFactor == pinch
			})
			// Letter-boxed in both directions, and exact.
			for _, box := range [][2]float64{{640, 320}, {500, 316.5}, {300, 600}} {
				scale := min(box[0]/1000, box[1]/633)
				ox, oy := (box[0]-1000*scale)/2, (box[1]-633*scale)/2
				for _, want := range [][2]float64{{10, 10}, {980, 10}, {10, 620}, {980, 620}, {500, 316}} {
					in := relay.Input{Kind: relay.Mouse, Type: "down", Frame: w.frame.Seq, Width: box[0], Height: box[1], X: ox + want[0]*scale, Y: oy + want[1]*scale, Button: "left", Buttons: 1, Clicks: 1}
					click(in)
					hits := got(1)
					if len(hits) != 1 {
						t.Fatalf("dpr %v, scale %v, box %v: %v gave %v", dpr, pinch, box, want, hits)
					}
					hit := hits[0].([]any)
					if dx, dy := hit[0].(float64)-want[0]/pinch, hit[1].(float64)-want[1]/pinch; dx > 1 || dx < -1 || dy > 1 || dy < -1 {
						t.Errorf("dpr %v, scale %v, box %v: aimed at %v, hit %v", dpr, pinch, box, want, hit)
					}
				}
				if ox > 1 || oy > 1 {
					bar := relay.Input{Kind: relay.Mouse, Type: "down", Frame: w.frame.Seq, Width: box[0], Height: box[1], X: ox / 2, Y: oy / 2, Button: "left", Buttons: 1, Clicks: 1}
					page := bar
					page.X, page.Y = box[0]/2, box[1]/2
					click(bar)
					click(page) // which comes behind the other
					if hits := got(1); len(hits) != 1 || hits[0].([]any)[0].(float64) < 500/pinch-1 {
						t.Errorf("a click on the bars, and one on the page, hit %v", hits)
					}
				}
			}
		}
	}
	if _, err := cdp.Call(t.Context(), tab.Session(), emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1000, Height: 633, DeviceScaleFactor: 1}); err != nil {
		t.Fatal(err)
	}
	w.until("the page as it was", func() bool { return w.frame.Meta.PageScaleFactor == 1 })
	wheel := relay.Input{Kind: relay.Wheel, Frame: w.frame.Seq, Width: 500, Height: 316.5, X: 250, Y: 158, DY: 50}
	if err := w.v.Input(wheel); err != nil {
		t.Fatal(err)
	}
	w.until("the page scrolled", func() bool { return w.frame.Meta.ScrollY > 0 })
	if hits := got(1); len(hits) != 1 || hits[0].([]any)[0] != "w" {
		t.Errorf("wheel: %v", hits)
	}
}

func TestRelay_keysTextTouchAndDrag(t *testing.T) {
	o := newRoom(t, map[string]string{"/": `<title>0</title><body style="margin:0;height:600px">
		<input id=f style="position:absolute;left:0;top:0;width:300px;height:40px">
		<div id=a draggable=true style="position:absolute;left:0;top:100px;width:100px;height:100px;background:red">drag</div>
		<div id=b style="position:absolute;left:300px;top:100px;width:100px;height:100px;background:green"></div>
		<script>let log = [];
		for (const k of ['compositionstart', 'compositionend']) f.addEventListener(k, e => log.push(k + e.data));
		f.addEventListener('keydown', e => log.push(e.code));
		let over = false; a.ondragstart = e => { e.dataTransfer.setData('text/plain', 'parcel') };
		b.ondragover = e => { over = true; e.preventDefault() }; b.ondrop = e => { e.preventDefault(); log.push('drop ' + e.dataTransfer.getData('text/plain')) };
		addEventListener('touchstart', e => log.push('touch ' + e.touches.length), {passive: true});
		for (const k of ['touchend', 'touchcancel']) addEventListener(k, e => log.push(k + ' ' + e.touches.length), {passive: true});
		</script>`})
	tab := o.visit(o.url + "/")
	w := watch(t, o.relay, relay.View{ID: "ann", Width: 640, Height: 320})
	w.until("a picture", func() bool { return w.frame != nil })
	if _, err := o.lease.Take("ann", 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	width, height := w.frame.Meta.DeviceWidth, w.frame.Meta.DeviceHeight // one to one
	send := func(in relay.Input) {
		t.Helper()
		in.Frame, in.Width, in.Height = w.frame.Seq, width, height
		if err := w.v.Input(in); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(script string) string {
		t.Helper()
		var res struct {
			Result struct {
				Value string `json:"value"`
			} `json:"result"`
		}
		if err := tab.Session().Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": script}, &res); err != nil {
			t.Fatal(err)
		}
		return res.Result.Value
	}
	// Inputs are on their way when they are sent: what they lead to is waited for.
	comes := func(script, want string) {
		t.Helper()
		for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); <-time.After(20 * time.Millisecond) {
			if strings.Contains(ask(script), want) {
				return
			}
		}
		t.Errorf("%s is %q, want %q", script, ask(script), want)
	}
	mouse := func(kind string, x, y float64, buttons int64) {
		send(relay.Input{Kind: relay.Mouse, Type: kind, X: x, Y: y, Button: "left", Buttons: buttons, Clicks: 1})
	}
	mouse("down", 20, 20, 1)
	mouse("up", 20, 20, 0)
	send(relay.Input{Kind: relay.Key, Type: "down", Key: "x", Code: "KeyX", KeyCode: 88, Text: "x"})
	send(relay.Input{Kind: relay.Key, Type: "up", Key: "x", Code: "KeyX", KeyCode: 88})
	send(relay.Input{Kind: relay.Compose, Text: "か", From: 1, To: 1})
	send(relay.Input{Kind: relay.Compose, Text: "かん", From: 2, To: 2})
	send(relay.Input{Kind: relay.Text, Text: "漢"})
	send(relay.Input{Kind: relay.Text, Text: " pasted é"})
	comes("f.value", "x漢 pasted é")
	send(relay.Input{Kind: relay.Key, Type: "down", Key: "a", Code: "KeyA", KeyCode: 65, Modifiers: 2})
	send(relay.Input{Kind: relay.Key, Type: "up", Key: "a", Code: "KeyA", KeyCode: 65, Modifiers: 2})
	send(relay.Input{Kind: relay.Text, Text: "all"})
	comes("f.value", "all")
	mouse("move", 50, 150, 0)
	mouse("down", 50, 150, 1)
	mouse("move", 60, 150, 1)
	mouse("move", 80, 150, 1)
	// It takes the page a moment to begin the drag; a hand goes on moving.
	limit := time.Now().Add(30 * time.Second)
	for i := 0; ask("String(over)") != "true" && time.Now().Before(limit); i++ {
		mouse("move", 320+float64(i%5), 150, 1)
		<-time.After(20 * time.Millisecond)
	}
	mouse("up", 350, 150, 0)
	for _, want := range []string{"KeyX", "compositionstart", "compositionend漢", "drop parcel"} {
		comes("log.join()", want)
	}
	// Last, since the browser makes a click of a tap in its own time, past what comes
	// after it, and that takes the focus from the field.
	one, two := relay.Point{ID: 1, X: 500, Y: 300}, relay.Point{ID: 2, X: 450, Y: 250}
	send(relay.Input{Kind: relay.Touch, Type: "start", Points: []relay.Point{one}})
	send(relay.Input{Kind: relay.Touch, Type: "start", Points: []relay.Point{one, two}})
	send(relay.Input{Kind: relay.Touch, Type: "move", Points: []relay.Point{two}})
	send(relay.Input{Kind: relay.Touch, Type: "end"})
	comes("log.join()", "touch 1,touch 2,touchend 1,touchend 0")
	if err := w.v.Input(relay.Input{Kind: "dance", Frame: w.frame.Seq}); !errors.Is(err, relay.ErrInput) {
		t.Errorf("no such input: %v", err)
	}
}

func TestRelay_tellsWhatHappens(t *testing.T) {
	o := newRoom(t, map[string]string{"/": plain("main", "red") + `<script>setTimeout(() => { document.title = "said " + confirm("Sure?") }, 300)</script>`, "/green": plain("green", "green")})
	w := watch(t, o.relay, relay.View{ID: "ann"})
	w.until("the browser", func() bool { return w.state != nil && w.state.Lost == "" && len(w.state.Tabs) == 1 })
	if _, err := o.lease.Take("ann", 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := w.v.Do(t.Context(), relay.Command{Kind: relay.Navigate, URL: "file:///etc/passwd"}); !errors.Is(err, tabs.ErrForbidden) {
		t.Errorf("a person's file: address: %v, want ErrForbidden", err)
	}
	if err := w.v.Do(t.Context(), relay.Command{Kind: relay.Navigate, URL: o.url + "/"}); err != nil {
		t.Fatal(err)
	}
	w.until("the dialog", func() bool { return w.state.Dialog != nil && w.state.Dialog.Text == "Sure?" })
	if err := w.v.Do(t.Context(), relay.Command{Kind: relay.Answer, Accept: true}); err != nil {
		t.Fatal(err)
	}
	w.until("the answer", func() bool { return w.state.Dialog == nil && w.state.Tabs[0].Title == "said true" })
	if len(w.told) < 2 || w.told[0].Kind != tabs.NoticeDialog {
		t.Errorf("notices = %+v", w.told)
	}
	tab := o.tabs.Current()
	tab.Session().Post("Page.crash", nil)
	w.until("the crash", func() bool { return w.state.Tabs[0].Crashed })
	if err := w.v.Do(t.Context(), relay.Command{Kind: relay.Navigate, URL: o.url + "/green"}); err != nil {
		t.Fatal(err)
	}
	w.until("the page after the crash", func() bool { return near(w.colour(), green) })
	if err := w.v.Do(t.Context(), relay.Command{Kind: relay.Close}); err != nil {
		t.Fatal(err)
	}
	w.until("a new tab for the last one", func() bool { return len(w.state.Tabs) == 1 && w.state.Tabs[0].Number != tab.Number() })
	o.lease.GiveBack("ann")
	w.until("the agent's turn", func() bool { return w.state.Control.Viewer == "" && w.state.Control.Look })
	if err := w.v.Do(t.Context(), relay.Command{Kind: relay.Reload}); !errors.Is(err, control.ErrNotHolder) {
		t.Errorf("a command without control: %v", err)
	}
	o.relay.End("The session was closed.")
	w.until("the end", func() bool { return w.state.Ended == "The session was closed." })
	if _, err := w.v.Next(t.Context()); !errors.Is(err, relay.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// A browser drops what it paints while too much of it is not acknowledged, also the
// last before a page comes to rest.
func TestRelay_viewersSeeTheLastPicture(t *testing.T) {
	o := newRoom(t, map[string]string{"/": `<body style="margin:0"><script>
		let n
		function step() {
			document.body.style.background = n++ < 16 ? 'rgb(0, 0, ' + n * 10 + ')' : document.body.title
			if (n < 18) requestAnimationFrame(step)
		}
		addEventListener('run', () => { n = 0; step() })
	</script>`})
	for name, view := range map[string]relay.View{
		"prompt": {ID: "prompt", Width: 800, Height: 500},
		"quiet":  {ID: "quiet", Width: 800, Height: 500, Quiet: true},
	} {
		t.Run(name, func(t *testing.T) {
			tab := o.visit(o.url + "/")
			w := watch(t, o.relay, view)
			for i := range 4 {
				last, want := "red", red
				if i%2 > 0 {
					last, want = "green", green
				}
				frames, err := tab.Frames(t.Context())
				if err == nil {
					err = frames[0].Eval(t.Context(), "() => { document.body.title = '"+last+"'; dispatchEvent(new Event('run')) }", nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				w.until(last, func() bool {
					if w.frame != nil && near(w.colour(), want) {
						return true
					}
					if view.Quiet {
						<-time.After(300 * time.Millisecond) // it is slow
					}
					return false
				})
			}
		})
	}
}
