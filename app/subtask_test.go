package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Two subagents at a time work in the sandbox of the session that asked for them,
// and what they leave there is there for it: files, and what runs.
func TestSubtasks_shareTheSandbox(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		ws, sleep := workspace(t, 1000), nap()
		s := start(t, dataDir(t))
		// Neither ends before the other has begun.
		meet := "touch %s; while [ ! -e %s ]; do sleep .1; done; hostname > %[1]s"
		id := s.open(httpapi.OpenRequest{
			Goal: "go", Workspace: ws, Spec: sandbox.Spec{Wall: wall},
			Model: conversing(t, map[string][]any{
				"do the left":  {call("Bash", map[string]any{"command": fmt.Sprintf(meet, "left", "right")}), say("left is done")},
				"do the right": {call("Bash", map[string]any{"command": fmt.Sprintf(meet, "right", "left") + "; sleep " + sleep + " >/dev/null 2>&1 & echo $! > pid"}), say("right is done")},
			}, hand("general-purpose", "do the left", "do the right"), call("Bash", map[string]any{"command": "cat left right; hostname; kill -0 $(cat pid) && echo alive; kill $(cat pid)"}), say("all done")),
		})
		r := awaitEvent(s, id, time.Minute, func(r *task.ToolResultRecorded) bool { return strings.Contains(r.Text, "alive") })
		if lines := strings.Fields(r.Text); len(lines) != 4 || lines[0] == "" || lines[0] != lines[1] || lines[1] != lines[2] {
			t.Errorf("the session sees %q, want one host name three times and a process alive", r.Text)
		}
		awaitEvent(s, id, 20*time.Second, func(e *task.TaskSuspended) bool { return e.WakeOn == task.WakeNextGoal })
		var told []string
		own := map[string]int{} // calls by task
		s.await(id, 30*time.Second, "the results", func(f httpapi.Frame) bool {
			if f.Type != "event" {
				return false
			}
			p, err := task.Decode(*f.Event)
			if err != nil {
				t.Fatal(err)
			}
			switch p := p.(type) {
			case *task.ToolResultRecorded:
				if own[f.Event.TaskID]++; f.Event.TaskID == id && p.Tool == "Task" {
					told = append(told, p.Text)
				}
			case *task.TaskSuspended:
				return f.Event.TaskID == id
			}
			return false
		})
		if len(told) != 2 || len(own) != 3 || own[id] != 3 {
			t.Errorf("the session was told %q; calls by task: %v", told, own)
		}
		if v := s.show(id); v.Status != task.StatusIdle || len(v.Running) != 0 || len(v.Waiting) != 0 || v.Usage.Output == 0 {
			t.Errorf("the session is %+v", v)
		}
	})
}

// A server that is killed while a subagent works leaves its command running; the
// next one goes on with that very subagent, and its answer is the result of the
// call that asked for it.
func TestSubtask_serverKilled(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data, ws := dataDir(t), workspace(t, 1000)
		s := start(t, data)
		id := s.open(httpapi.OpenRequest{
			Goal: "go", Workspace: ws, Spec: sandbox.Spec{Wall: wall},
			Model: conversing(t, map[string][]any{
				"take long": {call("Bash", map[string]any{"command": "echo x >> log; echo begun; sleep 5; echo done"}), say("it took long")},
			}, hand("general-purpose", "take long"), say("all done")),
		})
		s.await(id, 30*time.Second, "the command's output", func(f httpapi.Frame) bool {
			return f.Type == "live" && f.Live.Kind == stream.LiveOutput && f.Live.TaskID != id && strings.Contains(f.Live.Data, "begun")
		})
		s.kill()

		s = start(t, data)
		result := awaitEvent(s, id, 30*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == "Task" })
		if result.Status != task.CallOK || result.Text != "it took long" {
			t.Errorf("result %s %q, want the subagent's answer", result.Status, result.Text)
		}
		awaitEvent(s, id, 30*time.Second, func(e *task.TaskSuspended) bool { return e.WakeOn == task.WakeNextGoal })
		spawned, calls := 0, 0
		for _, p := range s.payloads(id) {
			switch p := p.(type) {
			case *task.SubtaskSpawned:
				spawned++
			case *task.ToolCallStarted:
				if p.Tool == "Bash" {
					calls++
				}
			}
		}
		log, err := os.ReadFile(filepath.Join(ws, "log"))
		if err != nil || string(log) != "x\n" || spawned != 1 || calls != 1 {
			t.Errorf("log holds %q (%v), %d subagents, %d commands; want one each", log, err, spawned, calls)
		}
	})
}

