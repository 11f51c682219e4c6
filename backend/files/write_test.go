package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
)

func TestWriteFile_keepsModeOwnerAttributesAndLinks(t *testing.T) {
	root := tree(t, map[string]string{"run.sh": "#!/bin/sh\n", "key": "k", "real.txt": "old", "link.txt": "→ real.txt", "abs": "→ /placeholder"})
	e := files.New(files.Options{})
	if err := errors.Join(os.Chmod(root+"/run.sh", 0o755), os.Chmod(root+"/key", 0o600), os.Remove(root+"/abs"), os.Symlink(root+"/real.txt", root+"/abs")); err != nil {
		t.Fatal(err)
	}
	attributes := unix.Setxattr(root+"/key", "user.glovebox", []byte("kept"), 0) == nil
	for name, mode := range map[string]fs.FileMode{"run.sh": 0o755, "key": 0o600, "link.txt": 0o644, "abs": 0o644} {
		path := filepath.Join(root, name)
		res, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: path, Data: []byte("new " + name), Within: []string{root}})
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil || st.Mode() != mode || res.Info.Mode != uint32(mode) {
			t.Errorf("%s has mode %v, result %o, %v", name, st.Mode(), res.Info.Mode, err)
		}
		if res.Created || res.InPlace || res.Hash != hash("new "+name) || content(t, path) != "new "+name {
			t.Errorf("%s: %+v", name, res)
		}
	}
	if l, err := os.Readlink(root + "/link.txt"); err != nil || l != "real.txt" {
		t.Errorf("the link is %q, %v", l, err)
	}
	if attributes {
		got := make([]byte, 10)
		if n, err := unix.Getxattr(root+"/key", "user.glovebox", got); err != nil || string(got[:n]) != "kept" {
			t.Errorf("attribute %q, %v", got[:max(n, 0)], err)
		}
	}
	if got := names(t, root); got != "abs key link.txt real.txt run.sh" {
		t.Errorf("left in the directory: %s", got)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(root+"/key", 1234, 4321); err != nil {
			t.Fatal(err)
		}
		if _, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/key", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		st, err := e.Stat(t.Context(), root+"/key")
		if err != nil || st.UID != 1234 || st.GID != 4321 || st.Mode != 0o600 {
			t.Errorf("owner is %d:%d, mode %o, %v", st.UID, st.GID, st.Mode, err)
		}
	}
}

func TestWriteFile_modes(t *testing.T) {
	root := tree(t, map[string]string{"f": "one", "d/": "", "dangling": "→ d/new"})
	e := files.New(files.Options{})
	write := func(name string, mode execenv.WriteMode, expected string) (execenv.WriteResult, error) {
		return e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/" + name, Data: []byte("two"), Mode: mode, Expected: expected, Within: []string{root}})
	}
	for _, tt := range []struct {
		name     string
		mode     execenv.WriteMode
		expected string
		want     error
	}{
		{"f", execenv.WriteExclusive, "", execenv.ErrExists},
		{"dangling", execenv.WriteExclusive, "", execenv.ErrExists},
		{"f", execenv.WriteExpected, hash("other"), execenv.ErrChanged},
		{"gone/f", execenv.WriteExpected, hash("one"), execenv.ErrNotFound},
		{"d", execenv.WriteOverwrite, "", execenv.ErrIsDirectory},
		{"f/x", execenv.WriteOverwrite, "", execenv.ErrNotDirectory},
		{"f", "sideways", "", execenv.ErrInvalid},
	} {
		if _, err := write(tt.name, tt.mode, tt.expected); !errors.Is(err, tt.want) {
			t.Errorf("%s %s: %v, want %v", tt.mode, tt.name, err, tt.want)
		}
	}
	if got := content(t, root+"/f") + "; " + names(t, root) + "; " + names(t, root+"/d"); got != "one; d dangling f; " {
		t.Fatalf("after refusals: %s", got)
	}
	res, err := write("f", execenv.WriteExpected, hash("one"))
	if err != nil || string(res.Before) != "one" || res.Created {
		t.Errorf("expected: %+v, %v", res, err)
	}
	res, err = write("a/b/new", execenv.WriteExclusive, "")
	if err != nil || !res.Created || res.Info.Mode&0o600 != 0o600 || content(t, root+"/a/b/new") != "two" {
		t.Errorf("exclusive: %+v, %v", res, err)
	}
	if res, err = write("dangling", execenv.WriteOverwrite, ""); err != nil || content(t, root+"/d/new") != "two" {
		t.Errorf("through a link to nothing inside: %+v, %v", res, err)
	}
	umask := syscall.Umask(0o027)
	res, err = write("masked", execenv.WriteOverwrite, "")
	syscall.Umask(umask)
	if err != nil || res.Info.Mode != 0o640 {
		t.Errorf("a new file under umask 027 has mode %o, %v", res.Info.Mode, err)
	}
}

