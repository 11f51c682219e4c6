//go:build linux

package guest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
)

func clientsAreApart(t *testing.T, c *client.Client) {
	one, two := openCDP(t, c), openCDP(t, c)
	a, b := one.page(), two.page()
	if a == b {
		t.Fatal("both clients have one session")
	}
	// The same ids at once, with answers that tell whose they are, out of order.
	const n = 50
	ask := func(c *cdp, session, name string) {
		for i := range n {
			c.send(session, "Runtime.evaluate", fmt.Sprintf(`{"awaitPromise":true,"returnByValue":true,"expression":"new Promise(r => setTimeout(() => r('%s-%d'), %d))"}`, name, i, (n-i)%7))
		}
	}
	first1, first2 := one.last+1, two.last+1
	ask(one, a, "one")
	ask(two, b, "two")
	collect := func(c *cdp, session, name string, first int) {
		for range n {
			m := c.read()
			want := fmt.Sprintf(`"%s-%d"`, name, m.ID-first)
			if m.Session != session || !strings.Contains(string(m.Result), want) {
				t.Errorf("%s got %+v %s, want %s", name, m, m.Result, want)
			}
		}
	}
	collect(one, a, "one", first1)
	collect(two, b, "two", first2)

	// What is another's cannot be used, and the answer is the browser's own.
	if m := two.ask(a, "Runtime.evaluate", `{"expression":"1"}`); m.Error == nil || m.Error.Code != -32001 {
		t.Errorf("a command for another's session: %+v", m)
	}
	// Events go to whoever asked for them, and end with the client.
	one.call("", "Target.setDiscoverTargets", `{"discover":true}`, nil)
	var made struct{ TargetID string }
	two.call("", "Target.createTarget", `{"url":"about:blank"}`, &made)
	one.event("Target.targetCreated", func(m cdpMessage) bool { return strings.Contains(string(m.Params), made.TargetID) })
	for _, m := range two.kept {
		if m.Method != "Target.attachedToTarget" {
			t.Errorf("the other client got %s %s", m.Method, m.Params)
		}
	}
	if s, err := c.BrowserStatus(t.Context()); err != nil || s.Clients != 2 {
		t.Errorf("clients = %d, %v", s.Clients, err)
	}
	if err := one.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	eventually(t, func() error {
		if s, err := c.BrowserStatus(t.Context()); err != nil || s.Clients != 1 {
			return fmt.Errorf("%d clients, %w", s.Clients, err)
		}
		return nil
	})
	if got := two.eval(b, "'still here'"); got != "still here" {
		t.Errorf("the client that stays: %q", got)
	}
}

// popUpsWait is about a client that wants to see a new tab before it has begun,
// as the guest does too.
func popUpsWait(t *testing.T, c *client.Client) {
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<script>window.early = navigator.onLine</script>")
	}))
	t.Cleanup(inside.Close)
	d := openCDP(t, c)
	d.call("", "Target.setAutoAttach", `{"autoAttach":true,"waitForDebuggerOnStart":true,"flatten":true}`, nil)
	opener := d.page()
	d.visit(opener, inside.URL)
	d.eval(opener, "String(window.open('/popped'))")
	got := d.event("Target.attachedToTarget", func(m cdpMessage) bool {
		return strings.Contains(string(m.Params), `"waitingForDebugger":true`)
	})
	var p struct{ SessionID string }
	if err := json.Unmarshal(got.Params, &p); err != nil {
		t.Fatal(err)
	}
	d.call(p.SessionID, "Runtime.runIfWaitingForDebugger", "{}", nil)
	eventually(t, func() error {
		if got := d.eval(p.SessionID, "location.pathname + ' ' + window.early"); got != "/popped true" {
			return errors.New(got)
		}
		return nil
	})
}

func bigMessages(t *testing.T, c *client.Client) {
	d := openCDP(t, c)
	session := d.page()
	for _, size := range []int{40 << 10, 5 << 20} {
		if got := len(d.eval(session, fmt.Sprintf("'x'.repeat(%d)", size))); got != size {
			t.Errorf("an answer of %d bytes came as %d", size, got)
		}
	}
	out := strings.Repeat("y", 5<<20)
	if got := d.eval(session, "'"+out+"'.length"); got != strconv.Itoa(len(out)) {
		t.Errorf("a command of %d bytes came as %s", len(out), got)
	}
}

