package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// Subtasks keeps the tasks that calls of [tools.Task] hand to other agents.
type Subtasks interface {
	// Spawn opens the log of a new task with what it is asked, and records
	// SubtaskSpawned in that of the task that is driven: both or neither. It is
	// called as Journal.Append is. An error that is a [Refusal] is the call's
	// result; any other ends the Run.
	Spawn(ctx context.Context, callID string, ask tools.Subtask) error

	// Open returns the log of a task that was spawned, and how it is driven. It
	// may wait for the task's turn, but no longer than ctx lasts: a log is opened
	// all the same then, to be closed. It is called from several goroutines.
	Open(ctx context.Context, s task.SubtaskSpawned) (Subtask, error)
}

// Subtask is an opened one. Its Options say OneShot, and their Wake receives
// whenever a person may have decided or answered something.
type Subtask struct {
	Journal Journal
	Options Options
	Close   func()
}

// Refusal says why a subtask is not started, to the model that asked for it.
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// stuckError says that a subtask cannot go on now and may later, so that the turn
// which waits for it cannot either.
type stuckError struct{ agent, detail string }

func (e *stuckError) Error() string {
	return fmt.Sprintf("the subagent %s cannot go on: %s", e.agent, e.detail)
}

// handed returns the calls at the head of uses that hand work to other agents.
func (t *turn) handed(uses []llm.Use) []llm.Use {
	n := 0
	for n < len(uses) {
		tool, refusal := t.resolve(uses[n])
		if _, ok := tool.(*tools.Task); !ok || refusal != "" {
			break
		}
		n++
	}
	return uses[:n]
}

