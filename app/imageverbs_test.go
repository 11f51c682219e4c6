package app

import (
	"fmt"
	"slices"
	"testing"
)

// A build of more steps than its log keeps is printed to its end.
func TestStepsAfter(t *testing.T) {
	var b build
	var made, printed []string
	for i := range 5 * logLines {
		line := fmt.Sprint("step ", i)
		made = append(made, line)
		b.note(line)
		if i%7 == 0 || i == 5*logLines-1 { // a frame does not come for each
			printed = append(printed, stepsAfter(&b.Build, len(printed))...)
		}
	}
	if !slices.Equal(printed, made) {
		t.Errorf("%d steps of %d are printed", len(printed), len(made))
	}
}