// A stop ends what a subagent runs, and the proof of that is the session's.
func TestSubtask_stop(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		naps := []any{nap(), nap()}
		s := start(t, dataDir(t))
		id := s.open(httpapi.OpenRequest{
			Goal: "go", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: wall},
			Model: conversing(t, map[string][]any{
				"sleep": {call("Bash", map[string]any{"command": fmt.Sprintf("setsid sleep %s & sleep %s & echo up; wait", naps...)}), say("never said")},
			}, hand("general-purpose", "sleep"), say("never said")),
		})
		s.awaitOutput(id, "up")
		awaitSleeps(t, naps...)
		s.post(id, "interrupt", nil)
		s.awaitSession(id, 30*time.Second, "the end of the turn", func(v httpapi.Session) bool { return v.Status == task.StatusIdle })
		awaitGone(t, naps...)
		var stopped []*task.TurnInterrupted
		cancelled := false
		for _, p := range s.payloads(id) {
			switch p := p.(type) {
			case *task.TurnInterrupted:
				stopped = append(stopped, p)
			case *task.TaskCancelled:
				cancelled = true
			}
		}
		if len(stopped) != 2 || !cancelled {
			t.Fatalf("%d turns were interrupted, want the subagent's and the session's; the subagent's task cancelled: %v", len(stopped), cancelled)
		}
		for _, p := range stopped {
			if len(p.Kills) != 1 || p.Left != 0 || p.Unknown != 0 {
				t.Errorf("interrupted: %+v, want one kill with nothing left", p)
			}
		}
	})
}

// What a subagent may not do without a person's word waits at its session, also
// through the death of the server.
func TestSubtask_approval(t *testing.T) {
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	s := start(t, data)
	id := s.open(httpapi.OpenRequest{
		Goal: "go", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallNamespace}, Approvals: task.ApproveAsk,
		Model: conversing(t, map[string][]any{
			"ask me": {call("Bash", map[string]any{"command": "echo ran"}), call("AskUser", map[string]any{"question": "Which?", "options": []string{"this", "that"}}), say("asked")},
		}, hand("general-purpose", "ask me"), say("all done")),
	})
	waits := func(v httpapi.Session) bool { return v.Status == task.StatusWaiting && len(v.Waiting) == 1 }
	v := s.awaitSession(id, 30*time.Second, "the approval", waits)
	if w := v.Waiting[0]; w.Tool != "Bash" || w.TaskID == id || w.TaskID == "" {
		t.Errorf("waiting: %+v", w)
	}
	s.kill()

	s = start(t, data)
	v = s.awaitSession(id, 30*time.Second, "the approval", waits)
	s.post(id, "approvals/"+v.Waiting[0].CallID, httpapi.DecisionRequest{Allow: true})
	ran := awaitEvent(s, id, 20*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == "Bash" })
	if ran.Status != task.CallOK || !strings.Contains(ran.Text, "ran") {
		t.Errorf("the call ended with %s %q", ran.Status, ran.Text)
	}
	v = s.awaitSession(id, 20*time.Second, "the question", func(v httpapi.Session) bool { return waits(v) && v.Waiting[0].Text == "Which?" })
	s.post(id, "answers/"+v.Waiting[0].CallID, httpapi.AnswerRequest{Text: "that"})
	if r := awaitEvent(s, id, 20*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == "Task" }); r.Status != task.CallOK || r.Text != "asked" {
		t.Errorf("the subagent ended with %s %q", r.Status, r.Text)
	}
	s.awaitSession(id, 20*time.Second, "the end of the turn", func(v httpapi.Session) bool { return v.Status == task.StatusIdle && len(v.Waiting) == 0 })
}

// Where the sandbox has no browser, page work cannot be handed on, and the model is
// told so.
func TestSubtask_webWithoutABrowser(t *testing.T) {
	s := start(t, dataDir(t))
	id := s.open(httpapi.OpenRequest{
		Goal: "go", Agent: "browser", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallLocal}, Approvals: task.ApproveAuto,
		Model: conversing(t, map[string][]any{"open a page": {say("never said")}}, hand("web", "open a page"), say("all done")),
	})
	r := awaitEvent(s, id, 20*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == "Task" })
	if r.Status != task.CallError || !strings.Contains(r.Text, "no browser") {
		t.Errorf("result %s %q", r.Status, r.Text)
	}
}

