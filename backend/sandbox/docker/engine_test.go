package docker

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// stubEngine is as much of an engine as a test needs, on a unix socket. It
// speaks one range of API versions and refuses the rest like a real one.
type stubEngine struct {
	newest string // sent as Api-Version
	oldest string
	handle map[string]http.HandlerFunc // by path without its version
	around func(w http.ResponseWriter, r *http.Request, next http.Handler)

	mu    sync.Mutex
	paths []string
}

// start returns the stub's address.
func (s *stubEngine) start(t *testing.T) string {
	t.Helper()
	// In /tmp itself: the address of a unix socket has little room.
	dir, err := os.MkdirTemp("", "stub x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "d.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s)
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return "unix://" + path
}

func (s *stubEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.around == nil {
		s.serve(w, r)
		return
	}
	s.around(w, r, http.HandlerFunc(s.serve))
}

func (s *stubEngine) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.paths = append(s.paths, r.URL.Path)
	s.mu.Unlock()
	w.Header().Set("Api-Version", s.newest)
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/_ping" {
		return
	}
	version, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v"), "/")
	if len(version) != 4 || version > s.newest || version < s.oldest {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"message":"client version `+version+` is too new or too old. Supported API versions are `+s.oldest+` to `+s.newest+`"}`)
		return
	}
	if h := s.handle["/"+path]; h != nil {
		h(w, r)
		return
	}
	if path == "info" {
		io.WriteString(w, `{"OSType":"linux","Architecture":"x86_64","NCPU":2,"ServerVersion":"stub","SecurityOptions":["name=seccomp,profile=default","name=rootless"]}`)
		return
	}
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, `{"message":"no such thing"}`)
}

func stubProvider(t *testing.T, host string) *Provider {
	t.Helper()
	p, err := New(Options{Host: host, DataDir: t.TempDir(), Instance: "stub", DefaultImage: "stub:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

const someID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func stubRef(t *testing.T, p *Provider) sandbox.Ref {
	t.Helper()
	r, err := p.ref(someID)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hangingEngine returns the address of an engine that takes connections and never
// answers.
func hangingEngine(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hang") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "d.sock"))
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-taken
		os.RemoveAll(dir)
	})
	return "unix://" + l.Addr().String()
}

// Asking a hanging engine how it is, again and again, keeps nothing.
func TestHangingEngine_probes(t *testing.T) {
	p := stubProvider(t, hangingEngine(t))
	before := runtime.NumGoroutine()
	var probes sync.WaitGroup
	begun := time.Now()
	for range 100 {
		probes.Go(func() {
			if err := p.Probe(t.Context()); !errors.Is(err, sandbox.ErrNoWall) || !strings.Contains(err.Error(), "did not answer in time") {
				t.Errorf("Probe = %v", err)
			}
		})
	}
	probes.Wait()
	if took := time.Since(begun); took > 30*time.Second { // one after the other take minutes
		t.Errorf("they took %v", took)
	}
	p.Close()
	if after := goroutines(before); after > before {
		t.Errorf("%d goroutines after 100 probes, %d before", after, before)
	}
}

// goroutines counts those that run once there are no more than most, or never will
// be: connections end in the background.
func goroutines(most int) int {
	now := runtime.NumGoroutine()
	for deadline := time.Now().Add(20 * time.Second); now > most && time.Now().Before(deadline); now = runtime.NumGoroutine() {
		time.Sleep(10 * time.Millisecond)
	}
	return now
}

func TestHangingEngine(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*testing.T, *Provider) error
	}{
		{"ping", func(t *testing.T, p *Provider) error { _, err := p.Ping(t.Context()); return err }},
		{"attach", func(t *testing.T, p *Provider) error { _, err := p.Attach(t.Context(), stubRef(t, p)); return err }},
		{"release", func(t *testing.T, p *Provider) error { return p.Release(t.Context(), "root") }},
		{"inspect", func(t *testing.T, p *Provider) error {
			c, err := p.Inspect(t.Context(), stubRef(t, p))
			if err == nil && c.Value == sandbox.StateUnreachable {
				return sandbox.ErrUnreachable // a silent engine is a condition here
			}
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := inBubble(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
				begun := time.Now()
				if err := test.do(t, p); !errors.Is(err, sandbox.ErrUnreachable) {
					t.Errorf("got %v, want %v", err, sandbox.ErrUnreachable)
				}
				if took := time.Since(begun); took > pingTimeout {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestNoEngine(t *testing.T) {
	p := stubProvider(t, "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	before := runtime.NumGoroutine()
	for range 100 {
		if _, err := p.Ping(t.Context()); !errors.Is(err, sandbox.ErrUnreachable) {
			t.Fatalf("Ping = %v, want %v", err, sandbox.ErrUnreachable)
		}
	}
	p.Close()
	if after := goroutines(before + 3); after > before+3 {
		t.Errorf("%d goroutines after 100 pings, %d before", after, before)
	}
	spec := sandbox.Spec{Workspace: t.TempDir()}
	if _, err := p.Allocate(t.Context(), "root", spec); !errors.Is(err, sandbox.ErrUnreachable) {
		t.Errorf("Allocate = %v, want %v", err, sandbox.ErrUnreachable)
	}
	if err := p.Release(t.Context(), "root"); !errors.Is(err, sandbox.ErrUnreachable) {
		t.Errorf("Release = %v, want %v", err, sandbox.ErrUnreachable)
	}
	spec.Resources = map[string]string{"memory": "2 gigs"}
	if _, err := p.Allocate(t.Context(), "root", spec); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("Allocate of a bad spec = %v, want %v", err, sandbox.ErrSpec)
	}
}

func TestAnswersOfAnEngine(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	inspect := "/containers/" + someID + "/json"
	attach := func(t *testing.T, p *Provider) error {
		_, err := p.Attach(t.Context(), stubRef(t, p))
		return err
	}
	remove := func(t *testing.T, p *Provider) error { return p.removeContainer(t.Context(), someID) }
	for _, test := range []struct {
		name   string
		handle map[string]http.HandlerFunc
		do     func(*testing.T, *Provider) error
		want   error
	}{
		{"no such container", nil, attach, sandbox.ErrGone},
		{"being removed", map[string]http.HandlerFunc{inspect: answer(200, `{"Id":"`+someID+`","State":{"Status":"removing"},"HostConfig":{},"Config":{"Labels":{"glovebox.instance":"stub"}}}`)}, attach, sandbox.ErrGone},
		{"another's", map[string]http.HandlerFunc{inspect: answer(200, `{"Id":"`+someID+`","State":{"Status":"running","Running":true},"HostConfig":{},"Config":{"Labels":{"glovebox.instance":"other"}}}`)}, attach, sandbox.ErrForeign},
		{"nobody's", map[string]http.HandlerFunc{inspect: answer(200, `{"Id":"`+someID+`","State":{"Status":"running","Running":true},"HostConfig":{},"Config":{}}`)}, attach, sandbox.ErrForeign},
		{"cut answer", map[string]http.HandlerFunc{inspect: func(w http.ResponseWriter, r *http.Request) {
			panic(http.ErrAbortHandler)
		}}, attach, sandbox.ErrUnreachable},
		{"start refused", map[string]http.HandlerFunc{
			inspect:                            answer(200, `{"Id":"`+someID+`","State":{"Status":"exited"},"HostConfig":{},"Config":{"Labels":{"glovebox.instance":"stub","glovebox.sandbox":"00"}}}`),
			"/containers/" + someID + "/start": answer(500, `{"message":"no space left on device"}`),
		}, attach, sandbox.ErrStopped},
		{"remove what is gone", nil, remove, nil},
		{"remove what somebody removes", map[string]http.HandlerFunc{
			"/containers/" + someID:           answer(409, `{"message":"removal of container is already in progress"}`),
			"/containers/" + someID + "/wait": answer(200, `{"StatusCode":0}`),
		}, remove, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := stubProvider(t, (&stubEngine{newest: "1.41", oldest: "1.12", handle: test.handle}).start(t))
			if err := test.do(t, p); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// An engine that hangs in the middle of an allocation ends it in time, wherever it
// hangs.
func TestAllocate_hangingEngine(t *testing.T) {
	for _, at := range []string{"/images/stub:1/json", "/containers/create", "/containers/" + someID + "/start"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := func(body string) http.HandlerFunc {
					return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
				}
				stub := &stubEngine{newest: "1.41", oldest: "1.12", handle: map[string]http.HandlerFunc{
					"/images/stub:1/json": answer(`{"Id":"sha256:00","Os":"linux","Architecture":"amd64"}`),
					"/containers/json":    answer("[]"),
					"/containers/create":  answer(`{"Id":"` + someID + `"}`),
				}}
				var hangs atomic.Bool
				stub.around = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if strings.HasSuffix(r.URL.Path, at) {
						hangs.Store(true)
					}
					if hangs.Load() {
						io.Copy(io.Discard, r.Body) // a server sees the client go only after it
						<-r.Context().Done()
						return
					}
					next.ServeHTTP(w, r)
				}
				p, _ := inBubble(t, stub)
				p.log = slog.New(slog.DiscardHandler)
				p.probed.Store(true) // this engine mounts nothing at all
				begun := time.Now()
				_, err := p.Allocate(t.Context(), "root", sandbox.Spec{Workspace: t.TempDir()})
				if !errors.Is(err, sandbox.ErrUnreachable) || !hangs.Load() || time.Since(begun) > 30*time.Second {
					t.Errorf("Allocate = %v after %v", err, time.Since(begun))
				}
				if boxes, _ := filepath.Glob(filepath.Join(p.boxes(), "*")); len(boxes) > 0 {
					t.Errorf("left behind: %q", boxes)
				}
			})
		})
	}
}
