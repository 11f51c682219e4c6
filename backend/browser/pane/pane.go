// Package pane is the browser of one session with everybody's hands and eyes on
// it: the agent's, those of the persons who look on, and the lease that decides
// between them.
//
//	p := pane.New(pane.Options{Dial: client.CDP, Downloads: "/root/Downloads"})
//	look, err := p.Agent().Navigate(ctx, "https://example.com")
//	viewer := p.Relay().Join(relay.View{ID: "window-7"})
//	p.Close("The sandbox was stopped.") // viewers are told
//
// All of them share one connection, so what one opens the others see, and the
// page is the same before and after control has changed hands. A browser that
// can only be acted on, as one behind another's tools, has no connection of ours:
// it is a Pane without tabs, relay and outline.
//
// A Pane asks nothing of the browser before somebody does. It survives the
// browser's own end, since the next call finds or starts another; it ends with
// the place that the browser is in.
package pane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// Errors of a Pane.
var (
	// ErrNoView says that a browser can be acted on and not looked at.
	ErrNoView = errors.New("this browser can be used by the agent and shows no picture of itself")

	// ErrEnded says that a Pane has ended, and its place may have too.
	ErrEnded = errors.New("the browser was let go of")
)

// Options are what a Pane is made of: Dial, or Backend in its place.
type Options struct {
	// Dial opens the browser's debugging connection.
	Dial devtools.DialFunc

	// Backend is a browser that can only be acted on. Where it is an io.Closer, it
	// is closed with the Pane.
	Backend browser.Backend

	// Context keeps to the tabs of one browser context, "" to all.
	Context string

	// Downloads is the directory for downloads, as the browser sees it; they are
	// refused when it is "".
	Downloads string

	// File says whether a file may be uploaded and under which path the browser
	// sees it; nil for every path as it is.
	File func(path string) (string, error)

	Log *slog.Logger
}

// Pane is described at the package. Its methods may be called from several
// goroutines at once.
type Pane struct {
	lease *control.Lease
	agent browser.Backend
	tabs  *tabs.Browser
	relay *relay.Relay
	close sync.Once
	done  chan struct{}
}

// New returns a Pane that has asked nothing of its browser yet.
func New(o Options) *Pane {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	p := &Pane{lease: control.New(), agent: o.Backend, done: make(chan struct{})}
	if o.Backend == nil {
		p.tabs = tabs.New(tabs.Options{
			Dial: o.Dial, Context: o.Context, Downloads: o.Downloads, Log: o.Log,
			Held: func() bool { return p.lease.State().Held() },
		})
		p.agent = browser.NewAgent(browser.Options{Browser: p.tabs, Lease: p.lease, File: o.File, Log: o.Log})
		p.relay = relay.New(relay.Options{Browser: p.tabs, Lease: p.lease, Log: o.Log})
	}
	return p
}

// Agent is the browser as an agent uses it.
func (p *Pane) Agent() browser.Backend { return p.agent }

// Tabs is what is open; nil for a browser that can only be acted on.
func (p *Pane) Tabs() *tabs.Browser { return p.tabs }

// Lease decides who acts.
func (p *Pane) Lease() *control.Lease { return p.lease }

// Relay shows the browser; nil for one that can only be acted on.
func (p *Pane) Relay() *relay.Relay { return p.relay }

// Outline reads the page of the active tab as assistive technology does. It
// starts no browser that does not run: where none is connected the error is
// tabs.ErrUnreachable, and ErrNoView where none ever is.
func (p *Pane) Outline(ctx context.Context) (browser.Outline, error) {
	if p.tabs == nil {
		return browser.Outline{}, ErrNoView
	}
	tab := p.tabs.Current()
	if tab == nil {
		return browser.Outline{}, fmt.Errorf("read the page's outline: no page is open: %w", tabs.ErrUnreachable)
	}
	return browser.ReadOutline(ctx, tab)
}

// Done is closed when the Pane has ended.
func (p *Pane) Done() <-chan struct{} { return p.done }

// Close ends the Pane and waits until nothing of it is left: viewers are told the
// reason, calls of the agent fail, control is nobody's and stays so. The browser
// itself goes on. It is idempotent; the first reason stands.
func (p *Pane) Close(reason string) {
	p.close.Do(func() {
		if p.relay != nil {
			p.relay.End(reason)
			_ = p.tabs.Close() // which has no fault to tell
		}
		if c, ok := p.agent.(io.Closer); ok && p.tabs == nil {
			_ = c.Close() // nobody is left to use it
		}
		p.lease.Close()
		close(p.done)
	})
	<-p.done
}
