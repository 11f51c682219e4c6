package tabs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// site serves pages by path.
func site(t *testing.T, pages map[string]string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, body)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="report.csv"`)
		fmt.Fprint(w, "a,b\n1,2\n")
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, r *http.Request) {
		if name, word, _ := r.BasicAuth(); name != "ann" || word != "open" {
			w.Header().Set("WWW-Authenticate", `Basic realm="vault"`)
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, "<h1>no entry</h1>")
			return
		}
		fmt.Fprint(w, "<title>inside</title>")
	})
	end := make(chan struct{})
	mux.HandleFunc("/silent", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>endless</title><h1>here already</h1>")
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(end) })
	return srv.URL
}

func open(t *testing.T, o tabs.Options) (*tabs.Browser, *tabs.Tab) {
	t.Helper()
	return openIn(t, browsertest.Context(t), o)
}

func openIn(t *testing.T, place browsertest.Place, o tabs.Options) (*tabs.Browser, *tabs.Tab) {
	t.Helper()
	o.Context = place.ID
	if o.Dial == nil {
		o.Dial = place.Dial
	}
	b := tabs.New(o)
	t.Cleanup(func() { b.Close() })
	tab, err := b.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b, tab
}

func visit(t *testing.T, tab *tabs.Tab, url string) tabs.Loaded {
	t.Helper()
	l, err := tab.Navigate(t.Context(), nil, url)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run evaluates in the page itself, as its own scripts do, after a click's worth
// of activation.
func run(t *testing.T, tab *tabs.Tab, script string) {
	t.Helper()
	yes := true
	tab.Acted()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := cdp.Call(ctx, tab.Session(), runtime.Evaluate, runtime.EvaluateParams{Expression: script, UserGesture: &yes}); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}

// spin has a page run a script without end; what is asked of it from here on comes
// behind that.
func spin(tab *tabs.Tab, script string) {
	tab.Session().Post(runtime.Evaluate.Method, runtime.EvaluateParams{Expression: script})
}

// await returns when the browser is as ok says.
func await(t *testing.T, b *tabs.Browser, what string, ok func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		bell := b.Watch()
		if ok() {
			return
		}
		select {
		case <-bell:
		case <-limit:
			t.Fatalf("%s did not come about within 20 s; state %+v, notices %+v", what, b.State(), b.Notices(0))
		}
	}
}

func told(b *tabs.Browser, kind, part string) bool {
	for _, n := range b.Notices(0) {
		if n.Kind == kind && strings.Contains(n.Text, part) {
			return true
		}
	}
	return false
}

func TestTab_navigate(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": "<title>one</title><a href='#x'>x</a>", "/two": "<title>two</title>"})
	b, tab := open(t, tabs.Options{})
	if l := visit(t, tab, url+"/"); !l.Complete {
		t.Error("the page did not load")
	}
	await(t, b, "the title", func() bool { return tab.Info().Title == "one" })
	visit(t, tab, url+"/#x")
	await(t, b, "the address", func() bool { return tab.Info().URL == url+"/#x" })
	visit(t, tab, url+"/two")
	if _, err := tab.History(t.Context(), nil, -2); err != nil {
		t.Fatal(err)
	}
	if got := tab.Info().URL; got != url+"/" {
		t.Errorf("two back: %s", got)
	}
	if _, err := tab.History(t.Context(), nil, 9); !errors.Is(err, tabs.ErrNoHistory) {
		t.Errorf("forward beyond the end: %v", err)
	}
	if _, err := tab.Reload(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	_, err := tab.Navigate(t.Context(), nil, "http://127.0.0.1:1/")
	if fault, ok := errors.AsType[*tabs.NavigateError](err); !ok || !strings.Contains(fault.Code, "ERR_") {
		t.Errorf("a port that nobody has: %v", err)
	}
}

func TestAddress(t *testing.T) {
	for typed, want := range map[string]string{
		"https://a.example/x?y":  "https://a.example/x?y",
		" a.example/x ":          "https://a.example/x",
		"localhost:3000/a":       "http://localhost:3000/a",
		"127.0.0.1":              "http://127.0.0.1",
		"about:blank":            "about:blank",
		"HTTP://a.example":       "http://a.example",
		"file:///etc/passwd":     "",
		"FILE:///etc/passwd":     "",
		"chrome://settings":      "",
		"chrome:about":           "",
		"javascript:alert(1)":    "",
		"java\tscript:alert(1)":  "",
		"data:text/html,hi":      "",
		"view-source:http://a.b": "",
		"blob:http://a.b/1":      "",
		"devtools://x":           "",
		"about:config":           "",
		"ftp://a.b":              "",
		"http://":                "",
		"":                       "",
		"word":                   "",
		"two words.com":          "",
	} {
		got, err := tabs.Address(typed)
		if got != want || (want == "") != errors.Is(err, tabs.ErrForbidden) {
			t.Errorf("Address(%q) = %q, %v; want %q", typed, got, err, want)
		}
	}
}

func TestTab_loadsWithoutEnd(t *testing.T) {
	t.Parallel()
	url := site(t, nil)
	_, tab := open(t, tabs.Options{})
	began := time.Now()
	l, err := tab.Navigate(t.Context(), nil, url+"/endless")
	if err != nil {
		t.Fatal(err)
	}
	if l.Complete {
		t.Error("a page without end is said to have loaded")
	}
	if took := time.Since(began); took > tabs.LoadTime+5*time.Second {
		t.Errorf("took %v", took)
	}
	var text string
	frames, err := tab.Frames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := frames[0].Eval(t.Context(), "() => document.body.innerText", &text); err != nil || text != "here already" {
		t.Errorf("what is there of it: %q, %v", text, err)
	}
}

func TestTab_serverThatNeverAnswers(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": "<title>one</title>"})
	_, tab := open(t, tabs.Options{})
	if _, err := tab.Navigate(t.Context(), nil, url+"/silent"); !errors.Is(err, tabs.ErrStuck) {
		t.Errorf("Navigate() = %v, want ErrStuck", err)
	}
	visit(t, tab, url+"/")
}

func TestTab_auth(t *testing.T) {
	t.Parallel()
	url := site(t, nil)
	b, tab := open(t, tabs.Options{})
	_, err := tab.Navigate(t.Context(), nil, url+"/secret")
	if fault, ok := errors.AsType[*tabs.NavigateError](err); !ok || !strings.Contains(fault.Error(), "user name and a password") {
		t.Errorf("Navigate() = %v", err)
	}
	visit(t, tab, strings.Replace(url, "http://", "http://ann:open@", 1)+"/secret")
	await(t, b, "the page inside", func() bool { return tab.Info().Title == "inside" })
	if strings.Contains(tab.Info().URL, "open@") {
		t.Errorf("the URL holds the password: %s", tab.Info().URL)
	}
}

func TestDialogs(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{
		"/":      `<title>main</title>`,
		"/load":  `<script>alert("on load")</script><title>after</title>`,
		"/frame": `<iframe srcdoc="<script>alert('from a frame')</script>"></iframe>`,
		"/stay":  `<title>stay</title><script>addEventListener("beforeunload", e => { e.preventDefault(); e.returnValue = "x" })</script>`,
	})
	b, tab := open(t, tabs.Options{})
	visit(t, tab, url+"/load")
	if !told(b, tabs.NoticeDialog, `alert "on load" was accepted`) {
		t.Errorf("alert on load: %+v", b.Notices(0))
	}
	visit(t, tab, url+"/frame")
	await(t, b, "the frame's alert", func() bool { return told(b, tabs.NoticeDialog, "from a frame") })
	visit(t, tab, url+"/")
	run(t, tab, `for (let i = 0; i < 20; i++) alert("loop " + i)`)
	if !told(b, tabs.NoticeDialog, "loop 19") {
		t.Error("20 alerts were not all accepted")
	}

	run(t, tab, `setTimeout(() => { document.title = "said " + confirm("Delete?") })`)
	await(t, b, "the confirm", func() bool { d := tab.Dialog(); return d != nil && d.Text == "Delete?" })
	if s := b.State(); s.Dialog == nil || s.Dialog.Kind != "confirm" {
		t.Errorf("the state does not show the dialog: %+v", s)
	}
	_, err := tabs.Call(t.Context(), tab, tab.Session(), runtime.Evaluate, runtime.EvaluateParams{Expression: "1"})
	if _, ok := errors.AsType[*tabs.DialogError](err); !ok {
		t.Errorf("a call under a dialog: %v, want DialogError", err)
	}
	if err := tab.Answer(true, ""); err != nil {
		t.Fatal(err)
	}
	await(t, b, "the answer", func() bool { return tab.Info().Title == "said true" })
	if err := tab.Answer(true, ""); !errors.Is(err, tabs.ErrNoDialog) {
		t.Errorf("a second answer: %v", err)
	}
	run(t, tab, `setTimeout(() => { document.title = "named " + prompt("Name?", "x") })`)
	await(t, b, "the prompt", func() bool { return tab.Dialog() != nil })
	if err := tab.Answer(true, "Ünal"); err != nil {
		t.Fatal(err)
	}
	await(t, b, "the name", func() bool { return tab.Info().Title == "named Ünal" })
	run(t, tab, `setTimeout(() => { document.title = "late " + confirm("Sure?") })`)
	await(t, b, "the dismissal by time", func() bool {
		return tab.Info().Title == "late false" || told(b, tabs.NoticeDialog, `"Sure?" was dismissed: nobody`)
	})

	visit(t, tab, url+"/stay")
	run(t, tab, `document.body.click()`)
	visit(t, tab, url+"/")
}

func TestPopups(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": "<title>main</title>", "/pop": "<title>pop</title>",
		"/chain": `<script>const n = Number(location.search.slice(1)); if (n < 10) open("/chain?" + (n + 1))</script>`})
	files := t.TempDir()
	if err := os.Chmod(files, 0o777); err != nil {
		t.Fatal(err)
	}
	b, tab := openIn(t, browsertest.Alone(t), tabs.Options{Max: 4, Downloads: files})
	visit(t, tab, url+"/")
	run(t, tab, `setTimeout(() => window.pop = open("/pop"), 300); 0`)
	await(t, b, "the pop-up", func() bool { c := b.Current(); return c != nil && c.Info().Title == "pop" })
	if !told(b, tabs.NoticeTabOpened, "tab 1 opened tab 2: it is the active tab now") && !told(b, tabs.NoticeTabOpened, "Tab 1 opened tab 2: it is the active tab now") {
		t.Errorf("notices: %+v", b.Notices(0))
	}
	run(t, tab, `pop.close(); 0`)
	await(t, b, "the return to the opener", func() bool { return b.Current() == tab && len(b.State().Tabs) == 1 })

	run(t, tab, `open("/file"); 0`)
	await(t, b, "the download", func() bool { d := b.Downloads(); return len(d) == 1 && d[0].State == tabs.DownloadDone })
	await(t, b, "no blank tab", func() bool { return len(b.State().Tabs) == 1 && b.Current() == tab })
	d := b.Downloads()[0]
	if d.Name != "report.csv" || d.Received != 8 || d.Path != filepath.Join(files, "report.csv") {
		t.Errorf("download = %+v", d)
	}

	for i := range 10 {
		run(t, tab, fmt.Sprintf(`open("/pop?%d"); 0`, i))
	}
	refused := func() (n int) {
		for _, o := range b.Notices(0) {
			if o.Kind == tabs.NoticeTabRefused && strings.Contains(o.Text, "no more may be") {
				n++
			}
		}
		return n
	}
	await(t, b, "the cap", func() bool { return refused() == 7 })
	await(t, b, "four tabs", func() bool { return len(b.State().Tabs) == 4 })
	// Those that are refused open no others in their place.
	run(t, tab, `open("/chain?1"); 0`)
	for over := false; !over; {
		bell := b.Watch()
		select {
		case <-bell:
		case <-time.After(time.Second): // nothing has happened for as long
			over = refused() > 7
		}
	}
	if n := len(b.State().Tabs); n != 4 {
		t.Errorf("%d tabs are open, of four that may be", n)
	}
	for len(b.State().Tabs) > 0 {
		if err := b.CloseTab(t.Context(), nil, b.Current()); err != nil {
			t.Fatal(err)
		}
	}
	again, err := b.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	visit(t, again, url+"/")
}

// What somebody may not do is not done, and changes nothing.
func TestGate(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": "<title>main</title>"})
	b, tab := open(t, tabs.Options{})
	visit(t, tab, url+"/")
	second, err := b.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	visit(t, second, strings.Replace(url, "127.0.0.1", "localhost", 1)+"/") // another process
	no := errors.New("not now")
	refuse := func(func()) error { return no }
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, no) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = b.Open(t.Context(), refuse)
	refused("open", err)
	refused("switch", b.Activate(refuse, tab))
	refused("close", b.CloseTab(t.Context(), refuse, second))
	if s := b.State(); len(s.Tabs) != 2 || b.Current() != second {
		t.Errorf("what was refused was done: %+v", s)
	}

	tab.Session().Post("Page.crash", nil)
	await(t, b, "the crash", func() bool { return tab.Info().Crashed })
	_, err = tab.Navigate(t.Context(), refuse, url+"/")
	refused("navigate", err)
	_, err = tab.Reload(t.Context(), refuse)
	refused("reload", err)
	if !tab.Info().Crashed {
		t.Error("a page that crashed is said to be there, since something was refused")
	}

	// A script that runs without end is not ended for who may not leave the page.
	spin(second, `document.title = "spins"; while (!globalThis.enough) {}`)
	_, err = second.Navigate(t.Context(), refuse, url+"/")
	refused("navigate", err)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := cdp.Call(ctx, second.Session(), runtime.Evaluate, runtime.EvaluateParams{Expression: "1"}); err == nil || second.Info().Crashed {
		t.Errorf("the script was ended: %v, %+v", err, second.Info())
	}
	visit(t, second, url+"/")
}

// What a page writes is told in as many bytes as are of use.
func TestTexts_areBounded(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": "<title>main</title>"})
	b, tab := open(t, tabs.Options{})
	visit(t, tab, url+"/")
	run(t, tab, `history.replaceState(null, "", "/?" + "x".repeat(100_000)); console.log("l".repeat(100_000)); setTimeout(() => prompt("q".repeat(100_000), "d".repeat(100_000)))`)
	await(t, b, "the prompt", func() bool { return tab.Dialog() != nil })
	d, i, c := tab.Dialog(), tab.Info(), tab.Console()
	if len(d.Text) > 2_000 || len(d.Default) > 20_000 || len(d.URL) > 5_000 {
		t.Errorf("of a dialog: %d, %d and %d bytes", len(d.Text), len(d.Default), len(d.URL))
	}
	if !strings.HasPrefix(i.URL, url+"/?xxx") || len(i.URL) > 5_000 {
		t.Errorf("of an address: %d bytes", len(i.URL))
	}
	long := 0
	for _, l := range c {
		if len(l.Text) > 5_000 || len(l.URL) > 5_000 {
			t.Errorf("of a line of the console: %d and %d bytes", len(l.Text), len(l.URL))
		}
		if strings.HasPrefix(l.Text, "lll") {
			long++
		}
	}
	if long != 1 {
		t.Errorf("the long line is there %d times", long)
	}
	for _, n := range b.Notices(0) {
		if len(n.Text)+len(n.URL) > 10_000 {
			t.Errorf("of a notice: %d and %d bytes", len(n.Text), len(n.URL))
		}
	}
	if err := tab.Answer(false, ""); err != nil {
		t.Error(err)
	}
}

// A dialog waits for a person who has control, and until when is told anew.
func TestDialog_waitsForAPerson(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": "<title>main</title>"})
	b, tab := open(t, tabs.Options{Held: func() bool { return true }})
	visit(t, tab, url+"/")
	run(t, tab, `setTimeout(() => { document.title = "said " + confirm("Sure?") })`)
	await(t, b, "the dialog", func() bool { return tab.Dialog() != nil })
	first := tab.Dialog().Until
	await(t, b, "more time", func() bool { d := tab.Dialog(); return d == nil || d.Until.After(first) })
	if err := tab.Answer(true, ""); err != nil {
		t.Fatal(err)
	}
	await(t, b, "the answer", func() bool { return tab.Info().Title == "said true" })
}

func TestConsole(t *testing.T) {
	t.Parallel()
	url := site(t, map[string]string{"/": `<script>console.warn("care", {a: 1}, 3); setTimeout(() => { throw new Error("broken") })</script>`})
	b, tab := open(t, tabs.Options{})
	visit(t, tab, url+"/")
	has := func(level, part string) bool {
		for _, l := range tab.Console() {
			if l.Level == level && strings.Contains(l.Text, part) {
				return true
			}
		}
		return false
	}
	await(t, b, "the lines", func() bool { return has("warning", "care Object 3") && has("error", "broken") })
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"a.example", "javascript:alert(1)", "http://a\\@b", "localhost:1/x", "\x00http://a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		got, err := tabs.Address(typed)
		if err == nil && got != "about:blank" && !strings.HasPrefix(got, "http://") && !strings.HasPrefix(got, "https://") {
			t.Errorf("Address(%q) = %q", typed, got)
		}
	})
}

// Whoever needs a tab where there is none gets the same one.
func TestBrowser_opensOneTabForAll(t *testing.T) {
	t.Parallel()
	b, tab := open(t, tabs.Options{})
	if err := b.CloseTab(t.Context(), nil, tab); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	got := make([]*tabs.Tab, 6)
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = b.Active(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, o := range got {
		if o != got[0] {
			t.Errorf("got tab %d and tab %d", o.Number(), got[0].Number())
		}
	}
	if open := b.State().Tabs; len(open) != 1 {
		t.Errorf("%d tabs are open: %+v", len(open), open)
	}
}
