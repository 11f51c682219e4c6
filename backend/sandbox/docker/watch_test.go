package docker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// stubContainers is an engine's containers, for a stub: it can be changed, cut
// its event streams, and go silent.
type stubContainers struct {
	mu     sync.Mutex
	states map[string]string // by id
	silent bool
	cut    chan struct{} // closed to end the present streams
}

func (s *stubContainers) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.cut)
	s.cut = make(chan struct{})
}

func (s *stubContainers) ServeHTTP(w http.ResponseWriter, r *http.Request, next http.Handler) {
	s.mu.Lock()
	silent, cut := s.silent, s.cut
	s.mu.Unlock()
	if silent {
		panic(http.ErrAbortHandler)
	}
	if strings.HasSuffix(r.URL.Path, "/events") {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-cut:
		case <-r.Context().Done():
		}
		return
	}
	next.ServeHTTP(w, r)
}

func (s *stubContainers) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []string
	for id, state := range s.states {
		rows = append(rows, fmt.Sprintf(`{"Id":%q,"State":%q,"Labels":{"glovebox.instance":"stub"}}`, id, state))
	}
	io.WriteString(w, "["+strings.Join(rows, ",")+"]")
}

func (s *stubContainers) inspect(id string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintf(w, `{"Id":%q,"State":{"Status":%q},"HostConfig":{},"Config":{"Labels":{"glovebox.instance":"stub"}}}`, id, s.states[id])
	}
}

// records hands over the levels of what is logged.
type records chan slog.Level

func (r records) Enabled(context.Context, slog.Level) bool { return true }
func (r records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r records) WithGroup(string) slog.Handler            { return r }
func (r records) Handle(_ context.Context, rec slog.Record) error {
	if rec.Message == "engine events interrupted" {
		r <- rec.Level
	}
	return nil
}

func TestWatch_warnsOnceOfASilentEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &stubContainers{cut: make(chan struct{})}
		stub := &stubEngine{newest: "1.41", oldest: "1.12", handle: map[string]http.HandlerFunc{
			"/containers/json": engine.list,
		}, around: engine.ServeHTTP}
		p, _ := inBubble(t, stub)
		logged := make(records)
		p.log = slog.New(logged)

		ctx, cancel := context.WithCancel(t.Context())
		relists := make(chan struct{}, 8) // more than the test makes
		done := make(chan error, 1)
		go func() { done <- p.Watch(ctx, func(sandbox.Change) {}, func() { relists <- struct{}{} }) }()
		limit := time.After(30 * time.Second)
		want := func(levels ...slog.Level) {
			t.Helper()
			for _, want := range levels {
				select {
				case got := <-logged:
					if got != want {
						t.Errorf("an interruption is logged as %v, want %v", got, want)
					}
				case <-limit:
					t.Fatal("no interruption is logged")
				}
			}
		}
		for range 2 {
			select {
			case <-relists:
			case <-limit:
				t.Fatal("no relist")
			}
			engine.set(func() { engine.silent = true })
			want(slog.LevelWarn, slog.LevelDebug, slog.LevelDebug)
			engine.set(func() { engine.silent = false })
			for len(relists) == 0 { // attempts from before it spoke again
				select {
				case got := <-logged:
					if got != slog.LevelDebug {
						t.Errorf("an interruption is logged as %v, want %v", got, slog.LevelDebug)
					}
				case r := <-relists:
					relists <- r
				case <-limit:
					t.Fatal("no relist")
				}
			}
		}
		cancel()
		select {
		case got := <-logged:
			t.Errorf("its end is logged as %v", got)
		case <-done:
		}
	})
}

