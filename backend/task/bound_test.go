package task

import (
	"testing"
	"time"
)

// A task that could not get its place says why until it has one.
func TestFold_boundEndsTheReason(t *testing.T) {
	st := &State{}
	for i, p := range []Payload{
		TaskCreated{},
		TaskSuspended{Reason: NoSandbox, WakeOn: WakeNextGoal, Detail: "no engine"},
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
	if st.Detail != "" || st.Suspended != "" {
		t.Errorf("suspended %q, detail %q once it is bound", st.Suspended, st.Detail)
	}
}
