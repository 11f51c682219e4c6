package tools

import (
	_ "embed"
	"encoding/json"

	"github.com/glovebox-dev/glovebox/backend/task"
)

//go:embed browser_ask_person.md
var askPersonDescription string

type askPersonParams struct {
	Reason string `json:"reason" jsonschema:"what the person is to do in the browser, and on which page"`
}

// AskPerson asks the person to do something in the sandbox's browser.
type AskPerson struct {
	params[askPersonParams]
	asks
}

var _ Asker = (*AskPerson)(nil)

// NewAskPerson returns the browser_ask_person tool.
func NewAskPerson() *AskPerson {
	return &AskPerson{params: describe[askPersonParams]("browser_ask_person", askPersonDescription, nil)}
}

// Question implements Asker.
func (t *AskPerson) Question(input json.RawMessage) (task.Question, error) {
	p, err := t.decode(input, askPersonParams{})
	if err != nil {
		return task.Question{}, err
	}
	text, err := said("reason", p.Reason, maxQuestion)
	return task.Question{Kind: task.QuestionHands, Text: text}, err
}
