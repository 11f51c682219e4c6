package httpapi

import (
	"context"
	"crypto/subtle"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
)

// Token is the bearer token of a server. It may be rotated while it is in use.
type Token struct {
	mu      sync.Mutex
	value   string
	changed chan struct{} // closed by the next Set
}

// NewToken returns a Token of the given value.
func NewToken(value string) *Token { return &Token{value: value, changed: make(chan struct{})} }

// Set replaces the value. The former one is refused from now on, and the sockets
// that were opened with it end.
func (t *Token) Set(value string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.value = value
	close(t.changed)
	t.changed = make(chan struct{})
}

// until returns a context that ends when the token changes.
func (t *Token) until(ctx context.Context) (context.Context, context.CancelFunc) {
	t.mu.Lock()
	changed := t.changed
	t.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-watched }
}

func (t *Token) matches(given string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value != "" && subtle.ConstantTimeCompare([]byte(given), []byte(t.value)) == 1
}

const (
	apiPrefix     = "/api/"
	protocolName  = "glovebox.v1"
	protocolToken = "token."

	maxBody = 9 << 20 // a Write of 8 MiB and its JSON
)

// Errors of the guard; errors.go gives them their statuses.
var (
	errHost        = errors.New("this server does not answer for that host name; open the address that it printed")
	errOrigin      = errors.New("requests from other pages are refused")
	errToken       = errors.New("the token is missing or wrong; open the address that glovebox serve printed")
	errContentType = errors.New("the body must be application/json")
	errSockets     = errors.New("too many open sockets")
)

// guard stands before every route and every upgrade. That the server listens on
// loopback is no protection: any page in any browser on this machine can send
// requests here. So the Host must be ours (else a page whose name was rebound to
// 127.0.0.1 is same-origin with us), an Origin must be ours, and everything under
// /api/ needs the token, which no page can read and no browser adds by itself.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serving.Add(1)
		defer s.serving.Done()
		a := &answer{ResponseWriter: w}
		defer s.recover(a, r)
		w = a
		secure(w.Header())
		if err := s.admit(r); err != nil {
			s.fail(w, r, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// recover answers for a handler that panicked: its request has failed, and the
// server goes on. An answer that had begun is cut off, so that nobody takes what
// there is of it for the whole.
func (s *Server) recover(w *answer, r *http.Request) {
	cause := recover()
	switch {
	case cause == nil:
		return
	case cause == http.ErrAbortHandler:
		panic(cause)
	}
	s.o.Log.Error("handler panicked", "method", r.Method, "path", r.URL.Path, "err", cause, "stack", string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	reply(w, http.StatusInternalServerError, ErrorResponse{internal})
}

// answer knows whether an answer has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is how http.ResponseController finds what we do not do ourselves.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (s *Server) admit(r *http.Request) error {
	if !s.ourHost(r.Host) {
		return errHost
	}
	if origin := r.Header.Get("Origin"); origin != "" || len(r.Header["Origin"]) > 0 {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" || !s.ourHost(u.Host) || u.Host != r.Host {
			return errOrigin
		}
	}
	if !strings.HasPrefix(r.URL.Path, apiPrefix) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return errToken
		}
		return nil // the UI's files hold no secret
	}
	if !s.o.Token.matches(tokenOf(r)) {
		return errToken
	}
	if r.ContentLength != 0 && r.Method != http.MethodGet {
		if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
			return errContentType
		}
	}
	return nil
}

// tokenOf returns the token that a request carries: as a bearer, or, since a
// page cannot set headers on a socket, as one of the socket's subprotocols.
func tokenOf(r *http.Request) string {
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return t
	}
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			if t, ok := strings.CutPrefix(strings.TrimSpace(p), protocolToken); ok {
				return t
			}
		}
	}
	return ""
}

// secure sets the headers that every answer carries.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy(""))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// policy returns the content security policy; scripts are sources of scripts
// besides the server itself, each after a space.
func policy(scripts string) string {
	return "default-src 'none'; script-src 'self'" + scripts + "; style-src 'self'; img-src 'self' blob: data:; " +
		"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
