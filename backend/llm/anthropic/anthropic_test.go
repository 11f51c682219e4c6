package anthropic

import (
	"testing"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/llmtest"
)

// answerTo returns what a stream of a body ends with.
func answerTo(t *testing.T, body string) (string, *llm.Message, error) {
	t.Helper()
	return llmtest.Answer(t, New(Options{HTTP: llmtest.Canned(body)}))
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
		llmtest.CheckEnd(t, m, err)
	})
}
