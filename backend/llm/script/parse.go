package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// maxScript bounds a script's size.
const maxScript = 16 << 20

// Load reads a script from a file.
func Load(path string) (Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return Script{}, fmt.Errorf("open script: %w", err)
	}
	defer f.Close()
	s, err := Parse(f)
	if err != nil {
		return Script{}, fmt.Errorf("script %s: %w", path, err)
	}
	return s, nil
}

// Parse reads a script as the package comment describes it. Errors name the
// line.
func Parse(r io.Reader) (Script, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxScript+1))
	switch {
	case err != nil:
		return Script{}, fmt.Errorf("read script: %w", err)
	case len(data) > maxScript:
		return Script{}, fmt.Errorf("larger than %d bytes", maxScript)
	case len(bytes.TrimSpace(data)) == 0:
		return Script{}, errors.New("empty; a script is a JSON list of steps")
	}
	var file struct {
		Steps   []stepFile `json:"steps"`
		Repeat  bool       `json:"repeat"`
		Closing string     `json:"closing"`

		Conversations []struct {
			Of    string     `json:"of"`
			Steps []stepFile `json:"steps"`
		} `json:"conversations"`
	}
	var target any = &file
	if bytes.TrimSpace(data)[0] == '[' {
		target = &file.Steps
	}
	if err := strict(data, target); err != nil {
		return Script{}, err
	}
	s := Script{Repeat: file.Repeat, Closing: file.Closing}
	if s.Steps, err = steps(file.Steps); err != nil {
		return Script{}, err
	}
	for i, f := range file.Conversations {
		if f.Of == "" {
			return Script{}, fmt.Errorf("conversation %d: of is missing", i+1)
		}
		own, err := steps(f.Steps)
		if err != nil {
			return Script{}, fmt.Errorf("conversation %d: %w", i+1, err)
		}
		s.Conversations = append(s.Conversations, Conversation{Of: f.Of, Steps: own})
	}
	return s, nil
}

func steps(files []stepFile) ([]Step, error) {
	var out []Step
	for i, f := range files {
		step, err := f.step()
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		out = append(out, step)
	}
	if len(out) == 0 {
		return nil, errors.New("no steps")
	}
	return out, nil
}

// stepFile is a Step as it is written.
type stepFile struct {
	Text  string `json:"text"`
	Calls []struct {
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	} `json:"calls"`
	Delay   string     `json:"delay"`
	Fault   *faultFile `json:"fault"`
	With    string     `json:"with"`
	Without string     `json:"without"`
}

// faultFile is a Step's Fault as it is written.
type faultFile struct {
	Kind       llm.ErrorKind `json:"kind"`
	Message    string        `json:"message"`
	RetryAfter string        `json:"retry_after"`
}

func (f faultFile) fault() (*llm.Error, error) {
	e := &llm.Error{Kind: f.Kind, Message: f.Message}
	if e.Kind == "" {
		return nil, errors.New("fault: kind is missing")
	}
	if e.Message == "" {
		e.Message = "a fault of the script"
	}
	if f.RetryAfter == "" {
		return e, nil
	}
	d, err := time.ParseDuration(f.RetryAfter)
	if err != nil || d < 0 {
		return nil, fmt.Errorf("fault: retry_after %q is no duration such as \"2s\"", f.RetryAfter)
	}
	e.RetryAfter = d
	return e, nil
}

func (f stepFile) step() (Step, error) {
	s := Step{Text: f.Text, With: f.With, Without: f.Without}
	if f.Delay != "" {
		d, err := time.ParseDuration(f.Delay)
		if err != nil || d < 0 {
			return Step{}, fmt.Errorf("delay %q is no duration such as \"500ms\"", f.Delay)
		}
		s.Delay = d
	}
	for i, c := range f.Calls {
		if c.Tool == "" {
			return Step{}, fmt.Errorf("call %d: tool is missing", i+1)
		}
		input := bytes.TrimSpace(c.Input)
		if len(input) > 0 && input[0] != '{' {
			return Step{}, fmt.Errorf("call %d (%s): input must be an object", i+1, c.Tool)
		}
		s.Calls = append(s.Calls, Call{Tool: c.Tool, Input: json.RawMessage(input)})
	}
	if f.Fault != nil {
		if len(s.Calls) > 0 {
			return Step{}, errors.New("has calls that its fault would keep from being made")
		}
		fault, err := f.Fault.fault()
		if err != nil {
			return Step{}, err
		}
		s.Fault = fault
	}
	if s.Text == "" && len(s.Calls) == 0 && s.Fault == nil {
		return Step{}, errors.New("has neither text nor calls")
	}
	return s, nil
}

// unknownKey is how encoding/json names a key that a struct does not have; its
// error holds no offset.
var unknownKey = regexp.MustCompile(`^json: unknown field "(.*)"$`)

// strict decodes one JSON value that fills data, and names the line of a fault.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var (
		syntax *json.SyntaxError
		typed  *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", line(data, int(syntax.Offset)), err)
	case errors.As(err, &typed):
		return fmt.Errorf("line %d: %s cannot be a %s", line(data, int(typed.Offset)), typed.Field, typed.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("line %d: the script ends too early", line(data, len(data)))
	case err != nil:
		if m := unknownKey.FindStringSubmatch(err.Error()); m != nil {
			return fmt.Errorf("line %d: unknown key %q", keyLine(data, m[1]), m[1])
		}
		return err
	}
	if rest := bytes.TrimSpace(data[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("line %d: something follows the script", line(data, len(data)-len(rest)))
	}
	return nil
}

// keyLine finds the first place where key is used as a key.
func keyLine(data []byte, key string) int {
	quoted, err := json.Marshal(key)
	if err != nil {
		return 1
	}
	at := regexp.MustCompile(regexp.QuoteMeta(string(quoted)) + `\s*:`).FindIndex(data)
	if at == nil {
		return 1
	}
	return line(data, at[0])
}

// line returns the line, from 1, of an offset.
func line(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(offset, len(data))], []byte("\n"))
}
