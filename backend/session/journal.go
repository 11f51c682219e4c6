package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// journal is one task's log as its worker writes and reads it. It is used by
// one goroutine at a time.
type journal struct {
	service    *Service
	root       string
	task       string // the root task itself, or a subtask
	generation int64
	state      *task.State
}

// Append writes under the worker's generation and folds everything that has
// been written since, by whomever. A newer take-up makes it fail with an error
// that wraps execenv.ErrFenced.
func (j *journal) Append(ctx context.Context, payloads ...task.Payload) error {
	if err := fenced(j.service.appendTo(ctx, j.root, j.task, j.generation, payloads...)); err != nil {
		return err
	}
	for _, p := range payloads {
		j.service.live.settle(j.root, j.task, p)
	}
	return j.Sync(ctx)
}

// fenced gives an error of the store that says so the word that agents know.
func fenced(err error) error {
	if errors.Is(err, store.ErrFenced) {
		return fmt.Errorf("%w: %w", execenv.ErrFenced, err)
	}
	return err
}

// State returns the fold of what has been read so far.
func (j *journal) State() *task.State { return j.state }

// Sync folds what has been written since the last read, by whomever.
func (j *journal) Sync(ctx context.Context) error {
	events, err := j.service.o.Store.Events(ctx, store.Query{After: j.state.Seq, TaskID: j.task})
	if err != nil {
		return fmt.Errorf("read back the log: %w", err)
	}
	for _, e := range events {
		j.state.Apply(e)
	}
	return nil
}
