package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// seen is what page.js tells of one document.
type seen struct {
	Elements []Element `json:"elements"`
	Next     int       `json:"next"`
	More     int       `json:"more"`
	Title    string    `json:"title"`
	URL      string    `json:"url"`
	Scroll   struct {
		X, Y, Width, Height int
	} `json:"scroll"`
	View struct {
		Width, Height int
	} `json:"view"`
}

// look looks at the active tab and puts together what the call tells: what it
// did, what happened meanwhile, and the page with its elements.
func (c *act) look(ctx context.Context, content bool) (Look, error) {
	token, err := c.lease.Look()
	if err != nil {
		return Look{}, err
	}
	if err := token.Do(c.tabs.Cover); err != nil {
		return Look{}, err
	}
	l, seen := c.see(ctx, content)
	if seen != nil && !stands(seen) {
		return Look{}, seen
	}
	if err := token.Done(); err != nil {
		clear(c.known)
		c.newly = 0
		return Look{}, err
	}
	return l, seen
}

// stands tells whether a look's fault is how the page stands: one that is stuck,
// crashed or gone, or that waits for its dialog, shows no more than that however
// often it is looked at. Who has been told so has looked, and may leave it.
func stands(fault error) bool {
	for _, lasting := range []error{tabs.ErrStuck, tabs.ErrCrashed, tabs.ErrGone, tabs.ErrDialog} {
		if errors.Is(fault, lasting) {
			return true
		}
	}
	return false
}

func (c *act) see(ctx context.Context, content bool) (Look, error) {
	var page bytes.Buffer
	var l Look
	var tab *tabs.Tab
	var fault error
	for range 3 {
		if tab = c.tabs.Current(); tab == nil {
			var err error
			if tab, err = c.tabs.Active(ctx); err != nil {
				return Look{}, err
			}
		}
		clear(c.known)
		c.looked = tab
		page.Reset()
		l = Look{}
		fault = nil
		if d := tab.Dialog(); d != nil {
			fault = &tabs.DialogError{Kind: d.Kind, Text: d.Text}
		} else {
			fault = c.document(ctx, tab, &page, &l, content)
		}
		// A pop-up that closes itself gives way to the tab that opened it.
		if !errors.Is(fault, tabs.ErrGone) {
			break
		}
	}
	// A dialog that opens while the page is looked at is told like one that was
	// open before.
	if d, ok := errors.AsType[*tabs.DialogError](fault); ok {
		fmt.Fprintf(&page, "The page waits for an answer to its %s %q.\n", d.Kind, d.Text)
		fault = nil
	}
	l.Tab = tab.Info()
	l.Notices = c.news()
	l.Acted = c.acted

	var text strings.Builder
	for _, line := range c.lines {
		fmt.Fprintln(&text, line)
	}
	c.tell(&text, l.Notices)
	if fault != nil {
		// What the call did is not lost over a page that cannot be looked at.
		return l, fmt.Errorf("%stab %d (%s) cannot be looked at: %w", &text, l.Tab.Number, l.Tab.URL, fault)
	}
	title := l.Tab.Title
	if title == "" {
		title = "(no title)"
	}
	open := "the only one"
	if n := len(c.tabs.State().Tabs); n > 1 {
		open = fmt.Sprintf("%d are open", n)
	}
	fmt.Fprintf(&text, "Tab %d (%s): %s (%s)\n", l.Tab.Number, open, title, l.Tab.URL)
	if l.Tab.Failed != "" {
		fmt.Fprintf(&text, "This is the browser's error page: %s could not be opened.\n", l.Tab.Failed)
	}
	text.Write(page.Bytes())
	l.Text = strings.TrimRight(text.String(), "\n") + "\n"
	return l, nil
}

