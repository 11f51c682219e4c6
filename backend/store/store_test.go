package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
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

func TestAppend_refuses(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	create(t, s, "r")
	create(t, s, "other")
	if _, err := s.Append(t.Context(), event(t, "r", "sub", 0, task.TaskCreated{ParentID: "r"})); err != nil {
		t.Fatal(err)
	}
	woken := event(t, "r", "r", 0, task.TaskWoken{})
	tests := []struct {
		name   string
		events []task.Event
		want   error
	}{
		{"unknown task", []task.Event{woken, event(t, "x", "x", 0, task.TaskWoken{})}, store.ErrUnknownTask},
		{"another tree's task", []task.Event{woken, event(t, "other", "r", 0, task.TaskWoken{})}, store.ErrUnknownTask},
		{"subtask of nothing", []task.Event{woken, event(t, "x", "y", 0, task.TaskCreated{})}, store.ErrUnknownTask},
		{"subtask as a root", []task.Event{woken, event(t, "sub", "y", 0, task.TaskCreated{})}, store.ErrUnknownTask},
		{"created twice", []task.Event{woken, event(t, "r", "r", 0, task.TaskCreated{})}, store.ErrTaskExists},
		{"no JSON", []task.Event{woken, {TaskID: "r", RootTaskID: "r", Kind: task.KindTaskWoken, Body: []byte(`{"cause":`)}}, nil},
		{"after its end", []task.Event{woken, event(t, "r", "r", 0, task.TaskFailed{}), woken}, store.ErrEnded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stored, err := s.Append(t.Context(), tt.events...)
			if err == nil || stored != nil || (tt.want != nil && !errors.Is(err, tt.want)) {
				t.Errorf("Append() = %v, %v, want %v", stored, err, tt.want)
			}
			if seq, err := s.LastSeq(t.Context()); seq != 3 || err != nil {
				t.Errorf("LastSeq() = %d, %v, want 3: a part was written", seq, err)
			}
		})
	}
	if stored, err := s.Append(t.Context(), woken); err != nil || stored[0].Seq != 4 {
		t.Errorf("Append() = %v, %v, want seq 4: there is a gap", stored, err)
	}
}

