package session

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Fork asks for a session that goes on from another's conversation. What is
// empty takes its default: a fresh sandbox, and the same workspace.
type Fork struct {
	Title     string
	Sandbox   string // ForkSnapshot, ForkFresh or ForkShare
	Workspace string // ForkShare or ForkCopy
}

// What a fork takes of its source's sandbox and workspace.
const (
	ForkSnapshot = "snapshot" // a sandbox of its own, with what the source's holds now
	ForkFresh    = "fresh"    // a sandbox of its own, from the source's image
	ForkShare    = "share"    // the same one
	ForkCopy     = "copy"     // a workspace of its own, with what the source's holds now
)

// Work is a snapshot or a fork of a session that is being made.
type Work struct {
	Kind      string // WorkSnapshot or WorkFork
	Step      string
	Files     int64
	Bytes     int64 // copied
	Total     int64 // to copy; 0 while it is not known
	StartedAt time.Time
}

// The kinds of a Work.
const (
	WorkSnapshot = "snapshot"
	WorkFork     = "fork"
)

// Snapshot keeps what a session's sandbox holds as an image.
func (s *Service) Snapshot(ctx context.Context, id, name string) (sandbox.Snapshot, error) {
	return sandbox.Snapshot{}, fmt.Errorf("snapshot: %w", sandbox.ErrUnsupported)
}

// Fork opens a session that goes on from another's conversation.
func (s *Service) Fork(ctx context.Context, id string, f Fork) (string, error) {
	return "", fmt.Errorf("fork: %w", sandbox.ErrUnsupported)
}

// CancelWork calls off the snapshot or fork of a session that is being made, and
// returns when nothing of it is left. Where none is, the error is ErrNoWork.
func (s *Service) CancelWork(ctx context.Context, id string) error {
	return ErrNoWork
}

// Unpause lets a session's paused sandbox go on.
func (s *Service) Unpause(ctx context.Context, id string) error {
	return s.Attach(ctx, id)
}
