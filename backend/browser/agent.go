package browser

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"

	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// How long an input's effects are waited for.
const (
	quietTime    = 500 * time.Millisecond // in which a click's pop-up or navigation begins, by the page's clock
	busyTime     = 5 * time.Second        // for a page that is busy to come to that
	popupTime    = 3 * time.Second        // for a new tab to show its first document
	downloadTime = 5 * time.Second        // for a file to arrive before it is told as running
)

//go:embed page.js
var library string

// script calls a function of page.js by name.
var script = `(name, ...args) => (globalThis.glovebox ??= (secrets => ` + library + `)(` + tabs.Secrets + `))[name](...args)`

// Options are what an Agent is made of; Browser is needed.
type Options struct {
	Browser *tabs.Browser
	Lease   *control.Lease // one of its own, that nobody takes, when nil

	// File says whether a file may be uploaded and under which path the browser
	// sees it; nil for every path as it is.
	File func(path string) (string, error)

	Log *slog.Logger
}

// Agent is a Backend over a browser's debugging connection.
type Agent struct {
	o     Options
	tabs  *tabs.Browser
	lease *control.Lease
	log   *slog.Logger

	busy chan struct{} // one: whoever has it acts; it guards what follows

	next   int           // number for the next element
	known  map[int]place // the elements of the newest look
	looked *tabs.Tab     // whose look that was
	told   uint64        // the last notice that a call has told
}

// place is where a numbered element is.
type place struct {
	frame   cdp.FrameID
	element Element
}

var _ Backend = (*Agent)(nil)

// NewAgent returns an Agent.
func NewAgent(o Options) *Agent {
	a := &Agent{o: o, tabs: o.Browser, lease: o.Lease, log: o.Log, busy: make(chan struct{}, 1), next: 1, known: map[int]place{}}
	if a.lease == nil {
		a.lease = control.New()
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	return a
}

// act is a call that is going on.
type act struct {
	*Agent
	tab   *tabs.Tab
	seq   uint64   // the last notice before it
	newly uint64   // the last notice that its result tells
	lines []string // what it has to tell, before the look
	acted Acted
	let   bool // something of it has been let to the browser
}

// gate lets an input of the agent through unless a person has control.
func (c *act) gate(send func()) error {
	return c.lease.Agent(func() {
		c.let = true
		send()
	})
}

func (c *act) say(format string, a ...any) { c.lines = append(c.lines, fmt.Sprintf(format, a...)) }

// begin waits for its turn, makes sure of a tab, and clears a dialog away that
// was not answered.
func (a *Agent) begin(ctx context.Context, answers bool) (*act, context.Context, func(), error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, callTime)
	select {
	case a.busy <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return nil, nil, nil, context.Cause(ctx)
	}
	c := &act{Agent: a}
	end := func() {
		if outer.Err() == nil { // nobody reads the result of a call that was stopped
			a.told = max(a.told, c.newly)
		}
		<-a.busy
		cancel()
	}
	a.lease.Settle(ctx)
	c.seq = a.tabs.Seq()
	tab, err := a.tabs.Active(ctx)
	if err != nil {
		end()
		return nil, nil, nil, err
	}
	if !answers {
		a.lease.Agent(tab.Dismiss) // a person's dialog is not the agent's to dismiss
	}
	c.tab = tab
	return c, ctx, end, nil
}

// input runs one act that changes the page and looks at what came of it.
func (a *Agent) input(ctx context.Context, do func(ctx context.Context, c *act) error) (Look, error) {
	if err := a.lease.May(); err != nil {
		return Look{}, err
	}
	c, ctx, end, err := a.begin(ctx, false)
	if err != nil {
		return Look{}, err
	}
	defer end()
	err = do(ctx, c)
	if _, ok := errors.AsType[*tabs.DialogError](err); ok {
		err = nil // the act went through, and its answer comes after the dialog's
	}
	switch {
	case err == nil:
		return c.result(ctx)
	case c.let && isTaken(err):
		return Look{Acted: c.acted}, &TakenError{Cause: err}
	}
	return Look{Notices: c.news(), Tab: c.tab.Info(), Acted: c.acted}, c.explain(err)
}

// result looks at what came of an act that went through.
func (c *act) result(ctx context.Context) (Look, error) {
	l, err := c.look(ctx, false)
	if isTaken(err) {
		return Look{Acted: c.acted}, &TakenError{Done: true, Told: strings.Join(c.lines, "\n"), Cause: err}
	}
	return l, err
}

// isTaken reports whether an error is a refusal for the sake of a person.
func isTaken(err error) bool {
	return errors.Is(err, control.ErrHeld) || errors.Is(err, control.ErrLook)
}

// explain adds what happened meanwhile to an error.
func (c *act) explain(err error) error {
	var text strings.Builder
	c.tell(&text, c.news())
	if text.Len() == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s", err, strings.TrimSpace(text.String()))
}

// news returns what happened since the last call that told what had: during this
// one, and before it with nobody there to be told, like a dialog that was dismissed
// because no answer came. What happened while a person had control is theirs.
func (c *act) news() []tabs.Notice {
	notices := c.tabs.Notices(c.Agent.told)
	if len(notices) > 0 {
		c.newly = notices[len(notices)-1].Seq
	}
	return slices.DeleteFunc(notices, func(n tabs.Notice) bool { return c.lease.Had(n.At) })
}

