package session

import (
	"context"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/task"
)

// Restart stops a session's sandbox, its turn first, and starts the same one
// again with its contents.
func (s *Service) Restart(ctx context.Context, id string) error {
	v, err := s.walled(ctx, id)
	if err != nil {
		return err
	}
	if v.Status == task.StatusEnded {
		return ErrEnded
	}
	if err := s.o.Lifetime.MayStop(ctx, v.ID, "restart"); err != nil {
		return err
	}
	if err := s.quiet(ctx, v); err != nil {
		return err
	}
	s.endBrowser(v.ID, "The sandbox is being restarted.")
	if _, err := s.o.Lifetime.Restart(ctx, v.ID); err != nil {
		return err
	}
	s.wake(v.ID)
	return nil
}

// Logs returns the last lines that the own process of a session's sandbox wrote,
// as valid UTF-8.
func (s *Service) Logs(ctx context.Context, id string, tail int) (string, error) {
	v, err := s.walled(ctx, id)
	if err != nil {
		return "", err
	}
	text, err := s.o.Lifetime.Logs(ctx, v.ID, tail)
	return strings.ToValidUTF8(text, "\ufffd"), err
}
