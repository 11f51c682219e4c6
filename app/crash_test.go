package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// A server that is killed in the middle of a command leaves the command running;
// the next server finds session, sandbox and command again and records the
// result. The command ran once.
func TestServerKilledMidCall(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data, ws := dataDir(t), workspace(t, 1000)
		s := start(t, data)
		id := s.open(httpapi.OpenRequest{
			Goal: "go", Workspace: ws, Spec: sandbox.Spec{Wall: wall},
			Model: scripted(t, call("Bash", map[string]any{"command": "echo x >> log; echo begun; sleep 5; echo done"}), say("all done")),
		})
		s.await(id, 30*time.Second, "the command's output", func(f httpapi.Frame) bool {
			return f.Type == "live" && f.Live.Kind == stream.LiveOutput && strings.Contains(f.Live.Data, "begun")
		})
		before := s.show(id)
		s.kill()

		s = start(t, data)
		result := awaitEvent(s, id, 30*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == "Bash" })
		if result.Status != task.CallOK || !strings.Contains(result.Text, "begun\ndone") {
			t.Errorf("result %s %q, want ok with begun and done", result.Status, result.Text)
		}
		awaitEvent(s, id, 30*time.Second, func(e *task.TaskSuspended) bool { return e.Reason == task.WaitingHuman })
		after := s.show(id)
		if after.Ref != before.Ref || after.Ref == "" {
			t.Errorf("sandbox %q after the restart, want %q", after.Ref, before.Ref)
		}
		if after.Generation <= before.Generation {
			t.Errorf("generation %d after the restart, want more than %d", after.Generation, before.Generation)
		}
		log, err := os.ReadFile(filepath.Join(ws, "log"))
		if err != nil || string(log) != "x\n" {
			t.Errorf("log holds %q (%v), want one line", log, err)
		}
		if got := s.bash(id, "hostname"); !strings.Contains(got.Text, after.ShortID) {
			t.Errorf("hostname %q, want %s", got.Text, after.ShortID)
		}
	})
}

// A guest that is killed in the middle of a command takes the sandbox with it.
// Whether the command had its effect is unknown, is said so, and is not tried
// again by itself.
func TestGuestKilledMidCall(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		ws := workspace(t, 1000)
		s := start(t, dataDir(t))
		id := s.open(httpapi.OpenRequest{
			Goal: "go", Workspace: ws, Spec: sandbox.Spec{Wall: wall},
			Model: scripted(t, call("Bash", map[string]any{"command": "echo x >> log; echo begun; sleep 30; echo done"}), say("all done")),
		})
		s.await(id, 30*time.Second, "the command's output", func(f httpapi.Frame) bool {
			return f.Type == "live" && f.Live.Kind == stream.LiveOutput && strings.Contains(f.Live.Data, "begun")
		})
		if err := syscall.Kill(guestOf(t, s.show(id)), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		v := s.awaitState(id, 5*time.Second, sandbox.StateStopped)
		if v.Sandbox.Cause != sandbox.CauseKilled {
			t.Errorf("cause %q, want %q", v.Sandbox.Cause, sandbox.CauseKilled)
		}
		s.post(id, "start", nil)
		s.awaitState(id, 20*time.Second, sandbox.StateReady)
		result := awaitEvent(s, id, 20*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == "Bash" })
		if result.Status != task.CallUnknown || !strings.Contains(result.Text, "utcome unknown") {
			t.Errorf("result %s %q, want an unknown outcome", result.Status, result.Text)
		}
		if got := s.bash(id, "cat log"); got.Text != "x\n" && got.Text != "x" {
			t.Errorf("log holds %q, want one line", got.Text)
		}
	})
}

// guestOf returns the pid, as the host sees it, of the guest in a session's sandbox.
func guestOf(t *testing.T, v httpapi.Session) int {
	t.Helper()
	if v.Wall == sandbox.WallDocker {
		out, err := exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", v.ShortID).Output()
		pid, parse := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil || parse != nil || pid == 0 {
			t.Fatalf("pid of container %s: %q, %v", v.ShortID, out, err)
		}
		return pid
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		if strings.Contains(string(cmdline), `"guest_id":"`+v.ShortID) && firstInNamespace.Match(status) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("no guest of sandbox %s among the processes", v.ShortID)
	return 0
}

// firstInNamespace matches the status of a process that is pid 1 of a namespace
// below ours.
var firstInNamespace = regexp.MustCompile(`(?m)^NSpid:.*\s1$`)
