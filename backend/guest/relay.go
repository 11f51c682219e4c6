//go:build linux

package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	relayAnswer = 5 * time.Second // for a client that is only told that there is no way out
	relayLeave  = 2 * time.Minute // for one that goes on sending when nothing comes back any more
)

// relay is the way out of a sandbox without a network: it listens inside and
// hands every connection on, unread, by the channel that the host has opened.
// The host alone decides where it goes. It leads nowhere else: not to the guest.
type relay struct {
	listener net.Listener
	slots    chan struct{} // a token per connection

	mu      sync.Mutex
	channel *channel // nil while the host has none open
	clients map[net.Conn]struct{}
	closed  bool

	work sync.WaitGroup
}

// channel is the way to the host. ready is closed once the host expects streams.
type channel struct {
	*yamux.Session
	ready chan struct{}
}

func newRelay(addr string) (*relay, error) {
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the sandbox's connections out: %w", err)
	}
	r := &relay{listener: l, slots: make(chan struct{}, wire.MaxRelayed), clients: map[net.Conn]struct{}{}}
	r.work.Go(r.accept)
	return r, nil
}

func (r *relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond) // such as no descriptor left
			continue
		}
		tcp, ok := conn.(*net.TCPConn)
		if !ok || !r.enter(tcp) {
			conn.Close()
			continue
		}
		r.work.Go(func() {
			defer r.leave(tcp)
			select {
			case r.slots <- struct{}{}:
				defer func() { <-r.slots }()
			default:
				noWay(tcp, "this sandbox has too many connections open at once; close some and try again")
				return
			}
			r.serve(tcp)
		})
	}
}

func (r *relay) enter(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.clients[conn] = struct{}{}
	}
	return !r.closed
}

func (r *relay) leave(conn net.Conn) {
	conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.clients, conn)
}

// serve carries one connection.
func (r *relay) serve(conn *net.TCPConn) {
	r.mu.Lock()
	channel := r.channel
	r.mu.Unlock()
	const down = "the way out is closed at this moment: Glovebox on the host does not hold it open; try again soon"
	if channel == nil {
		noWay(conn, down)
		return
	}
	select {
	case <-channel.ready:
	case <-channel.CloseChan():
	}
	stream, err := channel.OpenStream()
	if err != nil {
		noWay(conn, down)
		return
	}
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(stream, conn)
		stream.Close() // that direction has ended, whoever ended it
	})
	_, err = io.Copy(conn, stream)
	switch {
	case channel.IsClosed():
		_ = conn.SetLinger(0) // what was cut must not look complete
		conn.Close()
	case err != nil: // the client has gone
		conn.Close()
	default:
		_ = conn.CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(relayLeave))
	}
	up.Wait()
	stream.Close()
}

// noWay tells a client, in the protocol that it speaks, that it is not carried.
func noWay(conn *net.TCPConn, why string) {
	_ = conn.SetDeadline(time.Now().Add(relayAnswer))
	buf := make([]byte, 4<<10)
	n, err := conn.Read(buf)
	if err != nil || n == 0 {
		return
	}
	answer := []byte("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Retry-After: 2\r\nContent-Length: " + fmt.Sprint(len(why)+len("glovebox: \n")) + "\r\n\r\nglovebox: " + why + "\n")
	if buf[0] == 5 { // SOCKS5: no authentication, then a general failure
		if _, err := conn.Write([]byte{5, 0}); err != nil {
			return
		}
		if _, err := conn.Read(buf); err != nil {
			return
		}
		answer = []byte{5, 1, 0, 1, 0, 0, 0, 0, 0, 0}
	}
	if _, err := conn.Write(answer); err != nil {
		return
	}
	// An end with something unread would take the answer back.
	_ = conn.CloseWrite()
	_, _ = io.Copy(io.Discard, conn)
}

// hold makes conn the channel until it ends, or another takes its place. agree
// tells the host so: from then on whatever asks for a way out has one.
func (r *relay) hold(conn io.ReadWriteCloser, agree func() error) error {
	session, err := yamux.Client(conn, wire.RelayConfig())
	if err != nil {
		return err
	}
	channel := &channel{session, make(chan struct{})}
	defer channel.Close()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return net.ErrClosed
	}
	before := r.channel
	r.channel = channel
	r.mu.Unlock()
	if before != nil {
		before.Close()
	}
	if err = agree(); err == nil {
		close(channel.ready)
		<-channel.CloseChan()
	}
	r.mu.Lock()
	if r.channel == channel {
		r.channel = nil
	}
	r.mu.Unlock()
	return err
}

// close ends every connection and waits for all of them.
func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	channel := r.channel
	clients := make([]net.Conn, 0, len(r.clients))
	for c := range r.clients {
		clients = append(clients, c)
	}
	r.mu.Unlock()
	r.listener.Close()
	if channel != nil {
		channel.Close()
	}
	for _, c := range clients {
		c.Close()
	}
	r.work.Wait()
}

// openRelay turns the connection into the channel of the relay.
func (g *Guest) openRelay(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != wire.ProtocolRelay {
		fail(w, fmt.Errorf("the relay's channel is an upgrade to %s: %w", wire.ProtocolRelay, execenv.ErrInvalid))
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	err = g.relay.hold(conn, func() error {
		_, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.ProtocolRelay+"\r\n\r\n")
		return err
	})
	if err != nil {
		g.log.WarnContext(r.Context(), "relay not opened", "err", err)
	}
}
