package llmtest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/anthropic"
	"github.com/glovebox-dev/glovebox/backend/llm/llmtest"
)

const thought = "First the files, ſo that I know what is there."

// thinker answers with all that a model can say, and then in one word.
func thinker() llmtest.Script {
	return llmtest.Script{Steps: []llmtest.Step{
		{Thinking: thought, Redacted: "a secret thought", Text: "I look.", Calls: []llmtest.Call{call("Bash", `{"command":"ls"}`)}},
		{Text: "Yes."},
	}}
}

// goneOn returns the request after an answer, as an agent makes it: its calls
// have other ids, and a result each.
func goneOn(t *testing.T, r llm.Request, answer llm.Message) llm.Request {
	t.Helper()
	var results []llm.Block
	m := llm.Message{Role: answer.Role}
	for _, b := range answer.Blocks {
		if b.Use != nil {
			use := *b.Use
			use.ID = "call_OF_THE_AGENT"
			b = llm.Block{Use: &use}
			results = append(results, llm.Block{Result: &llm.Result{ID: use.ID, Text: "a b c"}})
		}
		m.Blocks = append(m.Blocks, b)
	}
	r.Messages = append(r.Messages[:len(r.Messages):len(r.Messages)], m, llm.Message{Role: llm.RoleUser, Blocks: results})
	return r
}

// think makes the first request and returns what was thought, as it came.
func think(t *testing.T, m llm.Model, r llm.Request) (string, llm.Message) {
	t.Helper()
	var pieces []string
	var message *llm.Message
	for e, err := range m.Stream(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Thinking != "" {
			pieces = append(pieces, e.Thinking)
		}
		message = e.Message
	}
	if len(pieces) < 2 {
		t.Errorf("what was thought came in %d pieces, want it while it comes", len(pieces))
	}
	if message == nil {
		t.Fatal("there is no message")
	}
	return strings.Join(pieces, ""), *message
}

func TestStream_thinking(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		s := llmtest.Start(t, wire, thinker())
		m := model(wire, place{url: s.URL})
		live, answer := think(t, m, hello())
		if live != thought {
			t.Errorf("the thinking in pieces is %q", live)
		}
		type shape struct{ Kind, Text string }
		var got []shape
		for _, b := range answer.Blocks {
			switch {
			case b.Thinking != nil && b.Thinking.Redacted != "":
				got = append(got, shape{"redacted", b.Thinking.Text})
			case b.Thinking != nil:
				got = append(got, shape{"thinking", b.Thinking.Text})
			case b.Use != nil:
				got = append(got, shape{"use", b.Use.Name})
			default:
				got = append(got, shape{"text", b.Text})
			}
		}
		want := []shape{{"thinking", thought}, {"redacted", ""}, {"text", "I look."}, {"use", "Bash"}}
		if wire == llmtest.OpenAI {
			want = append(want[:1:1], want[2:]...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("blocks (-want +got)\n%s", diff)
		}
		// The servers check that it comes back as their wire wants it, or not at all.
		if text, _, err := ask(t.Context(), m, goneOn(t, hello(), answer)); err != nil || text != "Yes." {
			t.Errorf("the next request gave %q, %v", text, err)
		}
		sent := bytes.Contains(s.Requests()[1].Body, []byte("First the files"))
		if sent != (wire == llmtest.Anthropic) {
			t.Errorf("sent back: %v\n%s", sent, s.Requests()[1].Body)
		}
	})
}

// What one model has thought is for no other one, whatever its name, server or
// wire; a session goes on all the same.
func TestStream_thinkingOfAnotherModel(t *testing.T) {
	t.Setenv(keyEnv, key)
	first := llmtest.Start(t, llmtest.Anthropic, thinker())
	_, answer := think(t, model(llmtest.Anthropic, place{url: first.URL}), hello())
	for _, c := range []struct {
		name, model string
		wire        llmtest.Wire
		thinking    anthropic.Thinking
	}{
		{name: "another model", model: "other-model", wire: llmtest.Anthropic},
		{name: "another server", model: "test-model", wire: llmtest.Anthropic},
		{name: "another wire", model: "test-model", wire: llmtest.OpenAI},
		{"another model with a budget", "other-model", llmtest.Anthropic, anthropic.Thinking{Mode: anthropic.ThinkBudget, Budget: 2048}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := llmtest.Start(t, c.wire, llmtest.Script{Steps: []llmtest.Step{{Text: "Yes."}}})
			r := goneOn(t, hello(), answer)
			r.Model = c.model
			if text, _, err := ask(t.Context(), model(c.wire, place{url: s.URL, thinking: c.thinking}), r); err != nil || text != "Yes." {
				t.Errorf("Stream() = %q, %v", text, err)
			}
			if bytes.Contains(s.Requests()[0].Body, []byte("First the files")) {
				t.Errorf("it was sent what another model thought\n%s", s.Requests()[0].Body)
			}
		})
	}
}

