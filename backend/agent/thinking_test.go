package agent_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// requests answers each request as a function says.
type requests func(r llm.Request, yield func(llm.Event, error) bool)

func (m requests) Stream(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) { m(r, yield) }
}

// Thinking is told while it comes, with offsets of its own, and goes into the
// log and back to the model as it came; the calls beside it get new ids.
func TestRun_thinking(t *testing.T) {
	var frames []stream.Live
	signed := &llm.Thinking{Text: "hm, so", Signature: "sig==", From: "m", Took: 7}
	hidden := &llm.Thinking{Redacted: "blob", From: "m"}
	var second llm.Request
	o := options(nil, &tool{name: "Do", run: says("done")})
	o.Model.Model = requests(func(r llm.Request, yield func(llm.Event, error) bool) {
		if len(r.Messages) > 1 {
			second = r
			yield(llm.Event{Message: &llm.Message{Role: llm.RoleAssistant, Blocks: []llm.Block{{Text: "That is all."}}}}, nil)
			return
		}
		for _, e := range []llm.Event{
			{Thinking: "hm"}, {Thinking: ", so"}, {Text: "I do."},
			{Message: &llm.Message{Role: llm.RoleAssistant, Blocks: []llm.Block{
				{Thinking: signed}, {Thinking: hidden}, {Text: "I do."}, {Use: &llm.Use{ID: "toolu_1", Name: "Do"}},
			}}},
		} {
			if !yield(e, nil) {
				return
			}
		}
	})
	o.Live = func(f stream.Live) { frames = append(frames, f) }
	j := newJournal(t)
	run(t, t.Context(), j, o, agent.Done)
	asked := j.events[slices.IndexFunc(j.events, func(e task.Event) bool { return e.Kind == task.KindLLMRequestStarted })].Seq
	want := []stream.Live{
		{RootTaskID: "root", TaskID: "root", Kind: stream.LiveThinking, After: asked, End: 2, Data: "hm"},
		{RootTaskID: "root", TaskID: "root", Kind: stream.LiveThinking, After: asked, Offset: 2, End: 6, Data: ", so"},
		{RootTaskID: "root", TaskID: "root", Kind: stream.LiveText, After: asked, End: 5, Data: "I do."},
	}
	if diff := cmp.Diff(want, frames); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	if len(second.Messages) != 3 {
		t.Fatalf("the model was sent %+v", second.Messages)
	}
	blocks := second.Messages[1].Blocks
	if diff := cmp.Diff([]llm.Block{{Thinking: signed}, {Thinking: hidden}, {Text: "I do."}}, blocks[:3]); diff != "" {
		t.Errorf("went back (-want +got):\n%s", diff)
	}
	if id := blocks[3].Use.ID; id == "toolu_1" || second.Messages[2].Blocks[0].Result.ID != id {
		t.Errorf("the call is %q, its result %+v", id, second.Messages[2].Blocks[0].Result)
	}
}

// What was thought before a stop stays beside the words it led to. It has no
// signature, so no model is ever sent it.
func TestRun_stopKeepsWhatWasThought(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	j := newJournal(t)
	o := options(nil)
	o.Model.Model = model(func(ctx context.Context, yield func(llm.Event, error) bool) {
		if yield(llm.Event{Thinking: "hm"}, nil) && yield(llm.Event{Text: "I was"}, nil) {
			<-ctx.Done()
			yield(llm.Event{}, ctx.Err())
		}
	})
	o.Live = func(f stream.Live) {
		if f.Kind == stream.LiveText {
			stop(agent.ErrStop)
		}
	}
	run(t, ctx, j, o, agent.Interrupted)
	blocks := last[task.MessagesAppended](t, j).Messages[0].Blocks
	if len(blocks) != 2 || blocks[0].Thinking == nil || blocks[0].Thinking.Text != "hm" || blocks[0].Thinking.From != "" || blocks[1].Text != "I was" {
		t.Errorf("the log holds %+v", blocks)
	}
}
