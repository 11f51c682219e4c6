package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// Change removes, makes or renames a directory's entry. Remove and rename take
// the entry itself: of a link, the link and not what it leads to.
func (e *Engine) Change(ctx context.Context, r execenv.ChangeRequest) error {
	follow := resolveEntry
	if r.Kind == execenv.ChangeMkdir {
		follow = resolve
	}
	p, err := e.locate(r.Path, r.Within, follow)
	if err != nil {
		return err
	}
	switch r.Kind {
	case execenv.ChangeMkdir:
		return pathError(r.Path, mkdir(p))
	case execenv.ChangeRemove, execenv.ChangeRename:
	default:
		return &execenv.PathError{Path: r.Path, Err: execenv.ErrInvalid, Detail: fmt.Sprintf("unknown change %q", r.Kind)}
	}
	if p.isFence() {
		return &execenv.PathError{Path: r.Path, Err: execenv.ErrInvalid, Detail: "it is the workspace itself"}
	}
	unlock, err := e.locks.lock(ctx, p.real)
	if err != nil {
		return err
	}
	defer unlock()
	dir, name, err := p.open(false)
	if err != nil {
		return pathError(r.Path, err)
	}
	defer dir.Close()
	if r.Kind == execenv.ChangeRemove {
		return pathError(r.Path, dir.Remove(name))
	}

	to, err := e.locate(r.To, r.Within, resolveEntry)
	if err != nil {
		return err
	}
	if to.isFence() {
		return &execenv.PathError{Path: r.To, Err: execenv.ErrInvalid, Detail: "it is the workspace itself"}
	}
	toDir, toName, err := to.open(false)
	if err != nil {
		return pathError(r.To, err)
	}
	defer toDir.Close()
	return pathError(r.Path, rename(dir, name, toDir, toName))
}

// mkdir makes the directory p with its parents.
func mkdir(p place) error {
	info, err := os.Stat(p.real)
	switch {
	case err == nil && !info.IsDir():
		return &execenv.PathError{Path: p.path, Err: execenv.ErrExists, Detail: "it is a file"}
	case err == nil:
		return nil
	}
	dir, name, err := p.open(true)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// rename renames by directory descriptors, so that neither end can move out of
// its fence meanwhile.
func rename(dir *os.Root, name string, toDir *os.Root, toName string) error {
	from, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := toDir.Open(".")
	if err != nil {
		return err
	}
	defer to.Close()
	return unix.Renameat(int(from.Fd()), name, int(to.Fd()), toName)
}
