package browser

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeyEvents(t *testing.T) {
	type press struct {
		Type, Key, Code, Text string
		Modifiers             int64
		Commands              []string
	}
	for keys, want := range map[string][]press{
		"Enter": {{"keyDown", "Enter", "Enter", "\r", 0, nil}, {"keyUp", "Enter", "Enter", "", 0, nil}},
		"esc":   {{"rawKeyDown", "Escape", "Escape", "", 0, nil}, {"keyUp", "Escape", "Escape", "", 0, nil}},
		"A":     {{"keyDown", "A", "KeyA", "A", 0, nil}, {"keyUp", "A", "KeyA", "", 0, nil}},
		"漢":     {{"keyDown", "漢", "", "漢", 0, nil}, {"keyUp", "漢", "", "", 0, nil}},
		"+":     {{"keyDown", "+", "Equal", "+", 0, nil}, {"keyUp", "+", "Equal", "", 0, nil}},
		"Ctrl+A": {
			{"rawKeyDown", "Control", "ControlLeft", "", 2, nil}, {"rawKeyDown", "a", "KeyA", "", 2, []string{"selectAll"}},
			{"keyUp", "a", "KeyA", "", 2, nil}, {"keyUp", "Control", "ControlLeft", "", 0, nil},
		},
		"Shift+a": {
			{"rawKeyDown", "Shift", "ShiftLeft", "", 8, nil}, {"keyDown", "A", "KeyA", "A", 8, nil},
			{"keyUp", "A", "KeyA", "", 8, nil}, {"keyUp", "Shift", "ShiftLeft", "", 0, nil},
		},
		"Control++": {
			{"rawKeyDown", "Control", "ControlLeft", "", 2, nil}, {"rawKeyDown", "+", "Equal", "", 2, nil},
			{"keyUp", "+", "Equal", "", 2, nil}, {"keyUp", "Control", "ControlLeft", "", 0, nil},
		},
	} {
		events, err := keyEvents(keys)
		if err != nil {
			t.Errorf("keyEvents(%q): %v", keys, err)
			continue
		}
		var got []press
		for _, e := range events {
			got = append(got, press{string(e.Type), e.Key, e.Code, e.Text, e.Modifiers, e.Commands})
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("keyEvents(%q):\n%s", keys, d)
		}
	}
	for _, bad := range []string{"", "Hyper+A", "Enterr", "a b", "Control+", "F13", "\xff"} {
		if _, err := keyEvents(bad); !errors.Is(err, ErrWrongKind) {
			t.Errorf("keyEvents(%q) = %v, want ErrWrongKind", bad, err)
		}
	}
}

func FuzzKeyEvents(f *testing.F) {
	f.Add("Control+Shift+K")
	f.Add("++")
	f.Fuzz(func(t *testing.T, keys string) {
		events, err := keyEvents(keys)
		if err != nil {
			return
		}
		// Whatever was read, nothing stays pressed.
		down := map[string]int{}
		for _, e := range events {
			if e.Type == "keyUp" {
				down[e.Key]--
			} else {
				down[e.Key]++
			}
		}
		for k, n := range down {
			if n != 0 {
				t.Errorf("keyEvents(%q) leaves %q pressed %d times", keys, k, n)
			}
		}
	})
}
