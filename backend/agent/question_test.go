package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// asks is a step of the model that asks, and then looks.
func asks(questions ...string) script.Step {
	s := script.Step{Text: "I ask."}
	for _, q := range questions {
		s.Calls = append(s.Calls, script.Call{Tool: "AskUser", Input: json.RawMessage(q)})
	}
	return s
}

// asker are the options of an agent that asks what questions say and is done
// with the answers. It asks for approval of all that may do harm.
func asker(step script.Step) agent.Options {
	o := options([]script.Step{step, say("ok")}, tools.NewAskUser(), tools.NewAskPerson(), &tool{name: "Look", readOnly: true, run: says("seen")})
	o.Approvals = task.ApproveAsk
	return o
}

const colour = `{"question": "Which colour?", "options": ["red", "blue"]}`

// answer answers a question as whoever asks the person does.
func answer(t *testing.T, j *journal, id, text string, declined bool) {
	t.Helper()
	if err := j.Append(t.Context(), task.UserQuestionAnswered{CallID: id, Text: text, Declined: declined}, task.TaskWoken{Cause: "answer"}); err != nil {
		t.Fatal(err)
	}
}

func TestRun_questionWaitsAndIsAnsweredOnce(t *testing.T) {
	o := func() agent.Options { return asker(asks(colour)) }
	j := newJournal(t)
	run(t, t.Context(), j, o(), agent.Waiting)
	asked := []string{"LLMRequestStarted", "LLMRequestFinished", "MessagesAppended", "UserQuestionRequested c1", "TaskSuspended waiting_human question-c1"}
	j.wantKinds(t, asked...)
	want := task.Question{Kind: task.QuestionText, Text: "Which colour?", Options: []string{"red", "blue"}}
	if q := last[task.UserQuestionRequested](t, j); q.Tool != "AskUser" || q.Question.Text != want.Text || q.Question.Kind != want.Kind || !slices.Equal(q.Question.Options, want.Options) {
		t.Errorf("asked %+v, want %+v", q, want)
	}

	run(t, t.Context(), j, o(), agent.Waiting) // nobody has answered
	j.wantKinds(t, asked...)

	// Another process takes it up; the question is not put a second time.
	j = j.again()
	if err := j.Append(t.Context(), task.LeaseGranted{Generation: 2}, task.TaskWoken{Cause: "take-up"}); err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), j, o(), agent.Waiting)
	if j.State().Status != task.StatusWaiting || strings.Count(strings.Join(j.kinds(t), "\n"), "UserQuestionRequested") != 1 {
		t.Errorf("after a take-up it is %s: %q", j.State().Status, j.kinds(t))
	}

	answer(t, j, "c1", "blue", false)
	answer(t, j, "c1", "red", false) // too late
	asks := j.State().Calls["c1"].AskedAt
	opts := o()
	opts.Now = func() time.Time { return asks.Add(time.Minute) }
	j.appends, j.refuse, j.err = 0, 1, errors.New("the process died")
	if _, err := agent.Run(t.Context(), j, opts); err == nil {
		t.Fatal("a result that could not be written was taken as written")
	}
	j = j.again()
	run(t, t.Context(), j, opts, agent.Done)
	run(t, t.Context(), j.again(), opts, agent.Done)
	if r := j.result(t, "c1"); r.Text != "Answered: blue" || r.Status != task.CallOK || r.Duration != time.Minute {
		t.Errorf("result = %+v, want the first answer after a minute", r)
	}
	if n := strings.Count(strings.Join(j.kinds(t), "\n"), "ToolResultRecorded"); n != 1 {
		t.Errorf("%d results: %q", n, j.kinds(t))
	}
	if len(j.State().Waiting) > 0 || len(j.State().Open) > 0 {
		t.Errorf("waiting %+v, open %q", j.State().Waiting, j.State().Open)
	}
}

