package remote

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

func TestTurns(t *testing.T) {
	text := func(s string) llm.Block { return llm.Block{Text: s} }
	result := func(id string) llm.Block { return llm.Block{Result: &llm.Result{ID: id}} }
	in := []llm.Message{
		{Role: llm.RoleAssistant, Blocks: []llm.Block{text(" ")}},
		{Role: llm.RoleUser, Blocks: []llm.Block{text("a"), text("")}},
		{Role: llm.RoleUser, Blocks: []llm.Block{text("b"), result("1")}},
		{Role: llm.RoleUser, Blocks: []llm.Block{result("2")}},
		{Role: llm.RoleAssistant},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{text("c")}},
	}
	before, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	want := []llm.Message{
		{Role: llm.RoleUser, Blocks: []llm.Block{result("1"), result("2"), text("a"), text("b")}},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{text("c")}},
	}
	if diff := cmp.Diff(want, Turns(in, NoThinking)); diff != "" {
		t.Errorf("Turns() (-want +got)\n%s", diff)
	}
	if after, err := json.Marshal(in); err != nil || string(after) != string(before) {
		t.Errorf("Turns() changed what it was given: %s, %v", after, err)
	}
}

func TestID(t *testing.T) {
	if got := ID("call_ABC-1", 40); got != "call_ABC-1" {
		t.Errorf("ID() = %q, want it as it was", got)
	}
	for _, id := range []string{"", "with space", strings.Repeat("x", 41)} {
		got := ID(id, 40)
		if len(got) > 40 || plain(got) != got || got != ID(id, 40) || got == ID(id+"!", 40) {
			t.Errorf("ID(%q) = %q", id, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:35 GMT", 30 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:00 GMT", 0},
		{"Retry-After", "-3", 0},
		{"Retry-After", "1e300", maxRetryAfter},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
	} {
		if got := retryAfter(http.Header{c.name: {c.value}}, now); got != c.want {
			t.Errorf("retryAfter(%s: %s) = %v, want %v", c.name, c.value, got, c.want)
		}
	}
}

func FuzzRefusal(f *testing.F) {
	f.Add(400, "3", []byte(`{"type":"error","error":{"type":"invalid_request_error","message":"no sk-secret-key please"}}`))
	f.Add(429, "Fri, 02 Jan 2026 03:04:35 GMT", []byte(`{"error":{"code":"insufficient_quota","message":"x"}}`))
	f.Add(404, "", []byte(`{"error":"model not found"}`))
	f.Add(500, "x", []byte(`{"error":{"code":500}}`))
	f.Fuzz(func(t *testing.T, status int, after string, data []byte) {
		x := &Exchange{c: New(Options{BaseURL: "https://models.test", KeyEnv: "KEY"}), model: "m", key: "sk-secret-key"}
		for _, err := range []error{x.refusal(status, http.Header{"Retry-After": {after}}, data), x.inStream(data)} {
			fault, ok := err.(*llm.Error)
			if !ok || fault.Kind == "" || fault.Message == "" || fault.RetryAfter < 0 || fault.RetryAfter > maxRetryAfter {
				t.Errorf("fault = %#v", err)
			}
			if strings.Contains(err.Error(), "sk-secret-key") || strings.ContainsAny(err.Error(), "\n\r\x1b") || len(err.Error()) > 2000 {
				t.Errorf("the words are not fit for people: %q", err)
			}
		}
	})
}