func TestWriteFile_staysWithin(t *testing.T) {
	outside := tree(t, map[string]string{"victim": "safe"})
	root := tree(t, map[string]string{
		"notes.md": "→ " + outside + "/victim", "sub": "→ " + outside, "draft": "→ " + outside + "/new",
		"chain": "→ chain2", "chain2": "→ sub/victim", "real/f": "x", "in": "→ real", "loop": "→ loop",
	})
	if err := os.Symlink(root+"/real", root+"/abs"); err != nil {
		t.Fatal(err)
	}
	e := files.New(files.Options{})
	for _, path := range []string{"/notes.md", "/sub/victim", "/sub/deep/new", "/draft", "/chain", "/../" + filepath.Base(outside) + "/victim", "/sub/../victim"} {
		for _, mode := range []execenv.WriteMode{execenv.WriteOverwrite, execenv.WriteExclusive} {
			_, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + path, Data: []byte("pwned"), Mode: mode, Within: []string{root}})
			if !errors.Is(err, execenv.ErrEscape) {
				t.Errorf("%s: %v", path, err)
			}
		}
		if _, err := e.EditFile(t.Context(), execenv.EditRequest{Path: root + path, Old: "safe", New: "pwned", Within: []string{root}}); !errors.Is(err, execenv.ErrEscape) {
			t.Errorf("edit of %s: %v", path, err)
		}
	}
	_, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/notes.md", Within: []string{root}})
	if err == nil || !strings.Contains(err.Error(), root+"/notes.md leads to "+outside+"/victim") {
		t.Errorf("the error names no link and target: %v", err)
	}
	for _, c := range []execenv.ChangeRequest{
		{Kind: execenv.ChangeRemove, Path: root + "/sub/victim"},
		{Kind: execenv.ChangeMkdir, Path: root + "/sub/dir"},
		{Kind: execenv.ChangeRename, Path: root + "/sub/victim", To: root + "/mine"},
		{Kind: execenv.ChangeRename, Path: root + "/real/f", To: root + "/sub/f"},
	} {
		c.Within = []string{root}
		if err := e.Change(t.Context(), c); !errors.Is(err, execenv.ErrEscape) {
			t.Errorf("%s %s: %v", c.Kind, c.Path, err)
		}
	}
	if got := names(t, outside) + ": " + content(t, outside+"/victim"); got != "victim: safe" {
		t.Fatalf("outside: %s", got)
	}
	for _, path := range []string{"/in/f", "/abs/f", "/in/new/deep"} {
		if _, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + path, Data: []byte("ok"), Within: []string{"/nowhere", root}}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/f", Within: []string{root + "/gone"}}); !errors.Is(err, execenv.ErrWorkdirGone) {
		t.Errorf("a fence that is gone: %v", err)
	}
	if _, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/loop", Within: []string{root}}); !errors.Is(err, execenv.ErrNotFound) {
		t.Errorf("a circle: %v", err)
	}
	if _, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "x/f", Within: []string{root}}); !errors.Is(err, execenv.ErrEscape) {
		t.Errorf("a directory whose name begins like the fence: %v", err)
	}
}

// TestWriteFile_swap changes a name between a file and a link to the outside
// while it is written to, and between a directory and a link for one below it.
func TestWriteFile_swap(t *testing.T) {
	outside := tree(t, map[string]string{"victim": "safe", "dir/f": "safe"})
	root := tree(t, map[string]string{"f": "", "dir/f": "", "real/": ""})
	e := files.New(files.Options{})
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			os.Symlink(outside+"/victim", root+"/link")
			os.Rename(root+"/link", root+"/f")
			os.Rename(root+"/dir", root+"/away")
			os.Symlink(outside+"/dir", root+"/dir")
			os.Remove(root + "/f")
			os.Remove(root + "/dir")
			os.Rename(root+"/away", root+"/dir")
		}
	})
	for i := range 1000 {
		path := root + "/f"
		if i%2 == 1 {
			path = root + "/dir/f"
		}
		if i%4 < 2 {
			e.WriteFile(t.Context(), execenv.WriteRequest{Path: path, Data: []byte("pwned"), Within: []string{root}})
		} else {
			e.EditFile(t.Context(), execenv.EditRequest{Path: path, Old: "safe", New: "pwned", Within: []string{root}})
		}
	}
	close(stop)
	swapper.Wait()
	if content(t, outside+"/victim") != "safe" || content(t, outside+"/dir/f") != "safe" || names(t, outside) != "dir victim" || names(t, outside+"/dir") != "f" {
		t.Error("a write went outside")
	}
}

