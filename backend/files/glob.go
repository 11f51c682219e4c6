package files

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const defaultGlobLimit = 200

// Glob finds regular files by name. Paths begin with r.Base as it was given.
// Directories that cannot be read are left out.
func (e *Engine) Glob(ctx context.Context, r execenv.GlobRequest) (execenv.GlobResult, error) {
	if r.Limit <= 0 {
		r.Limit = defaultGlobLimit
	}
	p, err := parsePattern(r.Pattern)
	if err != nil {
		return execenv.GlobResult{}, &execenv.PathError{Path: r.Pattern, Err: execenv.ErrPattern, Detail: err.Error()}
	}
	ctx, overtime, cancel := e.searching(ctx)
	defer cancel()
	type match struct {
		path    string
		modTime time.Time
	}
	var matches []match
	links := make(map[string]bool) // real paths of the files that links led to
	w := walk{
		ctx: ctx, engine: e, pattern: p, all: r.All,
		warn: func(string, error) {},
		visit: func(f found) bool {
			if f.link {
				if links[f.real] {
					return true
				}
				links[f.real] = true
			}
			if info, err := os.Lstat(f.real); err == nil {
				matches = append(matches, match{f.path, info.ModTime()})
			}
			return true
		},
	}
	if err := w.run(r.Base); err != nil && !overtime() {
		return execenv.GlobResult{}, err
	}
	slices.SortFunc(matches, func(a, b match) int {
		return cmp.Or(b.modTime.Compare(a.modTime), strings.Compare(a.path, b.path))
	})
	res := execenv.GlobResult{Total: len(matches), Truncated: overtime()}
	if len(matches) > r.Limit {
		matches, res.Truncated = matches[:r.Limit], true
	}
	for _, m := range matches {
		if info, err := os.Lstat(m.path); err == nil { // else it went away meanwhile
			res.Files = append(res.Files, describe(m.path, info))
		}
	}
	return res, nil
}
