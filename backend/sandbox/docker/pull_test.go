package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/client"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// memory is a listener whose connections are pipes: in a synctest bubble an engine
// behind it takes no time.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.closed) }); return nil }
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "memory"} }

func (m *memory) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.closed:
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: net.ErrClosed}
	}
}

// inBubble returns a provider on an engine that lives in the test's bubble.
func inBubble(t *testing.T, engine http.Handler) (*Provider, *memory) {
	t.Helper()
	listener := &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: engine}
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(listener) }()
	p := stubProvider(t, "unix:///memory.sock")
	transport := &http.Transport{}
	var err error
	p.engine, err = client.NewClientWithOpts(client.WithHTTPClient(&http.Client{Transport: transport}),
		client.WithHost("http://memory"), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	transport.DialContext = listener.dial // after the client has set it by the host's name
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
		<-served
	})
	return p, listener
}

// registryStub is an engine that has no image until it has pulled it.
type registryStub struct {
	stubEngine
	pull func(w http.ResponseWriter, r *http.Request)

	mu     sync.Mutex
	asked  []string // what was pulled
	there  bool
	ended  chan struct{} // one for each pull whose request is over
	refuse bool          // every new request breaks off
}

func newRegistryStub(pull func(w http.ResponseWriter, r *http.Request)) *registryStub {
	s := &registryStub{pull: pull, ended: make(chan struct{}, 8)}
	s.newest, s.oldest = "1.41", "1.12"
	s.around = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		s.mu.Lock()
		refuse, there := s.refuse, s.there
		s.mu.Unlock()
		if refuse {
			panic(http.ErrAbortHandler)
		}
		_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v"), "/")
		switch {
		case path == "images/create":
			s.mu.Lock()
			s.asked = append(s.asked, r.URL.Query().Get("fromImage")+":"+r.URL.Query().Get("tag"))
			s.mu.Unlock()
			defer func() { s.ended <- struct{}{} }()
			s.pull(w, r)
		case strings.HasPrefix(path, "images/") && there:
			io.WriteString(w, `{"Id":"sha256:00","Os":"linux","Architecture":"amd64"}`)
		default:
			next.ServeHTTP(w, r)
		}
	}
	return s
}

func (s *registryStub) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// stream answers a pull with lines, and has the image then.
func (s *registryStub) stream(lines ...string) {
	s.pull = func(w http.ResponseWriter, r *http.Request) {
		for _, line := range lines {
			io.WriteString(w, line+"\r\n")
			w.(http.Flusher).Flush()
			time.Sleep(300 * time.Millisecond) // of the bubble
		}
		s.set(func() { s.there = true })
	}
}

// Whatever a stream looks like, the pull goes on, and what it tells is shown.
func TestPull_shapesOfAStream(t *testing.T) {
	for _, test := range []struct {
		name         string
		lines        []string
		bytes, total int64 // at the end
		detail       string
	}{
		{"as usual", []string{
			`{"status":"Pulling from library/debian","id":"12"}`,
			`{"status":"Pulling fs layer","progressDetail":{},"id":"aa"}`,
			`{"status":"Already exists","progressDetail":{},"id":"bb"}`,
			`{"status":"Downloading","progressDetail":{"current":1000,"total":4000},"progress":"[=>  ]","id":"aa"}`,
			`{"status":"Downloading","progressDetail":{"current":3000,"total":4000},"id":"aa"}`,
		}, 3000, 4000, "1 of 2 layers"},
		{"unpacking", []string{
			`{"status":"Downloading","progressDetail":{"current":3000,"total":4000},"id":"aa"}`,
			`{"status":"Download complete","progressDetail":{},"id":"aa"}`,
			`{"status":"Extracting","progressDetail":{"current":3,"units":"s"},"id":"aa"}`,
		}, 4000, 4000, "0 of 1 layers, unpacking"},
		{"without totals", []string{
			`{"status":"Downloading","progressDetail":{"current":3000},"id":"aa"}`,
			`{"status":"Downloading","progressDetail":{"current":3,"units":"s"},"id":"aa"}`,
		}, 3000, 0, "0 of 1 layers"},
		{"without details", []string{`{"status":"Downloading","id":"aa"}`, `{"status":"Pull complete","id":"aa"}`}, 0, 0, "1 of 1 layers"},
		{"of details that are null", []string{`{"status":"Downloading","progressDetail":null,"id":"aa"}`}, 0, 0, "0 of 1 layers"},
		{"a layer that waits has no total yet", []string{
			`{"status":"Waiting","id":"bb"}`,
			`{"status":"Downloading","progressDetail":{"current":5,"total":10},"id":"aa"}`,
		}, 5, 0, "0 of 2 layers"},
		{"broken lines", []string{
			`{"status":"Downlo`, ``, `[1,2]`, `"text"`, strings.Repeat("x", 200<<10),
			`{"status":"Downloading","progressDetail":{"current":"many"},"id":"aa"}`,
			`{"status":"Downloading","progressDetail":{"current":7,"total":9},"id":"aa"} {"status":"Waiting","id":"bb"}`,
		}, 7, 0, "0 of 2 layers"},
		{"words of another engine", []string{`{"id":"cc","status":"Copying blob","progressDetail":{"current":11,"total":22}}`}, 11, 22, "0 of 1 layers"},
		{"negative", []string{`{"status":"Downloading","progressDetail":{"current":-1,"total":-1},"id":"aa"}`}, 0, 0, "0 of 1 layers"},
		{"nothing", nil, 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := newRegistryStub(nil)
				engine.stream(test.lines...)
				p, _ := inBubble(t, engine)
				var steps []sandbox.Step
				if err := p.Pull(t.Context(), "debian:12", func(s sandbox.Step) { steps = append(steps, s) }); err != nil {
					t.Fatalf("Pull = %v", err)
				}
				last := steps[len(steps)-1]
				if last.Name != "pulling debian:12" || last.Bytes != test.bytes || last.Total != test.total || last.Detail != test.detail {
					t.Errorf("the last of %d steps is %+v; want %d of %d, %q", len(steps), last, test.bytes, test.total, test.detail)
				}
			})
		})
	}
}

