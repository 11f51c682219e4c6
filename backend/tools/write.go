package tools

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// maxWrite bounds the content of one Write.
const maxWrite = 8 << 20

// WriteDisplay shows a Write.
type WriteDisplay struct {
	Path    string `json:"path"`
	Created bool   `json:"created"`
	Bytes   int    `json:"bytes"`
	Lines   int    `json:"lines"`
	Diff    string `json:"diff"` // unified; "" when it was too large to make
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	InPlace bool   `json:"in_place"` // not atomic: the owner could not be kept otherwise
}

//go:embed write.md
var writeDescription string

type writeParams struct {
	FilePath string `json:"file_path" jsonschema:"the file to write: absolute, or relative to the workspace"`
	Content  string `json:"content" jsonschema:"the whole new content"`
}

// Write makes and overwrites files.
type Write struct{ params[writeParams] }

var _ Tool = (*Write)(nil)

// NewWrite returns the Write tool.
func NewWrite() *Write { return &Write{describe[writeParams]("Write", writeDescription, nil)} }

// Risk implements Tool.
func (t *Write) Risk() Risk { return RiskHigh }

// Run implements Tool.
func (t *Write) Run(ctx context.Context, c Call) (Result, error) {
	p, err := t.decode(c.Input, writeParams{})
	switch {
	case err != nil:
		return invalid(err), nil
	case p.FilePath == "":
		return invalid(errors.New("file_path: must not be empty")), nil
	case len(p.Content) > maxWrite:
		return invalid(fmt.Errorf("content: has %s, over the limit of 8 MiB; write it in parts or make it with Bash", count(len(p.Content), "byte"))), nil
	}
	name := c.abs(p.FilePath)
	w := execenv.WriteRequest{
		Call: c.effect(), Path: name, Data: []byte(p.Content),
		Mode: execenv.WriteExclusive, Within: []string{c.Env.Where().Workdir},
	}
	hash, known := c.known(name)
	if known {
		w.Mode, w.Expected = execenv.WriteExpected, hash
	}
	r, err := c.Env.WriteFile(ctx, w)
	if known && (errors.Is(err, execenv.ErrChanged) || errors.Is(err, execenv.ErrNotFound)) {
		// If it was removed since it was read, nothing can be lost by making it
		// anew, as long as nobody else does at the same time. The id is derived,
		// so that a take-up walks the same two steps.
		w.Call.ID += "/new"
		w.Mode, w.Expected = execenv.WriteExclusive, ""
		r, err = c.Env.WriteFile(ctx, w)
	}
	switch {
	case errors.Is(err, execenv.ErrExists) && known:
		return refuse("%s has changed since you read it. Read it again, then write.", name), nil
	case errors.Is(err, execenv.ErrExists):
		return refuse("%s exists and was not read yet. Read it first, then write.", name), nil
	case errors.Is(err, execenv.ErrIsDirectory):
		return refuse("%s is a directory, not a file.", name), nil
	case err != nil:
		return fault(ctx, err)
	}
	return t.result(name, p, r), nil
}

func (t *Write) result(name string, p writeParams, r execenv.WriteResult) Result {
	d := WriteDisplay{
		Path: clean(name), Created: r.Created, InPlace: r.InPlace,
		Bytes: len(p.Content), Lines: lines([]byte(p.Content)),
	}
	if !r.BeforeOmitted {
		d.Diff, d.Added, d.Removed = unified(d.Path, r.Before, []byte(p.Content))
	}
	text := fmt.Sprintf("Wrote %s: %s, %s.", d.Path, count(d.Lines, "line"), count(d.Bytes, "byte"))
	if r.Created {
		text = fmt.Sprintf("Created %s: %s, %s.", d.Path, count(d.Lines, "line"), count(d.Bytes, "byte"))
	}
	return Result{
		Status: task.CallOK, Text: text + inPlace(r), Display: d,
		Files: map[string]string{name: r.Hash},
	}
}

// inPlace says that a write was not atomic.
func inPlace(r execenv.WriteResult) string {
	if !r.InPlace {
		return ""
	}
	return " The file was rewritten in place, to keep its owner."
}

// lines counts lines as an editor does: a last one without its ending counts.
func lines(data []byte) int {
	n := bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}