func TestEditFile(t *testing.T) {
	root := tree(t, map[string]string{"f": "one\ntwo\nthree\n", "bin": "\x00"})
	e := files.New(files.Options{})
	res, err := e.EditFile(t.Context(), execenv.EditRequest{Path: root + "/f", Old: "two", New: "TWO", Within: []string{root}})
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Before) != "one\ntwo\nthree\n" || string(res.After) != "one\nTWO\nthree\n" || res.FirstLine != 2 || res.Replaced != 1 || res.Hash != hash(string(res.After)) {
		t.Errorf("EditFile() = %+v", res)
	}
	for path, want := range map[string]error{"/f": execenv.ErrNoMatch, "/bin": execenv.ErrBinary, "/no/dir": execenv.ErrNotFound, "/gone": execenv.ErrNotFound} {
		if _, err := e.EditFile(t.Context(), execenv.EditRequest{Path: root + path, Old: "two", New: "x"}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if got := names(t, root); got != "bin f" {
		t.Errorf("left in the directory: %s", got)
	}
}

func TestEditFile_parallelEditsAllLand(t *testing.T) {
	var text strings.Builder
	const n = 40
	for i := range n {
		fmt.Fprintf(&text, "line <%d>\n", i)
	}
	root := tree(t, map[string]string{"f": text.String(), "link": "→ f"})
	e := files.New(files.Options{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			path := root + "/f"
			if i%2 == 0 {
				path = root + "/link"
			}
			if _, err := e.EditFile(t.Context(), execenv.EditRequest{Path: path, Old: fmt.Sprintf("<%d>", i), New: fmt.Sprintf("[%d]", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := content(t, root+"/f"); strings.Contains(got, "<") {
		t.Errorf("edits were lost:\n%s", got)
	}
}

func TestChange(t *testing.T) {
	root := tree(t, map[string]string{"f": "x", "d/g": "", "link": "→ f", "outlink": "→ /etc/passwd"})
	e := files.New(files.Options{})
	change := func(kind execenv.ChangeKind, path, to string) error {
		r := execenv.ChangeRequest{Kind: kind, Path: root + path, Within: []string{root}}
		if to != "" {
			r.To = root + to
		}
		return e.Change(t.Context(), r)
	}
	for _, tt := range []struct {
		kind     execenv.ChangeKind
		path, to string
		want     error
	}{
		{execenv.ChangeMkdir, "/a/b/c", "", nil},
		{execenv.ChangeMkdir, "/a/b/c", "", nil},
		{execenv.ChangeMkdir, "/f", "", execenv.ErrExists},
		{execenv.ChangeMkdir, "", "", nil},
		{execenv.ChangeRemove, "/d", "", execenv.ErrInvalid},
		{execenv.ChangeRemove, "/gone", "", execenv.ErrNotFound},
		{execenv.ChangeRemove, "", "", execenv.ErrInvalid},
		{execenv.ChangeRemove, "/outlink", "", nil},
		{execenv.ChangeRemove, "/link", "", nil},
		{execenv.ChangeRename, "/f", "/a/moved", nil},
		{execenv.ChangeRename, "/gone", "/x", execenv.ErrNotFound},
		{execenv.ChangeRename, "/d", "", execenv.ErrInvalid},
		{"explode", "/d", "", execenv.ErrInvalid},
	} {
		if err := change(tt.kind, tt.path, tt.to); !errors.Is(err, tt.want) {
			t.Errorf("%s %s %s: %v, want %v", tt.kind, tt.path, tt.to, err, tt.want)
		}
	}
	if got := names(t, root) + "; " + names(t, root+"/a"); got != "a d; b moved" {
		t.Errorf("afterwards: %s", got)
	}
}
