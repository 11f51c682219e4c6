//go:build linux

package guest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	handshakeTime = 5 * time.Second
	maxStrangers  = 64 // peers at once that have yet to prove themselves
	maxProof      = 4 << 10
)

// listener hands out connections that have passed the handshake.
type listener struct {
	net.Listener
	greeting wire.Greeting
	key      ed25519.PublicKey

	ready     chan net.Conn
	strangers chan struct{} // a slot each
	life      chan struct{}
	once      sync.Once
	wg        sync.WaitGroup
}

// listen opens the socket that the config names, or takes the inherited one.
func listen(cfg wire.GuestConfig) (net.Listener, error) {
	if cfg.ListenFD > 0 {
		unix.CloseOnExec(cfg.ListenFD)
		f := os.NewFile(uintptr(cfg.ListenFD), "listener")
		defer f.Close()
		l, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("listen on descriptor %d: %w", cfg.ListenFD, err)
		}
		return l, nil
	}
	if cfg.Socket == "" {
		return nil, errors.New("the config names neither a socket nor a descriptor to listen on")
	}
	if info, err := os.Lstat(cfg.Socket); err == nil && info.Mode()&os.ModeSocket != 0 {
		os.Remove(cfg.Socket) // of a guest before this one
	}
	l, err := net.Listen("unix", cfg.Socket)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Socket, err)
	}
	// Its directory is what keeps others out; the host may be any user.
	if err := os.Chmod(cfg.Socket, 0o777); err != nil {
		l.Close()
		return nil, fmt.Errorf("open %s to the host: %w", cfg.Socket, err)
	}
	return l, nil
}

func newListener(l net.Listener, greeting wire.Greeting, key ed25519.PublicKey) *listener {
	a := &listener{
		Listener: l, greeting: greeting, key: key,
		ready:     make(chan net.Conn),
		strangers: make(chan struct{}, maxStrangers),
		life:      make(chan struct{}),
	}
	a.wg.Go(a.acceptAll)
	return a
}

func (a *listener) acceptAll() {
	for {
		conn, err := a.Listener.Accept()
		if err != nil {
			select {
			case <-a.life:
				return
			case <-time.After(50 * time.Millisecond): // such as no descriptor left
				continue
			}
		}
		a.wg.Go(func() {
			if err := a.handshake(conn); err != nil {
				conn.Close()
				return
			}
			select {
			case a.ready <- conn:
			case <-a.life:
				conn.Close()
			}
		})
	}
}

// Accept implements net.Listener.
func (a *listener) Accept() (net.Conn, error) {
	select {
	case c := <-a.ready:
		return c, nil
	case <-a.life:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (a *listener) Close() error {
	var err error
	a.once.Do(func() {
		close(a.life)
		err = a.Listener.Close()
		a.wg.Wait()
	})
	return err
}

// handshake greets a peer and lets it prove that it is the host, unless the
// kernel says that it comes from outside the pid namespace.
func (a *listener) handshake(conn net.Conn) error {
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	g := a.greeting
	g.Trusted = fromOutside(conn)
	if !g.Trusted {
		select {
		case a.strangers <- struct{}{}:
			defer func() { <-a.strangers }()
		default:
			return errors.New("too many strangers at once")
		}
		g.Nonce = make([]byte, 32)
		_, _ = rand.Read(g.Nonce) // never fails
	}
	if err := sendLine(conn, g); err != nil {
		return err
	}
	if !g.Trusted {
		line, err := readLine(conn, maxProof)
		if err != nil {
			return err
		}
		verdict := a.judge(line, g.Nonce)
		if err := sendLine(conn, verdict); err != nil {
			return err
		}
		if !verdict.OK {
			return errors.New(verdict.Error)
		}
	}
	return conn.SetDeadline(time.Time{})
}

func (a *listener) judge(line, nonce []byte) wire.Verdict {
	var p wire.Proof
	switch {
	case json.Unmarshal(line, &p) != nil:
		return wire.Verdict{Error: "the proof is not JSON"}
	case p.Version != wire.Version && p.Version != wire.Version-1:
		return wire.Verdict{Error: fmt.Sprintf("wire version %d is not served, only %d", p.Version, wire.Version)}
	case len(a.key) != ed25519.PublicKeySize ||
		!ed25519.Verify(a.key, wire.ProofMessage(nonce, a.greeting.GuestID, p.Version), p.Signature):
		return wire.Verdict{Error: "the proof is not by the host of this sandbox"}
	}
	return wire.Verdict{OK: true}
}

// fromOutside says whether the peer has no number in our pid namespace.
func fromOutside(conn net.Conn) bool {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return false
	}
	outside := false
	_ = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		outside = err == nil && cred.Pid == 0
	})
	return outside
}

func sendLine(conn net.Conn, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(line, '\n'))
	return err
}

// readLine reads up to a newline and not a byte past it.
func readLine(conn net.Conn, limit int) ([]byte, error) {
	var line bytes.Buffer
	var b [1]byte
	for line.Len() < limit {
		if _, err := conn.Read(b[:]); err != nil {
			return nil, err
		}
		if b[0] == '\n' {
			return line.Bytes(), nil
		}
		line.WriteByte(b[0])
	}
	return nil, errors.New("the line is too long")
}
