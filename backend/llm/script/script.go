// Package script is a model that plays a script: for the demo, which needs no
// key, and for tests of everything that a model drives.
//
// A script is a JSON list of steps, one per answer of the model. A step says
// some text, asks for some tool calls, or both:
//
//	[
//	  {"text": "I look around first.", "calls": [{"tool": "Bash", "input": {"command": "ls"}}]},
//	  {"text": "That is all.", "delay": "500ms"}
//	]
//
// A step can depend on the tools that the agent has: one with "with" is part of the
// script where there is that tool, one with "without" where there is not.
//
//	{"with": "browser_navigate", "text": "I open it.", "calls": [{"tool": "browser_navigate", "input": {"url": "http://127.0.0.1:8000/"}}]},
//	{"without": "browser_navigate", "text": "I have no browser, so I leave it at that."}
//
// delay, a Go duration, is how long the model thinks before it answers. A step
// with a fault fails after its text, as often as it is asked for:
//
//	{"text": "Half an ans", "fault": {"kind": "overloaded", "message": "too many", "retry_after": "2s"}}
//
// The kinds are those of [llm.Error]. The list may also be wrapped, to say what comes after the last step:
//
//	{"steps": [...], "repeat": true}
//	{"steps": [...], "closing": "The script has ended."}
//
// With repeat the script begins again; otherwise every further request is
// answered with the closing text. Unknown keys are refused.
//
// A conversation of its own, as a subagent has one, may have steps of its own:
// the first of those whose "of" is part of the conversation's first message.
//
//	{"steps": [...], "conversations": [{"of": "count the files", "steps": [...]}]}
//
// The model keeps no state: which step comes next follows from how many
// answers the conversation already holds. So a script goes on where it was
// after a restart, and one model serves any number of conversations.
package script

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// Script is what a Model plays.
type Script struct {
	Steps   []Step
	Repeat  bool   // begin again after the last step
	Closing string // what is said after the last step; "" is a plain sentence

	Conversations []Conversation // that have steps of their own
}

// Conversation is the steps of the conversations that begin with a certain text.
type Conversation struct {
	Of    string // a part of the first message
	Steps []Step
}

// Step is one answer.
type Step struct {
	Text    string
	Calls   []Call
	Delay   time.Duration // before the answer begins
	Fault   *llm.Error    // ends the answer after its text
	With    string        // a tool that there has to be for the step to count; "" for any
	Without string        // one that there must not be
}

// Call asks for a tool.
type Call struct {
	Tool  string
	Input json.RawMessage // a JSON object; empty is {}
}

const (
	defaultPace    = 12 * time.Millisecond
	pieceRunes     = 8 // characters of text per event
	defaultClosing = "The script has ended; there is nothing more that I can do here."
)

// Model plays a Script.
type Model struct {
	// Pace is the pause between two pieces of text. Set it before the first use.
	Pace time.Duration

	script Script
}

var _ llm.Model = (*Model)(nil)

// New returns a Model that writes at a pace that people can follow.
func New(s Script) *Model { return &Model{Pace: defaultPace, script: s} }

// Stream implements llm.Model.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		index := answers(r.Messages)
		step := m.step(m.stepsOf(r.Messages), index, r.Tools)
		if err := pause(ctx, step.Delay); err != nil {
			yield(llm.Event{}, err)
			return
		}
		for text := step.Text; text != ""; {
			piece := first(text, pieceRunes)
			text = text[len(piece):]
			if !yield(llm.Event{Text: piece}, nil) {
				return
			}
			if err := pause(ctx, m.Pace); err != nil {
				yield(llm.Event{}, err)
				return
			}
		}
		if step.Fault != nil {
			yield(llm.Event{}, step.Fault)
			return
		}
		message := step.message(index)
		yield(llm.Event{Message: &message, Usage: usage(r, message)}, nil)
	}
}

// stepsOf returns the steps that a conversation is answered with.
func (m *Model) stepsOf(messages []llm.Message) []Step {
	if len(messages) == 0 {
		return m.script.Steps
	}
	for _, c := range m.script.Conversations {
		for _, b := range messages[0].Blocks {
			if strings.Contains(b.Text, c.Of) {
				return c.Steps
			}
		}
	}
	return m.script.Steps
}

// step returns the one of an index, which may lie past the end, of those of all
// that count with some tools.
func (m *Model) step(all []Step, index int, tools []llm.Tool) Step {
	has := func(name string) bool {
		return slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == name })
	}
	var steps []Step
	for _, s := range all {
		if (s.With == "" || has(s.With)) && (s.Without == "" || !has(s.Without)) {
			steps = append(steps, s)
		}
	}
	n := len(steps)
	switch {
	case index < n:
		return steps[index]
	case m.script.Repeat && n > 0:
		return steps[index%n]
	case m.script.Closing != "":
		return Step{Text: m.script.Closing}
	}
	return Step{Text: defaultClosing}
}

// message returns a step as a model's answer.
func (s Step) message(index int) llm.Message {
	m := llm.Message{Role: llm.RoleAssistant}
	if s.Text != "" {
		m.Blocks = append(m.Blocks, llm.Block{Text: s.Text})
	}
	for i, c := range s.Calls {
		input := c.Input
		if len(input) == 0 {
			input = json.RawMessage("{}")
		}
		m.Blocks = append(m.Blocks, llm.Block{Use: &llm.Use{ID: fmt.Sprintf("step_%d_%d", index, i), Name: c.Tool, Input: input}})
	}
	return m
}

// answers counts what the model has said so far.
func answers(messages []llm.Message) int {
	n := 0
	for _, m := range messages {
		if m.Role == llm.RoleAssistant {
			n++
		}
	}
	return n
}

// usage makes up token counts of a plausible size: about four bytes each.
func usage(r llm.Request, answer llm.Message) llm.Usage {
	u := llm.Usage{Input: len(r.System) / 4}
	for _, m := range r.Messages {
		u.Input += size(m) / 4
	}
	u.Output = size(answer)/4 + 1
	return u
}

func size(m llm.Message) int {
	n := 0
	for _, b := range m.Blocks {
		n += len(b.Text)
		if b.Use != nil {
			n += len(b.Use.Input)
		}
		if b.Result != nil {
			n += len(b.Result.Text)
		}
	}
	return n
}

// first returns at most n characters of the beginning of s.
func first(s string, n int) string {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s[:i]
}

// pause waits for d, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
