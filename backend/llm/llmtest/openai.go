package llmtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// openaiWire is the Chat Completions API.
// See https://platform.openai.com/docs/api-reference/chat-streaming.
type openaiWire struct{}

func (openaiWire) path() string { return "/v1/chat/completions" }

func (openaiWire) key(h http.Header) string {
	key, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return key
}

func (e wrong) openai() object {
	code := any(nil)
	if e.code != "" {
		code = e.code
	}
	return object{"error": object{"message": e.message, "type": e.kind, "param": nil, "code": code}}
}

func (openaiWire) wrong(w http.ResponseWriter, e wrong) { reply(w, e.status, e.openai()) }
func (openaiWire) failed(e wrong) event                 { return event{data: encode(e.openai())} }

func (w openaiWire) text(piece string) event {
	return w.chunk("chatcmpl-endless", "", object{"content": piece}, nil)
}

func (openaiWire) chunk(id, model string, delta object, finish any) event {
	return event{data: encode(object{
		"id": id, "object": "chat.completion.chunk", "created": 1750000000, "model": model,
		"choices": []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, "usage": nil,
	})}
}

func (w openaiWire) events(step Step, model string, id func(string) string) []event {
	u, cut, message := step.usage(), step.Stop == "length", id("chatcmpl-")
	var out []event
	add := func(delta object, finish any) { out = append(out, w.chunk(message, model, delta, finish)) }
	add(object{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, p := range pieces(step.Thinking, 7) { // as other servers than the vendor's do
		add(object{"reasoning_content": p}, nil)
	}
	for _, p := range pieces(step.Text, 7) {
		add(object{"content": p}, nil)
	}
	for i, c := range step.Calls {
		add(object{"tool_calls": []object{{"index": i, "id": id("call_"), "type": "function", "function": object{"name": c.Tool, "arguments": ""}}}}, nil)
		for _, p := range pieces(c.input(cut && i == len(step.Calls)-1), 9) {
			add(object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	reason := "stop"
	switch {
	case step.Stop != "":
		reason = step.Stop
	case len(step.Calls) > 0:
		reason = "tool_calls"
	}
	add(object{}, reason)
	out = append(out, event{data: encode(object{
		"id": message, "object": "chat.completion.chunk", "created": 1750000000, "model": model, "choices": []any{},
		"usage": object{
			"prompt_tokens": u.Input + u.CacheRead + u.CacheWrite, "completion_tokens": u.Output, "total_tokens": u.Input + u.CacheRead + u.CacheWrite + u.Output,
			"prompt_tokens_details": object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		},
	})})
	return append(out, event{data: "[DONE]"})
}

type openaiRequest struct {
	Model     string `json:"model"`
	Stream    bool   `json:"stream"`
	MaxTokens *int   `json:"max_tokens"`
	MaxNew    *int   `json:"max_completion_tokens"`
	Options   *struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []openaiMessage `json:"messages"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type openaiMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	Reasoning  json.RawMessage `json:"reasoning_content"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// openaiMaxID is the longest id of a call.
const openaiMaxID = 40

func (openaiWire) check(_ http.Header, body []byte) (string, string, *wrong) {
	refuse := func(format string, args ...any) (string, string, *wrong) {
		return "", "", &wrong{status: http.StatusBadRequest, kind: "invalid_request_error", message: fmt.Sprintf(format, args...)}
	}
	var r openaiRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return refuse("We could not parse the JSON body of your request: %v", err)
	}
	switch {
	case r.Model == "":
		return refuse("you must provide a model parameter")
	case !r.Stream:
		return refuse("stream: this server only streams")
	case len(r.Messages) == 0:
		return refuse("Invalid 'messages': empty array")
	case r.MaxTokens != nil && r.MaxNew != nil:
		return refuse("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported")
	case r.Tools != nil && len(r.Tools) == 0:
		return refuse("Invalid 'tools': empty array")
	}
	for _, t := range r.Tools {
		var schema struct{ Type string }
		if t.Type != "function" || !toolName.MatchString(t.Function.Name) {
			return refuse("Invalid 'tools': name %q", t.Function.Name)
		}
		if json.Unmarshal(t.Function.Parameters, &schema) != nil || schema.Type != "object" {
			return refuse("Invalid schema for function '%s': schema must be of type 'object'", t.Function.Name)
		}
	}
	var open []string // calls that have no result yet
	first := ""
	for i, m := range r.Messages {
		at := fmt.Sprintf("messages[%d]", i)
		if m.Role != "tool" && len(open) > 0 {
			return refuse("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. Missing: %s", strings.Join(open, ", "))
		}
		if why := m.check(); why != "" {
			return refuse("Invalid '%s': %s", at, why)
		}
		for _, c := range m.ToolCalls {
			open = append(open, c.ID)
		}
		switch m.Role {
		case "tool":
			k := slices.Index(open, m.ToolCallID)
			if k < 0 {
				return refuse("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'")
			}
			open = slices.Delete(open, k, k+1)
		case "user":
			if first == "" {
				first = m.firstText()
			}
		}
	}
	if len(open) > 0 {
		return refuse("An assistant message with 'tool_calls' must be followed by tool messages. Missing: %s", strings.Join(open, ", "))
	}
	return first, r.Model, nil
}

// firstText returns the first paragraph, which stays the same when more is said
// before the first answer.
func (m openaiMessage) firstText() string {
	var text string
	var parts []struct{ Text string }
	if json.Unmarshal(m.Content, &text) != nil && json.Unmarshal(m.Content, &parts) == nil && len(parts) > 0 {
		text = parts[0].Text
	}
	text, _, _ = strings.Cut(text, "\n\n")
	return text
}

// check says what is wrong with a message by itself; "" is nothing.
func (m openaiMessage) check() string {
	if !slices.Contains([]string{"system", "developer", "user", "assistant", "tool"}, m.Role) {
		return "role: unknown value " + m.Role
	}
	if m.Reasoning != nil {
		return "reasoning_content: no server wants its thinking back"
	}
	if m.Role != "assistant" && len(m.ToolCalls) > 0 {
		return "tool_calls: only an assistant has them"
	}
	for _, c := range m.ToolCalls {
		switch {
		case c.ID == "" || len(c.ID) > openaiMaxID:
			return fmt.Sprintf("tool_calls: string too long. Expected a string with maximum length %d", openaiMaxID)
		case c.Type != "function" || !toolName.MatchString(c.Function.Name):
			return "tool_calls: type or name"
		}
	}
	if len(m.Content) == 0 || string(m.Content) == "null" {
		if m.Role == "assistant" && len(m.ToolCalls) > 0 {
			return ""
		}
		return "content: expected a string, got null"
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return ""
	}
	var parts []struct {
		Type  string `json:"type"`
		Image struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(m.Content, &parts) != nil || len(parts) == 0 {
		return "content: expected a string or an array of parts"
	}
	for _, p := range parts {
		switch {
		case p.Type == "text":
		case p.Type == "image_url" && m.Role == "user":
			head, data, ok := strings.Cut(p.Image.URL, ";base64,")
			if raw, err := base64.StdEncoding.DecodeString(data); !ok || err != nil || len(raw) == 0 || !slices.Contains(imageOf, strings.TrimPrefix(head, "data:")) {
				return "image_url: unsupported image"
			}
		default:
			return fmt.Sprintf("content: a %s cannot hold %q", m.Role, p.Type)
		}
	}
	return ""
}
