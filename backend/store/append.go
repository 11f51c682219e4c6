package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/task"
)

// Append writes events in one transaction and returns them as they are stored,
// with their seqs; then it rings the bell once. It is all or nothing: after any
// error, an ending ctx included, nothing was written and the caller may try again.
//
// The first event of a task is its TaskCreated; an event of a task that has none
// is refused with ErrUnknownTask. An event of a generation that is no longer the
// tree's is refused with ErrFenced, and one that would change a task that has
// ended with ErrEnded: what a call or a sandbox still has to say is let through.
func (s *Store) Append(ctx context.Context, events ...task.Event) ([]task.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	stored := make([]task.Event, len(events))
	for i, e := range events {
		// Bodies come from json.Marshal, so this changes nothing; but a log that
		// holds one broken byte could never be shown again.
		e.Body = bytes.ToValidUTF8(e.Body, []byte("\uFFFD"))
		if !json.Valid(e.Body) {
			return nil, fmt.Errorf("append %s to task %s: the body is not JSON", e.Kind, e.TaskID)
		}
		e.At = e.At.UTC()
		stored[i] = e
	}
	err := s.write(ctx, func(tx *sql.Tx) error {
		for i := range stored {
			if err := appendEvent(ctx, tx, &stored[i]); err != nil {
				return fmt.Errorf("append %s to task %s: %w", stored[i].Kind, stored[i].TaskID, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.bell()
	return stored, nil
}

func appendEvent(ctx context.Context, tx *sql.Tx, e *task.Event) error {
	if e.Kind == task.KindTaskCreated {
		if err := createTask(ctx, tx, *e); err != nil {
			return err
		}
	}
	t, err := selectTask(ctx, tx, e.TaskID)
	if err != nil {
		return err
	}
	switch {
	case t.rootID != e.RootTaskID:
		return fmt.Errorf("%w under root task %s", ErrUnknownTask, e.RootTaskID)
	case e.Generation > 0 && e.Generation < t.generation:
		return fmt.Errorf("%w: %d is over, %d drives it", ErrFenced, e.Generation, t.generation)
	case t.ended && !outlivesTask(e.Kind):
		return ErrEnded
	}
	if e.Seq, err = insertEvent(ctx, tx, *e); err != nil {
		return err
	}
	if e.Kind == task.KindTaskRenamed && e.TaskID == e.RootTaskID {
		if err := renameRoot(ctx, tx, *e); err != nil {
			return err
		}
	}
	if ends(e.Kind) {
		if err := endTask(ctx, tx, e.TaskID); err != nil {
			return err
		}
	}
	return touchRoot(ctx, tx, e.RootTaskID, e.At, e.Seq)
}

// ends reports whether an event of kind k ends its task for ever.
func ends(k task.Kind) bool {
	return k == task.KindTaskCompleted || k == task.KindTaskFailed || k == task.KindTaskCancelled
}

// outlivesTask reports whether an event of kind k may follow a task's end: the
// sandbox lives on, calls under way have yet to be closed, and a title and a place
// out of sight are but labels.
func outlivesTask(k task.Kind) bool {
	switch k {
	case task.KindSandboxStateChanged, task.KindEgressDecided, task.KindTaskHostBound, task.KindTaskRenamed, task.KindTaskArchived, task.KindTaskForked, task.KindToolResultRecorded:
		return true
	}
	return strings.HasPrefix(string(k), "ToolCall")
}

// createTask makes the rows that a TaskCreated announces. A subtask needs its
// root to be there.
func createTask(ctx context.Context, tx *sql.Tx, e task.Event) error {
	switch _, err := selectTask(ctx, tx, e.TaskID); {
	case err == nil:
		return ErrTaskExists
	case !errors.Is(err, ErrUnknownTask):
		return err
	}
	if e.TaskID == e.RootTaskID {
		var c task.TaskCreated
		if err := json.Unmarshal(e.Body, &c); err != nil {
			return err
		}
		if err := insertRoot(ctx, tx, e, c); err != nil {
			return err
		}
	} else if root, err := selectTask(ctx, tx, e.RootTaskID); err != nil {
		return fmt.Errorf("its root task %s: %w", e.RootTaskID, err)
	} else if root.rootID != e.RootTaskID {
		return fmt.Errorf("%w: %s is itself a subtask", ErrUnknownTask, e.RootTaskID)
	}
	return insertTask(ctx, tx, e.TaskID, e.RootTaskID)
}

type taskRow struct {
	rootID     string
	ended      bool
	generation int64
}

func selectTask(ctx context.Context, tx *sql.Tx, id string) (t taskRow, err error) {
	err = tx.QueryRowContext(ctx, `
		SELECT t.root_id, t.ended, r.generation
		FROM tasks AS t JOIN roots AS r ON r.id = t.root_id
		WHERE t.id = ?`, id).Scan(&t.rootID, &t.ended, &t.generation)
	if errors.Is(err, sql.ErrNoRows) {
		return taskRow{}, ErrUnknownTask
	}
	return t, err
}

func insertTask(ctx context.Context, tx *sql.Tx, id, rootID string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO tasks (id, root_id) VALUES (?, ?)`, id, rootID)
	return err
}

func endTask(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `UPDATE tasks SET ended = 1 WHERE id = ?`, id)
	return err
}

func insertRoot(ctx context.Context, tx *sql.Tx, e task.Event, c task.TaskCreated) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO roots (id, title, model, workspace, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?)`,
		e.RootTaskID, c.Title, c.Model, c.Workspace, formatTime(e.At), formatTime(e.At))
	return err
}

func renameRoot(ctx context.Context, tx *sql.Tx, e task.Event) error {
	var r task.TaskRenamed
	if err := json.Unmarshal(e.Body, &r); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE roots SET title = ? WHERE id = ?`, r.Title, e.RootTaskID)
	return err
}

func touchRoot(ctx context.Context, tx *sql.Tx, id string, at time.Time, seq int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE roots SET updated_at = ?, seq = ? WHERE id = ?`, formatTime(at), seq, id)
	return err
}

func insertEvent(ctx context.Context, tx *sql.Tx, e task.Event) (seq int64, err error) {
	body, blob := sql.NullString{String: string(e.Body), Valid: true}, sql.NullString{}
	if len(e.Body) > maxInline {
		hash, err := insertBlob(ctx, tx, e.Body)
		if err != nil {
			return 0, err
		}
		body, blob = sql.NullString{}, sql.NullString{String: hash, Valid: true}
	}
	r, err := tx.ExecContext(ctx, `
		INSERT INTO events (root_task_id, task_id, kind, at, generation, body, blob)
		VALUES (?, ?, ?, ?, ?, ?, ?)`,
		e.RootTaskID, e.TaskID, string(e.Kind), formatTime(e.At), e.Generation, body, blob)
	if err != nil {
		return 0, err
	}
	return r.LastInsertId()
}

// timeFormat has a fixed width, so that the text sorts as the time does.
const timeFormat = "2006-01-02T15:04:05.000000000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeFormat) }

func parseTime(s string) (time.Time, error) { return time.Parse(timeFormat, s) }
