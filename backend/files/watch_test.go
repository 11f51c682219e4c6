package files_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/files"
)

// A directory that is made while its parent is being looked at is found, in
// whatever order the two were given.
func TestWatch_madeMeanwhile(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sub, deep := filepath.Join(top, "sub"), filepath.Join(top, "sub", "deep")
	var due atomic.Bool // deep is to be made at the next look at sub, before that is watched
	engine := files.New(files.Options{Refuse: func(path string, _ bool) error {
		if path == sub && due.Swap(false) {
			return os.Mkdir(deep, 0o755)
		}
		return nil
	}})
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	due.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan []string)
	ended := make(chan error, 1)
	go func() {
		ended <- engine.Watch(ctx, []string{deep, sub, top}, func(dirs []string) {
			select {
			case reports <- dirs:
			case <-ctx.Done():
			}
		})
	}()
	await := func(what string) {
		t.Helper()
		limit := time.After(20 * time.Second)
		for {
			select {
			case dirs := <-reports:
				if slices.Contains(dirs, deep) {
					return
				}
			case err := <-ended:
				ended <- nil
				t.Fatalf("Watch() = %v", err)
			case <-limit:
				t.Fatalf("the directory was not reported when %s", what)
			}
		}
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch() = %v", err)
		}
	})
	await("the watch began")
	for range 8 {
		if err := os.WriteFile(filepath.Join(deep, "f"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		await("it was written to")
		if err := os.RemoveAll(sub); err != nil {
			t.Fatal(err)
		}
		await("it was removed")
		due.Store(true)
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		await("it was made")
	}
}
