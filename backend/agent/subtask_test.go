package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// family is a task and those that it hands work to, in memory. The append number
// refuse (from 1) of all of them, and every one after it, is refused, as if the
// process had died there.
type family struct {
	root   *journal
	drive  func(j *journal) agent.Options // of any of them, its Subtasks apart
	refuse int
	err    error

	mu       sync.Mutex
	appends  int
	children map[string]*journal // by task id
	wakes    map[string]chan struct{}
	open     int           // subtasks that are driven
	spawned  chan struct{} // receives when one is there; of a capacity that none waits for
	closed   chan struct{} // the same, when one is not driven any more
}

var _ agent.Subtasks = (*subtasksOf)(nil)

// subtasksOf are the subtasks of one journal of a family.
type subtasksOf struct {
	*family
	parent *journal
}

func newFamily(t *testing.T, drive func(j *journal) agent.Options) *family {
	f := &family{root: newJournal(t), drive: drive, children: map[string]*journal{}, wakes: map[string]chan struct{}{}, spawned: make(chan struct{}, 100), closed: make(chan struct{}, 100)}
	f.root.gate = f.pass
	return f
}

func (f *family) pass() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.appends++; f.refuse > 0 && f.appends >= f.refuse {
		return f.err
	}
	return nil
}

func (f *family) options(j *journal) agent.Options {
	o := f.drive(j)
	o.Subtasks = &subtasksOf{f, j}
	return o
}

func (s *subtasksOf) Spawn(_ context.Context, callID string, ask tools.Subtask) error {
	if ask.Agent == "none" {
		return agent.Refusal("There is none.")
	}
	if err := s.pass(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("t%d", len(s.children)+1)
	c := &journal{task: id, state: &task.State{}, gate: s.family.pass, wrote: make(chan struct{}, 1)}
	s.children[id], s.wakes[id] = c, make(chan struct{}, 1)
	err := errors.Join(
		c.write([]task.Payload{
			task.TaskCreated{Title: ask.Description, Agent: ask.Agent, OneShot: true}, task.LeaseGranted{Generation: 1},
			task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, ask.Prompt)}}, task.TaskWoken{Cause: "message"},
		}), c.Sync(context.Background()),
		s.parent.write([]task.Payload{task.SubtaskSpawned{CallID: callID, TaskID: id, Agent: ask.Agent, Description: ask.Description}}))
	s.spawned <- struct{}{}
	return errors.Join(err, s.parent.Sync(context.Background()))
}

func (s *subtasksOf) Open(_ context.Context, spawned task.SubtaskSpawned) (agent.Subtask, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	j := s.children[spawned.TaskID]
	o := s.family.options(j)
	o.OneShot, o.Wake = true, s.wakes[spawned.TaskID]
	return agent.Subtask{Journal: j, Options: o, Close: func() { s.mu.Lock(); s.open--; s.mu.Unlock(); s.closed <- struct{}{} }}, nil
}

// child returns the log of the subtask of a description.
func (f *family) child(t *testing.T, description string) *journal {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.children {
		if j.state.Created.Title == description {
			return j
		}
	}
	t.Fatalf("no subtask is called %q; there are %d", description, len(f.children))
	return nil
}

// again is the family as another process would read it.
func (f *family) again() *family {
	g := &family{root: f.root.again(), drive: f.drive, children: map[string]*journal{}, wakes: map[string]chan struct{}{}, spawned: make(chan struct{}, 100), closed: make(chan struct{}, 100)}
	g.root.gate = g.pass
	for id, j := range f.children {
		g.children[id], g.wakes[id] = j.again(), make(chan struct{}, 1)
		g.children[id].gate = g.pass
	}
	return g
}

// hand asks for subtasks, each called as its prompt is.
func hand(prompts ...string) script.Step {
	s := script.Step{Text: "I hand this on."}
	for _, p := range prompts {
		input, _ := json.Marshal(map[string]string{"description": p, "prompt": p, "subagent_type": "helper"})
		s.Calls = append(s.Calls, script.Call{Tool: "Task", Input: input})
	}
	return s
}

// plays returns options for all of a family, whose conversations follow a script.
func plays(s script.Script, ts ...tools.Tool) func(*journal) agent.Options {
	m := script.New(s)
	m.Pace = 0
	all := append(ts, tools.NewTask(tools.Subagent{Name: "helper", Description: "helps"}, tools.Subagent{Name: "none", Description: "is none"}))
	return func(*journal) agent.Options {
		o := options(nil, all...)
		o.Model.Model, o.NewCallID = m, nil
		return o
	}
}

