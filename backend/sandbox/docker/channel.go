package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

// channel reaches a guest whose socket is not on this machine: an attached exec
// of "guest connect" inside carries any number of connections to it. A channel
// that is lost ends no call; the next dial makes another.
type channel struct {
	p      *Provider
	id     string // of the container
	prog   program
	opened chan struct{} // capacity 1: full while somebody opens

	mu      sync.Mutex
	session *yamux.Session
	stdio   *execStdio
	suspect bool // a connection ended without a word from the guest
	closed  bool
}

// channels are those that a Provider has open, by the address of the guest.
type channels struct {
	mu   sync.Mutex
	open map[string]*channel
}

// channel returns the channel to the guest that listens on socket inside a
// container, of whatever handle.
func (p *Provider) channel(id, socket, guest, user string) *channel {
	p.channels.mu.Lock()
	defer p.channels.mu.Unlock()
	key := id + " " + socket
	c := p.channels.open[key]
	if c == nil {
		c = &channel{p: p, id: id, prog: program{user: user, argv: []string{guest, "connect", "--socket", socket}}, opened: make(chan struct{}, 1)}
		if p.channels.open == nil {
			p.channels.open = map[string]*channel{}
		}
		p.channels.open[key] = c
	}
	return c
}

// dropChannels closes the channels to a container's guests, or with a socket the
// one to that guest, or all of an empty id.
func (p *Provider) dropChannels(id, socket string) {
	p.channels.mu.Lock()
	var drop []*channel
	for key, c := range p.channels.open {
		if id == "" || key == id+" "+socket || socket == "" && strings.HasPrefix(key, id+" ") {
			drop = append(drop, c)
			delete(p.channels.open, key)
		}
	}
	p.channels.mu.Unlock()
	for _, c := range drop {
		c.close()
	}
}

// resetChannels closes the connections to a container's guests, which are new
// ones after a start. Handles go on to serve.
func (p *Provider) resetChannels(id string) {
	p.channels.mu.Lock()
	var reset []*channel
	for key, c := range p.channels.open {
		if strings.HasPrefix(key, id+" ") {
			reset = append(reset, c)
		}
	}
	p.channels.mu.Unlock()
	for _, c := range reset {
		c.mu.Lock()
		session := c.session
		c.mu.Unlock()
		if session != nil {
			session.Close()
		}
	}
}

// dial opens a connection to the guest.
func (c *channel) dial(ctx context.Context) (net.Conn, error) {
	session, err := c.ensure(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := session.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("open a connection over the exec channel: %w", err)
	}
	return &guestConn{Stream: stream, channel: c, session: session}, nil
}

// ensure returns the open session, or opens one.
func (c *channel) ensure(ctx context.Context) (*yamux.Session, error) {
	select {
	case c.opened <- struct{}{}:
		defer func() { <-c.opened }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	session, suspect, closed := c.session, c.suspect, c.closed
	c.mu.Unlock()
	if closed {
		return nil, errors.New("the channel is closed")
	}
	if session != nil && !session.IsClosed() && !suspect {
		return session, nil
	}
	_, stdio, err := c.p.startExec(ctx, c.id, c.prog)
	if err != nil {
		if session != nil && !session.IsClosed() {
			return session, nil // such as a paused container: what is there may answer yet
		}
		return nil, err
	}
	fresh, err := yamux.Client(stdio, wire.ConnectConfig())
	if err != nil {
		stdio.Close()
		return nil, err
	}
	c.mu.Lock()
	if closed = c.closed; !closed {
		c.session, c.stdio, c.suspect = fresh, stdio, false
	}
	c.mu.Unlock()
	if session != nil {
		session.Close()
	}
	if closed {
		fresh.Close()
		return nil, errors.New("the channel is closed")
	}
	return fresh, nil
}

// said is the last line of what "guest connect" complained about.
func (c *channel) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdio == nil {
		return ""
	}
	return c.stdio.said.String()
}

func (c *channel) close() {
	c.mu.Lock()
	session := c.session
	c.closed = true
	c.mu.Unlock()
	if session != nil {
		session.Close()
	}
}

// doubt makes the next dial try a new exec, where session is still the one.
func (c *channel) doubt(session *yamux.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == session {
		c.suspect = true
	}
}

// guestConn is one connection to a guest. Its Close is the half-close of the
// multiplexer: what the guest still says is dropped as it comes.
type guestConn struct {
	*yamux.Stream
	channel *channel
	session *yamux.Session
	heard   atomic.Bool
}

func (c *guestConn) Read(b []byte) (int, error) {
	n, err := c.Stream.Read(b)
	if n > 0 {
		c.heard.Store(true)
	} else if err != nil && !c.heard.Load() {
		if said := c.channel.said(); said != "" {
			err = fmt.Errorf("%w (%s)", err, said)
		}
	}
	return n, err
}

func (c *guestConn) Close() error {
	if !c.heard.Load() {
		c.channel.doubt(c.session)
	}
	return c.Stream.Close()
}
