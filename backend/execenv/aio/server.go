package aio

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Generation is how old a server is, as far as it matters here.
type Generation int

// The generations. Older has terminal sessions alone: merged output, and no kill
// that holds. Piped, from 1.9 on, has /v1/bash with pipes and byte offsets, and
// file faults in band. Daemon is the later server of the same API, which says
// what it can do.
const (
	Older Generation = iota + 1
	Piped
	Daemon
)

func (g Generation) String() string {
	switch g {
	case Older:
		return "1.x without /v1/bash"
	case Piped:
		return "1.9 or later"
	case Daemon:
		return "daemon"
	}
	return "unknown"
}

// Info is what a server says of itself.
type Info struct {
	Generation Generation
	Version    string
	Home       string
	Workspace  string
	Hostname   string // "" until it was asked for by a command
}

// Options say which server.
type Options struct {
	BaseURL string
	Auth    sandbox.Auth     // asked for every request; nil for none
	Dial    sandbox.DialFunc // opens the connections to it; nil for what BaseURL says
	Name    string           // what errors call it; the host of BaseURL when empty
	Log     *slog.Logger
}

// Server is one AIO Sandbox server. Its methods may be called from several
// goroutines at once. It knows nothing until it is first asked for something.
type Server struct {
	base *url.URL
	name string
	auth sandbox.Auth
	http *http.Client
	log  *slog.Logger

	writes chan struct{}  // of capacity one: whoever holds the token changes files
	tidy   sync.WaitGroup // what is put away behind a call

	mu   sync.Mutex
	info Info // zero until probed
}

// New returns a Server. It does not connect.
func New(o Options) (*Server, error) {
	base, err := url.Parse(strings.TrimRight(o.BaseURL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil {
		return nil, fmt.Errorf("%w: an AIO server has a URL such as http://127.0.0.1:8080, without a key in it", sandbox.ErrRef)
	}
	base.Fragment, base.RawQuery = "", ""
	s := &Server{base: base, name: cmp.Or(o.Name, base.Host), auth: o.Auth, log: o.Log, writes: make(chan struct{}, 1)}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.http = newHTTP(base, o.Dial)
	return s, nil
}

// Close waits for what is being put away on the server and closes the idle
// connections.
func (s *Server) Close() error {
	s.tidy.Wait()
	s.http.CloseIdleConnections()
	return nil
}

// Ping asks the server whether it is there and takes the key.
func (s *Server) Ping(ctx context.Context) error {
	_, err := s.context(ctx)
	if err != nil {
		s.Forget() // what answers next may be another
	}
	return err
}

// About says what the server calls itself, where it works, and what does not
// hold in it.
func (s *Server) About(ctx context.Context) (hostname, workdir, caveat string, err error) {
	info, err := s.Probe(ctx)
	if err != nil {
		return "", "", "", err
	}
	if hostname, err = s.Hostname(ctx); err != nil {
		return "", "", "", err
	}
	return hostname, cmp.Or(info.Workspace, info.Home, sandbox.DefaultWorkdir), info.Caveat(), nil
}

// context asks for what a server says of itself.
func (s *Server) context(ctx context.Context) (Info, error) {
	var body json.RawMessage
	if err := s.ask(ctx, probeTime, http.MethodGet, "/v1/sandbox", nil, &body); err != nil {
		return Info{}, err
	}
	var v struct {
		Home      string `json:"home_dir"`
		Workspace string `json:"workspace"`
		Version   string `json:"version"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return Info{}, misfit("/v1/sandbox", err)
	}
	if v.Version == "" && v.Home == "" {
		return Info{}, misfit("/v1/sandbox", errors.New("neither a version nor a home directory: is it an AIO server?"))
	}
	return Info{Version: clip(v.Version), Home: v.Home, Workspace: v.Workspace}, nil
}

// Probe finds out what the server is, by asking and not by its version: images
// are frozen, patched and put behind gateways. What it found is kept until
// Forget.
func (s *Server) Probe(ctx context.Context) (Info, error) {
	s.mu.Lock()
	info := s.info
	s.mu.Unlock()
	if info.Generation != 0 {
		return info, nil
	}
	info, err := s.context(ctx)
	if err != nil {
		return Info{}, err
	}
	info.Generation = Piped
	if err := s.exists(ctx, "/v1/capabilities"); err == nil {
		info.Generation = Daemon
	} else if !errors.Is(err, execenv.ErrNotFound) {
		return Info{}, err
	} else if err := s.exists(ctx, "/v1/bash/sessions"); errors.Is(err, execenv.ErrNotFound) {
		info.Generation = Older
	} else if err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	s.info = info
	s.mu.Unlock()
	return info, nil
}

func (s *Server) exists(ctx context.Context, path string) error {
	var any json.RawMessage
	return s.ask(ctx, probeTime, http.MethodGet, path, nil, &any)
}

// Forget forgets what the server was: behind its address another may answer now.
func (s *Server) Forget() {
	s.mu.Lock()
	s.info = Info{}
	s.mu.Unlock()
}

// Hostname asks the server's own shell for its host name, once.
func (s *Server) Hostname(ctx context.Context) (string, error) {
	info, err := s.Probe(ctx)
	if err != nil || info.Hostname != "" {
		return info.Hostname, err
	}
	a, err := s.script(ctx, `printf 'name '; { cat /proc/sys/kernel/hostname || hostname; } | b`)
	if err != nil {
		return "", fmt.Errorf("ask for the host name: %w", silent(err))
	}
	name := clip(string(a.value("name")))
	s.mu.Lock()
	s.info.Hostname = name
	s.mu.Unlock()
	return name, nil
}

// Caveat says what does not hold on a server of this generation.
func (i Info) Caveat() string {
	const all = "This server is not Glovebox's own: another take-up of the task is not fenced off, and what a timeout or a stop has killed is not proven."
	if i.Generation == Older {
		return all + " On this old version both outputs come as one, and a command that was stopped may go on."
	}
	return all
}

// later puts something away on the server without being waited for by a call.
func (s *Server) later(ctx context.Context, do func(context.Context) error) {
	ctx = context.WithoutCancel(ctx)
	s.tidy.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, shortTime)
		defer cancel()
		if err := do(ctx); err != nil {
			s.log.DebugContext(ctx, "tidy up on an AIO server", "err", err)
		}
	})
}

// lockWrites waits until nobody else in this process changes files there.
func (s *Server) lockWrites(ctx context.Context) (unlock func(), err error) {
	select {
	case s.writes <- struct{}{}:
		return func() { <-s.writes }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// seconds is a duration as the API takes it.
func seconds(d time.Duration) float64 { return d.Seconds() }
