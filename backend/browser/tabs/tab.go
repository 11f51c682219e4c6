package tabs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// Tab is one page that is open. Its fields are guarded by its Browser's lock.
type Tab struct {
	b       *Browser
	target  string
	number  int
	opener  *Tab
	session *devtools.Session

	url, title string
	frame      cdp.FrameID // the main one; it has the target's id
	failed     string      // the address that could not be opened, of which an error is shown
	committed  bool        // it has shown a document that somebody asked for
	documents  int         // how many: a snapshot of an earlier one is stale
	ready      bool        // its process has answered once
	loading    bool
	loader     cdp.LoaderID
	reached    []string // lifecycle events of that loader
	crashed    bool
	gone       bool
	input      time.Time // when the last input was sent
	dialog     *Dialog
	chooser    cdp.BackendNodeID
	console    []Line
	watchers   map[int]func(devtools.Event)
	watcher    int
}

// Line is one line that a page wrote to its console, or that the browser wrote
// there about it.
type Line struct {
	At    time.Time `json:"at"`
	Level string    `json:"level"` // log, info, warning, error, debug
	Text  string    `json:"text"`
	URL   string    `json:"url,omitzero"`
	Line  int64     `json:"line,omitzero"`
}

// newTab adds a tab. fresh says that it opens just now, and was not there before
// the connection was. The lock is held.
func (b *Browser) newTab(s *devtools.Session, info *target.Info, opener *Tab, fresh bool) *Tab {
	number := b.numbers[string(info.TargetID)]
	if number == 0 {
		b.last++
		number = b.last
		b.numbers[string(info.TargetID)] = number
	}
	t := &Tab{
		b: b, target: string(info.TargetID), number: number, opener: opener, session: s,
		title: info.Title, frame: cdp.FrameID(info.TargetID),
		committed: opener == nil || !fresh,
		watchers:  map[int]func(devtools.Event){},
	}
	t.at(info.URL)
	b.tabs = append(b.tabs, t)
	return t
}

// placed decides whether a tab becomes the active one. The lock is held.
func (b *Browser) placed(t, opener *Tab, fresh bool) {
	if opener == nil || !fresh {
		if b.active == nil {
			b.activate(t)
		}
		b.ring()
		return
	}
	followed := opener == b.active && time.Since(opener.input) < gestureTime ||
		// a second pop-up of the same input: the first is active by now
		b.active != nil && b.active.opener == opener && time.Since(opener.input) < gestureTime
	says := "it is open in the background"
	if followed {
		b.activate(t)
		says = "it is the active tab now"
	}
	n := b.notice(NoticeTabOpened, t, t.url, "")
	n.Text = fmt.Sprintf("Tab %d opened tab %d: %s.", opener.number, t.number, says)
}

// named takes what the browser calls the tab now. The lock is held.
func (t *Tab) named(info *target.Info) {
	if info.URL == "" || t.url == told(info.URL) {
		return
	}
	t.at(info.URL)
	t.b.ring()
}

// at notes where the tab is. The lock is held.
func (t *Tab) at(address string) { t.url = told(address) }

// told is an address as it is told: a password in it is nobody's to read, and pages
// make them as long as they like.
func told(address string) string {
	if u, err := url.Parse(address); err == nil && u.User != nil {
		u.User = nil
		address = u.String()
	}
	return clip(address, maxAddress)
}

// credentials are the name and the password of an address in a text, as in the stack
// of what a script of such a page threw.
var credentials = regexp.MustCompile(`(?i)(\bhttps?://)[^\s/?#@]*@`)

// clip returns the first n bytes of a text that is longer.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// lived takes a step of the main document's life. The lock is held.
func (t *Tab) lived(ev page.EventLifecycleEvent) {
	if ev.Name == "init" || ev.LoaderID != t.loader {
		t.loader, t.reached = ev.LoaderID, nil
	}
	t.reached = append(t.reached, ev.Name)
	t.b.ring()
}

