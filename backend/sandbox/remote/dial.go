package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

const reachTime = 5 * time.Second // to connect, and for a first word

// kind is what answers at a URL.
type kind int

const (
	kindGuest kind = iota + 1
	kindHTTP
)

// kind finds out what answers at a URL, once. A guest greets in JSON whatever it
// is told; an HTTP server answers in HTTP.
func (p *Provider) kind(ctx context.Context, base string) (kind, error) {
	p.mu.Lock()
	k := p.kinds[base]
	p.mu.Unlock()
	if k != 0 {
		return k, nil
	}
	conn, host, err := connect(ctx, base)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(reachTime))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := fmt.Fprintf(conn, "GET /v1/ping HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host); err != nil {
		return 0, err
	}
	var first [1]byte
	if _, err := conn.Read(first[:]); err != nil {
		return 0, fmt.Errorf("it took the connection and says nothing: %w", err)
	}
	switch first[0] {
	case '{':
		k = kindGuest
	case 'H':
		k = kindHTTP
	default:
		return 0, errors.New("it speaks neither as a guest nor HTTP")
	}
	p.mu.Lock()
	p.kinds[base] = k
	p.mu.Unlock()
	return k, nil
}

// connect opens a connection to the host of a URL.
func connect(ctx context.Context, base string) (net.Conn, string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, "", err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	addr := net.JoinHostPort(u.Hostname(), port)
	if u.Scheme == "https" {
		conn, err := (&tls.Dialer{Config: &tls.Config{ServerName: u.Hostname()}}).DialContext(ctx, "tcp", addr)
		return conn, u.Host, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	return conn, u.Host, err
}

// nearby reports whether a URL leads to this machine.
func nearby(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// dialer opens connections to one guest and proves the key on each.
type dialer struct {
	base string
	auth sandbox.Auth
}

// greeted is a connection on which the guest has greeted and been satisfied.
// Who reads it is first told so, in the guest's own words.
type greeted struct {
	net.Conn
	greeting wire.Greeting
	first    bytes.Reader
}

func (g *greeted) Read(p []byte) (int, error) {
	if g.first.Len() > 0 {
		return g.first.Read(p)
	}
	return g.Conn.Read(p)
}

// dial implements sandbox.DialFunc.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	g, err := d.greet(ctx)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (d *dialer) greet(ctx context.Context) (*greeted, error) {
	conn, _, err := connect(ctx, d.base)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(reachTime))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	g := &greeted{Conn: conn}
	err = d.prove(ctx, g)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return g, nil
}

// prove answers the guest's greeting with a signature by a key that both derive
// from the one in the variable.
func (d *dialer) prove(ctx context.Context, g *greeted) (err error) {
	if g.greeting, err = client.Greet(g.Conn); err != nil {
		return err
	}
	if !g.greeting.Trusted {
		header, err := d.auth.Headers(ctx)
		if err != nil {
			return fmt.Errorf("read the key: %w", err)
		}
		var secret string
		for _, values := range header {
			secret = values[0]
		}
		err = client.Prove(g.Conn, g.greeting, client.DeriveKey([]byte(secret), g.greeting.GuestID))
		if errors.Is(err, client.ErrRefused) {
			return fmt.Errorf("%w: %s", sandbox.ErrUnauthorized, sandbox.KeyAdvice(d.auth))
		}
		if err != nil {
			return err
		}
	}
	told := g.greeting
	told.Trusted, told.Nonce = true, nil
	line, err := json.Marshal(told)
	if err != nil {
		return err
	}
	g.first.Reset(append(line, '\n'))
	return nil
}
