package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/pane"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Browsers knows the browsers of sandboxes, whatever is in those. Its methods may
// be called from several goroutines, and end with ctx. Their errors say why a
// sandbox cannot be asked, as lifetime.Manager.Client does; of one that has no
// browser they are execenv.ErrNoBrowser.
type Browsers interface {
	// Open says how to reach a sandbox's browser. It may start it.
	Open(ctx context.Context, rootTaskID string) (pane.Options, error)

	// Status looks at the browser. That there is none is no error here.
	Status(ctx context.Context, rootTaskID string) (BrowserLook, error)

	// Start starts the browser, or finds it running.
	Start(ctx context.Context, rootTaskID string) error

	// Stop ends the browser and returns when nothing of it is left.
	Stop(ctx context.Context, rootTaskID string) error
}

// BrowserLook is a look at a browser.
type BrowserLook struct {
	wire.Browser
	Live   bool   // it can be looked on, and not only be acted on
	Source string // who says so
}

// The sources of a BrowserLook.
const (
	SourceGuest  = "guest"  // whose browser it is
	SourceServer = "server" // of an AIO sandbox
	SourceHost   = "host"   // this program
)

// BrowserStatus is a look at a session's browser, and at who uses it.
type BrowserStatus struct {
	BrowserLook
	Viewers int // that look on now
	Control control.State
}

// BrowserView is one open view of a session's browser.
type BrowserView struct {
	*relay.Viewer
	Pane *pane.Pane
	end  func()
}

// Close ends the view.
func (v *BrowserView) Close() { v.end() }

// browserTime bounds a question about a browser that a turn waits for.
const browserTime = 5 * time.Second

// whyShutdown is why a browser is let go of at the end of the service.
const whyShutdown = "Glovebox is ending."

// Browser returns the browser of a session's live sandbox with the hands and eyes
// on it, made at the first call. It starts no sandbox. Its end is told by Done:
// it goes with the sandbox.
func (s *Service) Browser(ctx context.Context, id string) (*pane.Pane, error) {
	h, _, err := s.holdBrowser(ctx, id)
	if err != nil {
		return nil, err
	}
	return h.p, nil
}

func (s *Service) holdBrowser(ctx context.Context, id string) (*hold, View, error) {
	v, err := s.withBrowser(ctx, id)
	if err != nil {
		return nil, v, err
	}
	open := func(ctx context.Context) (pane.Options, error) {
		o, err := s.o.Browsers.Open(ctx, v.ID)
		if o.File == nil {
			o.File = s.uploads(v.ID)
		}
		if o.Log == nil {
			o.Log = s.o.Log.With("session", v.ID)
		}
		return o, err
	}
	h, err := s.panes.get(ctx, v.ID, v.Shares, open, s.recordControl)
	return h, v, err
}

// withBrowser returns a session whose sandbox may have a browser.
func (s *Service) withBrowser(ctx context.Context, id string) (View, error) {
	v, err := s.View(ctx, id)
	switch {
	case err != nil:
		return v, err
	case v.Status == task.StatusEnded:
		return v, ErrEnded
	case v.Bound == nil:
		return v, ErrNotBound
	case v.Bound.Wall == sandbox.WallLocal:
		return v, fmt.Errorf("a session on the machine itself has no sandbox: %w", execenv.ErrNoBrowser)
	case s.o.Browsers == nil:
		return v, execenv.ErrNoBrowser
	case !v.holds():
		return v, fmt.Errorf("%w%s", ErrNotBound, v.whyNone())
	}
	return v, nil
}

// HasBrowser reports whether a session has a live sandbox with a browser in it,
// running or not.
func (s *Service) HasBrowser(ctx context.Context, root string) bool {
	v, err := s.withBrowser(ctx, root)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, browserTime)
	defer cancel()
	b, err := s.o.Browsers.Status(ctx, v.ID)
	if err != nil && !errors.Is(err, context.Canceled) { // its agent goes without
		s.o.Log.Warn("browser not asked", "session", v.ID, "err", err)
	}
	return err == nil && b.State != wire.BrowserNone
}

// BrowserStatus looks at a session's browser.
func (s *Service) BrowserStatus(ctx context.Context, id string) (BrowserStatus, error) {
	v, err := s.withBrowser(ctx, id)
	if errors.Is(err, execenv.ErrNoBrowser) {
		none := wire.Browser{State: wire.BrowserNone, Error: err.Error(), ObservedAt: time.Now()}
		return BrowserStatus{BrowserLook: BrowserLook{Browser: none, Source: SourceHost}}, nil
	}
	if err != nil {
		return BrowserStatus{}, err
	}
	b, err := s.o.Browsers.Status(ctx, v.ID)
	if err != nil {
		return BrowserStatus{}, err
	}
	out := BrowserStatus{BrowserLook: b}
	p, viewers := s.panes.now(v.ID)
	if p != nil {
		out.Viewers, out.Control = viewers, p.Lease().State()
	}
	return out, nil
}