// eval calls a function of page.js in a frame as an input of the agent.
func (c *act) eval(ctx context.Context, f *tabs.Frame, out any, name string, args ...any) error {
	defer c.lease.Begin()()
	return f.By(c.gate).Eval(ctx, script, out, append([]any{name}, args...)...)
}

// Navigate opens an address in the active tab.
func (a *Agent) Navigate(ctx context.Context, url string) (Look, error) {
	if _, err := tabs.Address(url); err != nil {
		return Look{}, err
	}
	return a.input(ctx, func(ctx context.Context, c *act) error { return c.navigate(ctx, url) })
}

func (c *act) navigate(ctx context.Context, url string) error {
	l, err := c.tab.Navigate(ctx, c.gate, url)
	return c.loaded(ctx, l, err)
}

// loaded tells how a navigation ended.
func (c *act) loaded(ctx context.Context, l tabs.Loaded, err error) error {
	switch {
	case err != nil:
		return err
	case l.Download:
		c.say("The address is a file: the page stays as it was.")
		c.downloaded(ctx)
	case !l.Complete && c.tab.Dialog() == nil:
		c.say("The page has not finished loading after %v; this is what is there so far.", tabs.LoadTime)
	}
	return nil
}

// settle waits for what an input led to: a navigation, a new tab, a download, a
// dialog.
func (c *act) settle(ctx context.Context) {
	c.quiet(ctx)
	now := c.tabs.Current()
	if now == nil || now.Dialog() != nil {
		return
	}
	if now != c.tab {
		address, cancel := context.WithTimeout(ctx, popupTime)
		defer cancel()
		c.until(address, func() bool {
			i := now.Info()
			// A pop-up knows where it goes before it has anything of it to show.
			shown := i.URL != "" && i.URL != "about:blank" && (i.Opener == 0 || i.Documents > 0)
			return now.Dialog() != nil || now.Alive() != nil || shown
		})
	}
	if now.Alive() == nil && !now.Settle(ctx) {
		c.say("The page has not finished loading after %v; this is what is there so far.", tabs.LoadTime)
	}
	c.downloaded(ctx)
}

// quiet lets a page begin what an input leads to. A page that is busy, or whose machine
// stands still, does that later by our clock, and no later by its own.
func (c *act) quiet(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx) // which a call does not take for a page that is stuck
	defer cancel()
	late := time.AfterFunc(busyTime, cancel)
	defer late.Stop()
	over := make(chan struct{})
	go func() { // until quiet ends, which waits for it
		defer close(over)
		here := time.NewTimer(quietTime)
		defer here.Stop()
		if frames, err := c.tab.Frames(ctx); err == nil {
			// One that is left meanwhile gives no answer: the clock here is enough for it.
			_ = frames[0].Eval(ctx, `ms => new Promise(over => setTimeout(() => over(true), ms))`, nil, quietTime.Milliseconds())
		}
		select {
		case <-here.C:
		case <-ctx.Done():
		}
		cancel()
	}()
	c.until(ctx, func() bool { return c.tab.Dialog() != nil || c.tab.Alive() != nil })
	cancel()
	<-over
}

// downloaded waits a little for files that began to arrive during the call.
func (c *act) downloaded(ctx context.Context) {
	began := false
	for _, n := range c.tabs.Notices(c.seq) {
		began = began || n.Kind == tabs.NoticeDownload
	}
	if !began {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	c.until(ctx, func() bool {
		for _, d := range c.tabs.Downloads() {
			if d.State == tabs.DownloadRunning {
				return false
			}
		}
		return true
	})
}

// until waits for ok, which is asked again after each change of the browser, or
// for the end of ctx.
func (c *act) until(ctx context.Context, ok func() bool) bool {
	for {
		bell := c.tabs.Watch()
		if ok() {
			return true
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return false
		}
	}
}

// post sends inputs that belong together, unless a person has control, and waits
// for their answers. A dialog or a crash that they lead to ends the wait.
func (c *act) post(ctx context.Context, inputs ...command) error {
	defer c.lease.Begin()()
	answers := make(chan error, len(inputs)) // one each, whoever still waits
	c.tab.Acted()                            // before, so that a tab that opens at once is known for its effect
	err := c.gate(func() {
		for _, in := range inputs {
			c.tab.Session().Go(in.method, in.params, func(_ jsonv2.Value, err error) { answers <- err })
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for range inputs {
		for done := false; !done; {
			bell := c.tabs.Watch()
			if c.tab.Dialog() != nil || c.tab.Alive() != nil {
				return nil // what it led to; the look tells
			}
			select {
			case err := <-answers:
				if err != nil {
					if errors.Is(err, devtools.ErrClosed) {
						return tabs.ErrBroken
					}
					return err
				}
				done = true
			case <-bell:
			case <-ctx.Done():
				return fmt.Errorf("the input was sent: %w", tabs.ErrStuck)
			}
		}
	}
	return nil
}

// command is one input to the page.
type command struct {
	method string
	params any
}
