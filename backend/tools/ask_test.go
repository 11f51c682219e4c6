package tools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestAsker_question(t *testing.T) {
	long := strings.Repeat("é", 4001)
	for _, c := range []struct {
		tool  tools.Asker
		input string
		want  task.Question
		fault string
	}{
		{tools.NewAskUser(), `{"question": " Which?\n"}`, task.Question{Kind: task.QuestionText, Text: "Which?"}, ""},
		{tools.NewAskUser(), `{"question": "Which?", "options": null}`, task.Question{Kind: task.QuestionText, Text: "Which?"}, ""},
		{tools.NewAskUser(), `{"question": "Which?", "options": ["a", " b "]}`, task.Question{Kind: task.QuestionText, Text: "Which?", Options: []string{"a", "b"}}, ""},
		{tools.NewAskPerson(), `{"reason": "Sign in."}`, task.Question{Kind: task.QuestionHands, Text: "Sign in."}, ""},

		{tools.NewAskUser(), `{}`, task.Question{}, "question: required"},
		{tools.NewAskUser(), `{"question": "\t"}`, task.Question{}, "question: must not be empty"},
		{tools.NewAskUser(), `{"question": "` + long + `"}`, task.Question{}, "question: at most 4000 characters, not 4001"},
		{tools.NewAskUser(), `{"question": "Which?", "options": "a"}`, task.Question{}, "options: must be an array"},
		{tools.NewAskUser(), `{"question": "Which?", "options": ["a", ""]}`, task.Question{}, "options[1]: must not be empty"},
		{tools.NewAskUser(), `{"question": "Which?", "options": ["1","2","3","4","5","6","7"]}`, task.Question{}, "options: at most 6, not 7"},
		{tools.NewAskPerson(), `{"reason": ""}`, task.Question{}, "reason: must not be empty"},
	} {
		got, err := c.tool.Question(json.RawMessage(c.input))
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("Question(%.60s) = %v, want %q", c.input, err, c.fault)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("Question(%s): %v (-want +got):\n%s", c.input, err, diff)
		}
	}
}

// A question is no call that could be made side by side, repeated or run.
func TestAsker_isNeverRun(t *testing.T) {
	for _, tool := range []tools.Tool{tools.NewAskUser(), tools.NewAskPerson()} {
		name := tool.Definition().Name
		if tools.ReadOnly(tool) || tool.Risk() != tools.RiskLow {
			t.Errorf("%s: read-only %v, risk %s", name, tools.ReadOnly(tool), tool.Risk())
		}
		if r, err := tool.Run(t.Context(), tools.Call{}); err != nil || r.Status != task.CallError {
			t.Errorf("%s.Run = %+v, %v; want an error of the call", name, r, err)
		}
	}
}
