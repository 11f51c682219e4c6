package app

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// A verb that finds what it is to bring about says so, and is no failure.
func TestVerbs_already(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000))
	says := func(want string, args ...string) {
		t.Helper()
		out, err := glovebox(append(args, "--data", s.data, id)...).CombinedOutput()
		if err != nil || string(out) != id+" "+want+"\n" {
			t.Errorf("%v: %v, printed %q, want %q", args, err, out, want)
		}
	}
	says("is running already", "start")
	says("is not paused", "unpause")
	engine(t, "pause", s.show(id).ShortID)
	s.awaitState(id, moments, sandbox.StatePaused)
	says("goes on", "unpause")
	s.post(id, "stop", nil)
	says("started", "start")
	says("released", "release")
	says("was released already", "release")
}

// following starts a verb that follows what a server does, waits until it has printed
// begun, and returns it with all that it prints.
func following(t *testing.T, data, begun, verb string, args ...string) (*exec.Cmd, *transcript) {
	t.Helper()
	said := &transcript{}
	cmd := glovebox(append([]string{verb, "--data", data}, args...)...)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, func() error {
		if !strings.Contains(said.String(), begun) {
			return fmt.Errorf("%s: %q has not come: %q", verb, begun, said)
		}
		return nil
	})
	return cmd, said
}

// A server that is killed under a command leaves it running, and whoever waited is
// told so and how to look.
func TestExec_serverKilled(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	s := start(t, data)
	id := s.place(sandbox.WallNamespace, workspace(t, 1000))
	s.bash(id, "true")
	cmd, said := following(t, data, "begun", "exec", id, "--", "sh", "-c", "echo begun; sleep 7171")
	s.kill()
	err := cmd.Wait()
	want := "begun\nglovebox: the server went away; the command may go on in the sandbox: glovebox exec " + id + " -- ps shows whether it does\n"
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || said.String() != want {
		t.Errorf("ended with %v, printed %q, want %q", err, said, want)
	}
	s = start(t, data)
	if r := s.bash(id, "ps"); !strings.Contains(r.Text, "sleep") {
		t.Errorf("what ps shows: %q", r.Text)
	}
	s.post(id, "release", httpapi.ReleaseRequest{})
}

// A server that is told to end says so to whoever follows it, and what becomes of
// what runs: a person's command ends with it, a turn goes on with the next.
func TestServerStops_saysSo(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	s := start(t, data)
	id := s.place(sandbox.WallNamespace, workspace(t, 1000))
	s.bash(id, "true")
	model := scripted(t, call("Bash", map[string]any{"command": "echo turned; sleep 7272"}), say("done"))
	run, ran := following(t, data, "\nturned\n", "run", "--wall", "namespace", "--model", model, "go")
	second, _, _ := strings.Cut(strings.TrimPrefix(ran.String(), "session "), "\n")
	logs, logged := following(t, data, "turned", "logs", "-f", second)
	still, stilled := following(t, data, "begun", "exec", id, "--", "sh", "-c", "echo begun; sleep 7171")
	busy, busied := following(t, data, "y\n", "exec", id, "--", "yes")
	s.terminate()
	for _, c := range []struct {
		cmd  *exec.Cmd
		said *transcript
		want string
	}{
		{run, ran, "glovebox: the server is stopping; the turn goes on once glovebox serve runs again\n"},
		{logs, logged, "glovebox: the server is stopping\n"},
		{still, stilled, "begun\nglovebox: the server is stopping, and stopped the command first: nothing of it runs any more\n"},
		{busy, busied, "glovebox: the server is stopping, and stopped the command first: nothing of it runs any more\n"},
	} {
		err := c.cmd.Wait()
		said := c.said.String()
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.HasSuffix(said, c.want) {
			t.Errorf("%v ended with %v, printed %q at the end, want %q", c.cmd.Args[1:2], err, said[max(0, len(said)-300):], c.want)
		}
	}
	s = start(t, data)
	if r := s.bash(id, "ps"); strings.Contains(r.Text, "sleep") || strings.Contains(r.Text, "yes") {
		t.Errorf("a command outlived the server that it was told to have ended with: %q", r.Text)
	}
	if r := s.bash(second, "ps"); !strings.Contains(r.Text, "sleep") {
		t.Errorf("the turn's command does not go on: %q", r.Text)
	}
}
