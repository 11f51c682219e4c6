package tools_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestStandard_parameters(t *testing.T) {
	want := map[string][]string{
		"Read":  {"file_path", "limit", "offset"},
		"Write": {"content", "file_path"},
		"Edit":  {"file_path", "new_string", "old_string", "replace_all"},
		"Glob":  {"path", "pattern"},
		"Grep":  {"-A", "-B", "-C", "-i", "-n", "-o", "-u", "context", "glob", "head_limit", "multiline", "offset", "output_mode", "path", "pattern", "type"},
		"Bash":  {"command", "description", "run_in_background", "timeout"},

		"AskUser": {"options", "question"},
	}
	got := map[string][]string{}
	for _, d := range tools.Standard().Definitions() {
		var schema struct {
			Type                 string
			Properties           map[string]struct{ Description string }
			AdditionalProperties *bool
		}
		if err := json.Unmarshal(d.Schema, &schema); err != nil {
			t.Fatalf("%s: %v", d.Name, err)
		}
		if schema.AdditionalProperties == nil || *schema.AdditionalProperties {
			t.Errorf("%s takes additional properties", d.Name)
		}
		for name, p := range schema.Properties {
			if p.Description == "" {
				t.Errorf("%s.%s has no description", d.Name, name)
			}
		}
		if d.Description == "" || schema.Type != "object" {
			t.Errorf("%s: description %q, type %q", d.Name, d.Description, schema.Type)
		}
		got[d.Name] = slices.Sorted(maps.Keys(schema.Properties))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

func TestSet_orderAndRisk(t *testing.T) {
	s := tools.Standard()
	if got, want := s.Names(), []string{"Read", "Write", "Edit", "Glob", "Grep", "Bash", "AskUser"}; !slices.Equal(got, want) {
		t.Errorf("Names() = %v, want %v", got, want)
	}
	for _, name := range s.Names() {
		tool, _ := s.Lookup(name)
		looks, asks := name == "Read" || name == "Glob" || name == "Grep", name == "AskUser"
		if tools.ReadOnly(tool) != looks || (tool.Risk() == tools.RiskLow) != (looks || asks) {
			t.Errorf("%s: read-only %v, risk %s", name, tools.ReadOnly(tool), tool.Risk())
		}
	}
	if _, ok := s.Lookup("bash"); ok {
		t.Error("Lookup does not mind the case of a name")
	}
}

func TestInput_errorsNameTheParameter(t *testing.T) {
	b := newBench(t)
	b.put("f", "x\n")
	for _, c := range []struct {
		tool, input, want string
	}{
		{"Read", `{}`, "file_path: required"},
		{"Read", `{"file_path": null}`, "file_path: required"},
		{"Read", `{"file_path": ""}`, "file_path: must not be empty"},
		{"Read", `{"file_path": 5}`, "file_path: must be a string"},
		{"Read", `{"file_path": "f", "limit": "ten"}`, "limit: must be an integer"},
		{"Read", `{"file_path": "f", "limit": 1.5}`, "limit: must be an integer"},
		{"Read", `{"file_path": "f", "limit": true}`, "limit: must be an integer"},
		{"Read", `{"file_path": "f", "offset": 0}`, "offset: must be at least 1"},
		{"Read", `{"file_path": "f", "lines": 3}`, "lines: no such parameter; there are file_path, offset, limit"},
		{"Read", `{"File_Path": "f"}`, "File_Path: no such parameter"},
		{"Read", `["f"]`, "must be a JSON object"},
		{"Read", `null`, "must be a JSON object"},
		{"Write", `{"file_path": "f"}`, "content: required"},
		{"Edit", `{"file_path": "f", "old_string": "", "new_string": "x"}`, "old_string: must not be empty"},
		{"Edit", `{"file_path": "f", "old_string": "x", "new_string": "x"}`, "new_string: is the same"},
		{"Edit", `{"file_path": "f", "old_string": "x", "new_string": "y", "replace_all": "yes"}`, "replace_all: must be a boolean"},
		{"Glob", `{"pattern": "/etc/*"}`, "pattern: must be relative"},
		{"Glob", `{"pattern": "../*"}`, "pattern: must be relative"},
		{"Grep", `{"pattern": "x", "output_mode": "lines"}`, "output_mode: must be one of"},
		{"Grep", `{"pattern": "x", "-A": -1}`, "-A: must be at least 0"},
		{"Grep", `{"pattern": "x", "glob": "/etc/*"}`, "glob: must be relative"},
		{"Bash", `{"command": " "}`, "command: must not be empty"},
		{"Bash", `{"command": "true", "timeout": 600001}`, "timeout: must be at most 600000"},
		{"Bash", `{"command": "true", "timeout": 0}`, "timeout: must be at least 1"},
		{"Bash", `{"command": "true", "run_in_background": true}`, "not supported here"},
	} {
		t.Run(c.tool+" "+c.input, func(t *testing.T) {
			b.on(t).call(c.tool, json.RawMessage(c.input), task.CallError, c.want)
		})
	}
	b.call("Read", json.RawMessage(`{"file_path": "f", "limit": null}`), task.CallOK, "x")
}

func TestFaults_areTyped(t *testing.T) {
	for _, c := range []struct {
		err    error
		status task.CallStatus // "" when the error itself has to come back
		want   string
	}{
		{execenv.ErrFenced, "", ""},
		{execenv.ErrUnreachable, "", ""},
		{execenv.ErrLost, task.CallLost, "Sandbox lost"},
		{execenv.ErrOutcomeUnknown, task.CallUnknown, "Outcome unknown"},
		{execenv.ErrWorkdirGone, task.CallError, "Workspace missing"},
		{execenv.ErrBusy, task.CallError, "try again"},
		{&execenv.PathError{Path: "/x", Err: execenv.ErrEscape, Detail: "it leads to /etc"}, task.CallError, "/x: is outside the workspace: it leads to /etc"},
		{errors.New("disk on fire \xff"), task.CallError, "disk on fire \uFFFD"},
	} {
		for name, input := range map[string]in{"Read": {"file_path": "f"}, "Bash": {"command": "true"}} {
			t.Run(fmt.Sprint(name, " ", c.err), func(t *testing.T) {
				b := newBench(t)
				b.env.err = fmt.Errorf("call: %w", c.err)
				if c.status == "" {
					if _, err := b.try(t.Context(), name, input, nil); !errors.Is(err, c.err) {
						t.Errorf("error = %v, want %v", err, c.err)
					}
					return
				}
				b.call(name, input, c.status, c.want)
			})
		}
	}
}
