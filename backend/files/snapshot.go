package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const (
	defaultSnapshotFiles   = 20_000
	defaultSnapshotContent = 256 << 10
)

var errEnough = errors.New("enough files")

// Snapshot lists the regular files below r.Roots, hidden and ignored ones too.
// Links are followed, wherever they lead, each real directory once. A content
// that cannot be read is empty; one that is too long is cut.
func (e *Engine) Snapshot(ctx context.Context, r execenv.SnapshotRequest) (execenv.SnapshotResult, error) {
	if r.MaxFiles <= 0 {
		r.MaxFiles = defaultSnapshotFiles
	}
	if r.MaxContent <= 0 {
		r.MaxContent = defaultSnapshotContent
	}
	s := snapshot{ctx: ctx, engine: e, req: r, visited: make(map[string]bool)}
	s.res.Contents = make(map[string][]byte)
	for _, root := range r.Roots {
		root, err := clean(root)
		if err != nil {
			return execenv.SnapshotResult{}, err
		}
		if err := s.walk(filepath.Clean(root)); errors.Is(err, errEnough) {
			s.res.Truncated = true
			break
		} else if err != nil {
			return execenv.SnapshotResult{}, err
		}
	}
	slices.Sort(s.res.Files)
	s.res.Files = slices.Compact(s.res.Files)
	return s.res, nil
}

type snapshot struct {
	ctx     context.Context
	engine  *Engine
	req     execenv.SnapshotRequest
	visited map[string]bool // by real path
	res     execenv.SnapshotResult
}

// walk takes in path, a directory or a link to one, and what is below it.
func (s *snapshot) walk(path string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	r, err := resolve(path)
	if err != nil || r.missing || s.visited[r.real] || s.engine.refuse(r.real, false) != nil {
		return nil
	}
	s.visited[r.real] = true
	dir, err := openDir(r.real)
	if err != nil {
		return nil
	}
	entries, _ := dir.ReadDir(-1)
	dir.Close()
	sortEntries(entries)
	for _, entry := range entries {
		full, kind := filepath.Join(path, entry.Name()), entry.Type()
		if kind&fs.ModeSymlink != 0 {
			info, err := os.Stat(full)
			if err != nil {
				continue
			}
			kind = info.Mode().Type()
		}
		switch {
		case kind.IsDir():
			err = s.walk(full)
		case kind.IsRegular():
			err = s.file(full, entry.Name())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *snapshot) file(path, name string) error {
	if len(s.res.Files) == s.req.MaxFiles {
		return errEnough
	}
	s.res.Files = append(s.res.Files, path)
	if name != s.req.ContentName {
		return nil
	}
	s.res.Contents[path] = nil
	f, _, err := s.engine.open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, s.req.MaxContent))
	if err == nil {
		s.res.Contents[path] = content
	}
	return nil
}
