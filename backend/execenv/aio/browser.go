package aio

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// RewriteHost returns a URL that the server gave, such as its cdp_url, with the
// scheme's kind and the path kept and the host as it is reached from here: what
// it knows of its own address ends at its gateway.
func (s *Server) RewriteHost(given string) (string, error) {
	u, err := url.Parse(given)
	if err != nil || u.Host == "" {
		return "", misfit("a URL", errors.New("it has no host"))
	}
	secure := s.base.Scheme == "https"
	switch u.Scheme {
	case "ws", "wss":
		u.Scheme = map[bool]string{true: "wss", false: "ws"}[secure]
	case "http", "https":
		u.Scheme = s.base.Scheme
	default:
		return "", misfit("a URL", fmt.Errorf("its scheme is %q", clip(u.Scheme)))
	}
	u.Host, u.User = s.base.Host, nil
	if prefix := s.base.Path; prefix != "" && u.Path != prefix && !strings.HasPrefix(u.Path, prefix+"/") {
		u.Path = prefix + u.Path // the gateway's, which the server does not know
	}
	return u.String(), nil
}

// CDPURL returns the address of the server's browser, as it is reached from
// here. A key is not part of it: it goes into the header of who connects. A
// server that has no browser, or keeps it to itself, is execenv.ErrNoBrowser.
func (s *Server) CDPURL(ctx context.Context) (string, error) {
	var info struct {
		CDPURL string `json:"cdp_url"`
	}
	err := s.ask(ctx, shortTime, http.MethodGet, "/v1/browser/info", nil, &info)
	if err == nil && info.CDPURL == "" {
		return "", fmt.Errorf("ask for the browser: the server names no cdp_url: %w", execenv.ErrNoBrowser)
	}
	if err != nil {
		return "", fmt.Errorf("ask for the browser: %w", noBrowser(err))
	}
	return s.RewriteHost(info.CDPURL)
}

// CDP opens the debugging connection of the server's browser, whose address is
// asked for each time: it is another after each start of the browser. The errors
// are those of CDPURL.
func (s *Server) CDP(ctx context.Context) (*websocket.Conn, error) {
	at, err := s.CDPURL(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, shortTime) // of the handshake
	defer cancel()
	conn, answer, err := websocket.Dial(ctx, at, &websocket.DialOptions{
		HTTPClient: s.Client(),
		// Frames are JPEG already, and every byte is compressed on two busy cores.
		CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		return conn, nil
	}
	if refused, ok := errors.AsType[*statusError](err); ok {
		err = refused // by keyed
	} else if answer != nil {
		err = noBrowser(s.refusal(answer))
	} else {
		err = s.lost(ctx, http.MethodGet, err) // without the address, which may hold a ticket
	}
	return nil, fmt.Errorf("connect to the browser: %w", err)
}

// noBrowser makes the error of a server that has answered, and not with a
// browser, say so. What is no answer, and a key that is refused, stay what they are.
func noBrowser(err error) error {
	_, answered := errors.AsType[*statusError](err)
	if (answered || errors.Is(err, errRefused) || errors.Is(err, errMisfit)) && !errors.Is(err, sandbox.ErrUnauthorized) {
		return fmt.Errorf("%w: %v", execenv.ErrNoBrowser, err)
	}
	return err
}

// URL is the address of a path of the server, as Client reaches it.
func (s *Server) URL(path string) string { return s.base.String() + path }

// Client makes requests of another protocol that the server speaks. It goes by
// the server's connections, follows no redirect, and puts the key into each
// request; a server that refuses the key is sandbox.ErrUnauthorized, with the
// name of the variable to set.
func (s *Server) Client() *http.Client {
	c := *s.http
	c.Transport = keyed{s, s.http.Transport}
	return &c
}

// keyed adds the server's key to requests.
type keyed struct {
	server *Server
	next   http.RoundTripper
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context()) // a round tripper changes no request that it is given
	if err := k.server.authorize(r.Context(), r.Header); err != nil {
		return nil, err
	}
	answer, err := k.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		return answer, err
	}
	defer answer.Body.Close()
	return nil, k.server.refusal(answer)
}
