package app

import (
	"bytes"
	"fmt"
	"image/color"
	"image/jpeg"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/recording"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// recording reads what was recorded of a session's browser.
func (s *server) recording(id string) (p httpapi.RecordingPage) {
	s.t.Helper()
	if err := s.call(s.t.Context(), "GET", "/sessions/"+id+"/browser/recording?after=0", nil, &p); err != nil {
		s.t.Fatalf("read the recording of %s: %v", id, err)
	}
	return p
}

// recorded waits until the newest picture of a recording has a colour.
func (s *server) recorded(id string, want color.RGBA) (all []httpapi.RecordingEntry) {
	s.t.Helper()
	until(s.t, 30*time.Second, func() error {
		all = s.recording(id).Entries
		for _, e := range slices.Backward(all) {
			if e.Kind != recording.KindFrame {
				continue
			}
			if got := s.recordedColour(id, e.Picture); !isColour(got, want) {
				return fmt.Errorf("the newest picture, %d, is %v, want %v; of %+v", e.N, got, want, all)
			}
			return nil
		}
		return fmt.Errorf("no picture, want one that is %v; of %+v", want, all)
	})
	return all
}

func (s *server) recordedColour(id string, n int64) color.RGBA {
	s.t.Helper()
	resp := s.get(id, fmt.Sprint("browser/recording/", n), "")
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "image/jpeg" || resp.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("picture %d: %s, %v, %v", n, resp.Status, resp.Header, err)
	}
	return middle(s.t, body)
}

// middle is the colour in the middle of a picture.
func middle(t testing.TB, picture []byte) color.RGBA {
	t.Helper()
	img, err := jpeg.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	return color.RGBAModel.Convert(img.At(img.Bounds().Dx()/2, img.Bounds().Dy()/2)).(color.RGBA)
}

// isColour allows for what JPEG makes of a colour.
func isColour(got, want color.RGBA) bool {
	for _, d := range []int{int(got.R) - int(want.R), int(got.G) - int(want.G), int(got.B) - int(want.B)} {
		if d > 30 || d < -30 {
			return false
		}
	}
	return true
}