func of(prompt string, steps ...script.Step) script.Conversation {
	return script.Conversation{Of: prompt, Steps: steps}
}

func TestSubtask_sideBySide(t *testing.T) {
	var met sync.WaitGroup
	met.Add(2)
	f := newFamily(t, plays(script.Script{
		Steps:         []script.Step{hand("left", "right"), say("both are done")},
		Conversations: []script.Conversation{of("left", use("Meet"), say("left says hello")), of("right", use("Meet"), say("right says hello"))},
	}, &tool{name: "Meet", run: func(ctx context.Context, _ tools.Call) (tools.Result, error) {
		met.Done()
		met.Wait() // which none leaves before the other has come
		return tools.Result{Status: task.CallOK, Text: "met"}, nil
	}}))
	run(t, t.Context(), f.root, f.options(f.root), agent.Done)
	if got := texts(f.root); !slices.Equal(got, []string{"left says hello", "right says hello"}) {
		t.Errorf("the parent is told %q", got)
	}
	for _, name := range []string{"left", "right"} {
		c := f.child(t, name)
		if end, ok := c.state.End.(*task.TaskCompleted); !ok || end.Text != name+" says hello" {
			t.Errorf("%s ended with %+v", name, c.state.End)
		}
		if got := texts(c); !slices.Equal(got, []string{"met"}) {
			t.Errorf("the conversation of %s has the results %q: it is its own", name, got)
		}
	}
	done := last[task.SubtaskCompleted](t, f.root)
	if done.Status != task.CallOK || done.Usage.Output == 0 || f.root.state.Subtasks[done.CallID].Completed == nil {
		t.Errorf("completed = %+v", done)
	}
	if f.open != 0 {
		t.Errorf("%d subtasks are still open", f.open)
	}
}

// A process may die between any two writes of a task and its subtasks. Another
// one goes on: each call has one subtask, each effect happens once, and all that
// anybody is told is the same.
func TestSubtask_afterACrashAnywhere(t *testing.T) {
	crash := errors.New("the process died")
	var g *guest
	drive := func() func(*journal) agent.Options {
		p := plays(script.Script{
			Steps: []script.Step{hand("alone"), use("Do"), say("ok")},
			Conversations: []script.Conversation{
				of("alone", use("Do"), hand("below"), say("alone is done")),
				of("below", use("Do", "Do"), say("below is done")),
			},
		}, &tool{name: "Do", run: func(ctx context.Context, c tools.Call) (tools.Result, error) { return g.do(ctx, c) }})
		return func(j *journal) agent.Options {
			o := p(j)
			o.Ack = func(_ context.Context, id string) error { delete(g.kept, id); return nil }
			return o
		}
	}
	g = &guest{boot: "boot1", kept: map[string]string{}}
	undisturbed := newFamily(t, drive())
	run(t, t.Context(), undisturbed.root, undisturbed.options(undisturbed.root), agent.Done)
	if undisturbed.appends < 20 {
		t.Fatalf("only %d appends", undisturbed.appends)
	}
	for at := 1; at <= undisturbed.appends; at++ {
		g = &guest{boot: "boot1", kept: map[string]string{}}
		f := newFamily(t, drive())
		f.refuse, f.err = at, crash
		if _, err := agent.Run(t.Context(), f.root, f.options(f.root)); !errors.Is(err, crash) {
			t.Fatalf("crash at append %d: Run = %v", at, err)
		}
		f = f.again()
		run(t, t.Context(), f.root, f.options(f.root), agent.Done)
		if len(f.children) != 2 || len(g.effects) != 4 || len(g.kept) != 0 {
			t.Errorf("crash at append %d: %d subtasks, effects %q, kept %v; want 2, 4 and none", at, len(f.children), g.effects, g.kept)
		}
		for name, got := range map[string]*journal{"": f.root, "alone": nil, "below": nil} {
			want := undisturbed.root
			if name != "" {
				got, want = f.child(t, name), undisturbed.child(t, name)
			}
			if !slices.Equal(texts(got), texts(want)) || len(got.state.Open) != 0 {
				t.Errorf("crash at append %d: %q has %q, open %q; want %q", at, name, texts(got), got.state.Open, texts(want))
			}
		}
	}
}

