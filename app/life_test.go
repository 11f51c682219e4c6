package app

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// moments is how long a change behind our back may stay unseen.
const moments = 5 * time.Second

// A container that is removed behind our back is lost: that is shown without
// anybody asking, calls fail at once and do not storm the engine, and a new
// sandbox goes on with the same workspace and conversation.
func TestContainerRemoved(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	proxy := newEngineProxy(t)
	s := startWith(t, dataDir(t), []string{"DOCKER_HOST=" + proxy.host})
	ws := workspace(t, 1000)
	bash := func(command string) any { return call("Bash", map[string]any{"command": command}) }
	id := s.open(httpapi.OpenRequest{
		Goal: "first", Workspace: ws, Spec: sandbox.Spec{Wall: sandbox.WallDocker},
		Model: scripted(t,
			bash("echo kept > kept; echo inside > $HOME/inside; echo one"), say("first answer"),
			bash("echo two"), say("second answer"),
			bash("cat kept; ls $HOME; echo three"), say("third answer")),
	})
	s.awaitResult(id, "one", task.CallOK)
	s.awaitTurns(id, 1)
	before := s.show(id)
	engine(t, "rm", "-f", before.ShortID)
	if v := s.awaitState(id, moments, sandbox.StateLost); v.Sandbox.Cause != sandbox.CauseRemoved {
		t.Errorf("cause %q, want %q", v.Sandbox.Cause, sandbox.CauseRemoved)
	}

	const calls = 10
	asked, begun := proxy.requests.Load(), time.Now()
	for range calls {
		err := s.call(t.Context(), "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: "Bash", Input: []byte(`{"command":"true"}`)}, nil)
		wantCode(t, err, "sandbox_lost")
	}
	if n, took := proxy.requests.Load()-asked, since(begun); n > 3*calls || took > moments {
		t.Errorf("%d calls to a lost sandbox asked the engine %d times and took %v", calls, n, took)
	}
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/attach", nil, nil), "sandbox_lost")

	s.post(id, "messages", httpapi.MessageRequest{Text: "second"})
	awaitEvent(s, id, moments, func(r *task.ToolResultRecorded) bool { return r.Status == task.CallLost })
	s.awaitTurns(id, 2)

	s.post(id, "reprovision", nil)
	s.awaitState(id, moments, sandbox.StateReady)
	after := s.show(id)
	if after.Ref == before.Ref || after.Ref == "" || after.ShortID == before.ShortID {
		t.Errorf("ref %q after a new sandbox was made for %q", after.Ref, before.Ref)
	}
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/reprovision", nil, nil), "sandbox_held")
	s.post(id, "messages", httpapi.MessageRequest{Text: "third"})
	result := s.awaitResult(id, "three", task.CallOK)
	if !strings.Contains(result.Text, "kept") || strings.Contains(result.Text, "inside") {
		t.Errorf("the new sandbox shows %q, want the workspace's file and not the old home's", result.Text)
	}
	s.awaitTurns(id, 3)

	var bound []*task.TaskHostBound
	notice, told := "", 0
	for _, p := range s.payloads(id) {
		switch p := p.(type) {
		case *task.TaskHostBound:
			bound = append(bound, p)
		case *task.MessagesAppended:
			if p.Notice {
				notice = fmt.Sprint(p.Messages)
				told = len(bound)
			}
		}
	}
	if len(bound) != 2 || bound[1].ExecEnvRef != after.Ref || !bound[1].Reprovision {
		t.Errorf("bound as %+v, want a second time to %s", bound, after.Ref)
	}
	if told != 2 || !strings.Contains(notice, "replaced") {
		t.Errorf("the model was told %q (after %d bindings)", notice, told)
	}
}

// A call that runs while its container is removed ends as lost, not as a
// command that failed.
func TestContainerRemovedMidCall(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	s := start(t, dataDir(t))
	id := s.open(httpapi.OpenRequest{
		Goal: "go", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallDocker},
		Model: scripted(t, call("Bash", map[string]any{"command": "echo begun; sleep 60"}), say("done")),
	})
	s.await(id, 30*time.Second, "the command's output", func(f httpapi.Frame) bool {
		return f.Type == "live" && f.Live.Kind == stream.LiveOutput && strings.Contains(f.Live.Data, "begun")
	})
	engine(t, "rm", "-f", s.show(id).ShortID)
	result := awaitEvent(s, id, moments, func(r *task.ToolResultRecorded) bool { return r.Tool == "Bash" })
	if result.Status != task.CallLost || strings.Contains(result.Text, "137") || !strings.Contains(result.Text, "removed") {
		t.Errorf("result %s %q, want lost because removed", result.Status, result.Text)
	}
	s.awaitState(id, moments, sandbox.StateLost)
}

