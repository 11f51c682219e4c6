package recording_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/recording"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

const root = "s-1"

// room is a browser with a page whose colour a test sets, and its recording.
type room struct {
	t       *testing.T
	tabs    *tabs.Browser
	tab     *tabs.Tab
	lease   *control.Lease
	relay   *relay.Relay
	library *recording.Library
}

const page = `<title>A page</title><style>body { margin: 0; background: rgb(0, 128, 0) } p { width: 50px; height: 20px }</style><p>text</p>`

func newRoom(t *testing.T) *room {
	t.Helper()
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	}))
	t.Cleanup(srv.Close)
	place := browsertest.Context(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	o := &room{t: t, lease: control.New()}
	o.tabs = tabs.New(tabs.Options{Dial: place.Dial, Context: place.ID})
	t.Cleanup(func() { o.tabs.Close() })
	o.relay = relay.New(relay.Options{Browser: o.tabs, Lease: o.lease, Log: log})
	t.Cleanup(func() { o.relay.End("") })
	o.library = recording.New(recording.Options{Dir: t.TempDir(), On: true, Log: log})
	t.Cleanup(func() { o.library.Close() })
	var err error
	if o.tab, err = o.tabs.Active(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.tab.Navigate(t.Context(), nil, srv.URL); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *room) record() {
	o.library.Watch(root, recording.Source{Relay: o.relay, Lease: o.lease})
	o.library.Began(root, "c1")
}

// paint sets the page's colour and waits until that has been painted.
func (o *room) paint(red, green, blue int) {
	o.t.Helper()
	frames, err := o.tab.Frames(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	if err := frames[0].Eval(o.t.Context(), `c => { document.body.style.background = c;
		return new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true)))) }`, nil, fmt.Sprintf("rgb(%d, %d, %d)", red, green, blue)); err != nil {
		o.t.Fatal(err)
	}
}

func (o *room) entries() []recording.Entry {
	o.t.Helper()
	p, err := o.library.Page(root, 0)
	if err != nil {
		o.t.Fatal(err)
	}
	return p.Entries
}

// until reads the recording until ok.
func (o *room) until(what string, ok func(all []recording.Entry) bool) []recording.Entry {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 40*time.Second)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond) // a recording tells nobody of what comes
	defer again.Stop()
	for {
		all := o.entries()
		if ok(all) {
			return all
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			o.t.Fatalf("%s: %+v", what, all)
		}
	}
}

func (o *room) colour(e recording.Entry) color.RGBA {
	o.t.Helper()
	img := o.picture(e)
	return color.RGBAModel.Convert(img.At(img.Bounds().Dx()/2, img.Bounds().Dy()/2)).(color.RGBA)
}

func (o *room) picture(e recording.Entry) image.Image {
	o.t.Helper()
	b, err := o.library.Picture(root, e.N)
	if err != nil {
		o.t.Fatalf("picture %d: %v", e.N, err)
	}
	img, err := jpeg.Decode(bytes.NewReader(b))
	if err != nil {
		o.t.Fatalf("picture %d: %v", e.N, err)
	}
	return img
}

func frame(all []recording.Entry) *recording.Entry {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Kind == recording.KindFrame {
			return &all[i]
		}
	}
	return nil
}

func (o *room) shows(green uint8) func([]recording.Entry) bool {
	return func(all []recording.Entry) bool {
		f := frame(all)
		if f == nil {
			return false
		}
		c := o.colour(*f)
		return c.G > green-20 && c.G < green+20 && c.R < 60 && c.B < 60
	}
}

