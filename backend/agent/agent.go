// Package agent drives one turn of one task: it asks the model, makes the tool
// calls that the model wants, and goes on until the model has nothing more to
// ask, a person has to decide, or somebody stops it.
//
// The log drives the agent, not its memory: [Run] looks at the folded state,
// takes the next step, and appends what happened. So a turn that was cut off
// anywhere goes on by calling Run again, also in another process:
//
//	outcome, err := agent.Run(ctx, journal, agent.Options{Model: model, Tools: tools.Standard(), Env: env})
//
// Every call is written as ToolCallStarted before it has any effect, then as
// ToolResultRecorded, then, once the sandbox has been told that the result is
// safe, as ToolCallFinished. A call that was started and has no result is
// asked for again under its id: the sandbox's guest knows whether it ran.
//
// A call of [tools.Task] is a task of its own, which is driven here as well, by a
// Run over its own log within that of the one that waits for it: see [Subtasks].
//
// A call of a [tools.Asker] is put to the person instead, as UserQuestionRequested,
// and the turn is parked. UserQuestionAnswered, which whoever asks the person
// appends, is its result in a later Run.
//
// A request to the model that fails in a way that may pass is made again, at the
// time that LLMRetryScheduled says; any other fault parks the turn. A turn never
// fails its task: whatever kept it from going on, a person can set right.
//
// Who the agent is, and what it may use, is a [Preset].
//
// The package knows no store, no wall and no vendor.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// The causes with which the context of a turn is cancelled, beside
// execenv.ErrLeave, which leaves the turn and its calls to the next process. Any
// other cause counts as a shutdown.
var (
	ErrStop     = errors.New("the turn was stopped")
	ErrShutdown = errors.New("the host shuts down")
)

// Journal is the log of the task that is driven.
type Journal interface {
	// Append adds events in order, all or none, and folds them into State. It
	// wraps execenv.ErrFenced when another take-up drives the task. It is
	// called from one goroutine at a time.
	Append(ctx context.Context, payloads ...task.Payload) error

	// State returns the fold so far. Between two calls of Append and Sync
	// nobody changes it.
	State() *task.State

	// Sync folds what others have appended. It is called as Append is.
	Sync(ctx context.Context) error
}

// Options says who answers, with what, and where.
type Options struct {
	Model     llm.Served
	ModelName string // as the log calls it
	System    string
	Tools     *tools.Set

	// Env returns the place where the task's tools run. It is asked before
	// each call, so that a sandbox may come back in between. Its errors count
	// as those of the call: see tools.Tool.
	Env func(ctx context.Context) (execenv.Env, error)

	// Browser opens the browser of that place as an agent uses it; nil where there
	// is none.
	Browser func(ctx context.Context) (browser.Backend, error)

	// Subtasks carries out the calls of tools.Task; it is needed where Tools has
	// that.
	Subtasks Subtasks

	// Approvals says which calls wait for a person; "" is task.ApproveAuto.
	Approvals task.Approvals

	// OneShot completes the task at the end of the turn. A turn that cannot go
	// on is parked all the same: it may later.
	OneShot bool

	// Wake, when it receives, has a turn that waits to ask its model again, or a
	// subtask that waits for a person, look at the log: a person may have said
	// something. Nil never does.
	Wake <-chan struct{}

	// Live receives pieces of text and output while they come, from several
	// goroutines. It must not block; nil drops them. The offset of a text is
	// within the answer that is being written, that of output within its stream.
	Live func(stream.Live)

	// Ack tells the sandbox that the result of a call is stored, so that it
	// may forget it. It is called with a short deadline; nil does nothing.
	Ack func(ctx context.Context, callID string) error

	Now       func() time.Time // nil is time.Now
	NewCallID func() string    // unique for ever; nil is random
	MaxSteps  int              // requests to the model in one Run; 0 is 200
	Log       *slog.Logger     // nil is slog.Default
}

// Outcome says why a Run ended.
type Outcome string

// The outcomes. After Failed the log says why: a model's error, too many steps,
// or a sandbox that does not answer; a later Run goes on where this one ended.
// The same is true after Waiting for a person's decision or answer, when the host
// shuts down for the time to ask the model again, or when it leaves the turn.
const (
	Done        Outcome = "done"
	Waiting     Outcome = "waiting"
	Interrupted Outcome = "interrupted"
	Failed      Outcome = "failed"
)

// Run drives the task until its turn ends or is parked, and leaves the log in
// a state that says which. It returns no later than about a second after ctx
// ends, with every call closed but those that execenv.ErrLeave leaves running.
//
// An error means that the log could not be written, and that nothing more was:
// it wraps execenv.ErrFenced when another take-up drives the task.
func Run(ctx context.Context, j Journal, o Options) (Outcome, error) {
	t := newTurn(ctx, j, o)
	defer t.close()
	return t.run(ctx)
}
