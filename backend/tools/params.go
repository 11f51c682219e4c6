package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// params describes the parameters P of a tool: their schema for the model and
// the check of what the model sends.
type params[P any] struct {
	definition llm.Tool
	schema     *jsonschema.Schema
}

// describe derives a tool's definition from its parameter struct. refine, when
// not nil, adds what struct tags cannot say. It panics on a struct that has no
// schema: a mistake of the programmer, found at start.
func describe[P any](name, description string, refine func(*jsonschema.Schema)) params[P] {
	schema, err := jsonschema.For[P](nil)
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", name, err))
	}
	if refine != nil {
		refine(schema)
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", name, err))
	}
	return params[P]{llm.Tool{Name: name, Description: strings.TrimSpace(description), Schema: raw}, schema}
}

// Definition implements Tool for what embeds params.
func (p params[P]) Definition() llm.Tool { return p.definition }

// decode reads input over defaults. Its errors name the parameter and are for
// the model. Names count exactly, and null stands for an absent parameter.
func (p params[P]) decode(input json.RawMessage, defaults P) (P, error) {
	out := defaults
	var given map[string]json.RawMessage
	if err := json.Unmarshal(input, &given); err != nil || given == nil {
		return out, errors.New("the arguments must be a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := p.schema.Properties[name]; !ok {
			return out, fmt.Errorf("%s: no such parameter; there are %s", name, strings.Join(p.schema.PropertyOrder, ", "))
		}
		if bytes.Equal(given[name], []byte("null")) {
			delete(given, name)
		}
	}
	for _, name := range p.schema.Required {
		if _, ok := given[name]; !ok {
			return out, fmt.Errorf("%s: required and missing", name)
		}
	}
	if err := json.Unmarshal(input, &out); err != nil {
		typed, ok := errors.AsType[*json.UnmarshalTypeError](err)
		if !ok || p.schema.Properties[typed.Field] == nil {
			return out, fmt.Errorf("the arguments do not fit: %w", err)
		}
		return out, fmt.Errorf("%s: must be %s, not %.100s", typed.Field, article(p.schema.Properties[typed.Field].Type), given[typed.Field])
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if err := inRange(p.schema.Properties[name], given[name]); err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

// inRange checks what a type alone does not say.
func inRange(s *jsonschema.Schema, value json.RawMessage) error {
	if s.Enum == nil && s.Minimum == nil && s.Maximum == nil {
		return nil
	}
	var plain any
	if err := json.Unmarshal(value, &plain); err != nil {
		return err
	}
	number, isNumber := plain.(float64)
	switch {
	case s.Enum != nil && !slices.Contains(s.Enum, plain):
		return fmt.Errorf("must be one of %v, not %.100s", s.Enum, value)
	case isNumber && s.Minimum != nil && number < *s.Minimum:
		return fmt.Errorf("must be at least %v, not %.100s", *s.Minimum, value)
	case isNumber && s.Maximum != nil && number > *s.Maximum:
		return fmt.Errorf("must be at most %.0f, not %.100s", *s.Maximum, value)
	}
	return nil
}

// article puts a or an before the name of a JSON type.
func article(name string) string {
	if name == "integer" || name == "array" || name == "object" {
		return "an " + name
	}
	return "a " + name
}
