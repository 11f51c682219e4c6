package files

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const (
	defaultGrepBytes = 32 << 10
	maxWarnings      = 20
	// A batch is searched at once and merged in order; batches grow, so that a
	// search that is soon satisfied reads little and a long one waits rarely.
	firstBatch = 32
	maxBatch   = 1024
)

// Grep searches files for an RE2 pattern. Lines are matched without their line
// ends; a file is binary by its first 8 KiB. The directory .git is never walked
// unless the glob names it.
func (e *Engine) Grep(ctx context.Context, r execenv.GrepRequest) (execenv.GrepResult, error) {
	if r.MaxBytes <= 0 {
		r.MaxBytes = defaultGrepBytes
	}
	if r.MaxLine <= 0 {
		r.MaxLine = defaultMaxLine
	}
	if r.Limit <= 0 {
		r.Limit = math.MaxInt32
	}
	r.Skip, r.Before, r.After = max(r.Skip, 0), max(r.Before, 0), max(r.After, 0)
	switch r.Mode {
	case "":
		r.Mode = execenv.GrepFiles
	case execenv.GrepFiles, execenv.GrepContent, execenv.GrepCount:
	default:
		return execenv.GrepResult{}, &execenv.PathError{Path: r.Path, Err: execenv.ErrInvalid, Detail: fmt.Sprintf("unknown mode %q", r.Mode)}
	}
	m, err := newMatcher(r.Pattern, r.IgnoreCase, r.Multiline)
	if err != nil {
		return execenv.GrepResult{}, &execenv.PathError{Path: r.Pattern, Err: execenv.ErrPattern, Detail: err.Error()}
	}
	filter, err := newFilter(r)
	if err != nil {
		return execenv.GrepResult{}, err
	}
	ctx, overtime, cancel := e.searching(ctx)
	defer cancel()
	g := &grep{ctx: ctx, overtime: overtime, engine: e, req: r, batchSize: firstBatch}
	for range e.workers {
		g.scanners = append(g.scanners, &scanner{m: m, req: r})
	}

	_, err = e.resolveDir(r.Path)
	switch {
	case errors.Is(err, execenv.ErrNotDirectory):
		return g.one(r.Path)
	case err != nil:
		return execenv.GrepResult{}, err
	}
	w := walk{ctx: ctx, engine: e, pattern: filter.pattern, all: r.All, warn: g.warn, visit: func(f found) bool {
		if filter.excludes(f.path[len(strings.TrimRight(r.Path, "/"))+1:]) {
			return true
		}
		return g.add(f)
	}}
	if err := w.run(r.Path); err != nil && !overtime() {
		return execenv.GrepResult{}, err
	}
	g.flush()
	if err := g.end(ctx.Err()); err != nil {
		return execenv.GrepResult{}, err
	}
	if g.links {
		slices.SortStableFunc(g.res.Rows, func(a, b execenv.GrepRow) int { return strings.Compare(a.Path, b.Path) })
	}
	return g.res, nil
}

// end returns what becomes of a search that met err: an answer that says so
// where that is its own limit of time.
func (g *grep) end(err error) error {
	if err == nil || !g.overtime() {
		return err
	}
	g.res.Truncated = true
	g.res.Warnings = append(g.res.Warnings, errSearchTime.Error())
	return nil
}

// grep is one search.
type grep struct {
	ctx      context.Context
	overtime func() bool
	engine   *Engine
	req      execenv.GrepRequest
	scanners []*scanner // one for each worker

	batch     []found
	batchSize int
	links     bool // some files came out of order
	skipped   int
	bytes     int // of text in res
	res       execenv.GrepResult
}

// scanned is what the search of one file gave.
type scanned struct {
	rows []execenv.GrepRow
	full bool
	err  error
}

// one searches a single file, whose faults are those of the search.
func (g *grep) one(path string) (execenv.GrepResult, error) {
	r, err := resolve(path)
	if err == nil {
		err = g.engine.mayRead(path, r)
	}
	if err != nil {
		return execenv.GrepResult{}, pathError(path, err)
	}
	f, err := openRegular(r.real)
	if err != nil {
		return execenv.GrepResult{}, pathError(path, err)
	}
	f.Close()
	var s scanned
	s.rows, s.full, s.err = g.scanners[0].file(g.ctx, path, r.real, g.wanted(), g.req.MaxBytes)
	g.merge(s)
	if err := g.end(s.err); err != nil {
		return execenv.GrepResult{}, pathError(path, err)
	}
	return g.res, nil
}

