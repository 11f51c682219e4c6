package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// sideBySide bounds how many read-only calls run at once.
const sideBySide = 8

// settle brings the calls that the model wants one step further: it decides
// the first of them, asks the person it is for, or runs it together with the
// read-only ones that follow.
// An Outcome ends the turn.
func (t *turn) settle(ctx context.Context, uses []llm.Use) (Outcome, error) {
	use := uses[0]
	tool, refusal := t.resolve(use)
	if refusal != "" {
		return "", t.refuse(ctx, use, refusal)
	}
	if batch := t.handed(uses); len(batch) > 0 {
		return t.handOver(ctx, batch)
	}
	if asker, ok := tool.(tools.Asker); ok {
		return t.question(ctx, use, asker)
	}
	if decided, outcome, err := t.decide(ctx, use, tool); !decided {
		return outcome, err
	}
	batch := uses[:1]
	for _, next := range uses[1:] {
		if !tools.ReadOnly(tool) {
			break
		}
		other, refusal := t.resolve(next)
		if refusal != "" || !tools.ReadOnly(other) || t.asks(other) {
			break
		}
		batch = uses[:len(batch)+1]
	}
	return t.runBatch(ctx, batch)
}

// resolve returns the tool of a call, or why there is none to run.
func (t *turn) resolve(use llm.Use) (tools.Tool, string) {
	tool, ok := t.Tools.Lookup(use.Name)
	if !ok {
		return nil, fmt.Sprintf("There is no tool called %q. The tools are %s.", use.Name, strings.Join(t.Tools.Names(), ", "))
	}
	if raw, ok := broken(use.Input); ok {
		return nil, fmt.Sprintf("Invalid input: the arguments must be a JSON object, and are not: %.500s", raw)
	}
	return tool, ""
}

// refuse records a call that cannot be made.
func (t *turn) refuse(ctx context.Context, use llm.Use, text string) error {
	return t.append(ctx,
		task.ToolCallStarted{CallID: use.ID, Tool: use.Name, Input: use.Input, Actor: task.ActorAgent},
		task.ToolResultRecorded{CallID: use.ID, Tool: use.Name, Status: task.CallError, NotMade: true, Text: clean(text)},
		task.ToolCallFinished{CallID: use.ID})
}

func (t *turn) asks(tool tools.Tool) bool {
	return t.Approvals == task.ApproveAsk && tool.Risk() != tools.RiskLow
}

// decide reports whether a call may run now. Otherwise it has parked the turn,
// which the Outcome says, or recorded a denial.
func (t *turn) decide(ctx context.Context, use llm.Use, tool tools.Tool) (bool, Outcome, error) {
	s := t.journal.State()
	c := s.Calls[use.ID]
	switch {
	case c != nil && c.Started != nil: // it was allowed before it was started
		return true, "", nil
	case c != nil && c.Decision != nil && c.Decision.Allow:
		return true, "", nil
	case c != nil && c.Decision != nil:
		return false, "", t.deny(ctx, use, c.Decision.Reason)
	case c != nil && c.Approval != nil: // asked for, also if the mode has changed since
		if s.Status == task.StatusWaiting {
			return false, Waiting, nil
		}
		return false, Waiting, t.append(ctx, waitFor(use.ID))
	case !t.asks(tool):
		return true, "", nil
	}
	return false, Waiting, t.append(ctx,
		task.ToolCallApprovalRequested{CallID: use.ID, Tool: use.Name, Input: use.Input, Reason: use.Name + " " + tools.Danger(tool) + "."},
		waitFor(use.ID))
}

func waitFor(callID string) task.TaskSuspended {
	return task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeApproval(callID)}
}

func (t *turn) deny(ctx context.Context, use llm.Use, reason string) error {
	text := "Denied: a person decided that this call is not made."
	if reason != "" {
		text += " Their reason: " + clean(reason)
	}
	return t.append(ctx,
		task.ToolCallDenied{CallID: use.ID, Reason: reason},
		task.ToolResultRecorded{CallID: use.ID, Tool: use.Name, Status: task.CallDenied, NotMade: true, Text: text})
}