func TestRun_whatAnAnswerBecomes(t *testing.T) {
	for name, c := range map[string]struct {
		tool, text string
		declined   bool
		status     task.CallStatus
		want, lack string
	}{
		"words":                  {"AskUser", "neither\xff", false, task.CallOK, "Answered: neither\uFFFD", "page"},
		"declined":               {"AskUser", "", true, task.CallDenied, "Declined:", "They say"},
		"declined with a reason": {"AskUser", "ask my boss", true, task.CallDenied, "They say: ask my boss", "Answered"},
		"done by hand":           {"browser_ask_person", "Done.", false, task.CallOK, "Answered: Done.\nThe page may be another now", "Declined"},
		"not done by hand":       {"browser_ask_person", "no account", true, task.CallDenied, "They say: no account", "page"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			step := asks(colour)
			if c.tool != "AskUser" {
				step = script.Step{Calls: []script.Call{{Tool: c.tool, Input: json.RawMessage(`{"reason": "sign in"}`)}}}
			}
			o := asker(step)
			run(t, t.Context(), j, o, agent.Waiting)
			answer(t, j, "c1", c.text, c.declined)
			run(t, t.Context(), j, o, agent.Done)
			r := j.result(t, "c1")
			if r.Status != c.status || !strings.Contains(r.Text, c.want) || strings.Contains(r.Text, c.lack) {
				t.Errorf("result = %s %q, want %s with %q", r.Status, r.Text, c.status, c.want)
			}
		})
	}
}

// Questions of one answer are put one after the other, and what only looks is
// not kept from them, nor they from it.
func TestRun_severalQuestions(t *testing.T) {
	step := asks(colour, `{"question": "Which size?"}`)
	step.Calls = slices.Insert(step.Calls, 1, script.Call{Tool: "Look", Input: json.RawMessage(`{}`)})
	step.Calls = slices.Insert(step.Calls, 0, script.Call{Tool: "Look", Input: json.RawMessage(`{}`)})
	o := asker(step)
	j := newJournal(t)
	run(t, t.Context(), j, o, agent.Waiting)
	if w := j.State().Waiting; len(w) != 1 || w[0].CallID != "c2" || j.result(t, "c1").Text != "seen" {
		t.Fatalf("waiting %+v; the log holds %q", w, j.kinds(t))
	}
	answer(t, j, "c2", "red", false)
	run(t, t.Context(), j, o, agent.Waiting)
	if w := j.State().Waiting; len(w) != 1 || w[0].CallID != "c4" || w[0].Question.Text != "Which size?" || j.result(t, "c3").Text != "seen" {
		t.Fatalf("waiting %+v; the log holds %q", w, j.kinds(t))
	}
	answer(t, j, "c4", "large", false)
	run(t, t.Context(), j, o, agent.Done)
	if a, b := j.result(t, "c2").Text, j.result(t, "c4").Text; a != "Answered: red" || b != "Answered: large" {
		t.Errorf("answers %q and %q", a, b)
	}
}

func TestRun_badQuestionBecomesAResult(t *testing.T) {
	j := newJournal(t)
	run(t, t.Context(), j, asker(asks(`{"question": " "}`, `{"question": "Which?", "choices": ["a"]}`)), agent.Done)
	for id, want := range map[string]string{"c1": "question: must not be empty", "c2": "choices: no such parameter"} {
		if r := j.result(t, id); r.Status != task.CallError || !strings.Contains(r.Text, want) {
			t.Errorf("%s = %s %q, want an error with %q", id, r.Status, r.Text, want)
		}
	}
}

func TestRun_stopWhileAQuestionWaits(t *testing.T) {
	for name, c := range map[string]struct {
		answered bool
		want     string
		status   task.CallStatus
	}{
		"unanswered":           {false, "Not answered", task.CallInterrupted},
		"answered just before": {true, "Answered: blue", task.CallOK},
	} {
		t.Run(name, func(t *testing.T) {
			o := asker(asks(colour, colour))
			j := newJournal(t)
			run(t, t.Context(), j, o, agent.Waiting)
			if c.answered {
				answer(t, j, "c1", "blue", false)
			} else if err := j.Append(t.Context(), task.TaskWoken{Cause: "stop"}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancelCause(t.Context())
			stop(agent.ErrStop)
			run(t, ctx, j, o, agent.Interrupted)
			if r := j.result(t, "c1"); r.Status != c.status || !strings.Contains(r.Text, c.want) {
				t.Errorf("result = %s %q, want %s with %q", r.Status, r.Text, c.status, c.want)
			}
			if r := j.result(t, "c2"); r.Status != task.CallInterrupted || !r.NotMade || !strings.Contains(r.Text, "Not run") {
				t.Errorf("the question that was not put = %s %q", r.Status, r.Text)
			}
			if s := j.State(); len(s.Waiting) > 0 || s.Status != task.StatusIdle {
				t.Errorf("after the stop %s waits for %+v", s.Status, s.Waiting)
			}
		})
	}
}
