package app

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// What a model says is printed once and whole, whichever of its frames come late,
// twice asked for, or never.
func TestPrinter_liveFramesLateOrLost(t *testing.T) {
	const asked, next = 5, 8
	text := func(after, offset int64, data string) httpapi.Frame {
		return httpapi.Frame{Type: "live", Live: &stream.Live{
			RootTaskID: "t", TaskID: "t", Kind: stream.LiveText, After: after, Offset: offset, End: offset + int64(len(data)), Data: data,
		}}
	}
	event := func(seq int64, p task.Payload) httpapi.Frame {
		e, err := task.Encode("t", "t", 1, time.Now(), p)
		if err != nil {
			t.Fatal(err)
		}
		e.Seq = seq
		return httpapi.Frame{Type: "event", Seq: seq, Event: &e}
	}
	started, finished := event(asked, task.LLMRequestStarted{}), event(6, task.LLMRequestFinished{})
	says := event(7, task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleAssistant, "Hello, world.")}})
	again := event(next, task.LLMRequestStarted{})
	for name, frames := range map[string][]httpapi.Frame{
		"in time":          {started, text(asked, 0, "Hello, "), text(asked, 7, "world."), finished, says, again},
		"the end late":     {started, text(asked, 0, "Hello, "), finished, says, text(asked, 7, "world."), again},
		"late in between":  {started, text(asked, 0, "Hello, "), finished, text(asked, 7, "world."), says, again},
		"all late":         {started, finished, says, text(asked, 0, "Hello, "), text(asked, 7, "world."), again},
		"never":            {started, finished, says, again},
		"before its start": {text(asked, 0, "Hello, "), started, text(asked, 7, "world."), finished, says, again},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			p := &printer{out: &out}
			for _, f := range append(frames, text(next, 0, "Next"), text(next, 4, ".")) {
				p.frame(f)
			}
			p.endText()
			if got := strings.ReplaceAll(out.String(), "\n", ""); got != "Hello, world.Next." {
				t.Errorf("printed %q", out.String())
			}
		})
	}
	t.Run("a piece lost", func(t *testing.T) {
		var out strings.Builder
		p := &printer{out: &out}
		for _, f := range []httpapi.Frame{started, text(asked, 7, "world."), finished, says} {
			p.frame(f)
		}
		if got, want := out.String(), "world.\nHello, world."; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	})
}
