package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// watchPause is the time between two reports. The kernel is not asked meanwhile:
// it merges what is alike, and its queue is bounded, so a file that is written
// to without end costs no more than one that was written to once.
const watchPause = 100 * time.Millisecond

var _ execenv.Watcher = (*Engine)(nil)

// Watch reports directories that change; see [execenv.Watcher]. A directory is
// opened as List opens it, and the watch is put on what was opened: so neither
// rights nor [Options.Refuse] can be got around by exchanging it for a link.
func (e *Engine) Watch(ctx context.Context, dirs []string, changed func(dirs []string)) error {
	if len(dirs) > execenv.MaxWatched {
		return fmt.Errorf("watch %d directories, at most %d: %w", len(dirs), execenv.MaxWatched, execenv.ErrTooLarge)
	}
	n, err := newNotices()
	if err != nil {
		return err
	}
	defer n.close()
	w := &watch{engine: e, notices: n, at: make(map[string]*watched, len(dirs))}
	for _, dir := range dirs {
		path, err := clean(dir)
		if err != nil {
			return err
		}
		w.at[dir] = &watched{path: filepath.Clean(path)}
	}
	w.order = slices.SortedFunc(maps.Keys(w.at), func(a, b string) int { return strings.Compare(w.at[a].path, w.at[b].path) })
	for _, dir := range w.order {
		if _, err := w.look(w.at[dir]); err != nil {
			return err
		}
	}
	report := slices.Sorted(maps.Keys(w.at))
	for ctx.Err() == nil {
		if len(report) > 0 {
			changed(report)
			select {
			case <-time.After(watchPause):
			case <-ctx.Done():
				return nil
			}
		}
		batch, err := n.next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			report, err = w.take(batch)
		}
		if err != nil {
			return fmt.Errorf("watch directories: %w", err)
		}
	}
	return nil
}

// notice is what the kernel said of directories since it was last asked. Ids are
// those that notices.watch gave.
type notice struct {
	changed map[int]bool // true where entries came or went, or the directory itself did
	ended   map[int]bool // watches that are no more
	all     bool         // more happened than was kept
}

// watch is one call of Watch.
type watch struct {
	engine  *Engine
	notices *notices
	at      map[string]*watched // by the path as it was given

	// order has the keys of at, parents first: a directory that is made while they
	// are looked at is then either there when its turn comes, or its parent, which
	// is watched by then, tells of it.
	order []string
}

// watched is one directory of a watch.
type watched struct {
	path string
	info fs.FileInfo // of what is watched now; nil when nothing is
	id   int
}

// look sees to it that what lies at d's path now is what is watched, and reports
// whether that is another directory than before, or none.
func (w *watch) look(d *watched) (other bool, err error) {
	dir, info, err := w.engine.openWatched(d.path)
	if err != nil {
		other = d.info != nil
		w.forget(d)
		if errors.Is(err, execenv.ErrNotFound) || errors.Is(err, execenv.ErrNotDirectory) || errors.Is(err, execenv.ErrChanged) {
			err = nil // it may come
		}
		return other, err
	}
	defer dir.Close()
	if d.info != nil && os.SameFile(d.info, info) {
		return false, nil
	}
	w.forget(d)
	id, err := w.notices.watch(dir, d.path)
	if err != nil {
		return true, pathError(d.path, err)
	}
	d.info, d.id = info, id
	return true, nil
}

// forget ends the watch on d, unless another path leads to the same directory.
func (w *watch) forget(d *watched) {
	if d.info == nil {
		return
	}
	d.info = nil
	for _, o := range w.at {
		if o.info != nil && o.id == d.id {
			return
		}
	}
	w.notices.forget(d.id)
}

// take returns the paths to report for a notice. Where entries came or went, it
// looks again at the directories that may have come or gone with them.
func (w *watch) take(n notice) ([]string, error) {
	report := make(map[string]bool)
	var moved []string
	for path, d := range w.at {
		structural, ok := n.changed[d.id]
		if d.info == nil || !ok {
			continue
		}
		report[path] = true
		if structural {
			moved = append(moved, d.path)
		}
		if n.ended[d.id] {
			d.info = nil // what is there now may have its number, and is not watched
		}
	}
	for _, path := range w.order {
		d := w.at[path]
		if n.all {
			report[path] = true
		}
		if n.all || slices.ContainsFunc(moved, func(m string) bool { return inside(m, d.path) }) {
			other, err := w.look(d)
			if err != nil && !errors.Is(err, execenv.ErrPermission) { // that one stays quiet until it may be read
				return nil, err
			}
			if other {
				report[path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(report)), nil
}

// openWatched opens the directory at path as List does.
func (e *Engine) openWatched(path string) (*os.File, fs.FileInfo, error) {
	r, err := resolve(path)
	if err == nil {
		err = e.mayRead(path, r)
	}
	if err != nil {
		return nil, nil, pathError(path, err)
	}
	dir, err := openDir(r.real)
	if err != nil {
		return nil, nil, pathError(path, err)
	}
	info, err := dir.Stat()
	if err != nil {
		dir.Close()
		return nil, nil, pathError(path, err)
	}
	return dir, info, nil
}
