package toolserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/browser/toolserver"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio/aiotest"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

const shop = "http://shop.example/"

// shopTools serve two pages.
func shopTools(t *testing.T) *aiotest.Tools {
	t.Helper()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewNRGBA(image.Rect(0, 0, 80, 60))); err != nil {
		t.Fatal(err)
	}
	return &aiotest.Tools{
		Image: picture.Bytes(),
		Pages: map[string]aiotest.Page{
			shop: {
				Markdown: "# Shop", Elements: []string{"<a href=/cart>Cart</a>", "<input type=text>", "<button>Buy</button>"},
				Clicks: map[string]string{"<a href=/cart>Cart</a>": shop + "cart"},
			},
			shop + "cart": {Markdown: "# Cart\nempty", Elements: []string{"<a href=/>Back</a>"}},
			shop + "bare": {Markdown: "# Bare"},
		},
	}
}

// start returns a server with the tools, and a browser over them.
func start(t *testing.T, tools *aiotest.Tools, more ...func(*aiotest.Options, *toolserver.Options)) (*toolserver.Browser, *aiotest.Server) {
	t.Helper()
	o, b := aiotest.Options{Generation: aiotest.Daemon, Tools: tools, Prefix: "/gw"}, toolserver.Options{}
	for _, m := range more {
		m(&o, &b)
	}
	fake := aiotest.Start(t, o)
	server, err := aio.New(aio.Options{BaseURL: fake.URL, Auth: sandbox.StaticAPIKey{EnvName: "TOOLSERVER_TEST_KEY"}})
	if err != nil {
		t.Fatal(err)
	}
	b.URL, b.Client = server.URL("/mcp"), server.Client()
	made := toolserver.New(b)
	t.Cleanup(func() {
		if err := errors.Join(made.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	return made, fake
}

func navigate(t *testing.T, b *toolserver.Browser, to string) browser.Look {
	t.Helper()
	look, err := b.Navigate(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	return look
}

// Each verb is the tool of the server that it says, with its arguments.
func TestBrowser_tools(t *testing.T) {
	type args = map[string]any
	elements := aiotest.Call{Tool: "browser_get_clickable_elements", Args: args{}}
	act := func(a browser.Action) func(context.Context, *toolserver.Browser) (browser.Look, error) {
		return func(ctx context.Context, b *toolserver.Browser) (browser.Look, error) { return b.Do(ctx, a) }
	}
	for _, test := range []struct {
		name string
		do   func(context.Context, *toolserver.Browser) (browser.Look, error)
		want []aiotest.Call
		text string
	}{
		{"navigate", func(ctx context.Context, b *toolserver.Browser) (browser.Look, error) {
			return b.Navigate(ctx, shop)
		},
			[]aiotest.Call{{Tool: "browser_navigate", Args: args{"url": shop}}}, "[2]<button>Buy</button>"},
		{"click", func(ctx context.Context, b *toolserver.Browser) (browser.Look, error) {
			return b.Click(ctx, browser.At{Number: 0})
		}, []aiotest.Call{{Tool: "browser_click", Args: args{"index": 0.0}}, elements}, "Clicked element: 0\n\n# Interactive elements\n[0]<a href=/>Back</a>"},
		{"type", func(ctx context.Context, b *toolserver.Browser) (browser.Look, error) {
			return b.Type(ctx, browser.At{Number: 1}, "pa55", false)
		}, []aiotest.Call{{Tool: "browser_form_input_fill", Args: args{"index": 1.0, "value": "pa55", "clear": true}}, elements}, "Typed into element 1."},
		{"type by selector, and submit", func(ctx context.Context, b *toolserver.Browser) (browser.Look, error) {
			return b.Type(ctx, browser.At{Number: 1}, "", true)
		}, []aiotest.Call{{Tool: "browser_form_input_fill", Args: args{"index": 1.0, "value": "", "clear": true}}, {Tool: "browser_press_key", Args: args{"key": "Enter"}}, elements}, "browser_press_key done"},
		{"extract", func(ctx context.Context, b *toolserver.Browser) (browser.Look, error) { return b.Extract(ctx) },
			[]aiotest.Call{{Tool: "browser_get_markdown", Args: args{}}, elements}, "# Shop\n\n# Interactive elements\n[0]<a href=/cart>Cart</a>"},
		{"scroll", act(browser.Action{Kind: browser.Scroll, Direction: "up", Amount: 40}), []aiotest.Call{{Tool: "browser_scroll", Args: args{"amount": -40.0}}, elements}, ""},
		{"press", act(browser.Action{Kind: browser.Press, Keys: "Escape"}), []aiotest.Call{{Tool: "browser_press_key", Args: args{"key": "Escape"}}, elements}, ""},
		{"select", act(browser.Action{Kind: browser.Select, At: browser.At{Selector: "#size"}, Values: []string{"xl"}}),
			[]aiotest.Call{{Tool: "browser_select", Args: args{"selector": "#size", "value": "xl"}}, elements}, ""},
		{"hover", act(browser.Action{Kind: browser.Hover, At: browser.At{Number: 2}}), []aiotest.Call{{Tool: "browser_hover", Args: args{"index": 2.0}}, elements}, ""},
		{"back", act(browser.Action{Kind: browser.Back}), []aiotest.Call{{Tool: "browser_go_back", Args: args{}}, elements}, ""},
		{"forward", act(browser.Action{Kind: browser.Forward}), []aiotest.Call{{Tool: "browser_go_forward", Args: args{}}, elements}, ""},
		{"wait for a text", act(browser.Action{Kind: browser.Wait, Text: "Shop"}), []aiotest.Call{{Tool: "browser_get_text", Args: args{}}, elements}, "[1]<input type=text>"},
		{"tabs", act(browser.Action{Kind: browser.Tabs}), []aiotest.Call{{Tool: "browser_tab_list", Args: args{}}}, "Tab 1 [active]: one (http://one/)\nTab 2: two (http://two/)"},
		{"a new tab", act(browser.Action{Kind: browser.Tabs, Op: "new", URL: shop}), []aiotest.Call{{Tool: "browser_new_tab", Args: args{"url": shop}}, elements}, ""},
		{"another tab", act(browser.Action{Kind: browser.Tabs, Op: "switch", Tab: 2}), []aiotest.Call{{Tool: "browser_switch_tab", Args: args{"index": 1.0}}, elements}, ""},
		{"close a tab", act(browser.Action{Kind: browser.Tabs, Op: "close", Tab: 1}),
			[]aiotest.Call{{Tool: "browser_switch_tab", Args: args{"index": 0.0}}, {Tool: "browser_close_tab", Args: args{}}, elements}, ""},
		{"downloads", act(browser.Action{Kind: browser.Downloads}), []aiotest.Call{{Tool: "browser_get_download_list", Args: args{}}}, "report.pdf"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tools := shopTools(t)
			b, _ := start(t, tools)
			navigate(t, b, shop)
			tools.Calls()
			look, err := test.do(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, tools.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if !strings.Contains(look.Text, test.text) || strings.Contains(look.Text, "pa55") {
				t.Errorf("it tells %q, want %q", look.Text, test.text)
			}
			if strings.Contains(look.Text, "[0]<") && len(look.Elements) == 0 {
				t.Errorf("no elements in %q", look.Text)
			}
		})
	}
}

// What the server has no tool for is refused, by name of what works, and nothing
// is called in its place.
func TestBrowser_unsupported(t *testing.T) {
	tools := shopTools(t)
	tools.Less = []string{"browser_hover", "browser_go_back"}
	b, _ := start(t, tools)
	navigate(t, b, shop)
	tools.Calls()
	for name, do := range map[string]func() error{
		"upload": func() error {
			_, err := b.Do(t.Context(), browser.Action{Kind: browser.Upload, Files: []string{"/x"}})
			return err
		},
		"console": func() error { _, err := b.Do(t.Context(), browser.Action{Kind: browser.Console}); return err },
		"dialog":  func() error { _, err := b.Do(t.Context(), browser.Action{Kind: browser.Dialog}); return err },
		"reload":  func() error { _, err := b.Do(t.Context(), browser.Action{Kind: browser.Reload}); return err },
		"back":    func() error { _, err := b.Do(t.Context(), browser.Action{Kind: browser.Back}); return err },
		"hover":   func() error { _, err := b.Do(t.Context(), browser.Action{Kind: browser.Hover}); return err },
		"two keys": func() error {
			_, err := b.Do(t.Context(), browser.Action{Kind: browser.Press, Keys: "Control+A"})
			return err
		},
		"selector": func() error { _, err := b.Click(t.Context(), browser.At{Selector: "#buy"}); return err },
		"full":     func() error { _, err := b.Screenshot(t.Context(), browser.Shot{Full: true}); return err },
	} {
		err := do()
		if !errors.Is(err, toolserver.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		} else if name == "console" && (!strings.Contains(err.Error(), "navigate, click, type") || strings.Contains(err.Error(), "hover")) {
			t.Errorf("%s: %v, want what works", name, err)
		}
	}
	if _, err := b.Navigate(t.Context(), "file:///etc/passwd"); !errors.Is(err, tabs.ErrForbidden) {
		t.Errorf("a file: %v", err)
	}
	if calls := tools.Calls(); len(calls) != 0 {
		t.Errorf("it called %v", calls)
	}
}

// A number means what it meant in the newest list, and nothing else is clicked.
func TestBrowser_stale(t *testing.T) {
	tools := shopTools(t)
	b, _ := start(t, tools)
	navigate(t, b, shop)
	if _, err := b.Click(t.Context(), browser.At{Number: 0}); err != nil { // to the cart, which has one element
		t.Fatal(err)
	}
	tools.Calls()
	if _, err := b.Click(t.Context(), browser.At{Number: 2}); !errors.Is(err, browser.ErrStale) {
		t.Errorf("Click() of a number of the page before = %v", err)
	}
	if calls := tools.Calls(); len(calls) != 0 {
		t.Errorf("it called %v", calls)
	}
	// An act whose page could not be looked at leaves no numbers.
	tools.Fail = map[string]string{"browser_get_clickable_elements": "Failed to parse DOM tree"}
	look, err := b.Do(t.Context(), browser.Action{Kind: browser.Back})
	if err != nil || !strings.Contains(look.Text, "take a fresh look") {
		t.Errorf("Back() = %q, %v", look.Text, err)
	}
	if _, err := b.Click(t.Context(), browser.At{Number: 0}); !errors.Is(err, browser.ErrStale) {
		t.Errorf("Click() without a look = %v", err)
	}
	tools.Fail = nil
	if _, err := b.Extract(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Click(t.Context(), browser.At{Number: 0}); err != nil {
		t.Errorf("Click() after a look = %v", err)
	}
}

func TestBrowser_faults(t *testing.T) {
	tools := shopTools(t)
	b, _ := start(t, tools)
	_, err := b.Navigate(t.Context(), "http://nowhere.example/")
	if fault, ok := errors.AsType[*toolserver.ToolError](err); !ok || fault.Tool != "browser_navigate" || !strings.Contains(fault.Text, "ERR_NAME_NOT_RESOLVED") {
		t.Errorf("Navigate() = %v", err)
	}
	tools.Fail = map[string]string{"browser_press_key": "no keyboard"}
	navigate(t, b, shop)
	if _, err := b.Type(t.Context(), browser.At{Number: 1}, "x", true); err == nil || !strings.Contains(err.Error(), "no keyboard (before that: Typed into element 1.)") {
		t.Errorf("Type() = %v, want what was done before the fault", err)
	}
}

func TestBrowser_Screenshot(t *testing.T) {
	tools := shopTools(t)
	b, _ := start(t, tools)
	navigate(t, b, shop)
	p, err := b.Screenshot(t.Context(), browser.Shot{})
	if err != nil || p.Type != "image/png" || p.Width != 80 || p.Height != 60 || !bytes.Equal(p.Data, tools.Image) {
		t.Fatalf("Screenshot() = %s %dx%d of %d bytes, %v", p.Type, p.Width, p.Height, len(p.Data), err)
	}
	p, err = b.Screenshot(t.Context(), browser.Shot{At: browser.At{Number: 2}, JPEG: true})
	if err != nil || p.Type != "image/jpeg" || http.DetectContentType(p.Data) != "image/jpeg" {
		t.Errorf("Screenshot() = %s, %v", p.Type, err)
	}
	whole := tools.Image
	for name, data := range map[string][]byte{"cut off": whole[:len(whole)-20], "none": nil, "words": []byte("no picture")} {
		tools.Image = data
		_, err := b.Screenshot(t.Context(), browser.Shot{})
		if _, ok := errors.AsType[*toolserver.ToolError](err); !ok {
			t.Errorf("%s: Screenshot() = %v", name, err)
		}
	}
}

// A container that was restarted has forgotten the session: a call begins another
// one, and a number of before is refused rather than tried there.
func TestBrowser_restart(t *testing.T) {
	tools := shopTools(t)
	b, _ := start(t, tools)
	navigate(t, b, shop)
	tools.Restart()
	if _, err := b.Click(t.Context(), browser.At{Number: 0}); !errors.Is(err, browser.ErrStale) {
		t.Errorf("Click() = %v, want ErrStale", err)
	}
	navigate(t, b, shop)
	tools.Restart()
	if look := navigate(t, b, shop); !strings.Contains(look.Text, "Buy") || tools.Sessions() != 3 {
		t.Errorf("after a restart %q, in session %d", look.Text, tools.Sessions())
	}
}

// The server is gone for a while, as a container that restarts is.
func TestBrowser_unreachable(t *testing.T) {
	tools := shopTools(t)
	b, fake := start(t, tools)
	navigate(t, b, shop)
	fake.Close()
	_, _ = b.Extract(t.Context()) // may go out on a connection that just ends: then nobody knows
	if _, err := b.Extract(t.Context()); !errors.Is(err, execenv.ErrUnreachable) {
		t.Errorf("Extract() = %v, want ErrUnreachable", err)
	}
}

// An old server has no sessions and lists no tools.
func TestBrowser_old(t *testing.T) {
	tools := shopTools(t)
	tools.Old = true
	b, _ := start(t, tools)
	navigate(t, b, shop)
	if _, err := b.Type(t.Context(), browser.At{Number: 1}, "x", true); err != nil {
		t.Error(err)
	}
	if _, err := b.Do(t.Context(), browser.Action{Kind: browser.Back}); !errors.Is(err, toolserver.ErrUnsupported) {
		t.Errorf("Back() = %v", err)
	}
}

// The key goes with every request as it is then; without it the error names the
// variable, and does not hold what was in it.
func TestBrowser_key(t *testing.T) {
	t.Setenv("TOOLSERVER_TEST_KEY", "")
	b, fake := start(t, shopTools(t), func(o *aiotest.Options, _ *toolserver.Options) { o.Key = "zz-secret" })
	for _, key := range []string{"", "zz-wrong"} {
		t.Setenv("TOOLSERVER_TEST_KEY", key)
		_, err := b.Navigate(t.Context(), shop)
		if !errors.Is(err, sandbox.ErrUnauthorized) || !strings.Contains(err.Error(), "TOOLSERVER_TEST_KEY") || strings.Contains(err.Error(), "zz") {
			t.Errorf("with %q: %v", key, err)
		}
	}
	t.Setenv("TOOLSERVER_TEST_KEY", "zz-secret")
	navigate(t, b, shop)
	t.Setenv("TOOLSERVER_TEST_KEY", "zz-wrong")
	if _, err := b.Extract(t.Context()); !errors.Is(err, sandbox.ErrUnauthorized) {
		t.Errorf("in a session that goes on: %v", err)
	}
	t.Setenv("TOOLSERVER_TEST_KEY", "zz-secret")
	if _, err := b.Extract(t.Context()); err != nil {
		t.Error(err)
	}
	if fake.Requests("POST /mcp") < 6 {
		t.Errorf("%d requests", fake.Requests("POST /mcp"))
	}
}

func TestBrowser_none(t *testing.T) {
	b, _ := start(t, nil)
	if err := b.Check(t.Context()); !errors.Is(err, execenv.ErrNoBrowser) {
		t.Errorf("without /mcp: %v", err)
	}
	b, _ = start(t, &aiotest.Tools{Less: []string{"browser_navigate"}})
	if err := b.Check(t.Context()); !errors.Is(err, execenv.ErrNoBrowser) {
		t.Errorf("with tools for other things: %v", err)
	}
}

// A tool that hangs is waited for as long as was said, and the next call works.
func TestBrowser_slow(t *testing.T) {
	release := make(chan struct{})
	var slow atomic.Bool
	slow.Store(true)
	tools := shopTools(t)
	tools.Hook = func(tool string) {
		if tool == "browser_go_back" && slow.Load() {
			<-release
		}
	}
	b, _ := start(t, tools, func(_ *aiotest.Options, o *toolserver.Options) { o.CallTime = 5 * time.Second })
	t.Cleanup(func() { close(release) })
	navigate(t, b, shop)
	_, err := b.Do(t.Context(), browser.Action{Kind: browser.Back})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "whether it took effect is not known") {
		t.Errorf("Back() = %v", err)
	}
	if _, err := b.Extract(t.Context()); err != nil {
		t.Errorf("the call after it: %v", err)
	}
	slow.Store(false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Extract(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// Connections that break, answers without end and streams that end without one
// are errors soon, and the next call begins anew.
func TestBrowser_hostile(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   error
	}{
		"ends at once": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, tabs.ErrBroken},
		"ends without an answer": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": nothing\n\n")
		}, tabs.ErrBroken},
		"no end": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			for line := bytes.Repeat([]byte(" "), 1<<20); ; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}, execenv.ErrTooLarge},
		"no JSON": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "<html>")
		}, tabs.ErrBroken},
		"its gateway": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, execenv.ErrUnreachable},
		"an old fault": {func(w http.ResponseWriter) {
			http.Error(w, "Bad Request: No valid session ID provided", http.StatusBadRequest)
		}, browser.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			var bad atomic.Bool
			b, _ := start(t, shopTools(t), func(o *aiotest.Options, _ *toolserver.Options) {
				o.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodPost || !bad.Swap(false) {
						return false
					}
					test.answer(w)
					return true
				}
			})
			navigate(t, b, shop)
			bad.Store(true)
			if _, err := b.Click(t.Context(), browser.At{Number: 2}); !errors.Is(err, test.want) {
				t.Errorf("Click() = %v, want %v", err, test.want)
			}
			if look := navigate(t, b, shop); !strings.Contains(look.Text, "Buy") {
				t.Errorf("after it: %q", look.Text)
			}
		})
	}
}

func TestBrowser_closed(t *testing.T) {
	b, fake := start(t, shopTools(t))
	navigate(t, b, shop)
	if err := b.Close(); err != nil || fake.Requests("DELETE /mcp") != 1 {
		t.Errorf("Close() = %v, %d sessions ended", err, fake.Requests("DELETE /mcp"))
	}
	if _, err := b.Extract(t.Context()); !errors.Is(err, tabs.ErrClosed) {
		t.Errorf("Extract() = %v", err)
	}
}