// What a registry or an engine refuses names the image and the cause, and says
// what to do.
func TestPull_refusals(t *testing.T) {
	stream := func(lines ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Join(lines, "\r\n")) }
	}
	status := func(code int, message string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"message":%q}`, message)
		}
	}
	for _, test := range []struct {
		name  string
		pull  func(http.ResponseWriter, *http.Request)
		says  []string
		wraps error
	}{
		{"a fault in mid-stream", stream(
			`{"status":"Downloading","progressDetail":{"current":1,"total":2},"id":"aa"}`,
			`{"errorDetail":{"message":"write /layer: no space left on device"},"error":"write /layer: no space left on device"}`,
		), []string{"no space left", "docker system df"}, nil},
		{"a fault without its detail", stream(`{"error":"toomanyrequests: You have reached your pull rate limit"}`), []string{"rate limit", "docker login registry.test"}, nil},
		{"401", status(401, "unauthorized: authentication required"), []string{"authentication required", "docker login registry.test"}, nil},
		{"denied", status(404, "pull access denied for app, repository does not exist or may require 'docker login'"), []string{"access denied", "docker login registry.test"}, nil},
		{"404", status(404, "manifest for registry.test/app:1 not found: manifest unknown"), []string{"manifest unknown", "name and tag"}, nil},
		{"no registry", status(500, `Get "https://registry.test/v2/": dial tcp: lookup registry.test: no such host`), []string{"no such host", "does not reach the registry registry.test", "docker load"}, nil},
		{"another machine's image", stream(`{"errorDetail":{"message":"no matching manifest for linux/amd64 in the manifest list entries"}}`), []string{"no matching manifest", "choose a tag"}, nil},
		{"an end without an image", stream(`{"status":"Downloading","id":"aa"}`), []string{"has no such image"}, nil},
		{"a cut stream", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"status":"Downloading","id":"aa"}`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, nil, sandbox.ErrUnreachable},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := inBubble(t, newRegistryStub(test.pull))
				err := p.Pull(t.Context(), "registry.test/app:1", nil)
				for _, want := range append(test.says, "registry.test/app:1") {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("Pull = %v; want it to say %q", err, want)
					}
				}
				if test.wraps != nil && !errors.Is(err, test.wraps) {
					t.Errorf("Pull = %v, want %v", err, test.wraps)
				}
			})
		})
	}
	t.Run("names", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			engine := newRegistryStub(nil)
			p, _ := inBubble(t, engine)
			for _, ref := range []string{"", "Not A Name", "sha256:" + strings.Repeat("0", 64), "glovebox/never-built:1"} {
				var fault *sandbox.FieldError
				if err := p.Pull(t.Context(), ref, nil); !errors.As(err, &fault) || fault.Field != "image" {
					t.Errorf("Pull of %q = %v, want a fault of the image", ref, err)
				}
			}
			if len(engine.asked) > 0 {
				t.Errorf("the engine was asked for %q", engine.asked)
			}
		})
	})
}

