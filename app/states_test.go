package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// awaitCause waits until a session's sandbox is observed in a state, for a cause.
func (s *server) awaitCause(id string, within time.Duration, want sandbox.State, cause string) {
	s.t.Helper()
	s.awaitSession(id, within, string(want)+" because "+cause, func(v httpapi.Session) bool {
		return v.Sandbox != nil && v.Sandbox.Value == want && v.Sandbox.Cause == cause
	})
}

// causes are those that a session's log gives for a state, in order.
func (s *server) causes(id string, of sandbox.State) (causes []string) {
	s.t.Helper()
	for _, p := range s.payloads(id) {
		if c, ok := p.(*task.SandboxStateChanged); ok && c.Condition.Value == of {
			causes = append(causes, c.Condition.Cause)
		}
	}
	return causes
}

// A command that takes all memory dies alone; a full memory that ends the guest
// stops the sandbox, which says so and starts again.
func TestOutOfMemory(t *testing.T) {
	eachWall(t, testOutOfMemory)
}

func testOutOfMemory(t *testing.T, wall sandbox.Wall) {
	t.Parallel()
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: wall, Resources: map[string]string{"memory": "64m", "shm": "256m"}}, workspace(t, 1000))
	s.mark(id)
	r := s.bash(id, "tail /dev/zero")
	told := wall == sandbox.WallNamespace || // whose guest does not see its limit
		strings.Contains(r.Text, "probably out of memory (limit 64m)")
	if !strings.Contains(r.Text, "137") || !told {
		t.Errorf("a command without memory: %s %q", r.Status, r.Text)
	}
	if r := s.bash(id, "echo on"); r.Status != task.CallOK {
		t.Errorf("the next command: %s %q", r.Status, r.Text)
	}
	if v := s.show(id); v.Sandbox.Value != sandbox.StateReady {
		t.Errorf("the sandbox is %+v", v.Sandbox)
	}
	// Files in memory stay when their writer is killed: then it is the guest's turn, as
	// soon as it needs a little more itself.
	until(t, time.Minute, func() error {
		if s.show(id).Sandbox.Value == sandbox.StateStopped {
			return nil
		}
		_ = s.call(t.Context(), "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: "Bash", Input: []byte(`{"command":"cat /dev/zero >> /dev/shm/full"}`)}, nil)
		return errors.New("a full memory does not end the guest")
	})
	s.awaitCause(id, moments, sandbox.StateStopped, sandbox.CauseOutOfMemory)
	card := s.card(id)
	if wall == sandbox.WallDocker && (card.Description == nil || card.Description.Limits["memory"] == "") {
		t.Errorf("the card of a stopped one does not say its limit: %+v", card)
	}
	s.post(id, "start", nil)
	s.awaitState(id, moments, sandbox.StateReady)
	s.marked(id)
}

// A sandbox whose guest cannot run has failed, with its own last words; what was
// made is gone, and Re-provision tries again.
func TestFailed_lastWords(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	s := start(t, dataDir(t))
	id := s.open(httpapi.OpenRequest{Title: "dies", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: deadly(t, s)}})
	v := s.awaitState(id, 30*time.Second, sandbox.StateFailed)
	if !strings.Contains(v.Sandbox.Cause, "ended with code") {
		t.Errorf("cause %q", v.Sandbox.Cause)
	}
	e := awaitEvent(s, id, moments, func(c *task.SandboxStateChanged) bool { return c.Condition.Value == sandbox.StateFailed })
	if !strings.Contains(e.Detail, "GOMEMLIMIT") { // what the runtime complains of
		t.Errorf("detail %q lacks the container's last words", e.Detail)
	}
	if left := containersOf(t, s.about().Instance); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, verb := range []string{"attach", "start", "stop", "unpause", "restart", "snapshot"} {
		if err := s.call(t.Context(), "POST", "/sessions/"+id+"/"+verb, nil, nil); err == nil {
			t.Errorf("%s of one that failed is accepted", verb)
		}
	}
}

// A container that its engine starts again by itself is the same one, whoever
// has told the engine to.
func TestRestartedByTheEngine(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000))
	s.mark(id)
	before, boot := s.show(id), s.card(id).Hello.BootID
	engine(t, "update", "--restart", "always", before.ShortID)
	if err := syscall.Kill(guestOf(t, before), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.post(id, "attach", nil) // in whatever state it is by now
	s.marked(id)
	if v := s.show(id); v.Ref != before.Ref || s.bindings(id) != 1 {
		t.Errorf("at %s, bound %d times, want %s, once", v.Ref, s.bindings(id), before.Ref)
	}
	if now := s.card(id).Hello; now == nil || now.BootID == boot {
		t.Errorf("it was never restarted: %+v", now)
	}
}

// deadly returns an image whose environment no Go program starts in.
func deadly(t *testing.T, s *server) string {
	t.Helper()
	if out, err := glovebox("image", "build", "--tiny", "--data", s.data).CombinedOutput(); err != nil {
		t.Fatalf("tiny image: %v\n%s", err, out)
	}
	made := engine(t, "create", s.about().DefaultImage, "/bin/true")[0]
	defer engine(t, "rm", made)
	name := "localhost/deadly-" + nap() + ":1"
	engine(t, "commit", "-c", "ENV GOMEMLIMIT=lots", made, name)
	t.Cleanup(func() { engine(t, "rmi", name) })
	return name
}

