//go:build linux

package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	portDialTime = 5 * time.Second
	portIdleTime = 30 * time.Second
)

// portProxy carries requests to what listens on a port inside the sandbox, for
// previews and for servers that an image brings. A request is passed on as it
// is, but for the prefix that names the port, and its Host, which is
// localhost:PORT: servers inside know themselves by no other. Answers flow as
// they come, and an upgrade becomes a stream in both directions.
type portProxy struct {
	denied map[int]string // what a port is, of those that are the guest's own
	proxy  *httputil.ReverseProxy
}

func newPortProxy(denied map[int]string, log *slog.Logger) *portProxy {
	return &portProxy{denied: denied, proxy: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "http"
			r.Out.URL.Host = "localhost:" + r.In.PathValue("port")
			r.Out.Host = r.Out.URL.Host
		},
		Transport: &http.Transport{
			DialContext:            dialPort,
			DisableCompression:     true, // passed on as the client and the server agree on it
			MaxIdleConnsPerHost:    8,
			IdleConnTimeout:        portIdleTime,
			MaxResponseHeaderBytes: 1 << 20,
		},
		FlushInterval: -1, // at once
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			e, _ := encodeError(fmt.Errorf("port %s in the sandbox: %w: %v", r.URL.Port(), execenv.ErrUnreachable, err))
			sendError(w, e, http.StatusBadGateway)
		},
	}}
}

// dialPort connects to a port of this sandbox's loopback, of whatever family a
// server listens in.
func dialPort(ctx context.Context, _, addr string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, portDialTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if err == nil {
		return conn, nil
	}
	conn, err6 := d.DialContext(ctx, "tcp", net.JoinHostPort("::1", port))
	if err6 != nil {
		return nil, err // what most servers are reached by
	}
	return conn, nil
}

// ServeHTTP implements http.Handler.
func (p *portProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := r.PathValue("port")
	port, err := strconv.ParseUint(text, 10, 16)
	switch {
	case err != nil || port == 0 || strconv.FormatUint(port, 10) != text:
		fail(w, fmt.Errorf("%q is not a port from 1 to 65535: %w", text, execenv.ErrInvalid))
		return
	case p.denied[int(port)] != "":
		fail(w, fmt.Errorf("port %d is %s: %w", port, p.denied[int(port)], execenv.ErrPermission))
		return
	}
	out, err := withoutPrefix(r.URL, text)
	if err != nil {
		fail(w, err)
		return
	}
	r.URL = out
	p.proxy.ServeHTTP(w, r)
}

// withoutPrefix returns a URL without the part that names the port. What follows
// is kept in its own spelling: a %2F is not a slash.
func withoutPrefix(u *url.URL, port string) (*url.URL, error) {
	rest, ok := strings.CutPrefix(u.EscapedPath(), wire.ProxyPath(port))
	if !ok {
		return nil, fmt.Errorf("the path of a port is written %s: %w", wire.ProxyPath(port), execenv.ErrInvalid)
	}
	if rest == "" {
		rest = "/"
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return nil, errors.Join(err, execenv.ErrInvalid)
	}
	out := *u
	out.Path, out.RawPath = path, rest
	return &out, nil
}

// ownPorts are the ports that the guest itself listens on, which lead nowhere
// but back to it.
func ownPorts(l net.Addr, relay string) map[int]string {
	own := map[int]string{}
	if tcp, ok := l.(*net.TCPAddr); ok {
		own[tcp.Port] = "the guest's own"
	}
	if _, port, err := net.SplitHostPort(relay); err == nil {
		if n, err := strconv.Atoi(port); err == nil {
			own[n] = "the way out of the sandbox"
		}
	}
	return own
}