// handOver carries out calls of Task side by side. The first that cannot be
// written leaves the others where they are, for the next take-up.
func (t *turn) handOver(ctx context.Context, batch []llm.Use) (Outcome, error) {
	starts, err := t.start(ctx, batch, execenv.Where{})
	if err != nil {
		return Failed, err
	}
	within, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	var (
		group errgroup.Group
		mu    sync.Mutex
		all   []ended
	)
	group.SetLimit(tools.TaskSideBySide)
	for i, use := range batch {
		group.Go(func() error {
			e, err := t.subtask(within, use, starts[i])
			if err == nil && e.err == nil {
				err = t.record(ctx, e)
			}
			if err != nil {
				leave(execenv.ErrLeave)
				return err
			}
			mu.Lock()
			all = append(all, e)
			mu.Unlock()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Failed, err
	}
	return t.after(ctx, all)
}

// stopSubtasks ends those that a stopped turn has not ended yet: it was stopped
// before it came to them.
func (t *turn) stopSubtasks(ctx context.Context) error {
	s := t.journal.State()
	var open []llm.Use
	for _, use := range s.PendingUses() {
		if c := s.Calls[use.ID]; c != nil && c.Started != nil && len(t.handed([]llm.Use{use})) > 0 {
			open = append(open, use)
		}
	}
	if open == nil {
		return nil
	}
	t.stopping = true
	_, err := t.handOver(ctx, open)
	return err
}

// subtask carries out one call of Task, or takes it up: of one call there is one
// subtask, whatever happens in between. An error ends the Run.
func (t *turn) subtask(ctx context.Context, use llm.Use, started task.ToolCallStarted) (ended, error) {
	e := ended{started: started, begun: t.Now()}
	if at, ok := t.adopted[use.ID]; ok {
		e.begun = at
	}
	sub := t.spawned(use.ID)
	if sub == nil {
		switch tool, _ := t.Tools.Lookup(use.Name); {
		case ctx.Err() != nil && t.left(ctx) && !t.stopping:
			e.err = context.Cause(ctx)
			return e, nil
		case ctx.Err() != nil:
			return t.ends(e, task.CallInterrupted, "Not run: the turn was stopped before this subagent began."), nil
		default:
			ask, err := tool.(*tools.Task).Subtask(use.Input)
			if err != nil {
				return t.ends(e, task.CallError, fmt.Sprintf("Invalid input: %v.", err)), nil
			}
			sub, err = t.spawn(ctx, use.ID, ask)
			if refusal, ok := errors.AsType[Refusal](err); ok {
				return t.ends(e, task.CallError, string(refusal)), nil
			}
			if err != nil {
				return e, err
			}
		}
	}
	e.display.Agent, e.display.TaskID, e.display.Description = sub.Spawned.Agent, sub.Spawned.TaskID, sub.Spawned.Description
	opened, err := t.Subtasks.Open(ctx, sub.Spawned)
	if err != nil {
		return e, fmt.Errorf("open subtask %s: %w", sub.Spawned.TaskID, err)
	}
	defer opened.Close()
	return t.carryOut(ctx, e, opened)
}

// carryOut drives a subtask to its end and makes its last word the result of the
// call that it came of.
func (t *turn) carryOut(ctx context.Context, e ended, opened Subtask) (ended, error) {
	c := newTurn(ctx, opened.Journal, opened.Options)
	defer c.close()
	c.cut = t.stopping
	if c.journal.State().End == nil {
		outcome, err := c.drive(ctx)
		if err == nil && outcome == Waiting && (t.stopping || !t.left(ctx)) { // ctx has ended
			outcome, err = c.interrupt(ctx)
		}
		detail := c.journal.State().Detail
		switch {
		case err != nil:
			return e, err
		case outcome == Waiting:
			e.err = context.Cause(ctx)
			return e, nil
		case outcome == Interrupted:
			e.kills, e.unknown = c.kills, c.unknown
			err = c.append(ctx, task.TaskCancelled{Reason: "the turn that it worked for was stopped"})
		case outcome == Failed && c.exhausted:
			err = c.append(ctx, task.TaskFailed{Error: detail})
		case outcome == Failed:
			e.err = &stuckError{e.display.Agent, detail}
			return e, nil
		}
		if err != nil {
			return e, err
		}
	}
	s := c.journal.State()
	e.display.Calls, e.display.Usage = len(s.Calls), s.Usage
	e.completed.Usage, e.completed.CostUSD = s.Usage, s.CostUSD
	switch end := s.End.(type) {
	case *task.TaskFailed:
		return t.ends(e, task.CallError, "The subagent did not finish: "+end.Error+". What it did stays."+lastWords(s)), nil
	case *task.TaskCancelled:
		return t.ends(e, task.CallInterrupted, "Interrupted: "+end.Reason+". What this subagent did stays."+lastWords(s)), nil
	}
	text := s.LastText()
	if text == "" {
		text = "The subagent has ended and says nothing."
	}
	return t.ends(e, task.CallOK, text), nil
}

// drive runs the task of t until it has ended or cannot go on: a decision or an
// answer of a person is waited for here, since the turn that waits for the task
// has others to wait for as well.
func (t *turn) drive(ctx context.Context) (Outcome, error) {
	if t.journal.State().Suspended == task.Interrupted { // and the end of it was not written any more
		return Interrupted, nil
	}
	if t.journal.State().Status == task.StatusIdle && ctx.Err() == nil {
		if err := t.append(ctx, task.TaskWoken{Cause: "take-up"}); err != nil {
			return Failed, err
		}
	}
	for {
		outcome, err := t.run(ctx)
		if err != nil || outcome != Waiting || ctx.Err() != nil {
			return outcome, err
		}
		for ctx.Err() == nil && t.journal.State().Status == task.StatusWaiting {
			select {
			case <-ctx.Done():
			case <-t.Wake:
			}
			if err := t.sync(ctx); err != nil {
				return Failed, err
			}
		}
	}
}

// spawned returns the subtask of a call, also beside the Append of another call.
func (t *turn) spawned(callID string) *task.Subtask {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.journal.State().Subtasks[callID]
}

// spawn starts the subtask of a call.
func (t *turn) spawn(ctx context.Context, callID string, ask tools.Subtask) (*task.Subtask, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detached)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.journal.State().Handed >= tools.TaskCount {
		return nil, Refusal(fmt.Sprintf("Not started: you have started %d subagents for this message, and that is the most. Do the rest yourself.", tools.TaskCount))
	}
	if err := t.Subtasks.Spawn(ctx, callID, ask); err != nil {
		return nil, err
	}
	return t.journal.State().Subtasks[callID], nil
}

// ends completes e with the result of its call and, where there is a subtask,
// how that has ended.
func (t *turn) ends(e ended, status task.CallStatus, text string) ended {
	text = clean(text)
	var err error
	r := tools.Result{Status: status, Text: text, Display: e.display}
	if e.result, err = r.Record(e.started.CallID, e.started.Tool, e.started.Where, t.Now().Sub(e.begun)); err != nil {
		t.Log.Error("display of a result", "tool", e.started.Tool, "err", err)
	}
	if e.display.TaskID != "" {
		e.completed.CallID, e.completed.TaskID, e.completed.Status, e.completed.Text = e.started.CallID, e.display.TaskID, status, text
	}
	return e
}

// left reports whether ctx has ended so that the next process goes on.
func (t *turn) left(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), execenv.ErrLeave)
}

func lastWords(s *task.State) string {
	if text := s.LastText(); text != "" {
		return "\nIts last words:\n" + text
	}
	return ""
}
