package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	browserStart = 100 * time.Second // on a busy machine with a cold disk
	browserStop  = 20 * time.Second  // with the kill of one that does not end by itself
)

// BrowserStatus says what the sandbox's browser does.
func (c *Client) BrowserStatus(ctx context.Context) (b wire.Browser, err error) {
	return b, c.ask(ctx, shortTime, http.MethodGet, wire.PathBrowser, execenv.Caller{}, nil, &b)
}

// BrowserStart starts the browser, or finds it running, and returns when it
// answers. Errors: execenv.ErrNoBrowser, execenv.ErrBusy for a profile that
// another one uses, execenv.ErrBrowser for one that does not start.
func (c *Client) BrowserStart(ctx context.Context) (b wire.Browser, err error) {
	return b, c.ask(ctx, browserStart, http.MethodPost, wire.PathBrowserStart, execenv.Caller{}, nil, &b)
}

// BrowserStop ends the browser and returns when nothing of it is left; LastEnd
// has the report. One that does not run is no error.
func (c *Client) BrowserStop(ctx context.Context) (b wire.Browser, err error) {
	return b, c.ask(ctx, browserStop, http.MethodPost, wire.PathBrowserStop, execenv.Caller{}, nil, &b)
}

// CDP opens a client of the sandbox's browser, and starts that when it does not
// run: a WebSocket of CDP messages at browser level, with flat sessions that are
// this client's alone. Errors are those of BrowserStart.
//
// The guest closes it with websocket.StatusGoingAway and how the browser ended,
// or with websocket.StatusPolicyViolation when what the browser sends was not
// read for too long. The browser does not end with its clients.
func (c *Client) CDP(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, browserStart)
	defer cancel()
	if _, err := c.BrowserStart(ctx); err != nil {
		return nil, err // here, since of a refused upgrade only the first kilobyte is kept
	}
	conn, answer, err := websocket.Dial(ctx, "ws://guest"+wire.PathCDP, &websocket.DialOptions{
		HTTPClient: c.http, CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err == nil:
		conn.SetReadLimit(wire.MaxCDP + 1<<10)
		return conn, nil
	case answer != nil && answer.StatusCode >= 400:
		return nil, refusal(answer)
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, fmt.Errorf("open the sandbox's browser: no answer in %v: %w", browserStart, execenv.ErrUnreachable)
	}
	return nil, c.unreachable(ctx, err)
}
