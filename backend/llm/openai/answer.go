package openai

import (
	"encoding/json"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/remote"
)

// answer gathers the chunks of a stream.
type answer struct {
	x       *remote.Exchange
	limit   int
	text    strings.Builder
	thought thought
	calls   []*call
	open    map[int64]*call // by the index that the wire gives them
	finish  string          // why the model stopped; "" until it has
	usage   llm.Usage
}

// thought is what the model thought so far. Servers send it before the answer,
// as a field of a delta that the vendor's own wire does not have.
type thought struct {
	text         strings.Builder
	begun, ended time.Time
}

// reasoningFields are the names that servers know the field by. Some send it
// under both.
var reasoningFields = []string{"reasoning_content", "reasoning"}

func (t *thought) add(d sdk.ChatCompletionChunkChoiceDelta) string {
	var piece string
	for _, name := range reasoningFields {
		field, sent := d.JSON.ExtraFields[name]
		if sent && json.Unmarshal([]byte(field.Raw()), &piece) == nil && piece != "" {
			break
		}
		piece = ""
	}
	if piece == "" {
		return ""
	}
	t.ended = time.Now()
	if t.begun.IsZero() {
		t.begun = t.ended
	}
	t.text.WriteString(piece)
	return piece
}

// call is a tool call so far.
type call struct {
	id, name  string
	arguments strings.Builder
}

// add takes a chunk and returns the pieces of thinking and text that it adds.
func (a *answer) add(c sdk.ChatCompletionChunk) []llm.Event {
	// Some servers count in every chunk, some in the last one, some never.
	if u := c.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		d := u.PromptTokensDetails
		a.usage = llm.Usage{
			Input:  int(max(0, u.PromptTokens-d.CachedTokens-d.CacheWriteTokens)),
			Output: int(u.CompletionTokens), CacheRead: int(d.CachedTokens), CacheWrite: int(d.CacheWriteTokens),
		}
	}
	if len(c.Choices) == 0 {
		return nil
	}
	choice := c.Choices[0]
	for _, d := range choice.Delta.ToolCalls {
		a.piece(d)
	}
	if choice.FinishReason != "" {
		a.finish = choice.FinishReason
	}
	var out []llm.Event
	if piece := a.thought.add(choice.Delta); piece != "" {
		out = append(out, llm.Event{Thinking: piece})
	}
	if text := choice.Delta.Content + choice.Delta.Refusal; text != "" {
		a.text.WriteString(text)
		out = append(out, llm.Event{Text: text})
	}
	return out
}

// piece adds to the call of an index. Servers that leave the index out send
// each call whole, with an id of its own.
func (a *answer) piece(d sdk.ChatCompletionChunkChoiceDeltaToolCall) {
	c := a.open[d.Index]
	if c == nil || d.ID != "" && c.id != "" && d.ID != c.id {
		c = &call{}
		if a.open == nil {
			a.open = map[int64]*call{}
		}
		a.open[d.Index] = c
		a.calls = append(a.calls, c)
	}
	if d.ID != "" {
		c.id = d.ID
	}
	if d.Function.Name != "" {
		c.name = d.Function.Name
	}
	c.arguments.WriteString(d.Function.Arguments)
}

// note is what the answer's reader has to know beside its text.
func (a *answer) note() string {
	switch a.finish {
	case "length":
		return remote.CutNote(a.limit)
	case "content_filter":
		return "\n\n[The answer was cut off here by the server's content filter.]"
	}
	return ""
}

// message returns the whole answer.
func (a *answer) message() (*llm.Message, error) {
	m := &llm.Message{Role: llm.RoleAssistant}
	note := a.note()
	if t := a.thought.text.String(); t != "" {
		m.Blocks = append(m.Blocks, llm.Block{Thinking: &llm.Thinking{Text: t, Took: a.thought.ended.Sub(a.thought.begun)}})
	}
	if text := a.text.String() + note; text != "" {
		m.Blocks = append(m.Blocks, llm.Block{Text: text})
	}
	for i, c := range a.calls {
		input := c.arguments.String()
		// A call without any input is whole, unless the limit came first.
		if note != "" && i == len(a.calls)-1 && !json.Valid([]byte(input)) {
			return nil, a.x.Truncated(c.name, a.limit)
		}
		if input == "" {
			input = "{}"
		}
		m.Blocks = append(m.Blocks, llm.Block{Use: &llm.Use{ID: c.id, Name: c.name, Input: json.RawMessage(input)}})
	}
	return m, nil
}
