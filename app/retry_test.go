package app

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// changing is a model whose script can be replaced: it is read for every turn.
type changing struct{ path string }

func newChanging(t testing.TB, steps ...any) changing {
	t.Helper()
	c := changing{filepath.Join(t.TempDir(), "script.json")}
	c.become(t, steps...)
	return c
}

func (c changing) become(t testing.TB, steps ...any) {
	t.Helper()
	body, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.path, body, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c changing) name() string { return "script:" + c.path }

// fault is a script's step that fails after it has begun to speak.
func fault(kind llm.ErrorKind, message, retryAfter string) any {
	return map[string]any{"text": "Half an ans", "fault": map[string]any{"kind": kind, "message": message, "retry_after": retryAfter}}
}

// A turn that waits to ask its model again outlives its server: the next one
// shows the same wait and keeps it, until a person wakes it.
func TestServerKilledWhileTheModelIsAwaited(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	model := newChanging(t, fault(llm.Overloaded, "too many requests", "4m"))
	s := start(t, data)
	id := s.open(httpapi.OpenRequest{Goal: "go", Model: model.name(), Spec: sandbox.Spec{Wall: sandbox.WallNamespace}})
	waits := func(v httpapi.Session) bool { return v.Retry != nil }
	before := s.awaitSession(id, 30*time.Second, "the wait", waits)
	if r := before.Retry; before.Status != task.StatusRunning || r.Attempt != 1 || r.Attempts < 2 || r.Kind != llm.Overloaded || time.Until(r.At) < 3*time.Minute {
		t.Errorf("%s, retry %+v; want a running turn that waits 4 minutes", before.Status, r)
	}
	s.kill()
	model.become(t, say("at last"))

	s = start(t, data)
	after := s.awaitSession(id, 30*time.Second, "a take-up", func(v httpapi.Session) bool { return waits(v) && v.Generation > before.Generation })
	if *after.Retry != *before.Retry {
		t.Errorf("retry %+v after the restart, want %+v", after.Retry, before.Retry)
	}
	s.post(id, "retry", nil)
	awaitEvent(s, id, 30*time.Second, func(m *task.MessagesAppended) bool { return m.Messages[0].Blocks[0].Text == "at last" })
	s.awaitTurns(id, 1)
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/retry", nil, nil), "nothing_to_retry")
	for _, p := range s.payloads(id) {
		if m, ok := p.(*task.MessagesAppended); ok && strings.Contains(m.Messages[0].Blocks[0].Text, "Half an ans") {
			t.Error("what the failed request said is part of the conversation")
		}
	}
}

// A server that ends in good order leaves the wait as it is, too; Stop and a
// message end it at once.
func TestWaitForTheModelEnds(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	model := newChanging(t, fault(llm.RateLimited, "slow down", "4m"))
	s := start(t, data)
	id := s.open(httpapi.OpenRequest{Goal: "go", Model: model.name(), Spec: sandbox.Spec{Wall: sandbox.WallNamespace}})
	waits := func(v httpapi.Session) bool { return v.Retry != nil }
	before := s.awaitSession(id, 30*time.Second, "the wait", waits)
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/archive", httpapi.ArchiveRequest{Archived: true}, nil), "session_busy")
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-s.gone

	s = start(t, data)
	after := s.awaitSession(id, 30*time.Second, "a take-up", func(v httpapi.Session) bool { return v.Generation > before.Generation })
	if after.Retry == nil || *after.Retry != *before.Retry {
		t.Errorf("retry %+v after the restart, want %+v", after.Retry, before.Retry)
	}
	begun := time.Now()
	var stopped httpapi.Stopped
	if err := s.call(t.Context(), "POST", "/interrupt", nil, &stopped); err != nil || stopped.Sessions != 1 {
		t.Errorf("stop of all: %+v, %v; want one turn", stopped, err)
	}
	awaitEvent(s, id, 5*time.Second, func(e *task.TaskSuspended) bool { return e.Reason == task.Interrupted })
	if took := since(begun); took > 2*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if v := s.show(id); v.Retry != nil || v.Status != task.StatusIdle {
		t.Errorf("%s, retry %+v after the stop", v.Status, v.Retry)
	}

	s.post(id, "messages", httpapi.MessageRequest{Text: "again"})
	s.awaitSession(id, 30*time.Second, "another wait", waits)
	begun = time.Now()
	s.post(id, "messages", httpapi.MessageRequest{Text: "now"})
	// The model was asked at once: it has failed again since.
	awaitEvent(s, id, 30*time.Second, func(r *task.LLMRetryScheduled) bool { return r.At.After(begun.Add(4 * time.Minute)) })
}

// A fault that does not pass by itself parks the turn, for a person to set right
// and go on: also over a restart, which does not ask by itself.
func TestModelThatCannotAnswer(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	model := newChanging(t, fault(llm.NoKey, "the key is refused: set another", ""))
	s := start(t, data)
	id := s.open(httpapi.OpenRequest{Goal: "go", Model: model.name(), OneShot: true, Spec: sandbox.Spec{Wall: sandbox.WallNamespace}})
	v := s.awaitSession(id, 30*time.Second, "a parked turn", func(v httpapi.Session) bool { return v.Suspended == task.TurnFailed })
	if v.Status != task.StatusIdle || !strings.Contains(v.Detail, "the key is refused: set another; retry") {
		t.Errorf("%s, %q", v.Status, v.Detail)
	}
	s.kill()
	s = start(t, data)
	s.bash(id, "true") // its place is there again, so whatever it does by itself it has begun
	if got := s.show(id); got.Status != task.StatusIdle || got.Suspended != task.TurnFailed {
		t.Errorf("%s, suspended %q after a restart; want it parked", got.Status, got.Suspended)
	}
	model.become(t, say("done"))
	out, err := glovebox("retry", "--data", data, id).CombinedOutput()
	if err != nil {
		t.Fatalf("retry: %v\n%s", err, out)
	}
	awaitEvent(s, id, 20*time.Second, func(c *task.TaskCompleted) bool { return c.Text == "done" })
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/retry", nil, nil), "session_ended")
}

