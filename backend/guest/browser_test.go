//go:build linux

package guest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// needChromium skips a test on a machine without a browser.
func needChromium(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("GLOVEBOX_TEST_REQUIRE"), ","), "chromium") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// cdp is a client of the browser in a test.
type cdp struct {
	t    *testing.T
	conn *websocket.Conn
	last int
	kept []cdpMessage // events that came while an answer was waited for
}

type cdpMessage struct {
	ID      int             `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func openCDP(t *testing.T, c *client.Client) *cdp {
	t.Helper()
	conn, err := c.CDP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	return &cdp{t: t, conn: conn}
}

func (c *cdp) read() (m cdpMessage) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	_, text, err := c.conn.Read(ctx)
	if err != nil {
		c.t.Fatalf("read of the browser: %v", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		c.t.Fatalf("%.200s: %v", text, err)
	}
	return m
}

// end reads on until the connection ends, and returns why it did.
func (c *cdp) end() error {
	for {
		if _, _, err := c.conn.Read(c.t.Context()); err != nil {
			return err
		}
	}
}

// send sends a command and returns its id.
func (c *cdp) send(session, method, params string) int {
	c.t.Helper()
	c.last++
	text := fmt.Sprintf(`{"id":%d,"method":%q,"params":%s`, c.last, method, params)
	if session != "" {
		text += fmt.Sprintf(`,"sessionId":%q`, session)
	}
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, []byte(text+"}")); err != nil {
		c.t.Fatal(err)
	}
	return c.last
}

// ask sends a command and waits for its answer.
func (c *cdp) ask(session, method, params string) cdpMessage {
	c.t.Helper()
	for id := c.send(session, method, params); ; {
		m := c.read()
		switch {
		case m.Method != "":
			c.kept = append(c.kept, m)
		case m.ID != id || m.Session != session:
			c.t.Fatalf("answer %d of session %q, want %d of %q", m.ID, m.Session, id, session)
		default:
			return m
		}
	}
}

// call is ask for a command that has to succeed; it reads the result into v.
func (c *cdp) call(session, method, params string, v any) {
	c.t.Helper()
	m := c.ask(session, method, params)
	if m.Error != nil {
		c.t.Fatalf("%s: %s", method, m.Error.Message)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(m.Result, v); err != nil {
		c.t.Fatal(err)
	}
}

// event waits for an event that is wanted.
func (c *cdp) event(method string, wanted func(cdpMessage) bool) cdpMessage {
	c.t.Helper()
	for i, m := range c.kept {
		if m.Method == method && wanted(m) {
			c.kept = slices.Delete(c.kept, i, i+1)
			return m
		}
	}
	for {
		if m := c.read(); m.Method == method && wanted(m) {
			return m
		}
	}
}

// tabs lists the open tabs.
func (c *cdp) tabs() (ids, urls []string) {
	c.t.Helper()
	var list struct {
		Infos []struct {
			ID   string `json:"targetId"`
			Type string `json:"type"`
			URL  string `json:"url"`
		} `json:"targetInfos"`
	}
	c.call("", "Target.getTargets", "{}", &list)
	for _, i := range list.Infos {
		if i.Type == "page" {
			ids, urls = append(ids, i.ID), append(urls, i.URL)
		}
	}
	return ids, urls
}

// attach returns a session to a tab.
func (c *cdp) attach(target string) string {
	c.t.Helper()
	var r struct{ SessionID string }
	c.call("", "Target.attachToTarget", fmt.Sprintf(`{"targetId":%q,"flatten":true}`, target), &r)
	return r.SessionID
}

// page attaches to the first tab.
func (c *cdp) page() string {
	c.t.Helper()
	ids, _ := c.tabs()
	if len(ids) == 0 {
		c.t.Fatal("the browser has no tab")
	}
	return c.attach(ids[0])
}

// visit loads a page and returns the browser's error, "" for none.
func (c *cdp) visit(session, url string) string {
	c.t.Helper()
	c.call(session, "Page.enable", "{}", nil)
	var r struct{ LoaderID, ErrorText string }
	c.call(session, "Page.navigate", fmt.Sprintf(`{"url":%q}`, url), &r)
	if r.ErrorText == "" {
		c.event("Page.loadEventFired", func(m cdpMessage) bool { return m.Session == session })
	}
	return r.ErrorText
}

// eval evaluates an expression whose value is a string.
func (c *cdp) eval(session, expression string) string {
	c.t.Helper()
	var r struct {
		Result struct{ Value json.RawMessage } `json:"result"`
	}
	params, _ := json.Marshal(map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	c.call(session, "Runtime.evaluate", string(params), &r)
	var s string
	if json.Unmarshal(r.Result.Value, &s) != nil {
		return string(r.Result.Value)
	}
	return s
}

// browserWalls are the walls as far as they change how a browser is started.
var browserWalls = map[string][]func(*place){
	"group": {asInDocker},
	"uts":   {uts, withNamespace},
}

func TestBrowser_startsOnDemandAsTheUser(t *testing.T) {
	needChromium(t)
	for name, change := range browserWalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, change...)
			c := p.start()
			before, err := c.BrowserStatus(t.Context())
			if err != nil || before.State != wire.BrowserStopped || before.Program == "" || before.PID != 0 || before.LastEnd != nil {
				t.Fatalf("before: %+v, %v", before, err)
			}
			d := openCDP(t, c)
			session := d.page()
			if got := d.visit(session, "data:text/html,<title>hello</title>"); got != "" {
				t.Fatal(got)
			}
			if got := d.eval(session, "document.title"); got != "hello" {
				t.Errorf("title = %q", got)
			}
			now, err := c.BrowserStatus(t.Context())
			if err != nil || now.State != wire.BrowserRunning || !strings.HasPrefix(now.Version, "Chrome/") || now.Since == nil || now.Clients != 1 {
				t.Errorf("while it runs: %+v, %v", now, err)
			}
			if now.Sandboxed == (now.Unsandboxed != "") {
				t.Errorf("sandboxed %v, because %q", now.Sandboxed, now.Unsandboxed)
			}
			uid := 1234
			if p.cfg.Tag == wire.TagUTS {
				uid = 0
			}
			processes := tagged(now.Profile)
			if len(processes) == 0 {
				t.Fatalf("no process with the profile %s", now.Profile)
			}
			for _, pid := range processes {
				if got := ownerOf(t, pid); got != uid {
					t.Errorf("process %s runs as %d, want %d", pid, got, uid)
				}
			}
			if s, err := c.Stats(t.Context()); err != nil || s.Processes != 0 {
				t.Errorf("a browser counts as %d processes of commands, %v", s.Processes, err)
			}
			after, err := c.BrowserStop(t.Context())
			if err != nil || after.State != wire.BrowserStopped || after.LastEnd == nil || after.LastEnd.Cause != wire.BrowserEndStop || len(after.LastEnd.Kill.Left) != 0 {
				t.Errorf("after the stop: %+v, %v", after, err)
			}
			if left := tagged(now.Profile); len(left) != 0 {
				t.Errorf("left of it: %v", left)
			}
			var closed websocket.CloseError
			if err := d.end(); !errors.As(err, &closed) || closed.Code != websocket.StatusGoingAway || !strings.Contains(closed.Reason, "stop") {
				t.Errorf("its client was told %v", err)
			}
			if again, err := c.BrowserStop(t.Context()); err != nil || again.State != wire.BrowserStopped {
				t.Errorf("a second stop: %+v, %v", again, err)
			}
		})
	}
}

// TestBrowser_serves is about one browser that runs all the time.
func TestBrowser_serves(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker, withRelay)
	c := p.start()
	for _, story := range []struct {
		name string
		test func(*testing.T, *client.Client)
	}{
		{"leaves by the relay alone", leavesByTheRelayAlone},
		{"clients are apart", clientsAreApart},
		{"pop-ups wait for their client", popUpsWait},
		{"big messages", bigMessages},
		{"a slow client is dropped", dropsASlowClient},
		{"what is no command", refusesWhatIsNoCommand},
		{"the last tab", keepsATab},
		{"downloads", downloadsWhereItSays},
		{"a dialog that nobody sees", dialogThatNobodySees},
	} {
		t.Run(story.name, func(t *testing.T) { story.test(t, c) })
		// One story's connections are over before the next one counts them.
		eventually(t, func() error {
			if s, err := c.BrowserStatus(t.Context()); err != nil || s.Clients != 0 {
				return fmt.Errorf("%d clients, %w", s.Clients, err)
			}
			return nil
		})
	}
	if s, err := c.BrowserStatus(t.Context()); err != nil || s.LastEnd != nil {
		t.Errorf("it has ended meanwhile: %+v, %v", s.LastEnd, err)
	}
}

func ownerOf(t *testing.T, pid string) int {
	t.Helper()
	info, err := os.Stat("/proc/" + pid)
	if err != nil {
		return -1 // it has ended
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

func TestBrowser_endsWithTheGuest(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker)
	c := p.start()
	b, err := c.BrowserStart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(tagged(b.Profile)) == 0 {
		t.Fatal("no process of the browser")
	}
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left := tagged(b.Profile); len(left) != 0 {
		t.Errorf("left of it: %v", left)
	}
}

func TestBrowser_leavesNothingWhereItIsAGuest(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker, func(p *place) { p.cfg.Adopted = true })
	c := p.start()
	before, err := os.ReadDir(p.cfg.Home)
	if err != nil {
		t.Fatal(err)
	}
	d := openCDP(t, c)
	if got := d.visit(d.page(), "data:text/html,<title>hello</title>"); got != "" {
		t.Error(got)
	}
	b, err := c.BrowserStatus(t.Context())
	if err != nil || filepath.Dir(filepath.Dir(b.Profile)) != "/tmp" || filepath.Dir(b.Profile) != filepath.Dir(b.Downloads) {
		t.Errorf("status %+v, %v", b, err)
	}
	if after, err := os.ReadDir(p.cfg.Home); err != nil || len(after) != len(before) {
		t.Errorf("its HOME has %v, %v", after, err)
	}
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(b.Profile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", filepath.Dir(b.Profile), err)
	}
}

func TestBrowser_comesBackAfterACrash(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker)
	c := p.start()
	d := openCDP(t, c)
	first, err := c.BrowserStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sh := sh(t, c, "kill -9 "+strconv.Itoa(first.PID))
	if sh.ExitCode != 0 {
		t.Fatalf("kill: %s", text(sh.Stderr))
	}
	var closed websocket.CloseError
	if err := d.end(); !errors.As(err, &closed) || closed.Code != websocket.StatusGoingAway || !strings.Contains(closed.Reason, "killed") {
		t.Errorf("its client was told %v", err)
	}
	d = openCDP(t, c)
	if got := d.eval(d.page(), "1+1"); got != "2" {
		t.Errorf("1+1 = %s", got)
	}
	second, err := c.BrowserStatus(t.Context())
	if err != nil || second.PID == first.PID || second.LastEnd == nil || second.LastEnd.Cause != wire.BrowserEndCrash {
		t.Errorf("after the crash: %+v, %v", second, err)
	}
	// A client may end it too, and nothing is left then either.
	d.call("", "Browser.close", "{}", nil)
	eventually(t, func() error {
		if b, err := c.BrowserStatus(t.Context()); err != nil || b.State != wire.BrowserStopped || b.LastEnd.Cause != wire.BrowserEndStop {
			return fmt.Errorf("%+v, %w", b, err)
		}
		return nil
	})
	if left := tagged(second.Profile); len(left) != 0 {
		t.Errorf("left of it: %v", left)
	}
}

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

func TestBrowser_profileOfADeadOneIsFreed(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker)
	c := p.start()
	b, err := c.BrowserStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(b.Profile, "SingletonLock")
	hello, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, owner := range map[string]string{
		"another host":          "elsewhere-1",
		"this host, no browser": hello.Hostname + "-1",
	} {
		if o := sh(t, c, fmt.Sprintf("mkdir -p %s && ln -sfn %s %s", b.Profile, owner, lock)); o.ExitCode != 0 {
			t.Fatal(text(o.Stderr))
		}
		if _, err := c.BrowserStart(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.Readlink(lock); got == owner {
			t.Errorf("%s: the lock is still there", name)
		}
		if _, err := c.BrowserStop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestBrowser_profileOfALiveOneIsLeft(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker)
	c := p.start()
	b, err := c.BrowserStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// One that was started by hand with the profile, as far as anybody can tell.
	o := sh(t, c, fmt.Sprintf(`mkdir -p %[1]s; sh -c 'sleep 1000; :' sh --user-data-dir=%[1]s >/dev/null 2>&1 & echo $!; ln -sfn $(hostname)-$! %[1]s/SingletonLock`, b.Profile))
	pid := strings.TrimSpace(text(o.Stdout))
	_, err = c.BrowserStart(t.Context())
	if !errors.Is(err, execenv.ErrBusy) || !strings.Contains(err.Error(), pid) {
		t.Errorf("with a live one (%s): %v", pid, err)
	}
	if s, err := c.BrowserStatus(t.Context()); err != nil || s.State != wire.BrowserStopped || !strings.Contains(s.Error, pid) {
		t.Errorf("status: %+v, %v", s, err)
	}
	sh(t, c, "kill "+pid)
	eventually(t, func() error {
		_, err := c.BrowserStart(t.Context())
		return err
	})

	// And of another sandbox that has the same HOME mounted.
	other := newPlace(t, asInDocker, func(q *place) { q.cfg.Home = p.cfg.Home })
	if _, err := other.start().BrowserStart(t.Context()); !errors.Is(err, execenv.ErrBusy) {
		t.Errorf("a profile that two sandboxes have: %v", err)
	}
}

func leavesByTheRelayAlone(t *testing.T, c *client.Client) {
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "inside") }))
	t.Cleanup(inside.Close)
	l, err := c.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 100) // more than a page asks for
	outside := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>by the relay to "+r.Host+"</title>")
	})}
	served := make(chan error, 1)
	go func() { served <- outside.Serve(l) }()
	t.Cleanup(func() {
		outside.Close()
		l.Close()
		<-served
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

func dialogThatNobodySees(t *testing.T, c *client.Client) {
	d := openCDP(t, c)
	session := d.page()
	d.send(session, "Runtime.evaluate", `{"expression":"setTimeout(() => { window.answer = 'asked ' + confirm('sure?') }, 100)"}`)
	if err := d.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	d = openCDP(t, c)
	session = d.page()
	eventually(t, func() error {
		if got := d.eval(session, "String(window.answer)"); got != "asked false" {
			return errors.New(got)
		}
		return nil
	})
}

func TestBrowser_none(t *testing.T) {
	p := newPlace(t, asInDocker, func(p *place) { p.cfg.Env = []string{"PATH=/nowhere"} })
	c := p.start()
	s, err := c.BrowserStatus(t.Context())
	if err != nil || s.State != wire.BrowserNone || !strings.Contains(s.Error, "google-chrome-stable") || !strings.Contains(s.Error, "glovebox image build") {
		t.Errorf("status: %+v, %v", s, err)
	}
	if _, err := c.BrowserStart(t.Context()); !errors.Is(err, execenv.ErrNoBrowser) {
		t.Errorf("start: %v", err)
	}
	if _, err := c.CDP(t.Context()); !errors.Is(err, execenv.ErrNoBrowser) || !strings.Contains(err.Error(), "chromium-browser") {
		t.Errorf("a client: %v", err)
	}
}

func TestBrowser_thatDoesNotStart(t *testing.T) {
	p := newPlace(t, asInDocker, func(p *place) { p.cfg.Env = []string{"PATH=" + filepath.Dir(p.cfg.Socket) + "/bin:/usr/bin:/bin"} })
	program := filepath.Join(filepath.Dir(p.cfg.Socket), "bin", "chromium")
	if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\nsleep 1000 &\necho a library is missing >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := p.start()
	_, err := c.BrowserStart(t.Context())
	if !errors.Is(err, execenv.ErrBrowser) || !strings.Contains(err.Error(), "exit status 3: a library is missing") {
		t.Errorf("start: %v", err)
	}
	if s, _ := c.BrowserStatus(t.Context()); !strings.Contains(s.Error, "a library is missing") {
		t.Errorf("status: %+v", s)
	}
	if o := sh(t, c, "pgrep -f 'slee[p] 1000'"); o.ExitCode == 0 {
		t.Errorf("left of it: %s", text(o.Stdout))
	}
}
