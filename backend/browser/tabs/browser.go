// Package tabs is a live browser as a set of tabs: what is open, what each tab
// shows, which one is active, and what happens in them without being asked for:
// dialogs, pop-ups, downloads, crashes.
//
//	b := tabs.New(tabs.Options{Dial: endpoint.Dial})
//	defer b.Close()
//	tab, err := b.Active(ctx) // connects, and opens a tab where there is none
//	err = tab.Navigate(ctx, "https://example.com")
//
// It is shared by all who use the browser, the agent and the persons who look on;
// who may act is not decided here. A connection that broke is made again by the
// next call that needs one. Rules that hold for everybody:
//
//   - alert and beforeunload dialogs are accepted by themselves; confirm and
//     prompt wait for an answer and are dismissed after ten seconds without one.
//     All are told as notices.
//   - A tab that an input opened becomes the active one, the newest of several. A
//     tab that closes gives way to the one that opened it. Closing the last opens
//     an empty one at the next use.
//   - No more than [Options.Max] tabs: the rest are closed and told.
//   - Only web pages are navigated to: http, https and about:blank.
package tabs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// The waits that nobody chooses.
const (
	connectTime = 45 * time.Second // for a browser to be started, on a busy machine with a cold disk too
	readyTime   = 5 * time.Second  // for a new tab to have a process
	probeTime   = 3 * time.Second  // for a page that is about to be left to show that it lives
	stepTime    = 10 * time.Second // for one answer of a page that is not stuck
	dialogTime  = 10 * time.Second // for an answer to confirm and prompt
	gestureTime = 5 * time.Second  // how long after an input a new tab counts as its effect
	defaultMax  = 12
	keptConsole = 200
	keptFiles   = 200
)

// What is kept of texts that a page makes, in bytes.
const (
	maxAddress    = 4 << 10
	maxLine       = 4 << 10 // of a console
	maxDialogText = 1000
	maxDefault    = 16 << 10 // of a prompt's answer
)

var (
	// ErrUnreachable says that no connection to the browser could be made.
	ErrUnreachable = errors.New("the browser cannot be reached; the next call tries again")

	// ErrBroken says that the connection ended during a call.
	ErrBroken = errors.New("the connection to the browser broke during this call, and whether it took effect is not known; look at the page again before you repeat it")

	// ErrCrashed says that the page's process is gone.
	ErrCrashed = errors.New("the page crashed; reload it, navigate to open a page again, or switch to another tab")

	// ErrGone says that the tab was closed.
	ErrGone = errors.New("the tab is closed; list the tabs and choose another")

	// ErrStuck says that the page did not answer in time.
	ErrStuck = errors.New("the page does not answer (a script may run without end); reload it, navigate elsewhere, or switch to another tab")

	// ErrForbidden refuses an address that is no web page.
	ErrForbidden = errors.New("only http and https pages are opened")

	// ErrTabs refuses one more tab than may be open.
	ErrTabs = errors.New("no more tabs may be open: close one first")

	// ErrClosed says that Close was called.
	ErrClosed = errors.New("the browser's session has ended")
)

// Options are what a Browser is made of; Dial is needed.
type Options struct {
	Dial devtools.DialFunc

	// Context keeps to the tabs of one browser context; "" for all, new ones being
	// of the default context.
	Context string

	// Max is how many tabs may be open; 12 when 0.
	Max int

	// Downloads is the directory for downloads, as the browser sees it. Downloads
	// are refused when it is "".
	Downloads string

	// Held reports whether a person has control. A dialog waits for them as long
	// as they have; nil for never.
	Held func() bool

	Log *slog.Logger
}

// Browser is one browser. Its methods may be called from several goroutines.
type Browser struct {
	o    Options
	log  *slog.Logger
	life context.Context
	end  context.CancelFunc

	connecting chan struct{} // one: whoever has it makes the connection
	opening    chan struct{} // one: whoever has it opens the tab where there is none

	mu        sync.Mutex
	link      *link
	closed    bool
	lost      error // why the last link ended
	bell      chan struct{}
	tabs      []*Tab // in the order in which they were opened
	active    *Tab
	last      int             // number of the newest tab
	numbers   map[string]int  // by target, for those that outlive a connection
	before    map[string]bool // the targets that were open when the last connection ended
	front     string          // which of them was the active tab
	notices   []*Notice
	seq       uint64
	downloads []*Download
	revealed  bool // secrets are not covered: a person has control
}

// link is one connection and the sessions on it.
type link struct {
	conn     *devtools.Conn
	sessions map[string]*Tab
	frames   map[string]*frameSession
	worlds   map[string]map[string]bool // of ours in documents, by session and their unique id
	ready    bool                       // all that was open when it began is known
	gone     chan struct{}
}

