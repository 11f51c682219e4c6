package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// desk is an agent at a browser of its own, with a site to visit. other is the
// same site under another name: a frame of it gets a process of its own.
type desk struct {
	t          *testing.T
	agent      *browser.Agent
	tabs       *tabs.Browser
	lease      *control.Lease
	url, other string
	files      string
}

func newDesk(t *testing.T, pages map[string]string) *desk {
	t.Helper()
	return newDeskIn(t, browsertest.Context, pages)
}

func newDeskIn(t *testing.T, in func(testing.TB) browsertest.Place, pages map[string]string) *desk {
	t.Helper()
	t.Parallel()
	d := &desk{t: t, lease: control.New(), files: t.TempDir()}
	if err := os.Chmod(d.files, 0o777); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, strings.ReplaceAll(body, "OTHER", d.other))
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="report.csv"`)
		fmt.Fprint(w, "a,b\n1,2\n")
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "<title>echo</title>got %s", r.URL.RawQuery)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	d.url = srv.URL
	d.other = strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)

	place := in(t)
	d.tabs = tabs.New(tabs.Options{
		Dial: reached(t, place), Context: place.ID, Downloads: d.files, Max: 5,
		Held: func() bool { return d.lease.State().Held() },
	})
	t.Cleanup(func() { d.tabs.Close() })
	d.agent = browser.NewAgent(browser.Options{Browser: d.tabs, Lease: d.lease})
	return d
}

func (d *desk) visit(path string) browser.Look {
	d.t.Helper()
	l, err := d.agent.Navigate(d.t.Context(), d.url+path)
	if err != nil {
		d.t.Fatalf("Navigate(%s): %v", path, err)
	}
	return l
}

// number finds the element whose line has part in it.
func number(t *testing.T, l browser.Look, part string) browser.At {
	t.Helper()
	m := regexp.MustCompile(`(?m)^\[(\d+)\] .*` + regexp.QuoteMeta(part)).FindStringSubmatch(l.Text)
	if m == nil {
		t.Fatalf("no element with %q in\n%s", part, l.Text)
	}
	n, _ := strconv.Atoi(m[1])
	return browser.At{Number: n}
}

func (d *desk) click(at browser.At) browser.Look {
	d.t.Helper()
	l, err := d.agent.Click(d.t.Context(), at)
	if err != nil {
		d.t.Fatalf("Click(%v): %v", at, err)
	}
	return l
}

func (d *desk) do(a browser.Action) browser.Look {
	d.t.Helper()
	l, err := d.agent.Do(d.t.Context(), a)
	if err != nil {
		d.t.Fatalf("Do(%+v): %v", a, err)
	}
	return l
}

func (d *desk) typed(at browser.At, text string, submit bool) browser.Look {
	d.t.Helper()
	l, err := d.agent.Type(d.t.Context(), at, text, submit)
	if err != nil {
		d.t.Fatalf("Type(%v): %v", at, err)
	}
	return l
}

// shot takes a screenshot and reads it.
func (d *desk) shot() (browser.Picture, image.Image) {
	d.t.Helper()
	p, err := d.agent.Screenshot(d.t.Context(), browser.Shot{})
	if err != nil {
		d.t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(p.Data))
	if err != nil {
		d.t.Fatal(err)
	}
	return p, img
}

// page evaluates in the active tab's page.
func (d *desk) page(function string) string {
	d.t.Helper()
	tab := d.tabs.Current()
	if tab == nil {
		d.t.Fatal("no active tab")
	}
	frames, err := tab.Frames(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	var out any
	if err := frames[0].Eval(d.t.Context(), function, &out); err != nil {
		d.t.Fatal(err)
	}
	return fmt.Sprint(out)
}

// spin has the active tab's page run a script without end. Whatever is asked of the page
// from here on comes behind it.
func (d *desk) spin() {
	d.tabs.Current().Session().Post("Runtime.evaluate", map[string]string{"expression": "while (true);"})
}

// await returns when the browser is as ok says.
func await(t *testing.T, b *tabs.Browser, what string, ok func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		bell := b.Watch()
		if ok() {
			return
		}
		select {
		case <-bell:
		case <-limit:
			t.Fatalf("%s did not come about within a minute; %+v", what, b.State())
		}
	}
}

func wants(t *testing.T, l browser.Look, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(l.Text, p) {
			t.Errorf("%q is not in\n%s", p, l.Text)
		}
	}
}

func lacks(t *testing.T, l browser.Look, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(l.Text, p) {
			t.Errorf("%q is in\n%s", p, l.Text)
		}
	}
}

// canceled is a context that has ended.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
