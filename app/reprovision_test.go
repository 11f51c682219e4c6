package app

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// A session whose first sandbox could not be made keeps its goal: with the fault
// mended, Re-provision makes the sandbox and the turn runs.
func TestReprovision_aGoalThatNeverHadASandbox(t *testing.T) {
	have(t, sandbox.WallDocker)
	proxy := newEngineProxy(t)
	proxy.broken.Store(true)
	ws := workspace(t, 1000)
	s := startWith(t, dataDir(t), []string{"DOCKER_HOST=" + proxy.host})
	id := s.open(httpapi.OpenRequest{
		Goal: "go", Workspace: ws, Spec: sandbox.Spec{Wall: sandbox.WallDocker},
		Model: scripted(t, call("Bash", map[string]any{"command": "echo ran > ran"}), say("done")),
	})
	awaitEvent(s, id, 20*time.Second, func(e *task.TaskSuspended) bool { return e.Reason == task.TurnFailed })
	if v := s.show(id); v.Detail == "" || v.Status != task.StatusIdle {
		t.Errorf("after the failure: status %s, detail %q", v.Status, v.Detail)
	}
	proxy.broken.Store(false)
	s.post(id, "reprovision", nil)
	awaitEvent(s, id, 20*time.Second, func(e *task.TaskSuspended) bool { return e.Reason == task.WaitingHuman })
	if body, err := os.ReadFile(filepath.Join(ws, "ran")); err != nil || string(body) != "ran\n" {
		t.Errorf("the goal's command has written %q, %v", body, err)
	}
	if v := s.show(id); v.Detail != "" {
		t.Errorf("detail %q once it has a sandbox", v.Detail)
	}
}
