package session

import (
	"context"
	"errors"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Card is what a session's sandbox is right now, read back from the engine or
// the kernel and from the guest. What could not be read is nil, and Err says why.
type Card struct {
	Condition   sandbox.Condition
	Description *sandbox.Description
	Hello       *wire.Hello
	Stats       *wire.Stats
	Err         error
}

// Container reads the card of a session's sandbox. A session that has none has
// an empty card that says so.
func (s *Service) Container(ctx context.Context, id string) (Card, error) {
	v, err := s.walled(ctx, id)
	if errors.Is(err, ErrNotBound) || errors.Is(err, sandbox.ErrUnsupported) {
		return Card{Err: err}, nil
	}
	if err != nil {
		return Card{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var card Card
	if v.Condition != nil {
		card.Condition = *v.Condition
	}
	if d, err := s.o.Lifetime.Describe(ctx, v.ID); err == nil {
		card.Description = &d
	} else {
		card.Err = err
	}
	if !card.Condition.Value.Live() {
		return card, nil
	}
	_, b, err := s.o.Lifetime.Client(ctx, v.ID)
	if err != nil {
		card.Err = errors.Join(card.Err, err)
		return card, nil
	}
	card.Hello = &b.Hello
	if st, err := s.o.Lifetime.Stats(ctx, v.ID); err == nil {
		card.Stats = &st
	} else {
		card.Err = errors.Join(card.Err, err)
	}
	return card, nil
}

// Events returns up to limit events of a session after a seq.
func (s *Service) Events(ctx context.Context, id string, after int64, limit int) ([]task.Event, error) {
	return s.o.Store.Events(ctx, store.Query{After: after, RootTaskID: id, Limit: limit})
}
