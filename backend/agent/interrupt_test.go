package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestRun_stopWhileTheModelSpeaks(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	j := newJournal(t)
	o := options(nil)
	o.Model.Model = model(func(ctx context.Context, yield func(llm.Event, error) bool) {
		if yield(llm.Event{Text: "I was about to \n"}, nil) {
			<-ctx.Done()
			yield(llm.Event{}, ctx.Err())
		}
	})
	o.Live = func(stream.Live) { stop(agent.ErrStop) }
	run(t, ctx, j, o, agent.Interrupted)
	j.wantKinds(t, "LLMRequestStarted", "LLMRequestFinished", "MessagesAppended",
		"TurnInterrupted", "TaskSuspended interrupted next-goal")
	if got := j.State().LastText(); got != "I was about to" {
		t.Errorf("the answer kept is %q", got)
	}
	if p := last[task.TurnInterrupted](t, j); p.Cause != "stop" || p.Left != 0 {
		t.Errorf("interrupted = %+v", p)
	}
}

func TestRun_stopWhileACallRuns(t *testing.T) {
	for _, c := range []struct {
		cause error
		want  string
	}{{agent.ErrStop, "stop"}, {agent.ErrShutdown, "shutdown"}, {context.Canceled, "shutdown"}} {
		t.Run(c.want, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			j := newJournal(t)
			report := execenv.KillReport{Cause: "stop", Killed: []execenv.Process{{PID: 5, Name: "sleep"}}, Left: []execenv.Process{{PID: 6, Name: "d"}}}
			o := options([]script.Step{use("Do", "Do", "Look")},
				&tool{name: "Look", readOnly: true, run: says("must not run")},
				&tool{name: "Do", run: func(ctx context.Context, _ tools.Call) (tools.Result, error) {
					stop(c.cause)
					<-ctx.Done()
					return tools.Result{Status: task.CallInterrupted, Text: "interrupted", Kill: &report}, nil
				}})
			run(t, ctx, j, o, agent.Interrupted)
			j.wantKinds(t, "LLMRequestStarted", "LLMRequestFinished", "MessagesAppended",
				"ToolCallStarted c1", "ToolResultRecorded c1 interrupted", "ToolCallFinished c1",
				"ToolResultRecorded c2 interrupted", "ToolResultRecorded c3 interrupted",
				"TurnInterrupted", "TaskSuspended interrupted next-goal")
			p := last[task.TurnInterrupted](t, j)
			if p.Cause != c.want || p.Left != 1 || len(p.Kills) != 1 || p.Kills[0].Killed[0].PID != 5 {
				t.Errorf("interrupted = %+v", p)
			}
			if uses := j.State().PendingUses(); len(uses) != 0 {
				t.Errorf("calls are left to be made: %v", uses)
			}
		})
	}
}

func TestRun_stopWhileTheSandboxIsSilent(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	j := newJournal(t)
	o := options([]script.Step{use("Do")}, &tool{name: "Do", run: func(context.Context, tools.Call) (tools.Result, error) {
		stop(agent.ErrStop)
		return tools.Result{}, execenv.ErrUnreachable
	}})
	run(t, ctx, j, o, agent.Interrupted)
	if r := j.result(t, "c1"); r.Status != task.CallUnknown || r.NotMade || !strings.Contains(r.Text, "may still be running") {
		t.Errorf("result = %+v", r)
	}
	if p := last[task.TurnInterrupted](t, j); p.Unknown != 1 || len(p.Kills) != 0 {
		t.Errorf("interrupted = %+v, want one unknown call and no proof", p)
	}
	if open := j.State().Open; len(open) != 0 {
		t.Errorf("calls %q are left open", open)
	}
}