func TestSubtask_stop(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	f := newFamily(t, plays(script.Script{
		Steps:         []script.Step{hand("working"), say("unused")},
		Conversations: []script.Conversation{of("working", use("Do"), say("unused"))},
	}, &tool{name: "Do", run: func(ctx context.Context, _ tools.Call) (tools.Result, error) {
		stop(agent.ErrStop)
		<-ctx.Done()
		return tools.Result{Status: task.CallInterrupted, Text: "killed", Kill: &execenv.KillReport{Killed: []execenv.Process{{PID: 7}}}}, nil
	}}))
	run(t, ctx, f.root, f.options(f.root), agent.Interrupted)
	c := f.child(t, "working")
	if _, ok := c.state.End.(*task.TaskCancelled); !ok {
		t.Errorf("the subtask ended with %+v", c.state.End)
	}
	if p := last[task.TurnInterrupted](t, c); len(p.Kills) != 1 {
		t.Errorf("of the subtask %+v is proven", p)
	}
	p := last[task.TurnInterrupted](t, f.root)
	if p.Cause != "stop" || len(p.Kills) != 1 || p.Unknown != 0 {
		t.Errorf("of the turn %+v is proven, want what the subtask's stop has", p)
	}
	if done := last[task.SubtaskCompleted](t, f.root); done.Status != task.CallInterrupted || !strings.Contains(done.Text, "was stopped") {
		t.Errorf("completed = %+v", done)
	}
	if len(f.root.state.Open) != 0 || len(c.state.Open) != 0 {
		t.Errorf("open calls %q and %q", f.root.state.Open, c.state.Open)
	}
}

// A turn that is stopped before it has come back to its subtasks ends them too.
func TestSubtask_stopBeforeItsTurn(t *testing.T) {
	f := newFamily(t, plays(script.Script{
		Steps:         []script.Step{hand("fails"), say("unused")},
		Conversations: []script.Conversation{of("fails", script.Step{Fault: &llm.Error{Kind: llm.NoKey, Message: "no key"}})},
	}))
	run(t, t.Context(), f.root, f.options(f.root), agent.Failed)
	f.root.say(t, task.TaskWoken{Cause: "retry"})
	ctx, stop := context.WithCancelCause(t.Context())
	stop(agent.ErrStop)
	run(t, ctx, f.root, f.options(f.root), agent.Interrupted)
	if c := f.child(t, "fails"); c.state.Status != task.StatusEnded {
		t.Errorf("the subtask is %s", c.state.Status)
	}
	if p := last[task.TurnInterrupted](t, f.root); p.Unknown != 0 || len(f.root.state.Open) != 0 {
		t.Errorf("interrupted = %+v, open calls %q", p, f.root.state.Open)
	}
}

// What keeps a subtask from going on keeps its turn, and a retry goes on with it.
func TestSubtask_stuck(t *testing.T) {
	broken := true
	f := newFamily(t, plays(script.Script{
		Steps:         []script.Step{hand("fails"), say("ok")},
		Conversations: []script.Conversation{of("fails", use("Do"), say("done after all"))},
	}, &tool{name: "Do", run: func(context.Context, tools.Call) (tools.Result, error) {
		if broken {
			return tools.Result{}, fmt.Errorf("no answer: %w", execenv.ErrUnreachable)
		}
		return tools.Result{Status: task.CallOK, Text: "done"}, nil
	}}))
	run(t, t.Context(), f.root, f.options(f.root), agent.Failed)
	if p := last[task.TaskSuspended](t, f.root); p.Reason != task.TurnFailed || !strings.Contains(p.Detail, "the subagent helper cannot go on: the sandbox does not answer") {
		t.Errorf("parked with %+v", p)
	}
	broken = false
	run(t, t.Context(), f.root, f.options(f.root), agent.Done)
	if got := texts(f.root); len(f.children) != 1 || !slices.Equal(got, []string{"done after all"}) {
		t.Errorf("%d subtasks; the parent is told %q", len(f.children), got)
	}
}