// StartBrowser starts a session's browser, and its sandbox where that was stopped
// for want of use.
func (s *Service) StartBrowser(ctx context.Context, id string) error {
	if err := s.rouseFor(ctx, id); err != nil {
		return err
	}
	v, err := s.withBrowser(ctx, id)
	if err != nil {
		return err
	}
	defer s.using(v.ID)()
	return s.o.Browsers.Start(ctx, v.ID)
}

// StopBrowser ends a session's browser with all its pages, for everybody who uses
// it. Whoever asks for it next starts another.
func (s *Service) StopBrowser(ctx context.Context, id string) error {
	v, err := s.withBrowser(ctx, id)
	if err != nil {
		return err
	}
	if look, err := s.o.Browsers.Status(ctx, v.ID); err == nil && look.Source != SourceGuest {
		return s.o.Browsers.Stop(ctx, v.ID) // which refuses: who looks on stays
	}
	s.panes.endAll(v.ID, "The browser was stopped.")
	return s.o.Browsers.Stop(ctx, v.ID)
}

// ViewBrowser opens a person's view of a session's browser, which starts when it
// does not run. As long as the view is open the sandbox is in use.
func (s *Service) ViewBrowser(ctx context.Context, id string, view relay.View) (*BrowserView, error) {
	h, _, err := s.holdBrowser(ctx, id)
	if err != nil {
		return nil, err
	}
	viewer, err := s.panes.join(h, view)
	if err != nil {
		return nil, err
	}
	return &BrowserView{Viewer: viewer, Pane: h.p, end: func() { s.panes.leave(h, viewer) }}, nil
}

// BrowserOutline reads the page that a session's browser shows. It starts
// nothing: where the browser is not in use the error is tabs.ErrUnreachable.
func (s *Service) BrowserOutline(ctx context.Context, id string) (browser.Outline, error) {
	v, err := s.withBrowser(ctx, id)
	if err != nil {
		return browser.Outline{}, err
	}
	p, _ := s.panes.now(v.ID)
	if p == nil {
		return browser.Outline{}, fmt.Errorf("read the page's outline: the browser is not in use: %w", tabs.ErrUnreachable)
	}
	return p.Outline(ctx)
}

// agentBrowser is how a root task's agents come to the browser.
func (s *Service) agentBrowser(root string) func(context.Context) (browser.Backend, error) {
	return func(ctx context.Context) (browser.Backend, error) {
		p, err := s.Browser(ctx, root)
		if err != nil {
			return nil, err
		}
		s.watchBrowser(root, p)
		return p.Agent(), nil
	}
}

// uploads lets a page have the files of the session's sandbox and no others: the
// ones that the user of its commands can see there.
func (s *Service) uploads(root string) func(string) (string, error) {
	return func(file string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), browserTime)
		defer cancel()
		v, err := s.View(ctx, root)
		if err != nil {
			return "", err
		}
		env, err := s.env(ctx, v.Bound, v.ID, execenv.Caller{})
		if err != nil {
			return "", err
		}
		if !path.IsAbs(file) {
			file = path.Join(env.Where().Workdir, file)
		}
		info, err := env.Stat(ctx, file)
		if err != nil {
			return "", err
		}
		if info.Kind != execenv.KindFile {
			return "", &execenv.PathError{Path: file, Err: execenv.ErrNotRegular}
		}
		return path.Clean(file), nil
	}
}

// endBrowser ends what a session sees and does of its browser.
func (s *Service) endBrowser(root, reason string) { s.panes.end(root, reason) }

// whyEnded is why a browser is let go of when its sandbox has come into a state;
// "" when it is not.
func whyEnded(state sandbox.State) string {
	switch state {
	case sandbox.StateStopped:
		return "The sandbox was stopped."
	case sandbox.StateLost:
		return "The sandbox is lost."
	case sandbox.StateReleased, sandbox.StateReleasing:
		return "The sandbox was released."
	case sandbox.StateDetached:
		return "The sandbox was released, and kept."
	case sandbox.StateFailed:
		return "The sandbox has failed."
	}
	return ""
}

// personViewer is how the log calls whoever has control: it is a person, and
// which window they sit at is of no use later.
const personViewer = "person"

// recordControl writes down who has a browser, until that ends.
func (s *Service) recordControl(root string, p *pane.Pane) {
	bell, unwatch := p.Lease().Watch()
	defer unwatch()
	roots := []string{root} // those who use it now, or did at its end
	var seen uint64
	record := func() {
		if now := s.panes.users(p); len(now) > 0 {
			roots = now
		}
		for _, c := range p.Lease().Changes(seen) {
			seen = c.Seq
			for _, root := range roots {
				s.recordChange(root, c)
			}
		}
	}
	for {
		select {
		case <-bell:
			record()
		case <-p.Done():
			record()
			return
		}
	}
}

func (s *Service) recordChange(root string, c control.Change) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.append(ctx, root, 0, &task.BrowserControlChanged{Viewer: personViewer, Cause: task.ControlCause(c.Cause), Until: c.Until})
	if err != nil && !errors.Is(err, ErrEnded) {
		s.o.Log.Warn("control of the browser not recorded", "session", root, "cause", c.Cause, "err", err)
	}
}
