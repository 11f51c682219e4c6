// Package httpapi is the one server that screens and verbs talk to: the API
// under /api/v1, the events and exec sockets, and the UI's files. It listens on
// loopback and trusts nobody for that; see the guard.
//
// Handlers decode, call the session service, and encode. A command answers 202
// when its intent is recorded; what came of it shows in the events.
package httpapi

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/stream"
)

// Options are what a Server is made of.
type Options struct {
	Sessions   *session.Service
	Hub        *stream.Hub
	Token      *Token
	Hosts      []string // extra Host values that are ours, with port; loopback ones are known
	About      func(ctx context.Context) About
	Doctor     func(ctx context.Context) Doctor
	Images     Imager
	Containers Containers
	Rotate     func() (token string, err error) // stores a new token
	Home       string                           // where the one who runs the server has their files
	// Workspace says why a directory of this machine cannot be a workspace: a
	// *sandbox.FieldError.
	Workspace func(dir string) error
	Window    Window // nil where there is none
	Assets    fs.FS  // the UI
	Built     bool   // whether Assets is the UI, or only a placeholder
	Version   string
	Instance  string
	Log       *slog.Logger
}

// Server is described at the package.
type Server struct {
	o       Options
	http    *http.Server
	sockets chan struct{}  // a token per open socket
	serving sync.WaitGroup // handlers, those of sockets among them
	named   named
	life    context.Context // that of Serve

	mu    sync.Mutex
	hosts map[string]bool // "127.0.0.1:7333"; set by Serve
}

// maxSockets bounds the open sockets of one server.
const maxSockets = 256

// New returns a Server for Serve.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Log = o.Log.With("component", "http")
	s := &Server{o: o, sockets: make(chan struct{}, maxSockets), hosts: map[string]bool{}, life: context.Background()}
	s.http = &http.Server{
		Handler:           s.guard(s.once(s.routes())),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve answers requests on l until ctx ends, then closes every connection.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.setHosts(l.Addr())
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(errStopping)
	s.life = life
	s.http.BaseContext = func(net.Listener) context.Context { return life }
	served := make(chan error, 1) // its one sender never blocks
	go func() { served <- s.http.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		end(errStopping)
	}
	// Sockets are hijacked and end with life; requests get a moment.
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := s.http.Shutdown(stop); err != nil {
		s.http.Close()
	}
	err := <-served
	ended := make(chan struct{})
	go func() { s.serving.Wait(); close(ended) }()
	select {
	case <-ended: // nobody uses what stands below us any more
	case <-time.After(lastWords):
		s.o.Log.Warn("requests outlive the server")
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// lastWords bounds how long the end of the server waits for commands that go on
// without their client. What they have recorded is taken up at the next start.
const lastWords = 3 * time.Second

// lastWord is how long a socket that the end of the server breaks off may still
// say that it ends; within lastWords.
const lastWord = 2 * time.Second

// during returns the contexts of a socket. Its work ends with the server; what it
// is talked by, which the connection ends with, outlives that by a last word. A
// change of the token ends both at once, as does end.
func (s *Server) during(r *http.Request) (work, talk context.Context, end context.CancelFunc) {
	talk, hangUp := s.o.Token.until(context.WithoutCancel(r.Context()))
	work, cancel := context.WithCancelCause(talk)
	stop := context.AfterFunc(r.Context(), func() {
		cancel(context.Cause(r.Context()))
		select {
		case <-time.After(lastWord):
			hangUp()
		case <-talk.Done():
		}
	})
	return work, talk, func() {
		stop()
		hangUp() // and the work with it
	}
}

// setHosts fixes which Host values are ours: the loopback names with the port
// that we listen on, the address itself unless that is every address, and the
// configured ones.
func (s *Server) setHosts(addr net.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return
	}
	ours := []string{"localhost", "127.0.0.1", "::1"}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		ours = append(ours, host)
	}
	for _, h := range ours {
		s.hosts[net.JoinHostPort(h, port)] = true
	}
	for _, h := range s.o.Hosts {
		s.hosts[h] = true
	}
}

func (s *Server) ourHost(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosts[host]
}
