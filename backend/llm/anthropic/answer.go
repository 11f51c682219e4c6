package anthropic

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/remote"
)

// answer gathers the events of a stream.
type answer struct {
	x        *remote.Exchange
	from     string // names the model in what it thought
	limit    int
	blocks   map[int64]*part
	order    []int64
	stop     sdk.StopReason
	usage    llm.Usage
	complete bool // the last event has come
}

// part is one block so far. Blocks of other kinds than text, thinking and calls,
// as the vendor's own tools are, are left out.
type part struct {
	kind, id, name      string
	text, input         strings.Builder
	signature, redacted string // of thinking
	begun, ended        time.Time
}

func newAnswer(x *remote.Exchange, from string, limit int) *answer {
	return &answer{x: x, from: from, limit: limit, blocks: map[int64]*part{}}
}

// add takes an event and returns the piece of text or thinking that it adds.
func (a *answer) add(e sdk.MessageStreamEventUnion) (llm.Event, error) {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		a.usage = llm.Usage{
			Input: int(u.InputTokens), Output: int(u.OutputTokens),
			CacheRead: int(u.CacheReadInputTokens), CacheWrite: int(u.CacheCreationInputTokens),
		}
	case "content_block_start":
		return a.start(e)
	case "content_block_delta":
		p := a.blocks[e.Index]
		if p == nil {
			return llm.Event{}, a.x.Unreadable()
		}
		p.ended = time.Now()
		switch e.Delta.Type {
		case "text_delta":
			p.text.WriteString(e.Delta.Text)
			return llm.Event{Text: e.Delta.Text}, nil
		case "input_json_delta":
			p.input.WriteString(e.Delta.PartialJSON)
		case "thinking_delta":
			p.text.WriteString(e.Delta.Thinking)
			return llm.Event{Thinking: e.Delta.Thinking}, nil
		case "signature_delta":
			p.signature += e.Delta.Signature
		}
	case "content_block_stop":
		if p := a.blocks[e.Index]; p != nil {
			p.ended = time.Now()
		}
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
		a.count(e.Usage)
	case "message_stop":
		a.complete = true
	}
	return llm.Event{}, nil
}

func (a *answer) start(e sdk.MessageStreamEventUnion) (llm.Event, error) {
	if a.blocks[e.Index] != nil {
		return llm.Event{}, a.x.Unreadable()
	}
	now := time.Now()
	p := &part{kind: e.ContentBlock.Type, id: e.ContentBlock.ID, name: e.ContentBlock.Name, begun: now, ended: now}
	a.blocks[e.Index] = p
	a.order = append(a.order, e.Index)
	switch p.kind {
	case "text":
		p.text.WriteString(e.ContentBlock.Text)
		return llm.Event{Text: e.ContentBlock.Text}, nil
	case "thinking":
		p.text.WriteString(e.ContentBlock.Thinking)
		p.signature = e.ContentBlock.Signature
		return llm.Event{Thinking: e.ContentBlock.Thinking}, nil
	case "redacted_thinking":
		p.redacted = e.ContentBlock.Data
	case "tool_use":
		// The vendor starts with an empty object and sends the input in pieces;
		// servers that do not stream it send it here.
		if input := e.ContentBlock.JSON.Input.Raw(); input != "" && input != "null" && strings.Join(strings.Fields(input), "") != "{}" {
			p.input.WriteString(input)
		}
	}
	return llm.Event{}, nil
}

// count takes the totals so far; those that did not change may be left out.
func (a *answer) count(u sdk.MessageDeltaUsage) {
	for _, c := range []struct {
		sent bool
		n    int64
		to   *int
	}{
		{u.JSON.InputTokens.Valid(), u.InputTokens, &a.usage.Input},
		{u.JSON.OutputTokens.Valid(), u.OutputTokens, &a.usage.Output},
		{u.JSON.CacheReadInputTokens.Valid(), u.CacheReadInputTokens, &a.usage.CacheRead},
		{u.JSON.CacheCreationInputTokens.Valid(), u.CacheCreationInputTokens, &a.usage.CacheWrite},
	} {
		if c.sent {
			*c.to = int(c.n)
		}
	}
}

// cut reports whether the answer ended at a limit.
func (a *answer) cut() bool {
	return a.stop == sdk.StopReasonMaxTokens || a.stop == sdk.StopReasonModelContextWindowExceeded
}

// note is what the answer's reader has to know beside its text.
func (a *answer) note() string {
	switch a.stop {
	case sdk.StopReasonMaxTokens:
		return remote.CutNote(a.limit)
	case sdk.StopReasonModelContextWindowExceeded:
		return "\n\n[The answer was cut off here: the conversation fills all that the model can take.]"
	case sdk.StopReasonRefusal:
		return "\n\n[The model refused to go on.]"
	}
	return ""
}

// message returns the whole answer.
func (a *answer) message() (*llm.Message, error) {
	slices.Sort(a.order)
	m := &llm.Message{Role: llm.RoleAssistant}
	for i, index := range a.order {
		p := a.blocks[index]
		switch p.kind {
		case "text":
			if p.text.Len() > 0 {
				m.Blocks = append(m.Blocks, llm.Block{Text: p.text.String()})
			}
		case "thinking", "redacted_thinking":
			th := &llm.Thinking{Text: p.text.String(), Signature: p.signature, Redacted: p.redacted, From: a.from, Took: p.ended.Sub(p.begun)}
			if th.Text != "" || th.Signature != "" || th.Redacted != "" {
				m.Blocks = append(m.Blocks, llm.Block{Thinking: th})
			}
		case "tool_use":
			input := p.input.String()
			// A call without any input is whole, unless the limit came first.
			if a.cut() && i == len(a.order)-1 && !json.Valid([]byte(input)) {
				return nil, a.x.Truncated(p.name, a.limit)
			}
			if input == "" {
				input = "{}"
			}
			m.Blocks = append(m.Blocks, llm.Block{Use: &llm.Use{ID: p.id, Name: p.name, Input: json.RawMessage(input)}})
		}
	}
	if note := a.note(); note != "" { // before the calls, which the wire wants last
		first := slices.IndexFunc(m.Blocks, func(b llm.Block) bool { return b.Use != nil })
		if first < 0 {
			first = len(m.Blocks)
		}
		m.Blocks = slices.Insert(m.Blocks, first, llm.Block{Text: note})
	}
	return m, nil
}
