package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// A request that fails in a way that may pass is made this often in all, with a
// wait before each that doubles. A server that says how long to wait is obeyed,
// within reason: a person can always ask sooner.
const (
	attempts     = 6
	firstWait    = time.Second
	longestWait  = time.Minute
	longestAsked = 5 * time.Minute
)

// failed records a request that came to nothing, and either when it is made
// again or that the turn is parked.
func (t *turn) failed(ctx context.Context, finished task.LLMRequestFinished, err error) (Outcome, error) {
	if err := t.sync(ctx); err != nil { // a message that came meanwhile begins a new count
		return Failed, err
	}
	attempt := t.journal.State().Failures + 1
	var fault *llm.Error
	if !errors.As(err, &fault) || !fault.Temporary() {
		return Failed, t.append(ctx, finished, parked(finished.Error+"; retry, or send a message, to go on from here"))
	}
	if attempt >= attempts {
		return Failed, t.append(ctx, finished,
			parked(fmt.Sprintf("%s; it was asked %d times. Retry, or send a message, to ask again", finished.Error, attempt)))
	}
	return "", t.append(ctx, finished, task.LLMRetryScheduled{
		Attempt: attempt, Attempts: attempts, At: t.Now().Add(pause(attempt, fault.RetryAfter)).UTC(),
		Kind: fault.Kind, Detail: finished.Error,
	})
}

// pause returns how long to wait after an attempt, from 1. The part that is left
// to chance keeps sessions that failed together from coming back together.
func pause(attempt int, asked time.Duration) time.Duration {
	if asked > 0 {
		return min(asked, longestAsked)
	}
	d := firstWait << (attempt - 1)
	return min(d+rand.N(d/4), longestWait)
}

// wait lets the time pass until the log says that the model may be asked. What a
// person says meanwhile ends it. Its schedule is in the log, so another process
// goes on with it.
func (t *turn) wait(ctx context.Context) (Outcome, error) {
	for {
		r := t.journal.State().Retry
		if r == nil {
			return "", nil
		}
		left := min(r.At.Sub(t.Now()), longestAsked) // a clock that was set back does not hold it up
		if left <= 0 {
			return "", nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
			return "", nil
		case <-ctx.Done():
			timer.Stop()
			return t.leave(ctx)
		case <-t.Wake:
			timer.Stop()
			if err := t.sync(ctx); err != nil {
				return Failed, err
			}
		}
	}
}

// leave ends a turn whose context has ended. A host that leaves it to the next
// process writes nothing, unless that has ended a call all the same: the host
// itself, for one, keeps none. A turn that only waits to ask again is left at a
// shutdown too, with its schedule. Any other is interrupted.
func (t *turn) leave(ctx context.Context) (Outcome, error) {
	cause := context.Cause(ctx)
	if errors.Is(cause, execenv.ErrLeave) && !t.cut {
		return Waiting, nil
	}
	if t.journal.State().Retry != nil && !errors.Is(cause, ErrStop) && !errors.Is(cause, execenv.ErrFenced) {
		return Waiting, nil
	}
	return t.interrupt(ctx)
}
