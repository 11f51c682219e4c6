//go:build unix

package terminal

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// MaxOpen is how many terminals a Set holds at most, those whose process has
// ended among them.
const MaxOpen = 16

// Set is the terminals of one place, in the order they were opened. The zero
// value is empty.
type Set struct {
	mu      sync.Mutex
	all     []*Terminal
	opening int
	closed  bool
}

// Open makes a terminal whose first process start starts, with tty as its
// standard streams and its controlling terminal. start closes tty only when it
// hands it over for good. The request has been through Check.
func (s *Set) Open(r execenv.TerminalRequest, start func(tty *os.File) (Process, error)) (execenv.Terminal, error) {
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return execenv.Terminal{}, fmt.Errorf("open a terminal: this place is shutting down: %w", execenv.ErrBusy)
	case len(s.all)+s.opening >= MaxOpen:
		s.mu.Unlock()
		return execenv.Terminal{}, fmt.Errorf("%d terminals are open; close one: %w", MaxOpen, execenv.ErrBusy)
	}
	s.opening++
	s.mu.Unlock()

	t, err := open("t-"+strings.ToLower(rand.Text()[:10]), r, start)
	s.mu.Lock()
	s.opening--
	if err != nil {
		s.mu.Unlock()
		return execenv.Terminal{}, err
	}
	late := s.closed
	if !late {
		s.all = append(s.all, t)
	}
	s.mu.Unlock()
	if late {
		t.close("shutdown")
		return execenv.Terminal{}, fmt.Errorf("open a terminal: this place is shutting down: %w", execenv.ErrBusy)
	}
	return t.Info(), nil
}

// List says what every terminal is now.
func (s *Set) List() []execenv.Terminal {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	infos := make([]execenv.Terminal, len(all))
	for i, t := range all {
		infos[i] = t.Info()
	}
	return infos
}

// Running counts the terminals whose first process lives.
func (s *Set) Running() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if t.running() {
			n++
		}
	}
	return n
}

// View opens a view of a terminal, of its output after an offset.
func (s *Set) View(id string, after int64) (*View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if t.id == id {
			return t.view(after), nil
		}
	}
	return nil, fmt.Errorf("terminal %q: it was closed, or the place was restarted: %w", id, execenv.ErrNotFound)
}

// Close ends all processes of a terminal and forgets it; its views see the end.
// An unknown id is no error.
func (s *Set) Close(id string) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.all, func(t *Terminal) bool { return t.id == id })
	if i < 0 {
		s.mu.Unlock()
		return nil
	}
	t := s.all[i]
	s.all = slices.Delete(s.all, i, i+1)
	s.mu.Unlock()
	if report := t.close("close"); len(report.Left) > 0 {
		return fmt.Errorf("close a terminal: %d of its processes are left, %s among them: %w", len(report.Left), report.Left[0].Name, execenv.ErrBusy)
	}
	return nil
}

// Shutdown closes every terminal and refuses new ones, within the time of ctx.
func (s *Set) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	all := s.all
	s.all = nil
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, t := range all {
		closing.Go(func() { t.close("shutdown") })
	}
	done := make(chan struct{})
	go func() {
		closing.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
