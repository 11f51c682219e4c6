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

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestRun_writesTheWholeEnvelope(t *testing.T) {
	j := newJournal(t)
	var acked []string
	o := options([]script.Step{use("Do"), say("Done.")}, &tool{name: "Do", run: says("did it")})
	o.Ack = func(_ context.Context, id string) error {
		if j.State().Calls[id].Result == nil {
			t.Error("acknowledged before the result was stored")
		}
		acked = append(acked, id)
		return nil
	}
	run(t, t.Context(), j, o, agent.Done)
	j.wantKinds(t,
		"LLMRequestStarted", "LLMRequestFinished", "MessagesAppended",
		"ToolCallStarted c1", "ToolResultRecorded c1 ok", "ToolCallFinished c1",
		"LLMRequestStarted", "LLMRequestFinished", "MessagesAppended",
		"TaskSuspended waiting_human next-goal")
	if !slices.Equal(acked, []string{"c1"}) {
		t.Errorf("acknowledged %q, want c1", acked)
	}
	started := last[task.ToolCallStarted](t, j)
	if started.Where.Boot != "boot1" || started.Actor != task.ActorAgent {
		t.Errorf("started = %+v, want the place and the agent", started)
	}
	want := []llm.Message{
		llm.Text(llm.RoleUser, "go"),
		{Role: llm.RoleAssistant, Blocks: []llm.Block{{Text: "I use tools."}, {Use: &llm.Use{ID: "c1", Name: "Do", Input: json.RawMessage("{}")}}}},
		{Role: llm.RoleUser, Blocks: []llm.Block{{Result: &llm.Result{ID: "c1", Text: "did it"}}}},
		llm.Text(llm.RoleAssistant, "Done."),
	}
	if diff := cmp.Diff(want, j.State().Conversation()); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
}

func TestRun_oneShotCompletes(t *testing.T) {
	j := newJournal(t)
	o := options([]script.Step{say("All done.")})
	o.OneShot = true
	run(t, t.Context(), j, o, agent.Done)
	if got := last[task.TaskCompleted](t, j).Text; got != "All done." {
		t.Errorf("completed with %q", got)
	}
}

func TestRun_streamsTextWithOffsets(t *testing.T) {
	var frames []stream.Live
	o := options([]script.Step{say("héllo, wörld, and more")})
	o.Live = func(f stream.Live) { frames = append(frames, f) }
	run(t, t.Context(), newJournal(t), o, agent.Done)
	text := ""
	for _, f := range frames {
		if f.Offset != int64(len(text)) || f.Kind != stream.LiveText || f.RootTaskID != "root" {
			t.Errorf("frame %+v comes after %d bytes", f, len(text))
		}
		if text += f.Data; f.End != int64(len(text)) {
			t.Errorf("frame %+v ends at %d", f, len(text))
		}
	}
	if text != "héllo, wörld, and more" {
		t.Errorf("streamed %q", text)
	}
}