// remove takes a tab away that has closed. The lock is held.
func (b *Browser) remove(t *Tab) {
	b.tabs = slices.DeleteFunc(b.tabs, func(o *Tab) bool { return o == t })
	delete(b.numbers, t.target)
	t.end()
	if b.active != t {
		b.notice(NoticeTabClosed, t, t.url, "Tab %d closed.", t.number)
		return
	}
	next := t.opener
	for next != nil && next.gone {
		next = next.opener
	}
	if next == nil && len(b.tabs) > 0 {
		next = b.tabs[len(b.tabs)-1]
	}
	b.activate(next)
	if next == nil {
		b.notice(NoticeTabClosed, t, t.url, "Tab %d closed, the last one: the next call opens an empty one.", t.number)
		return
	}
	b.notice(NoticeTabClosed, t, t.url, "Tab %d closed: tab %d is the active tab now.", t.number, next.number)
}

// end lets go of a tab that is gone, with its connection or alone.
func (t *Tab) end() {
	t.gone = true
	if t.dialog != nil {
		t.dialog.timer.Stop()
		t.dialog = nil
	}
}

func (t *Tab) crash() {
	if t.crashed {
		return
	}
	t.crashed, t.loading = true, false
	t.dialogCloses()
	t.b.notice(NoticeCrashed, t, t.url, "The page in tab %d crashed: reload it or navigate to open a page again.", t.number)
}

// Number is what the tab is called by people and models. Numbers are not used
// twice.
func (t *Tab) Number() int { return t.number }

// Target is the browser's own id of the tab.
func (t *Tab) Target() string { return t.target }

// Session is the way to the tab's page.
func (t *Tab) Session() *devtools.Session { return t.session }

// Info is what a tab shows.
type Info struct {
	Number    int    `json:"number"`
	Target    string `json:"target"`
	URL       string `json:"url"`
	Title     string `json:"title"`
	Active    bool   `json:"active"`
	Loading   bool   `json:"loading"`
	Crashed   bool   `json:"crashed"`
	Failed    string `json:"failed,omitzero"` // the address that could not be opened: what is shown is the browser's error
	Opener    int    `json:"opener,omitzero"`
	Documents int    `json:"-"` // raised by each document that it shows
}

// Info tells what the tab shows now.
func (t *Tab) Info() Info {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return t.info()
}

func (t *Tab) info() Info {
	i := Info{
		Number: t.number, Target: t.target, URL: t.url, Title: t.title, Active: t == t.b.active,
		Loading: t.loading, Crashed: t.crashed, Failed: t.failed, Documents: t.documents,
	}
	if t.opener != nil {
		i.Opener = t.opener.number
	}
	return i
}

// Alive tells why nothing can be done in the tab: it is closed or has crashed.
func (t *Tab) Alive() error {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	switch {
	case t.gone && t.b.link == nil:
		return ErrBroken
	case t.gone:
		return ErrGone
	case t.crashed:
		return ErrCrashed
	}
	return nil
}

// closed reports whether the tab is closed, or its connection is.
func (t *Tab) closed() bool {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return t.gone
}

// Acted notes that an input was just sent to the tab. A tab that opens within
// five seconds is taken for its effect, as browsers do for pop-ups.
func (t *Tab) Acted() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.input = time.Now()
}

// Follow calls watch for each event of the tab's page until the returned func is
// called. watch must not block, nor use the Browser.
func (t *Tab) Follow(watch func(devtools.Event)) (stop func()) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.watcher++
	key := t.watcher
	t.watchers[key] = watch
	return func() {
		t.b.mu.Lock()
		defer t.b.mu.Unlock()
		delete(t.watchers, key)
	}
}

// Chooser returns the input that a page asked a file for and forgets it; 0 when
// none did.
func (t *Tab) Chooser() cdp.BackendNodeID {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	id := t.chooser
	t.chooser = 0
	return id
}

