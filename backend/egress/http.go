package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"syscall"
	"time"
)

// ServeHTTP is one request of a client that speaks HTTP.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		s.tunnelHTTP(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		s.forward(w, r)
	case r.URL.Host != "":
		say(w, http.StatusBadRequest, fmt.Sprintf("the proxy forwards http:// addresses; for %s:// a client has to use CONNECT", clip(r.URL.Scheme)))
	default:
		say(w, http.StatusBadRequest, "this is the sandbox's way out, an HTTP and SOCKS5 proxy; set http_proxy and https_proxy to it")
	}
}

// say answers in words of our own. The header tells them from those of a server.
func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Glovebox-Egress", "answered")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "glovebox: "+text+"\n") // the client may be gone
}

// fault answers a request that was not connected.
func fault(w http.ResponseWriter, target string, err error) {
	var no *refusal
	switch {
	case errors.As(err, &no):
		say(w, http.StatusForbidden, no.Error())
	case errors.Is(err, errHost):
		say(w, http.StatusBadRequest, err.Error())
	case isTimeout(err), errors.Is(err, context.DeadlineExceeded):
		say(w, http.StatusGatewayTimeout, fmt.Sprintf("%s: %s", target, brief(err)))
	default:
		say(w, http.StatusBadGateway, fmt.Sprintf("%s: %s", target, brief(err)))
	}
}

// tunnelHTTP is CONNECT.
func (s *service) tunnelHTTP(w http.ResponseWriter, r *http.Request) {
	host, port, err := splitTarget(r.Host, 0)
	if err != nil {
		fault(w, "", err)
		return
	}
	u, err := s.connect(r.Context(), Connect, host, port)
	if err != nil {
		fault(w, clip(r.Host), err)
		return
	}
	s.conns.Add(1)
	defer s.conns.Done()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		u.Close()
		say(w, http.StatusInternalServerError, "the connection cannot be taken over")
		return
	}
	_ = conn.SetDeadline(time.Time{})
	c, ok := conn.(*client)
	if !ok {
		panic("egress: the server handed out a connection that it was not given")
	}
	// What the client sent ahead lies in the server's buffer.
	if n := rw.Reader.Buffered(); n > 0 {
		ahead, _ := rw.Reader.Peek(n)
		if _, err := u.Write(ahead); err != nil {
			u.Close()
			c.Close()
			return
		}
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		u.Close()
		c.Close()
		return
	}
	tunnel(c, u)
}

// forward is a plain request. It gets a connection of its own: what was decided
// about it holds for it alone.
func (s *service) forward(w http.ResponseWriter, r *http.Request) {
	host, port, err := splitTarget(r.URL.Host, 80)
	if err != nil {
		fault(w, "", err)
		return
	}
	u, err := s.connect(r.Context(), HTTP, host, port)
	if err != nil {
		fault(w, clip(r.URL.Host), err)
		return
	}
	defer u.Close()
	control := http.NewResponseController(w)
	u.onIdle.Store(func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) })
	transport := &http.Transport{
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return u, nil },
		DisableKeepAlives:      true,
		DisableCompression:     true,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}
	defer transport.CloseIdleConnections()
	(&httputil.ReverseProxy{
		// It takes the hop-by-hop headers out, and says nothing of the client.
		Rewrite: func(p *httputil.ProxyRequest) {
			out := *p.In.URL
			p.Out.URL = &url.URL{Scheme: "http", Host: out.Host, Path: out.Path, RawPath: out.RawPath, RawQuery: out.RawQuery, ForceQuery: out.ForceQuery}
			p.Out.Host = out.Host
		},
		Transport:     transport,
		FlushInterval: -1, // what a server sends is for now
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
				err = errors.New("the server closed the connection without an answer")
			}
			fault(w, clip(r.URL.Host), err)
		},
	}).ServeHTTP(w, r)
}
