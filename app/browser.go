package app

import (
	"context"
	"fmt"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser/pane"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// browsers are the browsers of sandboxes, by what is in those.
type browsers struct {
	lifetime *lifetime.Manager
	servers  *aioServers
	host     session.HostConfig
	kept     keptBrowsers
}

var _ session.Browsers = (*browsers)(nil)

// of returns the browsers of the kind of sandbox that a root task has.
func (b *browsers) of(ctx context.Context, rootTaskID string) (session.Browsers, error) {
	h, _, err := b.lifetime.Handle(ctx, rootTaskID)
	if err != nil {
		return nil, err
	}
	switch {
	case b.host.SandboxBrowserFactory != nil:
		return hostBrowsers{b.host.SandboxBrowserFactory, h, &b.kept}, nil
	case h.Dial != nil && h.Wire != sandbox.WireAIO:
		return guestBrowsers{b.lifetime}, nil
	}
	server, err := b.servers.of(h)
	if err != nil {
		return noBrowsers{}, nil // a program's own kind of place
	}
	ref, err := h.Ref()
	if err != nil {
		return nil, err
	}
	return servedBrowsers{server, ref, &b.kept}, nil
}

// Open implements session.Browsers.
func (b *browsers) Open(ctx context.Context, rootTaskID string) (pane.Options, error) {
	of, err := b.of(ctx, rootTaskID)
	if err != nil {
		return pane.Options{}, err
	}
	return of.Open(ctx, rootTaskID)
}

// Status implements session.Browsers.
func (b *browsers) Status(ctx context.Context, rootTaskID string) (session.BrowserLook, error) {
	of, err := b.of(ctx, rootTaskID)
	if err != nil {
		return session.BrowserLook{}, err
	}
	return of.Status(ctx, rootTaskID)
}

// Start implements session.Browsers.
func (b *browsers) Start(ctx context.Context, rootTaskID string) error {
	of, err := b.of(ctx, rootTaskID)
	if err != nil {
		return err
	}
	return of.Start(ctx, rootTaskID)
}

// Stop implements session.Browsers.
func (b *browsers) Stop(ctx context.Context, rootTaskID string) error {
	of, err := b.of(ctx, rootTaskID)
	if err != nil {
		return err
	}
	return of.Stop(ctx, rootTaskID)
}

// guestBrowsers are those that a guest starts and carries.
type guestBrowsers struct {
	lifetime *lifetime.Manager
}

// Open implements session.Browsers.
func (b guestBrowsers) Open(ctx context.Context, rootTaskID string) (pane.Options, error) {
	c, _, err := b.lifetime.Client(ctx, rootTaskID)
	if err != nil {
		return pane.Options{}, err
	}
	now, err := c.BrowserStatus(ctx)
	if err == nil && now.State != wire.BrowserNone && now.Downloads == "" {
		now, err = c.BrowserStart(ctx) // which is what makes the directory
	}
	switch {
	case err != nil:
		return pane.Options{}, err
	case now.State == wire.BrowserNone:
		return pane.Options{}, fmt.Errorf("%w: %s", execenv.ErrNoBrowser, now.Error)
	}
	return pane.Options{
		Downloads: now.Downloads,
		Dial: func(ctx context.Context) (*websocket.Conn, error) {
			c, _, err := b.lifetime.Client(ctx, rootTaskID)
			if err != nil {
				return nil, err
			}
			return c.CDP(ctx)
		},
	}, nil
}

// Status implements session.Browsers.
func (b guestBrowsers) Status(ctx context.Context, rootTaskID string) (session.BrowserLook, error) {
	c, _, err := b.lifetime.Client(ctx, rootTaskID)
	if err != nil {
		return session.BrowserLook{}, err
	}
	now, err := c.BrowserStatus(ctx)
	return session.BrowserLook{Browser: now, Live: now.State != wire.BrowserNone, Source: session.SourceGuest}, err
}

// Start implements session.Browsers.
func (b guestBrowsers) Start(ctx context.Context, rootTaskID string) error {
	c, _, err := b.lifetime.Client(ctx, rootTaskID)
	if err != nil {
		return err
	}
	_, err = c.BrowserStart(ctx)
	return err
}

// Stop implements session.Browsers.
func (b guestBrowsers) Stop(ctx context.Context, rootTaskID string) error {
	c, _, err := b.lifetime.Client(ctx, rootTaskID)
	if err != nil {
		return err
	}
	_, err = c.BrowserStop(ctx)
	return err
}

// noBrowsers are those of sandboxes whose browser nobody can speak to.
type noBrowsers struct{}

// Open implements session.Browsers.
func (noBrowsers) Open(context.Context, string) (pane.Options, error) {
	return pane.Options{}, execenv.ErrNoBrowser
}

// Status implements session.Browsers.
func (noBrowsers) Status(context.Context, string) (session.BrowserLook, error) {
	return lookAt(session.SourceHost, false, execenv.ErrNoBrowser)
}

// Start implements session.Browsers.
func (noBrowsers) Start(context.Context, string) error { return execenv.ErrNoBrowser }

// Stop implements session.Browsers.
func (noBrowsers) Stop(context.Context, string) error { return nil }
