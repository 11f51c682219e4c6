package session

import (
	"context"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Terminals lists a session's terminals. One whose place is still being made
// has none.
func (s *Service) Terminals(ctx context.Context, id string) ([]execenv.Terminal, error) {
	v, err := s.View(ctx, id)
	if err != nil {
		return nil, err
	}
	if v.Bound == nil && v.Status != task.StatusEnded {
		return []execenv.Terminal{}, nil
	}
	env, err := s.terminals(ctx, v.ID)
	if err != nil {
		return nil, err
	}
	return env.ListTerminals(ctx)
}

// OpenTerminal opens a terminal in a session's place, for a person: it is part
// of no conversation and of no log.
func (s *Service) OpenTerminal(ctx context.Context, id string, r execenv.TerminalRequest) (execenv.Terminal, error) {
	if err := s.rouseFor(ctx, id); err != nil {
		return execenv.Terminal{}, err
	}
	env, err := s.terminals(ctx, id)
	if err != nil {
		return execenv.Terminal{}, err
	}
	return env.OpenTerminal(ctx, r)
}

// CloseTerminal ends a terminal and what was started in it.
func (s *Service) CloseTerminal(ctx context.Context, id, terminal string) error {
	env, err := s.terminals(ctx, id)
	if err != nil {
		return err
	}
	return env.CloseTerminal(ctx, terminal)
}

// ViewTerminal opens a view of a terminal, of its output after an offset.
func (s *Service) ViewTerminal(ctx context.Context, id, terminal string, after int64) (execenv.TerminalView, error) {
	env, err := s.terminals(ctx, id)
	if err != nil {
		return nil, err
	}
	return env.ViewTerminal(ctx, terminal, after)
}

func (s *Service) terminals(ctx context.Context, id string) (execenv.Terminals, error) {
	env, v, err := s.personEnv(ctx, id)
	if err != nil {
		return nil, err
	}
	t, ok := env.(execenv.Terminals)
	if !ok {
		return nil, fmt.Errorf("the %s wall has no terminals: %w", v.Bound.Wall, execenv.ErrUnsupported)
	}
	return t, nil
}