// A run whose model cannot answer says why, how to go on, and leaves no sandbox.
func TestRunParked(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	model := newChanging(t, fault(llm.NoFunds, "the account is empty", ""))
	run := func(args ...string) string {
		t.Helper()
		args = append([]string{"run", "--data", data, "--wall", "namespace", "--model", model.name()}, args...)
		out, err := glovebox(append(args, "go")...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
			t.Errorf("run ended with %v, want code 1; printed:\n%s", err, out)
		}
		return string(out)
	}
	out := run()
	if !strings.Contains(out, "the account is empty") || !strings.Contains(out, "--keep") || !strings.Contains(out, "sandbox released") {
		t.Errorf("printed:\n%s\nwant the cause, what to do, and the release", out)
	}
	if out = run("--keep"); !strings.Contains(out, "the account is empty") || !strings.Contains(out, ": glovebox retry s-") {
		t.Errorf("printed:\n%s\nwant the cause and the verb", out)
	}
	start(t, data) // its end closes what was kept
}

// An agent that only looks has no tool that could do more.
func TestAgents(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	s := start(t, dataDir(t))
	spec := sandbox.Spec{Wall: sandbox.WallNamespace}
	var about httpapi.About
	if err := s.call(t.Context(), "GET", "/about", nil, &about); err != nil {
		t.Fatal(err)
	}
	if len(about.Agents) != 4 || about.Agents[0].Name != "main" || about.Agents[1].Name != "browser" || about.Agents[1].Description == "" || strings.Join(about.Agents[2].Tools, " ") != "Read Glob Grep AskUser" {
		t.Errorf("agents = %+v", about.Agents)
	}
	ws := workspace(t, 1000)
	id := s.open(httpapi.OpenRequest{Goal: "go", Agent: "explore", Workspace: ws, Spec: spec,
		Model: scripted(t, call("Bash", map[string]any{"command": "touch made"}), say("done"))})
	r := awaitEvent(s, id, 30*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == "Bash" })
	if r.Status != task.CallError || !strings.Contains(r.Text, "The tools are Read, Glob, Grep") {
		t.Errorf("result %s %q", r.Status, r.Text)
	}
	if _, err := os.Stat(filepath.Join(ws, "made")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it ran: %v", err)
	}
	if v := s.show(id); v.Agent != "explore" || v.Goal != "go" || v.Usage.Output == 0 || v.CostUSD == nil || *v.CostUSD != 0 {
		t.Errorf("agent %q, goal %q, usage %+v, cost %v", v.Agent, v.Goal, v.Usage, v.CostUSD)
	}
	err := s.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Goal: "go", Agent: "chef", Spec: spec}, nil)
	var api *apiError
	if !errors.As(err, &api) || api.Field != "agent" || !strings.Contains(api.Message, "choose of main, browser, explore, plan") {
		t.Errorf("opening with an unknown agent: %v", err)
	}
}

// An archived session is out of the list until somebody writes to it; one that
// has ended can be put away too.
func TestArchive(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	s := start(t, data)
	id := s.open(httpapi.OpenRequest{Goal: "go", Model: scripted(t, say("one"), say("two")), Spec: sandbox.Spec{Wall: sandbox.WallNamespace}})
	s.awaitTurns(id, 1)
	verb := func(args ...string) string {
		t.Helper()
		out, err := glovebox(append([]string{"--data", data}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	verb("archive", id)
	if out := verb("ls"); strings.Contains(out, id) || !strings.Contains(out, "ls --all") {
		t.Errorf("ls prints an archived session:\n%s", out)
	}
	if out := verb("ls", "--all"); !strings.Contains(out, id) {
		t.Errorf("ls --all lacks the archived session:\n%s", out)
	}
	s.post(id, "messages", httpapi.MessageRequest{Text: "more"})
	s.awaitTurns(id, 2)
	if s.show(id).Archived {
		t.Error("a session that was written to is still archived")
	}
	s.post(id, "close", nil)
	verb("archive", id)
	if v := s.show(id); !v.Archived || v.Status != task.StatusEnded {
		t.Errorf("archived %v, %s; want an ended session out of sight", v.Archived, v.Status)
	}
	verb("archive", id, "--undo")
	if s.show(id).Archived {
		t.Error("it was not put back")
	}

	for title, ok := range map[string]bool{"a better title": true, "": false, "two\nlines": false, strings.Repeat("ж", 200): true, strings.Repeat("ж", 201): false} {
		err := s.call(t.Context(), "PATCH", "/sessions/"+id, httpapi.RenameRequest{Title: title}, nil)
		var api *apiError
		if ok && err != nil || !ok && (!errors.As(err, &api) || api.Field != "title") {
			t.Errorf("rename to %.20q: %v", title, err)
		}
	}
}
