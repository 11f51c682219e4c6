package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/llmtest"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// thinkingModel starts a server whose model thinks, and returns the
// configuration that names it. The server refuses thinking that does not come
// back as its wire wants it.
func thinkingModel(t *testing.T, wire llmtest.Wire, first llmtest.Step) string {
	t.Helper()
	first.Thinking, first.Redacted = "Only the date can tell.", "hidden"
	first.Calls = []llmtest.Call{toolCall(t, "Bash", map[string]any{"command": "env; echo $((40+2))"})}
	s := llmtest.Start(t, wire, llmtest.Script{Key: modelKey, Steps: []llmtest.Step{
		first, {Thinking: "Now I know.", Text: "It is 42."}, {Text: "I said so."},
	}})
	name := string(wire) + ":m-1"
	thinking := "\n"
	if wire == llmtest.Anthropic {
		thinking = "thinking = 2048\n"
	}
	return modelConfig(t, fmt.Sprintf("model = %q\n[[models]]\nname = %q\nbase_url = %q\nkey_env = %q\n%s", name, name, s.URL, modelKeyEnv, thinking))
}

// What a model thinks is seen while it comes, stays in the log, and is with the
// model in its next requests; the command line tells it on demand alone.
func TestModels_thinking(t *testing.T) {
	have(t, sandbox.WallNamespace)
	for _, wire := range []llmtest.Wire{llmtest.Anthropic, llmtest.OpenAI} {
		t.Run(string(wire), func(t *testing.T) {
			config := thinkingModel(t, wire, llmtest.Step{})
			data := dataDir(t)
			g := startWith(t, data, []string{modelKeyEnv + "=" + modelKey}, "--config", config)
			id := g.open(httpapi.OpenRequest{Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallNamespace}})
			v := g.in(t).watch(id) // before there is anything to see
			g.post(id, "messages", httpapi.MessageRequest{Text: "what is it?"})
			v.until("live thinking", func() bool {
				for _, fs := range v.frames {
					if slices.ContainsFunc(fs, func(l stream.Live) bool { return l.Kind == stream.LiveThinking }) {
						return true
					}
				}
				return false
			})
			ended := func(e *task.TaskSuspended) bool { return e.Reason == task.WaitingHuman }
			awaitEvent(g, id, 60*time.Second, ended)
			said := awaitEvent(g, id, 30*time.Second, func(e *task.MessagesAppended) bool { return e.Messages[0].Role == llm.RoleAssistant })
			if th := said.Messages[0].Blocks[0].Thinking; th == nil || th.Text != "Only the date can tell." || th.Took <= 0 {
				t.Errorf("the log holds %+v", said.Messages[0].Blocks)
			}
			for _, c := range []struct {
				args []string
				want bool
			}{{nil, false}, {[]string{"--verbose"}, true}} {
				out, err := glovebox(append([]string{"logs", "--data", data, id}, c.args...)...).CombinedOutput()
				if err != nil || !strings.Contains(string(out), "It is 42.") || !strings.Contains(string(out), "\nHOME=") {
					t.Fatalf("%v: %s", err, out)
				}
				if strings.Contains(string(out), modelKey) || strings.Contains(string(out), modelKeyEnv) {
					t.Errorf("the sandbox has the key of the model:\n%s", out)
				}
				if got := strings.Contains(string(out), "\n… Only the date can tell.\n"); got != c.want || !got && strings.Contains(string(out), "Only the date") {
					t.Errorf("logs %v tells what was thought: %v\n%s", c.args, got, out)
				}
			}
			g.post(id, "messages", httpapi.MessageRequest{Text: "sure?"})
			seen := 0
			awaitEvent(g, id, 60*time.Second, func(e *task.TaskSuspended) bool {
				if ended(e) {
					seen++
				}
				return seen == 2
			})
			if strings.Contains(g.log.String(), "Only the date") {
				t.Error("the server's log tells what was thought")
			}
		})
	}
}

func TestRun_thinking(t *testing.T) {
	have(t, sandbox.WallNamespace)
	config := thinkingModel(t, llmtest.Anthropic, llmtest.Step{Text: "I look."})
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "\nI look.\n"},
		{[]string{"-v"}, "\n… Only the date can tell.\nI look.\n"},
	} {
		cmd := glovebox(append([]string{"run", "--data", dataDir(t), "--config", config, "--wall", "namespace", "--workspace", workspace(t, 1000), fmt.Sprint("what is it?", c.args)}, c.args...)...)
		cmd.Env = append(cmd.Env, modelKeyEnv+"="+modelKey)
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "Only the date") != (c.args != nil) {
			t.Errorf("run %v: %v, printed\n%s\nwant %q", c.args, err, out, c.want)
		}
	}
}

// A variable that other tools use as well is held to what the configuration
// takes: the address is shown in many places.
func TestModels_addressOfAVariable(t *testing.T) {
	for _, variable := range []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"} {
		for _, verb := range [][]string{{"doctor"}, {"run", "--wall", "namespace", "hello"}, {"serve", "--no-open", "--addr", "127.0.0.1:0"}} {
			cmd := glovebox(append(verb, "--data", dataDir(t))...)
			cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL=", "OPENAI_BASE_URL=", variable+"=https://me:sk-secret-1@models.test/v1")
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), variable) || strings.Contains(string(out), "sk-secret") {
				t.Errorf("%s with a password in %s: %v, printed %s", verb[0], variable, err, out)
			}
		}
	}
}
