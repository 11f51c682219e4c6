package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// snippetContext is how many lines are shown to the model on either side of the
// first change.
const snippetContext = 4

// EditDisplay shows an Edit.
type EditDisplay struct {
	Path     string `json:"path"`
	Diff     string `json:"diff"` // unified; "" when the file was too large to make one
	Added    int    `json:"added"`
	Removed  int    `json:"removed"`
	Replaced int    `json:"replaced"` // occurrences of old_string
	InPlace  bool   `json:"in_place"` // not atomic: the owner could not be kept otherwise
}

//go:embed edit.md
var editDescription string

type editParams struct {
	FilePath   string `json:"file_path" jsonschema:"the file to change: absolute, or relative to the workspace"`
	OldString  string `json:"old_string" jsonschema:"the exact text to replace"`
	NewString  string `json:"new_string" jsonschema:"the text to put in its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
}

// Edit replaces text in files.
type Edit struct{ params[editParams] }

var _ Tool = (*Edit)(nil)

// NewEdit returns the Edit tool.
func NewEdit() *Edit { return &Edit{describe[editParams]("Edit", editDescription, nil)} }

// Risk implements Tool.
func (t *Edit) Risk() Risk { return RiskHigh }

// Run implements Tool.
func (t *Edit) Run(ctx context.Context, c Call) (Result, error) {
	p, err := t.decode(c.Input, editParams{})
	switch {
	case err != nil:
		return invalid(err), nil
	case p.FilePath == "":
		return invalid(errors.New("file_path: must not be empty")), nil
	case p.OldString == "":
		return invalid(errors.New("old_string: must not be empty; use Write to make a file")), nil
	case p.OldString == p.NewString:
		return invalid(errors.New("new_string: is the same as old_string, so there is nothing to change")), nil
	}
	name := c.abs(p.FilePath)
	hash, known := c.known(name)
	if !known {
		return unmade("%s was not read yet. Read it first, then edit.", name), nil
	}
	r, err := c.Env.EditFile(ctx, execenv.EditRequest{
		Call: c.effect(), Path: name, Old: p.OldString, New: p.NewString, ReplaceAll: p.ReplaceAll,
		Within: []string{c.Env.Where().Workdir},
	})
	if err != nil {
		return t.fault(ctx, name, err)
	}
	return t.result(name, hash, r), nil
}

func (t *Edit) fault(ctx context.Context, name string, err error) (Result, error) {
	detail := ""
	var pe *execenv.PathError
	if errors.As(err, &pe) && pe.Detail != "" {
		detail = " " + strings.TrimRight(pe.Detail, ".") + "."
	}
	switch {
	case errors.Is(err, execenv.ErrNoMatch):
		return refuse("old_string was not found in %s; nothing was changed.%s Read the file again and copy the text exactly.", name, detail), nil
	case errors.Is(err, execenv.ErrAmbiguous):
		return refuse("old_string is not unique in %s; nothing was changed.%s Add text around it, or set replace_all.", name, detail), nil
	case errors.Is(err, execenv.ErrNoChange):
		return refuse("The edit would not change %s: old_string and new_string are the same.", name), nil
	case errors.Is(err, execenv.ErrNotFound):
		return refuse("%s: no such file.", name), nil
	case errors.Is(err, execenv.ErrIsDirectory):
		return refuse("%s is a directory, not a file.", name), nil
	}
	return fault(ctx, err)
}

func (t *Edit) result(name, known string, r execenv.EditResult) Result {
	d := EditDisplay{Path: clean(name), Replaced: r.Replaced, InPlace: r.InPlace}
	text := fmt.Sprintf("Edited %s: %s replaced.", d.Path, count(r.Replaced, "occurrence"))
	if !r.BeforeOmitted && !r.AfterOmitted {
		d.Diff, d.Added, d.Removed = unified(d.Path, r.Before, r.After)
	}
	if !r.AfterOmitted {
		text += inPlace(r.WriteResult) + "\n" + snippet(r.After, r.FirstLine)
	}
	res := Result{Status: task.CallOK, Text: text, Display: d}
	// The edit was made on fresh content. What somebody else changed meanwhile
	// is still unseen, so that a Write has to read the file first.
	if sum := sha256.Sum256(r.Before); !r.BeforeOmitted && hex.EncodeToString(sum[:]) == known {
		res.Files = map[string]string{name: r.Hash}
	} else if !r.BeforeOmitted {
		res.Text += "\n(The file had changed since you read it; the edit kept those changes.)"
	}
	return res
}

// snippet shows the lines around one line, as Read does.
func snippet(data []byte, line int) string {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	all := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	first, last := max(line-snippetContext, 1), min(line+snippetContext, len(all))
	var b strings.Builder
	for n := first; n <= last; n++ {
		text := strings.TrimSuffix(all[n-1], "\r")
		if len(text) > readLine {
			text = string(firstRunes([]byte(text), readLine/4)) + " […]"
		}
		fmt.Fprintf(&b, "%6d\t%s\n", n, clean(text))
	}
	return b.String()
}
