package execenv

import "context"

// Watcher is an Env that tells when directories change.
type Watcher interface {
	// Watch reports directories, of those in dirs, whose entries were made,
	// removed, renamed or written to, until ctx ends. changed is called from one
	// goroutine, at most ten times a second, with each path as it was given. A
	// directory that is not there is watched as soon as it is, as far as its
	// parent is watched. At most 256 directories: ErrTooLarge. The error is nil
	// when ctx has ended, and wraps ErrUnreachable when the place went silent.
	Watch(ctx context.Context, dirs []string, changed func(dirs []string)) error
}
