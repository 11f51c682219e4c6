package llmtest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/anthropic"
	"github.com/glovebox-dev/glovebox/backend/llm/llmtest"
	"github.com/glovebox-dev/glovebox/backend/llm/openai"
)

const (
	keyEnv = "GLOVEBOX_TEST_MODEL_KEY"
	key    = "sk-test-1234567890abcdef"
)

// place says where a model of a test is, and what is not as usual there.
type place struct {
	url           string
	headers, idle time.Duration
	noKey         bool
	thinking      anthropic.Thinking
}

func model(wire llmtest.Wire, p place) llm.Model {
	env := keyEnv
	if p.noKey {
		env = ""
	}
	if wire == llmtest.Anthropic {
		return anthropic.New(anthropic.Options{BaseURL: p.url, KeyEnv: env, HeaderTimeout: p.headers, IdleTimeout: p.idle, Thinking: p.thinking})
	}
	return openai.New(openai.Options{BaseURL: p.url, KeyEnv: env, HeaderTimeout: p.headers, IdleTimeout: p.idle})
}

func eachWire(t *testing.T, test func(t *testing.T, wire llmtest.Wire)) {
	for _, w := range []llmtest.Wire{llmtest.Anthropic, llmtest.OpenAI} {
		t.Run(string(w), func(t *testing.T) {
			t.Setenv(keyEnv, key)
			test(t, w)
		})
	}
}

// ask makes one request and returns its text as it came, and its end.
func ask(ctx context.Context, m llm.Model, r llm.Request) (text string, last llm.Event, err error) {
	for e, err := range m.Stream(ctx, r) {
		if err != nil {
			return text, last, err
		}
		if last.Message != nil {
			return text, last, errors.New("an event after the last one")
		}
		text += e.Text
		last = e
	}
	if last.Message == nil {
		err = errors.New("neither a message nor an error")
	}
	return text, last, err
}

