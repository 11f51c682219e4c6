// Package execenv is what tools see of the place they run in: an [Env] of
// files, search and processes, the same whatever wall is around it, and the
// [Router] that finds the Env of a task.
//
// Implementations live below this package (local, container); all pass the
// suite in envtest. The structs here are also what travels to a guest, so a
// field's JSON name is part of the guest's wire.
package execenv

import (
	"context"
	"errors"
)

// Env is a place where tools run. All paths are absolute inside it. Methods
// may be called from several goroutines at once. When ctx ends, a method
// returns within about a second, after what it started has been stopped.
type Env interface {
	Files
	Search
	Runner

	// Where says what this place is, for the card of each tool call.
	Where() Where
}

// Where names the place a tool call ran in.
type Where struct {
	Wall      string `json:"wall"`
	SandboxID string `json:"sandbox_id"` // short id; "" on the host
	Workdir   string `json:"workdir"`
	Boot      string `json:"boot"` // the guest's boot id; "" where there is no guest

	// Caveat says in plain words what does not hold in this place; "" for nothing.
	Caveat string `json:"caveat,omitempty"`
}

// Files reads and writes single files. Each method is one round trip.
type Files interface {
	ReadFile(ctx context.Context, r ReadRequest) (ReadResult, error)
	WriteFile(ctx context.Context, r WriteRequest) (WriteResult, error)
	EditFile(ctx context.Context, r EditRequest) (EditResult, error)
	Stat(ctx context.Context, path string) (FileInfo, error)
	List(ctx context.Context, path string) (ListResult, error)
	Change(ctx context.Context, r ChangeRequest) error
}

// Search walks trees. Each method is one round trip, whatever the tree's size.
type Search interface {
	Glob(ctx context.Context, r GlobRequest) (GlobResult, error)
	Grep(ctx context.Context, r GrepRequest) (GrepResult, error)
	Snapshot(ctx context.Context, r SnapshotRequest) (SnapshotResult, error)
}

// Runner runs commands.
type Runner interface {
	// Run runs a command until its first process exits, not until its pipes
	// close. Output is handed to live while it comes; live may be nil, is
	// called from one goroutine, and never slows the command down under
	// OverflowDrop. When ctx ends, the command's whole tree is killed and the
	// Outcome, marked Interrupted, says what that took; the error is then nil.
	//
	// Errors: ErrFenced, ErrOutcomeUnknown, ErrLost, ErrUnreachable,
	// ErrWorkdirGone; a command that ran and failed is no error.
	Run(ctx context.Context, c Command, live func(Chunk)) (Outcome, error)
}

// Errors of an Env. A PathError carries the file ones.
var (
	ErrNotFound       = errors.New("no such file or directory")
	ErrExists         = errors.New("already exists")
	ErrPermission     = errors.New("permission denied")
	ErrIsDirectory    = errors.New("is a directory")
	ErrNotDirectory   = errors.New("is not a directory")
	ErrNotRegular     = errors.New("is not a regular file")
	ErrEscape         = errors.New("is outside the workspace")
	ErrChanged        = errors.New("has changed") // an expected hash did not match
	ErrTooLarge       = errors.New("is too large")
	ErrBinary         = errors.New("is not text")
	ErrPattern        = errors.New("invalid pattern")
	ErrNoMatch        = errors.New("old_string not found")
	ErrAmbiguous      = errors.New("old_string is not unique")
	ErrNoChange       = errors.New("old_string and new_string are the same")
	ErrWorkdirGone    = errors.New("the workspace is missing")         // the working directory is not there any more
	ErrFenced         = errors.New("another take-up drives this task") // a higher generation was seen
	ErrOutcomeUnknown = errors.New("outcome unknown")                  // started in another boot, no outcome kept
	ErrLost           = errors.New("the sandbox is lost")              // it went away while the call ran
	ErrUnreachable    = errors.New("the sandbox does not answer")
	ErrUnsupported    = errors.New("not supported here")
	ErrNoBrowser      = errors.New("the sandbox has no browser")
	ErrBrowser        = errors.New("the browser does not run") // it did not start, or has ended
	ErrBusy           = errors.New("too many calls at once")
	ErrInvalid        = errors.New("invalid request")
)

// ErrLeave, as the cause that ends a call's context, leaves the call to run on
// where a guest keeps it, for another process to take up by its id. Where none
// does, the call is killed as by any other end.
var ErrLeave = errors.New("the host leaves its calls to run on")

// PathError is a fault of one path. Err is one of the errors above; Detail,
// when not empty, says more (the target of a link, the lines of a match).
type PathError struct {
	Path   string
	Err    error
	Detail string
}

func (e *PathError) Error() string {
	s := e.Path + ": " + e.Err.Error()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns Err.
func (e *PathError) Unwrap() error { return e.Err }
