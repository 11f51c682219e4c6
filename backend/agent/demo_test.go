package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/local"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// The demo has to work, twice in the same workspace, with the real tools.
func TestDemo_playsThrough(t *testing.T) {
	dir := t.TempDir()
	env, err := local.New(local.Options{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close() })
	demo := script.Demo()
	for i := range demo.Steps {
		demo.Steps[i].Delay = 0
		for k := range demo.Steps[i].Calls {
			c := &demo.Steps[i].Calls[k]
			c.Input = []byte(strings.Replace(string(c.Input), "sleep 1;", "", 1))
		}
	}
	for range 2 {
		j := newJournal(t)
		o := options(nil)
		m := script.New(demo)
		m.Pace = 0
		o.Model.Model, o.Tools, o.NewCallID = m, tools.Standard(), nil
		o.Env = func(context.Context) (execenv.Env, error) { return env, nil }
		run(t, t.Context(), j, o, agent.Done)
		for _, c := range j.State().Calls {
			if c.Result.Status != task.CallOK {
				t.Errorf("%s %s = %s: %s", c.Started.Tool, c.Started.Input, c.Result.Status, c.Result.Text)
			}
		}
		if got := j.State().LastText(); !strings.Contains(got, "That was the demo") {
			t.Errorf("the last words are %q", got)
		}
		got, err := os.ReadFile(filepath.Join(dir, "glovebox-demo", "hello.sh"))
		if err != nil || !strings.Contains(string(got), `name="you at the window"`) {
			t.Errorf("hello.sh = %q, %v", got, err)
		}

		if err := j.Append(t.Context(), task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, "thanks!")}}, task.TaskWoken{Cause: "message"}); err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), j, o, agent.Done)
		if got := j.State().LastText(); !strings.Contains(got, "Thank you for writing") {
			t.Errorf("the answer to a person is %q", got)
		}
	}
}