// The subagents for web pages have the session's browser, whoever has asked for them,
// one after the other; the session's own agent has not.
func TestSubtask_web(t *testing.T) {
	t.Parallel()
	withChromium(t)
	s, ws := start(t, dataDir(t)), workspace(t, 1000)
	open := func(page string) any {
		return call("browser_navigate", map[string]any{"url": "http://127.0.0.1:8765/" + page})
	}
	id := s.open(httpapi.OpenRequest{
		Agent: "browser", Workspace: ws, Spec: sandbox.Spec{Wall: sandbox.WallNamespace}, Plugins: []string{task.PluginBrowser},
		Model: conversing(t, map[string][]any{
			"read the first":  {open("first.html"), say("I have read the first")},
			"hand it on":      {open("second.html"), hand("web", "read the second"), say("it was read")},
			"read the second": {open("second.html"), say("I have read the second")},
		}, open("first.html"), map[string]any{"calls": []any{
			handing("web", "read the first"), handing("general-purpose", "hand it on"),
		}}, say("all done")),
	})
	s.awaitState(id, 30*time.Second, sandbox.StateReady)
	s.site(id, ws, map[string]string{"first.html": "<title>The First</title>", "second.html": "<title>The Second</title>"})
	s.post(id, "messages", httpapi.MessageRequest{Text: "go"})
	s.awaitSession(id, time.Minute, "the end of the turn", func(v httpapi.Session) bool { return v.Status == task.StatusIdle && v.Usage.Output > 0 })

	var opened, told []string
	web := map[string]bool{} // the subtasks that are
	browsing := ""           // the one of them that works
	for _, e := range s.events(id) {
		p, err := task.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		switch p := p.(type) {
		case *task.SubtaskSpawned:
			web[p.TaskID] = p.Agent == "web"
		case *task.ToolCallStarted:
			if !web[e.TaskID] {
				continue
			}
			if browsing != "" {
				t.Errorf("%s works while %s does", e.TaskID, browsing)
			}
			browsing = e.TaskID
		case *task.TaskCompleted:
			if browsing == e.TaskID {
				browsing = ""
			}
		case *task.ToolResultRecorded:
			switch {
			case p.Tool == "browser_navigate" && p.Status == task.CallOK:
				opened = append(opened, p.Text)
				if !web[e.TaskID] {
					t.Errorf("%s has the browser", e.TaskID)
				}
			case p.Tool == "browser_navigate" && !strings.Contains(p.Text, "There is no tool called"):
				t.Errorf("%s: %s", p.Status, p.Text)
			case p.Tool == "Task":
				told = append(told, p.Text)
			}
		}
	}
	pages := strings.Join(opened, "\n")
	if len(opened) != 2 || !strings.Contains(pages, "The First") || !strings.Contains(pages, "The Second") {
		t.Errorf("opened: %q", opened)
	}
	if got := strings.Join(told, "\n"); len(told) != 3 || !strings.Contains(got, "I have read the first") || !strings.Contains(got, "I have read the second") {
		t.Errorf("told: %q", told)
	}
}

// A terminal shows what a subagent does, each line with who does it.
func TestRun_printsSubagents(t *testing.T) {
	ws := workspace(t, 1000)
	if err := os.WriteFile(filepath.Join(ws, "a.txt"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := glovebox("run", "--data", dataDir(t), "--wall", "local", "--approvals", "auto", "--workspace", ws,
		"--model", conversing(t, map[string][]any{"find it": {call("Glob", map[string]any{"pattern": "*.txt"}), say("it is a.txt")}}, hand("explore", "find it"), say("all done")), "go")
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), log.String())
	}
	for _, want := range []string{"→ explore: find it\n", "  [explore] ▸ Glob {\"pattern\":\"*.txt\"}\n", "  [explore]   ok, ", "← explore: ok\nit is a.txt\n", "all done"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, out.String())
		}
	}
}

// conversing is scripted with steps of their own for the conversations whose first
// message holds a text.
func conversing(t testing.TB, own map[string][]any, steps ...any) string {
	t.Helper()
	type conversation struct {
		Of    string `json:"of"`
		Steps []any  `json:"steps"`
	}
	script := struct {
		Steps         []any          `json:"steps"`
		Conversations []conversation `json:"conversations"`
	}{Steps: steps}
	for of, steps := range own {
		script.Conversations = append(script.Conversations, conversation{of, steps})
	}
	body, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, body, 0o644); err != nil {
		t.Fatal(err)
	}
	return "script:" + path
}

// hand is a script's step that hands work to subagents of a kind, side by side.
func hand(agent string, prompts ...string) any {
	var calls []any
	for _, p := range prompts {
		calls = append(calls, handing(agent, p))
	}
	return map[string]any{"text": "", "calls": calls}
}

func handing(agent, prompt string) any {
	return map[string]any{"tool": "Task", "input": map[string]any{"description": prompt, "prompt": prompt, "subagent_type": agent}}
}
