package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/pane"
	"github.com/glovebox-dev/glovebox/backend/browser/toolserver"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// errNotOurs refuses to end a browser that others may use as well.
var errNotOurs = fmt.Errorf("this browser belongs to the sandbox's own server, and ends with it: %w", sandbox.ErrUnsupported)

// keptBrowsers are the browsers that only act, one for each sandbox of a root
// task.
type keptBrowsers struct {
	mu  sync.Mutex
	all map[string]*keptBrowser // by root task
}

// keptBrowser is one of them. It is let go of once, by its pane's end or the
// sandbox's.
type keptBrowser struct {
	browser.Backend
	ref    sandbox.Ref
	forget func()
	lent   bool // to a pane, which may be shared and closes it; guarded by keptBrowsers.mu

	make sync.Once
	err  error
	end  sync.Once
}

// get returns the browser of a root task's sandbox, which is made once. One that
// could not be made is tried again by the next who asks; one that there is not is
// execenv.ErrNoBrowser.
func (k *keptBrowsers) get(root string, ref sandbox.Ref, make func() (browser.Backend, error)) (browser.Backend, error) {
	k.mu.Lock()
	b := k.all[root]
	var old *keptBrowser
	if b != nil && b.ref != ref {
		old, b = b, nil
	}
	if b == nil {
		b = &keptBrowser{ref: ref}
		b.forget = func() { k.remove(root, b) }
		if k.all == nil {
			k.all = map[string]*keptBrowser{}
		}
		k.all[root] = b
	}
	k.mu.Unlock()
	if old != nil {
		_ = old.Close() // of a sandbox that is gone
	}
	b.make.Do(func() { b.Backend, b.err = make() })
	switch {
	case b.err != nil:
		b.forget()
		return nil, b.err
	case b.Backend == nil:
		return nil, execenv.ErrNoBrowser
	}
	return b, nil
}

func (k *keptBrowsers) remove(root string, b *keptBrowser) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all[root] == b {
		delete(k.all, root)
	}
}

// has reports whether the browser of a root task's sandbox was made.
func (k *keptBrowsers) has(root string, ref sandbox.Ref) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.all[root]
	return b != nil && b.ref == ref
}

// lend returns options for a pane, whose end is the browser's from now on.
func (k *keptBrowsers) lend(b browser.Backend) pane.Options {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kept, ok := b.(*keptBrowser); ok {
		kept.lent = true
	}
	return pane.Options{Backend: b}
}

// Close lets go of the browser and of what it holds.
func (b *keptBrowser) Close() (err error) {
	b.end.Do(func() {
		b.forget()
		b.make.Do(func() {}) // whoever makes it has done so
		if c, ok := b.Backend.(io.Closer); ok {
			err = c.Close()
		}
	})
	return err
}

// forget closes the browser of a root task whose sandbox is gone, unless a pane
// does.
func (k *keptBrowsers) forget(root string) error {
	k.mu.Lock()
	b := k.all[root]
	delete(k.all, root)
	lent := b == nil || b.lent
	k.mu.Unlock()
	if lent {
		return nil
	}
	return b.Close()
}

