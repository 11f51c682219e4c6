package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

// maxStreams is how many streams a guest may have left half open. It is more
// than it carries, since a client may be slow to take the end of what it got.
const maxStreams = 8 * wire.MaxRelayed

// Relay opens the channel that the sandbox's connections out arrive by; a former
// one ends. The listener hands them out until the channel breaks or is closed;
// the error is io.EOF then. A guest without a relay is execenv.ErrUnsupported.
func (c *Client) Relay(ctx context.Context) (net.Listener, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	r, err := c.upgradeRelay(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	session, err := yamux.Server(struct {
		io.Reader
		io.WriteCloser
	}{r, conn}, wire.RelayConfig())
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open the relay's channel: %w", err)
	}
	return &relayed{session}, nil
}

// upgradeRelay asks the guest for the upgrade, and returns what to read from: the
// answer may have come with more.
func (c *Client) upgradeRelay(ctx context.Context, conn net.Conn) (io.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, shortTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://guest"+wire.PathRelay, nil)
	if err != nil {
		return nil, fmt.Errorf("make a request to the guest: %w", err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", wire.ProtocolRelay)
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
		close(fired)
	})
	in := &io.LimitedReader{R: conn, N: 64 << 10} // what the guest's answer may hold
	r := bufio.NewReader(in)
	var answer *http.Response
	if err = req.Write(conn); err == nil {
		answer, err = http.ReadResponse(r, req)
	}
	if !stop() {
		<-fired
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		defer answer.Body.Close()
		return nil, refusal(answer)
	}
	ahead, err := r.Peek(r.Buffered())
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return io.MultiReader(bytes.NewReader(ahead), conn), nil
}

// relayed is the listener over a channel.
type relayed struct{ session *yamux.Session }

func (l *relayed) Accept() (net.Conn, error) {
	stream, err := l.session.AcceptStream()
	if err != nil {
		return nil, io.EOF // whatever it was, the channel is over
	}
	if n := l.session.NumStreams(); n > maxStreams {
		l.session.Close()
		return nil, fmt.Errorf("the guest holds %d connections out: %w", n, errTooMany)
	}
	return stream, nil
}

var errTooMany = errors.New("too many at once")

func (l *relayed) Close() error   { return l.session.Close() }
func (l *relayed) Addr() net.Addr { return l.session.Addr() }
