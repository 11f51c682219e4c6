package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// asks is a step of a model that asks, with answers to choose of.
func asks(question string, options ...string) any {
	return call("AskUser", map[string]any{"question": question, "options": options})
}

// question waits for one to be put, and returns what the session says of it.
func (s *server) question(id, text string) httpapi.Waiting {
	s.t.Helper()
	v := s.awaitSession(id, 30*time.Second, "the question "+text, func(v httpapi.Session) bool {
		return v.Status == task.StatusWaiting && len(v.Waiting) == 1 && v.Waiting[0].Text == text
	})
	return v.Waiting[0]
}

// answered waits for the answer to a call to be its result, and returns that.
func (s *server) answered(id, callID string) *task.ToolResultRecorded {
	s.t.Helper()
	return awaitEvent(s, id, 30*time.Second, func(r *task.ToolResultRecorded) bool { return r.CallID == callID })
}

// A question waits through the death of its server, is put once and answered
// once, whoever else answers at the same time.
func TestServerKilledWhileAQuestionWaits(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		id := s.open(httpapi.OpenRequest{
			Goal: "go", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: wall}, Approvals: task.ApproveAsk,
			Model: scripted(t, asks("Which colour?", "red", "blue"), say("so be it")),
		})
		before := s.question(id, "Which colour?")
		if before.Kind != task.QuestionText || before.Tool != "AskUser" || strings.Join(before.Options, " ") != "red blue" {
			t.Errorf("the session waits for %+v", before)
		}
		s.kill()

		s = start(t, data)
		if after := s.question(id, "Which colour?"); after.CallID != before.CallID {
			t.Errorf("after the restart call %s waits, want %s", after.CallID, before.CallID)
		}
		wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/answers/"+before.CallID, httpapi.AnswerRequest{Text: " "}, nil), "invalid_field")
		wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/approvals/"+before.CallID, httpapi.DecisionRequest{Allow: true}, nil), "no_approval")
		var taken, refused int
		var mu sync.Mutex
		var screens sync.WaitGroup
		for range 8 {
			screens.Go(func() {
				err := s.call(t.Context(), "POST", "/sessions/"+id+"/answers/"+before.CallID, httpapi.AnswerRequest{Text: "blue"}, nil)
				var api *apiError
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					taken++
				case errors.As(err, &api) && api.Code == "no_question":
					refused++
				default:
					t.Errorf("an answer: %v", err)
				}
			})
		}
		screens.Wait()
		if taken != 1 || refused != 7 {
			t.Errorf("of 8 answers %d were taken and %d refused, want 1 and 7", taken, refused)
		}
		if r := s.answered(id, before.CallID); r.Status != task.CallOK || r.Text != "Answered: blue" {
			t.Errorf("result %s %q", r.Status, r.Text)
		}
		awaitEvent(s, id, 30*time.Second, func(e *task.TaskSuspended) bool { return e.WakeOn == task.WakeNextGoal })
		var put, answers, results int
		for _, p := range s.payloads(id) {
			switch p.(type) {
			case *task.UserQuestionRequested:
				put++
			case *task.UserQuestionAnswered:
				answers++
			case *task.ToolResultRecorded:
				results++
			case *task.ToolCallApprovalRequested:
				t.Error("a question was asked approval for")
			}
		}
		if put != 1 || answers != 1 || results != 1 {
			t.Errorf("put %d times, answered %d times, with %d results; want 1 each", put, answers, results)
		}
	})
}

// Whoever sends a message while a question waits answers it; a stop ends the
// question, and so does a fork in its own log.
func TestQuestionsEnd(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	s := start(t, dataDir(t))
	id := s.open(httpapi.OpenRequest{
		Goal: "go", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallNamespace}, Plugins: []string{task.PluginBrowser},
		Model: scripted(t, asks("First?"), asks("Second?"), say("enough"), say("after")),
	})
	first := s.question(id, "First?")
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: "AskUser", Input: []byte(`{"question":"?"}`)}, nil), "invalid_field")
	s.post(id, "messages", httpapi.MessageRequest{Text: "in my own words"})
	if r := s.answered(id, first.CallID); r.Text != "Answered: in my own words" {
		t.Errorf("a message became %q", r.Text)
	}
	second := s.question(id, "Second?")

	fork := s.fork(id, httpapi.ForkRequest{})
	if v := s.show(fork); v.Status != task.StatusIdle || len(v.Waiting) != 0 || strings.Join(v.Plugins, " ") != task.PluginBrowser {
		t.Errorf("the fork is %s, waits for %+v and has the plugins %v", v.Status, v.Waiting, v.Plugins)
	}
	if r := s.answered(fork, second.CallID); r.Status != task.CallInterrupted {
		t.Errorf("in the fork the question ended as %s %q", r.Status, r.Text)
	}

	s.post(id, "interrupt", nil)
	if r := s.answered(id, second.CallID); r.Status != task.CallInterrupted || !strings.Contains(r.Text, "Not answered") {
		t.Errorf("after the stop the question ended as %s %q", r.Status, r.Text)
	}
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/answers/"+second.CallID, httpapi.AnswerRequest{Text: "late"}, nil), "no_question")
	if v := s.show(id); len(v.Waiting) != 0 {
		t.Errorf("after the stop the session waits for %+v", v.Waiting)
	}
}

