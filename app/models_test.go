package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/llmtest"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

const (
	modelKeyEnv = "GLOVEBOX_TEST_MODEL_KEY"
	modelKey    = "sk-test-0123456789abcdef"
)

// modelConfig writes a configuration and returns its path.
func modelConfig(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// picture returns a small PNG.
func picture(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func toolCall(t testing.TB, tool string, input any) llmtest.Call {
	t.Helper()
	body, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return llmtest.Call{Tool: tool, Input: body}
}

// A whole session at each vendor's wire: files are written and commands run in
// the sandbox, a picture reaches the model, tokens are counted and paid, and a
// fault on the way is waited out.
func TestModels_session(t *testing.T) {
	have(t, sandbox.WallDocker)
	for _, wire := range []llmtest.Wire{llmtest.Anthropic, llmtest.OpenAI} {
		t.Run(string(wire), func(t *testing.T) {
			ws := workspace(t, os.Geteuid())
			if err := os.WriteFile(filepath.Join(ws, "dot.png"), picture(t), 0o644); err != nil {
				t.Fatal(err)
			}
			usage := &llm.Usage{Input: 1000, Output: 100, CacheRead: 10, CacheWrite: 1}
			s := llmtest.Start(t, wire, llmtest.Script{Key: modelKey, Models: []string{"m-1"}, Steps: []llmtest.Step{
				{Usage: usage, Text: "I write and look.", Calls: []llmtest.Call{
					toolCall(t, "Write", map[string]any{"file_path": "hello.txt", "content": "grüße\n"}),
					toolCall(t, "Bash", map[string]any{"command": "env; echo out of $((40+2))"}),
				}},
				{Fault: &llmtest.Fault{Status: 529, Headers: map[string]string{"Retry-After": "0.1"}}},
				{Usage: usage, Calls: []llmtest.Call{toolCall(t, "Read", map[string]any{"file_path": "dot.png"})}},
				{Usage: usage, Text: "A grey dot, and that is all."},
			}})
			name := string(wire) + ":m-1"
			config := modelConfig(t, fmt.Sprintf("model = %q\n[[models]]\nname = %q\nbase_url = %q\nkey_env = %q\nsees = true\nprice = {input = 1000, output = 10000}\n", name, name, s.URL, modelKeyEnv))
			g := startWith(t, dataDir(t), []string{modelKeyEnv + "=" + modelKey}, "--config", config)
			id := g.open(httpapi.OpenRequest{Goal: "look at the dot", Workspace: ws, Spec: sandbox.Spec{Wall: sandbox.WallDocker}})
			awaitEvent(g, id, 60*time.Second, func(e *task.TaskSuspended) bool { return e.Reason == task.WaitingHuman })

			if got, err := os.ReadFile(filepath.Join(ws, "hello.txt")); err != nil || string(got) != "grüße\n" {
				t.Errorf("the file that was written holds %q, %v", got, err)
			}
			requests := s.Requests()
			last := requests[len(requests)-1].Body
			for what, part := range map[string]string{"the command's output": "out of 42", "the picture": "iVBORw0KGgo", "the model's name": `"m-1"`} {
				if !bytes.Contains(last, []byte(part)) {
					t.Errorf("%s did not reach the model", what)
				}
			}
			if bytes.Contains(last, []byte(modelKeyEnv)) || bytes.Contains(last, []byte(modelKey)) || !bytes.Contains(last, []byte(`\nHOME=`)) {
				t.Errorf("a command's environment is not free of the key:\n%s", last)
			}
			v := g.show(id)
			if want := (llm.Usage{Input: 3000, Output: 300, CacheRead: 30, CacheWrite: 3}); v.Usage != want {
				t.Errorf("usage = %+v, want %+v", v.Usage, want)
			}
			if v.CostUSD == nil || *v.CostUSD < 5.99 || *v.CostUSD > 6.01 {
				t.Errorf("cost = %v, want 6 dollars", v.CostUSD)
			}
			if strings.Contains(g.log.String(), modelKey) {
				t.Error("the log holds the key")
			}
		})
	}
}

func TestModels_about(t *testing.T) {
	config := modelConfig(t, `
[[models]]
name = "openai:local"
label = "Local"
base_url = "http://127.0.0.1:9/v1"
key_env = ""
[[models]]
name = "anthropic:mine"
key_env = "GLOVEBOX_TEST_MODEL_KEY"
`)
	g := startWith(t, dataDir(t), []string{modelKeyEnv + "=" + modelKey, "ANTHROPIC_API_KEY=", "OPENAI_API_KEY=", "ANTHROPIC_BASE_URL=", "OPENAI_BASE_URL="}, "--config", config)
	var about httpapi.About
	if err := g.call(t.Context(), "GET", "/about", nil, &about); err != nil {
		t.Fatal(err)
	}
	by := map[string]httpapi.ModelInfo{}
	for _, m := range about.Models {
		by[m.Name] = m
	}
	if m := by["openai:local"]; m.Label != "Local" || m.KeyEnv != "" || m.Sees || m.BaseURL != "http://127.0.0.1:9/v1" {
		t.Errorf("the local model is %+v", m)
	}
	if m := by["anthropic:mine"]; !m.KeySet || m.KeyEnv != modelKeyEnv || !m.Sees || m.BaseURL != "https://api.anthropic.com" {
		t.Errorf("the model with a key of its own is %+v", m)
	}
	if m := by["openai:gpt-6.1-sol"]; m.KeySet || m.KeyEnv != "OPENAI_API_KEY" || m.Price != nil {
		t.Errorf("a well-known model is %+v", m)
	}

	var doctor httpapi.Doctor
	if err := g.call(t.Context(), "GET", "/doctor", nil, &doctor); err != nil {
		t.Fatal(err)
	}
	said := false
	for _, c := range doctor.Checks {
		if c.Name == "model key" {
			said = c.Status == "ok" && strings.Contains(c.Detail, modelKeyEnv+" is set") && strings.Contains(c.Detail, "OPENAI_API_KEY is not set")
		}
	}
	if !said {
		t.Errorf("the doctor says %+v", doctor.Checks)
	}

	err := g.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Goal: "x", Model: "gemini:x"}, nil)
	if err == nil || !strings.Contains(err.Error(), "openai:local") || !strings.Contains(err.Error(), "anthropic:NAME") {
		t.Errorf("an unknown model gave %v, want the choices", err)
	}
}

// Without any key the doctor names the variables, and nothing is at fault.
func TestModels_noKey(t *testing.T) {
	g := startWith(t, dataDir(t), []string{"ANTHROPIC_API_KEY=", "OPENAI_API_KEY=", "ANTHROPIC_BASE_URL=", "OPENAI_BASE_URL="})
	var doctor httpapi.Doctor
	if err := g.call(t.Context(), "GET", "/doctor", nil, &doctor); err != nil {
		t.Fatal(err)
	}
	for _, c := range doctor.Checks {
		if c.Name != "model key" {
			continue
		}
		if c.Status != "info" || c.Command != "export ANTHROPIC_API_KEY=…" || !strings.Contains(c.Fix, "ANTHROPIC_API_KEY or OPENAI_API_KEY") {
			t.Errorf("check = %+v", c)
		}
		return
	}
	t.Error("the doctor does not look for a key")
}
