package app

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// A turn whose server ends in the middle of a command, killed or asked to, goes on
// with the next one: the command runs on meanwhile, and its result comes once. Who
// looks in between changes nothing; who acts there leaves it as it is.
func TestTurnOutlivesItsServer(t *testing.T) {
	end := map[string]func(*server){"killed": (*server).kill, "asked to end": (*server).terminate}
	between := map[string][][]string{
		"nothing": nil,
		"looking": {{"ls"}, {"show", "ID"}, {"logs", "ID"}, {"logs", "-f", "ID"}, {"doctor"}},
		"acting":  {{"exec", "ID", "--", "true"}, {"exec", "ID", "--", "true"}},
	}
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		for _, c := range [][2]string{{"killed", "looking"}, {"killed", "acting"}, {"asked to end", "nothing"}, {"asked to end", "looking"}} {
			t.Run(c[0]+", "+c[1], func(t *testing.T) {
				t.Parallel()
				data, ws := dataDir(t), workspace(t, 1000)
				s := start(t, data)
				id := s.open(httpapi.OpenRequest{
					Goal: "go", Workspace: ws, Spec: sandbox.Spec{Wall: wall},
					Model: scripted(t, call("Bash", map[string]any{"command": "echo x >> log; echo begun; until [ -e go ]; do sleep 0.1; done; echo done"}), say("all done")),
				})
				s.await(id, 30*time.Second, "the command's output", func(f httpapi.Frame) bool {
					return f.Type == "live" && f.Live.Kind == stream.LiveOutput && strings.Contains(f.Live.Data, "begun")
				})
				end[c[0]](s)
				before := lastSeq(t, data)
				for _, verb := range between[c[1]] {
					args := strings.Split(strings.ReplaceAll(strings.Join(verb, "\n"), "ID", id), "\n")
					var exit *exec.ExitError
					out, err := glovebox(append([]string{"--data", data}, args...)...).CombinedOutput()
					if errors.As(err, &exit) && verb[0] != "doctor" {
						t.Errorf("%v: %v\n%s", verb, err, out)
					}
				}
				if after := lastSeq(t, data); c[1] != "acting" && after != before {
					t.Errorf("the log is at %d, and was at %d before", after, before)
				}
				write(t, filepath.Join(ws, "go"), "", 0)

				s = start(t, data)
				result := awaitEvent(s, id, 30*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == "Bash" })
				if result.Status != task.CallOK || !strings.Contains(result.Text, "begun\ndone") {
					t.Errorf("result %s %q, want ok with begun and done", result.Status, result.Text)
				}
				awaitEvent(s, id, 30*time.Second, func(e *task.TaskSuspended) bool { return e.Reason == task.WaitingHuman })
				if log, err := os.ReadFile(filepath.Join(ws, "log")); err != nil || string(log) != "x\n" {
					t.Errorf("log holds %q (%v), want one line", log, err)
				}
			})
		}
	})
}

// lastSeq returns the seq of the newest event of a server that does not run.
func lastSeq(t testing.TB, data string) int64 {
	t.Helper()
	st := openStore(t, data)
	defer st.Close()
	events, err := st.Events(t.Context(), store.Query{})
	if err != nil || len(events) == 0 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	return events[len(events)-1].Seq
}

// A server that stops its sandboxes stops the turns in them.
func TestTurnEndsWithItsSandbox(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data, config := dataDir(t), filepath.Join(t.TempDir(), "config.toml")
	write(t, config, "on_quit = \"stop\"\n", 0)
	s := start(t, data, "--config", config)
	id := s.open(httpapi.OpenRequest{
		Goal: "go", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallNamespace},
		Model: scripted(t, call("Bash", map[string]any{"command": "echo begun; sleep 600"}), say("all done")),
	})
	s.await(id, 30*time.Second, "the command's output", func(f httpapi.Frame) bool {
		return f.Type == "live" && f.Live.Kind == stream.LiveOutput && strings.Contains(f.Live.Data, "begun")
	})
	s.terminate()
	s = start(t, data)
	stopped := awaitEvent(s, id, moments, func(*task.TurnInterrupted) bool { return true })
	if stopped.Cause != "shutdown" || len(stopped.Kills) != 1 || stopped.Left != 0 {
		t.Errorf("interrupted = %+v, want it proven, by a shutdown", stopped)
	}
}

// How many processes a stop has left is said where a kill has proven it.
func TestStoppedText(t *testing.T) {
	for want, v := range map[string]task.TurnInterrupted{
		"stopped":                         {},
		"stopped: 0 processes left, 7 ms": {Kills: make([]execenv.KillReport, 1), Took: 7 * time.Millisecond},
		"stopped; the outcome of a call is unknown: it may still run":                         {Unknown: 1},
		"stopped; the outcome of 2 calls is unknown: they may still run":                      {Unknown: 2},
		"stopped: 1 processes left, 0 ms; the outcome of a call is unknown: it may still run": {Kills: make([]execenv.KillReport, 1), Left: 1, Unknown: 1},
	} {
		if got := stoppedText(&v); got != want {
			t.Errorf("%+v is %q, want %q", v, got, want)
		}
	}
}

// What may be long takes one cell of a table, and no more of the screen.
func TestTable_isNarrow(t *testing.T) {
	var out strings.Builder
	long := strings.Repeat("very long\n", 60)
	err := (&cli{out: &out}).table([]httpapi.Session{{
		ID: "s-1", Title: long, Status: task.StatusIdle, Sandbox: &sandbox.Condition{Value: sandbox.StateFailed, Cause: long, ObservedAt: time.Now()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2 || utf8.RuneCountInString(lines[1]) > 140 || !strings.Contains(lines[1], "failed (very long") {
		t.Errorf("the table is\n%s", out.String())
	}
}

// With a server that runs, a configuration that is named is read all the same:
// one that is bad is an error, and one that is good is said not to count.
func TestConfig_besideAServer(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	s := start(t, dataDir(t))
	good := filepath.Join(t.TempDir(), "good.toml")
	write(t, good, "model = \"demo\"\n", 0)
	out, err := glovebox("ls", "--data", s.data, "--config", good).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--config is not used") {
		t.Errorf("%v: printed %q, want that it is not used", err, out)
	}
	cmd := glovebox("ls", "--data", s.data, "--config", good+".missing")
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitUsage {
		t.Errorf("exit code %d, printed %q, want %d", cmd.ProcessState.ExitCode(), out, exitUsage)
	}
	cmd = glovebox("attach", "", "--data", s.data)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "is empty") {
		t.Errorf("exit code %d, printed %q, want %d and that the name is empty", cmd.ProcessState.ExitCode(), out, exitUsage)
	}
}

// What cannot be run in a paused sandbox is said to wait for that.
func TestExec_paused(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000))
	container := s.show(id).ShortID
	engine(t, "pause", container)
	defer engine(t, "unpause", container)
	s.awaitState(id, moments, sandbox.StatePaused)
	out, err := glovebox("exec", "--data", s.data, id, "--", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the sandbox is paused; unpause it to go on") {
		t.Errorf("%v: printed %q, want that it is paused", err, out)
	}
}