func hello() llm.Request {
	return llm.Request{Model: "test-model", System: "Be short.", Messages: []llm.Message{llm.Text(llm.RoleUser, "hello")}, Tools: []llm.Tool{
		{Name: "Bash", Description: "Runs a command.", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`)},
		{Name: "Read", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)},
	}}
}

func call(tool, input string) llmtest.Call {
	return llmtest.Call{Tool: tool, Input: json.RawMessage(input)}
}

func TestStream_textAndParallelCalls(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		long := `{"command":"echo ` + strings.Repeat("grüße ", 40) + `"}`
		s := llmtest.Start(t, wire, llmtest.Script{Key: key, Steps: []llmtest.Step{{
			Text: "I look, and ſee what is there.", Calls: []llmtest.Call{call("Bash", long), call("Read", `{"path":"a"}`), call("Bash", `{}`)},
			Usage: &llm.Usage{Input: 7, Output: 11, CacheRead: 13, CacheWrite: 17},
		}}})
		text, last, err := ask(t.Context(), model(wire, place{url: s.URL}), hello())
		if err != nil {
			t.Fatal(err)
		}
		if text != "I look, and ſee what is there." {
			t.Errorf("the text in pieces is %q", text)
		}
		var names, inputs []string
		ids := map[string]bool{}
		for _, b := range last.Message.Blocks {
			if b.Use != nil {
				names, inputs = append(names, b.Use.Name), append(inputs, string(b.Use.Input))
				ids[b.Use.ID] = true
			}
		}
		if diff := cmp.Diff([]string{"Bash", "Read", "Bash"}, names); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff([]string{long, `{"path":"a"}`, `{}`}, inputs); diff != "" {
			t.Errorf("inputs (-want +got)\n%s", diff)
		}
		if len(ids) != 3 {
			t.Errorf("ids = %v, want three", ids)
		}
		if want := (llm.Usage{Input: 7, Output: 11, CacheRead: 13, CacheWrite: 17}); last.Usage != want {
			t.Errorf("usage = %+v, want %+v", last.Usage, want)
		}
	})
}

// A history as an agent keeps it, with calls under ids of its own, comes
// through the servers' checks, and says the same there.
func TestStream_history(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		s := llmtest.Start(t, wire, llmtest.Script{Steps: []llmtest.Step{{Text: "Yes."}}})
		r := hello()
		png := []byte("\x89PNG not really")
		odd := strings.Repeat("an id with spaces ", 10)
		r.Messages = []llm.Message{
			{Role: llm.RoleUser, Blocks: []llm.Block{{Text: "look at this"}, {Image: &llm.Image{MediaType: "image/png", Data: png}}, {Text: "  "}}},
			llm.Text(llm.RoleUser, "and at that"),
			{Role: llm.RoleAssistant, Blocks: []llm.Block{{Text: "I do."},
				{Use: &llm.Use{ID: "call_AAAAAAAAAAAAAAAAAAAAAAAAAA", Name: "Bash", Input: json.RawMessage(`{"command":"ls"}`)}},
				{Use: &llm.Use{ID: odd, Name: "no such tool!", Input: json.RawMessage(`broken`)}}}},
			llm.Text(llm.RoleUser, "said meanwhile"),
			{Role: llm.RoleUser, Blocks: []llm.Block{
				{Result: &llm.Result{ID: odd, Text: "unknown tool", IsError: true}},
				{Result: &llm.Result{ID: "call_AAAAAAAAAAAAAAAAAAAAAAAAAA", Text: "a picture", Images: []llm.Image{{MediaType: "image/png", Data: png}, {MediaType: "image/tiff", Data: png}}}},
			}},
			{Role: llm.RoleAssistant, Blocks: []llm.Block{{Text: "\n"}}},
		}
		if _, _, err := ask(t.Context(), model(wire, place{url: s.URL}), r); err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Messages []struct {
				Role    string
				Content json.RawMessage
			}
		}
		body := s.Requests()[0].Body
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Fatal(err)
		}
		var roles []string
		for _, m := range sent.Messages {
			roles = append(roles, m.Role)
		}
		want := []string{"user", "assistant", "user"}
		if wire == llmtest.OpenAI {
			want = []string{"system", "user", "assistant", "tool", "tool", "user"}
		}
		if diff := cmp.Diff(want, roles); diff != "" {
			t.Errorf("roles (-want +got)\n%s", diff)
		}
		for _, part := range []string{"look at this", "and at that", "I do.", "said meanwhile", "unknown tool", "a picture", "An image was left out", "no_such_tool_"} {
			if !bytes.Contains(body, []byte(part)) {
				t.Errorf("%q is not in the request", part)
			}
		}
		if n := bytes.Count(body, []byte(base64.StdEncoding.EncodeToString(png))); n != 2 {
			t.Errorf("%d images were sent, want those two that the wire takes\n%s", n, body)
		}
		if wire == llmtest.OpenAI && !bytes.Contains(body, []byte("Image 1 of the result of Bash (call call_AAAAAAAAAAAAAAAAAAAAAAAAAA)")) {
			t.Errorf("the image does not name its call\n%s", body)
		}
	})
}

func TestStream_marksTheCache(t *testing.T) {
	t.Setenv(keyEnv, key)
	s := llmtest.Start(t, llmtest.Anthropic, llmtest.Script{Steps: []llmtest.Step{{Text: "Yes."}}})
	if _, _, err := ask(t.Context(), model(llmtest.Anthropic, place{url: s.URL}), hello()); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(s.Requests()[0].Body, []byte(`"cache_control":{"type":"ephemeral"}`)); n != 3 {
		t.Errorf("%d places are marked, want the tools, the system prompt and the history\n%s", n, s.Requests()[0].Body)
	}
}

func TestStream_limit(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		s := llmtest.Start(t, wire, llmtest.Script{Steps: []llmtest.Step{
			{Text: "It is long", Stop: "length"},
			{Calls: []llmtest.Call{call("Bash", `{"command":"ls"}`), call("Write", `{"path":"a","content":"half of it"}`)}, Stop: "length"},
		}})
		m, r := model(wire, place{url: s.URL}), hello()
		r.MaxTokens = 77
		text, last, err := ask(t.Context(), m, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := last.Message.Blocks; !strings.Contains(text, "77 tokens") || !strings.Contains(got[len(got)-1].Text, "77 tokens") {
			t.Errorf("nothing says that the answer was cut: %q, %+v", text, got)
		}
		_, _, err = ask(t.Context(), m, r)
		var fault *llm.Error
		if !errors.As(err, &fault) || fault.Kind != llm.Malformed || !strings.Contains(fault.Message, "Write") || !strings.Contains(fault.Message, "max_tokens") {
			t.Errorf("a call that was cut gave %v", err)
		}
	})
}

func TestStream_faults(t *testing.T) {
	date := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name  string
		fault llmtest.Fault
		kind  llm.ErrorKind
		words string
		after [2]time.Duration
	}{
		{"429 seconds", llmtest.Fault{Status: 429, Headers: map[string]string{"Retry-After": "3"}}, llm.RateLimited, "no more requests", [2]time.Duration{3 * time.Second, 3 * time.Second}},
		{"429 date", llmtest.Fault{Status: 429, Headers: map[string]string{"Retry-After": date}}, llm.RateLimited, "no more requests", [2]time.Duration{60 * time.Second, 90 * time.Second}},
		{"quota", llmtest.Fault{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota"}, llm.NoFunds, "billing", [2]time.Duration{}},
		{"402", llmtest.Fault{Status: 402}, llm.NoFunds, "billing", [2]time.Duration{}},
		{"no credit", llmtest.Fault{Status: 400, Message: "Your credit balance is too low to access the API"}, llm.NoFunds, "billing", [2]time.Duration{}},
		{"529", llmtest.Fault{Status: 529}, llm.Overloaded, "overloaded", [2]time.Duration{}},
		{"503", llmtest.Fault{Status: 503, Body: "<html>busy</html>"}, llm.Overloaded, "overloaded", [2]time.Duration{}},
		{"500", llmtest.Fault{Status: 500}, llm.ServerError, "fault", [2]time.Duration{}},
		{"502 page", llmtest.Fault{Status: 502, Body: "<html>bad gateway</html>"}, llm.ServerError, "fault", [2]time.Duration{}},
		{"403", llmtest.Fault{Status: 403}, llm.NoKey, keyEnv, [2]time.Duration{}},
		{"404", llmtest.Fault{Status: 404}, llm.BadRequest, "test-model", [2]time.Duration{}},
		{"413", llmtest.Fault{Status: 413}, llm.BadRequest, "longer than", [2]time.Duration{}},
		{"too long", llmtest.Fault{Status: 400, Message: "prompt is too long: 210000 tokens > 200000 maximum"}, llm.BadRequest, "longer than", [2]time.Duration{}},
		{"too long by code", llmtest.Fault{Status: 400, Code: "context_length_exceeded", Type: "context_length_exceeded", Message: "maximum context length"}, llm.BadRequest, "longer than", [2]time.Duration{}},
		{"400", llmtest.Fault{Status: 400, Message: "tools: too many"}, llm.BadRequest, "tools: too many", [2]time.Duration{}},
		{"400 with the key", llmtest.Fault{Status: 400, Message: "bad header " + key}, llm.BadRequest, "[key]", [2]time.Duration{}},
		{"plain message", llmtest.Fault{Status: 400, Body: `{"error":"model does not support tools"}`}, llm.BadRequest, "support tools", [2]time.Duration{}},
		{"redirect", llmtest.Fault{Status: 307, Headers: map[string]string{"Location": "http://127.0.0.1:1/"}}, llm.BadRequest, "base_url", [2]time.Duration{}},
		{"cut", llmtest.Fault{After: 4, Then: llmtest.ThenCut}, llm.Network, "cut off", [2]time.Duration{}},
		{"cut at once", llmtest.Fault{After: 0, Then: llmtest.ThenCut}, llm.Network, "", [2]time.Duration{}},
		{"ended early", llmtest.Fault{After: 5, Then: llmtest.ThenEnd}, llm.Network, "cut off", [2]time.Duration{}},
		{"bad JSON", llmtest.Fault{After: 4, Then: llmtest.ThenBadJSON}, llm.Malformed, "could not be read", [2]time.Duration{}},
		{"overloaded in the stream", llmtest.Fault{After: 4, Then: llmtest.ThenError, Type: "overloaded_error"}, llm.Overloaded, "overloaded", [2]time.Duration{}},
		{"fault in the stream", llmtest.Fault{After: 4, Then: llmtest.ThenError, Type: "api_error"}, llm.ServerError, "fault", [2]time.Duration{}},
		{"stands still", llmtest.Fault{After: 4, Then: llmtest.ThenStall}, llm.Network, "stood still", [2]time.Duration{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachWire(t, func(t *testing.T, wire llmtest.Wire) {
				s := llmtest.Start(t, wire, llmtest.Script{Key: key, Steps: []llmtest.Step{{Text: "A text that is long enough to be cut somewhere.", Fault: &c.fault}, {Text: "Yes."}}})
				m := model(wire, place{url: s.URL, idle: 300 * time.Millisecond})
				_, _, err := ask(t.Context(), m, hello())
				var fault *llm.Error
				if !errors.As(err, &fault) {
					t.Fatalf("Stream() = %v, want an *llm.Error", err)
				}
				if fault.Kind != c.kind || !strings.Contains(fault.Message, c.words) || fault.Status != c.fault.Status {
					t.Errorf("fault = %+v, want %s with %q", fault, c.kind, c.words)
				}
				if fault.RetryAfter < c.after[0] || fault.RetryAfter > c.after[1] {
					t.Errorf("RetryAfter = %v, want between %v", fault.RetryAfter, c.after)
				}
				if strings.Contains(fmt.Sprintf("%v %+v", err, fault), key) || strings.Contains(err.Error(), "<html>") {
					t.Errorf("the error tells too much: %v", err)
				}
				if n := len(s.Requests()); n != 1 {
					t.Errorf("%d requests were made, want one: trying again is not the model's to decide", n)
				}
				if text, _, err := ask(t.Context(), m, hello()); err != nil || text != "Yes." {
					t.Errorf("the next request gave %q, %v", text, err)
				}
			})
		})
	}
}

func TestStream_noServer(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		h := httptest.NewServer(http.NotFoundHandler())
		h.Close()
		_, _, err := ask(t.Context(), model(wire, place{url: h.URL}), hello())
		var fault *llm.Error
		if !errors.As(err, &fault) || fault.Kind != llm.Network || !strings.Contains(fault.Message, "connection refused") {
			t.Errorf("Stream() = %v, want that the connection was refused", err)
		}
	})
}

func TestStream_noHeaders(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		h := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			for buf := make([]byte, 1024); ; { // the end of the body is what lets the server see that the client goes
				if _, err := r.Body.Read(buf); err != nil {
					break
				}
			}
			<-r.Context().Done()
		}))
		defer h.Close()
		_, _, err := ask(t.Context(), model(wire, place{url: h.URL, headers: 200 * time.Millisecond}), hello())
		var fault *llm.Error
		if !errors.As(err, &fault) || fault.Kind != llm.Network || !strings.Contains(fault.Message, "did not answer") {
			t.Errorf("Stream() = %v, want that there was no answer", err)
		}
	})
}

// The key is looked up when it is used, and a fault names its variable.
func TestStream_key(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		var log bytes.Buffer
		was := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		t.Cleanup(func() { slog.SetDefault(was) })

		s := llmtest.Start(t, wire, llmtest.Script{Key: key, Steps: []llmtest.Step{{Text: "Yes."}}, Repeat: true})
		m := model(wire, place{url: s.URL})
		for _, c := range []struct{ value, words string }{
			{"", keyEnv + " is not set"}, {"sk-another-key-that-is-wrong", "refused the key in " + keyEnv}, {key + "\n", ""},
		} {
			t.Setenv(keyEnv, c.value)
			_, _, err := ask(t.Context(), m, hello())
			var fault *llm.Error
			switch {
			case c.words == "" && err != nil:
				t.Errorf("the right key: %v", err)
			case c.words == "":
			case !errors.As(err, &fault) || fault.Kind != llm.NoKey || fault.Status != 401 || !strings.Contains(fault.Message, c.words):
				t.Errorf("key %q: %v, want %q", c.value, err, c.words)
			case c.value != "" && strings.Contains(fmt.Sprintf("%v %+v", err, fault), c.value):
				t.Errorf("the error holds the key: %v", err)
			}
		}
		var keys []string
		for _, r := range s.Requests() {
			keys = append(keys, r.Key)
		}
		if diff := cmp.Diff([]string{"", "sk-another-key-that-is-wrong", key}, keys); diff != "" {
			t.Errorf("keys that were sent (-want +got)\n%s", diff)
		}
		if strings.Contains(log.String(), "sk-") {
			t.Errorf("the log holds a key:\n%s", &log)
		}
	})
}

// The SDKs know variables and profiles of their own; none of them is asked.
func TestStream_noKeyMeansNone(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		for _, env := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"} {
			t.Setenv(env, "sk-of-somebody")
		}
		s := llmtest.Start(t, wire, llmtest.Script{NoKey: true, Steps: []llmtest.Step{{Text: "Yes."}}})
		if _, _, err := ask(t.Context(), model(wire, place{url: s.URL, noKey: true}), hello()); err != nil {
			t.Fatal(err)
		}
		for name, values := range s.Requests()[0].Header {
			if strings.Contains(strings.Join(values, " "), "sk-of-somebody") {
				t.Errorf("%s carries a key that nobody named", name)
			}
		}
	})
}

func TestStream_cancelClosesTheConnection(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		for _, then := range []string{llmtest.ThenEndless, llmtest.ThenStall} {
			s := llmtest.Start(t, wire, llmtest.Script{Steps: []llmtest.Step{{Text: "Once upon a time ", Fault: &llmtest.Fault{After: 4, Then: then}}}})
			ctx, cancel := context.WithCancel(t.Context())
			var err error
			var at time.Time
			for e, problem := range model(wire, place{url: s.URL}).Stream(ctx, hello()) {
				if err = problem; err == nil && e.Text != "" && at.IsZero() {
					at = time.Now()
					cancel()
				}
			}
			cancel()
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: Stream() = %v, want that it was cancelled", then, err)
			}
			if took := time.Since(at); took > 2*time.Second {
				t.Errorf("%s: the end took %v", then, took)
			}
			awaitGone(t, s)
		}
	})
}

func TestStream_leavingTheLoopClosesTheConnection(t *testing.T) {
	eachWire(t, func(t *testing.T, wire llmtest.Wire) {
		s := llmtest.Start(t, wire, llmtest.Script{Steps: []llmtest.Step{{Text: "Once upon a time ", Fault: &llmtest.Fault{After: 4, Then: llmtest.ThenEndless}}}})
		for _, err := range model(wire, place{url: s.URL}).Stream(t.Context(), hello()) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		awaitGone(t, s)
	})
}

func awaitGone(t *testing.T, s *llmtest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.AwaitGone(ctx); err != nil {
		t.Error(err)
	}
}
