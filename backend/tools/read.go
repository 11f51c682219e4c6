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
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Limits of Read.
const (
	readLines   = 2000    // without a limit
	readLine    = 2000    // bytes of one line
	maxReadText = 1 << 20 // bytes of text in all
	maxImage    = 5 << 20 // bytes of an image
)

// ReadDisplay shows a Read.
type ReadDisplay struct {
	Path       string `json:"path"`
	StartLine  int    `json:"start_line"`  // of the first line shown, from 1
	Lines      int    `json:"lines"`       // shown
	TotalLines int    `json:"total_lines"` // of the file; 0 when it was not counted
	Size       int64  `json:"size"`
	MediaType  string `json:"media_type"` // of an image; "" for text
}

//go:embed read.md
var readDescription string

type readParams struct {
	FilePath string `json:"file_path" jsonschema:"the file to read: absolute, or relative to the workspace"`
	Offset   int    `json:"offset,omitempty" jsonschema:"the first line to read, counted from 1"`
	Limit    int    `json:"limit,omitempty" jsonschema:"how many lines to read at most"`
}

// Read shows files.
type Read struct{ params[readParams] }

var _ Tool = (*Read)(nil)

// NewRead returns the Read tool.
func NewRead() *Read {
	return &Read{describe[readParams]("Read", readDescription, func(s *jsonschema.Schema) {
		s.Properties["offset"].Minimum = new(1.0)
		s.Properties["limit"].Minimum = new(1.0)
	})}
}

// Risk implements Tool.
func (t *Read) Risk() Risk { return RiskLow }

// ReadOnly marks the tool for [ReadOnly].
func (t *Read) ReadOnly() bool { return true }

// Run implements Tool.
func (t *Read) Run(ctx context.Context, c Call) (Result, error) {
	p, err := t.decode(c.Input, readParams{Offset: 1, Limit: readLines})
	if err != nil {
		return invalid(err), nil
	}
	if p.FilePath == "" {
		return invalid(errors.New("file_path: must not be empty")), nil
	}
	name := c.abs(p.FilePath)
	r, err := c.reader().ReadFile(ctx, execenv.ReadRequest{
		Path: name, StartLine: p.Offset, Lines: p.Limit,
		MaxLine: readLine, MaxBytes: maxImage, // an image comes whole; text is bounded below
	})
	switch {
	case errors.Is(err, execenv.ErrNotFound):
		return refuse("%s: no such file.", name), nil
	case errors.Is(err, execenv.ErrIsDirectory):
		return refuse("%s is a directory, not a file. Use Glob or ls to see what is in it.", name), nil
	case err != nil:
		return fault(ctx, err)
	}
	switch {
	case strings.HasPrefix(r.MediaType, "image/"):
		return t.image(name, r), nil
	case r.MediaType == "application/pdf" || isPDF(name, r):
		return refuse("%s is a PDF, which Read does not support. Turn it into text with Bash first, for example with pdftotext.", name), nil
	case r.Binary:
		return refuse("%s is not UTF-8 text (it holds NUL bytes, %s). Use Bash to look into it, for example with od or strings.", name, count(r.Info.Size, "byte")), nil
	}
	return t.text(name, p, r), nil
}

func isPDF(name string, r execenv.ReadResult) bool {
	return strings.HasPrefix(string(r.Data), "%PDF-") ||
		len(r.Lines) > 0 && strings.HasPrefix(r.Lines[0].Text, "%PDF-") ||
		r.Binary && strings.EqualFold(path.Ext(name), ".pdf")
}

func (t *Read) image(name string, r execenv.ReadResult) Result {
	if r.Truncated || r.Info.Size > maxImage {
		return refuse("%s is an image of %s, over the limit of 5 MiB. Make it smaller with Bash, then read the smaller one.", name, count(r.Info.Size, "byte"))
	}
	return Result{
		Status:  task.CallOK,
		Text:    fmt.Sprintf("%s: image (%s, %s).", clean(name), r.MediaType, count(r.Info.Size, "byte")),
		Images:  []llm.Image{{MediaType: r.MediaType, Data: r.Data}},
		Display: ReadDisplay{Path: clean(name), Size: r.Info.Size, MediaType: r.MediaType},
		Files:   map[string]string{name: r.Hash},
	}
}

func (t *Read) text(name string, p readParams, r execenv.ReadResult) Result {
	var b strings.Builder
	shown, cutLines := 0, 0
	for _, l := range r.Lines {
		text := clean(l.Text)
		if l.Cut > 0 {
			text += fmt.Sprintf(" […%s of this line cut]", count(l.Cut, "byte"))
		}
		line := fmt.Sprintf("%6d\t%s\n", l.Number, text)
		if b.Len()+len(line) > maxReadText {
			break
		}
		if l.Cut > 0 {
			cutLines++
		}
		b.WriteString(line)
		shown++
	}
	for _, note := range readNotes(p, r, shown, cutLines) {
		fmt.Fprintf(&b, "\n(%s)", note)
	}
	return Result{
		Status:  task.CallOK,
		Text:    strings.TrimLeft(b.String(), "\n"),
		Display: ReadDisplay{Path: clean(name), StartLine: p.Offset, Lines: shown, TotalLines: r.TotalLines, Size: r.Info.Size},
		Files:   map[string]string{name: r.Hash},
	}
}

// readNotes says what the lines alone do not.
func readNotes(p readParams, r execenv.ReadResult, shown, cutLines int) []string {
	var notes []string
	last := p.Offset + shown - 1
	switch {
	case r.Info.Size == 0:
		notes = append(notes, "the file exists and is empty")
	case len(r.Lines) == 0 && r.TotalLines == 0:
		notes = append(notes, fmt.Sprintf("no lines shown; the file has %s", count(r.Info.Size, "byte")))
	case len(r.Lines) == 0:
		notes = append(notes, fmt.Sprintf("offset %d is past the end: the file has %s", p.Offset, count(r.TotalLines, "line")))
	case r.TotalLines > last && last >= p.Offset:
		notes = append(notes, fmt.Sprintf("showing lines %d–%d of %d; use offset=%d to go on", p.Offset, last, r.TotalLines, last+1))
	case p.Offset > 1 && r.TotalLines > 0:
		notes = append(notes, fmt.Sprintf("showing lines %d–%d of %d", p.Offset, last, r.TotalLines))
	}
	if shown < len(r.Lines) || r.Truncated {
		notes = append(notes, fmt.Sprintf("cut at 1 MiB; the file has %s", count(r.Info.Size, "byte")))
	}
	if cutLines > 0 {
		notes = append(notes, fmt.Sprintf("%s longer than %d bytes; the file has %s", count(cutLines, "line"), readLine, count(r.Info.Size, "byte")))
	}
	if r.Repaired {
		notes = append(notes, "some bytes are not UTF-8 and are shown as \uFFFD")
	}
	if r.Hash == "" {
		notes = append(notes, "too large for Write to overwrite safely")
	}
	return notes
}