func TestLibrary_recordsWhileTheAgentUsesTheBrowser(t *testing.T) {
	o := newRoom(t)
	o.record()
	all := o.until("the page as it is", o.shows(128))
	f := frame(all)
	if f.Tab != o.tab.Number() || f.Title != "A page" || f.URL != o.tab.Info().URL || f.Width < 300 || f.Height < 200 {
		t.Errorf("the frame is %+v", f)
	}
	o.paint(0, 200, 0)
	o.until("what it changed to", o.shows(200))

	// A page that is still costs nothing, once it has sent what it had painted.
	kept, came, still := len(o.entries()), o.relay.Stats().Frames, 0
	for rounds := 0; still < 2 && rounds < 10; rounds++ {
		<-time.After(time.Second) // that nothing comes shows by the time that passes
		c := o.relay.Stats().Frames
		if c == came {
			still++
		} else {
			came, still = c, 0
		}
	}
	if n := len(o.entries()); n != kept || still < 2 {
		t.Errorf("a still page: %d entries, then %d, and %d frames", kept, n, came)
	}
	if n := o.relay.Stats().Viewers; n != 0 {
		t.Errorf("the recorder counts as %d viewers", n)
	}

	o.library.Ended(root, recording.Entry{CallID: "c1", Label: `click 3 "Save"`, Box: &browser.Box{X: 1, Y: 2, Width: 3, Height: 4}})
	all = o.until("the gap at its end", func(all []recording.Entry) bool { return all[len(all)-1].Kind == recording.KindGap })
	if got := all[len(all)-2]; got.Kind != recording.KindAction || got.CallID != "c1" || got.Box == nil || got.At.After(time.Now()) {
		t.Errorf("the action is %+v", got)
	}
	if got := all[len(all)-1]; got.Reason != recording.GapIdle {
		t.Errorf("the gap is %+v", got)
	}
	// It leaves behind its last word, so the first may still come.
	for rounds := 0; ; rounds++ {
		came = o.relay.Stats().Frames
		o.paint(0, 90, 0)
		o.paint(0, 91, 0)
		c := o.relay.Stats().Frames
		if c == came {
			break
		}
		if rounds == 50 {
			t.Fatalf("%d frames while nobody looks", c-came)
		}
	}

	o.library.Began(root, "c2")
	o.until("the page when the agent is back", o.shows(91))
}

func TestLibrary_knowsWhereAPageHasScrolled(t *testing.T) {
	o := newRoom(t)
	o.record()
	o.until("the page as it is", o.shows(128))
	frames, err := o.tab.Frames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := frames[0].Eval(t.Context(), `() => { document.body.style.height = "4000px"; scrollTo(0, 700) }`, nil); err != nil {
		t.Fatal(err)
	}
	o.paint(0, 200, 0)
	all := o.until("what it has scrolled to", o.shows(200))
	if f := frame(all); f.ScrollX != 0 || f.ScrollY != 700 {
		t.Errorf("the frame is scrolled by %v, %v, want 0, 700", f.ScrollX, f.ScrollY)
	}
}

func TestLibrary_pausesBetweenPictures(t *testing.T) {
	o := newRoom(t)
	o.record()
	o.until("the page as it is", o.shows(128))
	began, n := time.Now(), len(o.entries())
	for i := range 60 {
		o.paint(0, 100+i, 0)
	}
	took := time.Since(began)
	if got, most := len(o.entries())-n, int(took/(500*time.Millisecond))+2; got > most {
		t.Errorf("%d entries in %v", got, took)
	}
	o.until("the end of it", o.shows(159))
}

