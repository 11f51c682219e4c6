package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// A timeout ends everything that the call has started, however it hides, says
// what that was, and touches no other call.
func TestTimeoutKillsTheTree(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := s.in(t)
		ws := workspace(t, 1000)
		id := s.place(wall, ws)

		// What an earlier call has left running, and one that runs beside.
		earlier, beside := nap(), nap()
		s.bash(id, "sleep "+earlier+" >/dev/null 2>&1 &")
		other := s.toolAside(id, "Bash", map[string]any{
			"command": "sleep " + beside + " & echo up; while [ ! -e go ]; do sleep .1; done; kill $! && echo survived",
		})
		s.awaitOutput(id, "up")

		for _, command := range []string{
			"trap '' TERM; setsid sleep %s & (sleep %s &); sleep %s & echo begun; wait",
			"sleep %s & sleep %s & sleep %s & echo begun; wait",
			"trap '' TERM; sleep %s & sleep %s & echo begun; sleep %s",
			"(setsid sh -c '(sleep %s &) & sleep %s' &) ; setsid sleep %s & echo begun; wait; sleep 9",
			"(while [ ! -e go ]; do sleep .1; done; echo late > late) & sleep %s & sleep %s & sleep %s & echo begun; wait",
		} {
			t.Run(command, func(t *testing.T) {
				s := s.in(t)
				naps := []any{nap(), nap(), nap()}
				begun := time.Now()
				r := s.tool(id, "Bash", map[string]any{"command": fmt.Sprintf(command, naps...), "timeout": 2000})
				if took := since(begun); took > 4*time.Second {
					t.Errorf("took %v, want at most 4 s", took)
				}
				if r.Status != task.CallTimeout || !strings.HasPrefix(r.Text, "begun\n") || !strings.Contains(r.Text, "timed out after 2s") || !strings.Contains(r.Text, "; 0 processes left") {
					t.Errorf("result %s %q, want a timeout with the output and no process left", r.Status, r.Text)
				}
				d := shown(t, r)
				if d.Kill == nil || len(d.Kill.Left)+len(d.Kill.Stuck) > 0 {
					t.Fatalf("kill report %+v, want one with nothing left", d.Kill)
				}
				if len(d.Kill.Killed) < 3 || named(d.Kill.Killed, "sleep") == 0 || !strings.Contains(r.Text, "sleep (") {
					t.Errorf("named as killed are %+v, want three sleeps", d.Kill.Killed)
				}
				s.allGone(id, naps...)
			})
		}
		if err := os.WriteFile(filepath.Join(ws, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if end := <-other; end.err != nil || end.Status != task.CallOK || !strings.Contains(end.Text, "up\nsurvived") {
			t.Errorf("the call beside ended with %s %q (%v), want its own sleep alive", end.Status, end.Text, end.err)
		}
		s.bash(id, "sleep 1")
		if _, err := os.Stat(filepath.Join(ws, "late")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a child of a killed call wrote later: %v", err)
		}
		if !sleeping(earlier) {
			t.Error("the process of an earlier call was killed")
		}
		if r := s.bash(id, "echo fine"); r.Status != task.CallOK || strings.TrimSpace(r.Text) != "fine" {
			t.Errorf("the next call: %s %q", r.Status, r.Text)
		}
	})
}

// Stop ends the turn and proves that nothing of its calls is left.
func TestStopKillsTheTree(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := s.in(t)
		ws := workspace(t, 1000)
		naps, earlier := []any{nap(), nap(), nap(), nap()}, nap()
		id := s.open(httpapi.OpenRequest{
			Goal: "go", Workspace: ws, Spec: sandbox.Spec{Wall: wall},
			Model: scripted(t,
				call("Bash", map[string]any{"command": "sleep " + earlier + " >/dev/null 2>&1 &"}),
				call("Bash", map[string]any{"command": fmt.Sprintf("trap '' TERM; setsid sleep %s & (sleep %s &); (while [ ! -e go ]; do sleep .1; done; echo late > late) & (setsid sleep %s &); sleep %s & echo up; wait", naps...)}),
				say("never said")),
		})
		s.awaitOutput(id, "up")
		awaitSleeps(t, naps...)
		asked := time.Now()
		s.post(id, "interrupt", nil)
		stopped := awaitEvent(s, id, 30*time.Second, func(e *task.TurnInterrupted) bool { return true })
		if took := since(asked); took > 4*time.Second {
			t.Errorf("took %v, want at most 4 s", took)
		}
		if stopped.Left != 0 || stopped.Took <= 0 || stopped.Cause != "stop" || len(stopped.Kills) != 1 {
			t.Fatalf("interrupted: %+v, want a kill with nothing left and the time it took", stopped)
		}
		if n := named(stopped.Kills[0].Killed, "sleep"); n < 4 || stopped.Kills[0].Took <= 0 {
			t.Errorf("%d sleeps named as killed, want 4: %+v", n, stopped.Kills[0])
		}
		r := awaitEvent(s, id, 30*time.Second, func(r *task.ToolResultRecorded) bool { return r.Status == task.CallInterrupted })
		if !strings.HasPrefix(r.Text, "up\n") || !strings.Contains(r.Text, "0 processes left") {
			t.Errorf("result %q, want the output so far and what was killed", r.Text)
		}
		s.allGone(id, naps...)
		if !sleeping(earlier) {
			t.Error("the process of an earlier call was killed")
		}
		if r := s.bash(id, "touch go; sleep 1; rm go; ls; echo fine"); r.Status != task.CallOK || strings.TrimSpace(r.Text) != "fine" {
			t.Errorf("the next call: %s %q, want no late file", r.Status, r.Text)
		}
	})
}

