package llmtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// Script is what a Server answers with.
type Script struct {
	Steps  []Step   `json:"steps"`
	Repeat bool     `json:"repeat"` // begin again after the last step; else its closing words are said
	Key    string   `json:"key"`    // the key that is accepted; "" accepts every key, yet wants one
	NoKey  bool     `json:"no_key"` // no key is wanted
	Models []string `json:"models"` // those that are known; empty is all
}

// Step is the answer to one request: thinking, text, calls, or a fault, which may
// also begin as an answer.
type Step struct {
	Thinking string     `json:"thinking"` // signed on Anthropic's wire
	Redacted string     `json:"redacted"` // thinking that is sent unreadable, on Anthropic's wire alone
	Text     string     `json:"text"`
	Calls    []Call     `json:"calls"`
	Stop     string     `json:"stop"`  // "length" ends the answer at its limit, a call in the middle of its input
	Usage    *llm.Usage `json:"usage"` // nil is a count of its own
	Fault    *Fault     `json:"fault"`
}

// Call is a tool call.
type Call struct {
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"`
}

// Fault is what goes wrong. With a Status nothing is streamed; otherwise the
// step's answer is, until After events were sent.
type Fault struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Type    string            `json:"type"`    // of the error; "" is the usual one of its status
	Code    string            `json:"code"`    // of the error, on OpenAI's wire
	Message string            `json:"message"` // of the error
	Body    string            `json:"body"`    // in place of the wire's own

	After int    `json:"after"` // events before Then happens
	Then  string `json:"then"`  // see the constants
	Pause string `json:"pause"` // between two events, a Go duration
}

// What happens after Fault.After events.
const (
	ThenCut     = "cut"     // the connection breaks
	ThenEnd     = "end"     // the stream ends in good order, too early
	ThenBadJSON = "badjson" // an event that is no JSON
	ThenError   = "error"   // an event that is an error of Fault.Type
	ThenStall   = "stall"   // nothing more, until the client goes
	ThenEndless = "endless" // text without end, until the client goes
)

// Parse reads a Script. Unknown keys are refused.
func Parse(r io.Reader) (Script, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var s Script
	if err := d.Decode(&s); err != nil {
		return Script{}, fmt.Errorf("script: %w", err)
	}
	if len(s.Steps) == 0 {
		return Script{}, errors.New("script: no steps")
	}
	for i, step := range s.Steps {
		if f := step.Fault; f != nil && f.Pause != "" {
			if _, err := time.ParseDuration(f.Pause); err != nil {
				return Script{}, fmt.Errorf("script: step %d: pause: %w", i+1, err)
			}
		}
		if f := step.Fault; f != nil && f.Status == 0 {
			switch f.Then {
			case "", ThenCut, ThenEnd, ThenBadJSON, ThenError, ThenStall, ThenEndless:
			default:
				return Script{}, fmt.Errorf("script: step %d: unknown then %q", i+1, f.Then)
			}
		}
	}
	return s, nil
}

// closing is said after the last step.
const closing = "The script has ended."

func (f *Fault) pause() time.Duration {
	if f == nil {
		return 0
	}
	d, err := time.ParseDuration(cmp.Or(f.Pause, "0s"))
	if err != nil {
		return 0
	}
	return d
}

// usage counts as a vendor would, in numbers that a test can know.
func (s Step) usage() llm.Usage {
	if s.Usage != nil {
		return *s.Usage
	}
	return llm.Usage{Input: 100, Output: 20, CacheRead: 50, CacheWrite: 10}
}

// pieces cuts s as models do, never within a character.
func pieces(s string, runes int) []string {
	var out []string
	r := []rune(s)
	for len(r) > 0 {
		n := min(runes, len(r))
		out = append(out, string(r[:n]))
		r = r[n:]
	}
	return out
}

// input returns what of a call's input is sent. A cut one ends in its middle.
func (c Call) input(cut bool) string {
	input := "{}"
	if len(c.Input) > 0 {
		input = string(c.Input)
	}
	if cut {
		return input[:len(input)/2]
	}
	return input
}
