package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// surf calls the browser's tools as an agent does, over a real Chromium that a
// person can take, at a small site of its own.
type surf struct {
	*bench

	tabs    *tabs.Browser
	lease   *control.Lease
	open    func(context.Context) (browser.Backend, error)
	url     string // of the site
	files   string // where downloads go
	handler *http.ServeMux
}

// newSurf serves pages by their path; "/file" is a file to download.
func newSurf(t *testing.T, pages map[string]string) *surf {
	t.Helper()
	return newSurfIn(t, browsertest.Context, pages)
}

func newSurfIn(t *testing.T, in func(testing.TB) browsertest.Place, pages map[string]string) *surf {
	t.Helper()
	t.Parallel()
	s := &surf{bench: newBench(t), lease: control.New(), files: t.TempDir(), handler: http.NewServeMux()}
	s.set = tools.NewSet(tools.Browser()...)
	if err := os.Chmod(s.files, 0o777); err != nil {
		t.Fatal(err)
	}
	s.handler.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, body)
	})
	s.handler.HandleFunc("/file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="report.csv"`)
		fmt.Fprint(w, "a,b\n1,2\n")
	})
	srv := httptest.NewServer(s.handler)
	t.Cleanup(srv.Close)
	s.url = srv.URL

	place := in(t)
	s.tabs = tabs.New(tabs.Options{
		Dial: place.Dial, Context: place.ID, Downloads: s.files, Max: 5,
		Held: func() bool { return s.lease.State().Held() },
	})
	t.Cleanup(func() { s.tabs.Close() })
	agent := browser.NewAgent(browser.Options{Browser: s.tabs, Lease: s.lease})
	s.open = func(context.Context) (browser.Backend, error) { return agent, nil }
	return s
}

// attempt makes a call and returns whatever it returns.
func (s *surf) attempt(ctx context.Context, name string, input in) (tools.Result, error) {
	s.t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		s.t.Fatal(err)
	}
	tool, ok := s.set.Lookup(name)
	if !ok {
		s.t.Fatalf("no tool %s", name)
	}
	*s.calls++
	return tool.Run(ctx, tools.Call{ID: fmt.Sprint("call-", *s.calls), Input: raw, Env: s.env, Browser: s.open})
}

// want makes a call and wants a status and, in the text, each of parts.
func (s *surf) want(status task.CallStatus, name string, input in, parts ...string) answer {
	s.t.Helper()
	r, err := s.attempt(s.t.Context(), name, input)
	if err != nil {
		s.t.Fatalf("%s(%v): %v", name, input, err)
	}
	if r.Status != status {
		s.t.Errorf("%s(%v) = %s, want %s; text: %s", name, input, r.Status, status, r.Text)
	}
	for _, part := range parts {
		if !strings.Contains(r.Text, part) {
			s.t.Errorf("%s(%v) says %q, want it to hold %q", name, input, r.Text, part)
		}
	}
	d, _ := r.Display.(tools.BrowserDisplay)
	return answer{s.t, r, d}
}

// ok wants a call that went well.
func (s *surf) ok(name string, input in, parts ...string) answer {
	s.t.Helper()
	return s.want(task.CallOK, name, input, parts...)
}

// refused wants a call that was not made.
func (s *surf) refused(name string, input in, parts ...string) answer {
	s.t.Helper()
	return s.want(task.CallError, name, input, parts...)
}

// visit opens a page of the site.
func (s *surf) visit(path string, parts ...string) answer {
	s.t.Helper()
	return s.ok("browser_navigate", in{"url": s.url + path}, parts...)
}

// answer is the result of a call.
type answer struct {
	t *testing.T
	tools.Result

	display tools.BrowserDisplay
}

// index finds the number of the element whose line has part in it.
func (a answer) index(part string) int {
	a.t.Helper()
	m := regexp.MustCompile(`(?m)^\[(\d+)\] .*` + regexp.QuoteMeta(part)).FindStringSubmatch(a.Text)
	if m == nil {
		a.t.Fatalf("no element with %q in\n%s", part, a.Text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// lacks wants that neither the model nor a screen is told any of parts.
func (a answer) lacks(parts ...string) {
	a.t.Helper()
	display, err := json.Marshal(a.display)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, part := range parts {
		if strings.Contains(a.Text, part) || strings.Contains(string(display), part) {
			a.t.Errorf("%q is told: %s\n%s", part, a.Text, display)
		}
	}
}

// stub is a Backend that answers all calls alike.
type stub struct {
	look browser.Look
	pic  browser.Picture
	err  error
	n    int // calls
}

func (s *stub) Navigate(context.Context, string) (browser.Look, error) { s.n++; return s.look, s.err }
func (s *stub) Click(context.Context, browser.At) (browser.Look, error) {
	s.n++
	return s.look, s.err
}

func (s *stub) Type(context.Context, browser.At, string, bool) (browser.Look, error) {
	s.n++
	return s.look, s.err
}
func (s *stub) Extract(context.Context) (browser.Look, error) { s.n++; return s.look, s.err }
func (s *stub) Screenshot(context.Context, browser.Shot) (browser.Picture, error) {
	s.n++
	return s.pic, s.err
}

func (s *stub) Do(context.Context, browser.Action) (browser.Look, error) {
	s.n++
	return s.look, s.err
}

// stubbed calls the tools over a stub.
func stubbed(t *testing.T, b *stub) *surf {
	s := &surf{bench: newBench(t), open: func(context.Context) (browser.Backend, error) { return b, nil }}
	s.set = tools.NewSet(tools.Browser()...)
	return s
}
