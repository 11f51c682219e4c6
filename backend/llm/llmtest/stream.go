package llmtest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// Canned returns a client whose every answer is the same stream of events: for
// what no server would send, and for fuzzing.
func Canned(body string) *http.Client { return &http.Client{Transport: canned(body)} }

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

// Answer asks a model one thing and returns the pieces of text that came, and
// what the stream ended with: a message or a fault, once and last.
func Answer(t *testing.T, m llm.Model) (string, *llm.Message, error) {
	t.Helper()
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

// CheckEnd holds what every end of a stream has to be.
func CheckEnd(t *testing.T, m *llm.Message, err error) {
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
