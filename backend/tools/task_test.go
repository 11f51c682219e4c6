package tools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestTask_reads(t *testing.T) {
	tool := tools.NewTask(tools.Subagent{Name: "helper", Description: "helps with things"})
	for input, want := range map[string]string{
		`{"description":" do \n it ","prompt":"all of it","subagent_type":"helper"}`: "",
		`{"description":"do it","prompt":"all of it","subagent_type":"other"}`:       "must be one of",
		`{"description":"do it","prompt":" ","subagent_type":"helper"}`:              "prompt: must not be empty",
		`{"description":"","prompt":"all of it","subagent_type":"helper"}`:           "description: must not be empty",
		`{"description":"do it","prompt":"all of it"}`:                               "subagent_type: required",
	} {
		got, err := tool.Subtask(json.RawMessage(input))
		switch {
		case want == "" && (err != nil || got != tools.Subtask{Agent: "helper", Description: "do it", Prompt: "all of it"}):
			t.Errorf("%s = %+v, %v", input, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q", input, err, want)
		}
	}
}

// The model is told whom it may ask, and the bounds that are kept.
func TestTask_description(t *testing.T) {
	tool := tools.NewTask(tools.Subagent{Name: "helper", Description: "helps with things"}, tools.Subagent{Name: "other", Description: "does the rest"})
	d := tool.Definition()
	for _, want := range []string{"- helper: helps with things\n- other: does the rest\n", "up to 4 subagents", "2 levels deep", "can start 16."} {
		if !strings.Contains(d.Description, want) {
			t.Errorf("%q is not in the description:\n%s", want, d.Description)
		}
	}
	if strings.ContainsAny(d.Description, "{}") || !strings.Contains(string(d.Schema), `"enum":["helper","other"]`) {
		t.Errorf("described by %s\nand %s", d.Description, d.Schema)
	}
	if r, err := tool.Run(t.Context(), tools.Call{}); err != nil || r.Status != task.CallError {
		t.Errorf("Run = %+v, %v; want a refusal", r, err)
	}
}
