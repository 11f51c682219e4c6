package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Reprovision gives a session whose sandbox is lost, released or failed a new
// one on the same workspace, and tells the model what that means.
//
// A new sandbox may take longer than the caller can wait, for its image: at ctx's
// deadline Reprovision returns nil and goes on, and the log says how it ends. A
// caller that is cancelled calls it off, and so does Interrupt.
func (s *Service) Reprovision(ctx context.Context, id string) error {
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	if v.Status == task.StatusEnded {
		return ErrEnded
	}
	if v.Bound == nil { // it never had one: its worker allocates
		if v.Suspended == task.TurnFailed && v.Created.Goal != "" {
			// The goal is still waiting for its sandbox.
			if err := s.append(ctx, v.ID, 0, &task.TaskWoken{Cause: "reprovision"}); err != nil {
				return err
			}
		}
		s.mu.Lock()
		s.driverOf(v.ID).parked = false
		s.mu.Unlock()
		s.wake(v.ID)
		return nil
	}
	if v.Bound.Wall == sandbox.WallLocal {
		return fmt.Errorf("the local wall has no sandbox: %w", sandbox.ErrUnsupported)
	}
	if s.reprovisioning(v.ID) {
		return errReprovisioning
	}
	if err := s.quiet(ctx, v); err != nil {
		return err
	}
	ended := make(chan error, 1) // nobody may be there to hear it
	callOff, err := s.beginReprovision(ctx, v.ID, ended)
	if err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	callOff(ctx.Err())
	return <-ended
}

var errReprovisioning = fmt.Errorf("a new sandbox is being made already: %w", ErrBusy)

func (s *Service) reprovisioning(root string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.driverOf(root).uproot != nil
}

// beginReprovision makes a new sandbox in the background and says on ended how
// that went. It outlasts ctx, and not the Service.
func (s *Service) beginReprovision(ctx context.Context, root string, ended chan<- error) (callOff context.CancelCauseFunc, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.driverOf(root)
	switch {
	case s.life == nil || s.closing:
		return nil, fmt.Errorf("the server is starting or ending: %w", ErrBusy)
	case d.uproot != nil:
		return nil, errReprovisioning
	}
	long, callOff := context.WithCancelCause(context.WithoutCancel(ctx))
	d.uproot = callOff
	stop := context.AfterFunc(s.life, func() { callOff(context.Cause(s.life)) })
	s.work.Go(func() {
		err := s.reprovision(long, d)
		stop()
		callOff(nil)
		s.mu.Lock()
		d.uproot = nil
		s.mu.Unlock()
		ended <- err
	})
	return callOff, nil
}

func (s *Service) reprovision(ctx context.Context, d *driver) error {
	st, err := s.o.Store.State(ctx, d.root)
	if err != nil {
		return err
	}
	defer s.endSteps(d)
	s.endBrowser(d.root, "The session gets a new sandbox.")
	before, _ := s.o.Lifetime.Condition(d.root)
	b, err := s.o.Lifetime.Reprovision(ctx, d.root, s.stepReporter(d))
	if err != nil {
		return err
	}
	return s.recordReplaced(ctx, st, before.Value, b)
}

// recordReplaced writes down that a session has a new sandbox, and tells its model.
// before is how it was with the last one, "" where nobody remembers.
func (s *Service) recordReplaced(ctx context.Context, st *task.State, before sandbox.State, b lifetime.Binding) error {
	return s.append(context.WithoutCancel(ctx), b.Record.RootTaskID, 0, s.bound(st, b, true), notice(replacedNotice(before, b.Record.Spec)))
}

// replacedNotice tells a model what became of its sandbox, and what it has instead.
func replacedNotice(before sandbox.State, spec sandbox.Spec) string {
	if spec.Adopt != "" {
		return "You are back in the container that you were let out of. Its files are as they were left; your running processes are gone."
	}
	what := map[sandbox.State]string{
		sandbox.StateLost:     "Your sandbox was lost and has been replaced by a new one.",
		sandbox.StateReleased: "The person released your sandbox, and you have been given a new one.",
		sandbox.StateDetached: "The person kept your sandbox for other use, and you have been given a new one.",
	}[before]
	return cmp.Or(what, "Your sandbox has been replaced by a new one.") +
		" The workspace is the same; running processes, installed packages and files outside the workspace are not in it."
}