func dropsASlowClient(t *testing.T, c *client.Client) {
	slow, quick := openCDP(t, c), openCDP(t, c)
	session := slow.page()
	for range 12 { // 48 MB that nobody reads
		slow.send(session, "Runtime.evaluate", `{"returnByValue":true,"expression":"'x'.repeat(4<<20)"}`)
	}
	if got := quick.eval(quick.page(), "'not held up'"); got != "not held up" {
		t.Errorf("the other client: %q", got)
	}
	eventually(t, func() error {
		if s, err := c.BrowserStatus(t.Context()); err != nil || s.Clients != 1 {
			return fmt.Errorf("%d clients, %w", s.Clients, err)
		}
		return nil
	})
	if err := slow.end(); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the slow one was told %v", err)
	}
}

func refusesWhatIsNoCommand(t *testing.T, c *client.Client) {
	for _, text := range []string{"", "[1]", `{"id":"a","method":"Target.getTargets"}`, `{"method":"Target.getTargets"}`, `{"id":1,"id":2}`, "{\"id\":1}\x00{\"id\":2}"} {
		d := openCDP(t, c)
		if err := d.conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		_, got, err := d.conn.Read(t.Context())
		if websocket.CloseStatus(err) != websocket.StatusInvalidFramePayloadData {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if got := openCDP(t, c).ask("", "Target.noSuchCommand", "{}"); got.Error == nil || got.Error.Code != -32601 {
		t.Errorf("a command that is none: %+v", got)
	}
}

func keepsATab(t *testing.T, c *client.Client) {
	d := openCDP(t, c)
	ids, _ := d.tabs()
	for _, id := range ids {
		d.call("", "Target.closeTarget", fmt.Sprintf(`{"targetId":%q}`, id), nil)
	}
	eventually(t, func() error {
		now, urls := d.tabs()
		if len(now) != 1 || slices.Contains(ids, now[0]) || urls[0] != "about:blank" {
			return fmt.Errorf("tabs %v with %v after closing %v", now, urls, ids)
		}
		return nil
	})
	if got := d.eval(d.page(), "location.href"); got != "about:blank" {
		t.Errorf("the new tab is at %q", got)
	}
}

// outside answers what leaves by the relay, and returns the hosts that were asked for.
func outside(t *testing.T, c *client.Client, answer http.HandlerFunc) (asked chan string) {
	t.Helper()
	l, err := c.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked = make(chan string, 100) // more than a page asks for
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host
		answer(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		l.Close()
		<-served
	})
	return asked
}

func leavesByTheRelayAlone(t *testing.T, c *client.Client) {
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "inside") }))
	t.Cleanup(inside.Close)
	asked := outside(t, c, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>by the relay to "+r.Host+"</title>")
	})
	d := openCDP(t, c)
	session := d.page()
	for _, host := range []string{"example.test", "10.1.2.3", "169.254.169.254"} {
		if fault := d.visit(session, "http://"+host+"/"); fault != "" {
			t.Errorf("%s: %s", host, fault)
		}
		if got := d.eval(session, "document.title"); got != "by the relay to "+host {
			t.Errorf("%s: %q", host, got)
		}
		if got := d.eval(session, "String(navigator.onLine)"); got != "true" {
			t.Errorf("onLine at %s = %s", host, got)
		}
	}
	if fault := d.visit(session, inside.URL); fault != "" || d.eval(session, "document.body.innerText") != "inside" {
		t.Errorf("a server inside: %s", fault)
	}
	close(asked)
	for host := range asked {
		if !slices.Contains([]string{"example.test", "10.1.2.3", "169.254.169.254"}, host) {
			t.Errorf("the browser by itself asked for %s", host)
		}
	}
}