// wanted returns how many rows are still of use: those to skip, those to
// return, and one to know that there are more.
func (g *grep) wanted() int {
	return g.req.Skip - g.skipped + g.req.Limit - len(g.res.Rows) + 1
}

// add takes a file in and reports whether to go on.
func (g *grep) add(f found) bool {
	g.links = g.links || f.link
	g.batch = append(g.batch, f)
	if len(g.batch) < g.batchSize {
		return true
	}
	g.batchSize = min(g.batchSize*2, maxBatch)
	return g.flush()
}

// flush searches the batch and reports whether to go on.
func (g *grep) flush() bool {
	results := make([]scanned, len(g.batch))
	limit, budget := g.wanted(), g.req.MaxBytes-g.bytes
	var next atomic.Int64
	search := func(worker int) {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(g.batch) || g.ctx.Err() != nil {
				return
			}
			f, s := g.batch[i], &results[i]
			if s.err = g.engine.refuse(f.real, false); s.err == nil {
				s.rows, s.full, s.err = g.scanners[worker].file(g.ctx, f.path, f.real, limit, budget)
			}
		}
	}
	if len(g.batch) < 4 {
		search(0)
	} else {
		g.engine.parallel(len(g.scanners), search)
	}
	for i, s := range results {
		if s.err != nil && g.ctx.Err() == nil {
			g.warn(g.batch[i].path, s.err)
		}
		g.merge(s)
		if g.res.Truncated {
			break
		}
	}
	g.batch = g.batch[:0]
	return !g.res.Truncated
}

// merge adds the rows of one file, up to the limits.
func (g *grep) merge(s scanned) {
	for i, row := range s.rows {
		if g.skipped < g.req.Skip {
			g.skipped++
			continue
		}
		size := len(row.Text)
		if g.req.Mode != execenv.GrepContent {
			size = len(row.Path)
		}
		if len(g.res.Rows) >= g.req.Limit || g.bytes+size > g.req.MaxBytes && len(g.res.Rows) > 0 {
			g.res.Truncated = true
			return
		}
		// Groups are told apart between files too.
		row.Break = row.Break || i == 0 && len(g.res.Rows) > 0 && g.req.Mode == execenv.GrepContent &&
			!g.req.OnlyMatch && g.req.Before+g.req.After > 0
		g.bytes += size
		g.res.Rows = append(g.res.Rows, row)
	}
	g.res.Truncated = g.res.Truncated || s.full
}

func (g *grep) warn(path string, err error) {
	if len(g.res.Warnings) < maxWarnings {
		g.res.Warnings = append(g.res.Warnings, pathError(path, err).Error())
	}
}

// filter says which files of a walk are searched.
type filter struct {
	pattern pattern // of the files to search, by path
	exclude string  // a glob of those to leave out
	types   pattern // of the files to search, by name
}

func newFilter(r execenv.GrepRequest) (filter, error) {
	fail := func(what string, err string) (filter, error) {
		return filter{}, &execenv.PathError{Path: what, Err: execenv.ErrPattern, Detail: err}
	}
	var f filter
	glob, excluded := strings.CutPrefix(r.Glob, "!")
	if excluded {
		f.exclude, glob = glob, "**"
		if _, err := parsePattern(strings.TrimPrefix(f.exclude, "/")); err != nil {
			return fail(r.Glob, err.Error())
		}
	}
	// As in an ignore file, a glob without a slash matches names at any depth.
	switch {
	case glob == "":
		glob = "**"
	case !strings.Contains(glob, "/"):
		glob = "**/" + glob
	}
	var err error
	if f.pattern, err = parsePattern(strings.TrimPrefix(glob, "/")); err != nil {
		return fail(r.Glob, err.Error())
	}
	if r.Type != "" {
		globs, ok := fileTypes[r.Type]
		if !ok {
			return fail(r.Type, "unknown file type; known are "+knownTypes())
		}
		if f.types, err = parsePattern("{" + globs + "}"); err != nil {
			return fail(r.Type, err.Error())
		}
	}
	return f, nil
}

// excludes reports whether the file at rel, a path below the base, is left out.
func (f filter) excludes(rel string) bool {
	name := filepath.Base(rel)
	if f.exclude != "" {
		subject := name
		if strings.Contains(f.exclude, "/") {
			subject = rel
		}
		if matchGlob(f.exclude, subject) {
			return true
		}
	}
	if f.types == nil {
		return false
	}
	_, matched, _ := f.types.step(f.types.start(), name, true)
	return !matched
}
