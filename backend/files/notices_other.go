//go:build !linux

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// notices are what the system says of directories, by path: what Linux's version
// keeps from being watched is another user's, and only a guest has those.
type notices struct {
	watcher *fsnotify.Watcher
	paths   map[int]string
	ids     map[string]int
	last    int
}

func newNotices() (*notices, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch directories: %v: %w", err, execenv.ErrBusy)
	}
	return &notices{watcher: w, paths: map[int]string{}, ids: map[string]int{}}, nil
}

func (n *notices) watch(_ *os.File, path string) (id int, err error) {
	if id, ok := n.ids[path]; ok {
		return id, nil
	}
	if err := n.watcher.Add(path); err != nil {
		return 0, err
	}
	n.last++
	n.paths[n.last], n.ids[path] = path, n.last
	return n.last, nil
}

func (n *notices) forget(id int) {
	path := n.paths[id]
	delete(n.paths, id)
	delete(n.ids, path)
	_ = n.watcher.Remove(path) // gone with its directory, mostly
}

// next waits until there is something to say.
func (n *notices) next(ctx context.Context) (notice, error) {
	out := notice{changed: map[int]bool{}}
	for {
		select {
		case ev, ok := <-n.watcher.Events:
			if !ok {
				return out, fsnotify.ErrClosed
			}
			structural := ev.Has(fsnotify.Create | fsnotify.Remove | fsnotify.Rename)
			for _, path := range []string{ev.Name, filepath.Dir(ev.Name)} {
				if id, ok := n.ids[path]; ok && (structural || ev.Has(fsnotify.Write)) {
					out.changed[id] = out.changed[id] || structural
				}
			}
		case err := <-n.watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return out, err
			}
			out.all = true
		case <-ctx.Done():
			return out, ctx.Err()
		}
		if (len(out.changed) > 0 || out.all) && len(n.watcher.Events) == 0 {
			return out, nil
		}
	}
}

func (n *notices) close() { n.watcher.Close() }
