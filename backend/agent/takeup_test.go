package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// cutOff is a log that ends while a call of a tool runs.
func cutOff(t *testing.T, toolName, boot string) *journal {
	t.Helper()
	return newJournal(t,
		task.MessagesAppended{Messages: []llm.Message{{Role: llm.RoleAssistant, Blocks: []llm.Block{{Use: &llm.Use{ID: "old", Name: toolName, Input: []byte("{}")}}}}}},
		task.ToolCallStarted{CallID: "old", Tool: toolName, Input: []byte("{}"), Actor: task.ActorAgent, Where: execenv.Where{Wall: "docker", Boot: boot}},
		task.LeaseGranted{Generation: 2}, task.TaskWoken{Cause: "take-up"})
}

func TestTakeUp_rejoinsByBoot(t *testing.T) {
	j := cutOff(t, "Do", "boot0")
	var got tools.Call
	o := options([]script.Step{say("unused"), say("ok")}, &tool{name: "Do", run: func(_ context.Context, c tools.Call) (tools.Result, error) {
		got = c
		return tools.Result{Status: task.CallOK, Text: "kept outcome"}, nil
	}})
	run(t, t.Context(), j, o, agent.Done)
	if got.ID != "old" || got.Boot != "boot0" {
		t.Errorf("called with id %q, boot %q; want those of the start", got.ID, got.Boot)
	}
	if r := j.result(t, "old"); r.Text != "kept outcome" || r.Where.Boot != "boot0" {
		t.Errorf("result = %+v", r)
	}
	if n := strings.Count(strings.Join(j.kinds(t), "\n"), "ToolCallStarted"); n != 1 {
		t.Errorf("the call was started %d times in the log", n)
	}
}

func TestTakeUp_timeIsTheCallsOwn(t *testing.T) {
	const since, own = 90 * time.Second, 7 * time.Second
	for name, c := range map[string]struct {
		tool tool
		want time.Duration
	}{
		"the place says": {tool{name: "Do", run: func(context.Context, tools.Call) (tools.Result, error) {
			return tools.Result{Status: task.CallOK, Took: own}, nil
		}}, own},
		"the place does not say": {tool{name: "Do", run: says("kept")}, since},
		"made again":             {tool{name: "Look", readOnly: true, run: says("seen")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j := cutOff(t, c.tool.name, "boot0")
			o := options([]script.Step{say("unused"), say("ok")}, &c.tool)
			now := j.State().Calls["old"].StartedAt.Add(since)
			o.Now = func() time.Time { return now }
			run(t, t.Context(), j, o, agent.Done)
			if got := j.result(t, "old").Duration; got != c.want {
				t.Errorf("duration = %v, want %v", got, c.want)
			}
		})
	}
}

func TestTakeUp_outcomeUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		boot string
		run  func(context.Context, tools.Call) (tools.Result, error)
	}{
		"no guest": {"", func(context.Context, tools.Call) (tools.Result, error) {
			return tools.Result{Status: task.CallOK, Text: "must not run"}, nil
		}},
		"another boot": {"boot0", func(context.Context, tools.Call) (tools.Result, error) {
			return tools.Result{Status: task.CallUnknown, Text: "Outcome unknown"}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := cutOff(t, "Do", c.boot)
			run(t, t.Context(), j, options([]script.Step{say("unused"), say("ok")}, &tool{name: "Do", run: c.run}), agent.Done)
			if r := j.result(t, "old"); r.Status != task.CallUnknown || !strings.Contains(strings.ToLower(r.Text), "outcome unknown") {
				t.Errorf("result = %+v", r)
			}
			if p := last[task.StepAttemptAbandoned](t, j); !slices.Equal(p.CallIDs, []string{"old"}) {
				t.Errorf("abandoned = %+v", p)
			}
			if open := j.State().Open; len(open) != 0 {
				t.Errorf("calls %q are left open", open)
			}
		})
	}
}

// The guest knows nothing of what was done to the browser: nothing of it is made
// again, and no guest is told to forget it.
func TestTakeUp_browser(t *testing.T) {
	for _, tool := range tools.Browser() {
		name := tool.Definition().Name
		if _, asks := tool.(tools.Asker); asks || tools.ReadOnly(tool) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			j := cutOff(t, name, "boot0")
			o := options([]script.Step{say("unused"), say("ok")}, tool)
			o.Ack = func(_ context.Context, id string) error { t.Errorf("acknowledged %s", id); return nil }
			run(t, t.Context(), j, o, agent.Done)
			if r := j.result(t, "old"); r.Status != task.CallUnknown || !strings.Contains(r.Text, "outcome unknown") {
				t.Errorf("result = %+v", r)
			}
			if p := last[task.StepAttemptAbandoned](t, j); !slices.Equal(p.CallIDs, []string{"old"}) {
				t.Errorf("abandoned = %+v", p)
			}
			if open := j.State().Open; len(open) != 0 {
				t.Errorf("calls %q are left open", open)
			}
		})
	}
}

func TestTakeUp_repeatsReads(t *testing.T) {
	j := cutOff(t, "Look", "")
	run(t, t.Context(), j, options([]script.Step{say("unused"), say("ok")}, &tool{name: "Look", readOnly: true, run: says("seen")}), agent.Done)
	if r := j.result(t, "old"); r.Text != "seen" {
		t.Errorf("result = %+v", r)
	}
}

