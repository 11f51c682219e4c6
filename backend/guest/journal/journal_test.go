//go:build linux

package journal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/guest/journal"
)

func open(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func start(t *testing.T, j *journal.Journal, id string) {
	t.Helper()
	if err := j.Start(journal.Entry{ID: id, Kind: "run", Boot: "b", StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

func TestJournal_survivesAKill(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	start(t, j, "begun")
	start(t, j, "ended")
	start(t, j, "forgot")
	if err := j.Finish("ended", []byte(`{"code":3}`)); err != nil {
		t.Fatal(err)
	}
	if err := j.Forget("forgot"); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Raise("root", 7); err != nil {
		t.Fatal(err)
	}
	// What a kill in the middle of a write leaves.
	f, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"started":{"id":"torn`)
	f.Close()

	for range 2 { // the second time after the first one has cut the tear off
		j = open(t, dir)
		if e, ok := j.Lookup("begun"); !ok || e.Finished {
			t.Errorf("begun: %+v, %v", e, ok)
		}
		if e, ok := j.Lookup("ended"); !ok || !e.Finished {
			t.Errorf("ended: %+v, %v", e, ok)
		}
		if body, err := j.Outcome("ended"); err != nil || string(body) != `{"code":3}` {
			t.Errorf("outcome %s, %v", body, err)
		}
		if _, ok := j.Lookup("forgot"); ok {
			t.Error("a forgotten entry is back")
		}
		if _, ok := j.Lookup("torn"); ok {
			t.Error("half a line counts")
		}
		if highest, err := j.Raise("root", 5); err != nil || highest != 7 {
			t.Errorf("fence %d, %v", highest, err)
		}
		start(t, j, fmt.Sprint("after", time.Now().UnixNano()))
	}
}

func TestJournal_isBounded(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		j := open(t, dir)
		body := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 1<<20)...), '"')
		const n = 150
		for i := range n {
			id := fmt.Sprint(i)
			start(t, j, id)
			if err := j.Finish(id, body); err != nil {
				t.Fatal(err)
			}
		}
		kept := len(j.Entries())
		if kept < 50 || kept > 64 {
			t.Errorf("%d of %d outcomes are kept", kept, n)
		}
		if got, err := j.Outcome(fmt.Sprint(n - 1)); err != nil || !bytes.Equal(got, body) {
			t.Errorf("the last outcome: %d bytes, %v", len(got), err)
		}
		if _, ok := j.Lookup("0"); ok {
			t.Error("the oldest outcome is kept")
		}
		for i := range n {
			if err := j.Forget(fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if dir == "" {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, "journal")); err != nil || info.Size() > 10<<20 {
			t.Errorf("%d bytes remain of nothing, %v", info.Size(), err)
		}
	}
}