// quiet answers a pull with nothing at all until its request ends.
func quiet(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// A registry that says nothing is shown as being pulled from, with the time since
// it began, for as long as that takes; a cancel ends it at once.
func TestPull_silence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newRegistryStub(quiet)
		p, _ := inBubble(t, engine)
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		var first, last time.Time
		var longest time.Duration
		ended := make(chan error, 1)
		go func() {
			ended <- p.Pull(ctx, "debian", func(s sandbox.Step) {
				now := time.Now()
				if first.IsZero() {
					first, last = now, now
				}
				longest = max(longest, now.Sub(last))
				last = now
				if s.Name != "pulling debian" || now.Sub(s.At) != now.Sub(begun) {
					t.Errorf("after %v: %+v", now.Sub(begun), s)
				}
			})
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if first.Sub(begun) > 2*time.Second || longest > 2*time.Second {
			t.Errorf("first shown after %v, then every %v", first.Sub(begun), longest)
		}
		select {
		case err := <-ended:
			t.Fatalf("10 minutes of silence end it: %v", err)
		default:
		}
		cancel()
		asked := time.Now()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(asked) > 2*time.Second {
			t.Errorf("cancelled: %v after %v", err, time.Since(asked))
		}
		<-engine.ended // the engine was told
		if len(p.pulls.byName) > 0 {
			t.Error("a pull is left")
		}
	})
}

func TestPull_speed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newRegistryStub(nil)
		engine.pull = func(w http.ResponseWriter, r *http.Request) {
			for n := 0; n <= 20; n++ {
				fmt.Fprintf(w, `{"status":"Downloading","progressDetail":{"current":%d,"total":1000000},"id":"aa"}`+"\n", n*1000)
				w.(http.Flusher).Flush()
				time.Sleep(time.Second / 2)
			}
			time.Sleep(10 * time.Second)
			engine.set(func() { engine.there = true })
		}
		p, _ := inBubble(t, engine)
		var rates []int64
		if err := p.Pull(t.Context(), "debian", func(s sandbox.Step) { rates = append(rates, s.BytesPerSecond) }); err != nil {
			t.Fatal(err)
		}
		if mid := rates[len(rates)/3]; mid < 1500 || mid > 2500 {
			t.Errorf("%d bytes a second while 2000 come; all: %v", mid, rates)
		}
		if last := rates[len(rates)-1]; last != 0 {
			t.Errorf("%d bytes a second after 10 seconds without one", last)
		}
	})
}

// An engine that goes away in the middle of a pull ends it.
func TestPull_engineGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newRegistryStub(quiet)
		p, _ := inBubble(t, engine)
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { engine.set(func() { engine.refuse = true }) })
		if err := p.Pull(t.Context(), "debian", nil); !errors.Is(err, sandbox.ErrUnreachable) {
			t.Errorf("Pull = %v, want %v", err, sandbox.ErrUnreachable)
		}
		if took := time.Since(begun); took < time.Minute || took > time.Minute+30*time.Second {
			t.Errorf("it took %v, and the engine was away after a minute", took)
		}
	})
}

// Two who want one image get it by one pull, whatever they call it, and the one
// who cancels takes it from nobody.
func TestPull_onceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newRegistryStub(nil)
		engine.pull = func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Minute):
				engine.set(func() { engine.there = true })
			case <-r.Context().Done():
			}
		}
		p, _ := inBubble(t, engine)
		impatient, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		results := make(chan error, 3)
		go func() { results <- p.Pull(impatient, "debian", nil) }()
		go func() { results <- p.Pull(t.Context(), "docker.io/library/debian:latest", nil) }()
		begun := time.Now()
		if err := <-results; !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 12*time.Second {
			t.Errorf("the one who gave up: %v after %v", err, time.Since(begun))
		}
		go func() { results <- p.Pull(t.Context(), "debian:latest", nil) }() // comes late
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("one who waits: %v", err)
			}
		}
		if len(engine.asked) != 1 || engine.asked[0] != "docker.io/library/debian:latest" {
			t.Errorf("the engine was asked for %q", engine.asked)
		}
		if err := p.Pull(t.Context(), "debian", nil); err != nil || len(engine.asked) != 1 {
			t.Errorf("an image that is there: %v, and the engine was asked for %q", err, engine.asked)
		}
	})
}

// The last one who cancels ends a pull, and who comes then begins another.
func TestPull_afterACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newRegistryStub(quiet)
		p, _ := inBubble(t, engine)
		for n := 1; n <= 3; n++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := p.Pull(ctx, "debian", nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Pull = %v", err)
			}
			cancel()
			<-engine.ended
			if len(engine.asked) != n {
				t.Errorf("%d pulls, want %d", len(engine.asked), n)
			}
		}
	})
}
