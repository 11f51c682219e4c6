// Package llmtest is servers for tests that speak the vendors' wires as the
// vendors do: the same events in the same order and in small pieces, ids of the
// same form, counts in the same places, and the same refusal of requests that
// are not as the wire wants them. What they answer is scripted, faults
// included:
//
//	s := llmtest.Start(t, llmtest.Anthropic, llmtest.Script{Steps: []llmtest.Step{
//		{Text: "I look around.", Calls: []llmtest.Call{{Tool: "Bash", Input: json.RawMessage(`{"command":"ls"}`)}}},
//		{Fault: &llmtest.Fault{Status: 529}},
//		{Text: "That is all."},
//	}})
//	// s.URL is a base URL; s.Requests() what was asked
//
// Every conversation, told by its first message, plays the script from its
// start; a fault is a step of its own, so that trying again gets the next one.
// cmd/modelserver is the same as a program.
package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// Wire is a vendor's way to speak.
type Wire string

// The wires.
const (
	Anthropic Wire = "anthropic"
	OpenAI    Wire = "openai"
)

// Request is what was asked.
type Request struct {
	Key    string // as it was sent; "" when there was none
	Header http.Header
	Body   json.RawMessage
}

// Server answers requests as its script says.
type Server struct {
	URL string // a base URL as a client takes it

	wire   wire
	script Script

	mu       sync.Mutex
	requests []Request
	played   map[string]int // steps, by conversation
	calls    int            // ids given so far
	gone     chan struct{}  // one for each client that went before its answer ended
}

// wire is what differs between the vendors.
type wire interface {
	path() string
	key(http.Header) string
	check(h http.Header, body []byte) (conversation, model string, wrong *wrong)
	wrong(w http.ResponseWriter, e wrong)
	events(step Step, model string, id func(prefix string) string) []event
	failed(e wrong) event
	text(piece string) event
}

// event is one event of a stream.
type event struct {
	name string // "" has none
	data string
}

// wrong is an error as a server tells it.
type wrong struct {
	status              int
	kind, code, message string
}

// Start starts a server that ends with the test. A client that does not go
// keeps the test from ending, as it should.
func Start(tb testing.TB, wire Wire, script Script) *Server {
	tb.Helper()
	s := New(wire, script)
	h := httptest.NewServer(s)
	tb.Cleanup(h.Close)
	s.URL = h.URL
	if wire == OpenAI {
		s.URL += "/v1"
	}
	return s
}

// New returns a Server as a handler, without an address.
func New(wire Wire, script Script) *Server {
	s := &Server{script: script, played: map[string]int{}, gone: make(chan struct{}, 64)} // more than a test has clients
	switch wire {
	case Anthropic:
		s.wire = anthropicWire{}
	case OpenAI:
		s.wire = openaiWire{}
	default:
		panic("llmtest: unknown wire " + string(wire))
	}
	return s
}

// Requests returns what was asked so far, also what was refused.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// AwaitGone waits until a client has closed its connection before the answer
// was complete.
func (s *Server) AwaitGone(ctx context.Context) error {
	select {
	case <-s.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no client went away: %w", context.Cause(ctx))
	}
}

// maxBody bounds a request.
const maxBody = 64 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.wire.wrong(w, wrong{status: http.StatusRequestEntityTooLarge, kind: "request_too_large", message: "Request exceeds the maximum size"})
		return
	}
	key := s.wire.key(r.Header)
	s.mu.Lock()
	s.requests = append(s.requests, Request{Key: key, Header: r.Header.Clone(), Body: body})
	s.mu.Unlock()
	if r.URL.Path != s.wire.path() || r.Method != http.MethodPost {
		s.wire.wrong(w, wrong{status: http.StatusNotFound, kind: "not_found_error", message: "Not found"})
		return
	}
	if !s.script.NoKey && (key == "" || s.script.Key != "" && key != s.script.Key) {
		// As a vendor does, with a part of the key: it must reach nobody.
		s.wire.wrong(w, wrong{status: http.StatusUnauthorized, kind: "authentication_error", code: "invalid_api_key", message: "Incorrect API key provided: " + key})
		return
	}
	conversation, model, bad := s.wire.check(r.Header, body)
	if bad != nil {
		s.wire.wrong(w, *bad)
		return
	}
	if len(s.script.Models) > 0 && !slices.Contains(s.script.Models, model) {
		s.wire.wrong(w, wrong{status: http.StatusNotFound, kind: "not_found_error", code: "model_not_found", message: "model: " + model})
		return
	}
	step := s.next(conversation)
	if f := step.Fault; f != nil && f.Status != 0 {
		for k, v := range f.Headers {
			w.Header().Set(k, v)
		}
		if f.Body != "" {
			w.WriteHeader(f.Status)
			io.WriteString(w, f.Body)
			return
		}
		s.wire.wrong(w, f.wrong())
		return
	}
	s.stream(w, r, step, model)
}

// next returns a conversation's next step.
func (s *Server) next(conversation string) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.played[conversation]
	s.played[conversation]++
	if s.script.Repeat {
		n %= len(s.script.Steps)
	}
	if n >= len(s.script.Steps) {
		return Step{Text: closing}
	}
	return s.script.Steps[n]
}

// id returns an id that this server has not given before.
func (s *Server) id(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return fmt.Sprintf("%s%024d", prefix, s.calls)
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, step Step, model string) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	send := func(e event) bool {
		text := "data: " + e.data + "\n\n"
		if e.name != "" {
			text = "event: " + e.name + "\n" + text
		}
		// In two writes, as a network cuts where it likes.
		for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
			if _, err := io.WriteString(w, part); err != nil {
				return false
			}
			http.NewResponseController(w).Flush()
		}
		return s.pause(r.Context(), step.Fault.pause())
	}
	events := s.wire.events(step, model, s.id)
	f := step.Fault
	for i, e := range events {
		if f != nil && f.Then != "" && i == f.After {
			break
		}
		if !send(e) {
			s.left()
			return
		}
	}
	if f == nil {
		return
	}
	switch f.Then {
	case ThenCut:
		panic(http.ErrAbortHandler) // closes the connection in the middle of a chunk
	case ThenBadJSON:
		name := ""
		if len(events) > 0 {
			name = events[min(f.After, len(events)-1)].name
		}
		send(event{name, `{"type": "content_block_delta", "index": 0, "delta": {"te`})
	case ThenError:
		send(s.wire.failed(f.wrong()))
	case ThenStall:
		<-r.Context().Done()
		s.left()
	case ThenEndless:
		for send(s.wire.text("and so on ")) {
			if !s.pause(r.Context(), time.Millisecond) {
				break
			}
		}
		s.left()
	}
}

// pause waits, and reports whether the client is still there.
func (s *Server) pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) left() {
	select {
	case s.gone <- struct{}{}:
	default:
	}
}

// wrong returns the error that a fault tells, the usual one of its status where
// it names none.
func (f *Fault) wrong() wrong {
	e := wrong{status: f.Status, kind: f.Type, code: f.Code, message: f.Message}
	if e.kind == "" {
		e.kind = map[int]string{
			400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
			404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
		}[f.Status]
	}
	if e.kind == "" {
		e.kind = "api_error"
	}
	if e.message == "" {
		e.message = "Something is wrong here"
	}
	return e
}

// encode marshals what cannot fail.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("llmtest: " + err.Error())
	}
	return string(b)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, encode(v))
}