func TestWatch_reconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped, removed := strings.Repeat("a", 64), strings.Repeat("b", 64)
		engine := &stubContainers{states: map[string]string{stopped: "running", removed: "running"}, cut: make(chan struct{})}
		stub := &stubEngine{newest: "1.41", oldest: "1.12", handle: map[string]http.HandlerFunc{
			"/containers/json":                 engine.list,
			"/containers/" + stopped + "/json": engine.inspect(stopped),
		}, around: engine.ServeHTTP}
		p, _ := inBubble(t, stub)

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		changes, relists := make(chan string, 64), make(chan struct{}, 64) // more than the test makes
		done := make(chan error, 1)
		go func() {
			done <- p.Watch(ctx, func(c sandbox.Change) {
				changes <- c.Ref.ID()[:1] + " " + string(c.Condition.Value)
			}, func() { relists <- struct{}{} })
		}()
		limit := time.After(30 * time.Second)
		relisted := func() {
			t.Helper()
			select {
			case <-relists:
			case <-limit:
				t.Fatal("no relist")
			}
		}
		want := func(all ...string) {
			t.Helper()
			got := map[string]bool{}
			for range all {
				select {
				case c := <-changes:
					got[c] = true
				case <-limit:
					t.Fatalf("changes = %v, want %q", got, all)
				}
			}
			for _, c := range all {
				if !got[c] {
					t.Fatalf("changes = %v, want %q", got, all)
				}
			}
		}
		relisted()
		engine.set(func() { // while nobody looks
			engine.states[stopped] = "exited"
			delete(engine.states, removed)
		})
		want("a stopped", "b lost")
		relisted()
		engine.set(func() { engine.silent = true })
		want("a unreachable")
		engine.set(func() { engine.silent = false })
		want("a stopped")
		relisted()
		engine.set(func() {}) // a cut alone is no news
		relisted()
		cancel()
		<-done
		if len(changes) != 0 {
			t.Errorf("one change too many: %s", <-changes)
		}
	})
}

// A stream that is cut again and again is followed without a busy loop, and says
// nothing new by that.
func TestWatch_cutStreams(t *testing.T) {
	for _, test := range []struct {
		name          string
		lives         time.Duration // each stream
		atLeast, most int           // streams in a minute
	}{
		{"every second", time.Second, 45, 60},
		{"at once", 0, 10, 25},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				streams, requests := 0, 0
				engine := &stubContainers{states: map[string]string{strings.Repeat("a", 64): "running"}, cut: make(chan struct{})}
				stub := &stubEngine{newest: "1.41", oldest: "1.12", handle: map[string]http.HandlerFunc{"/containers/json": engine.list}}
				stub.around = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					requests++
					if !strings.HasSuffix(r.URL.Path, "/events") {
						next.ServeHTTP(w, r)
						return
					}
					streams++
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
					select {
					case <-time.After(test.lives):
					case <-r.Context().Done():
					}
				}
				p, _ := inBubble(t, stub)
				p.log = slog.New(slog.DiscardHandler)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				changes, relists := 0, 0
				p.Watch(ctx, func(sandbox.Change) { changes++ }, func() { relists++ })
				if streams < test.atLeast || streams > test.most || requests > 8*streams+60 {
					t.Errorf("%d streams and %d requests in a minute", streams, requests)
				}
				if changes != 0 || relists < streams-1 {
					t.Errorf("%d changes of a container that nothing happened to, %d relists of %d streams", changes, relists, streams)
				}
			})
		})
	}
}

// A hang is seen within seconds also where the stream of events stays open.
func TestWatch_seesAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &stubContainers{states: map[string]string{strings.Repeat("a", 64): "running"}, cut: make(chan struct{})}
		stub := &stubEngine{newest: "1.41", oldest: "1.12", handle: map[string]http.HandlerFunc{"/containers/json": engine.list}}
		var hangs atomic.Bool
		stub.around = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if hangs.Load() {
				<-r.Context().Done()
				return
			}
			engine.ServeHTTP(w, r, next)
		}
		p, _ := inBubble(t, stub)
		p.log = slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithCancel(t.Context())
		changes := make(chan sandbox.Change, 8)
		done := make(chan error, 1)
		relisted := make(chan struct{}, 8)
		go func() {
			done <- p.Watch(ctx, func(c sandbox.Change) { changes <- c }, func() { relisted <- struct{}{} })
		}()
		<-relisted
		hangs.Store(true)
		begun := time.Now()
		if c := <-changes; c.Condition.Value != sandbox.StateUnreachable || time.Since(begun) > 5*time.Second {
			t.Errorf("after %v: %+v", time.Since(begun), c.Condition)
		}
		hangs.Store(false)
		begun = time.Now()
		if c := <-changes; c.Condition.Value != sandbox.StateReady || time.Since(begun) > 10*time.Second {
			t.Errorf("%v after its return: %+v", time.Since(begun), c.Condition)
		}
		time.Sleep(time.Minute)
		if len(changes) > 0 {
			t.Errorf("once more: %+v", (<-changes).Condition)
		}
		cancel()
		<-done
	})
}