func TestRun_silentSandboxParksTheTurn(t *testing.T) {
	silent := true
	boots := []string{}
	do := &tool{name: "Do", run: func(_ context.Context, c tools.Call) (tools.Result, error) {
		if boots = append(boots, c.Boot); silent {
			return tools.Result{}, execenv.ErrUnreachable
		}
		return tools.Result{Status: task.CallOK, Text: "rejoined"}, nil
	}}
	j := newJournal(t)
	o := options([]script.Step{use("Do"), say("ok")}, do)
	o.OneShot = true // does not end a task that can go on
	run(t, t.Context(), j, o, agent.Failed)
	if s := last[task.TaskSuspended](t, j); s.Reason != task.TurnFailed || !strings.Contains(s.Detail, "does not answer") {
		t.Errorf("suspended = %+v", s)
	}
	if len(j.State().Open) != 1 {
		t.Errorf("open calls = %q, want the one that is asked for again", j.State().Open)
	}
	silent = false
	run(t, t.Context(), j, o, agent.Done)
	if r := j.result(t, "c1"); r.Text != "rejoined" || strings.Join(boots, ",") != ",boot1" {
		t.Errorf("result = %+v after boots %q", r, boots)
	}
}

func TestRun_placesThatCannotBeUsed(t *testing.T) {
	do := &tool{name: "Do", run: says("must not run")}
	env := func(err error) func(context.Context) (execenv.Env, error) {
		return func(context.Context) (execenv.Env, error) { return nil, err }
	}
	t.Run("lost", func(t *testing.T) {
		j := newJournal(t)
		o := options([]script.Step{use("Do"), say("ok")}, do)
		o.Env = env(execenv.ErrLost)
		run(t, t.Context(), j, o, agent.Done)
		if r := j.result(t, "c1"); r.Status != task.CallLost || !strings.Contains(r.Text, "Sandbox lost") {
			t.Errorf("result = %+v", r)
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		j := newJournal(t)
		o := options([]script.Step{use("Do"), say("ok")}, do)
		o.Env = env(execenv.ErrUnreachable)
		run(t, t.Context(), j, o, agent.Failed)
		if c := j.State().Calls["c1"]; c != nil {
			t.Errorf("call = %+v, want it not even started", c)
		}
	})
	t.Run("fenced", func(t *testing.T) {
		j := newJournal(t)
		o := options([]script.Step{use("Do"), say("ok")}, do)
		o.Env = env(execenv.ErrFenced)
		if _, err := agent.Run(t.Context(), j, o); !errors.Is(err, execenv.ErrFenced) {
			t.Errorf("Run = %v, want ErrFenced", err)
		}
	})
}

func TestRun_fencedWritesNothingMore(t *testing.T) {
	fenced := errors.New("generation 1 is over")
	for at := 1; at <= 6; at++ {
		j := newJournal(t)
		j.refuse, j.err = at, errors.Join(fenced, execenv.ErrFenced)
		o := options([]script.Step{use("Do"), say("ok")}, &tool{name: "Do", run: says("did")})
		if _, err := agent.Run(t.Context(), j, o); !errors.Is(err, fenced) {
			t.Errorf("append %d: Run = %v, want the fence", at, err)
		}
		if j.appends != at {
			t.Errorf("append %d was refused, and %d more were tried", at, j.appends-at)
		}
	}
	t.Run("by the sandbox", func(t *testing.T) {
		j := newJournal(t)
		o := options([]script.Step{use("Do"), say("ok")}, &tool{name: "Do", run: func(context.Context, tools.Call) (tools.Result, error) {
			return tools.Result{}, execenv.ErrFenced
		}})
		if _, err := agent.Run(t.Context(), j, o); !errors.Is(err, execenv.ErrFenced) {
			t.Errorf("Run = %v, want ErrFenced", err)
		}
		if k := j.kinds(t); k[len(k)-1] != "ToolCallStarted c1" {
			t.Errorf("the log ends with %q", k)
		}
	})
	t.Run("by the lease", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(execenv.ErrFenced)
		j := newJournal(t)
		if _, err := agent.Run(ctx, j, options([]script.Step{say("ok")})); !errors.Is(err, execenv.ErrFenced) || j.appends != 0 {
			t.Errorf("Run = %v after %d appends", err, j.appends)
		}
	})
}
