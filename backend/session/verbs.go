package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

const lifetimeRemove = lifetime.Remove

// Send adds a message to a session and starts a turn, or, when one is running,
// is read at its next step, or at once by one that waits to ask its model again.
// While a call waits for a decision it is refused; while a question waits it is the
// answer. An archived session is back in sight.
func (s *Service) Send(ctx context.Context, id, text string) error {
	if strings.TrimSpace(text) == "" {
		return &sandbox.FieldError{Field: "text", Reason: "is empty"}
	}
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case v.Status == task.StatusWaiting && v.Waiting[0].Question != nil:
		return s.Answer(ctx, v.ID, v.Waiting[0].CallID, text, false)
	case v.Status == task.StatusWaiting:
		return fmt.Errorf("answer the approval of %s first, or stop the turn: %w", v.Waiting[0].Tool, ErrBusy)
	}
	payloads := []task.Payload{&task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, text)}}}
	if v.Archived {
		payloads = append(payloads, &task.TaskArchived{})
	}
	if v.Status != task.StatusRunning {
		payloads = append(payloads, &task.TaskWoken{Cause: "message"})
	}
	if err := s.append(ctx, v.ID, 0, payloads...); err != nil {
		return err
	}
	s.wake(v.ID)
	return nil
}

// Retry asks the model at once where a turn waits to ask it again, and goes on
// with a turn that could not. Otherwise the error is ErrNoRetry.
func (s *Service) Retry(ctx context.Context, id string) error {
	v, err := s.View(ctx, id)
	switch {
	case err != nil:
		return err
	case v.Status == task.StatusEnded:
		return ErrEnded
	case v.Retry == nil && v.Suspended != task.TurnFailed:
		return ErrNoRetry
	}
	if err := s.append(ctx, v.ID, 0, &task.TaskWoken{Cause: "retry"}); err != nil {
		return err
	}
	s.wake(v.ID)
	return nil
}

// Interrupt stops a session's turn: its processes are killed and that is
// proven by a TurnInterrupted in the log. It returns before that. A sandbox that
// is being made is called off too, and nothing is left of it.
func (s *Service) Interrupt(ctx context.Context, id string) error {
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	return s.interrupt(ctx, v)
}

// InterruptAll stops every turn that runs or waits, as Interrupt does, and
// returns how many there were.
func (s *Service) InterruptAll(ctx context.Context) (int, error) {
	views, err := s.Views(ctx)
	if err != nil {
		return 0, err
	}
	stopped := 0
	var errs []error
	for _, v := range views {
		if v.Status != task.StatusRunning && v.Status != task.StatusWaiting {
			continue
		}
		switch err := s.interrupt(ctx, v); {
		case err == nil:
			stopped++
		case !errors.Is(err, ErrNotRunning): // it ended meanwhile
			errs = append(errs, fmt.Errorf("session %s: %w", v.ID, err))
		}
	}
	return stopped, errors.Join(errs...)
}

