package files_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

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
