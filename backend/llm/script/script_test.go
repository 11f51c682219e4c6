package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
)

// ask returns the text that was streamed and the message that ended it.
func ask(t *testing.T, m *script.Model, messages ...llm.Message) (string, llm.Message) {
	t.Helper()
	var text strings.Builder
	var message *llm.Message
	for e, err := range m.Stream(t.Context(), llm.Request{Messages: messages}) {
		if err != nil {
			t.Fatalf("Stream: %v", err)
		}
		if message != nil {
			t.Fatal("an event follows the message")
		}
		text.WriteString(e.Text)
		message = e.Message
	}
	if message == nil {
		t.Fatal("the stream ended without a message")
	}
	return text.String(), *message
}

func quick(s script.Script) *script.Model {
	m := script.New(s)
	m.Pace = 0
	return m
}

func TestModel_stepFollowsFromConversation(t *testing.T) {
	s := script.Script{Closing: "bye", Steps: []script.Step{
		{Text: "héllo wörld, this is more than one piece", Calls: []script.Call{{Tool: "Read", Input: json.RawMessage(`{"file_path":"a"}`)}, {Tool: "Glob"}}},
		{Text: "second"},
	}}
	user, assistant := llm.Text(llm.RoleUser, "go"), llm.Text(llm.RoleAssistant, "x")

	text, first := ask(t, quick(s), user)
	if text != s.Steps[0].Text {
		t.Errorf("streamed %q, want %q", text, s.Steps[0].Text)
	}
	want := llm.Message{Role: llm.RoleAssistant, Blocks: []llm.Block{
		{Text: s.Steps[0].Text},
		{Use: &llm.Use{ID: "step_0_0", Name: "Read", Input: json.RawMessage(`{"file_path":"a"}`)}},
		{Use: &llm.Use{ID: "step_0_1", Name: "Glob", Input: json.RawMessage(`{}`)}},
	}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("first answer (-want +got):\n%s", diff)
	}
	if text, _ := ask(t, quick(s), user, assistant, user); text != "second" {
		t.Errorf("second answer = %q", text)
	}
	if text, _ := ask(t, quick(s), user, assistant, user, assistant, user); text != "bye" {
		t.Errorf("after the last step = %q, want the closing text", text)
	}
	s.Repeat = true
	if text, _ := ask(t, quick(s), user, assistant, user, assistant, user, assistant, user); text != "second" {
		t.Errorf("with repeat = %q, want the second step again", text)
	}
}

