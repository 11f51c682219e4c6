package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// doneByHand is what an answer without words says of something that the person
// was asked to do.
const doneByHand = "Done."

// Decide answers an approval. Where none of that call waits, the error is
// ErrNoApproval.
func (s *Service) Decide(ctx context.Context, id, callID string, allow bool, reason string) error {
	return s.settle(ctx, id, callID, "approval", func(w task.Waiting) (task.Payload, error) {
		if w.Question != nil {
			return nil, fmt.Errorf("call %s is a question, which is answered, not allowed: %w", callID, ErrNoApproval)
		}
		return &task.ToolCallApprovalResolved{CallID: callID, Allow: allow, Reason: reason}, nil
	}, ErrNoApproval)
}

// Answer answers a question that an agent has asked, or declines to, with text
// as the reason. Where none of that call waits, the error is ErrNoQuestion: of
// several who answer at once, the first counts.
func (s *Service) Answer(ctx context.Context, id, callID, text string, declined bool) error {
	text = strings.TrimSpace(text)
	return s.settle(ctx, id, callID, "answer", func(w task.Waiting) (task.Payload, error) {
		switch {
		case w.Question == nil:
			return nil, fmt.Errorf("call %s waits for a decision, not for an answer: %w", callID, ErrNoQuestion)
		case text == "" && !declined && w.Question.Kind == task.QuestionHands:
			text = doneByHand
		case text == "" && !declined:
			return nil, &sandbox.FieldError{Field: "text", Reason: "is empty; answer in words, or decline"}
		}
		return &task.UserQuestionAnswered{CallID: w.CallID, Text: text, Declined: declined}, nil
	}, ErrNoQuestion)
}

// settle appends what answers a call that waits for a person, and goes on with
// the turn. One at a time, so that what was answered is not answered again.
func (s *Service) settle(ctx context.Context, id, callID, cause string, answer func(task.Waiting) (task.Payload, error), none error) error {
	select {
	case <-s.settling:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.settling <- struct{}{} }()
	v, err := s.View(ctx, id)
	if err != nil {
		return err
	}
	for _, w := range v.Waiting {
		if w.CallID != callID {
			continue
		}
		p, err := answer(w)
		if err != nil {
			return err
		}
		if err := s.appendTo(ctx, v.ID, w.TaskID, 0, p, &task.TaskWoken{Cause: cause}); err != nil {
			return err
		}
		s.wake(v.ID)
		return nil
	}
	return fmt.Errorf("call %s: %w", callID, none)
}
