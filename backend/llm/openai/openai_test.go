package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/llmtest"
)

// answerTo returns what a stream of a body ends with.
func answerTo(t *testing.T, body string) (string, *llm.Message, error) {
	t.Helper()
	return llmtest.Answer(t, New(Options{HTTP: llmtest.Canned(body)}))
}

func TestStream_callsOfOtherServers(t *testing.T) {
	chunk := func(delta, finish string) string {
		return `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n"
	}
	for _, c := range []struct{ name, body string }{
		{"pieces of several calls mixed", chunk(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"Read","arguments":"{\"pa"}},{"index":0,"id":"a","function":{"name":"Bash","arguments":"{"}}]}`, "null") +
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"}"}},{"index":1,"function":{"arguments":"th\":1}"}}]}`, "null") + chunk(`{}`, `"tool_calls"`) + "data: [DONE]\n\n"},
		{"no index", chunk(`{"tool_calls":[{"id":"b","function":{"name":"Read","arguments":"{\"path\":1}"}}]}`, "null") +
			chunk(`{"tool_calls":[{"id":"a","function":{"name":"Bash","arguments":"{}"}}]}`, `"stop"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, m, err := answerTo(t, c.body)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, b := range m.Blocks {
				if b.Use == nil {
					t.Fatalf("block %+v is no call", b)
				}
				got[b.Use.ID+b.Use.Name] = string(b.Use.Input)
			}
			if len(got) != 2 || got["aBash"] != "{}" || got["bRead"] != `{"path":1}` {
				t.Errorf("calls = %v", got)
			}
		})
	}
}

// Servers send what a model thinks under two names, some under both, and some
// as nothing or in another form.
func TestStream_thinkingOfOtherServers(t *testing.T) {
	chunk := func(delta string) string {
		return `data: {"choices":[{"index":0,"delta":` + delta + `}]}` + "\n\n"
	}
	const end = `data: {"choices":[{"index":0,"delta":{"content":"Yes.","reasoning_content":null},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	for _, c := range []struct{ name, body, want string }{
		{"reasoning_content", chunk(`{"reasoning_content":"a"}`) + chunk(`{"reasoning_content":"b","content":""}`), "ab"},
		{"reasoning", chunk(`{"reasoning":"a"}`) + chunk(`{"reasoning":"b"}`), "ab"},
		{"both", chunk(`{"reasoning":"a","reasoning_content":"a"}`) + chunk(`{"reasoning":"b","reasoning_content":"b"}`), "ab"},
		{"none", chunk(`{"reasoning":null,"reasoning_content":""}`), ""},
		{"another form", chunk(`{"reasoning":{"text":"a"},"reasoning_content":7}`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, m, err := answerTo(t, c.body+end)
			if err != nil || text != "Yes." {
				t.Fatalf("%q, %v", text, err)
			}
			got := ""
			if m.Blocks[0].Thinking != nil {
				got = m.Blocks[0].Thinking.Text
			}
			if got != c.want || m.Blocks[len(m.Blocks)-1].Text != "Yes." {
				t.Errorf("thought %q, want %q; blocks %+v", got, c.want, m.Blocks)
			}
		})
	}
}

// Which word names the limit of an answer depends on the server.
func TestParams_limit(t *testing.T) {
	for base, want := range map[string]string{DefaultBaseURL: "max_completion_tokens", "http://127.0.0.1:11434/v1": "max_tokens"} {
		body, err := json.Marshal(New(Options{BaseURL: base, MaxTokens: 5}).params(llm.Request{Model: "m"}))
		if err != nil || !strings.Contains(string(body), `"`+want+`":5`) {
			t.Errorf("%s is sent %s, %v; want %s", base, body, err, want)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n")
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1,\"id\":\"x\",\"function\":{\"arguments\":\"{\"}}]},\"finish_reason\":\"stop\"}]}\n\n")
	f.Add("data: {\"error\":{\"code\":502}}\n\n")
	f.Add("data: null\n\ndata: 5\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		_, m, err := answerTo(t, body)
		llmtest.CheckEnd(t, m, err)
	})
}