// ended is a call that has run.
type ended struct {
	started task.ToolCallStarted
	result  task.ToolResultRecorded
	kill    *execenv.KillReport
	err     error // tools.Tool says which: there is no result

	// Of a call that has handed its work to a subtask.
	begun     time.Time
	display   tools.TaskDisplay
	completed task.SubtaskCompleted // of no task where there was none to complete
	kills     []execenv.KillReport
	unknown   int // calls of the subtask that may still run
}

// runBatch runs calls side by side. More than one means that all only read.
func (t *turn) runBatch(ctx context.Context, batch []llm.Use) (Outcome, error) {
	env, err := t.Env(ctx)
	if err != nil {
		return t.withoutEnv(ctx, batch, err)
	}
	starts, err := t.start(ctx, batch, env.Where())
	if err != nil {
		return Failed, err
	}
	var (
		group errgroup.Group
		mu    sync.Mutex
		all   []ended
	)
	group.SetLimit(sideBySide)
	for i, use := range batch {
		group.Go(func() error {
			e := t.runOne(ctx, use, starts[i], env)
			mu.Lock()
			all = append(all, e)
			mu.Unlock()
			if e.err != nil {
				return nil // told below, after every call has ended
			}
			return t.record(ctx, e)
		})
	}
	if err := group.Wait(); err != nil {
		return Failed, err
	}
	return t.after(ctx, all)
}

// start records the calls of a batch that were not started before, and returns
// the start of each.
func (t *turn) start(ctx context.Context, batch []llm.Use, where execenv.Where) ([]task.ToolCallStarted, error) {
	starts := make([]task.ToolCallStarted, len(batch))
	var events []task.Payload
	s := t.journal.State()
	for i, use := range batch {
		if c := s.Calls[use.ID]; c != nil && c.Started != nil {
			starts[i] = *c.Started
			continue
		}
		starts[i] = task.ToolCallStarted{CallID: use.ID, Tool: use.Name, Input: use.Input, Actor: task.ActorAgent, Where: where}
		events = append(events, starts[i])
	}
	if events == nil {
		return starts, nil
	}
	return starts, t.append(ctx, events...)
}

// runOne makes one call, or takes it up, and turns whatever happens into an end.
func (t *turn) runOne(ctx context.Context, use llm.Use, started task.ToolCallStarted, env execenv.Env) ended {
	tool, _ := t.Tools.Lookup(use.Name)
	e := ended{started: started}
	begun := t.Now()
	at, adopted := t.adopted[use.ID]
	if adopted && !tools.ReadOnly(tool) { // it is not made again: what is shown is its own time
		begun = at
	}
	var r tools.Result
	if adopted && !tools.ReadOnly(tool) && (started.Where.Boot == "" || !tools.Kept(tool)) {
		r = tools.Result{Status: task.CallUnknown, Text: "Interrupted, outcome unknown: the host stopped while this call ran, so it may or may not have had its effect. It was not repeated; look at the state of things before you try again."}
	} else {
		r, e.err = t.call(ctx, tool, use, started, env)
	}
	e.kill = r.Kill
	var err error
	if e.result, err = r.Record(use.ID, use.Name, started.Where, t.Now().Sub(begun)); err != nil {
		t.Log.ErrorContext(ctx, "display of a result", "tool", use.Name, "err", err)
	}
	return e
}

// call runs the tool; a panic in it is its result.
func (t *turn) call(ctx context.Context, tool tools.Tool, use llm.Use, started task.ToolCallStarted, env execenv.Env) (r tools.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.Log.ErrorContext(ctx, "a tool panicked", "tool", use.Name, "call", use.ID, "err", p, "stack", string(debug.Stack()))
			r, err = tools.Result{Status: task.CallError, Text: fmt.Sprintf("%s broke down: %.2000s", use.Name, fmt.Sprint(p))}, nil
		}
	}()
	output := stream.NewOutput(t.root, t.task, use.ID)
	c := tools.Call{
		ID: use.ID, Input: use.Input, Env: env, Known: t.known, Browser: t.Browser,
		Live: func(chunk execenv.Chunk) {
			if f := output.Frame(chunk.Stream.String(), chunk.Offset, chunk.Data); f.Data != "" {
				t.Live(f)
			}
		},
	}
	if _, ok := t.adopted[use.ID]; ok {
		c.Boot = started.Where.Boot
	}
	return tool.Run(ctx, c)
}

