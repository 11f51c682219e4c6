package envtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// watching is a watch under way.
type watching struct {
	s       *suite
	reports chan []string
	cancel  context.CancelFunc
	ended   chan error

	mu    sync.Mutex
	calls int
}

// watch begins a watch and waits until it holds.
func (s *suite) watch(dirs ...string) *watching {
	s.Helper()
	w, ok := s.env.(execenv.Watcher)
	if !ok {
		s.Fatalf("%T is no Watcher", s.env)
	}
	ctx, cancel := context.WithCancel(s.Context())
	k := &watching{s: s, reports: make(chan []string, 1000), cancel: cancel, ended: make(chan error, 1)}
	go func() {
		k.ended <- w.Watch(ctx, dirs, func(dirs []string) {
			k.mu.Lock()
			k.calls++
			k.mu.Unlock()
			k.reports <- dirs
		})
	}()
	s.Cleanup(k.end)
	select {
	case first := <-k.reports:
		slices.Sort(dirs)
		if slices.Sort(first); !slices.Equal(first, dirs) {
			s.Fatalf("the first report is %q, want %q", first, dirs)
		}
	case err := <-k.ended:
		k.ended <- err
		s.Fatalf("Watch() = %v", err)
	case <-time.After(limit):
		s.Fatal("the watch never held")
	}
	return k
}

// end ends the watch, which is not an error.
func (k *watching) end() {
	k.s.Helper()
	k.cancel()
	select {
	case err := <-k.ended:
		if err != nil {
			k.s.Errorf("Watch() = %v", err)
		}
		k.ended <- nil
	case <-time.After(limit):
		k.s.Error("a watch outlives its context")
	}
}

// await waits until dir was reported.
func (k *watching) await(dir, after string) {
	k.s.Helper()
	timeout := time.After(limit)
	for {
		select {
		case dirs := <-k.reports:
			if slices.Contains(dirs, dir) {
				return
			}
		case err := <-k.ended:
			k.ended <- nil
			k.s.Fatalf("Watch() = %v", err)
		case <-timeout:
			k.s.Fatalf("%s was not reported after %s", dir, after)
		}
	}
}

func (k *watching) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}

func testWatch(s *suite) {
	a, b := s.path("a"), s.path("b")
	s.do("mkdir a b; echo 1 > a/f")
	k := s.watch(a, b)
	for _, change := range []string{
		"echo 2 > a/new", "echo 3 >> a/f", "mv a/f a/g", "rm a/g", "mkdir a/sub", "ln -s nowhere a/link", "rmdir a/sub",
	} {
		s.do(change)
		k.await(a, change)
	}
	k.end()
	for {
		select {
		case dirs := <-k.reports:
			if slices.Contains(dirs, b) {
				s.Errorf("%s was reported, and nothing happened there", b)
			}
			continue
		default:
		}
		return
	}
}

func testWatchMany(s *suite) {
	k := s.watch(s.dir)
	began := time.Now()
	s.do(`i=0; while [ $i -lt 3000 ]; do echo $i > f; i=$((i+1)); done; mkdir last`)
	k.await(s.dir, "3,000 writes")
	took := time.Since(began)
	if most := 3 + int(took/(100*time.Millisecond)); k.count() > most {
		s.Errorf("%d reports in %v, want at most %d", k.count(), took, most)
	}
}

func testWatchReplaced(s *suite) {
	sub, deep, late, barrier := s.path("sub"), s.path("sub/deep"), s.path("late"), s.path("barrier")
	s.do("mkdir -p sub/deep barrier")
	k := s.watch(s.dir, sub, deep, late, barrier)
	// settle waits until all that has happened was reported: it is, in its order.
	settle := func() {
		s.do("echo x > barrier/f")
		k.await(barrier, "a write")
		k.drain()
	}
	for _, remove := range []string{"rm -r sub", "mv sub old; rm -r old", "rm -r sub; mkdir sub; rmdir sub"} {
		s.do(remove)
		k.await(sub, remove)
		settle()
		s.do("mkdir -p sub/deep")
		k.await(deep, "being made again")
		settle()
		s.do("echo x > sub/deep/f")
		k.await(deep, "a write, after "+remove)
		s.do("echo x > sub/f")
		k.await(sub, "a write, after "+remove)
	}
	s.do("mkdir late")
	k.await(late, "being made")
	settle()
	s.do("echo x > late/f")
	k.await(late, "a write")
	s.do("rm -r late; echo x > late")
	k.await(late, "being a file")
}

// drain takes what was reported so far.
func (k *watching) drain() {
	for {
		select {
		case <-k.reports:
		default:
			return
		}
	}
}

func testWatchRefused(s *suite) {
	w, ok := s.env.(execenv.Watcher)
	if !ok {
		s.Fatalf("%T is no Watcher", s.env)
	}
	many := make([]string, execenv.MaxWatched+1)
	for i := range many {
		many[i] = fmt.Sprintf("%s/%d", s.dir, i)
	}
	s.is("too many directories", w.Watch(s.ctx(), many, func([]string) {}), execenv.ErrTooLarge)
	if id := strings.TrimSpace(s.do("id -u")); id != "0" {
		s.do("mkdir closed; chmod 000 closed")
		s.is("a directory that may not be read", w.Watch(s.ctx(), []string{s.path("closed")}, func([]string) {}), execenv.ErrPermission)
		s.do("chmod 700 closed")
	}
	ended, cancel := context.WithCancel(s.Context())
	cancel()
	if err := w.Watch(ended, []string{s.dir}, func([]string) {}); err != nil && !errors.Is(err, context.Canceled) {
		s.Errorf("a watch whose context has ended: %v", err)
	}
}

func testWatchEnds(s *suite) {
	s.do("true") // whatever the first call leaves open is not the watch's
	before := runtime.NumGoroutine()
	for range 20 {
		s.watch(s.dir).end()
	}
	// Connections that a watch has ended close in a moment.
	deadline := time.Now().Add(limit)
	for runtime.NumGoroutine() > before+5 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if now := runtime.NumGoroutine(); now > before+5 {
		s.Errorf("%d goroutines after 20 watches, %d before", now, before)
	}
}