func TestTakeUp_closesWhatWasRecorded(t *testing.T) {
	j := cutOff(t, "Do", "boot0")
	if err := j.Append(t.Context(), task.ToolResultRecorded{CallID: "old", Tool: "Do", Status: task.CallOK, Text: "did"}); err != nil {
		t.Fatal(err)
	}
	acked := ""
	o := options([]script.Step{say("unused"), say("ok")}, &tool{name: "Do", run: says("must not run")})
	o.Ack = func(_ context.Context, id string) error { acked = id; return errors.New("gone") }
	run(t, t.Context(), j, o, agent.Done)
	if acked != "old" || len(j.State().Open) != 0 || j.result(t, "old").Text != "did" {
		t.Errorf("acknowledged %q, open %q, result %q", acked, j.State().Open, j.result(t, "old").Text)
	}
}

// guest remembers calls as a sandbox's guest does.
type guest struct {
	boot    string
	kept    map[string]string
	effects []string
}

func (g *guest) do(_ context.Context, c tools.Call) (tools.Result, error) {
	text, known := g.kept[c.ID]
	switch {
	case known:
	case c.Boot != "" && c.Boot != g.boot:
		return tools.Result{Status: task.CallUnknown, Text: "outcome unknown"}, nil
	default:
		g.effects = append(g.effects, c.ID)
		text = fmt.Sprint("effect ", len(g.effects))
		g.kept[c.ID] = text
	}
	return tools.Result{Status: task.CallOK, Text: text}, nil
}

// A crash between any two appends, and a take-up after it, must give each
// effect exactly once and the same conversation as an undisturbed turn.
func TestTakeUp_afterACrashAnywhere(t *testing.T) {
	crash := errors.New("the process died")
	steps := []script.Step{use("Do", "Look", "Look"), use("Do", "Do"), say("ok")}
	opts := func(g *guest) agent.Options {
		o := options(steps, &tool{name: "Do", run: g.do}, &tool{name: "Look", readOnly: true, run: says("seen")})
		ids := 0
		o.NewCallID = func() string { ids++; return fmt.Sprintf("%s-%p-%d", g.boot, &ids, ids) }
		o.Env = in(g.boot)
		o.Ack = func(_ context.Context, id string) error { delete(g.kept, id); return nil }
		return o
	}
	undisturbed := newJournal(t)
	run(t, t.Context(), undisturbed, opts(&guest{boot: "b", kept: map[string]string{}}), agent.Done)

	for at := 1; at <= undisturbed.appends; at++ {
		g := &guest{boot: "b", kept: map[string]string{}}
		j := newJournal(t)
		j.refuse, j.err = at, crash
		if _, err := agent.Run(t.Context(), j, opts(g)); !errors.Is(err, crash) {
			t.Fatalf("crash at append %d: Run = %v", at, err)
		}
		j = j.again()
		run(t, t.Context(), j, opts(g), agent.Done)
		if len(g.effects) != 3 {
			t.Errorf("crash at append %d: %d effects, want 3", at, len(g.effects))
		}
		if len(g.kept) != 0 || len(j.State().Open) != 0 {
			t.Errorf("crash at append %d: the guest still keeps %v, open calls %q", at, g.kept, j.State().Open)
		}
		if got, want := texts(j), texts(undisturbed); !slices.Equal(got, want) {
			t.Errorf("crash at append %d: results %q, want %q", at, got, want)
		}
	}
}

// texts lists the results that the model has seen.
func texts(j *journal) []string {
	var out []string
	for _, m := range j.State().Conversation() {
		for _, b := range m.Blocks {
			if b.Result != nil {
				out = append(out, b.Result.Text)
			}
		}
	}
	return out
}

// A host that leaves its turn writes nothing of the call that runs, and the next
// process gets its outcome. One whose end has killed the call says so.
func TestLeave(t *testing.T) {
	for name, killed := range map[string]bool{"runs on": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			g := &guest{boot: "boot1", kept: map[string]string{}}
			leaving := true
			j := newJournal(t)
			o := options([]script.Step{use("Do"), say("ok")}, &tool{name: "Do", run: func(ctx context.Context, c tools.Call) (tools.Result, error) {
				r, err := g.do(ctx, c)
				if !leaving {
					return r, err
				}
				end(execenv.ErrLeave)
				if killed {
					return tools.Result{Status: task.CallInterrupted, Text: "interrupted", Kill: &execenv.KillReport{}}, nil
				}
				return tools.Result{}, execenv.ErrLeave
			}})
			if killed {
				run(t, ctx, j, o, agent.Interrupted)
				if p := last[task.TurnInterrupted](t, j); p.Cause != "shutdown" || p.Unknown != 0 || len(p.Kills) != 1 {
					t.Errorf("interrupted = %+v", p)
				}
				return
			}
			run(t, ctx, j, o, agent.Waiting)
			j.wantKinds(t, "LLMRequestStarted", "LLMRequestFinished", "MessagesAppended", "ToolCallStarted c1")
			leaving = false
			j = j.again()
			run(t, t.Context(), j, o, agent.Done)
			if r := j.result(t, "c1"); r.Status != task.CallOK || len(g.effects) != 1 {
				t.Errorf("result %+v after effects %q", r, g.effects)
			}
		})
	}
}
