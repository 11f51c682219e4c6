package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Record returns what the log keeps of a call that ended with r. took is how long
// the caller saw it last, for a result that does not say so itself.
func (r Result) Record(callID, tool string, where execenv.Where, took time.Duration) (task.ToolResultRecorded, error) {
	if r.Took > 0 {
		took = r.Took
	}
	rec := task.ToolResultRecorded{
		CallID: callID, Tool: tool, Status: r.Status, Text: strings.ToValidUTF8(r.Text, "\uFFFD"), Images: r.Images,
		Files: r.Files, Where: where, NotMade: r.NotMade, Duration: took,
	}
	if r.Display == nil {
		return rec, nil
	}
	display, err := json.Marshal(r.Display)
	if err != nil {
		return rec, fmt.Errorf("display of %s: %w", tool, err)
	}
	rec.Display = display
	return rec, nil
}
