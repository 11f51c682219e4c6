package tabs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

func TestCrash(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": "<title>main</title>"})
	b, tab := open(t, tabs.Options{})
	visit(t, tab, url+"/")
	tab.Session().Post("Page.crash", nil)
	await(t, b, "the crash", func() bool { return tab.Info().Crashed })
	if _, err := tab.Frames(t.Context()); !errors.Is(err, tabs.ErrCrashed) {
		t.Errorf("Frames() on a crashed tab: %v", err)
	}
	visit(t, tab, url+"/")
	if _, err := tab.Frames(t.Context()); err != nil {
		t.Errorf("after navigating: %v", err)
	}
}

// TestReconnect cuts the connection, and kills the browser, under a Browser.
func TestReconnect(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": "<title>main</title>"})
	chrome := browsertest.Own(t)
	var mu sync.Mutex
	current := chrome
	var last *websocket.Conn
	b := tabs.New(tabs.Options{Dial: func(ctx context.Context) (*websocket.Conn, error) {
		mu.Lock()
		at := current.URL
		mu.Unlock()
		ws, err := devtools.Endpoint{URL: at}.Dial(ctx)
		last = ws
		return ws, err
	}})
	defer b.Close()
	tab, err := b.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	visit(t, tab, url+"/")
	number := tab.Number()
	last.CloseNow()
	await(t, b, "the end", func() bool { return !b.State().Connected })
	if err := tab.Alive(); !errors.Is(err, tabs.ErrBroken) {
		t.Errorf("Alive() = %v", err)
	}
	if tab, err = b.Active(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tab.Number() != number || tab.Info().URL != url+"/" {
		t.Errorf("after a reconnect: tab %d at %s", tab.Number(), tab.Info().URL)
	}
	chrome.Kill()
	await(t, b, "the end", func() bool { return !b.State().Connected })
	_, err = b.Active(t.Context())
	if !errors.Is(err, tabs.ErrUnreachable) {
		t.Errorf("with no browser: %v, want ErrUnreachable", err)
	}
	mu.Lock()
	current = browsertest.Own(t)
	mu.Unlock()
	if tab, err = b.Active(t.Context()); err != nil {
		t.Fatal(err)
	}
	visit(t, tab, url+"/")
	if !told(b, tabs.NoticeRestarted, "started again") {
		t.Errorf("the restart was not told: %+v", b.Notices(0))
	}
}

// A new connection finds the tabs as they were: the same one is active, none is told
// of as a new one, and none is taken for one that was opened for a file alone.
func TestReconnect_tabsAsTheyWere(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": "<title>main</title>", "/pop": "<title>pop</title>"})
	files := t.TempDir()
	if err := os.Chmod(files, 0o777); err != nil {
		t.Fatal(err)
	}
	place := browsertest.Alone(t)
	var last atomic.Pointer[websocket.Conn]
	b, tab := openIn(t, place, tabs.Options{Downloads: files, Dial: func(ctx context.Context) (*websocket.Conn, error) {
		ws, err := place.Dial(ctx)
		last.Store(ws)
		return ws, err
	}})
	visit(t, tab, url+"/")
	for n := 2; n <= 3; n++ {
		run(t, tab, `open("/pop"); 0`)
		await(t, b, "the pop-up", func() bool { c := b.Current(); return c.Number() == n && c.Info().Title == "pop" })
	}
	second, err := b.Find(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Activate(nil, second); err != nil {
		t.Fatal(err)
	}
	opened := func() (n int) {
		for _, o := range b.Notices(0) {
			if o.Kind == tabs.NoticeTabOpened {
				n++
			}
		}
		return n
	}
	before := opened()
	last.Load().CloseNow()
	await(t, b, "the end", func() bool { return !b.State().Connected })
	if tab, err = b.Active(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tab.Number() != 2 || tab.Info().URL != url+"/pop" || opened() != before {
		t.Errorf("after a reconnect tab %d is active, at %s, and %d tabs are told of as new", tab.Number(), tab.Info().URL, opened()-before)
	}
	run(t, tab, `location = "/file"; 0`)
	await(t, b, "the download", func() bool { d := b.Downloads(); return len(d) == 1 && d[0].State == tabs.DownloadDone })
	visit(t, tab, url+"/")
	if n := len(b.State().Tabs); n != 3 {
		t.Errorf("%d tabs are open after a download, want 3", n)
	}
}

// The end does not wait for a browser that is being started.
func TestBrowser_closedWhileItConnects(t *testing.T) {
	t.Parallel()
	dialling := make(chan struct{})
	b := tabs.New(tabs.Options{Dial: func(ctx context.Context) (*websocket.Conn, error) {
		close(dialling)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	failed := make(chan error, 1) // the one who sends never waits
	go func() { failed <- b.Connect(context.Background()) }()
	<-dialling
	began := time.Now()
	b.Close()
	if err := <-failed; !errors.Is(err, tabs.ErrClosed) {
		t.Errorf("Connect() = %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if _, err := b.Active(t.Context()); !errors.Is(err, tabs.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// nonsense is what a browser answers that is none: one in a sandbox may be anything.
// While dead is set it says nothing.
func nonsense(t *testing.T, dead *atomic.Bool) devtools.DialFunc {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		say := func(format string, a ...any) {
			ws.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, format, a...))
		}
		for {
			_, data, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var m struct {
				ID      int64  `json:"id"`
				Session string `json:"sessionId"`
				Method  string `json:"method"`
			}
			if err := json.Unmarshal(data, &m); err != nil {
				t.Error(err)
			}
			if dead.Load() {
				continue
			}
			result := `{}`
			switch {
			case m.Method == "Target.setAutoAttach" && m.Session == "":
				say(`{"method":"Target.attachedToTarget","params":{"sessionId":"S1","targetInfo":null}}`)
				say(`{"method":"Target.attachedToTarget","params":{"sessionId":"S1","targetInfo":{"targetId":"T1","type":"page","url":"http://x/"}}}`)
				say(`{"method":"Runtime.consoleAPICalled","sessionId":"S1","params":{"type":"log","args":[null],"executionContextId":1,"timestamp":1,"stackTrace":{"callFrames":[null]}}}`)
				say(`{"method":"Page.frameNavigated","sessionId":"S1","params":{"frame":null}}`)
			case m.Method == "Page.getNavigationHistory":
				result = `{"currentIndex":1,"entries":[null,null]}`
			case m.Method == "Page.getFrameTree":
				result = `{"frameTree":null}`
			}
			if m.Session != "" {
				say(`{"id":%d,"sessionId":%q,"result":%s}`, m.ID, m.Session, result)
			} else {
				say(`{"id":%d,"result":%s}`, m.ID, result)
			}
		}
	}))
	t.Cleanup(srv.Close)
	return devtools.Endpoint{URL: "ws" + strings.TrimPrefix(srv.URL, "http")}.Dial
}

func TestBrowser_thatMakesNoSense(t *testing.T) {
	t.Parallel()
	b := tabs.New(tabs.Options{Dial: nonsense(t, new(atomic.Bool))})
	defer b.Close()
	tab, err := b.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if frames, err := tab.Frames(t.Context()); err == nil {
		t.Errorf("frames of no document: %+v", frames)
	}
	if _, err := tab.History(t.Context(), nil, -1); !errors.Is(err, tabs.ErrNoHistory) {
		t.Errorf("a history of nothing: %v", err)
	}
	if n := len(tab.Console()); n != 1 {
		t.Errorf("%d lines of the console", n)
	}
}

// A network that goes away closes no connection. Its browser is told from a page that
// is stuck, and the call after the one that found out goes by a new connection.
func TestBrowser_whoseNetworkWentAway(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	b := tabs.New(tabs.Options{Dial: nonsense(t, &dead)})
	defer b.Close()
	tab, err := b.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dead.Store(true)
	if _, err := tab.History(t.Context(), nil, -1); !errors.Is(err, tabs.ErrBroken) {
		t.Errorf("a call that nobody answers: %v, want ErrBroken", err)
	}
	dead.Store(false)
	if tab, err = b.Active(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.History(t.Context(), nil, -1); !errors.Is(err, tabs.ErrNoHistory) {
		t.Errorf("the call after it: %v, want ErrNoHistory", err)
	}
}

// A page that is stuck, crashed or asks without end can be left in every way there is.
func TestTab_leavesWhatIsStuck(t *testing.T) {
	leave := map[string]func(*tabs.Tab, string) (tabs.Loaded, error){
		"navigate": func(tab *tabs.Tab, url string) (tabs.Loaded, error) { return tab.Navigate(t.Context(), nil, url) },
		"reload":   func(tab *tabs.Tab, _ string) (tabs.Loaded, error) { return tab.Reload(t.Context(), nil) },
		"back":     func(tab *tabs.Tab, _ string) (tabs.Loaded, error) { return tab.History(t.Context(), nil, -1) },
	}
	asks := func(tab *tabs.Tab) bool { return tab.Dialog() != nil }
	for name, stick := range map[string]struct {
		script string
		inline bool // it is of the page itself, which never has loaded
		is     func(*tabs.Tab) bool
	}{
		"spins":            {`while (true);`, false, func(*tabs.Tab) bool { return true }},
		"asks":             {`while (true) if (confirm("Stay?")) break`, false, asks},
		"spins at loading": {`while (true);`, true, func(tab *tabs.Tab) bool { return strings.HasSuffix(tab.Info().URL, "/stuck") }},
		"asks at loading":  {`while (true) if (confirm("Stay?")) break`, true, asks},
		"crashed":          {"", false, func(tab *tabs.Tab) bool { return tab.Info().Crashed }},
	} {
		for how, left := range leave {
			if stick.inline && how == "reload" && name == "spins at loading" {
				continue // it is just as stuck afterwards
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				b, tab := open(t, tabs.Options{})
				url := site(t, map[string]string{
					"/": "<title>first</title>", "/second": "<title>second</title>",
					"/stuck": "<title>stuck</title><script>" + stick.script + "</script>",
				})
				visit(t, tab, url+"/")
				switch {
				case stick.inline:
					tab.Session().Post("Page.navigate", map[string]string{"url": url + "/stuck"})
				case stick.script == "":
					visit(t, tab, url+"/second")
					tab.Session().Post("Page.crash", nil)
				case name == "spins":
					visit(t, tab, url+"/second")
					spin(tab, stick.script)
				default:
					visit(t, tab, url+"/second")
					run(t, tab, "setTimeout(() => { "+stick.script+" }); 1")
				}
				await(t, b, "what is left", func() bool { return stick.is(tab) })
				for name == "spins at loading" { // not before its script runs
					probe, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					_, err := cdp.Call(probe, tab.Session(), runtime.Evaluate, runtime.EvaluateParams{Expression: "1"})
					cancel()
					if errors.Is(err, context.DeadlineExceeded) {
						break
					}
				}
				began := time.Now()
				l, err := left(tab, url+"/")
				if took := time.Since(began); err != nil || took > 20*time.Second {
					t.Fatalf("%+v, %v after %v", l, err, took)
				}
				want := func(i tabs.Info) bool { return i.Title == "first" }
				if how == "reload" {
					want = func(i tabs.Info) bool { return i.Title == "second" || stick.inline && tab.Dialog() != nil }
				}
				await(t, b, "the page", func() bool { i := tab.Info(); return want(i) && !i.Crashed })
			})
		}
	}
}
