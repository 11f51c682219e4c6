package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// maxLinks is how many links a path may lead through, as in the kernel.
const maxLinks = 40

// resolved is a path without links.
type resolved struct {
	real    string
	link    string // the last link that was followed
	target  string // its text
	missing bool   // real is not there, and maybe not its parents either
}

// resolve follows every link of path, the last component and links to nothing
// included. What is missing at the end of the path is taken as it is written.
func resolve(path string) (resolved, error) {
	var (
		r     = resolved{real: "/"}
		rest  = path
		links int
	)
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch {
		case name == "" || name == ".":
			continue
		case name == ".." && r.missing:
			return r, syscall.ENOENT
		case name == "..":
			r.real = filepath.Dir(r.real)
			continue
		}
		next := filepath.Join(r.real, name)
		if r.missing {
			r.real = next
			continue
		}
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.missing = true
			r.real = next
			continue
		case err != nil:
			return r, err
		case info.Mode()&fs.ModeSymlink == 0:
			r.real = next
			continue
		}
		if links++; links > maxLinks {
			return r, syscall.ELOOP
		}
		target, err := os.Readlink(next)
		if err != nil {
			return r, err
		}
		r.link, r.target = next, target
		if strings.HasPrefix(target, "/") {
			r.real = "/"
		}
		rest = target + "/" + rest
	}
	return r, nil
}

// resolveEntry is resolve without the last component: the place of a directory
// entry, which may itself be a link.
func resolveEntry(path string) (resolved, error) {
	path = strings.TrimRight(path, "/")
	dir, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." {
		return resolve(path)
	}
	r, err := resolve(dir)
	if err != nil {
		return r, err
	}
	r.real = filepath.Join(r.real, name)
	return r, nil
}

// place is where a write goes: a real path below a fence.
type place struct {
	path  string // as asked for
	real  string
	fence string // a real path; "" for no fence
}

// locate resolves path for a write by follow, which is resolve or resolveEntry,
// and holds it against the fence.
func (e *Engine) locate(path string, within []string, follow func(string) (resolved, error)) (place, error) {
	path, err := clean(path)
	if err != nil {
		return place{}, err
	}
	r, err := follow(path)
	if err != nil {
		return place{}, pathError(path, err)
	}
	p := place{path: path, real: r.real}
	if p.fence, err = fenceOf(path, r, within); err != nil {
		return place{}, err
	}
	return p, e.refuse(p.real, true)
}

// fenceOf returns the one of within that r lies in, "" when within is empty.
func fenceOf(path string, r resolved, within []string) (string, error) {
	if len(within) == 0 {
		return "", nil
	}
	gone := true
	for _, w := range within {
		root, err := resolve(w)
		if err != nil || root.missing {
			continue
		}
		gone = false
		if inside(root.real, r.real) {
			return root.real, nil
		}
	}
	if gone {
		return "", &execenv.PathError{Path: path, Err: execenv.ErrWorkdirGone,
			Detail: strings.Join(within, ", ") + " is not there: put it back, or provision the sandbox again"}
	}
	return "", &execenv.PathError{Path: path, Err: execenv.ErrEscape,
		Detail: r.leads() + "; allowed is what lies in " + strings.Join(within, ", ")}
}

// mayRead asks whether what path has been resolved to may be read. A refusal
// because of where it lies says how the path came there.
func (e *Engine) mayRead(path string, r resolved) error {
	err := e.refuse(r.real, false)
	var p *execenv.PathError
	if errors.Is(err, execenv.ErrEscape) && errors.As(err, &p) && path != r.real {
		return &execenv.PathError{Path: path, Err: execenv.ErrEscape, Detail: r.leads() + "; " + p.Detail}
	}
	return err
}

// leads says in words where a path leads.
func (r resolved) leads() string {
	if r.link != "" {
		return fmt.Sprintf("the link %s leads to %s, so the path to %s", r.link, r.target, r.real)
	}
	return "it leads to " + r.real
}

// inside reports whether path is dir or lies below it; both are real paths.
func inside(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// isFence reports whether p is the top of its fence, or of everything.
func (p place) isFence() bool { return p.real == p.fence || p.real == "/" }

// open returns the directory that p is in, held by a descriptor, and the name
// of p in it. Below a fence it is found in a way that no link leaves, so what
// changes between locate and open can make the write fail but not escape.
// With parents set, missing directories are made.
func (p place) open(parents bool) (dir *os.Root, name string, err error) {
	parent, name := filepath.Dir(p.real), filepath.Base(p.real)
	if p.fence == "" {
		if parents {
			if err := os.MkdirAll(parent, 0o755); err != nil {
				return nil, "", err
			}
		}
		dir, err = os.OpenRoot(parent)
		return dir, name, err
	}
	root, err := os.OpenRoot(p.fence)
	if err != nil {
		return nil, "", err
	}
	rel, err := filepath.Rel(p.fence, parent)
	if err != nil {
		root.Close()
		return nil, "", err
	}
	if rel == "." {
		return root, name, nil
	}
	defer root.Close()
	if parents {
		if err := root.MkdirAll(rel, 0o755); err != nil {
			return nil, "", err
		}
	}
	dir, err = root.OpenRoot(rel)
	return dir, name, err
}