// typingAsksNobody is about what Chromium would tell its makers of: a password that
// was sent, for whether it has leaked; a word, for a dictionary; a certificate that
// nobody knows, for whether a portal is in the way.
func typingAsksNobody(t *testing.T, c *client.Client) {
	form := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.Method == http.MethodPost {
			fmt.Fprint(w, "<p>welcome back")
			return
		}
		fmt.Fprint(w, `<form method=post action=/in><textarea></textarea><input name=user autocomplete=username>
			<input type=password name=pass autocomplete=current-password><button>Sign in</button></form>`)
	})
	inside, unknown := httptest.NewServer(form), httptest.NewTLSServer(form)
	t.Cleanup(inside.Close)
	t.Cleanup(unknown.Close)
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	asked := outside(t, c, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) })

	d := openCDP(t, c)
	session := d.page()
	if fault := d.visit(session, inside.URL); fault != "" {
		t.Fatal(fault)
	}
	for _, field := range []struct{ name, text string }{
		{"textarea", "helo wrold"}, {"[name=user]", "person@example.test"}, {"[name=pass]", "Tr0ub4dor&3x\r"},
	} {
		var at struct{ X, Y float64 }
		where := d.eval(session, fmt.Sprintf("(() => { const b = document.querySelector('%s').getBoundingClientRect(); return JSON.stringify({x: b.x + 5, y: b.y + 5}) })()", field.name))
		if err := json.Unmarshal([]byte(where), &at); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"mousePressed", "mouseReleased"} {
			d.call(session, "Input.dispatchMouseEvent", fmt.Sprintf(`{"type":%q,"x":%f,"y":%f,"button":"left","clickCount":1}`, kind, at.X, at.Y), nil)
		}
		for _, r := range field.text {
			press, _ := json.Marshal(map[string]any{"type": "keyDown", "text": string(r), "key": string(r)})
			if r == '\r' {
				press = []byte(`{"type":"keyDown","text":"\r","key":"Enter","code":"Enter","windowsVirtualKeyCode":13}`)
			}
			d.call(session, "Input.dispatchKeyEvent", string(press), nil)
		}
	}
	d.event("Page.loadEventFired", func(m cdpMessage) bool { return m.Session == session })
	if got := d.eval(session, "document.body.innerText"); got != "welcome back" {
		t.Errorf("after the form: %q", got)
	}
	if fault := d.visit(session, unknown.URL); !strings.Contains(fault, "ERR_CERT") {
		t.Errorf("a certificate that nobody knows: %q", fault)
	}
	for over := time.After(6 * time.Second); ; { // each came within three
		select {
		case host := <-asked:
			t.Errorf("the browser by itself asked for %s", host)
		case <-over:
			return
		}
	}
}

func downloadsWhereItSays(t *testing.T, c *client.Client) {
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="report.txt"`)
		fmt.Fprint(w, "a file")
	}))
	t.Cleanup(inside.Close)
	d := openCDP(t, c)
	s, err := c.BrowserStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	load := func(d *cdp) {
		d.call(d.page(), "Page.navigate", fmt.Sprintf(`{"url":%q}`, inside.URL), nil)
		file := filepath.Join(s.Downloads, "report.txt")
		eventually(t, func() error {
			body, err := os.ReadFile(file)
			if string(body) != "a file" {
				return fmt.Errorf("%q, %w", body, err)
			}
			return nil
		})
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
	load(d)
	// A client that has set something else takes that with it.
	other := openCDP(t, c)
	other.call("", "Browser.setDownloadBehavior", `{"behavior":"deny"}`, nil)
	if err := other.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	eventually(t, func() error {
		if s, err := c.BrowserStatus(t.Context()); err != nil || s.Clients != 1 {
			return fmt.Errorf("%d clients, %w", s.Clients, err)
		}
		return nil
	})
	load(d)
}

// dialogThatNobodySees is about dialogs that nobody can answer who was told of them:
// none was, or none is there any more. Whoever comes is not held up by them.
func dialogThatNobodySees(t *testing.T, c *client.Client) {
	ask := func(d *cdp, session, name string) {
		d.send(session, "Runtime.evaluate", fmt.Sprintf(`{"expression":"setTimeout(() => { window.%s = 'asked ' + confirm('sure?') }, 100)"}`, name))
	}
	leave := func(d *cdp) {
		if err := d.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
	}
	dismissed := func(d *cdp, session, name string) {
		eventually(t, func() error {
			if got := d.eval(session, "String(window."+name+")"); got != "asked false" {
				return errors.New(got)
			}
			return nil
		})
	}
	d := openCDP(t, c)
	ask(d, d.page(), "unseen")
	leave(d)
	d = openCDP(t, c)
	session := d.page()
	dismissed(d, session, "unseen")

	d.call(session, "Page.enable", "{}", nil)
	ask(d, session, "left")
	d.event("Page.javascriptDialogOpening", func(m cdpMessage) bool { return m.Session == session })
	next := openCDP(t, c)
	session = next.page()
	enabled := next.send(session, "Page.enable", "{}") // as one that comes back does before the old one has gone
	leave(d)
	for next.read().ID != enabled {
	}
	dismissed(next, session, "left")
}