// A subtask waits for a person within the turn, whose others go on meanwhile.
func TestSubtask_waitsForAPerson(t *testing.T) {
	play := plays(script.Script{
		Steps:         []script.Step{hand("asks", "quick"), say("ok")},
		Conversations: []script.Conversation{of("asks", use("Do"), say("allowed")), of("quick", use("Look"), say("looked"))},
	}, &tool{name: "Do", run: says("did")}, &tool{name: "Look", readOnly: true, run: says("seen")})
	f := newFamily(t, func(j *journal) agent.Options {
		o := play(j)
		o.Approvals = task.ApproveAsk
		return o
	})
	over := make(chan struct{})
	go func() {
		defer close(over)
		<-f.spawned
		<-f.spawned
		<-f.closed // the other has ended, and this one is awaited still
		c := f.child(t, "asks")
		state := c.again().state
		for ; len(state.Waiting) == 0; state = c.again().state {
			<-c.wrote
		}
		if state.Waiting[0].TaskID != c.task {
			t.Errorf("waiting = %+v", state.Waiting)
		}
		c.say(t, task.ToolCallApprovalResolved{CallID: state.Waiting[0].CallID, Allow: true}, task.TaskWoken{Cause: "approval"})
		f.wakes[c.task] <- struct{}{}
	}()
	run(t, t.Context(), f.root, f.options(f.root), agent.Done)
	<-over
	if got := texts(f.root); !slices.Equal(got, []string{"allowed", "looked"}) {
		t.Errorf("the parent is told %q", got)
	}
	if f.root.state.Status != task.StatusIdle || slices.ContainsFunc(f.root.kinds(t), func(k string) bool { return strings.Contains(k, "approval-") }) {
		t.Errorf("the turn itself was parked: %q", f.root.kinds(t))
	}
}

func TestSubtask_leave(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	leaving := true
	f := newFamily(t, plays(script.Script{
		Steps:         []script.Step{hand("works"), say("ok")},
		Conversations: []script.Conversation{of("works", use("Do"), say("done"))},
	}, &tool{name: "Do", run: func(context.Context, tools.Call) (tools.Result, error) {
		if leaving {
			end(execenv.ErrLeave)
			return tools.Result{}, execenv.ErrLeave
		}
		return tools.Result{Status: task.CallOK, Text: "did"}, nil
	}}))
	run(t, ctx, f.root, f.options(f.root), agent.Waiting)
	f.root.wantKinds(t, "LLMRequestStarted", "LLMRequestFinished", "MessagesAppended", "ToolCallStarted "+f.root.state.Open[0], "SubtaskSpawned")
	leaving = false
	f = f.again()
	run(t, t.Context(), f.root, f.options(f.root), agent.Done)
	if got := texts(f.root); len(f.children) != 1 || !slices.Equal(got, []string{"done"}) {
		t.Errorf("%d subtasks; the parent is told %q", len(f.children), got)
	}
}

func TestSubtask_bounds(t *testing.T) {
	many := make([]string, tools.TaskCount+1)
	for i := range many {
		many[i] = fmt.Sprint("piece ", i)
	}
	endless := script.Conversation{Of: "endless", Steps: []script.Step{use("Look"), use("Look"), use("Look"), use("Look")}}
	none := script.Step{Calls: []script.Call{{Tool: "Task", Input: json.RawMessage(`{"description":"a","prompt":"b","subagent_type":"none"}`)}}}
	look := &tool{name: "Look", readOnly: true, run: says("seen")}
	for name, c := range map[string]struct {
		first    script.Step
		told     string
		children int
	}{
		"too many":       {hand(many...), "that is the most", tools.TaskCount},
		"too many steps": {hand("endless"), "The subagent did not finish: stopped after 3 steps", 1},
		"no such":        {none, "There is none.", 0},
		"no prompt":      {use("Task"), "Invalid input", 0},
	} {
		t.Run(name, func(t *testing.T) {
			play := plays(script.Script{Steps: []script.Step{c.first, say("ok")}, Conversations: []script.Conversation{of("piece", say("done")), endless}}, look)
			f := newFamily(t, func(j *journal) agent.Options {
				o := play(j)
				o.MaxSteps = 3
				return o
			})
			run(t, t.Context(), f.root, f.options(f.root), agent.Done)
			if got := texts(f.root); !strings.Contains(strings.Join(got, "\n"), c.told) || len(f.children) != c.children {
				t.Errorf("%d subtasks; told %q, want %q", len(f.children), got, c.told)
			}
			for id, j := range f.children {
				if j.state.Status != task.StatusEnded {
					t.Errorf("%s is %s", id, j.state.Status)
				}
			}
		})
	}
}
