package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/task"
)

// Query selects events. The zero Query selects all.
type Query struct {
	After      int64  // only events with a greater seq
	RootTaskID string // only of this tree
	TaskID     string // only of this task
	Kind       task.Kind
	Newest     bool // the last ones, in reverse order
	Limit      int  // at most so many; 0 for all
}

// Events returns the events that q selects, in the order of their seqs or in
// reverse.
func (s *Store) Events(ctx context.Context, q Query) ([]task.Event, error) {
	events, err := s.selectEvents(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read events after %d: %w", q.After, explain(ctx, err))
	}
	return events, nil
}

func (s *Store) selectEvents(ctx context.Context, q Query) (events []task.Event, err error) {
	where, args := `e.seq > ?`, []any{q.After}
	if q.RootTaskID != "" {
		where, args = where+` AND e.root_task_id = ?`, append(args, q.RootTaskID)
	}
	if q.TaskID != "" {
		where, args = where+` AND e.task_id = ?`, append(args, q.TaskID)
	}
	if q.Kind != "" {
		where, args = where+` AND e.kind = ?`, append(args, string(q.Kind))
	}
	order := `e.seq`
	if q.Newest {
		order += ` DESC`
	}
	limit := q.Limit
	if limit <= 0 {
		limit = -1 // none, in SQLite's words
	}
	rows, err := s.reader.QueryContext(ctx, `
		SELECT e.seq, e.root_task_id, e.task_id, e.kind, e.at, e.generation, COALESCE(e.body, b.data)
		FROM events AS e LEFT JOIN blobs AS b ON b.hash = e.blob
		WHERE `+where+`
		ORDER BY `+order+`
		LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		e, err := scanEvent(rows)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, rows.Err()
}

func scanEvent(rows *sql.Rows) (e task.Event, err error) {
	var at string
	var body []byte
	if err := rows.Scan(&e.Seq, &e.RootTaskID, &e.TaskID, &e.Kind, &at, &e.Generation, &body); err != nil {
		return task.Event{}, err
	}
	e.Body = body
	e.At, err = parseTime(at)
	return e, err
}

// State returns the fold of one task's events, or ErrUnknownTask.
func (s *Store) State(ctx context.Context, taskID string) (*task.State, error) {
	var events []task.Event
	if taskID != "" { // which would select every task's
		var err error
		if events, err = s.Events(ctx, Query{TaskID: taskID}); err != nil {
			return nil, err
		}
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("task %s: %w", taskID, ErrUnknownTask)
	}
	return task.Fold(events), nil
}

// LastSeq returns the seq of the last event, or 0.
func (s *Store) LastSeq(ctx context.Context) (int64, error) {
	var seq int64
	err := s.reader.QueryRowContext(ctx, `SELECT COALESCE(MAX(seq), 0) FROM events`).Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("read the last seq: %w", explain(ctx, err))
	}
	return seq, nil
}
