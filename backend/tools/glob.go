package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// maxGlob is how many files one Glob lists.
const maxGlob = 200

// SearchDisplay shows a Glob or a Grep.
type SearchDisplay struct {
	Pattern   string   `json:"pattern"`
	Path      string   `json:"path"` // where the search began
	Mode      string   `json:"mode"` // "glob", or Grep's output_mode
	Rows      int      `json:"rows"` // listed: files or lines
	Total     int      `json:"total"`
	Truncated bool     `json:"truncated"`
	Warnings  []string `json:"warnings"`
}

//go:embed glob.md
var globDescription string

type globParams struct {
	Pattern string `json:"pattern" jsonschema:"the pattern of the files to find, relative to path"`
	Path    string `json:"path,omitempty" jsonschema:"the directory to search; the workspace when left out"`
}

// Glob finds files by name.
type Glob struct{ params[globParams] }

var _ Tool = (*Glob)(nil)

// NewGlob returns the Glob tool.
func NewGlob() *Glob { return &Glob{describe[globParams]("Glob", globDescription, nil)} }

// Risk implements Tool.
func (t *Glob) Risk() Risk { return RiskLow }

// ReadOnly marks the tool for [ReadOnly].
func (t *Glob) ReadOnly() bool { return true }

// Run implements Tool.
func (t *Glob) Run(ctx context.Context, c Call) (Result, error) {
	p, err := t.decode(c.Input, globParams{})
	switch {
	case err != nil:
		return invalid(err), nil
	case p.Pattern == "":
		return invalid(errors.New("pattern: must not be empty")), nil
	case path.IsAbs(p.Pattern) || slices.Contains(strings.Split(p.Pattern, "/"), ".."):
		return invalid(errors.New("pattern: must be relative and without \"..\"; put the directory in path")), nil
	}
	base := c.abs(p.Path)
	r, err := c.reader().Glob(ctx, execenv.GlobRequest{Base: base, Pattern: p.Pattern, Limit: maxGlob})
	switch {
	case errors.Is(err, execenv.ErrNotFound):
		return refuse("%s: no such directory.", base), nil
	case errors.Is(err, execenv.ErrNotDirectory):
		return refuse("%s is a file, not a directory. Use Read for it.", base), nil
	case err != nil:
		return fault(ctx, err)
	}
	var b strings.Builder
	for _, f := range r.Files {
		fmt.Fprintln(&b, clean(relative(c.Env.Where().Workdir, f.Path)))
	}
	total := max(r.Total, len(r.Files))
	switch {
	case len(r.Files) == 0:
		b.WriteString("No files found. Hidden files and those that .gitignore names are not listed.")
	case total > len(r.Files):
		fmt.Fprintf(&b, "(the newest %d of %s; narrow the pattern or the path for the rest)", len(r.Files), count(total, "file"))
	case r.Truncated:
		fmt.Fprintf(&b, "(the newest %d files; there are more: narrow the pattern or the path)", len(r.Files))
	}
	return Result{Status: task.CallOK, Text: strings.TrimSuffix(b.String(), "\n"), Display: SearchDisplay{
		Pattern: clean(p.Pattern), Path: clean(base), Mode: "glob",
		Rows: len(r.Files), Total: total, Truncated: r.Truncated || total > len(r.Files),
	}}, nil
}
