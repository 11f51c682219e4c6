package app

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

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

// A server that is killed under a command leaves it running, and whoever waited is
// told so and how to look.
func TestExec_serverKilled(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	s := start(t, data)
	id := s.place(sandbox.WallNamespace, workspace(t, 1000))
	s.bash(id, "true")
	said := &transcript{}
	cmd := glovebox("exec", "--data", data, id, "--", "sh", "-c", "echo begun; sleep 7171")
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, moments, func() error {
		if !strings.Contains(said.String(), "begun") {
			return fmt.Errorf("the command has not begun: %q", said)
		}
		return nil
	})
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