// A hold before the first picture of a call is told as one, and what the agent did is
// not denied.
func TestLibrary_tellsAHoldBeforeItsFirstPicture(t *testing.T) {
	o := newRoom(t)
	o.record()
	o.until("the page as it is", o.shows(128))
	o.library.Ended(root, recording.Entry{CallID: "c1", Label: "extract"})
	o.until("the gap at its end", func(all []recording.Entry) bool { return all[len(all)-1].Reason == recording.GapIdle })

	o.library.Began(root, "c2")
	o.library.Ended(root, recording.Entry{CallID: "c2", Label: "extract"})
	o.until("that the agent is back", func(all []recording.Entry) bool {
		return slices.ContainsFunc(all, func(e recording.Entry) bool { return e.Reason == recording.GapBegun })
	})
	if _, err := o.lease.Take("me", time.Minute); err != nil {
		t.Fatal(err)
	}
	o.library.Began(root, "c3")
	o.library.Ended(root, recording.Entry{CallID: "c3", Label: "click 3", Failed: true})
	all := o.until("that a person has control", func(all []recording.Entry) bool {
		return slices.ContainsFunc(all, func(e recording.Entry) bool { return e.Reason == recording.GapHeld })
	})
	o.lease.GiveBack("me")
	look, err := o.lease.Look()
	if err != nil {
		t.Fatal(err)
	}
	o.library.Began(root, "c4")
	if err := look.Done(); err != nil {
		t.Fatal(err)
	}
	o.library.Ended(root, recording.Entry{CallID: "c4", Label: "extract"})
	held := len(all)
	all = o.until("the page after it", func(all []recording.Entry) bool {
		return slices.ContainsFunc(all[held:], func(e recording.Entry) bool { return e.Kind == recording.KindFrame })
	})
	// By its time each action is in the gap that tells of it.
	slices.SortStableFunc(all, func(a, b recording.Entry) int { return a.At.Compare(b.At) })
	gap, in := "", map[string]string{}
	between := false // whether a picture of the page after the look came before its call had ended
	for _, e := range all {
		switch e.Kind {
		case recording.KindGap:
			gap = e.Reason
		case recording.KindFrame:
			between = between || gap == recording.GapHeld && in["c4"] == ""
			gap = ""
		case recording.KindAction:
			in[e.CallID] = gap
		}
	}
	if in["c2"] != recording.GapBegun || in["c3"] != recording.GapHeld || in["c4"] != recording.GapHeld && !between {
		t.Errorf("the actions are in the gaps %v", in)
	}
}

// What a person does is on no picture, whenever they take and give back control.
func TestLibrary_keepsNothingOfAPerson(t *testing.T) {
	o := newRoom(t)
	o.record()
	o.until("the page as it is", o.shows(128))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	pause := func(most time.Duration) { // when people act is the test's input
		select {
		case <-time.After(time.Duration(random.Int64N(int64(most)))):
		case <-t.Context().Done():
		}
	}
	for i := range 12 {
		for range random.IntN(4) { // the agent's page moves
			o.paint(0, 100+random.IntN(100), 0)
			pause(200 * time.Millisecond)
		}
		if _, err := o.lease.Take("me", time.Minute); err != nil {
			t.Fatal(err)
		}
		for range 1 + random.IntN(4) {
			o.paint(255, random.IntN(20), 0)
			pause(250 * time.Millisecond)
		}
		o.paint(0, 100+i, 0)
		o.lease.GiveBack("me")
		pause(150 * time.Millisecond)
		look, err := o.lease.Look()
		if err != nil {
			t.Fatal(err)
		}
		o.paint(0, 150+i, 0)
		if err := look.Done(); err != nil {
			t.Fatal(err)
		}
		pause(900 * time.Millisecond)
		if i%4 == 3 { // long enough for pictures between two holds
			green := [...]uint8{60, 230, 60}[i/4] // another each time: a picture like the last is not kept
			o.paint(0, int(green), 0)
			o.until("the page between two holds", o.shows(green))
		}
	}
	all := o.entries()
	frames, gaps := 0, 0
	for _, e := range all {
		switch e.Kind {
		case recording.KindFrame:
			frames++
			if c := o.colour(e); c.R > 100 {
				t.Errorf("entry %d of %v shows what a person did: %v", e.N, e.At, c)
			}
		case recording.KindGap:
			gaps++
			if e.Reason != recording.GapHeld {
				t.Errorf("entry %d is a gap because %s", e.N, e.Reason)
			}
		}
	}
	if frames < 4 || gaps < 2 {
		t.Errorf("%d frames and %d gaps", frames, gaps)
	}
}

