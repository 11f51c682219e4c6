package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Limits of Grep.
const (
	grepRows = 250      // without a head_limit
	maxGrep  = 32 << 10 // bytes of text in all
)

//go:embed grep.md
var grepDescription string

type grepParams struct {
	Pattern    string           `json:"pattern" jsonschema:"the regular expression to search for"`
	Path       string           `json:"path,omitempty" jsonschema:"the file or directory to search; the workspace when left out"`
	Glob       string           `json:"glob,omitempty" jsonschema:"search only files that match, such as *.{ts,tsx}"`
	Type       string           `json:"type,omitempty" jsonschema:"search only files of a type, such as go, py or ts"`
	OutputMode execenv.GrepMode `json:"output_mode,omitempty" jsonschema:"files_with_matches (the default), content, or count"`
	IgnoreCase bool             `json:"-i,omitempty" jsonschema:"ignore case"`
	Numbers    bool             `json:"-n,omitempty" jsonschema:"show line numbers in content mode (true when left out)"`
	OnlyMatch  bool             `json:"-o,omitempty" jsonschema:"show only the matching part of each line"`
	All        bool             `json:"-u,omitempty" jsonschema:"search hidden and ignored files too"`
	After      int              `json:"-A,omitempty" jsonschema:"lines to show after each match"`
	Before     int              `json:"-B,omitempty" jsonschema:"lines to show before each match"`
	Around     int              `json:"-C,omitempty" jsonschema:"lines to show before and after each match"`
	Context    int              `json:"context,omitempty" jsonschema:"the same as -C, which it overrides"`
	HeadLimit  int              `json:"head_limit,omitempty" jsonschema:"how many lines to return at most (250; 0 is no limit)"`
	Offset     int              `json:"offset,omitempty" jsonschema:"how many lines to leave out first"`
	Multiline  bool             `json:"multiline,omitempty" jsonschema:"let the pattern match across lines"`
}

// Grep searches in files.
type Grep struct{ params[grepParams] }

var _ Tool = (*Grep)(nil)

// NewGrep returns the Grep tool.
func NewGrep() *Grep {
	return &Grep{describe[grepParams]("Grep", grepDescription, func(s *jsonschema.Schema) {
		s.Properties["output_mode"].Enum = []any{string(execenv.GrepFiles), string(execenv.GrepContent), string(execenv.GrepCount)}
		for _, name := range []string{"-A", "-B", "-C", "context", "head_limit", "offset"} {
			s.Properties[name].Minimum = new(0.0)
		}
	})}
}

// Risk implements Tool.
func (t *Grep) Risk() Risk { return RiskLow }

// ReadOnly marks the tool for [ReadOnly].
func (t *Grep) ReadOnly() bool { return true }

// Run implements Tool.
func (t *Grep) Run(ctx context.Context, c Call) (Result, error) {
	p, err := t.decode(c.Input, grepParams{OutputMode: execenv.GrepFiles, Numbers: true, HeadLimit: grepRows, Context: -1, Around: -1})
	switch {
	case err != nil:
		return invalid(err), nil
	case p.Pattern == "":
		return invalid(errors.New("pattern: must not be empty")), nil
	case path.IsAbs(p.Glob):
		return invalid(errors.New("glob: must be relative; put the directory in path")), nil
	}
	base := c.abs(p.Path)
	r, err := c.reader().Grep(ctx, p.request(base))
	switch {
	case errors.Is(err, execenv.ErrNotFound):
		return refuse("%s: no such file or directory.", base), nil
	case errors.Is(err, execenv.ErrPattern):
		return refuse("%v. The dialect is RE2: no look-around, no back-references.", err), nil
	case err != nil:
		return fault(ctx, err)
	}
	return t.result(c, p, base, r), nil
}

// request turns the parameters into what an Env is asked.
func (p grepParams) request(base string) execenv.GrepRequest {
	g := execenv.GrepRequest{
		Pattern: p.Pattern, Path: base, Glob: p.Glob, Type: p.Type, Mode: p.OutputMode,
		IgnoreCase: p.IgnoreCase, OnlyMatch: p.OnlyMatch, All: p.All, Multiline: p.Multiline,
		Before: p.Before, After: p.After, Skip: p.Offset, Limit: p.HeadLimit, MaxBytes: maxGrep,
	}
	if p.Context >= 0 {
		g.Before, g.After = p.Context, p.Context
	} else if p.Around >= 0 {
		g.Before, g.After = p.Around, p.Around
	}
	return g
}

func (t *Grep) result(c Call, p grepParams, base string, r execenv.GrepResult) Result {
	var b strings.Builder
	workdir := c.Env.Where().Workdir
	shown := 0
	for _, row := range r.Rows {
		line := grepRow(p, clean(relative(workdir, row.Path)), row) + "\n"
		if shown > 0 && b.Len()+len(line) > maxGrep { // the Env counts text without paths
			break
		}
		b.WriteString(line)
		shown++
	}
	truncated := r.Truncated || shown < len(r.Rows)
	if shown == 0 {
		b.WriteString("No matches found.")
		if p.Offset > 0 {
			fmt.Fprintf(&b, " (offset is %d)", p.Offset)
		}
		if !p.All {
			b.WriteString(" Hidden files and those that .gitignore names are searched only with \"-u\": true.")
		}
		b.WriteByte('\n')
	}
	if truncated {
		fmt.Fprintf(&b, "(cut after %s; there are more: use offset=%d to go on, or narrow the search)\n", count(shown, "line"), p.Offset+shown)
	}
	warnings := make([]string, len(r.Warnings))
	for i, w := range r.Warnings {
		warnings[i] = clean(w)
		fmt.Fprintf(&b, "(warning: %s)\n", warnings[i])
	}
	return Result{Status: task.CallOK, Text: strings.TrimSuffix(b.String(), "\n"), Display: SearchDisplay{
		Pattern: clean(p.Pattern), Path: clean(base), Mode: string(p.OutputMode),
		Rows: shown, Total: len(r.Rows), Truncated: truncated, Warnings: warnings,
	}}
}

// grepRow writes one row: matches with ":", context with "-", as grep does.
func grepRow(p grepParams, name string, row execenv.GrepRow) string {
	gap := ""
	if row.Break {
		gap = "--\n"
	}
	switch {
	case row.Binary:
		return gap + name + ": binary file matches"
	case p.OutputMode == execenv.GrepFiles:
		return name
	case p.OutputMode == execenv.GrepCount:
		return fmt.Sprintf("%s:%d", name, row.Count)
	}
	sep, text := ":", clean(row.Text)
	if row.Context {
		sep = "-"
	}
	if row.Cut {
		text = fmt.Sprintf("[…at byte %d of a long line…] %s […]", row.Offset, text)
	}
	if !p.Numbers {
		return gap + name + sep + text
	}
	return fmt.Sprintf("%s%s%s%d%s%s", gap, name, sep, row.Line, sep, text)
}
