package store

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors that the store wraps. Whatever the error, nothing was written.
var (
	ErrBusy          = errors.New("the store is busy: another program holds its lock")
	ErrFenced        = errors.New("the task has been taken up by a later generation")
	ErrUnknownTask   = errors.New("there is no such task")
	ErrTaskExists    = errors.New("the task exists already")
	ErrEnded         = errors.New("the task has ended")
	ErrUnknownRecord = errors.New("there is no such record in the ledger")
	ErrNewerSchema   = errors.New("the store was written by a newer version")
)

// explain turns the driver's error into one that a caller can act on.
func explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		// The end of ctx rolled the transaction back, and the error only says so.
		return fmt.Errorf("%w (%v)", ctx.Err(), err)
	}
	var fault *sqlite.Error
	if !errors.As(err, &fault) {
		return err
	}
	switch fault.Code() & 0xff { // the rest is detail
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%w (%v)", ErrBusy, err)
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%w; move the file away, or put a backup in its place", err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w; free some space and try again", err)
	}
	return err
}
