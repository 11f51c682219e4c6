// Package files is the engine of file operations and search on the machine that
// it runs on. It implements [execenv.Files] and [execenv.Search]: a guest uses
// it inside a sandbox, the local Env on the host.
//
//	e := files.New(files.Options{})
//	r, err := e.ReadFile(ctx, execenv.ReadRequest{Path: "/etc/hosts", Lines: 2000})
//
// Every file is opened on the goroutine that calls a method, or on one that
// [Options.Parallel] provides, so that a caller whose threads carry the rights
// of a user (fsuid, fsgid) gets exactly that user's rights. Nothing is read
// without a bound, no FIFO or device is ever waited for, and a write within a
// fence cannot leave it, whatever links change meanwhile.
//
// Journalling of effects by their call ids is left to the caller.
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// Options configure an Engine; the zero value is useful.
type Options struct {
	// Refuse, when set, is asked with the real path before a file is read or
	// written and before a directory is listed or walked. Its error is returned
	// as it is, or, in a walk, leaves the path out.
	Refuse func(path string, write bool) error

	// Parallel calls work(0) to work(n-1), possibly at once, and returns when
	// all are done. The default starts a goroutine for each.
	Parallel func(n int, work func(i int))

	// Workers is how much of a search runs at once; 0 means one for each CPU,
	// at most 8.
	Workers int

	// SearchTime is how long a Glob or a Grep may take before it returns what it
	// has; 0 means a minute. A file of many terabytes is quickly made.
	SearchTime time.Duration
}

// Engine does file operations and searches. It is safe for concurrent use.
type Engine struct {
	refuse   func(path string, write bool) error
	parallel func(n int, work func(i int))
	workers  int
	search   time.Duration
	locks    locks
}

var (
	_ execenv.Files  = (*Engine)(nil)
	_ execenv.Search = (*Engine)(nil)
)

// New returns an Engine.
func New(o Options) *Engine {
	e := &Engine{refuse: o.Refuse, parallel: o.Parallel, workers: o.Workers, search: o.SearchTime}
	if e.refuse == nil {
		e.refuse = func(string, bool) error { return nil }
	}
	if e.parallel == nil {
		e.parallel = goroutines
	}
	if e.search <= 0 {
		e.search = time.Minute
	}
	if e.workers <= 0 {
		e.workers = min(runtime.NumCPU(), 8)
	}
	return e
}

var errSearchTime = errors.New("the search took too long and was cut short: narrow its path or its glob")

// searching returns a context for one search; overtime tells that it was cut
// short by its own limit, so that what was found is the answer.
func (e *Engine) searching(ctx context.Context) (_ context.Context, overtime func() bool, cancel context.CancelFunc) {
	ctx, cancel = context.WithTimeoutCause(ctx, e.search, errSearchTime)
	return ctx, func() bool { return context.Cause(ctx) == errSearchTime }, cancel
}

func goroutines(n int, work func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { work(i) })
	}
	wg.Wait()
}

// locks serialize the writes to each file, by real path.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	waiters int
	free    chan struct{} // capacity 1: full when nobody holds the lock
}

// lock waits for the lock of path and returns the function that gives it back.
func (l *locks) lock(ctx context.Context, path string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[string]*lock)
	}
	k := l.held[path]
	if k == nil {
		k = &lock{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		l.held[path] = k
	}
	k.waiters++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.waiters--; k.waiters == 0 {
			delete(l.held, path)
		}
	}
	select {
	case <-k.free:
		return func() { k.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// clean returns path in its shortest form; only an absolute one will do.
func clean(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", &execenv.PathError{Path: path, Err: execenv.ErrInvalid, Detail: "the path must be absolute"}
	}
	if strings.ContainsRune(path, 0) {
		return "", &execenv.PathError{Path: path, Err: execenv.ErrInvalid, Detail: "the path holds a NUL byte"}
	}
	return path, nil
}

// sentinels are the errors that have a name in execenv.
var sentinels = []struct {
	errno    syscall.Errno
	sentinel error
	detail   string
}{
	{syscall.ENOENT, execenv.ErrNotFound, ""},
	{syscall.EEXIST, execenv.ErrExists, ""},
	{syscall.EACCES, execenv.ErrPermission, ""},
	{syscall.EPERM, execenv.ErrPermission, ""},
	{syscall.EROFS, execenv.ErrPermission, "the file system is read-only"},
	{syscall.EISDIR, execenv.ErrIsDirectory, ""},
	{syscall.ENOTDIR, execenv.ErrNotDirectory, ""},
	{syscall.ELOOP, execenv.ErrNotFound, "its links lead in a circle"},
	{syscall.ENXIO, execenv.ErrNotRegular, ""},
	{syscall.ENOTEMPTY, execenv.ErrInvalid, "the directory is not empty"},
	{syscall.ENAMETOOLONG, execenv.ErrInvalid, "the name is too long"},
	{syscall.EXDEV, execenv.ErrInvalid, "the two paths are on different file systems: copy and remove instead"},
	{syscall.EINVAL, execenv.ErrInvalid, ""},
}

// pathError returns err as an error of path, with the sentinel that fits.
func pathError(path string, err error) error {
	var known *execenv.PathError
	if err == nil || errors.As(err, &known) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		for _, s := range sentinels {
			if errno == s.errno {
				return &execenv.PathError{Path: path, Err: s.sentinel, Detail: s.detail}
			}
		}
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		// os.Root has no exported error for a path that would leave it.
		if strings.Contains(p.Err.Error(), "escapes from parent") {
			return &execenv.PathError{Path: path, Err: execenv.ErrEscape, Detail: "a link on the way changed"}
		}
		err = p.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}