// Every way of letting go of a sandbox can be followed by a way back: to the same
// one where that is there, else to a new one on the same workspace, and the model
// is told.
func TestReprovision_whereItCan(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		ws := workspace(t, 1000)
		id := s.opened(sandbox.Spec{Wall: wall}, ws)
		s.bash(id, "echo work > work")
		s.mark(id)
		first := s.show(id)
		held := func(state string) {
			t.Helper()
			wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/reprovision", nil, nil), "sandbox_held")
			if v := s.show(id); v.Ref != first.Ref {
				t.Errorf("%s: ref %s, want %s", state, v.Ref, first.Ref)
			}
		}
		held("ready")
		if wall == sandbox.WallDocker {
			engine(t, "pause", first.ShortID)
			s.awaitState(id, moments, sandbox.StatePaused)
			held("paused")
			s.post(id, "unpause", nil)
			s.awaitState(id, moments, sandbox.StateReady)
			s.marked(id)
		}
		s.post(id, "stop", nil)
		s.awaitState(id, moments, sandbox.StateStopped)
		held("stopped")
		wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/unpause", nil, nil), "sandbox_stopped")
		s.post(id, "start", nil)
		s.awaitState(id, moments, sandbox.StateReady)
		s.marked(id)

		// Kept for its user, and taken back.
		guest, traces := guestOf(t, first), tracesOf(t, data, first)
		s.post(id, "release", httpapi.ReleaseRequest{How: "keep"})
		s.awaitState(id, moments, sandbox.StateDetached)
		s.post(id, "attach", nil)
		s.awaitState(id, moments, sandbox.StateReady)
		s.marked(id)
		if v := s.show(id); v.Ref != first.Ref {
			t.Errorf("taken back: ref %s, want %s", v.Ref, first.Ref)
		}

		// Kept, and a new one made beside it.
		s.post(id, "release", httpapi.ReleaseRequest{How: "keep"})
		s.awaitState(id, moments, sandbox.StateDetached)
		t.Cleanup(func() { discard(t, wall, first.ShortID, guest, traces) })
		refs := []sandbox.Ref{first.Ref}
		again := func(state string) {
			t.Helper()
			s.post(id, "reprovision", nil)
			v := s.awaitState(id, moments, sandbox.StateReady)
			if r := s.bash(id, "cat work; ls $HOME/m"); !strings.Contains(r.Text, "work") || strings.Contains(r.Text, "glovebox/m\n") {
				t.Errorf("%s: the new sandbox has %q", state, r.Text)
			}
			if v = s.show(id); slices.Contains(refs, v.Ref) {
				t.Errorf("%s: %s is not a new sandbox", state, v.Ref)
			}
			refs = append(refs, v.Ref)
		}
		again("detached")
		s.post(id, "release", nil)
		s.awaitState(id, moments, sandbox.StateReleased)
		again("released")
		if wall == sandbox.WallDocker {
			engine(t, "rm", "-f", s.show(id).ShortID)
			s.awaitState(id, moments, sandbox.StateLost)
			again("lost")
		}
		told := 0
		for _, p := range s.payloads(id) {
			if m, ok := p.(*task.MessagesAppended); ok && m.Notice && strings.Contains(fmt.Sprint(m.Messages), "a new one") {
				told++
			}
		}
		if told != len(refs)-1 {
			t.Errorf("the model was told %d times of %d new sandboxes", told, len(refs)-1)
		}
	})
}

// A sandbox that nobody uses is stopped and not removed; the next message starts
// it again. What runs in one keeps it.
func TestIdleStop(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		config := filepath.Join(t.TempDir(), "config.toml")
		write(t, config, "[sandbox]\nidle_stop = \"2s\"\n", 0)
		s := start(t, dataDir(t), "--config", config)
		spec := sandbox.Spec{Wall: wall}
		model := scripted(t, call("Bash", map[string]any{"command": "cat $HOME/m"}), say("done"))
		quiet := s.open(httpapi.OpenRequest{Title: "quiet", Workspace: workspace(t, 1000), Spec: spec, Model: model})
		awaitEvent(s, quiet, time.Minute, func(*task.TaskHostBound) bool { return true })
		s.mark(quiet)
		works := s.opened(spec, workspace(t, 1000))
		n := nap()
		s.bash(works, "sleep "+n+" >/dev/null 2>&1 &")
		awaitSleeps(t, n)
		before := len(s.causes(works, sandbox.StateStopped)) // on a slow machine it was idle until then

		s.awaitCause(quiet, 20*time.Second, sandbox.StateStopped, sandbox.CauseIdle)
		ref := s.show(quiet).Ref
		s.post(quiet, "messages", httpapi.MessageRequest{Text: "go on"})
		s.awaitResult(quiet, "marked", task.CallOK)
		if v := s.show(quiet); v.Ref != ref {
			t.Errorf("ref %s, want %s", v.Ref, ref)
		}
		s.awaitTurns(quiet, 1)
		// It is idle once more, and a person's command starts it as well.
		again := time.Now()
		for len(s.causes(quiet, sandbox.StateStopped)) < 2 {
			if since(again) > 20*time.Second {
				t.Fatal("it is not stopped a second time")
			}
			s.awaitCause(quiet, 20*time.Second, sandbox.StateStopped, sandbox.CauseIdle)
		}
		s.marked(quiet)
		if causes := s.causes(works, sandbox.StateStopped); len(causes) > before || !sleeping(n) {
			t.Errorf("where something runs: stopped because %q", causes[before:])
		}
		if v := s.show(works); v.Sandbox.Value != sandbox.StateReady {
			t.Errorf("where something runs: %+v", v.Sandbox)
		}
	})
}