// A command ends when its shell does. What it leaves in the background is named,
// and stays out of the next call.
func TestBackgroundChildren(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := s.in(t)
		id := s.place(wall, workspace(t, 1000))
		s.bash(id, "true") // the sandbox is there
		for _, tt := range []struct{ command, text string }{
			{"sleep 60 & echo done", "done"},
			{"(while :; do echo tick; sleep .2; done) & echo fg", "fg"},
			{"sleep 60 </dev/null >/dev/null & echo held", "held"},
			{"sleep 60 </dev/null 2>/dev/null & true", ""},
		} {
			begun := time.Now()
			r := s.bash(id, tt.command)
			if took := since(begun); took > 3*time.Second {
				t.Errorf("%s: took %v, want at most 3 s", tt.command, took)
			}
			d := shown(t, r)
			if r.Status != task.CallOK || d.ExitCode != 0 || strings.TrimSpace(strings.ReplaceAll(d.Stdout, "tick\n", "")) != tt.text {
				t.Errorf("%s: %s with %d and %q", tt.command, r.Status, d.ExitCode, d.Stdout)
			}
			if len(d.Background) == 0 || !strings.Contains(r.Text, "Background processes still running: ") {
				t.Errorf("%s: the result does not say what goes on: %q", tt.command, r.Text)
			}
			begun = time.Now()
			next := s.bash(id, "echo next")
			if took := since(begun); took > 2*time.Second {
				t.Errorf("after %s: the next call took %v", tt.command, took)
			}
			if d := shown(t, next); d.Stdout != "next\n" || d.StdoutTotal != 5 || len(d.Background) > 0 {
				t.Errorf("after %s: the next call has %q and %v, want its own alone", tt.command, d.Stdout, d.Background)
			}
		}
		begun := time.Now()
		d := shown(t, s.bash(id, "sleep 5 & wait"))
		if took := since(begun); d.DurationMS < 5000 || took > 7500*time.Millisecond || len(d.Background) > 0 {
			t.Errorf("sleep 5 & wait took %d ms (%v) and left %v, want 5 s and nothing", d.DurationMS, took, d.Background)
		}
	})
}

// A workspace that is removed on the host is said to be missing, by every tool;
// once it is back, so is the session.
func TestWorkspaceMissing(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := s.in(t)
		ws := workspace(t, 1000)
		id := s.place(wall, ws)
		if r := s.bash(id, "mkdir s; cd s; echo x > file; rm -rf /workspace/s; cd /nonexistent; true"); r.Status != task.CallOK {
			t.Errorf("a directory that is gone inside: %s %q", r.Status, r.Text)
		}
		if r := s.bash(id, "echo ok"); strings.TrimSpace(r.Text) != "ok" {
			t.Errorf("after it: %s %q", r.Status, r.Text)
		}
		var owner syscall.Stat_t
		if err := syscall.Stat(ws, &owner); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(ws); err != nil {
			t.Fatal(err)
		}
		for tool, input := range map[string]any{
			"Bash":  map[string]any{"command": "echo ok"},
			"Read":  map[string]any{"file_path": "file"},
			"Write": map[string]any{"file_path": "file", "content": "x"},
			"Glob":  map[string]any{"pattern": "*"},
			"Grep":  map[string]any{"pattern": "x"},
		} {
			begun := time.Now()
			r := s.tool(id, tool, input)
			if took := since(begun); took > 3*time.Second {
				t.Errorf("%s took %v, want at most 3 s", tool, took)
			}
			if r.Status != task.CallError || !strings.HasPrefix(r.Text, "Workspace missing") || strings.Contains(r.Text, "OCI") {
				t.Errorf("%s: %s %q, want that the workspace is missing", tool, r.Status, r.Text)
			}
		}
		s.post(id, "stop", nil)
		err := s.call(t.Context(), "POST", "/sessions/"+id+"/start", nil, nil)
		if err == nil || !strings.Contains(err.Error(), ws) {
			t.Errorf("a start without the workspace: %v, want an error that names %s", err, ws)
		}

		if err := errors.Join(os.Mkdir(ws, 0o755), os.Chown(ws, int(owner.Uid), int(owner.Gid))); err != nil {
			t.Fatal(err)
		}
		s.post(id, "start", nil)
		if r := s.bash(id, "echo again > file; cat file"); r.Status != task.CallOK || strings.TrimSpace(r.Text) != "again" {
			t.Errorf("once it is back: %s %q", r.Status, r.Text)
		}
		if body, err := os.ReadFile(filepath.Join(ws, "file")); string(body) != "again\n" {
			t.Errorf("the host sees %q (%v)", body, err)
		}
	})
}

