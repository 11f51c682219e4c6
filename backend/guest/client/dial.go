package client

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	handshakeTime = 5 * time.Second
	maxLine       = 4 << 10
)

// Connect opens a connection of its own to the guest, past its greeting, for an
// HTTP/1.1 client that speaks to what listens inside by wire.PathProxy.
func (c *Client) Connect(ctx context.Context) (net.Conn, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return conn, nil
}

// dial opens a connection and makes sure who is at the other end of it.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	conn, err := c.o.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the guest: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = c.handshake(conn)
	if !stop() && err == nil {
		err = context.Cause(ctx) // the deadline may be set at any moment
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("greet the guest: %w", err)
	}
	return conn, nil
}

func (c *Client) handshake(conn net.Conn) error {
	g, err := Greet(conn)
	switch {
	case err != nil:
		return err
	case g.GuestID != c.o.GuestID:
		return fmt.Errorf("guest %q answered, not %q", g.GuestID, c.o.GuestID)
	case g.Trusted:
		return nil
	}
	return Prove(conn, g, c.o.Key)
}

// Greet reads who is at the other end of a new connection, a byte at a time and
// none too many. It fails for a guest of a wire version that this host does not
// speak.
func Greet(conn net.Conn) (g wire.Greeting, err error) {
	if err := readLine(conn, &g); err != nil {
		return g, fmt.Errorf("read the guest's greeting: %w", err)
	}
	if g.Version != wire.Version && g.Version != wire.Version-1 {
		return g, fmt.Errorf("the guest speaks wire version %d, this host %d: restart the sandbox, or update the older of the two", g.Version, wire.Version)
	}
	return g, nil
}

// ErrRefused is a guest that did not take the proof.
var ErrRefused = errors.New("the guest refused the proof")

// Prove answers a greeting that asks for it with a signature by key. The error
// wraps ErrRefused when the guest wants another.
func Prove(conn net.Conn, g wire.Greeting, key ed25519.PrivateKey) error {
	if len(key) != ed25519.PrivateKeySize {
		return errors.New("the guest wants a proof, and there is no key")
	}
	proof, err := json.Marshal(wire.Proof{
		Version:   g.Version,
		Signature: ed25519.Sign(key, wire.ProofMessage(g.Nonce, g.GuestID, g.Version)),
	})
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(proof, '\n')); err != nil {
		return err
	}
	var v wire.Verdict
	if err := readLine(conn, &v); err != nil {
		return fmt.Errorf("read the guest's verdict: %w", err)
	}
	if !v.OK {
		return fmt.Errorf("%w: %s", ErrRefused, v.Error)
	}
	return nil
}

// readLine reads one line of JSON and not a byte past it.
func readLine(conn net.Conn, v any) error {
	line := make([]byte, 0, 256)
	var b [1]byte
	for len(line) < maxLine {
		if _, err := conn.Read(b[:]); err != nil {
			return err
		}
		if b[0] == '\n' {
			return json.Unmarshal(line, v)
		}
		line = append(line, b[0])
	}
	return errors.New("the guest's line is too long")
}
