package task

import (
	"time"
)

// ForkOf returns what of a task's log belongs into that of a fork of it, as events
// of the task id: what was said, and the calls that were made with their results.
// Neither turns nor places nor requests to a model are among them: those are the
// source's own, and its spending is not the fork's. What the source has not
// finished is closed here, so that the fork never does it a second time.
func ForkOf(past []Event, id string) ([]Event, error) {
	settled := map[string]bool{} // decided or answered
	for _, e := range past {
		if e.Kind != KindToolApprovalResolved && e.Kind != KindUserQuestionAnswered {
			continue
		}
		p, err := Decode(e)
		if err != nil {
			return nil, err
		}
		switch p := p.(type) {
		case *ToolCallApprovalResolved:
			settled[p.CallID] = true
		case *UserQuestionAnswered:
			settled[p.CallID] = true
		}
	}
	var own []Event
	for _, e := range past {
		switch e.Kind {
		case KindMessagesAppended, KindToolCallStarted, KindToolResultRecorded, KindToolCallFinished, KindToolCallDenied, KindToolApprovalResolved, KindUserQuestionAnswered:
		case KindToolApprovalRequested, KindUserQuestionRequested:
			p, err := Decode(e)
			if err != nil {
				return nil, err
			}
			var callID string
			switch p := p.(type) {
			case *ToolCallApprovalRequested:
				callID = p.CallID
			case *UserQuestionRequested:
				callID = p.CallID
			}
			if !settled[callID] {
				continue
			}
		default:
			continue
		}
		e.Seq, e.Generation, e.TaskID, e.RootTaskID = 0, 0, id, id
		own = append(own, e)
	}
	st := Fold(own)
	closing := time.Now()
	if n := len(past); n > 0 {
		closing = past[n-1].At
	}
	add := func(p Payload) error {
		e, err := Encode(id, id, 0, closing, p)
		own = append(own, e)
		return err
	}
	result := func(callID, tool string) error {
		return add(&ToolResultRecorded{
			CallID: callID, Tool: tool, Status: CallInterrupted,
			Text: "The session was forked before this call had ended. Whatever came of it belongs to the other session; it was not made again here.",
		})
	}
	for _, use := range st.PendingUses() {
		if err := result(use.ID, use.Name); err != nil {
			return nil, err
		}
	}
	for _, callID := range st.Open {
		c := st.Calls[callID]
		if c.Result == nil && c.Started != nil && c.Started.Actor == ActorPerson {
			if err := result(callID, c.Started.Tool); err != nil {
				return nil, err
			}
		}
		if err := add(&ToolCallFinished{CallID: callID}); err != nil {
			return nil, err
		}
	}
	return own, nil
}