func (s *Service) interrupt(ctx context.Context, v View) error {
	s.mu.Lock()
	d := s.driverOf(v.ID)
	if d.uproot != nil {
		d.uproot(agent.ErrStop)
		s.mu.Unlock()
		return nil
	}
	if d.cancel != nil {
		d.cancel(agent.ErrStop)
		s.mu.Unlock()
		return nil
	}
	if v.Status != task.StatusRunning && v.Status != task.StatusWaiting {
		s.mu.Unlock()
		return ErrNotRunning
	}
	s.mu.Unlock()
	if v.Status == task.StatusWaiting {
		if err := s.append(ctx, v.ID, 0, &task.TaskWoken{Cause: "stop"}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	if d.cancel != nil { // it began meanwhile
		d.cancel(agent.ErrStop)
	} else {
		d.stop = agent.ErrStop
	}
	s.mu.Unlock()
	s.wake(v.ID)
	return nil
}

// quiet stops the turn of a session, if one runs, and waits for its end.
func (s *Service) quiet(ctx context.Context, v View) error {
	bell := s.o.Hub.Subscribe()
	defer bell.Close()
	if err := s.interrupt(ctx, v); errors.Is(err, ErrNotRunning) {
		return nil
	} else if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		now, err := s.View(ctx, v.ID)
		if err != nil {
			return err
		}
		if now.Status != task.StatusRunning && !s.stepping(v.ID) {
			return nil
		}
		select {
		case <-bell.C():
		case <-time.After(100 * time.Millisecond): // the worker's own end rings no bell
		case <-ctx.Done():
			return fmt.Errorf("the turn did not stop: %w", ErrBusy)
		}
	}
}

func (s *Service) stepping(root string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.driverOf(root).cancel != nil
}

// Attach reconnects a session to its sandbox and starts it when it is stopped
// or paused. It never makes one: the error of one that is gone says so.
func (s *Service) Attach(ctx context.Context, id string) error {
	v, err := s.walled(ctx, id)
	if err != nil {
		return err
	}
	if v.Status == task.StatusEnded {
		return ErrEnded
	}
	_, err = s.o.Lifetime.Attach(ctx, v.ID)
	if err == nil {
		s.wake(v.ID)
	}
	return err
}

// Stop stops a session's sandbox and keeps its contents.
func (s *Service) Stop(ctx context.Context, id string) error {
	v, err := s.walled(ctx, id)
	if err != nil {
		return err
	}
	if err := s.o.Lifetime.MayStop(ctx, v.ID, "stop"); err != nil {
		return err
	}
	if err := s.quiet(ctx, v); err != nil {
		return err
	}
	s.endBrowser(v.ID, whyEnded(sandbox.StateStopped))
	return s.o.Lifetime.Stop(ctx, v.ID)
}

// Release lets go of a session's sandbox: it is removed, kept or only stopped,
// as how says. The session stays and can be given a new one. On the host itself,
// where there is none, the processes that were left running are ended. Releasing
// twice, or what never was, is quiet.
func (s *Service) Release(ctx context.Context, id string, how lifetime.How) error {
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	if how == lifetime.StopOnly {
		if err := s.o.Lifetime.MayStop(ctx, v.ID, "stop"); err != nil {
			return err
		}
	}
	if err := s.quiet(ctx, v); err != nil {
		return err
	}
	return s.release(ctx, v.ID, how)
}

// release lets go of whatever a session's commands run in.
func (s *Service) release(ctx context.Context, root string, how lifetime.How) error {
	s.endBrowser(root, map[bool]string{true: whyEnded(sandbox.StateStopped), false: whyEnded(sandbox.StateReleased)}[how == lifetime.StopOnly])
	return errors.Join(s.o.ReleaseLocal(root), s.o.Lifetime.Release(ctx, root, how))
}

// Close ends a session for ever and removes its sandbox.
func (s *Service) Close(ctx context.Context, id string) error {
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	if err := s.quiet(ctx, v); err != nil {
		return err
	}
	if v.Status != task.StatusEnded {
		err := s.append(ctx, v.ID, 0, &task.TaskCancelled{Reason: "closed by hand"})
		if err != nil && !errors.Is(err, ErrEnded) {
			return err
		}
	}
	s.endBrowser(v.ID, "The session was closed.")
	return s.release(ctx, v.ID, lifetimeRemove)
}

// walled returns a session that has a sandbox.
func (s *Service) walled(ctx context.Context, id string) (View, error) {
	v, err := s.View(ctx, id)
	switch {
	case err != nil:
		return v, err
	case v.Bound == nil:
		return v, ErrNotBound
	case v.Bound.Wall == sandbox.WallLocal:
		return v, fmt.Errorf("the local wall has no sandbox: %w", sandbox.ErrUnsupported)
	}
	return v, nil
}

func (s *Service) bound(st *task.State, b lifetime.Binding, again bool) *task.TaskHostBound {
	spec := b.Record.Spec
	bound := &task.TaskHostBound{
		HostID: s.o.Host, WorkspaceDir: st.Created.Workspace, ExecEnvRef: b.Ref, Wall: spec.Wall,
		SandboxID: b.ShortID, Image: spec.Image, Network: string(spec.NetworkOrDefault()), Reprovision: again,
	}
	if spec.Wall == sandbox.WallRemote {
		bound.Workdir = b.Workdir
	}
	switch {
	case spec.Adopt != "":
		bound.Owner = task.OwnerAdopted
	case spec.Share != "":
		bound.Owner = task.OwnerShared
	}
	return bound
}

// stepReporter shows the steps of an allocation as they come.
func (s *Service) stepReporter(d *driver) func(sandbox.Step) {
	return func(step sandbox.Step) {
		s.setStep(d, &step)
		s.o.Hub.Ring()
	}
}

// endSteps shows that no allocation is under way any more.
func (s *Service) endSteps(d *driver) {
	s.setStep(d, nil)
	s.o.Hub.Ring()
}

func (s *Service) setStep(d *driver, step *sandbox.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.step = step
}

func (s *Service) step(root string) *sandbox.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.drivers[root]; ok {
		return d.step
	}
	return nil
}
