package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

func TestOpen_pragmasOnEveryConnection(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(name string, db *sql.DB, queryOnly string, n int) {
		t.Helper()
		var held []*sql.Conn // all at once, so that they are different ones
		for range n {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
			for pragma, want := range map[string]string{
				"busy_timeout": "5000", "foreign_keys": "1", "journal_mode": "wal", "synchronous": "1", "query_only": queryOnly,
			} {
				var got string
				if err := c.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
					t.Errorf("%s: PRAGMA %s = %q, %v, want %q", name, pragma, got, err, want)
				}
			}
		}
		for _, c := range held {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	check("writer", s.writer, "0", 1)
	check("reader", s.reader, "1", readers)
	for _, db := range []*sql.DB{s.writer, s.reader} {
		db.SetMaxIdleConns(-1) // drops every connection when it comes back
	}
	check("recycled writer", s.writer, "0", 1)
	check("recycled reader", s.reader, "1", readers)
	if n := s.writer.Stats().MaxOpenConnections; n != 1 {
		t.Errorf("%d writing connections may be open, want 1", n)
	}
	if _, err := s.reader.ExecContext(t.Context(), `DELETE FROM events`); err == nil {
		t.Error("a reading connection can write")
	}
}

// raw opens a store's file as it is, to put it in a state that Open never makes.
func raw(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestOpen_newerSchema(t *testing.T) {
	made := t.TempDir()
	s, err := Open(t.Context(), made, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db := raw(t, made)
	exec(t, db, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	crashed := t.TempDir() // the newer program's last words are still in its log
	names := []string{fileName, fileName + "-wal"}
	for _, name := range names {
		copyFile(t, filepath.Join(made, name), filepath.Join(crashed, name))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	for _, dir := range []string{made, crashed} {
		before := map[string][]byte{}
		for _, name := range names {
			before[name], _ = os.ReadFile(filepath.Join(dir, name)) // a closed store has no log
		}
		_, err = Open(t.Context(), dir, Options{})
		if !errors.Is(err, ErrNewerSchema) || !strings.Contains(err.Error(), "999") {
			t.Errorf("Open() = %v, want ErrNewerSchema that names both versions", err)
		}
		for _, name := range names {
			after, _ := os.ReadFile(filepath.Join(dir, name))
			if !bytes.Equal(before[name], after) {
				t.Errorf("%s was changed from %d to %d bytes", name, len(before[name]), len(after))
			}
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil || len(b) == 0 {
		t.Fatalf("%s holds %d bytes, %v", from, len(b), err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_olderSchema(t *testing.T) {
	dir := t.TempDir()
	old := &Store{path: filepath.Join(dir, fileName), busy: defaultBusyTimeout}
	var err error
	if old.writer, err = sql.Open("sqlite", old.dsn("")); err != nil {
		t.Fatal(err)
	}
	steps, err := old.provider()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := steps.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	at := "2025-06-01T10:00:00.000000000Z"
	exec(t, old.writer, `INSERT INTO roots (id, title, model, workspace, created_at, updated_at, seq, generation) VALUES ('r', 'Old', 'demo', '/w', ?, ?, 2, 7)`, at, at)
	exec(t, old.writer, `INSERT INTO tasks (id, root_id) VALUES ('r', 'r')`)
	exec(t, old.writer, `INSERT INTO blobs (hash, data) VALUES ('h', CAST('{"cause":"large"}' AS BLOB))`)
	exec(t, old.writer, `INSERT INTO events (root_task_id, task_id, kind, at, generation, body) VALUES ('r', 'r', 'TaskCreated', ?, 0, '{"title":"Old"}')`, at)
	exec(t, old.writer, `INSERT INTO events (root_task_id, task_id, kind, at, generation, blob) VALUES ('r', 'r', 'TaskWoken', ?, 7, 'h')`, at)
	if err := old.writer.Close(); err != nil {
		t.Fatal(err)
	}

	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	state, err := s.State(t.Context(), "r")
	if err != nil || state.Created.Title != "Old" || state.Status != task.StatusRunning {
		t.Errorf("State() = %+v, %v, want the old task, running", state, err)
	}
	if n, err := s.RaiseGeneration(t.Context(), "r"); n != 8 || err != nil {
		t.Errorf("RaiseGeneration() = %d, %v, want 8", n, err)
	}
	if id, err := s.InsertRecord(t.Context(), sandbox.Record{RootTaskID: "r"}); id != 1 || err != nil {
		t.Errorf("InsertRecord() = %d, %v, want a ledger to be there", id, err)
	}
}

func TestOpen_notADatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	words := bytes.Repeat([]byte("not a database\n"), 1000)
	if err := os.WriteFile(path, words, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), dir, Options{})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move the file away") {
		t.Errorf("Open() = %v, want an error that names the file and what to do", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, words) {
		t.Errorf("the file was changed (%v)", err)
	}
}

func TestTables_areStrict(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var loose string
	err = s.reader.QueryRow(`
		SELECT COALESCE(GROUP_CONCAT(name), '') FROM pragma_table_list
		WHERE schema = 'main' AND type = 'table' AND strict = 0
		AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version'`).Scan(&loose)
	if err != nil || loose != "" {
		t.Errorf("tables that are not STRICT: %s (%v)", loose, err)
	}
}

func countBlobs(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.reader.QueryRow(`SELECT COUNT(*) FROM blobs`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBlobs(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	body := func(n int) []byte { return []byte(`{"cause":"` + strings.Repeat("é", n/2) + `"}`) }
	in := []task.Event{
		{TaskID: "r", RootTaskID: "r", Kind: task.KindTaskCreated, Body: []byte(`{}`)},
		{TaskID: "r", RootTaskID: "r", Kind: task.KindTaskWoken, Body: body(maxInline - 20)},
		{TaskID: "r", RootTaskID: "r", Kind: task.KindTaskWoken, Body: body(maxInline + 1)},
		{TaskID: "r", RootTaskID: "r", Kind: task.KindTaskWoken, Body: body(maxInline + 1)}, // the same again
		{TaskID: "r", RootTaskID: "r", Kind: task.KindTaskWoken, Body: body(5 << 20)},
	}
	if _, err := s.Append(t.Context(), in...); err != nil {
		t.Fatal(err)
	}
	if n := countBlobs(t, s); n != 2 {
		t.Errorf("%d blobs, want 2: small bodies stay in their row, equal ones are kept once", n)
	}
	out, err := s.Events(t.Context(), Query{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		if !bytes.Equal(in[i].Body, out[i].Body) {
			t.Errorf("body %d: %d bytes went in, %d others came out", i, len(in[i].Body), len(out[i].Body))
		}
	}

	if n, err := s.CollectBlobs(t.Context()); n != 0 || err != nil {
		t.Errorf("CollectBlobs() = %d, %v, want nothing to collect", n, err)
	}
	if _, err := s.writer.ExecContext(context.Background(), `DELETE FROM events WHERE seq IN (4, 5)`); err != nil {
		t.Fatal(err)
	}
	if n, err := s.CollectBlobs(t.Context()); n != 1 || err != nil {
		t.Errorf("CollectBlobs() = %d, %v, want 1", n, err)
	}
	if out, err = s.Events(t.Context(), Query{After: 2}); err != nil || len(out) != 1 || !bytes.Equal(out[0].Body, in[2].Body) {
		t.Errorf("Events() = %d events, %v: a blob that is still referred to was collected", len(out), err)
	}
}
