package llmtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// anthropicWire is the Messages API.
// See https://platform.claude.com/docs/en/build-with-claude/streaming.
type anthropicWire struct{}

type object = map[string]any

func (anthropicWire) path() string             { return "/v1/messages" }
func (anthropicWire) key(h http.Header) string { return h.Get("X-Api-Key") }

func (anthropicWire) wrong(w http.ResponseWriter, e wrong) {
	reply(w, e.status, object{"type": "error", "error": object{"type": e.kind, "message": e.message}, "request_id": "req_test"})
}

func (anthropicWire) failed(e wrong) event {
	return event{"error", encode(object{"type": "error", "error": object{"type": e.kind, "message": e.message}})}
}

func (anthropicWire) text(piece string) event {
	return event{"content_block_delta", encode(object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": piece}})}
}

func (w anthropicWire) events(step Step, model string, id func(string) string) []event {
	u, cut := step.usage(), step.Stop == "length"
	var out []event
	add := func(name string, fields object) {
		fields["type"] = name
		out = append(out, event{name, encode(fields)})
	}
	add("message_start", object{"message": object{
		"id": id("msg_"), "type": "message", "role": "assistant", "model": model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": u.Input, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite, "output_tokens": 1},
	}})
	index := 0
	block := func(start object, deltas []object) {
		add("content_block_start", object{"index": index, "content_block": start})
		if index == 0 {
			add("ping", object{})
		}
		for _, d := range deltas {
			add("content_block_delta", object{"index": index, "delta": d})
		}
		add("content_block_stop", object{"index": index})
		index++
	}
	if step.Thinking != "" {
		var deltas []object
		for _, p := range pieces(step.Thinking, 7) {
			deltas = append(deltas, object{"type": "thinking_delta", "thinking": p})
		}
		deltas = append(deltas, object{"type": "signature_delta", "signature": sign(model, step.Thinking)})
		block(object{"type": "thinking", "thinking": "", "signature": ""}, deltas)
	}
	if step.Redacted != "" {
		block(object{"type": "redacted_thinking", "data": redact(model, step.Redacted)}, nil)
	}
	if step.Text != "" || step.Fault != nil && len(step.Calls) == 0 {
		var deltas []object
		for _, p := range pieces(step.Text, 7) {
			deltas = append(deltas, object{"type": "text_delta", "text": p})
		}
		block(object{"type": "text", "text": ""}, deltas)
	}
	for i, c := range step.Calls {
		deltas := []object{{"type": "input_json_delta", "partial_json": ""}}
		if input := c.input(cut && i == len(step.Calls)-1); input != "{}" {
			for _, p := range pieces(input, 9) {
				deltas = append(deltas, object{"type": "input_json_delta", "partial_json": p})
			}
		}
		block(object{"type": "tool_use", "id": id("toolu_"), "name": c.Tool, "input": object{}}, deltas)
	}
	reason := "end_turn"
	switch {
	case cut:
		reason = "max_tokens"
	case step.Stop != "":
		reason = step.Stop
	case len(step.Calls) > 0:
		reason = "tool_use"
	}
	add("message_delta", object{"delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": u.Output}})
	add("message_stop", object{})
	return out
}

// sign returns the signature that a model's thinking has here. As the vendor's,
// it is good for that text of that model alone.
func sign(model, text string) string {
	sum := sha256.Sum256([]byte(model + "\x00" + text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// redact makes thinking unreadable to a client.
func redact(model, text string) string {
	return sign(model, text) + "." + base64.StdEncoding.EncodeToString([]byte(text))
}

// redacted reports whether data is what redact made for a model.
func redacted(model, data string) bool {
	_, encoded, _ := strings.Cut(data, ".")
	text, err := base64.StdEncoding.DecodeString(encoded)
	return err == nil && data == redact(model, string(text))
}

// anthropicRequest is a request as far as it is looked at. The rest is known by
// name, so that a field that the vendor does not know is refused as it does.
type anthropicRequest struct {
	Model     string          `json:"model"`
	MaxTokens int             `json:"max_tokens"`
	Stream    bool            `json:"stream"`
	System    []anthropicPart `json:"system"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content []anthropicPart `json:"content"`
	} `json:"messages"`
	Thinking struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
		Cache       json.RawMessage `json:"cache_control"`
	} `json:"tools"`
}

type anthropicPart struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
	Thinking  *string         `json:"thinking"`
	Signature string          `json:"signature"`
	Redacted  string          `json:"data"`
	Content   []anthropicPart `json:"content"`
	Source    *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
	Cache json.RawMessage `json:"cache_control"`
}

var (
	callID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	imageOf  = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
)

func (anthropicWire) check(h http.Header, body []byte) (string, string, *wrong) {
	refuse := func(format string, args ...any) (string, string, *wrong) {
		return "", "", &wrong{status: http.StatusBadRequest, kind: "invalid_request_error", message: fmt.Sprintf(format, args...)}
	}
	var r anthropicRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return refuse("%v: Extra inputs are not permitted", err)
	}
	switch {
	case h.Get("Anthropic-Version") == "":
		return refuse("anthropic-version: header is required")
	case r.Model == "":
		return refuse("model: Field required")
	case r.MaxTokens < 1:
		return refuse("max_tokens: Field required")
	case !r.Stream:
		return refuse("stream: this server only streams")
	case len(r.Messages) == 0:
		return refuse("messages: at least one message is required")
	case r.Messages[0].Role != "user":
		return refuse("messages: first message must use the \"user\" role")
	}
	if why := r.thinks(); why != "" {
		return refuse("%s", why)
	}
	marks := 0
	for _, t := range r.Tools {
		var schema struct{ Type string }
		if !toolName.MatchString(t.Name) {
			return refuse("tools: name %q should match the pattern", t.Name)
		}
		if json.Unmarshal(t.InputSchema, &schema) != nil || schema.Type != "object" {
			return refuse("tools.%s.input_schema.type: Input should be 'object'", t.Name)
		}
		if t.Cache != nil {
			marks++
		}
	}
	var open []string // uses that the message before has made
	role := ""
	for i, m := range r.Messages {
		at := fmt.Sprintf("messages.%d", i)
		if m.Role != "user" && m.Role != "assistant" {
			return refuse("%s: unknown role %q", at, m.Role)
		}
		if m.Role == role {
			return refuse("%s: roles must alternate", at)
		}
		if role = m.Role; len(m.Content) == 0 {
			return refuse("%s: content must not be empty", at)
		}
		var uses []string
		for j, p := range m.Content {
			if p.Cache != nil {
				marks++
			}
			if why := p.check(m.Role); why != "" {
				return refuse("%s.content.%d: %s", at, j, why)
			}
			if !p.genuine(r.Model) {
				return refuse("%s.content.%d: Invalid `signature` in `thinking` block", at, j)
			}
			if p.thought() && j == len(m.Content)-1 {
				return refuse("%s: The final block in an assistant message cannot be `thinking`.", at)
			}
			switch {
			case p.Type == "tool_use" && slices.Contains(uses, p.ID):
				return refuse("%s: `tool_use` ids must be unique", at)
			case p.Type == "tool_use":
				uses = append(uses, p.ID)
			case p.Type == "tool_result":
				if k := slices.Index(open, p.ToolUseID); k >= 0 {
					open = slices.Delete(open, k, k+1)
					continue
				}
				return refuse("%s.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s", at, j, p.ToolUseID)
			case len(open) > 0:
				return refuse("%s: `tool_result` blocks must come first", at)
			}
		}
		if len(open) > 0 {
			return refuse("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s", at, strings.Join(open, ", "))
		}
		open = uses
	}
	for _, p := range r.System {
		if p.Cache != nil {
			marks++
		}
		if why := p.check("system"); why != "" {
			return refuse("system: %s", why)
		}
	}
	if marks > 4 {
		return refuse("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	if len(open) > 0 {
		return refuse("`tool_use` ids were found without `tool_result` blocks immediately after: %s", strings.Join(open, ", "))
	}
	first := ""
	if t := r.Messages[0].Content[0].Text; t != nil {
		first = *t
	}
	return first, r.Model, nil
}

// thinks says what is wrong with how a request wants the model to think; "" is
// nothing.
func (r anthropicRequest) thinks() string {
	switch r.Thinking.Type {
	case "", "disabled", "adaptive":
		return ""
	case "enabled":
	default:
		return fmt.Sprintf("thinking: unknown type %q", r.Thinking.Type)
	}
	switch n := len(r.Messages); {
	case r.Thinking.Budget < 1024:
		return "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
	case r.Thinking.Budget >= r.MaxTokens:
		return "`max_tokens` must be greater than `thinking.budget_tokens`"
	case n > 1 && len(r.Messages[n-1].Content) > 0 && r.Messages[n-1].Content[0].Type == "tool_result" &&
		len(r.Messages[n-2].Content) > 0 && !r.Messages[n-2].Content[0].thought():
		return fmt.Sprintf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`. When `thinking` is enabled, a final `assistant` message must start with a thinking block", n-2)
	}
	return ""
}

func (p anthropicPart) thought() bool { return p.Type == "thinking" || p.Type == "redacted_thinking" }

// genuine reports whether thinking is as a model sent it.
func (p anthropicPart) genuine(model string) bool {
	switch p.Type {
	case "thinking":
		return p.Thinking != nil && p.Signature == sign(model, *p.Thinking)
	case "redacted_thinking":
		return redacted(model, p.Redacted)
	}
	return true
}

// check says what is wrong with a part of a message; "" is nothing.
func (p anthropicPart) check(role string) string {
	switch {
	case p.Type == "text":
		if p.Text == nil || strings.TrimSpace(*p.Text) == "" {
			return "text content blocks must contain non-whitespace text"
		}
	case p.Type == "image" && role != "assistant":
		if p.Source == nil || p.Source.Type != "base64" || !slices.Contains(imageOf, p.Source.MediaType) {
			return "source.media_type: Input should be one of " + strings.Join(imageOf, ", ")
		}
		if data, err := base64.StdEncoding.DecodeString(p.Source.Data); err != nil || len(data) == 0 {
			return "source: invalid base64 data"
		}
	case p.Type == "tool_use" && role == "assistant":
		if !callID.MatchString(p.ID) || !toolName.MatchString(p.Name) {
			return "tool_use: id or name should match the pattern"
		}
		var input map[string]any
		if json.Unmarshal(p.Input, &input) != nil || input == nil {
			return "tool_use.input: Input should be a valid dictionary"
		}
	case p.Type == "tool_result" && role == "user":
		for _, inner := range p.Content {
			if why := inner.check("result"); why != "" {
				return "tool_result.content: " + why
			}
		}
	case p.thought() && role == "assistant":
		if p.Cache != nil {
			return p.Type + ".cache_control: Extra inputs are not permitted"
		}
	default:
		return fmt.Sprintf("a %s cannot hold %q", role, p.Type)
	}
	return ""
}