// State is the browser as a person sees it.
type State struct {
	Connected bool    `json:"connected"`
	Lost      string  `json:"lost,omitzero"` // why it is not
	Tabs      []Info  `json:"tabs"`
	Dialog    *Dialog `json:"dialog,omitzero"` // that waits in the active tab
}

// State tells what is open now. It asks nobody.
func (b *Browser) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := State{Connected: b.link != nil, Tabs: []Info{}}
	if b.lost != nil {
		s.Lost = b.lost.Error()
	}
	if b.link == nil {
		return s
	}
	for _, t := range b.tabs {
		s.Tabs = append(s.Tabs, t.info())
	}
	if b.active != nil && b.active.dialog != nil {
		d := *b.active.dialog
		s.Dialog = &d
	}
	return s
}

// Current returns the active tab without making one; nil when there is none.
func (b *Browser) Current() *Tab {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.link == nil {
		return nil
	}
	return b.active
}

// Console returns the newest lines of the tab's console, oldest first.
func (t *Tab) Console() []Line {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return slices.Clone(t.console)
}

// printed takes a line of the console. The lock is held.
func (t *Tab) printed(e devtools.Event) {
	line := Line{At: time.Now()}
	if ev, ok := devtools.Decode(e, runtime.ConsoleAPICalled); ok {
		line.Level = string(ev.Type)
		parts := make([]string, 0, len(ev.Args))
		for _, a := range ev.Args {
			parts = append(parts, plain(a))
		}
		line.Text = strings.Join(parts, " ")
		if ev.StackTrace != nil && len(ev.StackTrace.CallFrames) > 0 && ev.StackTrace.CallFrames[0] != nil {
			line.URL, line.Line = ev.StackTrace.CallFrames[0].URL, ev.StackTrace.CallFrames[0].LineNumber+1
		}
	} else if ev, ok := devtools.Decode(e, runtime.ExceptionThrown); ok && ev.ExceptionDetails != nil {
		d := ev.ExceptionDetails
		line.Level, line.Text, line.URL, line.Line = "error", d.Text, d.URL, d.LineNumber+1
		if d.Exception != nil && d.Exception.Description != "" {
			line.Text += " " + d.Exception.Description
		}
	} else if ev, ok := devtools.Decode(e, log.EntryAdded); ok && ev.Entry != nil {
		line.Level, line.Text, line.URL, line.Line = string(ev.Entry.Level), ev.Entry.Text, ev.Entry.URL, ev.Entry.LineNumber+1
	} else {
		return
	}
	line.Text = credentials.ReplaceAllString(strings.ToValidUTF8(clip(line.Text, maxLine), ""), "$1")
	line.URL = told(line.URL)
	t.console = append(t.console, line)
	if len(t.console) > keptConsole {
		t.console = t.console[len(t.console)-keptConsole:]
	}
}

func plain(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	if len(o.Value) > 0 {
		var s string
		if json.Unmarshal(o.Value, &s) == nil {
			return s
		}
		return string(o.Value)
	}
	if o.UnserializableValue != "" {
		return string(o.UnserializableValue)
	}
	if o.Description != "" {
		return o.Description
	}
	return string(o.Type)
}

// Call runs a command on the tab's page with the bound of one step. A dialog that
// opens meanwhile ends the wait with a [DialogError]: the page's answer would
// come after the dialog's.
func Call[P, R any](ctx context.Context, t *Tab, s *devtools.Session, c cdp.Command[P, R], params P) (R, error) {
	var zero R
	if err := t.Alive(); err != nil {
		return zero, err
	}
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	ctx, stop := t.unlessStuck(ctx)
	defer stop()
	r, err := cdp.Call(ctx, s, c, params)
	if err != nil {
		if dead := t.Alive(); dead != nil {
			return zero, dead
		}
		return zero, t.b.fault(err)
	}
	return r, nil
}
