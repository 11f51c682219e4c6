package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// backupsEnv sets how many backups the test makes; a long run takes 1000.
const backupsEnv = "GLOVEBOX_TEST_BACKUPS"

// look opens a file as another program would, checks it and returns its last seq.
func look(t *testing.T, path string) (last int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	var verdict string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity of %s: %s (%v)", path, verdict, err)
	}
	if err := db.QueryRow(`SELECT MAX(seq) FROM events`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	return last
}

func TestBackup_whileWriting(t *testing.T) {
	n := 20
	if v := os.Getenv(backupsEnv); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	dir, copies := t.TempDir(), t.TempDir()
	s := open(t, dir, store.Options{})
	create(t, s, "r")
	// Every backup lets so many Appends go on beside it: without a bound the
	// store, and with it every further copy, would grow with the machine's speed.
	appends := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for w := range 2 {
		e := event(t, "r", "r", 0, task.TaskWoken{Cause: strings.Repeat(fmt.Sprint(w), 5000)})
		small := event(t, "r", "r", 0, task.TaskWoken{})
		wg.Go(func() {
			for range appends {
				if _, err := s.Append(t.Context(), e, small, small); err != nil {
					t.Errorf("Append() = %v during backups", err)
					return
				}
			}
		})
	}
	last := int64(0)
	for i := range n {
		path := filepath.Join(copies, fmt.Sprintf("%d copy.db", i))
		for len(appends) < cap(appends) { // this is the only sender
			appends <- struct{}{}
		}
		before, err := s.LastSeq(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Backup(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the copy: %v, %v, want mode 0600", info, err)
		}
		if last = look(t, path); last < before {
			t.Errorf("copy %d ends at seq %d, want at least %d", i, last, before)
		}
		if last%3 != 1 {
			t.Errorf("copy %d ends at seq %d, inside an Append", i, last)
		}
		if i < n-1 {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.Rename(path, filepath.Join(copies, store.FileName)); err != nil {
			t.Fatal(err)
		}
		if seq, err := open(t, copies, store.Options{}).LastSeq(t.Context()); err != nil || seq != last {
			t.Errorf("the last copy opens as a store at seq %d, %v, want %d", seq, err, last)
		}
	}
	close(appends)
	wg.Wait()
	if last == 1 {
		t.Error("nothing was written during the backups")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look(t, filepath.Join(dir, store.FileName))
}

func TestBackup_refusesExisting(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	path := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Backup() = %v, want fs.ErrExist", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "precious" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	path += "2"
	if err := s.Backup(cancelled, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Backup() = %v, want context.Canceled", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup that failed left a file (%v)", err)
	}
}
