package anthropic

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// canned answers every request with one body.
type canned string

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(string(c))), Request: r,
	}, nil
}

// answerTo returns what a stream of a body ends with.
func answerTo(t *testing.T, body string) (string, *llm.Message, error) {
	t.Helper()
	m := New(Options{HTTP: &http.Client{Transport: canned(body)}})
	text := ""
	var message *llm.Message
	var fault error
	for e, err := range m.Stream(t.Context(), llm.Request{Model: "m", Messages: []llm.Message{llm.Text(llm.RoleUser, "hello")}}) {
		if message != nil || fault != nil {
			t.Fatalf("%+v, %v after the end", e, err)
		}
		text, message, fault = text+e.Text, e.Message, err
	}
	if (message == nil) == (fault == nil) {
		t.Fatalf("message %+v and error %v, want one of them", message, fault)
	}
	return text, message, fault
}

// Local servers send the input of a call at once, and no pieces.
func TestStream_inputAtOnce(t *testing.T) {
	_, m, err := answerTo(t, `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":3}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"Bash","input":{"command":"ls"}}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

`)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Blocks) != 2 || m.Blocks[0].Thinking == nil || m.Blocks[1].Use == nil || string(m.Blocks[1].Use.Input) != `{"command":"ls"}` {
		t.Errorf("blocks = %+v, want what was thought, and the call", m.Blocks)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("event: message_start\ndata: {\"type\":\"message_start\"}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"b\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	f.Add("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n")
	f.Add("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":-9223372036854775808}\n\n")
	f.Add("data: null\n\nevent: x\ndata: 5\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		_, m, err := answerTo(t, body)
		check(t, m, err)
	})
}

// check holds what every end of a stream has to be.
func check(t *testing.T, m *llm.Message, err error) {
	t.Helper()
	var fault *llm.Error
	if err != nil && (!errors.As(err, &fault) || fault.Message == "") {
		t.Errorf("Stream() = %v, want an *llm.Error", err)
	}
	if m == nil {
		return
	}
	if m.Role != llm.RoleAssistant {
		t.Errorf("role = %q", m.Role)
	}
	for _, b := range m.Blocks {
		parts := 0
		for _, is := range []bool{b.Text != "", b.Use != nil, b.Thinking != nil} {
			if is {
				parts++
			}
		}
		if parts != 1 {
			t.Errorf("block %+v, want a text, a call or a thought", b)
		}
	}
}
