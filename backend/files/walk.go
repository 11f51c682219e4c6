package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// found is a regular file that a walk came to.
type found struct {
	path string // below the base as it was asked for
	real string
	link bool // came to by a link, after all that were not
}

// walk visits the regular files below a directory that match a pattern, sorted
// by path. Links are followed after everything else, to files and directories
// that lie inside the base and were not visited for the pattern by their own
// names; so every loop ends.
type walk struct {
	ctx     context.Context
	engine  *Engine
	base    string // real
	pattern pattern
	all     bool             // hidden and ignored files too
	visit   func(found) bool // false ends the walk
	warn    func(path string, err error)

	visited map[string][]states // by real directory: what the walk was looking for there
	links   []directory         // links met and not followed yet
	stopped bool
}

// directory is a directory to walk, or an entry that may be one.
type directory struct {
	path, real string
	states     states
	ignores    *ignores
	named      bool // the pattern named a dot segment on the way: nothing is ignored
	matched    bool // the entry itself matches the pattern
}

// run walks base, which must be a directory.
func (w *walk) run(base string) error {
	r, err := w.engine.resolveDir(base)
	if err != nil {
		return err
	}
	w.base = r
	w.visited = make(map[string][]states)
	top := directory{path: strings.TrimRight(base, "/"), real: r, states: w.pattern.start()}
	if !w.all {
		top.ignores = ignoresAbove(r)
	}
	if err := w.dir(top); err != nil {
		return err
	}
	for len(w.links) > 0 && !w.stopped {
		l := w.links[0]
		w.links = w.links[1:]
		w.follow(l)
	}
	return w.ctx.Err()
}

// resolveDir returns the real path of a directory.
func (e *Engine) resolveDir(path string) (string, error) {
	path, err := clean(path)
	if err != nil {
		return "", err
	}
	r, err := resolve(path)
	if err == nil {
		err = e.mayRead(path, r)
	}
	if err != nil {
		return "", pathError(path, err)
	}
	info, err := os.Stat(r.real)
	switch {
	case err != nil:
		return "", pathError(path, err)
	case !info.IsDir():
		return "", &execenv.PathError{Path: path, Err: execenv.ErrNotDirectory}
	}
	return r.real, nil
}

// dir walks one directory. Its error says that it could not be read.
func (w *walk) dir(d directory) error {
	if w.ctx.Err() != nil {
		w.stopped = true
		return nil
	}
	before := w.visited[d.real]
	for _, s := range before {
		if slices.Equal(s, d.states) {
			return nil
		}
	}
	w.visited[d.real] = append(before, d.states)

	f, err := openDir(d.real)
	if err != nil {
		return pathError(d.path, err)
	}
	entries, err := f.ReadDir(-1)
	f.Close()
	if err != nil && len(entries) == 0 {
		return pathError(d.path, err)
	}
	sortEntries(entries)
	if !w.all {
		var names []string
		for _, name := range ignoreFiles {
			if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name }) {
				names = append(names, name)
			}
		}
		d.ignores = d.ignores.in(d.real, names)
	}
	for _, entry := range entries {
		if w.stopped {
			return nil
		}
		w.entry(d, before, entry)
	}
	return nil
}

// entry walks one entry of d, where before is what d was searched for earlier.
func (w *walk) entry(d directory, before []states, entry fs.DirEntry) {
	name := entry.Name()
	next, matched, named := w.pattern.step(d.states, name, w.all)
	kind := entry.Type()
	if len(next) == 0 && !matched {
		return
	}
	if kind.IsRegular() && !matched {
		return
	}
	named = named || d.named
	if !w.all && !named && d.ignores.match(d.real, name, kind.IsDir()) {
		return
	}
	e := directory{
		path: d.path + "/" + name, real: filepath.Join(d.real, name),
		states: next, ignores: d.ignores, named: named, matched: matched,
	}
	switch {
	case kind.IsDir():
		if w.engine.refuse(e.real, false) != nil {
			return
		}
		if slices.Contains(kernelTrees, e.real) {
			w.warn(e.path, errKernelTree)
			return
		}
		if err := w.dir(e); err != nil {
			w.warn(e.path, err)
		}
	case kind&fs.ModeSymlink != 0:
		w.links = append(w.links, e)
	case kind.IsRegular():
		for _, s := range before {
			if _, matched, _ := w.pattern.step(s, name, w.all); matched {
				return
			}
		}
		w.found(found{path: e.path, real: e.real, link: len(before) > 0})
	}
}

// follow goes through a link, if it leads to something inside the base.
func (w *walk) follow(l directory) {
	r, err := resolve(l.real)
	if err != nil || r.missing || !inside(w.base, r.real) || w.engine.refuse(r.real, false) != nil {
		return
	}
	info, err := os.Lstat(r.real)
	if err != nil {
		return
	}
	from := filepath.Dir(l.real)
	l.real = r.real
	switch {
	case info.IsDir() && inside(r.real, from):
		return // a loop: it leads to where the walk came from
	case info.IsDir():
		if !w.all && !l.named && l.ignores.match(filepath.Dir(l.real), filepath.Base(l.real), true) {
			return
		}
		if err := w.dir(l); err != nil {
			w.warn(l.path, err)
		}
	case info.Mode().IsRegular() && l.matched:
		for _, s := range w.visited[filepath.Dir(r.real)] {
			if _, matched, _ := w.pattern.step(s, filepath.Base(r.real), w.all); matched {
				return
			}
		}
		w.found(found{path: l.path, real: r.real, link: true})
	}
}

func (w *walk) found(f found) {
	if !w.visit(f) {
		w.stopped = true
	}
}

// kernelTrees hold no files but views of the kernel, some of them endless. A
// walk from above does not enter them; one that begins in them does.
var kernelTrees = []string{"/dev", "/proc", "/sys"}

var errKernelTree = errors.New("holds no files of its own; it is searched only when the path names it")

// sortEntries sorts by name, with directories as if their names ended in a
// slash, so that a walk comes to the files in the order of their paths.
func sortEntries(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		an, bn := a.Name(), b.Name()
		n := min(len(an), len(bn))
		if c := strings.Compare(an[:n], bn[:n]); c != 0 || len(an) == len(bn) {
			return c
		}
		return int(after(a, n)) - int(after(b, n))
	})
}

// after returns the byte that follows the first n of e's name in a path.
func after(e fs.DirEntry, n int) byte {
	switch name := e.Name(); {
	case n < len(name):
		return name[n]
	case e.IsDir():
		return '/'
	}
	return 0
}