// nap returns a number of seconds that no other process sleeps.
func nap() string { return fmt.Sprint(1_000_000 + rand.IntN(1_000_000_000)) }

// sleeping reports whether a sleep of n seconds is among the host's processes,
// which those of all sandboxes are.
func sleeping(n string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(all, func(path string) bool {
		cmdline, _ := os.ReadFile(path)
		return bytes.HasPrefix(cmdline, []byte("sleep\x00"+n+"\x00"))
	})
}

// awaitSleeps waits until all of naps are being slept.
func awaitSleeps(t testing.TB, naps ...any) {
	t.Helper()
	awaitNaps(t, true, naps)
}

// awaitGone waits until none of naps is being slept.
func awaitGone(t testing.TB, naps ...any) {
	t.Helper()
	awaitNaps(t, false, naps)
}

func awaitNaps(t testing.TB, want bool, naps []any) {
	t.Helper()
	look, late := time.NewTicker(20*time.Millisecond), time.After(20*time.Second)
	defer look.Stop()
	for slices.ContainsFunc(naps, func(n any) bool { return sleeping(n.(string)) != want }) {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("of %v some are not as wanted: sleeping %v", naps, want)
		}
	}
}

// allGone checks from outside and from inside that no sleep of naps is left.
func (s *server) allGone(id string, naps ...any) {
	s.t.Helper()
	inside := s.bash(id, `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' < $f; echo; done`).Text
	for _, n := range naps {
		if sleeping(n.(string)) {
			s.t.Errorf("sleep %s is alive on the host", n)
		}
		if strings.Contains(inside, n.(string)) {
			s.t.Errorf("sleep %s is alive in the sandbox:\n%s", n, inside)
		}
	}
}

// named counts the processes of a name.
func named(ps []execenv.Process, name string) (n int) {
	for _, p := range ps {
		if p.Name == name {
			n++
		}
	}
	return n
}

// shown returns what the screen shows of a Bash call.
func shown(t testing.TB, r httpapi.ToolResponse) (d tools.BashDisplay) {
	t.Helper()
	body, err := json.Marshal(r.Display)
	if err == nil {
		err = json.Unmarshal(body, &d)
	}
	if err != nil || d.Command == "" {
		t.Fatalf("display %s: %v; result: %s %q", body, err, r.Status, r.Text)
	}
	return d
}

// toolEnd is how a call that was made aside ended.
type toolEnd struct {
	httpapi.ToolResponse
	err error
}

// toolAside makes a tool call by hand while the test goes on.
func (s *server) toolAside(id, name string, input any) <-chan toolEnd {
	s.t.Helper()
	body, err := json.Marshal(input)
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan toolEnd, 1) // the one end
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		var e toolEnd
		e.err = s.call(ctx, "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: name, Input: body}, &e.ToolResponse)
		ended <- e
	}()
	return ended
}

// awaitOutput waits until a running call of a session has printed a line.
func (s *server) awaitOutput(id, line string) {
	s.t.Helper()
	s.await(id, 30*time.Second, "the line "+line, func(f httpapi.Frame) bool {
		return f.Type == "live" && f.Live.Kind == stream.LiveOutput && slices.Contains(strings.Split(f.Live.Data, "\n"), line)
	})
}

// watched keeps what is written to it and says when a word has come.
type watched struct {
	word  string
	found chan struct{} // closed once word was written

	mu  sync.Mutex
	all strings.Builder
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.all.String(), w.word)
	w.all.Write(p)
	if !before && strings.Contains(w.all.String(), w.word) {
		close(w.found)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}
