package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

const (
	maxSteps = 200
	// detached bounds what still has to be written or told once ctx has ended.
	detached = 5 * time.Second
	// ackTime bounds how long a call waits for the sandbox to hear that its
	// result is stored. The guest's journal is bounded, so a lost one is no harm.
	ackTime = 2 * time.Second
)

// turn is one Run.
type turn struct {
	Options

	journal     Journal
	root, task  string               // ids
	adopted     map[string]time.Time // calls of an earlier take-up that were open at the start, and when they began
	unwatch     func() bool
	asked       int64 // the end of the log when the model was asked last
	kills       []execenv.KillReport
	cut         bool           // the end of ctx has ended a call
	unknown     int            // calls that ctx's end has left nobody knows how
	exhausted   bool           // it has made all the steps that it may
	stopping    bool           // what it has handed over is being closed
	interrupted chan time.Time // capacity one: when ctx ended

	mu sync.Mutex // one Append at a time, and State only between two
}

func newTurn(ctx context.Context, j Journal, o Options) *turn {
	if o.Approvals == "" {
		o.Approvals = task.ApproveAuto
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewCallID == nil {
		o.NewCallID = func() string { return "call_" + rand.Text() }
	}
	if o.MaxSteps == 0 {
		o.MaxSteps = maxSteps
	}
	if o.Live == nil {
		o.Live = func(stream.Live) {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Log = o.Log.With("component", "agent", "task", j.State().ID)
	t := &turn{Options: o, journal: j, root: j.State().RootID, task: j.State().ID, adopted: map[string]time.Time{}, interrupted: make(chan time.Time, 1)}
	t.unwatch = context.AfterFunc(ctx, func() { t.interrupted <- o.Now() })
	for _, id := range j.State().Open {
		t.adopted[id] = j.State().Calls[id].StartedAt
	}
	return t
}

func (t *turn) close() { t.unwatch() }

// append writes events also when ctx has ended: what happened has happened.
func (t *turn) append(ctx context.Context, payloads ...task.Payload) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detached)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.journal.Append(ctx, payloads...)
}

// sync folds what others have appended, also when ctx has ended.
func (t *turn) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detached)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.journal.Sync(ctx)
}

// known answers tools.Call.Known, also beside the Append of another call.
func (t *turn) known(path string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	hash, ok := t.journal.State().Seen[task.ActorAgent][path]
	return hash, ok
}

func (t *turn) run(ctx context.Context) (Outcome, error) {
	if err := t.closeRecorded(ctx); err != nil {
		return Failed, err
	}
	for steps := 0; ; {
		if ctx.Err() != nil {
			return t.leave(ctx)
		}
		if uses := t.journal.State().PendingUses(); len(uses) > 0 {
			outcome, err := t.settle(ctx, uses)
			if err != nil || outcome != "" {
				return outcome, err
			}
			continue
		}
		if !t.journal.State().NeedsModel() {
			return t.done(ctx)
		}
		if steps == t.MaxSteps {
			t.exhausted = true
			return t.park(ctx, fmt.Sprintf("stopped after %d steps; retry, or send a message, to go on", steps))
		}
		if outcome, err := t.wait(ctx); err != nil || outcome != "" {
			return outcome, err
		}
		steps++
		if outcome, err := t.ask(ctx); err != nil || outcome != "" {
			return outcome, err
		}
	}
}

// closeRecorded closes the calls whose result a crash has left unacknowledged.
func (t *turn) closeRecorded(ctx context.Context) error {
	var closing []task.Payload
	s := t.journal.State()
	for _, id := range s.Open {
		c := s.Calls[id]
		if c == nil || c.Result == nil || c.Started == nil || c.Started.Actor == task.ActorPerson {
			continue
		}
		if t.acks(*c.Started) {
			t.ack(ctx, *c.Started)
		}
		closing = append(closing, task.ToolCallFinished{CallID: id})
	}
	if closing == nil {
		return nil
	}
	return t.append(ctx, closing...)
}

// done ends a turn in which the model has said its last word.
func (t *turn) done(ctx context.Context) (Outcome, error) {
	if t.OneShot {
		return Done, t.append(ctx, task.TaskCompleted{Text: t.journal.State().LastText()})
	}
	return Done, t.append(ctx, task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeNextGoal})
}

// park ends a turn that cannot go on now and may do so later. It never ends the
// task.
func (t *turn) park(ctx context.Context, detail string) (Outcome, error) {
	return Failed, t.append(ctx, parked(detail))
}

func parked(detail string) task.TaskSuspended {
	return task.TaskSuspended{Reason: task.TurnFailed, WakeOn: task.WakeNextGoal, Detail: detail}
}

