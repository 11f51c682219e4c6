package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

const (
	maxDirs     = 1_000   // that a Dirs holds
	maxScanned  = 100_000 // entries of a directory that are looked at
	scannedStep = 1_000
)

// dirs lists the directories of one of this machine, for the one who picks a
// workspace. It tells names alone, and those only to who has the token: the
// owner of the data directory, who can list them without us.
func (s *Server) dirs(w http.ResponseWriter, r *http.Request) {
	out, err := s.listDirs(cmp.Or(r.URL.Query().Get("path"), s.o.Home, "/"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, out)
}

// makeDir makes one directory, where a workspace may be.
func (s *Server) makeDir(w http.ResponseWriter, r *http.Request) {
	req, err := decode[MakeDirRequest](r)
	var out Dirs
	if err == nil {
		err = s.mkdir(req.Path)
	}
	if err == nil {
		out, err = s.listDirs(req.Path)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, out)
}

func (s *Server) listDirs(dir string) (Dirs, error) {
	dir, err := absolute(dir)
	if err != nil {
		return Dirs{}, err
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Dirs{}, dirError(dir, err)
	}
	defer f.Close()
	out := Dirs{Path: dir, Dirs: []Dir{}}
	if dir != "/" {
		out.Parent = filepath.Dir(dir)
	}
	if err := s.o.Workspace(dir); err != nil {
		out.Refused = reason(err)
	}
	for scanned := 0; scanned < maxScanned; scanned += scannedStep {
		entries, err := f.ReadDir(scannedStep)
		for _, e := range entries {
			d := Dir{Name: e.Name(), Path: filepath.Join(dir, e.Name()), Hidden: strings.HasPrefix(e.Name(), ".")}
			if isDir(e, d.Path) {
				out.Dirs = append(out.Dirs, d)
			}
		}
		if err != nil || len(entries) == 0 {
			break // the end, or as much as can be read
		}
		out.More = scanned+scannedStep >= maxScanned
	}
	slices.SortFunc(out.Dirs, func(a, b Dir) int { return cmp.Compare(a.Name, b.Name) })
	if len(out.Dirs) > maxDirs {
		out.Dirs, out.More = out.Dirs[:maxDirs], true
	}
	return out, nil
}

// isDir reports whether an entry is a directory or leads to one.
func isDir(e fs.DirEntry, path string) bool {
	if e.Type()&(fs.ModeSymlink|fs.ModeIrregular) == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (s *Server) mkdir(dir string) error {
	dir, err := absolute(dir)
	if err != nil {
		return err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return dirError(filepath.Dir(dir), err)
	}
	info, err := os.Stat(parent)
	if err != nil {
		return dirError(parent, err)
	}
	real := filepath.Join(parent, filepath.Base(dir))
	switch _, err := os.Lstat(real); {
	case err == nil:
		return &execenv.PathError{Path: dir, Err: execenv.ErrExists, Detail: "choose it, or another name"}
	case !errors.Is(err, fs.ErrNotExist):
		return dirError(dir, err)
	}
	if err := s.o.Workspace(real); err != nil {
		return &sandbox.FieldError{Field: "path", Reason: reason(err)}
	}
	if err := os.Mkdir(real, 0o755); err != nil {
		return dirError(dir, err)
	}
	// Commands run as the workspace's owner: one that root makes in another's
	// directory is that other's.
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 && st.Uid != 0 {
		if err := os.Lchown(real, int(st.Uid), int(st.Gid)); err != nil {
			return errors.Join(dirError(dir, err), os.Remove(real))
		}
	}
	return nil
}

func absolute(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", &sandbox.FieldError{Field: "path", Reason: fmt.Sprintf("%q is not an absolute path", dir)}
	}
	if strings.ContainsRune(dir, 0) {
		return "", &sandbox.FieldError{Field: "path", Reason: "holds a NUL byte"}
	}
	return filepath.Clean(dir), nil
}

// reason returns why a field is wrong, without its name.
func reason(err error) string {
	var field *sandbox.FieldError
	if errors.As(err, &field) {
		return field.Reason
	}
	return err.Error()
}

// dirError gives an error of this machine's files its name.
func dirError(dir string, err error) error {
	for _, known := range []struct{ err, as error }{
		{fs.ErrNotExist, execenv.ErrNotFound},
		{fs.ErrExist, execenv.ErrExists},
		{fs.ErrPermission, execenv.ErrPermission},
		{syscall.ENOTDIR, execenv.ErrNotDirectory},
		{syscall.EROFS, execenv.ErrPermission},
		{syscall.ELOOP, execenv.ErrNotFound},
		{syscall.ENAMETOOLONG, execenv.ErrInvalid},
	} {
		if errors.Is(err, known.err) {
			return &execenv.PathError{Path: dir, Err: known.as}
		}
	}
	return fmt.Errorf("directory %s: %w", dir, err)
}
