package task

import (
	"testing"
	"time"
)

// A task that could not get its place says why until it has one.
func TestFold_boundEndsTheReason(t *testing.T) {
	st := &State{}
	for i, p := range []Payload{
		TaskCreated{Goal: "go"},
		TaskWoken{Cause: "message"},
		TaskSuspended{Reason: TurnFailed, WakeOn: WakeNextGoal, Detail: "no engine"},
	} {
		e, err := Encode("r", "r", 1, time.Unix(int64(i), 0), p)
		if err != nil {
			t.Fatal(err)
		}
		st.Apply(e)
	}
	if st.Status != StatusIdle || st.Detail != "no engine" {
		t.Fatalf("status %s, detail %q", st.Status, st.Detail)
	}
	e, err := Encode("r", "r", 1, time.Unix(9, 0), TaskHostBound{})
	if err != nil {
		t.Fatal(err)
	}
	st.Apply(e)
	if st.Detail != "" {
		t.Errorf("detail %q once it is bound", st.Detail)
	}
}
