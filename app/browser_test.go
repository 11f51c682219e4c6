package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// withChromium skips or fails where the namespace wall has no browser to lend.
func withChromium(t testing.TB) {
	t.Helper()
	have(t, sandbox.WallNamespace)
	for _, program := range []string{"chromium", "python3"} {
		if _, err := os.Stat("/usr/bin/" + program); err != nil {
			if required("chromium") {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// site serves pages inside of a session's sandbox and returns their address.
func (s *server) site(id, ws string, pages map[string]string) string {
	s.t.Helper()
	for name, page := range pages {
		write(s.t, filepath.Join(ws, name), "<!doctype html><meta charset=utf-8>"+page, 1000)
	}
	r := s.bash(id, `python3 -u -m http.server --bind 127.0.0.1 8765 >/tmp/site.log 2>&1 &
		i=0; until python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8765))' 2>/dev/null || [ $i -ge 100 ]; do i=$((i+1)); sleep 0.1; done; [ $i -lt 100 ]`)
	if r.Status != task.CallOK {
		s.t.Fatalf("serve pages: %s %q", r.Status, r.Text)
	}
	return "http://127.0.0.1:8765/"
}

// browser is what GET browser says.
func (s *server) browser(id string) (b httpapi.BrowserInfo) {
	s.t.Helper()
	if err := s.call(s.t.Context(), "GET", "/sessions/"+id+"/browser", nil, &b); err != nil {
		s.t.Fatalf("look at the browser of %s: %v", id, err)
	}
	return b
}

// browserView is a view of a browser over its socket.
type browserView struct {
	t      testing.TB
	conn   *websocket.Conn
	asked  int
	state  relay.State
	frame  relay.Frame // the newest, with its picture
	frames int
	mute   bool // pictures are not said to have been got
	got    map[string]httpapi.BrowserSocket
	faults []httpapi.ErrorBody // of what had no id
}

func (s *server) viewBrowser(id, viewer string) *browserView {
	s.t.Helper()
	conn, err := s.dial(s.t.Context(), "/sessions/"+id+"/browser/socket?viewer="+viewer+"&width=800&height=500&dpr=1")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.CloseNow() })
	return &browserView{t: s.t, conn: conn, got: map[string]httpapi.BrowserSocket{}}
}

func (v *browserView) send(m httpapi.BrowserSocket) {
	v.t.Helper()
	body, err := json.Marshal(m)
	if err != nil {
		v.t.Fatal(err)
	}
	if err := v.conn.Write(v.t.Context(), websocket.MessageText, body); err != nil {
		v.t.Fatalf("send %s: %v", m.Type, err)
	}
}

// next takes one message of the server's.
func (v *browserView) next(ctx context.Context) error {
	kind, data, err := v.conn.Read(ctx)
	if err != nil {
		return err
	}
	if kind == websocket.MessageBinary {
		n := binary.BigEndian.Uint32(data)
		v.frame = relay.Frame{}
		if err := json.Unmarshal(data[4:4+n], &v.frame); err != nil {
			return err
		}
		v.frame.Image = data[4+n:]
		v.frames++
		if !v.mute {
			v.send(httpapi.BrowserSocket{Type: "got", Seq: v.frame.Seq})
		}
		return nil
	}
	var m httpapi.BrowserSocket
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	switch {
	case m.Type == "state":
		v.state = *m.State
	case m.ID != "":
		v.got[m.ID] = m
	case m.Type == "error":
		v.faults = append(v.faults, *m.Error)
	default:
		v.got[m.Type] = m
	}
	return nil
}

// until takes messages until ok.
func (v *browserView) until(what string, ok func() bool) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	for !ok() {
		if err := v.next(ctx); err != nil {
			v.t.Fatalf("%s: %v\nstate %+v, %d frames, faults %+v", what, err, v.state, v.frames, v.faults)
		}
	}
}

// end takes messages until the socket is closed, and returns how.
func (v *browserView) end() websocket.StatusCode {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	for {
		if err := v.next(ctx); err != nil {
			if websocket.CloseStatus(err) == -1 {
				v.t.Errorf("the socket ended by %v", err)
			}
			return websocket.CloseStatus(err)
		}
	}
}

// ask asks for something and waits for the answer, which is an error where one
// with that code is wanted.
func (v *browserView) ask(m httpapi.BrowserSocket, code string) httpapi.BrowserSocket {
	v.t.Helper()
	v.asked++
	m.ID = fmt.Sprintf("q%d", v.asked)
	v.send(m)
	v.until("an answer to "+m.Type, func() bool { return v.got[m.ID].Type != "" })
	a := v.got[m.ID]
	if got := map[bool]func() string{true: func() string { return a.Error.Code }, false: func() string { return "" }}[a.Error != nil](); got != code {
		v.t.Fatalf("%s: %+v %+v, want the error %q", m.Type, a, a.Error, code)
	}
	return a
}

func (v *browserView) navigate(url, code string) {
	v.t.Helper()
	v.ask(httpapi.BrowserSocket{Type: "command", Command: &relay.Command{Kind: relay.Navigate, URL: url}}, code)
}

func (v *browserView) input(in relay.Input) {
	v.t.Helper()
	in.Frame, in.Width, in.Height = v.frame.Seq, v.frame.Meta.DeviceWidth, v.frame.Meta.DeviceHeight
	v.send(httpapi.BrowserSocket{Type: "input", Input: &in})
}

func (v *browserView) click(x, y float64) {
	v.t.Helper()
	v.input(relay.Input{Kind: relay.Mouse, Type: "down", X: x, Y: y, Button: "left", Buttons: 1, Clicks: 1})
	v.input(relay.Input{Kind: relay.Mouse, Type: "up", X: x, Y: y, Button: "left", Clicks: 1})
}

// A person looks at the browser of a sandbox, takes it from the agent, signs in,
// and gives it back: the page stays, and what they typed is nowhere.
func TestBrowser_handsAndEyes(t *testing.T) {
	t.Parallel()
	withChromium(t)
	s := start(t, dataDir(t))
	ws := workspace(t, 1000)
	id := s.opened(sandbox.Spec{Wall: sandbox.WallNamespace}, ws)
	if b := s.browser(id); b.State != wire.BrowserStopped || !b.Live || b.Source != "guest" || b.ObservedAt.IsZero() {
		t.Errorf("before anybody asked for it: %+v", b)
	}
	page := s.site(id, ws, map[string]string{"in.html": `<title>Sign in</title><body style="margin:0">
		<input aria-label=Name style="position:absolute;left:0;top:0;width:200px;height:40px">
		<input aria-label=Password type=password style="position:absolute;left:0;top:100px;width:200px;height:40px">
		<p style="position:absolute;top:200px">Nobody is signed in.</p>
		<script>document.querySelector("[type=password]").oninput = e => document.querySelector("p").textContent = e.target.value.length + " letters"</script>`}) + "in.html"

	if r := s.tool(id, "browser_navigate", map[string]any{"url": page}); r.Status != task.CallOK || !strings.Contains(r.Text, "Sign in") {
		t.Fatalf("the agent's tool: %s %q", r.Status, r.Text)
	}
	ann := s.viewBrowser(id, "ann")
	ann.until("a picture", func() bool { return ann.frames > 0 && len(ann.state.Tabs) == 1 })
	if img, err := jpeg.Decode(bytes.NewReader(ann.frame.Image)); err != nil || img.Bounds().Dx() < 300 {
		t.Errorf("the picture: %v, %v", img, err)
	}
	if ann.state.Tabs[0].Title != "Sign in" {
		t.Errorf("the tab: %+v", ann.state.Tabs[0])
	}
	bob := s.viewBrowser(id, "bob")
	bob.until("a picture", func() bool { return bob.frames > 0 })
	if b := s.browser(id); b.State != wire.BrowserRunning || b.Viewers != 2 || b.Control.Holder != "" {
		t.Errorf("while two look on: %+v", b)
	}
	sent := time.Now()
	ann.send(httpapi.BrowserSocket{Type: "ping", T: 12.5})
	ann.until("a pong", func() bool { return ann.got["pong"].Type != "" })
	if p := ann.got["pong"]; p.T != 12.5 || p.Server == nil || p.Server.Sub(sent).Abs() > time.Minute {
		t.Errorf("pong: %+v", p)
	}

	// Nobody acts without control, and one alone has it.
	ann.click(50, 20)
	ann.until("a refusal", func() bool { return len(ann.faults) > 0 })
	if ann.faults[0].Code != "not_in_control" {
		t.Errorf("an input without control: %+v", ann.faults)
	}
	ann.ask(httpapi.BrowserSocket{Type: "copy"}, "not_in_control")
	ann.navigate(page, "not_in_control")
	ann.ask(httpapi.BrowserSocket{Type: "take", Seconds: 60}, "")
	ann.until("that she has it", func() bool { return ann.state.Control.Viewer == "ann" })
	bob.ask(httpapi.BrowserSocket{Type: "take"}, "browser_held")
	bob.until("who has it", func() bool { return bob.state.Control.Viewer == "ann" })
	bob.ask(httpapi.BrowserSocket{Type: "copy"}, "browser_held")
	for _, tool := range []string{"browser_extract", "browser_screenshot", "browser_reload"} {
		if r := s.tool(id, tool, map[string]any{}); r.Status != task.CallError || !strings.Contains(r.Text, "a person has taken control") {
			t.Errorf("%s of the agent: %s %q", tool, r.Status, r.Text)
		}
	}

	const secret = "correct-horse-battery"
	ann.click(50, 120)
	ann.input(relay.Input{Kind: relay.Text, Text: secret})
	outline := func() string {
		var o browser.Outline
		if err := s.call(t.Context(), "GET", "/sessions/"+id+"/browser/outline", nil, &o); err != nil {
			t.Fatal(err)
		}
		return o.Text()
	}
	until(t, 20*time.Second, func() error {
		if text := outline(); !strings.Contains(text, fmt.Sprint(len(secret), " letters")) {
			return fmt.Errorf("the page does not have what was typed:\n%s", text)
		}
		return nil
	})
	ann.click(50, 20)
	ann.input(relay.Input{Kind: relay.Text, Text: "ann of the house"})
	ann.input(relay.Input{Kind: relay.Key, Type: "down", Key: "a", Code: "KeyA", KeyCode: 65, Modifiers: 2})
	if a := ann.ask(httpapi.BrowserSocket{Type: "copy"}, ""); a.Type != "clipboard" || a.Text != "ann of the house" {
		t.Errorf("what is copied: %+v", a)
	}
	ann.navigate("file:///etc/passwd", "forbidden_address")
	ann.ask(httpapi.BrowserSocket{Type: "extend", Seconds: 90}, "")
	ann.ask(httpapi.BrowserSocket{Type: "give_back"}, "")
	bob.until("that she gave it back", func() bool { return bob.state.Control.Viewer == "" })
	if !bob.state.Control.Look {
		t.Error("the agent need not look")
	}

	if r := s.tool(id, "browser_reload", map[string]any{}); r.Status != task.CallError || !strings.Contains(r.Text, "fresh look") {
		t.Errorf("an act of the agent before a look: %s %q", r.Status, r.Text)
	}
	if r := s.tool(id, "browser_extract", map[string]any{}); r.Status != task.CallOK || !strings.Contains(r.Text, fmt.Sprint(len(secret), " letters")) || !strings.Contains(r.Text, "ann of the house") {
		t.Errorf("the page that the agent has back: %s %q", r.Status, r.Text)
	}

	// The log says who had it, and nothing of what they did.
	awaitEvent(s, id, moments, func(c *task.BrowserControlChanged) bool { return c.Cause == task.ControlGivenBack })
	var causes []string
	for _, p := range s.payloads(id) {
		if c, ok := p.(*task.BrowserControlChanged); ok {
			causes = append(causes, string(c.Cause))
			if c.Viewer != "person" || (c.Cause == task.ControlGivenBack) != c.Until.IsZero() {
				t.Errorf("control: %+v", c)
			}
		}
		if body, err := json.Marshal(p); err != nil || bytes.Contains(body, []byte(secret)) {
			t.Errorf("the log has the secret, or none can tell: %v, %s", err, p.EventKind())
		}
	}
	if got := strings.Join(causes, " "); got != "taken extended given_back" {
		t.Errorf("control was %s", got)
	}
	if strings.Contains(s.log.String(), secret) || strings.Contains(outline(), secret) {
		t.Error("the server's log or the outline has the secret")
	}

	// A browser that is stopped ends its views; who asks for it next starts it.
	s.post(id, "browser/stop", nil)
	if status := ann.end(); status != websocket.StatusNormalClosure || ann.state.Ended != "The browser was stopped." {
		t.Errorf("after a stop of the browser: %v, %+v", status, ann.state)
	}
	if b := s.browser(id); b.State != wire.BrowserStopped || b.Viewers != 0 {
		t.Errorf("after a stop: %+v", b)
	}
	s.post(id, "browser/start", nil)
	if b := s.browser(id); b.State != wire.BrowserRunning {
		t.Errorf("after a start: %+v", b)
	}
	ann = s.viewBrowser(id, "ann")
	ann.until("a picture", func() bool { return ann.frames > 0 })
	ann.ask(httpapi.BrowserSocket{Type: "take"}, "")

	// And so does the end of its sandbox.
	s.post(id, "release", httpapi.ReleaseRequest{How: "remove"})
	if status := ann.end(); status != websocket.StatusNormalClosure || ann.state.Ended != "The sandbox was released." {
		t.Errorf("after a release: %v, %+v", status, ann.state)
	}
	awaitEvent(s, id, moments, func(c *task.BrowserControlChanged) bool { return c.Cause == task.ControlEnded })
	gone := s.viewBrowser(id, "ann")
	if status := gone.end(); status != websocket.StatusNormalClosure || len(gone.faults) != 1 || gone.faults[0].Code != "no_sandbox" {
		t.Errorf("a view after the release: %v, %+v", status, gone.faults)
	}
	var refused *apiError
	if err := s.call(t.Context(), "GET", "/sessions/"+id+"/browser", nil, nil); !errors.As(err, &refused) || refused.Code != "no_sandbox" {
		t.Errorf("a look after the release: %v", err)
	}
}

// A viewer is sent two pictures that it has not shown yet, and no more; what it
// must know it is told all the same.
func TestBrowser_viewerSetsThePace(t *testing.T) {
	t.Parallel()
	withChromium(t)
	s := start(t, dataDir(t))
	ws := workspace(t, 1000)
	id := s.opened(sandbox.Spec{Wall: sandbox.WallNamespace}, ws)
	page := s.site(id, ws, map[string]string{"anim.html": `<title>anim</title><style>@keyframes x {to {margin-left: 500px}} div {width: 100px; height: 100px; background: teal; animation: x 1s infinite alternate}</style><div></div>`}) + "anim.html"
	if r := s.tool(id, "browser_navigate", map[string]any{"url": page}); r.Status != task.CallOK {
		t.Fatalf("%s %q", r.Status, r.Text)
	}
	slow, quick := s.viewBrowser(id, "slow"), s.viewBrowser(id, "quick")
	slow.mute = true
	slow.until("two pictures", func() bool { return slow.frames == 2 })
	quick.until("many pictures", func() bool { return quick.frames >= 20 })
	quick.ask(httpapi.BrowserSocket{Type: "take"}, "")
	slow.until("that another has taken control", func() bool { return slow.state.Control.Viewer == "quick" })
	slow.ask(httpapi.BrowserSocket{Type: "view", Width: 400, Height: 250, DPR: 1}, "")
	slow.ask(httpapi.BrowserSocket{Type: "view", Width: 1e9, Height: 250, DPR: 1}, "invalid_viewer")
	if slow.frames != 2 {
		t.Errorf("%d pictures came to who has shown none", slow.frames)
	}
	seq := slow.frame.Seq
	slow.send(httpapi.BrowserSocket{Type: "got", Seq: seq})
	slow.until("the newest picture", func() bool { return slow.frames == 3 })
	if slow.frame.Seq < seq+10 {
		t.Errorf("after picture %d comes %d: a backlog", seq, slow.frame.Seq)
	}
	quick.send(httpapi.BrowserSocket{Type: "bogus"})
	quick.until("a refusal", func() bool { return len(quick.faults) > 0 })
	if quick.faults[0].Code != "invalid_body" {
		t.Errorf("what is no message: %+v", quick.faults)
	}
	s.post(id, "stop", nil)
	if status := slow.end(); status != websocket.StatusNormalClosure || slow.state.Ended != "The sandbox was stopped." {
		t.Errorf("after a stop: %v, %+v", status, slow.state)
	}
	again := s.viewBrowser(id, "again")
	if again.end(); len(again.faults) != 1 || again.faults[0].Code != "sandbox_stopped" {
		t.Errorf("a view of a sandbox that is stopped: %+v", again.faults)
	}
}

// A browser that is looked at keeps its sandbox from being stopped for want of
// use; the end of the view does not.
func TestBrowser_viewIsUse(t *testing.T) {
	t.Parallel()
	withChromium(t)
	config := filepath.Join(t.TempDir(), "config.toml")
	write(t, config, "[sandbox]\nidle_stop = \"4s\"\n", 0)
	s := start(t, dataDir(t), "--config", config)
	id := s.opened(sandbox.Spec{Wall: sandbox.WallNamespace}, workspace(t, 1000))
	ann := s.viewBrowser(id, "ann")
	ann.until("a picture", func() bool { return ann.frames > 0 })
	looked, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	for ann.next(looked) == nil {
	}
	if causes := s.causes(id, sandbox.StateStopped); len(causes) > 0 {
		t.Errorf("stopped because %q while somebody looks", causes)
	}
	ann.conn.CloseNow()
	s.awaitCause(id, 20*time.Second, sandbox.StateStopped, sandbox.CauseIdle)
	s.post(id, "browser/start", nil)
	if b := s.browser(id); b.State != wire.BrowserRunning {
		t.Errorf("after a start by hand: %+v", b)
	}
}

// Sessions that share a sandbox share its browser: a person who takes control has
// it of both their agents, and what one lets go of the other keeps. A browser that
// crashes is there again, and its viewers with it.
func TestBrowser_shared(t *testing.T) {
	t.Parallel()
	withChromium(t)
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: sandbox.WallNamespace}, workspace(t, 1000))
	var forked httpapi.Accepted
	if err := s.call(t.Context(), "POST", "/sessions/"+id+"/fork", httpapi.ForkRequest{Sandbox: "share", Workspace: "share"}, &forked); err != nil {
		t.Fatal(err)
	}
	other := forked.SessionID
	awaitEvent(s, other, time.Minute, func(*task.TaskHostBound) bool { return true })
	ann, bob := s.viewBrowser(id, "ann"), s.viewBrowser(other, "bob")
	ann.until("a picture", func() bool { return ann.frames > 0 })
	bob.until("a picture", func() bool { return bob.frames > 0 })
	ann.ask(httpapi.BrowserSocket{Type: "take"}, "")
	for _, session := range []string{id, other} {
		if r := s.tool(session, "browser_extract", map[string]any{}); r.Status != task.CallError || !strings.Contains(r.Text, "a person has taken control") {
			t.Errorf("the agent of %s: %s %q", session, r.Status, r.Text)
		}
		awaitEvent(s, session, moments, func(c *task.BrowserControlChanged) bool { return c.Cause == task.ControlTaken })
	}
	ann.ask(httpapi.BrowserSocket{Type: "give_back"}, "")

	s.bash(id, "kill -9 $(pgrep -o chromium)")
	lost := func(n tabs.Notice) bool { return n.Kind == tabs.NoticeDisconnected || n.Kind == tabs.NoticeRestarted }
	bob.until("that the browser has ended", func() bool {
		if strings.Contains(bob.state.Lost, "failed to") {
			t.Errorf("in the words of the connection: %s", bob.state.Lost)
		}
		return bob.state.Lost != "" || slices.ContainsFunc(bob.state.Notices, lost)
	})
	seen := bob.frames
	bob.until("a picture of the next", func() bool { return bob.state.Lost == "" && bob.frames > seen })

	s.post(id, "release", httpapi.ReleaseRequest{How: "remove"})
	ann.end()
	if r := s.tool(other, "browser_navigate", map[string]any{"url": "about:blank"}); r.Status != task.CallOK && !strings.Contains(r.Text, "fresh look") {
		t.Errorf("the other's, after the first has let go: %s %q", r.Status, r.Text)
	}
	bob.ask(httpapi.BrowserSocket{Type: "take"}, "")
}