// interrupt ends a stopped turn: it closes what is open and says what the stop
// has killed.
func (t *turn) interrupt(ctx context.Context) (Outcome, error) {
	if errors.Is(context.Cause(ctx), execenv.ErrFenced) {
		return Failed, context.Cause(ctx)
	}
	if err := t.stopSubtasks(ctx); err != nil {
		return Failed, err
	}
	s := t.journal.State()
	var events []task.Payload
	var abandoned []string
	for _, use := range s.PendingUses() {
		r := task.ToolResultRecorded{
			CallID: use.ID, Tool: use.Name, Status: task.CallInterrupted, NotMade: true,
			Text: "Not run: the turn was stopped before this call was made.",
		}
		c := s.Calls[use.ID]
		switch {
		case c != nil && c.Answer != nil: // it came before the stop, and is not lost
			r = answered(use, c, t.Now())
		case c != nil && c.Question != nil:
			r.Text = "Not answered: the turn was stopped while the question waited."
		}
		if c != nil && c.Started != nil {
			abandoned = append(abandoned, use.ID)
			r.Status, r.NotMade, r.Where = task.CallUnknown, false, c.Started.Where
			r.Text = "Interrupted, outcome unknown: the turn was stopped before the sandbox could say how this call ended. It may still be running."
			events = append(events, r, task.ToolCallFinished{CallID: use.ID})
			continue
		}
		events = append(events, r)
	}
	if abandoned != nil {
		events = append([]task.Payload{task.StepAttemptAbandoned{CallIDs: abandoned, Detail: "stopped before their outcome was known"}}, events...)
	}
	t.unknown += len(abandoned)
	var took time.Duration
	select {
	case at := <-t.interrupted:
		took = t.Now().Sub(at)
	case <-time.After(detached): // AfterFunc runs as soon as ctx ends; never in practice
	}
	events = append(events,
		task.TurnInterrupted{Cause: cause(ctx), Kills: t.kills, Left: left(t.kills), Unknown: t.unknown, Took: took},
		task.TaskSuspended{Reason: task.Interrupted, WakeOn: task.WakeNextGoal})
	return Interrupted, t.append(ctx, events...)
}

func cause(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), ErrStop) {
		return "stop"
	}
	return "shutdown"
}

// left counts the processes that kills could not end.
func left(kills []execenv.KillReport) int {
	alive := map[int]bool{}
	for _, k := range kills {
		for _, p := range k.Left {
			alive[p.PID] = true
		}
		for _, p := range k.Stuck {
			alive[p.PID] = true
		}
	}
	return len(alive)
}

// ask makes one request to the model. An Outcome ends the turn.
func (t *turn) ask(ctx context.Context) (Outcome, error) {
	if err := t.append(ctx, task.LLMRequestStarted{Model: t.ModelName}); err != nil {
		return Failed, err
	}
	t.asked = t.journal.State().Seq
	begun := t.Now()
	a := t.stream(ctx)
	finished := task.LLMRequestFinished{Model: t.ModelName, Usage: a.usage, Duration: t.Now().Sub(begun)}
	if t.Model.Price != nil {
		cost := t.Model.Price.Cost(a.usage)
		finished.CostUSD = &cost
	}
	switch {
	case a.err == nil:
		m := t.fresh(*a.message)
		if len(m.Blocks) > 0 {
			return "", t.append(ctx, finished, task.MessagesAppended{Messages: []llm.Message{m}, Usage: a.usage})
		}
		if err := t.append(ctx, finished); err != nil {
			return Failed, err
		}
		return t.done(ctx) // it has nothing to say
	case ctx.Err() == nil:
		finished.Error = clean(a.err.Error())
		return t.failed(ctx, finished, a.err)
	}
	finished.Error = "interrupted"
	if errors.Is(context.Cause(ctx), execenv.ErrLeave) { // the next process asks anew
		if err := t.append(ctx, finished); err != nil {
			return Failed, err
		}
		return t.leave(ctx)
	}
	events := []task.Payload{finished}
	if text := partial(a.text); text != "" {
		// What was on the screen stays there, and the model sees what it had
		// said. After an error it does not: the same question is asked again.
		m := llm.Text(llm.RoleAssistant, text)
		if a.thought.Text != "" {
			m.Blocks = slices.Insert(m.Blocks, 0, llm.Block{Thinking: &a.thought}) // for people: without its signature it goes back to none
		}
		events = append(events, task.MessagesAppended{Messages: []llm.Message{m}})
	}
	if err := t.append(ctx, events...); err != nil {
		return Failed, err
	}
	return t.interrupt(ctx)
}
