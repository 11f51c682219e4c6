package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// question brings a call that asks the person one step further: it puts the
// question and parks the turn, which the Outcome says, or records the answer as
// the call's result. Such a call has no start: nothing runs, so there is nothing
// that a crash could cut off, and the result is the one event that ends it.
func (t *turn) question(ctx context.Context, use llm.Use, tool tools.Asker) (Outcome, error) {
	s := t.journal.State()
	c := s.Calls[use.ID]
	switch {
	case c != nil && c.Answer != nil:
		return "", t.append(ctx, answered(use, c, t.Now()))
	case c != nil && c.Question != nil: // put before a take-up
		if s.Status == task.StatusWaiting {
			return Waiting, nil
		}
		return Waiting, t.append(ctx, waitForAnswer(use.ID))
	}
	q, err := tool.Question(use.Input)
	if err != nil {
		return "", t.refuse(ctx, use, fmt.Sprintf("Invalid input: %v.", err))
	}
	return Waiting, t.append(ctx, task.UserQuestionRequested{CallID: use.ID, Tool: use.Name, Question: q}, waitForAnswer(use.ID))
}

func waitForAnswer(callID string) task.TaskSuspended {
	return task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeQuestion(callID)}
}

// answered is the result of a question that has its answer. It took as long as
// the person did.
func answered(use llm.Use, c *task.Call, now time.Time) task.ToolResultRecorded {
	r := task.ToolResultRecorded{CallID: use.ID, Tool: use.Name, Status: task.CallOK, Text: "Answered: " + clean(c.Answer.Text)}
	hands := false
	if c.Question != nil {
		r.Duration, hands = max(0, now.Sub(c.AskedAt)), c.Question.Question.Kind == task.QuestionHands
	}
	switch {
	case c.Answer.Declined && c.Answer.Text != "":
		r.Status, r.Text = task.CallDenied, "Declined: the person does not do that. They say: "+clean(c.Answer.Text)
	case c.Answer.Declined:
		r.Status, r.Text = task.CallDenied, "Declined: the person does not do that. Go on without it, or say why you cannot."
	case hands:
		r.Text += "\nThe page may be another now: look at it before you act on it."
	}
	return r
}
