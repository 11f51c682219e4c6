package execenv

import "context"

// MaxWatched is how many directories one Watch takes.
const MaxWatched = 256

// Watcher is an Env that tells when directories change.
type Watcher interface {
	// Watch reports directories, of those in dirs, whose entries were made,
	// removed, renamed or written to, until ctx ends. changed is called from one
	// goroutine, at most ten times a second, with each path as it was given; the
	// first call comes when the watch holds and names all of dirs, since what
	// changed before that is not known. A directory that is not there is watched
	// as soon as it is, as far as its parent is watched. At most MaxWatched
	// directories: ErrTooLarge. A directory that may not be read is
	// ErrPermission, a machine that has no watch left is ErrBusy. The error is
	// nil when ctx has ended, and wraps ErrUnreachable when the place went silent.
	Watch(ctx context.Context, dirs []string, changed func(dirs []string)) error
}

// Viewer is what a person looks into a place with.
type Viewer interface {
	ReadFile(ctx context.Context, r ReadRequest) (ReadResult, error)
	Stat(ctx context.Context, path string) (FileInfo, error)
	List(ctx context.Context, path string) (ListResult, error)
	Watcher
}

// Fenced is an Env without a wall around what it reads. A screen that shows the
// workspace, and nothing else, asks it for one.
type Fenced interface {
	// View returns a Viewer for which everything that does not lie in the
	// workspace, wherever links lead, is ErrEscape.
	View() Viewer
}