// tell writes the notices, the same one after the other once.
func (c *act) tell(w *strings.Builder, notices []tabs.Notice) {
	const most = 40
	var lines []string
	times := 1
	for i, n := range notices {
		if i+1 < len(notices) && notices[i+1].Text == n.Text {
			times++
			continue
		}
		line := n.Text
		if times > 1 {
			line += fmt.Sprintf(" (%d times)", times)
		}
		times = 1
		if n.Kind == tabs.NoticeTabOpened {
			if t, err := c.tabs.Find(n.Tab); err == nil {
				line += " It shows " + t.Info().URL
			}
		}
		lines = append(lines, line)
	}
	if len(lines) > most {
		fmt.Fprintf(w, "(%d earlier notices are left out)\n", len(lines)-most)
		lines = lines[len(lines)-most:]
	}
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
}

// document looks at all frames of a tab.
func (c *act) document(ctx context.Context, tab *tabs.Tab, w *bytes.Buffer, l *Look, content bool) error {
	frames, err := tab.Frames(ctx)
	if err != nil {
		return err
	}
	if content {
		if err := c.markdown(ctx, frames, w); err != nil {
			return err
		}
		w.WriteString("\n# Interactive elements\n")
	}
	more := 0
	for _, f := range frames {
		var s seen
		err := f.Eval(ctx, script, &s, "look", c.next, max(0, MaxElements-len(l.Elements)))
		if err != nil {
			if f.Parent != nil && gone(err) {
				continue
			}
			return err
		}
		c.next = max(c.next, s.Next)
		more += s.More
		if f.Parent == nil {
			if s.Scroll.Height > s.View.Height || s.Scroll.Y > 0 {
				fmt.Fprintf(w, "Scrolled to %d of %d px; %d px are in view.\n", s.Scroll.Y, s.Scroll.Height, s.View.Height)
			}
		} else if len(s.Elements) > 0 {
			fmt.Fprintf(w, "In frame %s:\n", frameName(f))
		}
		for _, e := range s.Elements {
			if f.Parent != nil {
				e.Frame = f.URL
			}
			c.known[e.Number] = place{frame: f.ID, element: e}
			l.Elements = append(l.Elements, e)
			e.write(w)
		}
	}
	if len(l.Elements) == 0 {
		w.WriteString("(nothing on the page can be acted on)\n")
	}
	if more > 0 {
		fmt.Fprintf(w, "(%d more elements are not listed; reach them by a CSS selector)\n", more)
	}
	return nil
}

func frameName(f *tabs.Frame) string {
	if f.Name != "" {
		return fmt.Sprintf("%q (%s)", f.Name, f.URL)
	}
	return f.URL
}

// gone tells whether a frame's fault is that it is no longer there.
func gone(err error) bool {
	for _, lasting := range []error{tabs.ErrBroken, tabs.ErrCrashed, tabs.ErrGone, tabs.ErrStuck, context.Canceled} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	_, dialog := errors.AsType[*tabs.DialogError](err)
	return !dialog
}

// write writes an element as one line: [3] <a> Sign in (https://…).
func (e Element) write(w *bytes.Buffer) {
	fmt.Fprintf(w, "[%d] <%s", e.Number, e.Tag)
	if e.Type != "" {
		fmt.Fprintf(w, " type=%s", e.Type)
	}
	if e.Role != "" {
		fmt.Fprintf(w, " role=%s", e.Role)
	}
	w.WriteString(">")
	if e.Name != "" {
		w.WriteString(" " + e.Name)
	}
	if e.Href != "" {
		fmt.Fprintf(w, " (%s)", e.Href)
	}
	switch {
	case e.Secret:
		w.WriteString(" = " + secretText)
	case e.Value != "":
		fmt.Fprintf(w, " = %q", e.Value)
	}
	if e.Hint != "" {
		fmt.Fprintf(w, " hint %q", e.Hint)
	}
	if len(e.Options) > 0 {
		fmt.Fprintf(w, " options %q", e.Options)
		if e.More > 0 {
			fmt.Fprintf(w, " and %d more", e.More)
		}
	}
	for _, s := range []struct {
		is   bool
		word string
	}{{e.Checked, "checked"}, {e.Expanded, "expanded"}, {e.Disabled, "disabled"}, {e.Readonly, "read-only"}, {e.Off, "off-screen"}} {
		if s.is {
			w.WriteString(" [" + s.word + "]")
		}
	}
	w.WriteString("\n")
}
