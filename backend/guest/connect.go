//go:build linux

package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

// connectProcs run the Go code of what only copies.
const connectProcs = 2

// Connect carries connections from stdio to the guest that listens on socket,
// until stdio ends: the way to a guest whose socket no host can reach. It is a
// process of its own, beside the guest, and its end ends no call.
//
// The other side opens a stream per connection and its Close is the half-close.
func Connect(socket string, in io.ReadCloser, out io.WriteCloser) error {
	runtime.GOMAXPROCS(connectProcs)
	makeThreads(connectProcs + 4) // those that read and write, and the runtime's own
	session, err := yamux.Server(stdio{in, out}, wire.ConnectConfig())
	if err != nil {
		return fmt.Errorf("carry connections: %w", err)
	}
	defer session.Close()
	var carried sync.WaitGroup
	defer carried.Wait()
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, yamux.ErrSessionShutdown) {
				return nil
			}
			return fmt.Errorf("carry connections: %w", err)
		}
		carried.Go(func() { carry(stream, socket) })
	}
}

// carry copies one connection in both directions.
func carry(stream *yamux.Stream, socket string) {
	defer stream.Close()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return // the host reads the end, and asks the engine why
	}
	defer conn.Close()
	var up sync.WaitGroup
	up.Go(func() {
		if _, err := io.Copy(conn, stream); err != nil {
			conn.Close()
			return
		}
		conn.(*net.UnixConn).CloseWrite()
	})
	io.Copy(stream, conn)
	stream.Close()
	up.Wait()
}

type stdio struct {
	io.ReadCloser
	out io.WriteCloser
}

func (s stdio) Write(b []byte) (int, error) { return s.out.Write(b) }

func (s stdio) Close() error { return errors.Join(s.ReadCloser.Close(), s.out.Close()) }
