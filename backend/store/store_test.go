package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

func open(t *testing.T, dir string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return s
}

func event(t testing.TB, root, id string, generation int64, p task.Payload) task.Event {
	t.Helper()
	e, err := task.Encode(root, id, generation, start, p)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func create(t testing.TB, s *store.Store, root string) {
	t.Helper()
	if _, err := s.Append(context.Background(), event(t, root, root, 0, task.TaskCreated{Title: "T " + root, Model: "demo"})); err != nil {
		t.Fatal(err)
	}
}

func TestAppend(t *testing.T) {
	rings := 0
	s := open(t, t.TempDir(), store.Options{Bell: func() { rings++ }})
	in := []task.Event{
		event(t, "r", "r", 0, task.TaskCreated{Title: "Title", Model: "demo", Workspace: "/w"}),
		event(t, "r", "r", 0, task.TaskWoken{Cause: "message"}),
		event(t, "r", "sub", 0, task.TaskCreated{Title: "Sub", ParentID: "r"}),
	}
	stored, err := s.Append(t.Context(), in...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		in[i].Seq = int64(i + 1)
	}
	if diff := cmp.Diff(in, stored); diff != "" {
		t.Errorf("Append() (-want +got):\n%s", diff)
	}
	if rings != 1 {
		t.Errorf("the bell rang %d times, want once per Append", rings)
	}
	read, err := s.Events(t.Context(), store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, read); diff != "" {
		t.Errorf("Events() (-want +got):\n%s", diff)
	}

	state, err := s.State(t.Context(), "r")
	if err != nil || state.Status != task.StatusRunning || state.Seq != 2 {
		t.Errorf("State(r) = %+v, %v, want running at seq 2", state, err)
	}
	roots, err := s.Roots(t.Context())
	want := []store.RootSummary{{ID: "r", Title: "Title", Model: "demo", Workspace: "/w", CreatedAt: start, UpdatedAt: start, Seq: 3}}
	if diff := cmp.Diff(want, roots); diff != "" || err != nil {
		t.Errorf("Roots() = %v (-want +got):\n%s", err, diff)
	}
	if seq, err := s.LastSeq(t.Context()); seq != 3 || err != nil {
		t.Errorf("LastSeq() = %d, %v, want 3", seq, err)
	}
}