// A container that somebody stops, kills or pauses is shown as that, and comes
// back with what is in it.
func TestContainerChangedByOthers(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	shared := start(t, dataDir(t))
	for _, tt := range []struct {
		verb, back string
		want       sandbox.State
		cause      string
		code       string // of a call meanwhile
	}{
		{"stop", "start", sandbox.StateStopped, sandbox.CauseByHand, "sandbox_stopped"},
		{"stop", "attach", sandbox.StateStopped, sandbox.CauseByHand, "sandbox_stopped"},
		{"kill", "start", sandbox.StateStopped, sandbox.CauseKilled, "sandbox_stopped"},
		{"pause", "attach", sandbox.StatePaused, sandbox.CauseByHand, "sandbox_stopped"},
	} {
		t.Run(tt.verb+" then "+tt.back, func(t *testing.T) {
			t.Parallel()
			s := shared.in(t)
			id := s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000))
			s.mark(id)
			before := s.show(id)
			engine(t, tt.verb, before.ShortID)
			if v := s.awaitState(id, moments, tt.want); v.Sandbox.Cause != tt.cause {
				t.Errorf("%s because %q, want %q", v.Sandbox.Value, v.Sandbox.Cause, tt.cause)
			}
			err := s.call(t.Context(), "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: "Bash", Input: []byte(`{"command":"true"}`)}, nil)
			wantCode(t, err, tt.code)
			s.post(id, tt.back, nil)
			s.awaitState(id, moments, sandbox.StateReady)
			s.marked(id)
			if after := s.show(id); after.Ref != before.Ref {
				t.Errorf("ref %q, want %q", after.Ref, before.Ref)
			}
		})
	}
}

// A namespace sandbox whose first process is killed is stopped, and starts
// again with its home.
func TestNamespaceKilled(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: sandbox.WallNamespace}, workspace(t, 1000))
	s.mark(id)
	if err := syscall.Kill(guestOf(t, s.show(id)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if v := s.awaitState(id, moments, sandbox.StateStopped); v.Sandbox.Cause != sandbox.CauseKilled {
		t.Errorf("cause %q, want %q", v.Sandbox.Cause, sandbox.CauseKilled)
	}
	s.post(id, "start", nil)
	s.awaitState(id, moments, sandbox.StateReady)
	s.marked(id)
}

// Orphans of many calls are reaped, so that they never fill the sandbox; its
// release is quick, and quiet when it is repeated.
func TestOrphansAndRelease(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := start(t, dataDir(t))
		id := s.opened(sandbox.Spec{Wall: wall, Resources: map[string]string{"pids": "128"}}, workspace(t, 1000))
		for i := range 200 {
			if r := s.bash(id, "(sleep .1 &); echo $(echo forked)"); r.Status != task.CallOK || !strings.Contains(r.Text, "forked") {
				t.Fatalf("call %d: %s %q", i+1, r.Status, r.Text)
			}
		}
		r := s.bash(id, `while grep -qs '^Name:.sleep' /proc/[0-9]*/status; do :; done
			grep -ls '^State:.Z' /proc/[0-9]*/status; ls -d /proc/[0-9]* | wc -l`)
		// The guest, the shell, and the two of the pipe.
		if lines := strings.Fields(r.Text); len(lines) != 1 || len(lines[0]) != 1 || lines[0] > "5" {
			t.Errorf("processes left, zombies first: %q", r.Text)
		}
		begun := time.Now()
		s.post(id, "release", nil)
		if took := since(begun); took > 3*time.Second {
			t.Errorf("release took %v", took)
		}
		s.awaitState(id, moments, sandbox.StateReleased)
		s.post(id, "release", nil)
	})
}

// A release works in whatever state the container is, and where there never was
// one.
func TestRelease_anyState(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	s := start(t, dataDir(t))
	for _, verb := range [][]string{{"pause"}, {"stop"}, {"rm", "-f"}} {
		id := s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, "")
		engine(t, append(verb, s.show(id).ShortID)...)
		s.post(id, "release", nil)
		s.awaitState(id, moments, sandbox.StateReleased)
		s.post(id, "release", nil)
	}
	if left := containersOf(t, s.about().Instance); len(left) > 0 {
		t.Errorf("containers left: %v", left)
	}
	never := s.open(httpapi.OpenRequest{Title: "none", Spec: sandbox.Spec{Wall: sandbox.WallLocal}})
	s.post(never, "release", nil)
}

