package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// The bounds of what agents hand to each other. Task's description tells them to
// the model, and who carries its calls out keeps them.
const (
	TaskDepth      = 2  // how deep below the session's own agent work is handed on
	TaskSideBySide = 4  // subagents of one agent that work at a time
	TaskCount      = 16 // that one agent starts for one message of the person
)

// TaskDisplay shows a Task.
type TaskDisplay struct {
	Agent       string    `json:"agent"`
	TaskID      string    `json:"task_id"` // "" when none was started
	Description string    `json:"description"`
	Calls       int       `json:"calls"` // of tools, that it made
	Usage       llm.Usage `json:"usage"`
}

// Subagent is an agent that work can be handed to, as the one that hands it is
// told of it.
type Subagent struct {
	Name, Description string
}

// Subtask is what a call of Task asks for.
type Subtask struct {
	Agent       string // the name of a Subagent
	Description string
	Prompt      string
}

//go:embed task.md
var taskDescription string

type taskParams struct {
	Description  string `json:"description" jsonschema:"what it is to do, in three to six words, for the person who watches"`
	Prompt       string `json:"prompt" jsonschema:"the whole task, with all that the subagent has to know"`
	SubagentType string `json:"subagent_type" jsonschema:"which subagent"`
}

// Task hands work to a subagent. Its calls are carried out by the agent's turn,
// which knows of conversations and logs; what there is of it here is what the
// model is told and how its calls are read.
type Task struct {
	params[taskParams]
}

var _ Tool = (*Task)(nil)

// NewTask returns the Task tool of an agent that may use some subagents.
func NewTask(agents ...Subagent) *Task {
	var list strings.Builder
	var names []any
	for _, a := range agents {
		fmt.Fprintf(&list, "- %s: %s\n", a.Name, a.Description)
		names = append(names, a.Name)
	}
	description := strings.NewReplacer(
		"{agents}", strings.TrimSuffix(list.String(), "\n"), "{side_by_side}", strconv.Itoa(TaskSideBySide),
		"{depth}", strconv.Itoa(TaskDepth), "{count}", strconv.Itoa(TaskCount),
	).Replace(taskDescription)
	return &Task{describe[taskParams]("Task", description, func(s *jsonschema.Schema) {
		s.Properties["subagent_type"].Enum = names
	})}
}

// Risk implements Tool: the subagent's own calls are judged one by one.
func (t *Task) Risk() Risk { return RiskLow }

// Subtask reads a call's input. Its error is the call's result.
func (t *Task) Subtask(input json.RawMessage) (Subtask, error) {
	p, err := t.decode(input, taskParams{})
	switch {
	case err != nil:
		return Subtask{}, err
	case strings.TrimSpace(p.Prompt) == "":
		return Subtask{}, errors.New("prompt: must not be empty")
	case strings.TrimSpace(p.Description) == "":
		return Subtask{}, errors.New("description: must not be empty")
	}
	return Subtask{Agent: p.SubagentType, Description: clean(strings.Join(strings.Fields(p.Description), " ")), Prompt: clean(p.Prompt)}, nil
}

// Run implements Tool. A call that comes here has nobody who would carry it out.
func (t *Task) Run(context.Context, Call) (Result, error) {
	return unmade("There are no subagents here. Do the work yourself."), nil
}
