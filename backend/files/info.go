package files

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// maxEntries is how many entries List returns.
const maxEntries = 10_000

// Stat describes path.
func (e *Engine) Stat(_ context.Context, path string) (execenv.FileInfo, error) {
	path, err := clean(path)
	if err != nil {
		return execenv.FileInfo{}, err
	}
	r, err := resolve(path)
	if err == nil {
		err = e.mayRead(path, r)
	}
	if err != nil {
		return execenv.FileInfo{}, pathError(path, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return execenv.FileInfo{}, pathError(path, err)
	}
	return describe(path, info), nil
}

// List describes the entries of the directory path.
func (e *Engine) List(ctx context.Context, path string) (execenv.ListResult, error) {
	path, err := clean(path)
	if err != nil {
		return execenv.ListResult{}, err
	}
	r, err := resolve(path)
	if err == nil {
		err = e.mayRead(path, r)
	}
	if err != nil {
		return execenv.ListResult{}, pathError(path, err)
	}
	dir, err := openDir(r.real)
	if err != nil {
		return execenv.ListResult{}, pathError(path, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return execenv.ListResult{}, pathError(path, err)
	}
	sort.Strings(names)
	var res execenv.ListResult
	for _, name := range names {
		if len(res.Entries) == maxEntries {
			res.Truncated = true
			break
		}
		if err := ctx.Err(); err != nil {
			return execenv.ListResult{}, err
		}
		full := filepath.Join(path, name)
		if info, err := os.Lstat(full); err == nil { // else it went away meanwhile
			res.Entries = append(res.Entries, describe(full, info))
		}
	}
	return res, nil
}

// openDir opens a directory by a path without links, and waits for nothing that
// is none.
func openDir(path string) (*os.File, error) {
	fd, err := openReal(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// describe returns what info says of path; info comes from Lstat or Fstat.
func describe(path string, info fs.FileInfo) execenv.FileInfo {
	f := execenv.FileInfo{Path: path}
	if info.Mode()&fs.ModeSymlink != 0 {
		f.Symlink, _ = os.Readlink(path)
		target, err := os.Stat(path)
		if err != nil {
			f.Kind, f.ModTime = execenv.KindMissing, info.ModTime()
			return f
		}
		info = target
	}
	switch {
	case info.Mode().IsRegular():
		f.Kind = execenv.KindFile
	case info.IsDir():
		f.Kind = execenv.KindDir
	default:
		f.Kind = execenv.KindOther
	}
	f.Size, f.ModTime = info.Size(), info.ModTime()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.Mode = uint32(st.Mode) & 0o7777
		f.UID, f.GID = int(st.Uid), int(st.Gid)
	}
	return f
}
