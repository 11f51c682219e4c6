package session

import (
	"context"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

const subtaskPrefix = "t-"

// subtasks are those of one task, in a turn of its session. They are in the same
// place as the session, under the same generation; what they know of it is what
// the turn knew when it began.
type subtasks struct {
	turn    *turn
	journal *journal     // of the task that hands work over
	preset  agent.Preset // its own
}

var _ agent.Subtasks = (*subtasks)(nil)

// Spawn implements agent.Subtasks.
func (t *subtasks) Spawn(ctx context.Context, callID string, ask tools.Subtask) error {
	preset, err := t.preset.Subagent(ask.Agent)
	if err != nil {
		return agent.Refusal(fmt.Sprintf("Not started: %v.", err))
	}
	if preset.Browses(false) && !t.turn.browser {
		return agent.Refusal("Not started: this sandbox has no browser that could be used now.")
	}
	j, created := t.journal, t.turn.created
	created.Title, created.Goal, created.Agent, created.ParentID, created.OneShot = ask.Description, ask.Prompt, preset.Name, j.task, true
	created.Plugins = nil
	if preset.Browses(false) {
		created.Plugins = []string{task.PluginBrowser}
	}
	id := newID(subtaskPrefix)
	events, err := encode(j.root, id, j.generation, []task.Payload{
		&created,
		&task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, ask.Prompt)}},
		&task.TaskWoken{Cause: "message"},
	})
	if err != nil {
		return err
	}
	spawned, err := encode(j.root, j.task, j.generation, []task.Payload{
		&task.SubtaskSpawned{CallID: callID, TaskID: id, Agent: preset.Name, Description: ask.Description},
	})
	if err != nil {
		return err
	}
	if err := fenced(j.service.write(ctx, append(events, spawned...))); err != nil {
		return err
	}
	return j.Sync(ctx)
}

// Open implements agent.Subtasks. Those that have the browser take turns: it is
// one, and two at a time would act on each other's pages.
func (t *subtasks) Open(ctx context.Context, spawned task.SubtaskSpawned) (agent.Subtask, error) {
	s, d := t.turn.service, t.turn.driver
	preset, err := t.preset.Subagent(spawned.Agent)
	if err != nil {
		return agent.Subtask{}, err
	}
	st, err := s.o.Store.State(context.WithoutCancel(ctx), spawned.TaskID)
	if err != nil {
		return agent.Subtask{}, err
	}
	free := func() {}
	if preset.Browses(false) {
		select {
		case d.browsing <- struct{}{}:
			free = func() { <-d.browsing }
		case <-ctx.Done():
		}
	}
	j := &journal{service: s, root: d.root, task: spawned.TaskID, generation: t.journal.generation, state: st}
	bell := s.o.Hub.Subscribe()
	o := t.turn.options(j, preset)
	o.Wake = bell.C()
	return agent.Subtask{Journal: j, Options: o, Close: func() { bell.Close(); free() }}, nil
}
