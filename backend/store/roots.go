package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// RootSummary is what a list of sessions shows of one. It is kept in the
// transaction of each Append, so that listing reads no event.
type RootSummary struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	Model     string    `json:"model"`
	Workspace string    `json:"workspace"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"` // of the tree's last event
	Seq       int64     `json:"seq"`        // of the tree's last event
}

// Roots returns a summary of every root task, the newest first.
func (s *Store) Roots(ctx context.Context) ([]RootSummary, error) {
	roots, err := s.selectRoots(ctx)
	if err != nil {
		return nil, fmt.Errorf("list root tasks: %w", explain(ctx, err))
	}
	return roots, nil
}

func (s *Store) selectRoots(ctx context.Context) (roots []RootSummary, err error) {
	rows, err := s.reader.QueryContext(ctx, `
		SELECT id, title, model, workspace, created_at, updated_at, seq
		FROM roots
		ORDER BY created_at DESC, id DESC`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r RootSummary
		var created, updated string
		if err := rows.Scan(&r.ID, &r.Title, &r.Model, &r.Workspace, &created, &updated, &r.Seq); err != nil {
			return nil, err
		}
		if r.CreatedAt, err = parseTime(created); err != nil {
			return nil, err
		}
		if r.UpdatedAt, err = parseTime(updated); err != nil {
			return nil, err
		}
		roots = append(roots, r)
	}
	return roots, rows.Err()
}

// RaiseGeneration starts a new take-up of a tree and returns its generation.
// From here on whatever an earlier one appends is refused with ErrFenced.
func (s *Store) RaiseGeneration(ctx context.Context, rootTaskID string) (int64, error) {
	var generation int64
	err := s.write(ctx, func(tx *sql.Tx) error {
		var err error
		generation, err = raiseGeneration(ctx, tx, rootTaskID)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("take up task %s: %w", rootTaskID, err)
	}
	return generation, nil
}

func raiseGeneration(ctx context.Context, tx *sql.Tx, rootTaskID string) (generation int64, err error) {
	err = tx.QueryRowContext(ctx, `
		UPDATE roots SET generation = generation + 1 WHERE id = ?
		RETURNING generation`, rootTaskID).Scan(&generation)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, ErrUnknownTask
	}
	return generation, err
}
