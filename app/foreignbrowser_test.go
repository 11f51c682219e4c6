package app_test

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio/aiotest"
	"github.com/glovebox-dev/glovebox/backend/execenv/local"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/session"
)

type caller func(method, path string, body, answer any) error

// lookedAt is what a session's browser is said to be.
type lookedAt struct {
	State  string `json:"state"`
	Source string `json:"source"`
	Error  string `json:"error"`
	Live   bool   `json:"live"`
}

func browserOf(t *testing.T, call caller, id string) (b lookedAt) {
	t.Helper()
	if err := call("GET", "/sessions/"+id+"/browser", nil, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// act makes one call of a browser tool.
func act(t *testing.T, call caller, id, tool string, input map[string]any) (status, text string) {
	t.Helper()
	var r struct {
		Status string `json:"status"`
		Text   string `json:"text"`
	}
	if err := call("POST", "/sessions/"+id+"/tools", map[string]any{"tool": tool, "input": input}, &r); err != nil {
		t.Fatal(err)
	}
	return r.Status, r.Text
}

// The browser that an AIO server names is ours to see and to drive in full, and
// the server's to end.
func TestForeignBrowser(t *testing.T) {
	chromium := browsertest.Own(t)
	fake := aiotest.Start(t, aiotest.Options{Generation: aiotest.Daemon, CDP: chromium.URL, Prefix: "/gw"})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<title>Shop</title><button>Buy</button>"))
	}))
	t.Cleanup(site.Close)
	call := serve(t, session.HostConfig{ExecEnv: &sandbox.RemoteConfig{BaseURL: fake.URL}})
	id, _, _ := bash(t, call, "true")
	if b := browserOf(t, call, id); b.State != "running" || b.Source != "server" || !b.Live {
		t.Errorf("the browser is %+v", b)
	}
	if status, text := act(t, call, id, "browser_navigate", map[string]any{"url": site.URL}); status != "ok" || !strings.Contains(text, "Buy") {
		t.Errorf("browser_navigate: %s, %s", status, text)
	}
	if err := call("POST", "/sessions/"+id+"/browser/stop", nil, nil); err == nil || !strings.Contains(err.Error(), "501") {
		t.Errorf("stop = %v, want a refusal", err)
	}
	if status, text := act(t, call, id, "browser_extract", map[string]any{}); status != "ok" || !strings.Contains(text, "Buy") {
		t.Errorf("after that, browser_extract: %s, %s", status, text)
	}
}

// Where that address is not given, the server's own tools do what they can, and
// nobody looks on.
func TestForeignBrowser_tools(t *testing.T) {
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	tools := &aiotest.Tools{Image: picture.Bytes(), Pages: map[string]aiotest.Page{"http://shop.example/": {Markdown: "# Shop", Elements: []string{"<button>Buy</button>"}}}}
	fake := aiotest.Start(t, aiotest.Options{Generation: aiotest.Piped, NoBrowser: true, Tools: tools})
	call := serve(t, session.HostConfig{ExecEnv: &sandbox.RemoteConfig{BaseURL: fake.URL}})
	id, _, _ := bash(t, call, "true")
	if b := browserOf(t, call, id); b.State != "running" || b.Source != "server" || b.Live {
		t.Errorf("the browser is %+v", b)
	}
	if status, text := act(t, call, id, "browser_navigate", map[string]any{"url": "http://shop.example/"}); status != "ok" || !strings.Contains(text, "Buy") {
		t.Errorf("browser_navigate: %s, %s", status, text)
	}
	if status, text := act(t, call, id, "browser_console", map[string]any{}); status != "error" || !strings.Contains(text, "navigate, click, type") {
		t.Errorf("browser_console: %s, %s", status, text)
	}
	if tools.Sessions() != 1 {
		t.Errorf("%d sessions with the server", tools.Sessions())
	}
	other, _, _ := bash(t, call, "true") // the server is shared
	if status, text := act(t, call, other, "browser_extract", map[string]any{}); status != "ok" || !strings.Contains(text, "# Shop") {
		t.Errorf("another session's browser_extract: %s, %s", status, text)
	}
	if err := call("GET", "/sessions/"+id+"/browser/outline", nil, nil); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("its outline: %v", err)
	}
	if err := call("POST", "/sessions/"+id+"/close", nil, nil); err != nil {
		t.Fatal(err)
	}
	if status, text := act(t, call, other, "browser_extract", map[string]any{}); status != "ok" {
		t.Errorf("the other's after that session's end: %s, %s", status, text)
	}

	none := aiotest.Start(t, aiotest.Options{Generation: aiotest.Piped, NoBrowser: true})
	call = serve(t, session.HostConfig{ExecEnv: &sandbox.RemoteConfig{BaseURL: none.URL}})
	id, _, _ = bash(t, call, "true")
	if b := browserOf(t, call, id); b.State != "none" || b.Live || b.Error == "" {
		t.Errorf("without either the browser is %+v", b)
	}
}

// acting is a browser of a program's own.
type acting struct {
	browser.Backend
	closed chan<- struct{}
}

func (a acting) Navigate(_ context.Context, url string) (browser.Look, error) {
	return browser.Look{Text: "at " + url}, nil
}

func (a acting) Close() error {
	a.closed <- struct{}{}
	return nil
}

// A program's own browsers stand in the place of the application's, one for each
// sandbox, until that is let go of.
func TestHostConfig_browser(t *testing.T) {
	var made atomic.Int32
	closed := make(chan struct{}, 10) // more than are made
	places, dir := &pool{}, t.TempDir()
	call := serve(t, session.HostConfig{
		SandboxProvider: places,
		SandboxBackendFactory: func(sandbox.Handle, execenv.Preamble) (execenv.Env, error) {
			return local.New(local.Options{Workspace: dir})
		},
		SandboxBrowserFactory: func(h sandbox.Handle) (browser.Backend, error) {
			if h.BaseURL != "pool://here" {
				t.Errorf("asked for the browser of %s", h.BaseURL)
			}
			made.Add(1)
			return acting{closed: closed}, nil
		},
	})
	id, _, _ := bash(t, call, "true")
	if made.Load() != 0 {
		t.Error("it was made before anybody needed it")
	}
	for range 2 {
		if b := browserOf(t, call, id); b.State != "running" || b.Source != "host" || b.Live {
			t.Errorf("the browser is %+v", b)
		}
		if status, text := act(t, call, id, "browser_navigate", map[string]any{"url": "http://shop.example/"}); status != "ok" || !strings.Contains(text, "at http://shop.example/") {
			t.Errorf("browser_navigate: %s, %s", status, text)
		}
	}
	if made.Load() != 1 || len(closed) != 0 {
		t.Errorf("made %d times, closed %d times", made.Load(), len(closed))
	}
	other, _, _ := bash(t, call, "true")
	browserOf(t, call, other) // made, and never acted on
	for _, id := range []string{id, other} {
		if err := call("POST", "/sessions/"+id+"/close", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		select {
		case <-closed:
		case <-time.After(20 * time.Second):
			t.Fatal("not closed")
		}
	}
	if made.Load() != 2 {
		t.Errorf("made %d times", made.Load())
	}
}
