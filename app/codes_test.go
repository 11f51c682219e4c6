package app

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// An error of a verb speaks of sessions, and says which verb helps.
func TestVerbErrors(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	s := start(t, data)
	fails := func(text string, args ...string) {
		t.Helper()
		out, err := glovebox(append([]string{"--data", data}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), text) || strings.Contains(string(out), "task") {
			t.Errorf("%v: %v, printed %q, want %q in it and no task", args, err, out, text)
		}
	}
	fails("no such session; glovebox ls", "show", "s-none")
	fails("no such session; glovebox ls", "logs", "s-none")
	id := s.place(sandbox.WallNamespace, workspace(t, 1000))
	s.bash(id, "true")
	fails(`unknown tool "Bsh"; choose of Read, `, "tool", id, "Bsh", "{}")
	s.post(id, "release", httpapi.ReleaseRequest{How: "remove"})
	fails("glovebox reprovision", "attach", id)
	s.post(id, "close", nil)
	for _, verb := range []string{"attach", "start", "reprovision"} {
		fails("the session has ended; glovebox ls", verb, id)
	}
	fails("the session has ended; glovebox ls", "exec", id, "--", "true")
}

// The exit code tells a mistake on the command line, and a wall that is not
// there, from a failure; the text says what to do.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	wrong := filepath.Join(t.TempDir(), "wrong.toml")
	if err := os.WriteFile(wrong, []byte("[docker]\nhost = 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	data, missing := dataDir(t), filepath.Join(t.TempDir(), "missing")
	noEngine, noPath := "DOCKER_HOST=unix://"+missing, "PATH="+missing
	for _, tt := range []struct {
		line string
		env  []string
		code int
		text string
	}{
		{"bogus", nil, exitUsage, `unknown command "bogus"`},
		{"image bogus", nil, exitUsage, "see glovebox image --help"},
		{"token bogus", nil, exitUsage, "see glovebox token --help"},
		{"show", nil, exitUsage, "see glovebox show --help"},
		{"run --approvals none go", nil, exitUsage, "choose ask or auto"},
		{"run --plugin telepathy go", nil, exitUsage, "choose of browser"},
		{"run --wall moat go", nil, exitUsage, "choose docker"},
		{"run --wall namespace --limit memory=x go", nil, exitUsage, "resources.memory"},
		{"run --wall namespace --model bogus go", nil, exitUsage, "choose demo"},
		{"run --wall namespace --workspace " + missing + " go", nil, exitUsage, "make it first"},
		{"serve --no-open --addr 0.0.0.0:1", nil, exitUsage, "choose 127.0.0.1"},
		{"ls --config " + wrong, nil, exitUsage, "docker.host"},
		{"ls --config " + missing, nil, exitUsage, "no such file"},
		{"image pull Bad.Name", nil, exitUsage, "not the name of an image"},
		{"show s-none", nil, exitFailed, "s-none"},
		{"run --wall docker go", []string{noEngine}, exitNoWall, "the docker wall is not available"},
		{"run --wall docker --image x go", []string{noEngine}, exitNoWall, "change or unset DOCKER_HOST"},
		{"run --wall namespace go", []string{noPath}, exitNoWall, "install the package bubblewrap"},
		{"run go", []string{noEngine, noPath}, exitNoWall, "install bubblewrap"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			cmd := glovebox(append([]string{"--data", data}, strings.Fields(tt.line)...)...)
			cmd.Env = append(cmd.Env, tt.env...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tt.code || !strings.Contains(string(out), tt.text) {
				t.Errorf("ended with %v, want code %d; printed, want %q in it:\n%s", err, tt.code, tt.text, out)
			}
		})
	}
}

// A wall that was asked for and is not there is named, and so is the one that is.
func TestExitCodes_anotherWallIsThere(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	cmd := glovebox("--data", dataDir(t), "run", "--wall", "docker", "go")
	cmd.Env = append(cmd.Env, "DOCKER_HOST=unix://"+t.TempDir())
	out, _ := cmd.CombinedOutput()
	for _, want := range []string{"the docker wall is not available", "that is no socket", "change or unset DOCKER_HOST", "The namespace wall is available (--wall namespace)"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("printed, want %q in it:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "no wall is available") || strings.Contains(string(out), "install") {
		t.Errorf("printed:\n%s", out)
	}
}
