package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Backup writes a complete copy of the store, as it is at one moment, to a new
// file. Readers and writers go on meanwhile. An existing file is not replaced.
func (s *Store) Backup(ctx context.Context, path string) error {
	path, err := filepath.Abs(path) // SQLite would read a leading "file:" as a URI
	if err != nil {
		return fmt.Errorf("back up to %s: %w", path, err)
	}
	// VACUUM INTO takes an empty file as its own; this one has the right mode.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	if err := errors.Join(f.Close(), s.vacuumInto(ctx, path), syncFile(path)); err != nil {
		return errors.Join(fmt.Errorf("back up to %s: %w", path, explain(ctx, err)), os.Remove(path))
	}
	return nil
}

// vacuumInto uses a connection of its own: on the writing one it would hold up
// every Append, and the reading ones refuse to write anywhere.
func (s *Store) vacuumInto(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", s.dsn(""))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, path)
	return errors.Join(err, db.Close())
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
