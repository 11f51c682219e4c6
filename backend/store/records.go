package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// InsertRecord adds a row to the ledger of sandboxes and returns its id. Times
// that are zero become the present one.
func (s *Store) InsertRecord(ctx context.Context, r sandbox.Record) (int64, error) {
	now := time.Now()
	if r.CreatedAt.IsZero() {
		r.CreatedAt = now
	}
	if r.UpdatedAt.IsZero() {
		r.UpdatedAt = now
	}
	err := s.write(ctx, func(tx *sql.Tx) error {
		var err error
		r.ID, err = insertRecord(ctx, tx, r)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("add a sandbox of task %s to the ledger: %w", r.RootTaskID, err)
	}
	return r.ID, nil
}

func insertRecord(ctx context.Context, tx *sql.Tx, r sandbox.Record) (int64, error) {
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO sandboxes (root_task_id, wall, ref, short_id, workdir, spec, state, cause, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.RootTaskID, string(r.Wall), string(r.Ref), r.ShortID, r.Workdir, string(spec),
		string(r.State), r.Cause, formatTime(r.CreatedAt), formatTime(r.UpdatedAt))
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// UpdateRecord writes the row of r.ID anew, its root task and time of creation
// apart, and stamps it with the present time. A row that is not there is
// ErrUnknownRecord.
func (s *Store) UpdateRecord(ctx context.Context, r sandbox.Record) error {
	r.UpdatedAt = time.Now()
	err := s.write(ctx, func(tx *sql.Tx) error { return updateRecord(ctx, tx, r) })
	if err != nil {
		return fmt.Errorf("update row %d of the ledger: %w", r.ID, err)
	}
	return nil
}

func updateRecord(ctx context.Context, tx *sql.Tx, r sandbox.Record) error {
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, `
		UPDATE sandboxes
		SET wall = ?, ref = ?, short_id = ?, workdir = ?, spec = ?, state = ?, cause = ?, updated_at = ?
		WHERE id = ?`,
		string(r.Wall), string(r.Ref), r.ShortID, r.Workdir, string(spec),
		string(r.State), r.Cause, formatTime(r.UpdatedAt), r.ID)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(ErrUnknownRecord, err)
	}
	return nil
}

// LiveRecord returns the newest row of a root task that is neither released nor
// failed, and whether there is one.
func (s *Store) LiveRecord(ctx context.Context, rootTaskID string) (sandbox.Record, bool, error) {
	r, err := scanRecord(s.reader.QueryRowContext(ctx, `
		SELECT id, root_task_id, wall, ref, short_id, workdir, spec, state, cause, created_at, updated_at
		FROM sandboxes
		WHERE root_task_id = ? AND state NOT IN (?, ?)
		ORDER BY id DESC
		LIMIT 1`, rootTaskID, string(sandbox.StateReleased), string(sandbox.StateFailed)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return sandbox.Record{}, false, nil
	}
	if err != nil {
		return sandbox.Record{}, false, fmt.Errorf("read the ledger for task %s: %w", rootTaskID, explain(ctx, err))
	}
	return r, true, nil
}

// Records returns the whole ledger, the newest row first.
func (s *Store) Records(ctx context.Context) ([]sandbox.Record, error) {
	records, err := s.selectRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", explain(ctx, err))
	}
	return records, nil
}

func (s *Store) selectRecords(ctx context.Context) (records []sandbox.Record, err error) {
	rows, err := s.reader.QueryContext(ctx, `
		SELECT id, root_task_id, wall, ref, short_id, workdir, spec, state, cause, created_at, updated_at
		FROM sandboxes
		ORDER BY id DESC`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r, err := scanRecord(rows.Scan)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, rows.Err()
}

func scanRecord(scan func(...any) error) (r sandbox.Record, err error) {
	var spec, created, updated string
	err = scan(&r.ID, &r.RootTaskID, &r.Wall, &r.Ref, &r.ShortID, &r.Workdir, &spec, &r.State, &r.Cause, &created, &updated)
	if err != nil {
		return sandbox.Record{}, err
	}
	if err := json.Unmarshal([]byte(spec), &r.Spec); err != nil {
		return sandbox.Record{}, fmt.Errorf("spec of row %d: %w", r.ID, err)
	}
	if r.CreatedAt, err = parseTime(created); err != nil {
		return sandbox.Record{}, err
	}
	r.UpdatedAt, err = parseTime(updated)
	return r, err
}
