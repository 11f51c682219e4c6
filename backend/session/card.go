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
	if errors.Is(err, sandbox.ErrUnsupported) {
		return card, nil // there is no guest to ask; the description says so
	}
	if err != nil {
		card.Err = errors.Join(card.Err, err)
		return card, nil
	}
	card.Hello = &b.Hello
	if st, err := s.o.Lifetime.Stats(ctx, v.ID); err == nil {
		limit(&st, card.Description)
		card.Stats = &st
	} else {
		card.Err = errors.Join(card.Err, err)
	}
	return card, nil
}

// limit fills in the limits that a guest does not see, since its cgroup is out
// of its sight, from what was read back outside. What stays 0 has no limit.
func limit(st *wire.Stats, d *sandbox.Description) {
	if d == nil {
		return
	}
	read := func(key string) sandbox.Resources {
		value, ok := d.Limits[key]
		if !ok {
			return sandbox.Resources{}
		}
		r, _ := sandbox.ParseResources(map[string]string{key: value}) // "max" and "0" are no limit
		return r
	}
	if st.MemoryLimit == 0 {
		st.MemoryLimit = read("memory").Memory
	}
	if st.PIDsLimit == 0 {
		st.PIDsLimit = int(read("pids").PIDs)
	}
}

// Events returns up to limit events of a session after a seq.
func (s *Service) Events(ctx context.Context, id string, after int64, limit int) ([]task.Event, error) {
	return s.o.Store.Events(ctx, store.Query{After: after, RootTaskID: id, Limit: limit})
}