func (k *keptBrowsers) close() error {
	k.mu.Lock()
	var all []*keptBrowser
	for _, b := range k.all {
		all = append(all, b)
	}
	k.mu.Unlock()
	var errs []error
	for _, b := range all {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// hostBrowsers are those that the embedding program's factory makes.
type hostBrowsers struct {
	factory func(sandbox.Handle) (browser.Backend, error)
	handle  sandbox.Handle
	kept    *keptBrowsers
}

func (b hostBrowsers) backend(root string) (browser.Backend, error) {
	ref, err := b.handle.Ref()
	if err != nil {
		return nil, err
	}
	made, err := b.kept.get(root, ref, func() (browser.Backend, error) { return b.factory(b.handle) })
	if err != nil && !errors.Is(err, execenv.ErrNoBrowser) {
		return nil, fmt.Errorf("make the browser of sandbox %s: %w: %w", ref, execenv.ErrBrowser, err)
	}
	return made, err
}

// Open implements session.Browsers.
func (b hostBrowsers) Open(_ context.Context, rootTaskID string) (pane.Options, error) {
	made, err := b.backend(rootTaskID)
	if err != nil {
		return pane.Options{}, err
	}
	return b.kept.lend(made), nil
}

// Status implements session.Browsers.
func (b hostBrowsers) Status(_ context.Context, rootTaskID string) (session.BrowserLook, error) {
	_, err := b.backend(rootTaskID)
	return lookAt(session.SourceHost, false, err)
}

// Start implements session.Browsers.
func (b hostBrowsers) Start(_ context.Context, rootTaskID string) error {
	_, err := b.backend(rootTaskID)
	return err
}

// Stop implements session.Browsers.
func (b hostBrowsers) Stop(context.Context, string) error { return errNotOurs }

// servedBrowsers are those of AIO servers: over the debugging connection that the
// server names, or by its own tools where that cannot be had.
type servedBrowsers struct {
	server *aio.Server
	ref    sandbox.Ref
	kept   *keptBrowsers
}

// reach finds out by which of the two the browser can be reached, by reaching it.
// The backend is nil for the debugging connection.
func (b servedBrowsers) reach(ctx context.Context, root string) (browser.Backend, error) {
	if !b.kept.has(root, b.ref) {
		conn, err := b.server.CDP(ctx)
		if err == nil {
			return nil, conn.CloseNow()
		}
		if !errors.Is(err, execenv.ErrNoBrowser) {
			return nil, unreached(err)
		}
	} else if err := b.server.Ping(ctx); err != nil { // for its tools keep a session, and say nothing
		return nil, unreached(err)
	}
	made, err := b.kept.get(root, b.ref, func() (browser.Backend, error) {
		tools := toolserver.New(toolserver.Options{URL: b.server.URL("/mcp"), Client: b.server.Client()})
		if err := tools.Check(ctx); err != nil {
			return nil, errors.Join(err, tools.Close())
		}
		return tools, nil
	})
	return made, unreached(err)
}

// unreached says of a key that is refused what it means for the sandbox.
func unreached(err error) error {
	if errors.Is(err, sandbox.ErrUnauthorized) && !errors.Is(err, sandbox.ErrUnreachable) {
		return fmt.Errorf("%w: %w", sandbox.ErrUnreachable, err)
	}
	return err
}

// Open implements session.Browsers.
func (b servedBrowsers) Open(ctx context.Context, rootTaskID string) (pane.Options, error) {
	tools, err := b.reach(ctx, rootTaskID)
	switch {
	case err != nil:
		return pane.Options{}, err
	case tools != nil:
		return b.kept.lend(tools), nil
	}
	info, err := b.server.Probe(ctx)
	if err != nil {
		return pane.Options{}, unreached(err)
	}
	o := pane.Options{Dial: b.server.CDP}
	if dir := cmp.Or(info.Workspace, info.Home); dir != "" {
		o.Downloads = path.Join(dir, "Downloads")
	}
	return o, nil
}

// Status implements session.Browsers.
func (b servedBrowsers) Status(ctx context.Context, rootTaskID string) (session.BrowserLook, error) {
	tools, err := b.reach(ctx, rootTaskID)
	return lookAt(session.SourceServer, tools == nil, err)
}

// Start implements session.Browsers.
func (b servedBrowsers) Start(ctx context.Context, rootTaskID string) error {
	_, err := b.reach(ctx, rootTaskID) // it runs for as long as its server does
	return err
}

// Stop implements session.Browsers.
func (b servedBrowsers) Stop(context.Context, string) error { return errNotOurs }

// lookAt is a look at a browser of others, which has just answered, or is not there.
func lookAt(source string, live bool, err error) (session.BrowserLook, error) {
	l := session.BrowserLook{Source: source, Browser: wire.Browser{ObservedAt: time.Now(), State: wire.BrowserNone}}
	switch {
	case errors.Is(err, execenv.ErrNoBrowser):
		l.Error = err.Error()
		return l, nil
	case err != nil:
		return l, err
	}
	l.State, l.Live, l.Unsandboxed = wire.BrowserRunning, live, "how it was started is not known: it is not Glovebox's own"
	return l, nil
}
