package sandbox

import (
	"context"
	"time"
)

// Snapshotter makes images of what sandboxes hold.
type Snapshotter interface {
	// Snapshot makes an image of the sandbox that ref names: its own files, not
	// what is mounted. A running one is paused meanwhile, so that the image is of
	// one moment, and goes on afterwards, whatever happens. When ctx ends, or
	// anything fails, no image is left. A name that is taken already, or cannot be
	// one, is a *FieldError.
	Snapshot(ctx context.Context, ref Ref, name string) (Snapshot, error)
}

// Snapshot is an image that was made of a sandbox.
type Snapshot struct {
	Image string // to make sandboxes of: "glovebox/snapshot:NAME"
	ID    string // short
	Size  int64  // bytes, with all that it is made on
	Took  time.Duration
}