// frameSession is a frame that has a process of its own.
type frameSession struct {
	session *devtools.Session
	frame   cdp.FrameID
	tab     *Tab
}

// New returns a Browser. Nothing is dialled before it is needed.
func New(o Options) *Browser {
	if o.Max == 0 {
		o.Max = defaultMax
	}
	b := &Browser{o: o, log: o.Log, connecting: make(chan struct{}, 1), opening: make(chan struct{}, 1), bell: make(chan struct{}), numbers: map[string]int{}}
	if b.log == nil {
		b.log = slog.Default()
	}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// Close ends the connection, also one that is being made, and waits until nothing
// of it is left. The browser and its tabs live on.
func (b *Browser) Close() error {
	b.mu.Lock()
	b.closed = true
	b.ring()
	b.mu.Unlock()
	b.end()
	b.connecting <- struct{}{}
	defer func() { <-b.connecting }()
	b.mu.Lock()
	l := b.link
	b.mu.Unlock()
	if l != nil {
		l.conn.Close()
		<-l.gone
	}
	return nil
}

// Connect makes sure of a connection. Called beside another, it waits for that
// one's outcome.
func (b *Browser) Connect(ctx context.Context) error {
	_, err := b.connect(ctx)
	return err
}

func (b *Browser) connect(ctx context.Context) (*link, error) {
	select {
	case b.connecting <- struct{}{}:
		defer func() { <-b.connecting }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, ctx.Err())
	}
	b.mu.Lock()
	l, closed := b.link, b.closed
	b.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if l != nil {
		if l.conn.Err() == nil {
			return l, nil
		}
		<-l.gone // its end is told before a new one begins
	}

	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	l = &link{sessions: map[string]*Tab{}, frames: map[string]*frameSession{}, worlds: map[string]map[string]bool{}, gone: make(chan struct{})}
	conn, err := devtools.Connect(ctx, devtools.Options{
		Dial: b.o.Dial,
		Event: func(_ *devtools.Conn, e devtools.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.link == l { // what an old connection still says is about nothing
				b.handle(l, e)
			}
		},
		Log: b.log,
	})
	if err != nil {
		return nil, b.unreached(err) // why is for who dials to say
	}
	b.mu.Lock()
	l.conn = conn
	b.link = l
	b.tabs, b.active, b.lost = nil, nil, nil
	b.mu.Unlock()
	go func() { // ends with the connection, which Close ends and waits for
		<-conn.Done()
		b.unlink(l)
		close(l.gone)
	}()

	if err := b.prepare(ctx, conn); err != nil {
		conn.Close()
		<-l.gone
		return nil, b.unreached(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.ready = true
	if len(b.before) > 0 && b.find(func(t *Tab) bool { return b.before[t.target] }) == nil {
		b.notice(NoticeRestarted, nil, "", "The browser was started again: the pages that were open before are gone.")
		for _, d := range b.downloads {
			if d.State == DownloadRunning {
				d.State = DownloadCanceled
			}
		}
	}
	if t := b.find(func(t *Tab) bool { return t.target == b.front }); t != nil {
		b.activate(t)
	}
	b.ring()
	return l, nil
}

// unreached is the error of a connection that could not be made.
func (b *Browser) unreached(err error) error {
	if b.life.Err() != nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// prepare asks the browser to tell us of its tabs. A new page waits until it is
// set up, so that no dialog of its first script is missed; pages that are there
// are attached before the call returns.
func (b *Browser) prepare(ctx context.Context, conn *devtools.Conn) error {
	yes := true
	if _, err := cdp.Call(ctx, conn, target.SetDiscoverTargets, target.SetDiscoverTargetsParams{Discover: true}); err != nil {
		return err
	}
	behavior := browser.SetDownloadBehaviorParams{
		Behavior: "deny", BrowserContextID: cdp.BrowserContextID(b.o.Context), EventsEnabled: &yes,
	}
	if b.o.Downloads != "" {
		behavior.Behavior, behavior.DownloadPath = "allow", b.o.Downloads
	}
	if _, err := cdp.Call(ctx, conn, browser.SetDownloadBehavior, behavior); err != nil {
		return err
	}
	_, err := cdp.Call(ctx, conn, target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: &yes,
		Filter: target.Filter{{Type: "page"}},
	})
	return err
}

func (b *Browser) unlink(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.link != l {
		return
	}
	b.link = nil
	b.lost = l.conn.Err()
	if l.ready {
		b.before, b.front = map[string]bool{}, ""
		for _, t := range b.tabs {
			b.before[t.target] = true
		}
		if b.active != nil {
			b.front = b.active.target
		}
	}
	for _, t := range b.tabs {
		t.end()
	}
	if l.ready && !b.closed {
		b.notice(NoticeDisconnected, nil, "", "The connection to the browser ended.")
	}
	b.ring()
}

// Active returns the tab that is worked in. Where there is no connection it makes
// one, where there is no tab it opens an empty one: a single one, however many
// callers there are.
func (b *Browser) Active(ctx context.Context) (*Tab, error) {
	l, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	if t := b.Current(); t != nil {
		return t, nil
	}
	select {
	case b.opening <- struct{}{}:
		defer func() { <-b.opening }()
	case <-ctx.Done():
		return nil, b.fault(fmt.Errorf("open a tab: %w", context.Cause(ctx)))
	}
	if t := b.Current(); t != nil { // another caller's
		return t, nil
	}
	return b.open(ctx, nil, l)
}

// Open opens an empty tab and makes it the active one. by is asked before the
// command is sent; nil for nobody.
func (b *Browser) Open(ctx context.Context, by devtools.Gate) (*Tab, error) {
	l, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	n := len(b.tabs)
	b.mu.Unlock()
	if n >= b.o.Max {
		return nil, fmt.Errorf("%d tabs are open: %w", n, ErrTabs)
	}
	return b.open(ctx, by, l)
}

func (b *Browser) open(ctx context.Context, by devtools.Gate, l *link) (*Tab, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	made, err := cdp.Call(ctx, l.conn.Session("").Gated(by), target.CreateTarget, target.CreateTargetParams{
		URL: "about:blank", BrowserContextID: cdp.BrowserContextID(b.o.Context),
	})
	if err != nil {
		return nil, b.fault(fmt.Errorf("open a tab: %w", err))
	}
	var t *Tab
	err = b.wait(ctx, func() bool {
		t = b.find(func(t *Tab) bool { return t.target == string(made.TargetID) })
		return t != nil || b.link != l
	})
	if err != nil || t == nil {
		return nil, b.fault(fmt.Errorf("open a tab: %w", errors.Join(err, l.conn.Err())))
	}
	return t, b.Activate(by, t)
}

// Activate makes a tab the active one and brings it to the front: a page in the
// background paints nothing. by is asked first; nil for nobody.
func (b *Browser) Activate(by devtools.Gate, t *Tab) error {
	if t.closed() {
		return ErrGone
	}
	return by.Pass(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !t.gone {
			b.activate(t)
		}
	})
}

// activate is Activate under the lock.
func (b *Browser) activate(t *Tab) {
	b.active = t
	if t != nil {
		t.session.Post("Page.bringToFront", nil)
	}
	b.ring()
}

// Find returns the tab with a number.
func (b *Browser) Find(number int) (*Tab, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.find(func(t *Tab) bool { return t.number == number }); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("tab %d: %w", number, ErrGone)
}

func (b *Browser) find(is func(*Tab) bool) *Tab {
	for _, t := range b.tabs {
		if is(t) {
			return t
		}
	}
	return nil
}

// CloseTab closes a tab and waits until it is gone. by is asked before the command
// is sent; nil for nobody.
func (b *Browser) CloseTab(ctx context.Context, by devtools.Gate, t *Tab) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	if _, err := cdp.Call(ctx, t.session.Conn().Session("").Gated(by), target.CloseTarget, target.CloseTargetParams{TargetID: target.ID(t.target)}); err != nil {
		return b.fault(fmt.Errorf("close tab %d: %w", t.number, err))
	}
	return b.wait(ctx, func() bool { return t.gone })
}