// record writes a result, tells the sandbox that it is safe, and closes the call.
func (t *turn) record(ctx context.Context, e ended) error {
	events := []task.Payload{e.result}
	if e.result.Status == task.CallUnknown {
		events = []task.Payload{task.StepAttemptAbandoned{CallIDs: []string{e.result.CallID}, Detail: "its outcome is unknown; it is not repeated"}, e.result}
	}
	if e.completed.TaskID != "" {
		events = append([]task.Payload{e.completed}, events...)
	}
	finished := task.ToolCallFinished{CallID: e.result.CallID}
	if !t.acks(e.started) {
		return t.append(ctx, append(events, finished)...)
	}
	if err := t.append(ctx, events...); err != nil {
		return err
	}
	t.ack(ctx, e.started)
	return t.append(ctx, finished)
}

// acks reports whether a guest keeps the outcome of a call until it hears that
// it is stored. Calls that only read leave nothing to keep.
func (t *turn) acks(started task.ToolCallStarted) bool {
	tool, ok := t.Tools.Lookup(started.Tool)
	return t.Ack != nil && started.Where.Boot != "" && ok && !tools.ReadOnly(tool) && tools.Kept(tool)
}

// ack tells a guest that it may forget a call.
func (t *turn) ack(ctx context.Context, started task.ToolCallStarted) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTime)
	defer cancel()
	if err := t.Ack(ctx, started.CallID); err != nil {
		t.Log.DebugContext(ctx, "the sandbox did not hear that a result is stored", "call", started.CallID, "err", err)
	}
}

// after looks at how the calls of a batch have ended.
func (t *turn) after(ctx context.Context, all []ended) (Outcome, error) {
	var unreachable error
	for _, e := range all {
		if e.kill != nil && ctx.Err() != nil {
			t.kills = append(t.kills, *e.kill)
		}
		t.kills, t.unknown = append(t.kills, e.kills...), t.unknown+e.unknown
		if ctx.Err() != nil && e.err == nil {
			t.cut = t.cut || e.result.Status == task.CallInterrupted
			if t.unproven(e) {
				t.unknown++
			}
		}
		switch {
		case errors.Is(e.err, execenv.ErrFenced):
			return Failed, e.err
		case e.err != nil:
			unreachable = e.err
		}
	}
	if unreachable == nil || ctx.Err() != nil {
		return "", nil // run closes what is open when ctx has ended
	}
	if stuck, ok := errors.AsType[*stuckError](unreachable); ok {
		return t.park(ctx, clean(stuck.Error()))
	}
	return t.park(ctx, fmt.Sprintf("the sandbox does not answer: %v; the call is asked for again when the turn goes on", unreachable))
}

// unproven reports whether nobody knows if a call that was stopped has ended.
func (t *turn) unproven(e ended) bool {
	tool, ok := t.Tools.Lookup(e.started.Tool)
	_, handed := tool.(*tools.Task) // which has counted its own
	return ok && !handed && !tools.ReadOnly(tool) && e.kill == nil &&
		(e.result.Status == task.CallInterrupted || e.result.Status == task.CallUnknown)
}

// withoutEnv ends the calls of a batch that have no place to run in.
func (t *turn) withoutEnv(ctx context.Context, batch []llm.Use, err error) (Outcome, error) {
	switch {
	case errors.Is(err, execenv.ErrFenced):
		return Failed, err
	case ctx.Err() != nil:
		return "", nil
	case errors.Is(err, execenv.ErrUnreachable):
		return t.park(ctx, clean(err.Error()))
	}
	status, text := task.CallError, "The sandbox cannot be used: "
	if errors.Is(err, execenv.ErrLost) {
		status, text = task.CallLost, "Sandbox lost: "
	}
	starts, appendErr := t.start(ctx, batch, execenv.Where{})
	if appendErr != nil {
		return Failed, appendErr
	}
	for i, use := range batch {
		e := ended{started: starts[i], result: task.ToolResultRecorded{
			CallID: use.ID, Tool: use.Name, Status: status, Text: clean(text + err.Error()), Where: starts[i].Where,
		}}
		if err := t.record(ctx, e); err != nil {
			return Failed, err
		}
	}
	return "", nil
}