func TestModel_conversationsOfTheirOwn(t *testing.T) {
	s, err := script.Parse(strings.NewReader(`{"steps": [{"text": "main"}], "conversations": [{"of": "count", "steps": [{"text": "one"}, {"text": "two"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	own, answer := llm.Text(llm.RoleUser, "please count"), llm.Text(llm.RoleAssistant, "one")
	if text, _ := ask(t, quick(s), own, answer, own); text != "two" {
		t.Errorf("its second answer = %q", text)
	}
	if text, _ := ask(t, quick(s), llm.Text(llm.RoleUser, "go"), answer, own); text == "two" {
		t.Error("what is said later chooses the steps")
	}
	for _, bad := range []string{
		`{"steps": [{"text": "a"}], "conversations": [{"steps": [{"text": "b"}]}]}`,
		`{"steps": [{"text": "a"}], "conversations": [{"of": "b", "steps": []}]}`,
	} {
		if _, err := script.Parse(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "conversation 1") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Which steps there are depends on the tools: those that do not count are not there
// at all, and the others keep their order.
func TestModel_stepsByTools(t *testing.T) {
	m := quick(script.Script{Closing: "bye", Steps: []script.Step{
		{Text: "first"}, {Text: "I look", With: "Look"}, {Text: "I cannot look", Without: "Look"}, {Text: "last"},
	}})
	for name, c := range map[string]struct {
		tools []llm.Tool
		want  []string
	}{
		"with":    {[]llm.Tool{{Name: "Do"}, {Name: "Look"}}, []string{"first", "I look", "last", "bye"}},
		"without": {[]llm.Tool{{Name: "Do"}}, []string{"first", "I cannot look", "last", "bye"}},
	} {
		t.Run(name, func(t *testing.T) {
			messages := []llm.Message{llm.Text(llm.RoleUser, "go")}
			for _, want := range c.want {
				var got *llm.Message
				for e, err := range m.Stream(t.Context(), llm.Request{Messages: messages, Tools: c.tools}) {
					if err != nil {
						t.Fatal(err)
					}
					got = e.Message
				}
				if got == nil || got.Blocks[0].Text != want {
					t.Fatalf("after %d answers: %+v, want %q", len(messages)-1, got, want)
				}
				messages = append(messages, *got)
			}
		})
	}
}

func TestModel_fault(t *testing.T) {
	s, err := script.Parse(strings.NewReader(`[{"text": "Half", "fault": {"kind": "rate_limited", "message": "slow down", "retry_after": "2s"}}]`))
	if err != nil {
		t.Fatal(err)
	}
	m := quick(s)
	for range 2 { // as often as it is asked for
		text := ""
		var fault *llm.Error
		for e, err := range m.Stream(t.Context(), llm.Request{}) {
			text += e.Text
			if err != nil && !errors.As(err, &fault) {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(&llm.Error{Kind: llm.RateLimited, Message: "slow down", RetryAfter: 2 * time.Second}, fault); diff != "" || text != "Half" {
			t.Errorf("said %q, then (-want +got):\n%s", text, diff)
		}
	}
}

func TestModel_keepsPaceAndHonoursCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.Script{Steps: []script.Step{{Text: strings.Repeat("x", 80), Delay: time.Second}}}
		begun := time.Now()
		ask(t, script.New(s), llm.Text(llm.RoleUser, "go"))
		if took := time.Since(begun); took <= time.Second || took > 2*time.Second {
			t.Errorf("answer took %v, want the delay and a little more", took)
		}

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for e, err := range script.New(s).Stream(ctx, llm.Request{}) {
			if e.Text != "" {
				cancel()
			}
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("after cancel the stream ended with %v, want context.Canceled", last)
		}
	})
}

func TestParse(t *testing.T) {
	got, err := script.Parse(strings.NewReader(`[
		{"text": "a", "delay": "1s"},
		{"with": "Bash", "calls": [{"tool": "Bash", "input": {"command": "ls"}}]},
		{"without": "Bash", "text": "b"}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	want := script.Script{Steps: []script.Step{
		{Text: "a", Delay: time.Second},
		{With: "Bash", Calls: []script.Call{{Tool: "Bash", Input: json.RawMessage(`{"command": "ls"}`)}}},
		{Without: "Bash", Text: "b"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestParse_refusals(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"empty":            {"  ", "empty"},
		"no steps":         {"[]", "no steps"},
		"unknown key":      {"[\n{\"text\": \"a\"},\n{\"txet\": \"b\"}\n]", `line 3: unknown key "txet"`},
		"wrong type":       {"[\n{\"text\":\n 5}]", "line 3"},
		"syntax":           {"[\n{]", "line 2"},
		"cut":              {"[\n{\"text\": \"a\"", "too early"},
		"trailing":         {"[{\"text\":\"a\"}]\n[]", "line 2: something follows"},
		"nothing said":     {`[{"delay":"1s"}]`, "step 1: has neither"},
		"bad delay":        {`[{"text":"a","delay":"soon"}]`, `delay "soon"`},
		"no tool":          {`[{"calls":[{"input":{}}]}]`, "tool is missing"},
		"bad input":        {`[{"calls":[{"tool":"Bash","input":"ls"}]}]`, "must be an object"},
		"calls and fault":  {`[{"calls":[{"tool":"Bash"}],"fault":{"kind":"network"}}]`, "keep from being made"},
		"fault of no kind": {`[{"fault":{"message":"no"}}]`, "kind is missing"},
		"bad retry":        {`[{"fault":{"kind":"network","retry_after":"soon"}}]`, `retry_after "soon"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := script.Parse(strings.NewReader(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse(%q) = %v, want an error with %q", c.in, err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`[{"text":"a","calls":[{"tool":"Bash","input":{}}]}]`)
	f.Add(`{"steps":[{"text":"a"}],"repeat":true}`)
	f.Fuzz(func(t *testing.T, in string) {
		s, err := script.Parse(strings.NewReader(in))
		if err == nil && len(s.Steps) == 0 {
			t.Error("a script without steps was accepted")
		}
	})
}

func TestLoad_namesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "story.json")
	if err := os.WriteFile(path, []byte(`[{"nope": 1}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := script.Load(path); err == nil || !strings.Contains(err.Error(), "story.json: line 1") {
		t.Errorf("Load = %v, want the file and the line", err)
	}
}

func TestDemo_endsWithASummaryAndAnswersPolitely(t *testing.T) {
	s := script.Demo()
	last := s.Steps[len(s.Steps)-1]
	if last.Text == "" || last.Calls != nil {
		t.Errorf("the demo's last step = %+v, want only text", last)
	}
	if s.Closing == "" || s.Repeat {
		t.Error("the demo has no answer for a person who writes to it afterwards")
	}
	used := map[string]bool{}
	for _, step := range s.Steps {
		for _, c := range step.Calls {
			used[c.Tool] = true
		}
	}
	for _, tool := range []string{"Bash", "Write", "Read", "Edit", "Glob", "Grep"} {
		if !used[tool] {
			t.Errorf("the demo does not show %s", tool)
		}
	}
}
