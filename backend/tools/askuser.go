package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/task"
)

// What a person can be asked at once.
const (
	maxQuestion = 4000 // characters
	maxOptions  = 6
	maxOption   = 200 // characters
)

//go:embed askuser.md
var askUserDescription string

type askUserParams struct {
	Question string   `json:"question" jsonschema:"the question, complete in itself"`
	Options  []string `json:"options,omitempty" jsonschema:"short answers to choose of"`
}

// AskUser asks the person a question.
type AskUser struct {
	params[askUserParams]
	asks
}

var _ Asker = (*AskUser)(nil)

// NewAskUser returns the AskUser tool.
func NewAskUser() *AskUser {
	return &AskUser{params: describe[askUserParams]("AskUser", askUserDescription, func(s *jsonschema.Schema) {
		options := s.Properties["options"]
		options.Type, options.Types = "array", nil // nil stands for none: it is left out
	})}
}

// Question implements Asker.
func (t *AskUser) Question(input json.RawMessage) (task.Question, error) {
	p, err := t.decode(input, askUserParams{})
	if err != nil {
		return task.Question{}, err
	}
	q := task.Question{Kind: task.QuestionText}
	if q.Text, err = said("question", p.Question, maxQuestion); err != nil {
		return task.Question{}, err
	}
	if len(p.Options) > maxOptions {
		return task.Question{}, fmt.Errorf("options: at most %d, not %d", maxOptions, len(p.Options))
	}
	for i, o := range p.Options {
		text, err := said(fmt.Sprintf("options[%d]", i), o, maxOption)
		if err != nil {
			return task.Question{}, err
		}
		q.Options = append(q.Options, text)
	}
	return q, nil
}

// said returns a text for a person, trimmed, or what is wrong with it.
func said(name, text string, limit int) (string, error) {
	text = strings.TrimSpace(clean(text))
	switch n := len([]rune(text)); {
	case n == 0:
		return "", fmt.Errorf("%s: must not be empty", name)
	case n > limit:
		return "", fmt.Errorf("%s: at most %d characters, not %d", name, limit, n)
	}
	return text, nil
}

// asks makes a tool one that is never run.
type asks struct{}

// Risk implements Tool: a question changes nothing.
func (asks) Risk() Risk { return RiskLow }

// Run implements Tool. An agent never calls it, see Asker.
func (asks) Run(context.Context, Call) (Result, error) {
	return invalid(errors.New("this is a question of an agent to the person; it cannot be run")), nil
}
