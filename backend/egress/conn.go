package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// client is a connection out of a sandbox. A client that has closed its side may
// be gone altogether, which a stream does not show: from then on it has to take
// what is written to it within a time.
type client struct {
	net.Conn
	in    *bufio.Reader // in front of Conn
	left  atomic.Bool   // its side is closed
	close func()
	once  sync.Once
}

// newClient returns a client that is closed at the end of life.
func newClient(life context.Context, conn net.Conn, closed func()) *client {
	stop := context.AfterFunc(life, func() { conn.Close() })
	return &client{Conn: conn, in: bufio.NewReaderSize(conn, 4<<10), close: func() {
		stop()
		closed()
	}}
}

func (c *client) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	if err != nil && !isTimeout(err) && !c.left.Swap(true) {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(stallTime))
	}
	return n, err
}

func (c *client) Write(b []byte) (int, error) {
	if c.left.Load() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(stallTime))
	}
	return c.Conn.Write(b)
}

func (c *client) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.close)
	return err
}

// closeWriter closes one direction; the streams of a sandbox do that by Close.
type closeWriter interface{ CloseWrite() error }

// upstream is a connection to an address that was allowed. It counts what passes,
// ends when nothing has for long, and tells of its end once.
type upstream struct {
	net.Conn
	s       *service
	d       Decision
	idle    *time.Timer
	limit   atomic.Int64 // of silence, as a time.Duration
	last    atomic.Int64 // when a byte passed, in nanoseconds since d.At
	release func() bool
	onIdle  atomic.Value // func(), called when it ends for silence

	sent, received atomic.Int64
	once           sync.Once
}

func newUpstream(s *service, conn net.Conn, d Decision) *upstream {
	u := &upstream{Conn: conn, s: s, d: d}
	u.limit.Store(int64(idleTime))
	u.touch()
	made := make(chan struct{})
	defer close(made)
	u.idle = time.AfterFunc(idleTime, u.check)
	u.release = context.AfterFunc(s.life, func() {
		<-made
		u.Close()
	})
	return u
}

func (u *upstream) touch() { u.last.Store(int64(time.Since(u.d.At))) }

// check ends the connection after a silence, or waits for the rest of one.
func (u *upstream) check() {
	silent := time.Since(u.d.At) - time.Duration(u.last.Load())
	if rest := time.Duration(u.limit.Load()) - silent; rest > 0 {
		u.idle.Reset(rest)
		return
	}
	if f, ok := u.onIdle.Load().(func()); ok {
		f()
	}
	u.Close()
}

// hurry shortens the silence that is waited for.
func (u *upstream) hurry(limit time.Duration) {
	u.limit.Store(int64(limit))
	u.idle.Reset(limit)
}

func (u *upstream) Read(b []byte) (int, error) {
	n, err := u.Conn.Read(b)
	if n > 0 {
		u.received.Add(int64(n))
		u.touch()
	}
	return n, err
}

func (u *upstream) Write(b []byte) (int, error) {
	n, err := u.Conn.Write(b)
	if n > 0 {
		u.sent.Add(int64(n))
		u.touch()
	}
	return n, err
}

// CloseWrite ends what is sent.
func (u *upstream) CloseWrite() error {
	if c, ok := u.Conn.(closeWriter); ok {
		return c.CloseWrite()
	}
	return nil
}

// Close closes the connection and tells of its end.
func (u *upstream) Close() error {
	err := u.Conn.Close()
	u.once.Do(func() {
		u.idle.Stop()
		u.release()
		d := u.d
		d.Sent, d.Received, d.Duration = u.sent.Load(), u.received.Load(), time.Since(d.At)
		u.s.p.o.Ended(u.s.root, d)
	})
	return err
}

// tunnel carries bytes both ways until both sides have ended, or one is broken.
func tunnel(c *client, u *upstream) {
	defer u.Close()
	defer c.Close()
	u.onIdle.Store(func() { c.Close() })
	var up sync.WaitGroup
	up.Go(func() {
		_, err := io.Copy(u, c)
		if err != nil {
			u.Close() // a stream that was cut, or a server that takes no more
			return
		}
		_ = u.CloseWrite()
		u.hurry(leaveTime)
	})
	_, err := io.Copy(c, u)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		u.Close()
	}
	// The end of a stream of a sandbox is what its other side reads as an end; what
	// the client still sends is taken for a while.
	_ = c.Conn.Close()
	_ = c.Conn.SetReadDeadline(time.Now().Add(leaveTime))
	up.Wait()
}
