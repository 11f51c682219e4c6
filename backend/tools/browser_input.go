package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// maxTyped bounds a text that is typed, in bytes.
const maxTyped = 1 << 20

//go:embed browser_type.md
var browserTypeDescription string

//go:embed browser_press.md
var browserPressDescription string

//go:embed browser_select.md
var browserSelectDescription string

//go:embed browser_upload.md
var browserUploadDescription string

type browserTypeParams struct {
	element

	Text   string `json:"text" jsonschema:"what the field is to hold, in place of what it holds; empty clears it"`
	Submit bool   `json:"submit,omitempty" jsonschema:"press Enter afterwards"`
}

// newBrowserType returns the tool that types. What it types stands in the call's
// input, which is in the log before the call runs, and in the model's own words
// before that: no tool can keep a secret that the model has said. So the model is
// told to leave secrets to the person, and no result repeats what was typed.
func newBrowserType() Tool {
	return &browserTool[browserTypeParams]{
		params: describe[browserTypeParams]("browser_type", browserTypeDescription, refineElement),
		action: "type",
		plan: func(_ context.Context, _ Call, p browserTypeParams) (browserAct, error) {
			at, err := p.at(false)
			switch {
			case err != nil:
				return browserAct{}, err
			case len(p.Text) > maxTyped:
				return browserAct{}, errors.New("text: longer than 1 MiB")
			}
			return browserAct{target: p.element.String(), typed: true, do: func(ctx context.Context, b browser.Backend) (browser.Look, error) {
				return b.Type(ctx, at, p.Text, p.Submit)
			}}, nil
		},
	}
}

type browserPressParams struct {
	element

	Keys string `json:"keys" jsonschema:"one key with its modifiers: Enter, Tab, Escape, ArrowDown, Control+A, Shift+Tab, a"`
}

func newBrowserPress() Tool {
	return &browserTool[browserPressParams]{
		params: describe[browserPressParams]("browser_press", browserPressDescription, refineElement),
		action: "press",
		plan: func(_ context.Context, _ Call, p browserPressParams) (browserAct, error) {
			at, err := p.at(true)
			switch {
			case err != nil:
				return browserAct{}, err
			case p.Keys == "":
				return browserAct{}, errors.New("keys: must not be empty")
			}
			return browserAct{target: strings.TrimSpace(p.Keys + " " + p.element.String()), do: doing(browser.Action{Kind: browser.Press, At: at, Keys: p.Keys})}, nil
		},
	}
}

type browserSelectParams struct {
	element

	Values []string `json:"values" jsonschema:"the options to choose, by value or by label; none clears a list that allows several"`
}

func newBrowserSelect() Tool {
	return &browserTool[browserSelectParams]{
		params: describe[browserSelectParams]("browser_select", browserSelectDescription, func(s *jsonschema.Schema) {
			refineElement(s)
			refineList(s.Properties["values"])
		}),
		action: "select",
		plan: func(_ context.Context, _ Call, p browserSelectParams) (browserAct, error) {
			at, err := p.at(false)
			return browserAct{target: p.element.String(), do: doing(browser.Action{Kind: browser.Select, At: at, Values: p.Values})}, err
		},
	}
}

type browserUploadParams struct {
	element

	Files []string `json:"files" jsonschema:"files of the sandbox: absolute, or relative to the workspace"`
}

func newBrowserUpload() Tool {
	return &browserTool[browserUploadParams]{
		params: describe[browserUploadParams]("browser_upload", browserUploadDescription, func(s *jsonschema.Schema) {
			refineElement(s)
			refineList(s.Properties["files"])
		}),
		action: "upload",
		plan:   planUpload,
	}
}

// planUpload looks at the files first: a browser takes any name, and a page gets
// nothing for one that is not there.
func planUpload(ctx context.Context, c Call, p browserUploadParams) (browserAct, error) {
	at, err := p.at(true)
	switch {
	case err != nil:
		return browserAct{}, err
	case len(p.Files) == 0:
		return browserAct{}, errors.New("files: must not be empty")
	}
	files := make([]string, len(p.Files))
	for i, f := range p.Files {
		if f == "" {
			return browserAct{}, errors.New("files: must not hold an empty name")
		}
		files[i] = c.abs(f)
	}
	return browserAct{target: strings.Join(files, ", "), do: func(ctx context.Context, b browser.Backend) (browser.Look, error) {
		for _, f := range files {
			info, err := c.Env.Stat(ctx, f)
			switch {
			case err != nil:
				return browser.Look{}, fmt.Errorf("upload: %w", err)
			case info.Kind == execenv.KindMissing:
				return browser.Look{}, fmt.Errorf("upload: %w", &execenv.PathError{Path: f, Err: execenv.ErrNotFound})
			case info.Kind != execenv.KindFile:
				return browser.Look{}, fmt.Errorf("upload: %w; pack a directory into a file first", &execenv.PathError{Path: f, Err: execenv.ErrNotRegular})
			}
		}
		return b.Do(ctx, browser.Action{Kind: browser.Upload, At: at, Files: files})
	}}, nil
}

// refineList makes a list one that is not null.
func refineList(s *jsonschema.Schema) { s.Type, s.Types = "array", nil }
