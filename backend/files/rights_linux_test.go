package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
)

const otherUser = 12345

// asOther calls f on a thread whose file operations have the rights of another
// user, as a guest's threads have.
func asOther(t *testing.T, f func(e *files.Engine)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can take another user's rights")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		_ = unix.Setfsgid(otherUser)
		_ = unix.Setfsuid(otherUser)
		f(files.New(files.Options{Parallel: func(n int, work func(int)) {
			for i := range n {
				work(i)
			}
		}}))
	}()
	<-done
}

// openTree is a tree that other users can reach.
func openTree(t *testing.T, entries map[string]string) string {
	t.Helper()
	root := tree(t, entries)
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestWriteFile_inPlaceWhereItsLikeCannotBeMade(t *testing.T) {
	root := openTree(t, map[string]string{"open/shared": "a much longer old content", "closed/mine": "old", "open/foreign": "old", "open/private": "old"})
	if err := errors.Join(
		os.Chmod(root+"/open", 0o777),
		os.Chmod(root+"/open/shared", 0o666),
		os.Chown(root+"/closed/mine", otherUser, otherUser),
		os.Chmod(root+"/open/private", 0o600),
	); err != nil {
		t.Fatal(err)
	}
	asOther(t, func(e *files.Engine) {
		for name, owner := range map[string]int{"open/shared": 0, "closed/mine": otherUser} {
			res, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/" + name, Data: []byte("new"), Within: []string{root}})
			if err != nil || !res.InPlace || res.Info.UID != owner {
				t.Errorf("%s: %+v, %v", name, res, err)
			}
		}
		for _, name := range []string{"open/foreign", "open/private", "closed/new", "closed/dir/new"} {
			_, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/" + name, Data: []byte("new"), Within: []string{root}})
			if !errors.Is(err, execenv.ErrPermission) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := e.ReadFile(t.Context(), execenv.ReadRequest{Path: root + "/open/private"}); !errors.Is(err, execenv.ErrPermission) {
			t.Errorf("read of another's file: %v", err)
		}
		res, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/open/new", Data: []byte("new"), Within: []string{root}})
		if err != nil || res.Info.UID != otherUser || res.Info.GID != otherUser || res.InPlace {
			t.Errorf("a new file: %+v, %v", res, err)
		}
	})
	if content(t, root+"/open/shared") != "new" || content(t, root+"/closed/mine") != "new" || content(t, root+"/open/foreign") != "old" {
		t.Error("contents differ from what was said")
	}
	if got := names(t, root+"/open") + "; " + names(t, root+"/closed"); got != "foreign new private shared; mine" {
		t.Errorf("left behind: %s", got)
	}
}

func TestGrep_saysWhatItCannotRead(t *testing.T) {
	root := openTree(t, map[string]string{"a": "match\n", "b": "match\n", "d/c": "match\n"})
	if err := errors.Join(os.Chmod(root+"/b", 0), os.Chmod(root+"/d", 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(root+"/d", 0o755) })
	asOther(t, func(e *files.Engine) {
		res, err := e.Grep(t.Context(), execenv.GrepRequest{Path: root, Pattern: "match"})
		if err != nil {
			t.Error(err)
			return
		}
		warnings := strings.Join(res.Warnings, "\n")
		if len(res.Rows) != 1 || res.Rows[0].Path != root+"/a" || len(res.Warnings) != 2 ||
			!strings.Contains(warnings, "/b: permission denied") || !strings.Contains(warnings, "/d: permission denied") {
			t.Errorf("rows %v, warnings %q", res.Rows, res.Warnings)
		}
		if _, err := e.Grep(t.Context(), execenv.GrepRequest{Path: root + "/b", Pattern: "match"}); !errors.Is(err, execenv.ErrPermission) {
			t.Errorf("grep of one file: %v", err)
		}
		if _, err := e.Glob(t.Context(), execenv.GlobRequest{Base: root + "/d", Pattern: "*"}); !errors.Is(err, execenv.ErrPermission) {
			t.Errorf("glob of a closed directory: %v", err)
		}
	})
}