// A run asks at its terminal: an option by its number, none for an empty line.
func TestRunAsksAtTheTerminal(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	cmd := glovebox("run", "--data", dataDir(t), "--wall", "namespace", "--model", scripted(t, asks("Which colour?", "red", "blue"), asks("Which size?"), say("all said")), "go")
	cmd.Stdin = strings.NewReader("2\n\n-\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run: %v\n%s", err, out)
	}
	for _, want := range []string{"? Which colour?\n  1  red\n  2  blue\n", "a number or your own words", "> blue\n", "? Which size?\n", "> (declined)\n", "all said"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the run does not show %q:\n%s", want, out)
		}
	}
}

// The verb answers from another terminal; lists, cards and logs show what waits.
func TestAnswerVerb(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	s := start(t, dataDir(t))
	id := s.open(httpapi.OpenRequest{
		Goal: "go", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallNamespace},
		Model: scripted(t, asks("Which colour?", "red", "blue"), asks("Why?"), say("enough")),
	})
	verb := func(code int, want string, args ...string) {
		t.Helper()
		cmd := glovebox(append([]string{"--data", s.data}, args...)...)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
			t.Errorf("glovebox %s = %d (%v), want %d and %q:\n%s", strings.Join(args, " "), got, err, code, want, out)
		}
	}
	first := s.question(id, "Which colour?")
	verb(exitDone, "waiting: question", "ls")
	verb(exitDone, first.CallID+": Which colour?", "show", id)
	verb(exitDone, "2  blue", "show", id)
	verb(exitDone, "? Which colour?", "logs", id)
	verb(exitUsage, "the answer is empty", "answer", id)
	verb(exitDone, id+" answered: blue", "answer", id, first.CallID, "2")
	s.answered(id, first.CallID)
	second := s.question(id, "Why?")
	verb(exitDone, id+" declined", "answer", id, "--decline", "ask", "my", "boss")
	if r := s.answered(id, second.CallID); r.Status != task.CallDenied || !strings.Contains(r.Text, "ask my boss") {
		t.Errorf("result %s %q", r.Status, r.Text)
	}
	verb(exitFailed, "waits for no answer", "answer", id, "late")
	verb(exitDone, "> (declined) ask my boss", "logs", id)
}

// What an agent is given beside its tools is configured, or said when a session
// is opened; without it there is no trace of the browser.
func TestPlugins(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	installed(t, "chromium")
	config := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(config, []byte("[agent]\nplugins = [\"browser\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, dataDir(t), "--config", config)
	if a := s.about(); len(a.Plugins) != 1 || a.Plugins[0].Name != task.PluginBrowser || !a.Plugins[0].Default || a.Plugins[0].Description == "" {
		t.Errorf("plugins = %+v", a.Plugins)
	}
	model := scripted(t, call("browser_ask_person", map[string]any{"reason": "Sign in."}), call("Nothing", map[string]any{}), say("done"))
	spec := sandbox.Spec{Wall: sandbox.WallNamespace}
	err := s.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Plugins: []string{"telepathy"}, Spec: spec}, nil)
	wantCode(t, err, "invalid_field")
	if err == nil || !strings.Contains(err.Error(), "choose of browser") {
		t.Errorf("an unknown plugin: %v", err)
	}

	with := s.open(httpapi.OpenRequest{Goal: "go", Workspace: workspace(t, 1000), Spec: spec, Model: model})
	w := s.question(with, "Sign in.")
	if w.Kind != task.QuestionHands || w.Tool != "browser_ask_person" {
		t.Errorf("waits for %+v", w)
	}
	s.post(with, "answers/"+w.CallID, httpapi.AnswerRequest{})
	if r := s.answered(with, w.CallID); r.Status != task.CallOK || !strings.Contains(r.Text, "Answered: Done.") || !strings.Contains(r.Text, "look at it") {
		t.Errorf("result %s %q", r.Status, r.Text)
	}
	without := s.open(httpapi.OpenRequest{Goal: "go", Workspace: workspace(t, 1000), Spec: spec, Model: model, Plugins: []string{}})
	if v := s.show(without); len(v.Plugins) != 0 {
		t.Errorf("plugins %v in a session that wants none", v.Plugins)
	}
	for id, has := range map[string]bool{with: true, without: false} {
		r := awaitEvent(s, id, 30*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == "Nothing" })
		if got := strings.Contains(r.Text, "browser_navigate"); got != has || !strings.Contains(r.Text, "AskUser") {
			t.Errorf("with the plugin %v the tools are: %s", has, r.Text)
		}
	}

	// A file that names an unknown one is refused as it is read.
	if err := os.WriteFile(config, []byte("[agent]\nplugins = [\"telepathy\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := glovebox("doctor", "--data", dataDir(t), "--config", config)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "agent.plugins") {
		t.Errorf("doctor with an unknown plugin configured = %d:\n%s", cmd.ProcessState.ExitCode(), out)
	}
}
