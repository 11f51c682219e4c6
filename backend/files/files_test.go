package files_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
)

func read(t *testing.T, r execenv.ReadRequest) execenv.ReadResult {
	t.Helper()
	res, err := files.New(files.Options{}).ReadFile(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names lists a directory, to see that nothing is left in it.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestReadFile_lines(t *testing.T) {
	root := tree(t, map[string]string{
		"crlf": "\xef\xbb\xbfone\r\ntwo\r\n\r\nfour", "empty": "", "bad": "a\xffb\n", "bin": "a\x00b", "end": "a\n", "return": "a\rb\r",
	})
	res := read(t, execenv.ReadRequest{Path: root + "/crlf", Lines: 10})
	if got := fmt.Sprint(res.Lines); got != "[{1 one 0} {2 two 0} {3  0} {4 four 0}]" || res.TotalLines != 4 || !res.BOM {
		t.Errorf("lines = %s, total %d, bom %v", got, res.TotalLines, res.BOM)
	}
	if want := hash(content(t, root+"/crlf")); res.Hash != want {
		t.Errorf("hash = %s, want %s", res.Hash, want)
	}
	res = read(t, execenv.ReadRequest{Path: root + "/crlf", StartLine: 2, Lines: 2})
	if got := fmt.Sprint(res.Lines); got != "[{2 two 0} {3  0}]" || res.TotalLines != 4 || res.Truncated {
		t.Errorf("middle = %s, total %d", got, res.TotalLines)
	}
	res = read(t, execenv.ReadRequest{Path: root + "/crlf", StartLine: 9, Lines: 2})
	if len(res.Lines) != 0 || res.TotalLines != 4 {
		t.Errorf("past the end = %v, total %d", res.Lines, res.TotalLines)
	}
	res = read(t, execenv.ReadRequest{Path: root + "/empty", Lines: 2})
	if len(res.Lines) != 0 || res.TotalLines != 0 || res.Info.Size != 0 || res.Hash != hash("") {
		t.Errorf("empty = %+v", res)
	}
	res = read(t, execenv.ReadRequest{Path: root + "/bad", Lines: 2})
	if got := fmt.Sprint(res.Lines); got != "[{1 a\uFFFDb 0}]" || !res.Repaired {
		t.Errorf("bad = %s, repaired %v", got, res.Repaired)
	}
	if res = read(t, execenv.ReadRequest{Path: root + "/bin", Lines: 2}); !res.Binary || len(res.Lines) != 0 || res.Hash == "" {
		t.Errorf("binary = %+v", res)
	}
	if res = read(t, execenv.ReadRequest{Path: root + "/end", Lines: 2}); res.TotalLines != 1 {
		t.Errorf("a line end at the end makes %d lines", res.TotalLines)
	}
	if res = read(t, execenv.ReadRequest{Path: root + "/return", Lines: 2}); res.Lines[0].Text != "a\rb\r" {
		t.Errorf("a lone return: %q", res.Lines[0].Text)
	}
}

func TestReadFile_bytes(t *testing.T) {
	root := tree(t, map[string]string{"f": "0123é6789"})
	for _, tt := range []struct {
		req  execenv.ReadRequest
		want string
		cut  bool
	}{
		{execenv.ReadRequest{}, "0123é6789", false},
		{execenv.ReadRequest{Offset: 2, Length: 2}, "23", false},
		{execenv.ReadRequest{MaxBytes: 5}, "0123", true}, // é is two bytes
		{execenv.ReadRequest{MaxBytes: 6}, "0123é", true},
		{execenv.ReadRequest{Offset: 50}, "", false},
		{execenv.ReadRequest{Offset: 8, Length: 50}, "89", false},
	} {
		tt.req.Path = root + "/f"
		res := read(t, tt.req)
		if string(res.Data) != tt.want || res.Truncated != tt.cut || res.Hash != hash("0123é6789") {
			t.Errorf("%+v = %q, truncated %v", tt.req, res.Data, res.Truncated)
		}
	}
}

func TestReadFile_kinds(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x00"
	root := tree(t, map[string]string{"i.png": png, "p": "%PDF-1.7\n", "w": "RIFF\x00\x00\x00\x00WEBPVP8 ", "j": "\xff\xd8\xff\xe0", "g": "GIF89a...", "d/": ""})
	for name, want := range map[string]string{"i.png": "image/png", "w": "image/webp", "j": "image/jpeg", "g": "image/gif"} {
		res := read(t, execenv.ReadRequest{Path: root + "/" + name, Lines: 10})
		if res.MediaType != want || string(res.Data) != content(t, root+"/"+name) {
			t.Errorf("%s = %s, %q", name, res.MediaType, res.Data)
		}
	}
	if res := read(t, execenv.ReadRequest{Path: root + "/i.png", Lines: 10, MaxBytes: 3}); !res.Truncated || len(res.Data) != 0 {
		t.Errorf("an image over the limit: truncated %v, %d bytes", res.Truncated, len(res.Data))
	}
	if res := read(t, execenv.ReadRequest{Path: root + "/p", Lines: 10}); res.MediaType != "application/pdf" || !res.Binary {
		t.Errorf("pdf = %s, binary %v", res.MediaType, res.Binary)
	}
	if err := syscall.Mkfifo(root+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	e := files.New(files.Options{})
	for path, want := range map[string]error{
		root + "/fifo": execenv.ErrNotRegular, "/dev/zero": execenv.ErrNotRegular, root + "/d": execenv.ErrIsDirectory,
		root + "/missing": execenv.ErrNotFound, root + "/p/x": execenv.ErrNotDirectory, "relative": execenv.ErrInvalid,
	} {
		if _, err := e.ReadFile(t.Context(), execenv.ReadRequest{Path: path, Lines: 1}); !errors.Is(err, want) {
			t.Errorf("read of %s: %v, want %v", path, err, want)
		}
	}
	if _, err := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/fifo"}); !errors.Is(err, execenv.ErrNotRegular) {
		t.Errorf("write to a FIFO: %v", err)
	}
	if res := read(t, execenv.ReadRequest{Path: "/proc/self/status", Lines: 5}); len(res.Lines) != 5 {
		t.Errorf("a file of size 0 with content: %d lines", len(res.Lines))
	}
}

// TestReadFile_huge reads what must not be held in memory; allocations show it.
func TestReadFile_huge(t *testing.T) {
	root := t.TempDir()
	oneLine := strings.Repeat("ab€", 2<<20)
	var many bytes.Buffer
	for i := range 300_000 {
		fmt.Fprintf(&many, "line %d\n", i+1)
	}
	if err := errors.Join(
		os.WriteFile(root+"/line", []byte(oneLine), 0o644),
		os.WriteFile(root+"/many", many.Bytes(), 0o644),
		os.WriteFile(root+"/sparse", nil, 0o644),
		os.Truncate(root+"/sparse", 2<<30),
	); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		req   execenv.ReadRequest
		check func(execenv.ReadResult) bool
	}{
		{execenv.ReadRequest{Path: root + "/line", Lines: 2000}, func(r execenv.ReadResult) bool {
			l := r.Lines[0]
			return len(l.Text) <= 2000 && len(l.Text) > 1990 && utf8.ValidString(l.Text) && l.Cut == int64(len(oneLine)-len(l.Text)) && !r.Repaired
		}},
		{execenv.ReadRequest{Path: root + "/sparse", Lines: 2000}, func(r execenv.ReadResult) bool {
			return r.Binary && r.Hash == "" && r.Info.Size == 2<<30
		}},
		{execenv.ReadRequest{Path: root + "/sparse", Offset: 2<<30 - 5}, func(r execenv.ReadResult) bool { return len(r.Data) == 5 }},
		{execenv.ReadRequest{Path: root + "/many", StartLine: 299_990, Lines: 2000}, func(r execenv.ReadResult) bool {
			return len(r.Lines) == 11 && r.Lines[10].Text == "line 300000" && r.TotalLines == 300_000
		}},
		{execenv.ReadRequest{Path: root + "/many", Lines: 300_000}, func(r execenv.ReadResult) bool {
			return r.Truncated && len(r.Lines) > 50_000 && r.TotalLines == 300_000
		}},
	}
	for _, tt := range tests {
		if res := read(t, tt.req); !tt.check(res) {
			t.Errorf("%+v: %d lines, total %d, %d bytes", tt.req, len(res.Lines), res.TotalLines, len(res.Data))
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read(t, execenv.ReadRequest{Path: root + "/many", StartLine: 299_990, Lines: 2000})
	read(t, execenv.ReadRequest{Path: root + "/line", Lines: 2000})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("two reads allocate %d bytes", n)
	}
}

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

func TestStatAndList(t *testing.T) {
	root := tree(t, map[string]string{"d/f": "four", "d/link": "→ f", "d/dangling": "→ nowhere", "d/sub/": ""})
	e := files.New(files.Options{})
	list, err := e.List(t.Context(), root+"/d")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range list.Entries {
		got = append(got, fmt.Sprintf("%s %s %s", filepath.Base(f.Path), f.Kind, f.Symlink))
	}
	if s := strings.Join(got, ", "); s != "dangling missing nowhere, f file , link file f, sub dir " {
		t.Errorf("List() = %s", s)
	}
	st, err := e.Stat(t.Context(), root+"/d/link")
	if err != nil || st.Size != 4 || st.Symlink != "f" || st.ModTime.IsZero() {
		t.Errorf("Stat() = %+v, %v", st, err)
	}
	if _, err := e.List(t.Context(), root+"/d/f"); !errors.Is(err, execenv.ErrNotDirectory) {
		t.Errorf("List of a file: %v", err)
	}
	if _, err := e.Stat(t.Context(), root+"/gone"); !errors.Is(err, execenv.ErrNotFound) {
		t.Errorf("Stat of nothing: %v", err)
	}
}

func TestRefuse(t *testing.T) {
	secret := tree(t, map[string]string{"key": "k"})
	root := tree(t, map[string]string{"link": "→ " + secret + "/key", "f": ""})
	refused := errors.New("refused")
	e := files.New(files.Options{Refuse: func(path string, write bool) error {
		if strings.HasPrefix(path, secret) {
			return refused
		}
		return nil
	}})
	_, err1 := e.ReadFile(t.Context(), execenv.ReadRequest{Path: root + "/link"})
	_, err2 := e.WriteFile(t.Context(), execenv.WriteRequest{Path: root + "/link"})
	_, err3 := e.List(t.Context(), secret)
	_, err4 := e.Grep(t.Context(), execenv.GrepRequest{Path: secret, Pattern: "k"})
	for i, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, refused) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