// What a sandbox's browser shows while the agent uses it is recorded, with what the
// agent did, and nothing of what a person does. It outlives the server and the
// session, and goes when it is erased.
func TestBrowser_recorded(t *testing.T) {
	t.Parallel()
	withChromium(t)
	data := dataDir(t)
	s := start(t, data)
	ws := workspace(t, 1000)
	id := s.opened(sandbox.Spec{Wall: sandbox.WallNamespace}, ws)
	if p := s.recording(id); len(p.Entries) != 0 || p.More || !p.Info.On || p.Info.Bytes != 0 || p.Info.Frames != 0 {
		t.Errorf("before anything was recorded: %+v", p)
	}
	green, blue, red, teal := color.RGBA{G: 160}, color.RGBA{B: 160}, color.RGBA{R: 220}, color.RGBA{G: 160, B: 160}
	page := s.site(id, ws, map[string]string{"signal.html": `<title>Signal</title>
		<body style="margin:0;height:100vh;background:rgb(0,160,0)"><button>Next</button>
		<script>const next = ["rgb(0,0,160)", "rgb(220,0,0)", "rgb(0,160,160)"]; onclick = () => { document.body.style.background = next.shift() }</script>`}) + "signal.html"

	if r := s.tool(id, "browser_navigate", map[string]any{"url": page}); r.Status != task.CallOK {
		t.Fatalf("browser_navigate: %s %q", r.Status, r.Text)
	}
	s.recorded(id, green)
	ann := s.viewBrowser(id, "ann")
	ann.until("a picture", func() bool { return ann.frames > 0 })
	if r := s.tool(id, "browser_click", map[string]any{"selector": "button"}); r.Status != task.CallOK {
		t.Fatalf("browser_click: %s %q", r.Status, r.Text)
	}
	all := s.recorded(id, blue)
	calls := map[string]string{} // tools, by their calls in the log
	for _, p := range s.payloads(id) {
		if c, ok := p.(*task.ToolCallStarted); ok {
			calls[c.CallID] = c.Tool
		}
	}
	var did []string
	frames := 0
	for i, e := range all {
		if i > 0 && e.N != all[i-1].N+1 || e.At.IsZero() {
			t.Errorf("after entry %d of %d comes %+v", i, len(all), e)
		}
		switch e.Kind {
		case recording.KindFrame:
			frames++
			if e.Width < 300 || e.Height < 200 || e.Tab == 0 {
				t.Errorf("a frame: %+v", e)
			}
		case recording.KindAction:
			did = append(did, calls[e.CallID])
			if e.Failed || e.Tab == 0 || e.URL != page || e.Title != "Signal" || (e.Box != nil) != strings.HasPrefix(e.Label, "click ") {
				t.Errorf("an action: %+v", e)
			}
		default:
			if e.Reason != recording.GapIdle { // where the machine is slow
				t.Errorf("a gap: %+v", e)
			}
		}
	}
	if got := strings.Join(did, " "); got != "browser_navigate browser_click" {
		t.Errorf("the agent did %q; of %+v", got, all)
	}
	if f := all[len(all)-1]; f.Kind == recording.KindFrame && (f.URL != page || f.Title != "Signal") {
		t.Errorf("the newest frame: %+v", f)
	}
	info := s.recording(id).Info
	if !info.On || info.Bytes == 0 || info.Limit != recording.DefaultLimit || info.Frames < frames || info.First != 1 || !info.From.Equal(all[0].At) || info.To.Before(info.From) {
		t.Errorf("the recording says of %d frames: %+v", frames, info)
	}

	// A person makes the page red, and then teal.
	ann.ask(httpapi.BrowserSocket{Type: "take"}, "")
	if r := s.tool(id, "browser_extract", map[string]any{}); r.Status != task.CallError {
		t.Errorf("the agent looks while a person has control: %s %q", r.Status, r.Text)
	}
	for _, c := range []color.RGBA{red, teal} {
		ann.click(300, 200)
		ann.until(fmt.Sprint("a page that is ", c), func() bool { return isColour(middle(t, ann.frame.Image), c) })
	}
	ann.ask(httpapi.BrowserSocket{Type: "give_back"}, "")
	if r := s.tool(id, "browser_extract", map[string]any{}); r.Status != task.CallOK {
		t.Fatalf("browser_extract: %s %q", r.Status, r.Text)
	}
	all = s.recorded(id, teal)
	gaps, refused := 0, 0
	for _, e := range all {
		switch {
		case e.Kind == recording.KindFrame && isColour(s.recordedColour(id, e.Picture), red):
			t.Errorf("what a person did is on picture %d", e.Picture)
		case e.Kind == recording.KindGap:
			gaps++
		case e.Failed:
			refused++
		}
	}
	if gaps == 0 || refused != 1 {
		t.Errorf("%d gaps and %d calls refused; of %+v", gaps, refused, all)
	}

	// What was erased is gone, and what comes after it is recorded.
	if err := s.call(t.Context(), "DELETE", "/sessions/"+id+"/browser/recording", nil, nil); err != nil {
		t.Fatal(err)
	}
	if code := s.fault(id, "browser/recording/1", ""); code != "no_picture" {
		t.Errorf("an erased picture: %s", code)
	}
	if r := s.tool(id, "browser_reload", map[string]any{}); r.Status != task.CallOK {
		t.Fatalf("browser_reload: %s %q", r.Status, r.Text)
	}
	last := all[len(all)-1].N
	all = s.recorded(id, green)
	if all[0].Reason != recording.GapErased || all[0].N <= last {
		t.Errorf("after entry %d was erased comes %+v", last, all[0])
	}
	if code := s.fault(id, "browser/recording/x", ""); code != "invalid_body" {
		t.Errorf("a picture without a number: %s", code)
	}
	wantCode(t, s.call(t.Context(), "GET", "/sessions/"+id+"/browser/recording?after=x", nil, nil), "invalid_body")

	// Another server has it too, and one that records nothing adds nothing.
	s.kill()
	config := filepath.Join(t.TempDir(), "config.toml")
	write(t, config, "[browser]\nrecord = \"off\"\n", 0)
	s = start(t, data, "--config", config)
	all = s.recorded(id, green)
	if r := s.tool(id, "browser_extract", map[string]any{}); r.Status != task.CallOK {
		t.Errorf("browser_extract after the restart: %s %q", r.Status, r.Text)
	}
	s.post(id, "close", nil)
	if p := s.recording(id); p.Info.On || len(p.Entries) != len(all) {
		t.Errorf("there were %d entries, and while nothing is to be recorded: %+v", len(all), p)
	}
}
