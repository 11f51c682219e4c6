// Package toolserver is a browser that is driven by the browser tools of an MCP
// server, as AIO Sandbox containers serve them at /mcp. It is for a browser whose
// debugging connection cannot be had: the agent acts, and nobody sees a picture.
//
//	b := toolserver.New(toolserver.Options{URL: server.URL("/mcp"), Client: server.Client()})
//	defer b.Close()
//	look, err := b.Navigate(ctx, "https://example.com")
//	look, err = b.Click(ctx, browser.At{Number: 3})
//
// The session with the server begins with the first call, and anew where the
// server has forgotten it: after a restart of the container. What the server's
// tools can do is asked for at its beginning; the rest is refused with
// [ErrUnsupported], whose text names what works. The numbers of elements are the
// server's; one that is not in its newest list is refused here, since its tools
// would take it for what had that number before.
package toolserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// DefaultCallTime bounds a call when Options say nothing else.
const DefaultCallTime = 60 * time.Second

// ErrUnsupported refuses what the server has no tool for.
var ErrUnsupported = errors.New("the browser of this sandbox is driven by its server's own tools, which cannot do that")

// ToolError is what a tool of the server said when it failed.
type ToolError struct{ Tool, Text string }

func (e *ToolError) Error() string {
	return fmt.Sprintf("the server's %s failed: %s", e.Tool, cmp.Or(e.Text, "it did not say why; look at the page again (browser_extract)"))
}

// Options say which server.
type Options struct {
	URL      string        // of its MCP endpoint
	Client   *http.Client  // makes the requests, the credential included
	CallTime time.Duration // within which a call ends, DefaultCallTime when 0
	Log      *slog.Logger
}

// Browser is a browser.Backend. It connects when it is first used.
type Browser struct {
	o    Options
	busy chan struct{} // of capacity one: whoever has the token calls; it guards what follows

	session *mcp.ClientSession // nil before the first call, and after the session was lost
	tools   map[string]tool    // of that session
	known   map[int]bool       // the numbers of the newest list; nil where it has none that we can read
	stale   bool               // the page has changed and the list could not be had
	closed  bool
}

var _ browser.Backend = (*Browser)(nil)

// New returns a Browser. It does not connect.
func New(o Options) *Browser {
	o.CallTime = cmp.Or(o.CallTime, DefaultCallTime)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Browser{o: o, busy: make(chan struct{}, 1)}
}

// Check connects, and says whether the server has tools for a browser: the error
// wraps execenv.ErrNoBrowser where it has none.
func (b *Browser) Check(ctx context.Context) error {
	ctx, end, err := b.begin(ctx, 0)
	if err != nil {
		return err
	}
	defer end()
	return b.connect(ctx)
}

// Close ends the session. Calls after it fail.
func (b *Browser) Close() error {
	b.busy <- struct{}{} // a call ends by its own bound
	defer func() { <-b.busy }()
	b.closed = true
	b.drop()
	return nil
}

// begin waits for its turn and bounds what follows.
func (b *Browser) begin(ctx context.Context, more time.Duration) (context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.CallTime+more)
	select {
	case b.busy <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return nil, nil, fmt.Errorf("use the browser: another call has it: %w", context.Cause(ctx))
	}
	end := func() {
		<-b.busy
		cancel()
	}
	if b.closed {
		end()
		return nil, nil, tabs.ErrClosed
	}
	return ctx, end, nil
}

// Navigate opens an address in the active tab.
func (b *Browser) Navigate(ctx context.Context, url string) (browser.Look, error) {
	to, err := tabs.Address(url)
	if err != nil {
		return browser.Look{}, err
	}
	ctx, end, err := b.begin(ctx, 0)
	if err != nil {
		return browser.Look{}, err
	}
	defer end()
	look, err := b.act(ctx, step{tool: toolNavigate, args: map[string]any{"url": to}})
	look.Tab.URL = to
	return look, err
}

// Click clicks an element.
func (b *Browser) Click(ctx context.Context, at browser.At) (browser.Look, error) {
	ctx, end, err := b.begin(ctx, 0)
	if err != nil {
		return browser.Look{}, err
	}
	defer end()
	args, err := b.element(ctx, toolClick, at)
	if err != nil {
		return browser.Look{}, fmt.Errorf("click %v: %w", at, err)
	}
	return b.act(ctx, step{tool: toolClick, args: args})
}

// Type fills a field with text in place of what it holds, and presses Enter when
// submit is set.
func (b *Browser) Type(ctx context.Context, at browser.At, text string, submit bool) (browser.Look, error) {
	ctx, end, err := b.begin(ctx, 0)
	if err != nil {
		return browser.Look{}, err
	}
	defer end()
	args, err := b.element(ctx, toolFill, at)
	if err != nil {
		return browser.Look{}, fmt.Errorf("type into %v: %w", at, err)
	}
	args["value"], args["clear"] = text, true
	// The server's own words repeat what was typed, which may be a password.
	steps := []step{{toolFill, args, fmt.Sprintf("Typed into %v.", at)}}
	if submit {
		steps = append(steps, step{tool: toolPress, args: map[string]any{"key": "Enter"}})
	}
	return b.act(ctx, steps...)
}

// Extract reads the page as Markdown, with its elements.
func (b *Browser) Extract(ctx context.Context) (browser.Look, error) {
	ctx, end, err := b.begin(ctx, 0)
	if err != nil {
		return browser.Look{}, err
	}
	defer end()
	page, err := b.call(ctx, toolMarkdown, nil)
	if err != nil {
		return browser.Look{}, err
	}
	list, err := b.list(ctx)
	if err != nil {
		return browser.Look{}, err
	}
	return look(join(textOf(page), list)), nil
}

// Screenshot is a picture of the viewport, or of one element. Its Scale is taken
// to be one: the server does not tell.
func (b *Browser) Screenshot(ctx context.Context, shot browser.Shot) (browser.Picture, error) {
	ctx, end, err := b.begin(ctx, 0)
	if err != nil {
		return browser.Picture{}, err
	}
	defer end()
	if err := b.connect(ctx); err != nil {
		return browser.Picture{}, err
	}
	if shot.Full || shot.Tab != 0 {
		return browser.Picture{}, b.unsupported("a picture of the whole page, or of another tab")
	}
	args := map[string]any{}
	if shot.At != (browser.At{}) {
		if args, err = b.element(ctx, toolScreenshot, shot.At); err != nil {
			return browser.Picture{}, fmt.Errorf("take a picture of %v: %w", shot.At, err)
		}
	}
	res, err := b.call(ctx, toolScreenshot, args)
	if err != nil {
		return browser.Picture{}, err
	}
	return picture(res, shot)
}