func TestLibrary_recordsNothingWhileAPersonHasControl(t *testing.T) {
	o := newRoom(t)
	if _, err := o.lease.Take("me", time.Minute); err != nil {
		t.Fatal(err)
	}
	o.record()
	o.paint(255, 0, 0)
	watch := o.relay.Join(relay.View{ID: "me", Width: 800, Height: 500})
	defer watch.Leave()
	for frames := 0; frames < 3; { // a person sees them
		m, err := watch.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m.Frame != nil {
			frames++
			o.paint(255, frames, 0)
		}
	}
	if all := o.entries(); len(all) != 0 {
		t.Errorf("there are entries: %+v", all)
	}
	o.paint(0, 180, 0)
	o.lease.GiveBack("me")
	look, err := o.lease.Look()
	if err != nil {
		t.Fatal(err)
	}
	if err := look.Done(); err != nil {
		t.Fatal(err)
	}
	all := o.until("a still page that the agent has looked at", o.shows(180))
	if c := o.colour(all[0]); c.R > 100 {
		t.Errorf("the first frame shows what a person did: %v", c)
	}
}

func TestLibrary_endsWithTheView(t *testing.T) {
	o := newRoom(t)
	o.record()
	o.until("the page as it is", o.shows(128))
	o.relay.End("The sandbox was stopped.")
	o.until("the gap", func(all []recording.Entry) bool { return all[len(all)-1].Reason == recording.GapEnded })

	// Another browser of the session goes on in the same recording.
	o.relay = relay.New(relay.Options{Browser: o.tabs, Lease: o.lease})
	t.Cleanup(func() { o.relay.End("") })
	o.library.Watch(root, recording.Source{Relay: o.relay, Lease: o.lease})
	o.until("the next view", func(all []recording.Entry) bool { return all[len(all)-1].Kind == recording.KindFrame })
	if err := o.library.Erase(root); err != nil {
		t.Fatal(err)
	}
	o.paint(0, 210, 0)
	all := o.until("what comes after it was erased", o.shows(210))
	if all[0].Reason != recording.GapErased {
		t.Errorf("the first entry is %+v", all[0])
	}
	if _, err := o.library.Picture(root, 1); !errors.Is(err, recording.ErrNoPicture) {
		t.Errorf("an erased picture: %v", err)
	}
}

func TestLibrary_off(t *testing.T) {
	dir := t.TempDir()
	l := recording.New(recording.Options{Dir: dir})
	defer l.Close()
	l.Began(root, "c1")
	l.Ended(root, recording.Entry{CallID: "c1", Label: "click 3"})
	p, err := l.Page(root, 0)
	if err != nil || len(p.Entries) != 0 || p.Info.On {
		t.Errorf("Page() = %+v, %v", p, err)
	}
	if _, err := l.Page("../s", 0); err == nil {
		t.Error("a name that leads elsewhere was taken")
	}
}

// Two codes in a field for one are the same on a picture.
func TestLibrary_coversSecrets(t *testing.T) {
	o := newRoom(t)
	frames, err := o.tab.Frames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := frames[0].Eval(t.Context(), `() => { document.body.innerHTML =
		'<input autocomplete=one-time-code value=111111 style="font: 60px monospace; width: 90%; outline: none">' }`, nil); err != nil {
		t.Fatal(err)
	}
	o.record()
	o.paint(0, 200, 0)
	first := o.picture(*frame(o.until("the first code", o.shows(200))))
	if err := frames[0].Eval(t.Context(), `() => { document.querySelector("input").value = "WWWWWW" }`, nil); err != nil {
		t.Fatal(err)
	}
	o.paint(0, 90, 0)
	o.until("another colour", o.shows(90))
	o.paint(0, 200, 0)
	second := o.picture(*frame(o.until("the second code", o.shows(200))))
	if first.Bounds() != second.Bounds() {
		t.Fatalf("the pictures are %v and %v", first.Bounds(), second.Bounds())
	}
	differ := 0
	for y := range first.Bounds().Dy() {
		for x := range first.Bounds().Dx() {
			a, b := color.GrayModel.Convert(first.At(x, y)).(color.Gray).Y, color.GrayModel.Convert(second.At(x, y)).(color.Gray).Y
			if max(a, b)-min(a, b) > 60 {
				differ++
			}
		}
	}
	if differ > 20 {
		t.Errorf("%d pixels tell the codes apart", differ)
	}
}