func TestLocal_nothingIsLeftBehindASession(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	host := sandbox.Spec{Wall: sandbox.WallLocal}
	for _, verb := range []string{"close", "release"} {
		t.Run(verb, func(t *testing.T) {
			s := s.in(t)
			id, n := s.opened(host, workspace(t, 0)), nap()
			s.bash(id, "sleep "+n+" &")
			awaitSleeps(t, n)
			s.post(id, verb, nil)
			if sleeping(n) {
				t.Errorf("sleep %s is alive on the host", n)
			}
			if verb == "release" {
				if r := s.bash(id, "echo again"); r.Status != task.CallOK {
					t.Errorf("a call afterwards: %s %q", r.Status, r.Text)
				}
			}
		})
	}
	t.Run("one-shot", func(t *testing.T) {
		s, n := s.in(t), nap()
		id := s.open(httpapi.OpenRequest{
			Goal: "go", OneShot: true, Approvals: task.ApproveAuto, Workspace: workspace(t, 0), Spec: host,
			Model: scripted(t, call("Bash", map[string]any{"command": "sleep " + n + " &"}), say("done")),
		})
		awaitEvent(s, id, 30*time.Second, func(*task.TaskCompleted) bool { return true })
		late := time.After(20 * time.Second)
		for sleeping(n) { // the worker lets go after its last word
			select {
			case <-time.After(20 * time.Millisecond):
			case <-late:
				t.Fatalf("sleep %s is alive on the host", n)
			}
		}
	})
}

// opened opens a session without a goal and waits for its sandbox.
func (s *server) opened(spec sandbox.Spec, ws string) string {
	s.t.Helper()
	id := s.open(httpapi.OpenRequest{Title: s.t.Name(), Workspace: ws, Spec: spec})
	awaitEvent(s, id, time.Minute, func(*task.TaskHostBound) bool { return true })
	return id
}

// mark leaves a file in a sandbox outside its workspace; marked finds it there.
func (s *server) mark(id string) {
	s.t.Helper()
	if r := s.bash(id, "echo marked > $HOME/m"); r.Status != task.CallOK {
		s.t.Fatalf("mark: %s %q", r.Status, r.Text)
	}
}

func (s *server) marked(id string) {
	s.t.Helper()
	if r := s.bash(id, "cat $HOME/m"); r.Status != task.CallOK || strings.TrimSpace(r.Text) != "marked" {
		s.t.Errorf("the mark in the sandbox: %s %q", r.Status, r.Text)
	}
}

// awaitResult waits for a Bash result with a word.
func (s *server) awaitResult(id, word string, want task.CallStatus) *task.ToolResultRecorded {
	s.t.Helper()
	return awaitEvent(s, id, 30*time.Second, func(r *task.ToolResultRecorded) bool {
		return r.Status == want && strings.Contains(r.Text, word)
	})
}

// awaitTurns waits for the end of a session's n-th turn.
func (s *server) awaitTurns(id string, n int) {
	s.t.Helper()
	ended := 0
	awaitEvent(s, id, 30*time.Second, func(e *task.TaskSuspended) bool {
		ended++
		return ended == n
	})
}

// payloads returns what a session's log holds, that of its subtasks included.
func (s *server) payloads(id string) (all []task.Payload) {
	s.t.Helper()
	for _, e := range s.events(id) {
		p, err := task.Decode(e)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// events returns a session's log as it is.
func (s *server) events(id string) (all []task.Event) {
	s.t.Helper()
	for {
		after := int64(0)
		if n := len(all); n > 0 {
			after = all[n-1].Seq
		}
		var page []task.Event
		if err := s.call(s.t.Context(), "GET", fmt.Sprintf("/sessions/%s/events?after=%d", id, after), nil, &page); err != nil {
			s.t.Fatalf("events of %s: %v", id, err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// bindings counts how often a session was bound to a sandbox.
func (s *server) bindings(id string) (n int) {
	s.t.Helper()
	for _, p := range s.payloads(id) {
		if _, ok := p.(*task.TaskHostBound); ok {
			n++
		}
	}
	return n
}

func (s *server) about() httpapi.About {
	s.t.Helper()
	var a httpapi.About
	if err := s.call(s.t.Context(), "GET", "/about", nil, &a); err != nil {
		s.t.Fatalf("about: %v", err)
	}
	return a
}

// wantCode expects an error of the API.
func wantCode(t testing.TB, err error, code string) *apiError {
	t.Helper()
	var e *apiError
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v, want one of code %s", err, code)
		return &apiError{}
	}
	return e
}

// write writes a file for uid to use.
func write(t testing.TB, path, content string, uid int) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
}