// The server refuses thinking that was changed: the tests above rest on that.
func TestServer_refusesChangedThinking(t *testing.T) {
	t.Setenv(keyEnv, key)
	s := llmtest.Start(t, llmtest.Anthropic, thinker())
	m := model(llmtest.Anthropic, place{url: s.URL})
	_, answer := think(t, m, hello())
	for name, change := range map[string]func(*llm.Thinking){
		"text":      func(t *llm.Thinking) { t.Text += "!" },
		"signature": func(t *llm.Thinking) { t.Signature = "AAAA" },
		"redacted":  func(t *llm.Thinking) { t.Redacted = "AAAA" },
	} {
		t.Run(name, func(t *testing.T) {
			changed := llm.Message{Role: answer.Role}
			for _, b := range answer.Blocks {
				if b.Thinking != nil {
					th := *b.Thinking
					change(&th)
					b = llm.Block{Thinking: &th}
				}
				changed.Blocks = append(changed.Blocks, b)
			}
			_, _, err := ask(t.Context(), m, goneOn(t, hello(), changed))
			if err == nil || !strings.Contains(err.Error(), "signature") {
				t.Errorf("Stream() = %v, want that the signature is refused", err)
			}
		})
	}
}

// An answer that is cut off while the model thinks has no signature, and one of
// thinking alone says nothing: neither goes back.
func TestStream_thinkingThatCannotGoBack(t *testing.T) {
	t.Setenv(keyEnv, key)
	s := llmtest.Start(t, llmtest.Anthropic, llmtest.Script{Steps: []llmtest.Step{{Thinking: thought}, {Text: "Yes."}}})
	m := model(llmtest.Anthropic, place{url: s.URL})
	_, answer := think(t, m, hello())
	unsigned := llm.Block{Thinking: &llm.Thinking{Text: "half of", From: answer.Blocks[0].Thinking.From}}
	for name, said := range map[string][]llm.Block{
		"thinking alone": answer.Blocks,
		"unsigned":       {unsigned, {Text: "I was about to"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := hello()
			r.Messages = append(r.Messages, llm.Message{Role: llm.RoleAssistant, Blocks: said}, llm.Text(llm.RoleUser, "and?"))
			if _, _, err := ask(t.Context(), m, r); err != nil {
				t.Errorf("Stream() = %v", err)
			}
		})
	}
}

func TestStream_thinkingOption(t *testing.T) {
	t.Setenv(keyEnv, key)
	for _, c := range []struct {
		thinking anthropic.Thinking
		want     string
	}{
		{anthropic.Thinking{}, ""},
		{anthropic.Thinking{Mode: anthropic.ThinkOff}, `"thinking":{"type":"disabled"}`},
		{anthropic.Thinking{Mode: anthropic.ThinkAuto}, `"thinking":{"display":"summarized","type":"adaptive"}`},
		{anthropic.Thinking{Mode: anthropic.ThinkBudget, Budget: 2048}, `"thinking":{"budget_tokens":2048,"display":"summarized","type":"enabled"}`},
	} {
		t.Run(c.thinking.Mode, func(t *testing.T) {
			s := llmtest.Start(t, llmtest.Anthropic, thinker())
			m := model(llmtest.Anthropic, place{url: s.URL, thinking: c.thinking})
			_, answer := think(t, m, hello())
			if _, _, err := ask(t.Context(), m, goneOn(t, hello(), answer)); err != nil {
				t.Error(err)
			}
			for _, r := range s.Requests() {
				if !bytes.Contains(r.Body, []byte(c.want)) || c.want == "" && bytes.Contains(r.Body, []byte(`"thinking":{`)) {
					t.Errorf("sent %s, want %q in it", r.Body, c.want)
				}
			}
		})
	}
}
