package session

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Work is a snapshot or a fork of a session that is being made.
type Work struct {
	Kind      string // WorkSnapshot or WorkFork
	Step      string
	Files     int64
	Bytes     int64 // copied
	Total     int64 // to copy; 0 while it is not known
	StartedAt time.Time
}

// The kinds of a Work, and its steps.
const (
	WorkSnapshot = "snapshot"
	WorkFork     = "fork"

	stepSnapshot = "snapshot of the sandbox"
	stepCopy     = "copy of the workspace"
	stepOff      = "called off"
)

// work is a Work under way. Its state is guarded by Service.mu.
type work struct {
	Work
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing goes on any more
	err    error         // set before that
}

// errCalledOff is how a work ends that was.
var errCalledOff = errors.New("it was called off; nothing of it is left")

// carryOut does a work of a session and waits for it. It belongs to the service:
// a caller that goes away does not end it, CancelWork and the end of the service
// do. There is at most one of a session at a time.
func (s *Service) carryOut(ctx context.Context, root, kind string, do func(ctx context.Context, w *work) error) error {
	s.mu.Lock()
	if s.life == nil || s.closing {
		s.mu.Unlock()
		return fmt.Errorf("%s: the server is starting or ending: %w", kind, context.Canceled)
	}
	if s.works[root] != nil {
		s.mu.Unlock()
		return ErrWorking
	}
	life, cancel := context.WithCancel(s.life)
	w := &work{Work: Work{Kind: kind, StartedAt: time.Now().UTC()}, cancel: cancel, done: make(chan struct{})}
	s.works[root] = w
	s.work.Go(func() {
		defer cancel()
		err := do(life, w)
		if err != nil && life.Err() != nil {
			err = fmt.Errorf("%s: %w (%w)", kind, errCalledOff, err)
		}
		s.mu.Lock()
		delete(s.works, root)
		w.err = err
		s.mu.Unlock()
		close(w.done)
		s.o.Hub.Ring()
	})
	s.mu.Unlock()
	s.o.Hub.Ring()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CancelWork calls off the snapshot or fork of a session that is being made, and
// returns when nothing of it is left. Where none is, the error is ErrNoWork.
func (s *Service) CancelWork(ctx context.Context, id string) error {
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	w := s.works[v.ID]
	if w != nil {
		w.Step = stepOff
		w.cancel()
	}
	s.mu.Unlock()
	if w == nil {
		return ErrNoWork
	}
	s.o.Hub.Ring()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// at changes what a work shows of itself.
func (s *Service) at(w *work, change func(*Work)) {
	s.mu.Lock()
	if w.Step != stepOff {
		change(&w.Work)
	}
	s.mu.Unlock()
	s.o.Hub.Ring()
}

// working returns a copy of the work of a session that is under way, or nil.
func (s *Service) working(root string) *Work {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.works[root]
	if w == nil {
		return nil
	}
	c := w.Work
	return &c
}