// Watch returns a channel that is closed at the next change of anything that the
// Browser tells.
func (b *Browser) Watch() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bell
}

// wait returns when ok does, which is asked again after each change, with the
// lock held.
func (b *Browser) wait(ctx context.Context, ok func() bool) error {
	for {
		b.mu.Lock()
		done, bell := ok(), b.bell
		b.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ring wakes everybody who watches. The lock is held.
func (b *Browser) ring() {
	close(b.bell)
	b.bell = make(chan struct{})
}

// fault gives an error of the connection the name under which callers know it.
func (b *Browser) fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, devtools.ErrClosed):
		return fmt.Errorf("%w (%v)", ErrBroken, err)
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case !b.answers():
		return fmt.Errorf("%w (%v, and the browser says nothing either)", ErrBroken, err)
	}
	return fmt.Errorf("%w (%w)", ErrStuck, err)
}

// answers tells whether the browser itself answers, whatever its pages do. A
// connection whose other end went away without a word looks like a page that is
// stuck, and would for as long as the network takes to notice: it is ended here, and
// the next call makes another.
func (b *Browser) answers() bool {
	b.mu.Lock()
	l := b.link
	b.mu.Unlock()
	if l == nil {
		return false
	}
	probe, cancel := context.WithTimeout(b.life, stepTime)
	defer cancel()
	_, err := cdp.Call(probe, l.conn, browser.GetVersion, cdp.Empty{})
	if errors.Is(err, context.DeadlineExceeded) {
		l.conn.Close()
		<-l.gone
	}
	return err == nil
}
