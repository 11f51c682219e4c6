package session

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// A model is told what became of its sandbox, and not that it was lost when a
// person let go of it.
func TestReplacedNotice(t *testing.T) {
	for before, want := range map[sandbox.State]string{
		sandbox.StateLost:     "was lost",
		sandbox.StateReleased: "The person released your sandbox",
		sandbox.StateDetached: "The person kept your sandbox",
		sandbox.StateFailed:   "has been replaced",
		"":                    "has been replaced",
	} {
		got := replacedNotice(before, sandbox.Spec{})
		if !strings.HasPrefix(got, "Your") && !strings.HasPrefix(got, "The person") || !strings.Contains(got, want) ||
			strings.Contains(got, "lost") != (before == sandbox.StateLost) || !strings.Contains(got, "The workspace is the same") {
			t.Errorf("after %q: %q", before, got)
		}
	}
	if got := replacedNotice(sandbox.StateReleased, sandbox.Spec{Adopt: "there"}); !strings.Contains(got, "back in the container") {
		t.Errorf("of an adopted one: %q", got)
	}
}

// What is not there cannot be shared.
func TestFork_sharesWhatIsThere(t *testing.T) {
	of := func(state sandbox.State, spec sandbox.Spec) View {
		v := View{Condition: &sandbox.Condition{Value: state}}
		v.Created.Spec, v.Bound = spec, &task.TaskHostBound{}
		return v
	}
	ours := sandbox.Spec{Wall: sandbox.WallDocker}
	for _, c := range []struct {
		v    View
		want string
	}{
		{of(sandbox.StateReady, ours), ""},
		{of(sandbox.StateStopped, ours), ""},
		{of(sandbox.StateReleased, ours), "(it is released)"},
		{of(sandbox.StateLost, ours), "(it is lost)"},
		{of(sandbox.StateReleased, sandbox.Spec{Wall: sandbox.WallLocal}), ""},
		{of(sandbox.StateReleased, sandbox.Spec{Wall: sandbox.WallDocker, Adopt: "there"}), ""},
	} {
		_, err := Fork{Sandbox: ForkShare}.fill(c.v)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("a share of one that is %s: %v, want %q", c.v.Condition.Value, err, c.want)
		}
	}
	if _, err := (Fork{}).fill(of(sandbox.StateReleased, ours)); err != nil {
		t.Errorf("a fresh one: %v", err)
	}
}
