package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestCopyTree(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	old := time.Unix(1_000_000_000, 0)
	must(os.WriteFile(outside, []byte("outside"), 0o600))
	must(os.MkdirAll(filepath.Join(from, "a/b"), 0o755))
	must(os.WriteFile(filepath.Join(from, "a/b/run"), []byte("#!/bin/sh\n"), 0o755))
	must(os.WriteFile(filepath.Join(from, "a/odd\nname\xff"), nil, 0o600))
	must(os.Symlink(outside, filepath.Join(from, "a/absolute")))
	must(os.Symlink("nowhere", filepath.Join(from, "dangling")))
	must(syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600))
	must(os.Chmod(filepath.Join(from, "a/b"), 0o555))
	must(os.Chtimes(filepath.Join(from, "a/b/run"), old, old))
	must(os.Chtimes(filepath.Join(from, "a/b"), old, old))
	if os.Geteuid() == 0 {
		must(os.Chown(filepath.Join(from, "a/b/run"), 1234, 1234))
	}
	var last, all amount
	must(copyTree(t.Context(), from, to, func(done, of amount) { last, all = done, of }))
	if last.bytes != all.bytes || last.files != all.files || all.bytes != 10 {
		t.Errorf("told %+v of %+v", last, all)
	}
	for _, name := range []string{"a/b/run", "a/b"} {
		info, err := os.Stat(filepath.Join(to, name))
		want, _ := os.Stat(filepath.Join(from, name))
		if err != nil || info.Mode() != want.Mode() || !info.ModTime().Equal(old) {
			t.Errorf("%s: %v %v, %v", name, info.Mode(), info.ModTime(), err)
		}
		if got, want := info.Sys().(*syscall.Stat_t).Uid, want.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]string{"a/absolute": outside, "dangling": "nowhere"} {
		if got, err := os.Readlink(filepath.Join(to, name)); err != nil || got != want {
			t.Errorf("%s leads to %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(to, "pipe")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a pipe was copied: %v", err)
	}
	if _, err := os.Stat(filepath.Join(to, "a/odd\nname\xff")); err != nil {
		t.Error(err)
	}
	// What was copied can be removed, though a directory in it is read-only.
	must(os.Chmod(filepath.Join(to, "a/b"), 0o755))
	must(os.Chmod(filepath.Join(from, "a/b"), 0o755))
}

func TestCopyTree_refuses(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	huge, err := os.Create(filepath.Join(from, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	defer huge.Close()
	if err := huge.Truncate(mostCopied + 1); err != nil { // as long as that, and empty
		t.Skip(err)
	}
	err = copyTree(t.Context(), from, to, func(amount, amount) {})
	var field *sandbox.FieldError
	if !errors.As(err, &field) || field.Field != "workspace" {
		t.Errorf("a tree that is too large: %v", err)
	}
	if left, _ := os.ReadDir(to); len(left) > 0 {
		t.Errorf("begun all the same: %v", left)
	}
	if err := huge.Truncate(10); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := copyTree(ctx, from, to, func(amount, amount) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
}
