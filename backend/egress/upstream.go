package egress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Upstream returns a dial function for Options that reaches public addresses by
// another proxy, at HOST:PORT, for machines that reach the internet by one alone.
// It asks that proxy, by CONNECT, for the very address that was judged and never
// for a name, which the proxy might resolve to something else. Addresses that are
// not public are dialled straight: an entry of a policy opens them, and they are
// of this side of that proxy. dial, for both, is a net.Dialer's when nil.
func Upstream(proxy string, dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		if kind := kindOf(to.Addr()); kind != "" && kind != kindExample {
			return dial(ctx, network, address)
		}
		conn, err := dial(ctx, network, proxy)
		if err != nil {
			return nil, fmt.Errorf("reach the upstream proxy %s: %w", proxy, err)
		}
		if err := askFor(ctx, conn, address); err != nil {
			conn.Close()
			return nil, fmt.Errorf("by the upstream proxy %s: %w", proxy, err)
		}
		return conn, nil
	}
}

// askFor asks a proxy to connect to an address.
func askFor(ctx context.Context, conn net.Conn, address string) (err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			err = context.Cause(ctx) // the deadline may be set at any moment
		}
	}()
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", address); err != nil {
		return err
	}
	head, err := readHead(conn)
	if err != nil {
		return err
	}
	var major, minor, status int
	if _, err := fmt.Sscanf(string(head), "HTTP/%d.%d %d", &major, &minor, &status); err != nil {
		return fmt.Errorf("it is no HTTP proxy: it says %q", clip(string(head[:min(len(head), 60)])))
	}
	if status < 200 || status > 299 {
		return fmt.Errorf("it answered %d %s", status, http.StatusText(status))
	}
	return nil
}

// readHead reads an answer's head and not a byte more: what follows is the
// server's.
func readHead(conn net.Conn) ([]byte, error) {
	var head []byte
	for one := make([]byte, 1); len(head) < maxHeader; {
		if _, err := io.ReadFull(conn, one); err != nil {
			return nil, err
		}
		if head = append(head, one[0]); bytes.HasSuffix(head, []byte("\r\n\r\n")) {
			return head, nil
		}
	}
	return nil, fmt.Errorf("its answer's head is longer than %d bytes", maxHeader)
}
