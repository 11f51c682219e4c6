package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// answer answers the dialog that is open.
func (a *Agent) answer(ctx context.Context, action Action) (Look, error) {
	if err := a.lease.May(); err != nil {
		return Look{}, err
	}
	c, ctx, end, err := a.begin(ctx, true)
	if err != nil {
		return Look{}, err
	}
	defer end()
	var fault error
	if err := c.gate(func() { fault = c.tab.Answer(action.Accept, action.Text) }); err != nil {
		return Look{}, err
	}
	if fault != nil {
		return Look{}, fmt.Errorf("dialog: %w", fault)
	}
	c.tab.Acted()
	c.settle(ctx)
	return c.result(ctx)
}

// list tells what is open, downloaded or printed. It touches no page.
func (a *Agent) list(ctx context.Context, action Action) (Look, error) {
	token, err := a.lease.Look()
	if err != nil {
		return Look{}, err
	}
	c, _, end, err := a.begin(ctx, true)
	if err != nil {
		return Look{}, err
	}
	defer end()
	var w strings.Builder
	var l Look
	switch action.Kind {
	case Tabs:
		l.Tabs = a.tabs.State().Tabs
		for _, t := range l.Tabs {
			mark := ""
			if t.Active {
				mark = " [active]"
			}
			if t.Crashed {
				mark += " [crashed]"
			}
			if t.Loading {
				mark += " [loading]"
			}
			fmt.Fprintf(&w, "Tab %d%s: %s (%s)\n", t.Number, mark, t.Title, t.URL)
		}
	case Downloads:
		l.Downloads = a.tabs.Downloads()
		for _, d := range l.Downloads {
			fmt.Fprintf(&w, "%s: %s, %d bytes", d.Name, d.State, d.Received)
			if d.State == tabs.DownloadRunning && d.Total > 0 {
				fmt.Fprintf(&w, " of %d", d.Total)
			}
			if d.Path != "" {
				fmt.Fprintf(&w, ", at %s", d.Path)
			}
			fmt.Fprintf(&w, " (from %s)\n", d.URL)
		}
	case Console:
		l.Console = c.tab.Console()
		for _, line := range l.Console {
			fmt.Fprintf(&w, "%s %s: %s", line.At.UTC().Format("15:04:05"), line.Level, line.Text)
			if line.URL != "" {
				fmt.Fprintf(&w, " (%s:%d)", line.URL, line.Line)
			}
			w.WriteString("\n")
		}
	}
	if w.Len() == 0 {
		w.WriteString("(none)\n")
	}
	// A list is no look at the page; it only must not have raced a person.
	if now, err := a.lease.Look(); err != nil || now != token {
		return Look{}, fmt.Errorf("list: %w", a.lease.May())
	}
	l.Tab, l.Notices = c.tab.Info(), c.news()
	c.tell(&w, l.Notices) // after the list, of which the end is shown
	l.Text = w.String()
	return l, nil
}

// wait waits until something is on the page.
func (a *Agent) wait(ctx context.Context, action Action) (Look, error) {
	if _, err := a.lease.Look(); err != nil {
		return Look{}, err
	}
	c, ctx, end, err := a.begin(ctx, false)
	if err != nil {
		return Look{}, err
	}
	defer end()
	limit := action.Timeout
	if limit <= 0 {
		limit = 10 * time.Second
	}
	limited, cancel := context.WithTimeout(ctx, min(limit, MaxWait))
	defer cancel()
	for {
		if c.tab = a.tabs.Current(); c.tab == nil || c.tab.Dialog() != nil || c.tab.Alive() != nil {
			return c.look(ctx, false)
		}
		found, err := c.there(limited, action)
		if _, broken := errors.AsType[*tabs.ScriptError](err); broken && action.At.Selector != "" { // it will never match
			return Look{}, c.explain(fmt.Errorf("wait for %s: %w", action.Awaited(), err))
		}
		if err != nil && limited.Err() == nil && !gone(err) {
			return Look{}, c.explain(err)
		}
		if found {
			return c.look(ctx, false)
		}
		// A page tells nobody of its changes; its own work is left the time.
		pause := time.NewTimer(100 * time.Millisecond)
		select {
		case <-pause.C:
		case <-limited.Done():
			pause.Stop()
			if ctx.Err() != nil {
				return Look{}, context.Cause(ctx)
			}
			if action.At.Selector == "" && action.Text == "" && action.URL == "" {
				return c.look(ctx, false)
			}
			return Look{Notices: c.news(), Tab: c.tab.Info()}, c.explain(fmt.Errorf("wait for %s: %w", action.Awaited(), ErrTimeout))
		}
		if _, err := a.lease.Look(); err != nil {
			return Look{}, err
		}
	}
}

// Awaited is what a wait waits for, in words; "" when it just lets time pass.
func (a Action) Awaited() string {
	var parts []string
	for _, p := range []struct{ what, is string }{{"selector", a.At.Selector}, {"text", a.Text}, {"URL", a.URL}} {
		if p.is != "" {
			parts = append(parts, fmt.Sprintf("%s %q", p.what, p.is))
		}
	}
	return strings.Join(parts, " and ")
}

func (c *act) there(ctx context.Context, a Action) (bool, error) {
	if a.At.Selector == "" && a.Text == "" && a.URL == "" {
		return false, nil
	}
	if a.URL != "" && !strings.Contains(c.tab.Info().URL, a.URL) {
		return false, nil
	}
	if a.At.Selector == "" && a.Text == "" {
		return true, nil
	}
	frames, err := c.tab.Frames(ctx)
	if err != nil {
		return false, err
	}
	for _, f := range frames {
		var found bool
		if err := f.Eval(ctx, script, &found, "has", a.At.Selector, a.Text); err != nil {
			return false, err
		}
		if found {
			return true, nil
		}
	}
	return false, nil
}
