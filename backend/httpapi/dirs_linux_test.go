package httpapi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/mountcheck"
)

// picker returns a Server that knows where no workspace may be.
func picker(denied ...string) *Server {
	return New(Options{Workspace: func(dir string) error { return mountcheck.CheckWorkspace(dir, denied) }})
}

func names(d Dirs) []string {
	var out []string
	for _, dir := range d.Dirs {
		out = append(out, dir.Name)
	}
	return out
}

func TestListDirs(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"b", "a/inner", ".hidden", "<img src=x>", "new\nline"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(root, "file"), nil, 0o644),
		os.Symlink("a", filepath.Join(root, "link")),
		os.Symlink("file", filepath.Join(root, "filelink")),
		os.Symlink("nowhere", filepath.Join(root, "dangling")),
		os.Symlink("loop", filepath.Join(root, "loop")),
		os.Symlink("..", filepath.Join(root, "a/up")),
		syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	s := picker()
	got, err := s.listDirs(root + "/./")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{".hidden", "<img src=x>", "a", "b", "link", "new\nline"}; !slices.Equal(names(got), want) {
		t.Errorf("directories %q, want %q", names(got), want)
	}
	if got.Path != root || got.Parent != filepath.Dir(root) || got.Refused != "" || got.More {
		t.Errorf("listDirs() = %+v", got)
	}
	if d := got.Dirs[0]; !d.Hidden || d.Path != filepath.Join(root, ".hidden") || got.Dirs[2].Hidden {
		t.Errorf("hidden: %+v, %+v", d, got.Dirs[2])
	}
	// A link is entered by its own path, however often it leads round.
	if got, err = s.listDirs(filepath.Join(root, "a/up/a/up/link")); err != nil || got.Path != filepath.Join(root, "a/up/a/up/link") || !slices.Equal(names(got), []string{"inner", "up"}) {
		t.Errorf("listDirs() by links = %+v, %v", got, err)
	}
	if got, err = s.listDirs("/"); err != nil || got.Parent != "" || got.Refused == "" {
		t.Errorf("listDirs(/) = parent %q, refused %q, %v", got.Parent, got.Refused, err)
	}
	for path, want := range map[string]error{
		root + "/none": execenv.ErrNotFound, root + "/file": execenv.ErrNotDirectory, root + "/loop": execenv.ErrNotFound,
		root + "/fifo": execenv.ErrNotDirectory, "relative": sandbox.ErrSpec, "": sandbox.ErrSpec, root + "/\x00": sandbox.ErrSpec,
	} {
		if _, err := s.listDirs(path); !errors.Is(err, want) {
			t.Errorf("listDirs(%q) = %v, want %v", path, err, want)
		}
	}
}

func TestListDirs_many(t *testing.T) {
	root := t.TempDir()
	for i := range 2000 {
		if err := os.Mkdir(fmt.Sprintf("%s/%04d", root, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := picker().listDirs(root)
	if err != nil || len(got.Dirs) != maxDirs || !got.More || got.Dirs[0].Name != "0000" || got.Dirs[maxDirs-1].Name != "0999" {
		t.Errorf("listDirs() = %d directories, more %v, %v", len(got.Dirs), got.More, err)
	}
}

func TestDirs_refused(t *testing.T) {
	root := t.TempDir()
	private := filepath.Join(root, "data/boxes")
	if err := errors.Join(os.MkdirAll(private+"/one", 0o755), os.Mkdir(root+"/free", 0o755), os.Symlink(private, root+"/link")); err != nil {
		t.Fatal(err)
	}
	s := picker(private)
	for _, path := range []string{"/", "/etc", "/proc", "/tmp", root, root + "/data", private, private + "/one", root + "/link"} {
		if got, err := s.listDirs(path); err != nil || !strings.Contains(got.Refused, "deny list") {
			t.Errorf("listDirs(%s) = refused %q, %v; want it refused, and listed", path, got.Refused, err)
		}
	}
	if got, err := s.listDirs(root + "/free"); err != nil || got.Refused != "" {
		t.Errorf("listDirs() = refused %q, %v", got.Refused, err)
	}
	for _, path := range []string{private + "/two", root + "/link/two", "/proc/two", "/etc/ssh/two"} {
		if err := s.mkdir(path); err == nil {
			os.Remove(path)
			t.Errorf("mkdir(%s) made it", path)
		}
	}
	if entries, _ := os.ReadDir(private); len(entries) != 1 {
		t.Errorf("a refused place holds %v", entries)
	}
	for path, want := range map[string]error{
		root + "/none/two": execenv.ErrNotFound, root + "/free": execenv.ErrExists, root + "/free/": execenv.ErrExists, "two": sandbox.ErrSpec,
	} {
		if err := s.mkdir(path); !errors.Is(err, want) {
			t.Errorf("mkdir(%q) = %v, want %v", path, err, want)
		}
	}
}

func TestMkdir_belongsToTheOwnerOfItsParent(t *testing.T) {
	root := t.TempDir()
	s := picker()
	if os.Geteuid() == 0 {
		if err := os.Chown(root, 1234, 1235); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.mkdir(root + "/new"); err != nil {
		t.Fatal(err)
	}
	parent, err1 := os.Stat(root)
	made, err2 := os.Stat(root + "/new")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if p, m := parent.Sys().(*syscall.Stat_t), made.Sys().(*syscall.Stat_t); p.Uid != m.Uid || p.Gid != m.Gid || !made.IsDir() {
		t.Errorf("the new directory belongs to %d:%d, its parent to %d:%d", m.Uid, m.Gid, p.Uid, p.Gid)
	}
}

func TestListDirs_unreadable(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(root+"/closed", 0o700), os.Chmod(root, 0o755), os.Chmod(filepath.Dir(root), 0o755)); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			_ = unix.Setfsuid(12345)
		} else {
			_ = os.Chmod(root+"/closed", 0)
		}
		_, err := picker().listDirs(root + "/closed")
		errs <- err
		errs <- picker().mkdir(root + "/closed/new")
	}()
	for _, what := range []string{"listDirs", "mkdir"} {
		if err := <-errs; !errors.Is(err, execenv.ErrPermission) {
			t.Errorf("%s() in a closed directory = %v, want ErrPermission", what, err)
		}
	}
}
