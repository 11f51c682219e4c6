package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// journal is a log in memory. It refuses the append number refuse (from 1) and
// all after it with err, as if the process had died or lost its lease there.
type journal struct {
	task    string        // its id; "" is the root's
	gate    func() error  // asked before each append; nil lets all through
	wrote   chan struct{} // of capacity one, receives after an append; nil does not
	state   *task.State
	appends int
	refuse  int
	err     error

	mu     sync.Mutex
	events []task.Event
}

func newJournal(t *testing.T, payloads ...task.Payload) *journal {
	t.Helper()
	j := &journal{state: &task.State{}}
	first := []task.Payload{
		task.TaskCreated{Title: "a test"}, task.LeaseGranted{Generation: 1},
		task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, "go")}}, task.TaskWoken{Cause: "message"},
	}
	if err := j.Append(t.Context(), append(first, payloads...)...); err != nil {
		t.Fatal(err)
	}
	j.appends = 0
	return j
}

func (j *journal) State() *task.State { return j.state }

// Sync folds what say has put into the log.
func (j *journal) Sync(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.events[j.state.Seq:] {
		j.state.Apply(e)
	}
	return nil
}

// say writes to the log as another than the turn does.
func (j *journal) say(t *testing.T, payloads ...task.Payload) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(payloads); err != nil {
		t.Fatal(err)
	}
}

func (j *journal) write(payloads []task.Payload) error {
	for _, p := range payloads {
		e, err := task.Encode("root", cmp.Or(j.task, "root"), 1, time.Unix(int64(len(j.events)), 0), p)
		if err != nil {
			return err
		}
		e.Seq = int64(len(j.events) + 1)
		j.events = append(j.events, e)
	}
	return nil
}

func (j *journal) Append(ctx context.Context, payloads ...task.Payload) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if j.gate != nil {
		if err := j.gate(); err != nil {
			return err
		}
	}
	if j.appends++; j.refuse > 0 && j.appends >= j.refuse {
		return j.err
	}
	j.mu.Lock()
	err := j.write(payloads)
	j.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case j.wrote <- struct{}{}:
	default:
	}
	return j.Sync(ctx)
}

// again is the log as another process would read it.
func (j *journal) again() *journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	events := slices.Clone(j.events)
	return &journal{task: j.task, events: events, state: task.Fold(events)}
}

// kinds names the events after the first four, calls with their tool's status.
func (j *journal) kinds(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, e := range j.events[4:] {
		p, err := task.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		s := string(e.Kind)
		switch p := p.(type) {
		case *task.ToolCallStarted:
			s += " " + p.CallID
		case *task.ToolResultRecorded:
			s += fmt.Sprintf(" %s %s", p.CallID, p.Status)
		case *task.ToolCallFinished:
			s += " " + p.CallID
		case *task.ToolCallDenied:
			s += " " + p.CallID
		case *task.ToolCallApprovalRequested:
			s += " " + p.CallID
		case *task.UserQuestionRequested:
			s += " " + p.CallID
		case *task.TaskSuspended:
			s += fmt.Sprintf(" %s %s", p.Reason, p.WakeOn)
		case *task.LLMRetryScheduled:
			s += fmt.Sprintf(" %d/%d", p.Attempt, p.Attempts)
		}
		out = append(out, s)
	}
	return out
}

func (j *journal) wantKinds(t *testing.T, want ...string) {
	t.Helper()
	got := strings.Join(j.kinds(t), "\n")
	if got != strings.Join(want, "\n") {
		t.Errorf("the log holds:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// result returns what is recorded of a call.
func (j *journal) result(t *testing.T, id string) task.ToolResultRecorded {
	t.Helper()
	c := j.state.Calls[id]
	if c == nil || c.Result == nil {
		t.Fatalf("call %s has no result; the log holds %q", id, j.kinds(t))
	}
	return *c.Result
}

// last returns the last event of a payload's type.
func last[P task.Payload](t *testing.T, j *journal) P {
	t.Helper()
	for _, e := range slices.Backward(j.events) {
		p, err := task.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := p.(any).(*P); ok {
			return *p
		}
	}
	var none P
	t.Fatalf("no %T in the log: %q", none, j.kinds(t))
	return none
}

// tool is a tool that does what run says.
type tool struct {
	name     string
	readOnly bool
	run      func(ctx context.Context, c tools.Call) (tools.Result, error)
}

var _ tools.Tool = (*tool)(nil)

func (t *tool) Definition() llm.Tool { return llm.Tool{Name: t.name, Schema: json.RawMessage(`{}`)} }
func (t *tool) ReadOnly() bool       { return t.readOnly }
func (t *tool) Risk() tools.Risk {
	if t.readOnly {
		return tools.RiskLow
	}
	return tools.RiskHigh
}

func (t *tool) Run(ctx context.Context, c tools.Call) (tools.Result, error) { return t.run(ctx, c) }

func says(text string) func(context.Context, tools.Call) (tools.Result, error) {
	return func(context.Context, tools.Call) (tools.Result, error) {
		return tools.Result{Status: task.CallOK, Text: text}, nil
	}
}

// place is an Env that only has an address.
type place struct {
	execenv.Env

	boot string
}

func (p place) Where() execenv.Where {
	return execenv.Where{Wall: "docker", Workdir: "/w", Boot: p.boot}
}

func in(boot string) func(context.Context) (execenv.Env, error) {
	return func(context.Context) (execenv.Env, error) { return place{boot: boot}, nil }
}

// use is a step of the model that calls tools, each with {}.
func use(names ...string) script.Step {
	s := script.Step{Text: "I use tools."}
	for _, n := range names {
		s.Calls = append(s.Calls, script.Call{Tool: n})
	}
	return s
}

func say(text string) script.Step { return script.Step{Text: text} }

// options are those of a scripted agent whose calls are called c1, c2, …
func options(steps []script.Step, ts ...tools.Tool) agent.Options {
	m := script.New(script.Script{Steps: steps})
	m.Pace = 0
	n := 0
	return agent.Options{
		Model: llm.Served{Model: m, Name: "m-1", Sees: true}, ModelName: "script", Tools: tools.NewSet(ts...), Env: in("boot1"),
		NewCallID: func() string { n++; return fmt.Sprintf("c%d", n) },
	}
}

// run drives the task and wants an outcome.
func run(t *testing.T, ctx context.Context, j *journal, o agent.Options, want agent.Outcome) {
	t.Helper()
	got, err := agent.Run(ctx, j, o)
	if err != nil {
		t.Fatalf("Run: %v; the log holds %q", err, j.kinds(t))
	}
	if got != want {
		t.Fatalf("Run = %s, want %s; the log holds %q", got, want, j.kinds(t))
	}
}

// model answers as a function says.
type model func(ctx context.Context, yield func(llm.Event, error) bool)

var _ llm.Model = model(nil)

func (m model) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) { m(ctx, yield) }
}
