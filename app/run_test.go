package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Ctrl-C stops the turn of a run, which says that nothing is left.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		naps := []any{nap(), nap(), nap()}
		model := scripted(t, call("Bash", map[string]any{"command": fmt.Sprintf("trap '' TERM; setsid sleep %s & (sleep %s &); sleep %s & echo up; wait", naps...)}))
		cmd := glovebox("run", "--data", dataDir(t), "--wall", string(wall), "--workspace", workspace(t, 1000), "--model", model, "go")
		seen := &watched{word: "up\n", found: make(chan struct{})}
		cmd.Stdout, cmd.Stderr = seen, seen
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1) // the one end
		go func() { ended <- cmd.Wait() }()
		select {
		case <-seen.found:
		case err := <-ended:
			t.Fatalf("the run ended early: %v\n%s", err, seen)
		case <-time.After(60 * time.Second):
			cmd.Process.Signal(syscall.SIGTERM)
			t.Fatalf("no output: %v\n%s", <-ended, seen)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		err := <-ended
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 130 {
			t.Errorf("the run ended with %v, want exit code 130", err)
		}
		if !regexp.MustCompile(`(?m)stopped: 0 processes left, \d+ ms$`).MatchString(seen.String()) {
			t.Errorf("the run printed:\n%s\nwant that 0 processes are left", seen)
		}
		for _, n := range naps {
			if sleeping(n.(string)) {
				t.Errorf("sleep %s is alive after the run", n)
			}
		}
	})
}

// Calls that wait are decided where somebody answers first: on the screen, while
// the terminal says nothing, or at the terminal, whose answer then goes to the
// call that waits now.
func TestRunAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	s := start(t, data)
	model := scripted(t, call("Bash", map[string]any{"command": "echo one"}),
		call("Bash", map[string]any{"command": "echo two"}), call("Write", map[string]any{"file_path": "three", "content": "3"}), say("all said"))
	cmd := glovebox("run", "--data", data, "--wall", "namespace", "--approvals", "ask", "--model", model, "go")
	terminal, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	seen := &watched{word: "\n", found: make(chan struct{})}
	third := &watched{word: "? allow Write", found: make(chan struct{})}
	cmd.Stdout = io.MultiWriter(seen, third)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1) // the one end
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	select {
	case <-seen.found:
	case err := <-ended:
		t.Fatalf("the run ended early: %v\n%s", err, seen)
	}
	id := strings.TrimPrefix(strings.TrimSpace(strings.SplitN(seen.String(), "\n", 2)[0]), "session ")

	answered := map[string]bool{}
	next := func() string {
		p := awaitEvent(s, id, 30*time.Second, func(p *task.ToolCallApprovalRequested) bool { return !answered[p.CallID] })
		answered[p.CallID] = true
		return p.CallID
	}
	for range 2 {
		s.post(id, "approvals/"+next(), httpapi.DecisionRequest{Allow: true})
	}
	last := next()
	select {
	case <-third.found:
	case <-time.After(30 * time.Second):
		t.Fatalf("the last call is not asked about:\n%s", seen)
	}
	if _, err := io.WriteString(terminal, "y\n"); err != nil {
		t.Fatal(err)
	}
	decided := awaitEvent(s, id, 30*time.Second, func(p *task.ToolCallApprovalResolved) bool { return p.CallID == last })
	if !decided.Allow {
		t.Errorf("the answer at the terminal became %+v, want that it allows the last call", decided)
	}
	select {
	case err := <-ended:
		if err != nil || !strings.Contains(seen.String(), "all said") {
			t.Errorf("the run ended with %v:\n%s", err, seen)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("the run goes on though its turn has ended:\n%s", seen)
	}
}

// Ctrl-C ends a command that a person runs, also one that does not take the
// input it is given.
func TestExecInterrupted(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	s := start(t, data)
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := s.in(t)
		id := s.place(wall, workspace(t, 1000))
		for name, flags := range map[string][]string{"without input": nil, "with input": {"-i"}} {
			t.Run(name, func(t *testing.T) {
				n := nap()
				cmd := glovebox(append(append([]string{"exec", "--data", data}, flags...), id, "--", "sleep", n)...)
				var printed bytes.Buffer
				cmd.Stdin, cmd.Stdout, cmd.Stderr = endless{}, &printed, &printed
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				awaitSleeps(t, n)
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				err := cmd.Wait()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != 130 || printed.Len() > 0 {
					t.Errorf("exec ended with %v and printed %q, want exit code 130 and nothing", err, &printed)
				}
				awaitGone(t, n)
			})
		}
	})
}

// endless is an input that never ends, as that of yes.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte("y\n"), (len(p)+1)/2)), nil
}

// A run whose reader goes away, as head does, stops its turn and leaves no
// sandbox behind.
func TestRunReaderGone(t *testing.T) {
	t.Parallel()
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data, n := dataDir(t), nap()
		model := scripted(t, call("Bash", map[string]any{"command": "while echo tick; do sleep .1; done & sleep " + n}))
		cmd := glovebox("run", "--data", data, "--wall", string(wall), "--workspace", workspace(t, 1000), "--model", model, "go")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for r, line := bufio.NewReader(out), ""; line != "tick\n"; {
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatalf("no output: %v, %v\n%s", err, cmd.Wait(), &errs)
			}
		}
		out.Close()
		err = cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted || errs.Len() > 0 {
			t.Errorf("the run ended with %v and printed %q, want exit code 130 and no error", err, &errs)
		}
		awaitGone(t, n)
		listed, err := glovebox("ls", "--json", "--data", data).Output()
		if err != nil {
			t.Fatal(err)
		}
		var left httpapi.Session
		if err := json.Unmarshal(listed, &left); err != nil {
			t.Fatalf("%v: %s", err, listed)
		}
		if left.Sandbox == nil || left.Sandbox.Value != sandbox.StateReleased {
			t.Errorf("the run leaves %s, want its sandbox released", listed)
		}
	})
}
