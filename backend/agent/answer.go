package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/stream"
)

// badInput is the one key of a call's input whose JSON was broken; its value is
// what the model sent. So the log and the model's history stay valid JSON.
const badInput = "invalid_json"

// answer is what came of one request.
type answer struct {
	text    string // so far
	thought llm.Thinking
	message *llm.Message
	usage   llm.Usage
	err     error
}

// stream asks the model and passes its text and thinking on while they come.
func (t *turn) stream(ctx context.Context) answer {
	s := t.journal.State()
	var a answer
	var text, thinking strings.Builder
	var begun time.Time // of the thinking
	messages := s.Conversation()
	if !t.Model.Sees {
		messages = inWords(messages)
	}
	for e, err := range t.Model.Model.Stream(ctx, llm.Request{
		Model: t.Model.Name, System: t.System, Messages: messages, Tools: t.Tools.Definitions(), MaxTokens: t.Model.MaxTokens,
	}) {
		if err != nil {
			a.err, a.usage = err, e.Usage
			break
		}
		if e.Message != nil {
			a.message, a.usage = e.Message, e.Usage
			break
		}
		if e.Thinking != "" {
			if begun.IsZero() {
				begun = t.Now()
			}
			t.piece(stream.LiveThinking, &thinking, e.Thinking)
			a.thought.Took = t.Now().Sub(begun)
		}
		t.piece(stream.LiveText, &text, e.Text)
	}
	a.text, a.thought.Text = text.String(), thinking.String()
	if a.message == nil && a.err == nil {
		a.err = &llm.Error{Kind: llm.Malformed, Message: "the model's answer ended before it was complete"}
	}
	return a
}

// piece adds to what has come of an answer, and passes it on.
func (t *turn) piece(kind string, sofar *strings.Builder, s string) {
	if s = clean(s); s == "" {
		return
	}
	t.Live(stream.Live{
		RootTaskID: t.root, TaskID: t.task, Kind: kind, After: t.asked,
		Offset: int64(sofar.Len()), End: int64(sofar.Len() + len(s)), Data: s,
	})
	sofar.WriteString(s)
}

// leftOut stands where an image was, for a model that takes none.
const leftOut = "[An image was left out: this model takes none.]"

// inWords returns messages without their images, and says where they were. What
// it is given stays as it is: it is the log's.
func inWords(messages []llm.Message) []llm.Message {
	out := make([]llm.Message, len(messages))
	for i, m := range messages {
		out[i] = llm.Message{Role: m.Role, Blocks: make([]llm.Block, len(m.Blocks))}
		for k, b := range m.Blocks {
			switch {
			case b.Image != nil:
				b = llm.Block{Text: leftOut}
			case b.Result != nil && len(b.Result.Images) > 0:
				r := *b.Result
				r.Text = strings.TrimLeft(r.Text+strings.Repeat("\n"+leftOut, len(r.Images)), "\n")
				r.Images = nil
				b = llm.Block{Result: &r}
			}
			out[i].Blocks[k] = b
		}
	}
	return out
}

// fresh makes an answer fit for the log: every call gets an id that is unique
// for ever, whatever the model called it, text is valid UTF-8, input valid JSON.
// Thinking stays as it is, for its signature; that covers no call's id.
func (t *turn) fresh(m llm.Message) llm.Message {
	out := llm.Message{Role: llm.RoleAssistant}
	for _, b := range m.Blocks {
		switch {
		case b.Use != nil:
			out.Blocks = append(out.Blocks, llm.Block{Use: &llm.Use{
				ID: t.NewCallID(), Name: clean(b.Use.Name), Input: object(b.Use.Input),
			}})
		case b.Text != "":
			out.Blocks = append(out.Blocks, llm.Block{Text: clean(b.Text)})
		case b.Thinking != nil:
			th := *b.Thinking
			th.Text = clean(th.Text) // it came as JSON: only a model that is none of the wires' sends anything else
			out.Blocks = append(out.Blocks, llm.Block{Thinking: &th})
		case b.Image != nil:
			out.Blocks = append(out.Blocks, b)
		}
	}
	return out
}

// object returns input when it is a JSON object, an empty one for nothing, and
// otherwise one that holds it under badInput.
func object(input json.RawMessage) json.RawMessage {
	input = bytes.TrimSpace(input)
	if len(input) == 0 || bytes.Equal(input, []byte("null")) {
		return json.RawMessage("{}")
	}
	if input[0] == '{' && json.Valid(input) {
		return json.RawMessage(clean(string(input)))
	}
	wrapped, err := json.Marshal(map[string]string{badInput: clean(string(input))})
	if err != nil {
		return json.RawMessage("{}")
	}
	return wrapped
}

// broken returns what object has wrapped.
func broken(input json.RawMessage) (string, bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(input, &m) != nil || len(m) != 1 || m[badInput] == nil {
		return "", false
	}
	return string(m[badInput]), true
}

// partial returns the text of an answer that was cut off; a model refuses a
// history in which its own words end in blanks.
func partial(text string) string { return strings.TrimRightFunc(text, unicode.IsSpace) }

// clean makes any string storable as JSON.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
