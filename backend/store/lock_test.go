package store_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/store"
)

func TestAcquire_heldByAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	owner := startChild(t, "own", dir)
	if got := owner.line(); got != "ready" {
		t.Fatalf("the owner said %q", got)
	}
	pid := owner.cmd.Process.Pid

	_, err := store.Acquire(dir)
	var held *store.HeldError
	if !errors.As(err, &held) || held.PID != pid || held.URL != "http://127.0.0.1:7333/" {
		t.Fatalf("Acquire() = %v, want a HeldError with the owner's pid %d and URL", err, pid)
	}
	if text := err.Error(); !strings.Contains(text, "7333") || !strings.Contains(text, "process") {
		t.Errorf("the error %q does not name the owner", text)
	}
	if o, ok := store.Peek(dir); !ok || o.PID != pid || o.URL != held.URL {
		t.Errorf("Peek() = %+v, %v, want the owner", o, ok)
	}

	owner.kill(t)
	if o, ok := store.Peek(dir); ok {
		t.Errorf("Peek() = %+v after the owner was killed, want nobody", o)
	}
	l, err := store.Acquire(dir)
	if err != nil {
		t.Fatalf("Acquire() after the owner was killed = %v", err)
	}
	if o, ok := store.Peek(dir); !ok || o != (store.Owner{PID: os.Getpid()}) {
		t.Errorf("Peek() = %+v, %v, want this process and no URL", o, ok)
	}
	if err := l.Release(); err != nil {
		t.Errorf("Release() = %v", err)
	}
	if err := l.Release(); err != nil {
		t.Errorf("second Release() = %v", err)
	}
}

func TestAcquire_oneOfMany(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	locks := make(chan *store.Lock, 16)
	for range cap(locks) {
		wg.Go(func() {
			l, err := store.Acquire(dir)
			var held *store.HeldError
			switch {
			case err == nil:
				locks <- l
			case !errors.As(err, &held) || held.PID != os.Getpid():
				t.Errorf("Acquire() = %v, want a HeldError with our pid", err)
			}
		})
	}
	wg.Wait()
	if len(locks) != 1 {
		t.Fatalf("%d of %d got the lock, want 1", len(locks), cap(locks))
	}
	if err := (<-locks).Release(); err != nil {
		t.Error(err)
	}
}

func TestPeek_doesNotDisturb(t *testing.T) {
	dir := t.TempDir()
	if _, ok := store.Peek(dir); ok {
		t.Error("Peek() found an owner in a new directory")
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					store.Peek(dir)
				}
			}
		})
	}
	for range 200 {
		l, err := store.Acquire(dir)
		if err != nil {
			t.Errorf("Acquire() while others peek = %v", err)
			break
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}

func TestLock_isNotInherited(t *testing.T) {
	dir := t.TempDir()
	l, err := store.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cat") // outlives its parent, as a sandbox does
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if o, ok := store.Peek(dir); ok {
		t.Errorf("Peek() = %+v: a child process kept the lock", o)
	}
}

func TestLock_shorterURL(t *testing.T) {
	dir := t.TempDir()
	l, err := store.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	for _, url := range []string{"http://127.0.0.1:12345/a/long/one", "http://[::1]:1/"} {
		if err := l.SetURL(url); err != nil {
			t.Fatal(err)
		}
		if o, ok := store.Peek(dir); !ok || o.URL != url {
			t.Errorf("Peek() = %+v, %v, want %s", o, ok, url)
		}
	}
}
