package app

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// engineProxy stands between a server and the engine. It counts what is asked,
// and can fall silent as a hanging engine does.
type engineProxy struct {
	host     string // for DOCKER_HOST
	requests atomic.Int64
	broken   atomic.Bool // it makes no containers

	// between is handed each request with what would forward it; nil forwards.
	between atomic.Pointer[func(w http.ResponseWriter, r *http.Request, forward http.Handler)]

	mu sync.Mutex

	silent chan struct{} // closed when it speaks again; nil while it answers
}

func newEngineProxy(t *testing.T) *engineProxy {
	t.Helper()
	engine, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if !ok {
		engine = "/var/run/docker.sock"
	}
	return newEngineProxyTo(t, engine)
}

// newEngineProxyTo is newEngineProxy before another engine, by its socket.
func newEngineProxyTo(t *testing.T, engine string) *engineProxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "glovebox-engine-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", engine)
	}}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "docker"
		},
		Transport:     transport,
		FlushInterval: -1, // events are passed on as they come
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	p := &engineProxy{host: "unix://" + socket}
	srv := &http.Server{ErrorLog: forward.ErrorLog, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		if again := p.waiting(); again != nil {
			select {
			case <-again:
			case <-r.Context().Done():
				return
			}
		}
		if p.broken.Load() && strings.HasSuffix(r.URL.Path, "/containers/create") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, `{"message":"no space left on device"}`)
			return
		}
		if between := p.between.Load(); between != nil {
			(*between)(w, r, forward)
			return
		}
		forward.ServeHTTP(w, r)
	})}
	served := make(chan struct{})
	go func() { defer close(served); srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
		transport.CloseIdleConnections()
		os.RemoveAll(dir)
	})
	return p
}

func (p *engineProxy) waiting() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent
}

// mute makes the engine take requests and answer none.
func (p *engineProxy) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = make(chan struct{})
}

// speak answers what has waited, and everything from now on.
func (p *engineProxy) speak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent != nil {
		close(p.silent)
		p.silent = nil
	}
}

// dockerDo runs the docker command line, as a user would, and returns what it
// printed.
func dockerDo(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// engine is dockerDo for what is a list of words.
func engine(t testing.TB, args ...string) []string {
	t.Helper()
	return strings.Fields(dockerDo(t, args...))
}

// containersOf returns the ids of an instance's containers, in whatever state.
func containersOf(t testing.TB, instance string) []string {
	t.Helper()
	return engine(t, "ps", "-aq", "--no-trunc", "--filter", "label=glovebox.instance="+instance)
}
