// Package egress is the host's end of a sandbox's network: the proxy that every
// connection out of a sealed sandbox passes, and that decides about each.
//
//	p := egress.New(egress.Options{Decided: record})
//	err := p.Serve(ctx, rootTaskID, spec.Network, listener)
//
// The listener hands out connections that a sandbox's guest has carried here; it
// is no port of this machine. On each one the client speaks HTTP (plain requests
// and CONNECT) or SOCKS5 (CONNECT alone), told apart by the first byte.
//
// Names are resolved here, on the host. The policy judges the address that a
// name resolved to, and exactly that address is dialled then, so a name that
// resolves to another address the next time gains nothing. Every request gets a
// connection and a decision of its own: a redirect is a new request, and nothing
// that one request was allowed serves another.
package egress

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// The limits of one sandbox.
const (
	maxConns    = 512 // at once; each may hold a stream's window of memory
	maxHeader   = 64 << 10
	headerTime  = 30 * time.Second // for a client to say what it wants
	keepTime    = 2 * time.Minute  // for it to make its next request
	resolveTime = 10 * time.Second
	dialTime    = 20 * time.Second       // over all addresses of a name
	headStart   = 300 * time.Millisecond // of one address before the next is tried beside it
	idleTime    = 15 * time.Minute       // without a byte in either direction
	leaveTime   = time.Minute            // the same, once the client has closed its side
	stallTime   = 30 * time.Second       // for one write to a client that has closed its side
)

// The protocols of a Decision.
const (
	HTTP    = "http"
	Connect = "connect"
	SOCKS5  = "socks5"
)

// Decision is what was decided about one request, and what became of it.
type Decision struct {
	At       time.Time
	Protocol string
	Host     string // as the sandbox asked: a name, or an address
	Port     uint16
	Address  string // that it resolved to, and was or would have been dialled; "" when it did not resolve
	Allowed  bool
	Reason   string // in words for people

	// What Options.Ended is told beside it.
	Error    string // why an allowed one was not connected
	Sent     int64  // bytes out of the sandbox
	Received int64
	Duration time.Duration
}

// Resolver finds the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options are what a Proxy is made of; the zero value of each but the callbacks
// is ready.
type Options struct {
	// Decided is told of every decision when it is made, Ended once more of each
	// allowed one at its end. Both are called from many goroutines at once and
	// must not block for long.
	Decided func(rootTaskID string, d Decision)
	Ended   func(rootTaskID string, d Decision)

	Resolver Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)

	// Machine returns the addresses of this machine, which no sandbox reaches
	// unless it is allowed to by name: its interfaces' when nil.
	Machine func() []netip.Addr

	// Own returns the addresses that we serve on. No policy opens them.
	Own func() []netip.AddrPort
}

// Proxy serves the sandboxes of one host. Its methods may be called from several
// goroutines at once.
type Proxy struct {
	o       Options
	machine machine
}

// New returns a Proxy.
func New(o Options) *Proxy {
	p := &Proxy{o: o}
	if p.o.Decided == nil {
		p.o.Decided = func(string, Decision) {}
	}
	if p.o.Ended == nil {
		p.o.Ended = func(string, Decision) {}
	}
	if p.o.Resolver == nil {
		p.o.Resolver = net.DefaultResolver
	}
	if p.o.Dial == nil {
		p.o.Dial = (&net.Dialer{}).DialContext
	}
	p.machine.list = o.Machine
	return p
}

// Serve carries the connections that l hands out, under a sandbox's policy, until
// l or ctx ends. It closes l and every connection, and returns when nothing of
// them is left. The error is that of l, or nil when ctx ended.
func (p *Proxy) Serve(ctx context.Context, rootTaskID string, network sandbox.Network, l net.Listener) error {
	pol, err := newPolicy(network)
	if err != nil {
		l.Close()
		return err
	}
	life, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(life, func() { l.Close() })
	defer stop()

	s := &service{
		p: p, root: rootTaskID, policy: pol, life: life,
		slots: make(chan struct{}, maxConns),
		web:   &handover{addr: l.Addr(), conns: make(chan net.Conn), closed: life.Done()},
	}
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       keepTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // a sandbox must not fill the host's log
		BaseContext:       func(net.Listener) context.Context { return life },
		ConnState:         s.follow,
	}
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(s.web) })
	for {
		conn, aerr := l.Accept()
		if aerr != nil {
			err = aerr
			break
		}
		select {
		case s.slots <- struct{}{}:
			s.conns.Go(func() { s.take(newClient(life, conn, func() { <-s.slots })) })
		default:
			s.conns.Go(func() { refuseCrowd(conn) })
		}
	}
	end()
	server.Close()
	work.Wait()
	s.conns.Wait()
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// service is the proxy of one sandbox.
type service struct {
	p      *Proxy
	root   string
	policy policy
	life   context.Context // of the service
	slots  chan struct{}   // a token per connection
	web    *handover       // to the HTTP server

	conns sync.WaitGroup // connections that are served, by whomever
}

// follow counts the connections that the HTTP server serves; it waits for none
// itself. One that is taken over is counted by who takes it.
func (s *service) follow(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateHijacked, http.StateClosed:
		s.conns.Done()
	}
}

// take finds out what a client speaks.
func (s *service) take(c *client) {
	_ = c.SetReadDeadline(time.Now().Add(headerTime))
	first, err := c.in.Peek(1)
	if err != nil {
		c.Close()
		return
	}
	if first[0] == socksVersion {
		defer c.Close()
		s.socks(c)
		return
	}
	select {
	case s.web.conns <- c:
	case <-s.life.Done():
		c.Close()
	}
}

// refuseCrowd answers a connection beyond the limit.
func refuseCrowd(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(stallTime))
	_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"+
		"glovebox: this sandbox has too many connections open at once; close some and try again\n")
}

// handover is the listener that the HTTP server gets its connections from.
type handover struct {
	addr   net.Addr
	conns  chan net.Conn
	closed <-chan struct{}
}

func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handover) Close() error   { return nil } // it ends with the service
func (h *handover) Addr() net.Addr { return h.addr }
