package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

func TestStore_manyWritersAndReaders(t *testing.T) {
	const writers, each, atOnce, watchers = 16, 200, 5, 8
	var hub stream.Hub
	s := open(t, t.TempDir(), store.Options{Bell: hub.Ring})
	create(t, s, "r")
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	var wg sync.WaitGroup
	for range watchers {
		wg.Go(func() {
			bell := hub.Subscribe()
			defer bell.Close()
			for seq := int64(0); seq < 1+writers*each; {
				events, err := s.Events(ctx, store.Query{After: seq, RootTaskID: "r"})
				if err != nil {
					t.Errorf("Events() = %v", err)
					return
				}
				for _, e := range events {
					if e.Seq != seq+1 {
						t.Errorf("after seq %d comes %d", seq, e.Seq)
						return
					}
					seq = e.Seq
				}
				if len(events) == 0 {
					select {
					case <-bell.C():
					case <-ctx.Done():
						t.Error("a reader never saw the last event")
						return
					}
				}
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			var events []task.Event
			for i := range each {
				e, err := task.Encode("r", "r", 0, start, task.TaskWoken{Cause: fmt.Sprint(w, " ", i)})
				if err != nil {
					t.Error(err)
				}
				events = append(events, e)
			}
			for some := range slices.Chunk(events, atOnce) {
				if _, err := s.Append(ctx, some...); err != nil {
					t.Errorf("writer %d: %v", w, err)
					giveUp() // the readers wait for events that will not come
					return
				}
			}
		})
	}
	wg.Wait()
	events, err := s.Events(t.Context(), store.Query{After: 1})
	if err != nil || len(events) != writers*each {
		t.Fatalf("%d events, %v, want %d", len(events), err, writers*each)
	}
	next := make([]int, writers)
	for _, e := range events {
		p, err := task.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		var w, i int
		fmt.Sscan(p.(*task.TaskWoken).Cause, &w, &i)
		if next[w] != i {
			t.Fatalf("event %d of writer %d comes where %d should", i, w, next[w])
		}
		next[w]++
	}
}

func TestRaiseGeneration_atOnce(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	create(t, s, "r")
	var wg sync.WaitGroup
	got := make([]int64, 8)
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = s.RaiseGeneration(t.Context(), "r"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.Sort(got)
	if want := []int64{1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("generations %v, want each number once", got)
	}
}

// TestAppend_twoStores lets two connections read and then write at once, which
// fails for one of them, whatever its timeout, when it has to upgrade its lock.
func TestAppend_twoStores(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, store.Options{}), open(t, dir, store.Options{})
	create(t, a, "r")
	var wg sync.WaitGroup
	for _, s := range []*store.Store{a, b} {
		e := event(t, "r", "r", 0, task.TaskWoken{})
		wg.Go(func() {
			for range 100 {
				if _, err := s.Append(t.Context(), e); err != nil {
					t.Error(err)
				}
				if _, err := s.RaiseGeneration(t.Context(), "r"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := a.RaiseGeneration(t.Context(), "r"); n != 201 || err != nil {
		t.Errorf("RaiseGeneration() = %d, %v, want 201", n, err)
	}
	if seq, err := b.LastSeq(t.Context()); seq != 201 || err != nil {
		t.Errorf("LastSeq() = %d, %v, want 201", seq, err)
	}
}

// hold takes the write lock as another program would, and returns what frees it.
func hold(t *testing.T, dir string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := db.Exec(`ROLLBACK`); err != nil {
			t.Error(err)
		}
	}
}

func TestAppend_waitsForAnotherProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, store.Options{BusyTimeout: time.Minute})
	create(t, s, "r")
	release := hold(t, dir)
	done := make(chan error, 1)
	e := event(t, "r", "r", 0, task.TaskWoken{})
	go func() {
		_, err := s.Append(t.Context(), e)
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("Append() = %v while another program held the lock", err)
	case <-time.After(3 * time.Second):
	}
	if seq, err := s.LastSeq(t.Context()); seq != 1 || err != nil {
		t.Errorf("LastSeq() = %d, %v meanwhile, want 1: readers do not wait", seq, err)
	}
	release()
	if err := <-done; err != nil {
		t.Errorf("Append() = %v after the lock was gone", err)
	}
}

func TestAppend_busy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rings := make(chan struct{}, 100)
	s := open(t, dir, store.Options{BusyTimeout: 100 * time.Millisecond, Bell: func() { rings <- struct{}{} }})
	create(t, s, "r")
	<-rings
	release := hold(t, dir)
	e := event(t, "r", "r", 0, task.TaskWoken{})
	// A queue of callers, who are not told one after the other.
	began := time.Now()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			_, err := s.Append(t.Context(), e)
			if !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), "the store is busy") {
				t.Errorf("Append() = %v, want ErrBusy", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the last of 200 callers was told after %v, want a small multiple of the timeout", took)
	}
	if len(rings) != 0 {
		t.Error("the bell rang for an Append that wrote nothing")
	}
	release()
	if _, err := s.Append(t.Context(), e); err != nil {
		t.Errorf("Append() = %v after the lock was gone", err)
	}
	if seq, err := s.LastSeq(t.Context()); seq != 2 || err != nil {
		t.Errorf("LastSeq() = %d, %v, want 2: the refused ones wrote nothing", seq, err)
	}
}

func TestAppend_cancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, store.Options{BusyTimeout: time.Minute})
	create(t, s, "r")
	release := hold(t, dir)
	e := event(t, "r", "r", 0, task.TaskWoken{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Append(ctx, e); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Append() = %v, want the end of its context", err)
	}
	release()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Append(cancelled, e); !errors.Is(err, context.Canceled) {
		t.Errorf("Append() = %v, want context.Canceled", err)
	}
	if _, err := s.Events(cancelled, store.Query{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Events() = %v, want context.Canceled", err)
	}
	stored, err := s.Append(t.Context(), e)
	if err != nil || stored[0].Seq != 2 {
		t.Errorf("Append() = %v, %v, want seq 2: the cancelled ones wrote nothing", stored, err)
	}
}