// Where there is no browser everybody is told so.
func TestBrowser_none(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: sandbox.WallLocal}, workspace(t, 1000))
	if b := s.browser(id); b.State != wire.BrowserNone || b.Error == "" || b.Live {
		t.Errorf("on the machine itself: %+v", b)
	}
	v := s.viewBrowser(id, "ann")
	if status := v.end(); status != websocket.StatusNormalClosure || len(v.faults) != 1 || v.faults[0].Code != "no_browser" {
		t.Errorf("a view: %v, %+v", status, v.faults)
	}
	if r := s.tool(id, "browser_extract", map[string]any{}); r.Status != task.CallError || !strings.Contains(r.Text, "no browser") {
		t.Errorf("a tool: %s %q", r.Status, r.Text)
	}
	for _, query := range []string{"", "?viewer=a%20b", "?viewer=a&width=x", "?viewer=a&dpr=NaN", "?viewer=a&quality=0", "?viewer=" + strings.Repeat("a", 65)} {
		var refused *apiError
		if err := s.call(t.Context(), "GET", "/sessions/"+id+"/browser/socket"+query, nil, nil); !errors.As(err, &refused) || refused.Code != "invalid_viewer" {
			t.Errorf("socket%s: %v", query, err)
		}
	}
}

// A file of the sandbox may be uploaded, and none of this machine.
func TestBrowser_uploads(t *testing.T) {
	t.Parallel()
	withChromium(t)
	s := start(t, dataDir(t))
	ws := workspace(t, 1000)
	id := s.opened(sandbox.Spec{Wall: sandbox.WallNamespace}, ws)
	page := s.site(id, ws, map[string]string{
		"up.html":  `<title>up</title><input type=file onchange="this.files[0].text().then(t => document.querySelector('p').textContent = 'got ' + t)"><p></p>`,
		"mine.txt": "of the workspace",
	}) + "up.html"
	secret := filepath.Join(t.TempDir(), "secret.txt")
	write(t, secret, "of this machine", 0)
	if r := s.tool(id, "browser_navigate", map[string]any{"url": page}); r.Status != task.CallOK {
		t.Fatalf("%s %q", r.Status, r.Text)
	}
	for _, file := range []string{secret, ".", "none.txt"} {
		if r := s.tool(id, "browser_upload", map[string]any{"selector": "input", "files": []string{file}}); r.Status == task.CallOK {
			t.Errorf("%s was uploaded: %q", file, r.Text)
		}
	}
	if r := s.tool(id, "browser_upload", map[string]any{"selector": "input", "files": []string{"mine.txt"}}); r.Status != task.CallOK {
		t.Fatalf("%s %q", r.Status, r.Text)
	}
	if r := s.tool(id, "browser_wait", map[string]any{"text": "of the workspace"}); r.Status != task.CallOK {
		t.Errorf("%s %q", r.Status, r.Text)
	}
}