func TestAppend_fence(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	create(t, s, "r")
	create(t, s, "other")
	if _, err := s.Append(t.Context(), event(t, "r", "sub", 0, task.TaskCreated{ParentID: "r"})); err != nil {
		t.Fatal(err)
	}
	for want := int64(1); want <= 2; want++ {
		if n, err := s.RaiseGeneration(t.Context(), "r"); n != want || err != nil {
			t.Fatalf("RaiseGeneration() = %d, %v, want %d", n, err, want)
		}
	}
	if _, err := s.RaiseGeneration(t.Context(), "nobody"); !errors.Is(err, store.ErrUnknownTask) {
		t.Errorf("RaiseGeneration() = %v, want ErrUnknownTask", err)
	}
	tests := []struct {
		root, id   string
		generation int64
		want       error
	}{
		{"r", "r", 1, store.ErrFenced},
		{"r", "sub", 1, store.ErrFenced}, // the whole tree
		{"r", "r", 2, nil},
		{"r", "sub", 2, nil},
		{"r", "r", 0, nil}, // a person's
		{"other", "other", 1, nil},
	}
	for _, tt := range tests {
		before, err := s.LastSeq(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e := event(t, tt.root, tt.id, tt.generation, task.TaskWoken{})
		if _, err := s.Append(t.Context(), event(t, tt.root, tt.id, 0, task.TaskWoken{}), e); !errors.Is(err, tt.want) {
			t.Errorf("Append(%s, generation %d) = %v, want %v", tt.id, tt.generation, err, tt.want)
		}
		after, err := s.LastSeq(t.Context())
		if err != nil || (tt.want != nil) != (after == before) {
			t.Errorf("Append(%s, generation %d) took the log from %d to %d", tt.id, tt.generation, before, after)
		}
	}
}

func TestAppend_afterTheEnd(t *testing.T) {
	for _, end := range []task.Payload{task.TaskCompleted{}, task.TaskFailed{}, task.TaskCancelled{}} {
		s := open(t, t.TempDir(), store.Options{})
		create(t, s, "r")
		if _, err := s.Append(t.Context(),
			event(t, "r", "sub", 0, task.TaskCreated{ParentID: "r"}),
			event(t, "r", "sub", 0, end)); err != nil {
			t.Fatal(err)
		}
		for _, p := range []task.Payload{
			task.SandboxStateChanged{}, task.EgressDecided{}, task.TaskHostBound{}, task.ToolResultRecorded{}, task.ToolCallFinished{}, task.TaskRenamed{},
		} {
			if _, err := s.Append(t.Context(), event(t, "r", "sub", 0, p)); err != nil {
				t.Errorf("Append(%s) after %s = %v", p.EventKind(), end.EventKind(), err)
			}
		}
		for _, p := range []task.Payload{
			task.MessagesAppended{}, task.TaskWoken{}, task.TaskSuspended{}, task.LeaseGranted{}, task.TaskCompleted{},
		} {
			if _, err := s.Append(t.Context(), event(t, "r", "sub", 0, p)); !errors.Is(err, store.ErrEnded) {
				t.Errorf("Append(%s) after %s = %v, want ErrEnded", p.EventKind(), end.EventKind(), err)
			}
		}
		if _, err := s.Append(t.Context(), event(t, "r", "r", 0, task.TaskWoken{})); err != nil {
			t.Errorf("Append() to the root of an ended subtask = %v", err)
		}
	}
}

func TestAppend_invalidUTF8(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	create(t, s, "r")
	e := task.Event{TaskID: "r", RootTaskID: "r", Kind: task.KindTaskWoken, At: start, Body: []byte("{\"cause\":\"a\xff\xfeb\"}")}
	stored, err := s.Append(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cause":"a` + "\uFFFD" + `b"}`
	if got := string(stored[0].Body); got != want {
		t.Errorf("Append() stored %q, want %q", got, want)
	}
	events, err := s.Events(t.Context(), store.Query{After: 1})
	if err != nil || string(events[0].Body) != want {
		t.Errorf("Events() = %s, %v, want %q", events[0].Body, err, want)
	}
}

func TestEvents_selects(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	create(t, s, "a") // 1
	create(t, s, "b") // 2
	if _, err := s.Append(t.Context(),
		event(t, "a", "sub", 0, task.TaskCreated{ParentID: "a"}), // 3
		event(t, "b", "b", 0, task.TaskWoken{}),                  // 4
		event(t, "a", "a", 0, task.TaskWoken{}),                  // 5
		event(t, "a", "sub", 0, task.TaskWoken{}),                // 6
	); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		q    store.Query
		want []int64
	}{
		{store.Query{}, []int64{1, 2, 3, 4, 5, 6}},
		{store.Query{After: 4}, []int64{5, 6}},
		{store.Query{After: 6}, nil},
		{store.Query{Limit: 2}, []int64{1, 2}},
		{store.Query{Limit: 2, Newest: true}, []int64{6, 5}},
		{store.Query{Kind: task.KindTaskCreated, RootTaskID: "a"}, []int64{1, 3}},
		{store.Query{After: 1, Limit: 2}, []int64{2, 3}},
		{store.Query{RootTaskID: "a"}, []int64{1, 3, 5, 6}},
		{store.Query{RootTaskID: "a", After: 3, Limit: 1}, []int64{5}},
		{store.Query{TaskID: "a"}, []int64{1, 5}},
		{store.Query{TaskID: "sub", RootTaskID: "a"}, []int64{3, 6}},
		{store.Query{TaskID: "sub", RootTaskID: "b"}, nil},
	}
	for _, tt := range tests {
		events, err := s.Events(t.Context(), tt.q)
		var got []int64
		for _, e := range events {
			got = append(got, e.Seq)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("Events(%+v) = %v (-want +got):\n%s", tt.q, err, diff)
		}
	}
	for _, id := range []string{"nobody", ""} {
		if _, err := s.State(t.Context(), id); !errors.Is(err, store.ErrUnknownTask) {
			t.Errorf("State(%q) = %v, want ErrUnknownTask", id, err)
		}
	}
}

func TestRoots_newestFirst(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	// The fractions end in noughts on purpose: as text of no fixed width they
	// would sort another way.
	for i, at := range []time.Time{start.Truncate(time.Second), start.Truncate(time.Second).Add(500 * time.Millisecond), start.Add(time.Hour)} {
		id := string(rune('a' + i))
		e := event(t, id, id, 0, task.TaskCreated{Title: id})
		e.At = at
		if _, err := s.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	later := event(t, "a", "a", 0, task.TaskRenamed{Title: "new"})
	later.At = start.Add(24 * time.Hour)
	if _, err := s.Append(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	roots, err := s.Roots(t.Context())
	if err != nil || len(roots) != 3 {
		t.Fatalf("Roots() = %v, %v", roots, err)
	}
	if got := roots[0].ID + roots[1].ID + roots[2].ID; got != "cba" {
		t.Errorf("Roots() = %s, want cba", got)
	}
	if a := roots[2]; a.Seq != 4 || !a.UpdatedAt.Equal(later.At) || a.Title != "new" {
		t.Errorf("Roots() = %+v, want the seq and time of its last event, and its new title", a)
	}
}

func TestRecords(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	if _, ok, err := s.LiveRecord(t.Context(), "r"); ok || err != nil {
		t.Errorf("LiveRecord() = %v, %v in an empty ledger", ok, err)
	}
	r := sandbox.Record{
		RootTaskID: "r", Wall: sandbox.WallDocker, State: sandbox.StateAllocating, Workdir: "/workspace",
		Spec:      sandbox.Spec{Image: "busybox", Mounts: []sandbox.Mount{{Source: "/a", Target: "/b"}}, Resources: map[string]string{"cpus": "2"}},
		CreatedAt: start, UpdatedAt: start,
	}
	var err error
	if r.ID, err = s.InsertRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	got, ok, err := s.LiveRecord(t.Context(), "r")
	if diff := cmp.Diff(r, got); diff != "" || !ok || err != nil {
		t.Errorf("LiveRecord() = %v, %v (-want +got):\n%s", ok, err, diff)
	}

	r.Ref, r.ShortID, r.State, r.Cause = "docker://local#abc", "abc", sandbox.StateStopped, sandbox.CauseByHand
	if err := s.UpdateRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	got, ok, err = s.LiveRecord(t.Context(), "r")
	if diff := cmp.Diff(r, got, cmpopts.IgnoreFields(r, "UpdatedAt")); diff != "" || !ok || err != nil {
		t.Errorf("LiveRecord() = %v, %v (-want +got):\n%s", ok, err, diff)
	}
	if !got.UpdatedAt.After(start) {
		t.Errorf("UpdatedAt = %v, want the time of the update", got.UpdatedAt)
	}

	newer := sandbox.Record{RootTaskID: "r", State: sandbox.StateFailed}
	if newer.ID, err = s.InsertRecord(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.LiveRecord(t.Context(), "r"); got.ID != r.ID || !ok || err != nil {
		t.Errorf("LiveRecord() = row %d, %v, %v, want %d: the newer one failed", got.ID, ok, err, r.ID)
	}
	newer.State = sandbox.StateLost
	r.State = sandbox.StateReleased
	for _, u := range []sandbox.Record{newer, r} {
		if err := s.UpdateRecord(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok, err := s.LiveRecord(t.Context(), "r"); got.ID != newer.ID || !ok || err != nil {
		t.Errorf("LiveRecord() = row %d, %v, %v, want %d", got.ID, ok, err, newer.ID)
	}
	all, err := s.Records(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != newer.ID || all[0].CreatedAt.IsZero() {
		t.Errorf("Records() = %+v, %v, want both, the newest first, with a time", all, err)
	}
	if err := s.UpdateRecord(t.Context(), sandbox.Record{ID: 99}); !errors.Is(err, store.ErrUnknownRecord) {
		t.Errorf("UpdateRecord() = %v, want ErrUnknownRecord", err)
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	if v, ok, err := s.Setting(t.Context(), "k"); v != "" || ok || err != nil {
		t.Errorf("Setting() = %q, %v, %v, want none", v, ok, err)
	}
	for _, v := range []string{"one", "", "two"} {
		if err := s.SetSetting(t.Context(), "k", v); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := s.Setting(t.Context(), "k"); got != v || !ok || err != nil {
			t.Errorf("Setting() = %q, %v, %v, want %q", got, ok, err, v)
		}
	}
	again := open(t, dir, store.Options{})
	if got, _, err := again.Setting(t.Context(), "k"); got != "two" || err != nil {
		t.Errorf("Setting() = %q, %v when opened again, want two", got, err)
	}
}

func TestOpen_oddPathAndModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b", "100%25 ü?mode=memory#x&y")
	s := open(t, dir, store.Options{})
	create(t, s, "r")
	want := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		want = 0o711
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
		t.Errorf("the directory: %v, %v, want mode %o", info.Mode(), err, want)
	}
	for _, name := range []string{store.FileName, store.FileName + "-wal", store.FileName + "-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, info.Mode().Perm())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != store.FileName {
		t.Errorf("after Close there are %v, %v, want the one file: the log is emptied into it", entries, err)
	}
	again := open(t, dir, store.Options{})
	if seq, err := again.LastSeq(t.Context()); seq != 1 || err != nil {
		t.Errorf("LastSeq() = %d, %v when opened again, want 1", seq, err)
	}
	if _, err := s.Append(t.Context(), event(t, "r", "r", 0, task.TaskWoken{})); err == nil {
		t.Error("Append() to a closed store succeeded")
	}
}

func BenchmarkAppend(b *testing.B) {
	s, err := store.Open(b.Context(), b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	create(b, s, "r")
	e := event(b, "r", "r", 0, task.TaskWoken{Cause: "message"})
	for b.Loop() {
		if _, err := s.Append(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}