func TestRun_streamsOutputOfACall(t *testing.T) {
	var frames []stream.Live
	o := options([]script.Step{use("Do"), say("ok")}, &tool{name: "Do", run: func(_ context.Context, c tools.Call) (tools.Result, error) {
		c.Live(execenv.Chunk{Stream: execenv.Stderr, Data: []byte("caf\xc3")}) // half of an é
		c.Live(execenv.Chunk{Stream: execenv.Stderr, Offset: 4, Data: []byte("\xa9!")})
		return tools.Result{Status: task.CallOK}, nil
	}})
	o.Live = func(f stream.Live) {
		if f.Kind == stream.LiveOutput {
			frames = append(frames, f)
		}
	}
	run(t, t.Context(), newJournal(t), o, agent.Done)
	want := []stream.Live{
		{RootTaskID: "root", TaskID: "root", Kind: stream.LiveOutput, CallID: "c1", Stream: "stderr", Offset: 0, End: 3, Data: "caf"},
		{RootTaskID: "root", TaskID: "root", Kind: stream.LiveOutput, CallID: "c1", Stream: "stderr", Offset: 3, End: 6, Data: "é!"},
	}
	if diff := cmp.Diff(want, frames); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestRun_readsRunSideBySide(t *testing.T) {
	var together sync.WaitGroup
	together.Add(3)
	meet := func(ctx context.Context, _ tools.Call) (tools.Result, error) {
		together.Done()
		together.Wait() // returns only if all three run at once
		return tools.Result{Status: task.CallOK, Files: map[string]string{"/f": "h"}}, nil
	}
	var mu sync.Mutex
	var order []string
	effect := func(_ context.Context, c tools.Call) (tools.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, c.ID)
		if hash, ok := c.Known("/f"); !ok || hash != "h" {
			t.Errorf("call %s does not know what was read before it", c.ID)
		}
		return tools.Result{Status: task.CallOK}, nil
	}
	j := newJournal(t)
	o := options([]script.Step{use("Look", "Look", "Look", "Do", "Do"), say("ok")},
		&tool{name: "Look", readOnly: true, run: meet}, &tool{name: "Do", run: effect})
	run(t, t.Context(), j, o, agent.Done)
	if !slices.Equal(order, []string{"c4", "c5"}) {
		t.Errorf("effects in the order %q", order)
	}
	kinds := j.kinds(t)
	for i := range 3 {
		if want := fmt.Sprintf("ToolCallStarted c%d", i+1); kinds[3+i] != want {
			t.Errorf("event %d is %s, want %s: all reads start before one ends", 3+i, kinds[3+i], want)
		}
	}
	if open := j.State().Open; len(open) != 0 {
		t.Errorf("calls %q are left open", open)
	}
}

func TestRun_badCallsBecomeResults(t *testing.T) {
	j := newJournal(t)
	step := script.Step{Calls: []script.Call{
		{Tool: "Nope"},
		{Tool: "Do", Input: json.RawMessage(`{"a": `)},
		{Tool: "Do", Input: json.RawMessage(`[1]`)},
		{Tool: "Panic"},
	}}
	o := options([]script.Step{step, say("ok")},
		&tool{name: "Do", run: says("must not run")},
		&tool{name: "Panic", run: func(context.Context, tools.Call) (tools.Result, error) { panic("ouch") }})
	run(t, t.Context(), j, o, agent.Done)
	for id, want := range map[string]string{
		"c1": `no tool called "Nope". The tools are Do, Panic`,
		"c2": `must be a JSON object, and are not: "{\"a\":`,
		"c3": "must be a JSON object",
		"c4": "Panic broke down: ouch",
	} {
		if r := j.result(t, id); r.Status != task.CallError || !strings.Contains(r.Text, want) {
			t.Errorf("%s = %s %q, want an error with %q", id, r.Status, r.Text, want)
		}
		if !j.State().Calls[id].Finished {
			t.Errorf("%s is left open", id)
		}
	}
}

func TestRun_textIsValid(t *testing.T) {
	j := newJournal(t)
	o := options([]script.Step{use("Do"), say("ok")}, &tool{name: "Do", run: says("a\xffb")})
	run(t, t.Context(), j, o, agent.Done)
	if got := j.result(t, "c1").Text; got != "a\uFFFDb" {
		t.Errorf("text = %q", got)
	}
}

