package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// The log of a session reads as what was said and printed, and its JSON has the
// characters of commands as they were typed.
func TestLogs_tellWhatWasSaid(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	s := start(t, data)
	const command = `echo "a<b" >&2 && echo 'c\u003e d'`
	id := s.open(httpapi.OpenRequest{
		Goal: "please look", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallNamespace},
		Model: scripted(t, call("Bash", map[string]any{"command": command}), say("all looked at")),
	})
	awaitEvent(s, id, 30*time.Second, func(e *task.TaskSuspended) bool { return true })
	out, err := glovebox("logs", "--data", data, id).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"> please look\n", `"a<b\" >&2 && echo`, "\na<b\n", "\n" + `c\u003e d` + "\n", "\nall looked at\n"} {
		if !strings.Contains(strings.ReplaceAll(string(out), `\"a<b`, `"a<b`), want) {
			t.Errorf("the log lacks %q:\n%s", want, out)
		}
	}
	out, err = glovebox("logs", "--json", "--data", data, id).Output()
	if err != nil || !strings.Contains(string(out), `>&2 && echo 'c\\u003e d'`) {
		t.Errorf("%v: the log has the command otherwise than %s:\n%s", err, command, out)
	}
	for line := range strings.Lines(string(out)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}