func TestRun_approvals(t *testing.T) {
	runs := 0
	opts := func() agent.Options {
		o := options([]script.Step{use("Look", "Do"), say("ok")},
			&tool{name: "Look", readOnly: true, run: says("seen")},
			&tool{name: "Do", run: func(context.Context, tools.Call) (tools.Result, error) {
				runs++
				return tools.Result{Status: task.CallOK, Text: "done"}, nil
			}})
		o.Approvals = task.ApproveAsk
		return o
	}
	parked := func(t *testing.T) *journal {
		runs = 0
		j := newJournal(t)
		run(t, t.Context(), j, opts(), agent.Waiting)
		if k := j.kinds(t); !slices.Equal(k[6:], []string{"ToolCallApprovalRequested c2", "TaskSuspended waiting_human approval-c2"}) || runs != 0 {
			t.Fatalf("the log ends with %q after %d runs", k[3:], runs)
		}
		return j
	}
	t.Run("waits on", func(t *testing.T) {
		j := parked(t)
		n := len(j.events)
		run(t, t.Context(), j, opts(), agent.Waiting)
		if len(j.events) != n {
			t.Errorf("asked again: %q", j.kinds(t)[n:])
		}
		if err := j.Append(t.Context(), task.TaskWoken{Cause: "take-up"}); err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), j, opts(), agent.Waiting)
		if j.State().Status != task.StatusWaiting {
			t.Errorf("status = %s after a take-up, want waiting", j.State().Status)
		}
	})
	t.Run("allowed", func(t *testing.T) {
		j := parked(t)
		if err := j.Append(t.Context(), task.ToolCallApprovalResolved{CallID: "c2", Allow: true}, task.TaskWoken{Cause: "approval"}); err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), j, opts(), agent.Done)
		if r := j.result(t, "c2"); r.Status != task.CallOK || runs != 1 {
			t.Errorf("result = %+v after %d runs", r, runs)
		}
	})
	t.Run("denied", func(t *testing.T) {
		j := parked(t)
		if err := j.Append(t.Context(), task.ToolCallApprovalResolved{CallID: "c2", Reason: "not today"}, task.TaskWoken{Cause: "approval"}); err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), j, opts(), agent.Done)
		r := j.result(t, "c2")
		if r.Status != task.CallDenied || !r.NotMade || !strings.Contains(r.Text, "not today") || runs != 0 {
			t.Errorf("result = %+v after %d runs", r, runs)
		}
		if got := last[task.ToolCallDenied](t, j); got != (task.ToolCallDenied{CallID: "c2", Reason: "not today"}) {
			t.Errorf("denied = %+v", got)
		}
	})
}

// A fault that is none of the model's server parks the turn at once; what it had
// said is not part of the conversation.
func TestRun_unknownErrorParksTheTurn(t *testing.T) {
	broken := model(func(_ context.Context, yield func(llm.Event, error) bool) {
		if yield(llm.Event{Text: "Half an ans"}, nil) {
			yield(llm.Event{}, errors.New("overloaded"))
		}
	})
	j := newJournal(t)
	o := options(nil)
	o.Model.Model = broken
	run(t, t.Context(), j, o, agent.Failed)
	j.wantKinds(t, "LLMRequestStarted", "LLMRequestFinished", "TaskSuspended turn_failed next-goal")
	if s := last[task.TaskSuspended](t, j); s.Detail != "overloaded; retry, or send a message, to go on from here" {
		t.Errorf("detail = %q", s.Detail)
	}
	o = options([]script.Step{say("Whole.")})
	run(t, t.Context(), j, o, agent.Done) // the same question again
	if got := j.State().LastText(); got != "Whole." {
		t.Errorf("after another try the answer is %q", got)
	}
}

func TestRun_emptyAnswerEndsTheTurn(t *testing.T) {
	o := options(nil)
	o.Model.Model = model(func(_ context.Context, yield func(llm.Event, error) bool) {
		yield(llm.Event{Message: &llm.Message{Role: llm.RoleAssistant}}, nil)
	})
	j := newJournal(t)
	run(t, t.Context(), j, o, agent.Done)
	j.wantKinds(t, "LLMRequestStarted", "LLMRequestFinished", "TaskSuspended waiting_human next-goal")
}

func TestRun_stopsAfterMaxSteps(t *testing.T) {
	j := newJournal(t)
	o := options([]script.Step{use("Do"), use("Do"), use("Do"), use("Do")}, &tool{name: "Do", run: says("again")})
	o.MaxSteps = 3
	run(t, t.Context(), j, o, agent.Failed)
	if s := last[task.TaskSuspended](t, j); !strings.Contains(s.Detail, "stopped after 3 steps") {
		t.Errorf("detail = %q", s.Detail)
	}
	if len(j.State().Calls) != 3 || len(j.State().Open) != 0 {
		t.Errorf("%d calls, %d of them open; want 3, 0", len(j.State().Calls), len(j.State().Open))
	}
}
