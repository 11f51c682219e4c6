package files_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
)

// tree makes files below a fresh directory: a name that ends in a slash is a
// directory, a content that begins with "→ " is a link.
func tree(t *testing.T, entries map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range entries {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(content, "→ ")
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case link:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func glob(t *testing.T, root, pattern string, all bool) []string {
	t.Helper()
	res, err := files.New(files.Options{}).Glob(t.Context(), execenv.GlobRequest{Base: root, Pattern: pattern, All: all})
	if err != nil {
		t.Fatal(err)
	}
	return relative(root, res.Files)
}

func relative(root string, infos []execenv.FileInfo) []string {
	var out []string
	for _, f := range infos {
		out = append(out, strings.TrimPrefix(f.Path, root+"/"))
	}
	return out
}

// evenTimes gives all files one time, so that results are in the order of paths.
func evenTimes(t *testing.T, root string) {
	t.Helper()
	at := time.Unix(1_700_000_000, 0)
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			return os.Chtimes(path, at, at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestGlob(t *testing.T) {
	root := tree(t, map[string]string{
		".github/workflows/ci.yml": "", ".env": "", ".git/config": "", "src/a.ts": "", "src/b.tsx": "", "src/deep/c.ts": "",
		"src/loop": "→ ..", "link": "→ src", "out": "→ /etc", "gone": "→ nowhere", "alias.ts": "→ src/a.ts", "passwd": "→ /etc/passwd",
		".gitignore": "build/\n*.log\n/top.txt\n!keep.log\n.env\n", "build/x.ts": "", "a.log": "", "keep.log": "", "top.txt": "", "src/top.txt": "",
		"src/.gitignore": "deep/*.gen\n", "src/deep/y.gen": "", "deep/y.gen": "", "a{b}.md": "", "released": "→ .hidden", ".hidden/r.ts": "",
	})
	evenTimes(t, root)
	tests := []struct {
		pattern string
		all     bool
		want    []string
	}{
		{".github/**/*.yml", false, []string{".github/workflows/ci.yml"}},
		{"**/.env", false, []string{".env"}},
		{"**/*.{ts,tsx}", false, []string{"released/r.ts", "src/a.ts", "src/b.tsx", "src/deep/c.ts"}},
		{"link/*.ts", false, []string{"link/a.ts"}},
		{"l*/*.ts", false, []string{"link/a.ts"}},
		{"alias.*", false, []string{"alias.ts"}},
		{"*.log", false, []string{"keep.log"}},
		{"*.log", true, []string{"a.log", "keep.log"}},
		{"**/top.txt", false, []string{"src/top.txt"}},
		{"**/*.gen", false, []string{"deep/y.gen"}},
		{"**/x.ts", false, nil},
		{"**/x.ts", true, []string{"build/x.ts"}},
		{"a\\{b\\}.md", false, []string{"a{b}.md"}},
		{"{src,deep}/*", false, []string{"deep/y.gen", "src/a.ts", "src/b.tsx", "src/top.txt"}},
		{"src/**", false, []string{"src/a.ts", "src/b.tsx", "src/deep/c.ts", "src/top.txt"}},
		{"[rs]rc/?.ts", false, []string{"src/a.ts"}},
		{"out/*", false, nil},
		{"**/config", true, nil},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.pattern, " ", tt.all), func(t *testing.T) {
			if diff := cmp.Diff(tt.want, glob(t, root, tt.pattern, tt.all)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("everything ends", func(t *testing.T) {
		for _, f := range glob(t, root, "**/*", true) {
			if strings.HasPrefix(f, "out/") || f == "passwd" {
				t.Errorf("%s leads outside", f)
			}
		}
	})
	t.Run("errors", func(t *testing.T) {
		e := files.New(files.Options{})
		if _, err := e.Glob(t.Context(), execenv.GlobRequest{Base: root + "/missing", Pattern: "*"}); !errors.Is(err, execenv.ErrNotFound) {
			t.Errorf("missing base: %v", err)
		}
		for _, p := range []string{"", "[", "/etc/*", "../*", "{a"} {
			if _, err := e.Glob(t.Context(), execenv.GlobRequest{Base: root, Pattern: p}); !errors.Is(err, execenv.ErrPattern) {
				t.Errorf("pattern %q: %v", p, err)
			}
		}
	})
}

func TestGlob_newestFirstAndLimited(t *testing.T) {
	root := tree(t, map[string]string{"a": "", "b": "", "c": "", "d": ""})
	evenTimes(t, root)
	now := time.Now()
	if err := os.Chtimes(filepath.Join(root, "c"), now, now); err != nil {
		t.Fatal(err)
	}
	res, err := files.New(files.Options{}).Glob(t.Context(), execenv.GlobRequest{Base: root, Pattern: "*", Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c", "a"}, relative(root, res.Files)); diff != "" || res.Total != 4 || !res.Truncated {
		t.Errorf("%s total %d, truncated %v", diff, res.Total, res.Truncated)
	}
}

func grep(t *testing.T, r execenv.GrepRequest) execenv.GrepResult {
	t.Helper()
	res, err := files.New(files.Options{}).Grep(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// render writes rows as grep does.
func render(root string, res execenv.GrepResult) string {
	var b strings.Builder
	for _, r := range res.Rows {
		if r.Break {
			b.WriteString("--\n")
		}
		b.WriteString(strings.TrimPrefix(r.Path, root+"/"))
		switch {
		case r.Binary:
			b.WriteString(" binary")
		case r.Count > 0:
			fmt.Fprintf(&b, "=%d", r.Count)
		case r.Context:
			fmt.Fprintf(&b, "-%d-%s", r.Line, r.Text)
		case r.Line > 0:
			fmt.Fprintf(&b, ":%d:%s", r.Line, r.Text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestGrep(t *testing.T) {
	root := tree(t, map[string]string{
		"a.go":       "package a\n\nfunc Foo() {}\nfunc Bar() {}\n\nvar foo = 1\nlast",
		"b.txt":      "one\r\ntwo foo\r\nthree\r\n",
		"sub/c.py":   "def foo():\n    pass\n",
		"a/z.go":     "package z // foo\n",
		"bin":        "x\x00foo\n",
		".hidden":    "foo\n",
		".gitignore": "ignored\n",
		"ignored":    "foo\n",
		"bom.go":     "\xef\xbb\xbfpackage bom\n",
		"kelvin":     "\u212aelvin foOSe\n",
	})
	tests := []struct {
		name string
		req  execenv.GrepRequest
		want string
	}{
		{"files", execenv.GrepRequest{Pattern: "foo"}, "a.go\na/z.go\nb.txt\nbin binary\nsub/c.py\n"},
		{"all", execenv.GrepRequest{Pattern: "foo", All: true}, ".hidden\na.go\na/z.go\nb.txt\nbin binary\nignored\nsub/c.py\n"},
		{"content", execenv.GrepRequest{Pattern: `\bfoo\b`, Mode: execenv.GrepContent}, "a.go:6:var foo = 1\na/z.go:1:package z // foo\nb.txt:2:two foo\nbin binary\nsub/c.py:1:def foo():\n"},
		{"count", execenv.GrepRequest{Pattern: "func", Mode: execenv.GrepCount}, "a.go=2\n"},
		{"type", execenv.GrepRequest{Pattern: "foo", Type: "py"}, "sub/c.py\n"},
		{"glob", execenv.GrepRequest{Pattern: "foo", Glob: "*.{go,py}"}, "a.go\na/z.go\nsub/c.py\n"},
		{"glob with a directory", execenv.GrepRequest{Pattern: "foo", Glob: "a/**"}, "a/z.go\n"},
		{"glob to leave out", execenv.GrepRequest{Pattern: "foo", Glob: "!*.go"}, "b.txt\nbin binary\nsub/c.py\n"},
		{"case", execenv.GrepRequest{Pattern: "FOO", IgnoreCase: true, Type: "go"}, "a.go\na/z.go\n"},
		{"case beyond ASCII", execenv.GrepRequest{Pattern: "kelvin FOOS", IgnoreCase: true}, "kelvin\n"},
		{"line start", execenv.GrepRequest{Pattern: "^package", Mode: execenv.GrepCount}, "a.go=1\na/z.go=1\nbom.go=1\n"},
		{"line end", execenv.GrepRequest{Pattern: "three$", Mode: execenv.GrepContent}, "b.txt:3:three\n"},
		{"no literal", execenv.GrepRequest{Pattern: `^[v]?[a-z]+t$`, Mode: execenv.GrepContent, Glob: "*.go"}, "a.go:7:last\n"},
		{"alternatives", execenv.GrepRequest{Pattern: "Bar|two|pass", Mode: execenv.GrepContent}, "a.go:4:func Bar() {}\nb.txt:2:two foo\nsub/c.py:2:    pass\n"},
		{"only match", execenv.GrepRequest{Pattern: "[FB]o*a?r?", Mode: execenv.GrepContent, OnlyMatch: true, Glob: "a.go"}, "a.go:3:Foo\na.go:4:Bar\n"},
		{"context", execenv.GrepRequest{Pattern: "Foo|last", Mode: execenv.GrepContent, Before: 1, After: 1, Glob: "a.go"},
			"a.go-2-\na.go:3:func Foo() {}\na.go-4-func Bar() {}\n--\na.go-6-var foo = 1\na.go:7:last\n"},
		{"context that meets", execenv.GrepRequest{Pattern: "func|foo", Mode: execenv.GrepContent, Before: 2, After: 1, Glob: "a.go"},
			"a.go-1-package a\na.go-2-\na.go:3:func Foo() {}\na.go:4:func Bar() {}\na.go-5-\na.go:6:var foo = 1\na.go-7-last\n"},
		{"skip and limit", execenv.GrepRequest{Pattern: "foo", Skip: 1, Limit: 2}, "a/z.go\nb.txt\n"},
		{"multiline", execenv.GrepRequest{Pattern: `Foo.*Bar`, Multiline: true, Mode: execenv.GrepContent}, "a.go:3:func Foo() {}\na.go:4:func Bar() {}\n"},
		{"multiline with line starts", execenv.GrepRequest{Pattern: `^func \w+`, Multiline: true, OnlyMatch: true, Mode: execenv.GrepContent}, "a.go:3:func Foo\na.go:4:func Bar\n"},
		{"nowhere", execenv.GrepRequest{Pattern: "xyzzy"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Path = root
			if diff := cmp.Diff(tt.want, render(root, grep(t, tt.req))); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("one file, whatever the filters", func(t *testing.T) {
		got := render(root, grep(t, execenv.GrepRequest{Path: root + "/ignored", Pattern: "foo", Glob: "*.go", Type: "py"}))
		if got != "ignored\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("errors", func(t *testing.T) {
		e := files.New(files.Options{})
		for _, p := range []string{"(", "(?=x)", "(?<!a)b", `(a)\1`, `a\nb`} {
			if _, err := e.Grep(t.Context(), execenv.GrepRequest{Path: root, Pattern: p}); !errors.Is(err, execenv.ErrPattern) {
				t.Errorf("pattern %q: %v", p, err)
			}
		}
		if _, err := e.Grep(t.Context(), execenv.GrepRequest{Path: root + "/missing", Pattern: "x"}); !errors.Is(err, execenv.ErrNotFound) {
			t.Errorf("missing path: %v", err)
		}
		if _, err := e.Grep(t.Context(), execenv.GrepRequest{Path: root, Pattern: "x", Type: "klingon"}); !errors.Is(err, execenv.ErrPattern) {
			t.Errorf("unknown type: %v", err)
		}
	})
}

func TestGrep_patternsLikeOptionsAndShell(t *testing.T) {
	lines := []string{"--release", "-v", "->foo(", "--", "$HOME", "a|b", `'x" y`, "`id`", "; touch /tmp/pwned"}
	root := tree(t, map[string]string{"f": strings.Join(lines, "\n") + "\n"})
	for i, line := range lines {
		pattern := "^" + strings.NewReplacer("(", `\(`, "$", `\$`, "|", `\|`).Replace(line) + "$"
		got := grep(t, execenv.GrepRequest{Path: root, Pattern: pattern, Mode: execenv.GrepContent})
		if want := fmt.Sprintf("f:%d:%s\n", i+1, line); render(root, got) != want {
			t.Errorf("%q: got %q, want %q", pattern, render(root, got), want)
		}
	}
}

func TestGrep_longLine(t *testing.T) {
	root := tree(t, map[string]string{"f": "first\n" + strings.Repeat("é", 5<<20) + "needle" + strings.Repeat("ü", 5<<20) + "\nneedle\n"})
	res := grep(t, execenv.GrepRequest{Path: root, Pattern: "needle", Mode: execenv.GrepContent})
	if len(res.Rows) != 2 {
		t.Fatalf("%d rows", len(res.Rows))
	}
	r := res.Rows[0]
	if !r.Cut || r.Line != 2 || !strings.Contains(r.Text, "éneedleü") || len(r.Text) > 2000 || strings.ContainsRune(r.Text, '\uFFFD') {
		t.Errorf("row = line %d, cut %v, %d bytes", r.Line, r.Cut, len(r.Text))
	}
	if at := r.Offset + strings.Index(r.Text, "needle"); at != 10<<20 {
		t.Errorf("the piece says that the match is at %d", at)
	}
	if res.Rows[1].Line != 3 {
		t.Errorf("the second match is at line %d", res.Rows[1].Line)
	}
}

func TestGrep_stopsAtTheLimits(t *testing.T) {
	entries := make(map[string]string)
	for i := range 200 {
		entries[fmt.Sprintf("d%d/f%d", i%10, i)] = strings.Repeat("a match\n", 5000)
	}
	root := tree(t, entries)
	res := grep(t, execenv.GrepRequest{Path: root, Pattern: "match", Mode: execenv.GrepContent})
	size := 0
	for _, r := range res.Rows {
		size += len(r.Text)
	}
	if !res.Truncated || size > 32<<10 || size < 31<<10 {
		t.Errorf("truncated %v, %d bytes", res.Truncated, size)
	}
	res = grep(t, execenv.GrepRequest{Path: root, Pattern: "match", Mode: execenv.GrepContent, Skip: 3, Limit: 7})
	if !res.Truncated || len(res.Rows) != 7 || res.Rows[0].Line != 4 {
		t.Errorf("truncated %v, %d rows from line %d", res.Truncated, len(res.Rows), res.Rows[0].Line)
	}
	res = grep(t, execenv.GrepRequest{Path: root, Pattern: "match", Mode: execenv.GrepCount})
	if res.Truncated || len(res.Rows) != 200 || res.Rows[0].Count != 5000 {
		t.Errorf("truncated %v, %d rows", res.Truncated, len(res.Rows))
	}
}

// TestGrep_contextAcrossBlocks compares a search of a file far larger than a
// block with one of the same text line by line.
func TestGrep_contextAcrossBlocks(t *testing.T) {
	var text strings.Builder
	var want strings.Builder
	const lines, every = 40_000, 997
	line := func(i int) string { return fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%60)) }
	for i := 1; i <= lines; i++ {
		mark := ""
		if i%every == 0 {
			mark = " MARK"
		}
		fmt.Fprintf(&text, "%s%s\n", line(i), mark)
	}
	for i := every; i <= lines; i += every {
		if i > every {
			want.WriteString("--\n")
		}
		fmt.Fprintf(&want, "f-%d-%s\nf-%d-%s\n", i-2, line(i-2), i-1, line(i-1))
		fmt.Fprintf(&want, "f:%d:%s MARK\nf-%d-%s\n", i, line(i), i+1, line(i+1))
	}
	root := tree(t, map[string]string{"f": text.String()})
	res := grep(t, execenv.GrepRequest{Path: root, Pattern: "MARK", Mode: execenv.GrepContent, Before: 2, After: 1, MaxBytes: 1 << 20})
	if diff := cmp.Diff(want.String(), render(root, res)); diff != "" {
		t.Error(diff)
	}
}

func TestGrep_unreadableFileIsAWarning(t *testing.T) {
	root := tree(t, map[string]string{"a": "match\n", "b": "match\n"})
	e := files.New(files.Options{Refuse: func(path string, write bool) error {
		if filepath.Base(path) == "b" {
			return &execenv.PathError{Path: path, Err: execenv.ErrPermission}
		}
		return nil
	}})
	res, err := e.Grep(t.Context(), execenv.GrepRequest{Path: root, Pattern: "match"})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Rows) != 1 || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "/b: permission denied") {
		t.Errorf("rows %v, warnings %q", res.Rows, res.Warnings)
	}
}

func TestSnapshot(t *testing.T) {
	outside := tree(t, map[string]string{"x/SKILL.md": "far"})
	root := tree(t, map[string]string{
		"skills/one/SKILL.md": "one", "skills/one/.hidden": "", "skills/loop": "→ ..", "skills/far": "→ " + outside, "skills/file": "→ one/SKILL.md",
	})
	e := files.New(files.Options{})
	res, err := e.Snapshot(t.Context(), execenv.SnapshotRequest{Roots: []string{root + "/skills", root + "/missing"}, ContentName: "SKILL.md", MaxContent: 2})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range res.Files {
		got = append(got, strings.TrimPrefix(f, root+"/skills/"))
	}
	if diff := cmp.Diff([]string{"far/x/SKILL.md", "file", "one/.hidden", "one/SKILL.md"}, got); diff != "" {
		t.Error(diff)
	}
	if string(res.Contents[root+"/skills/far/x/SKILL.md"]) != "fa" || len(res.Contents) != 2 {
		t.Errorf("contents = %q", res.Contents)
	}
	res, err = e.Snapshot(t.Context(), execenv.SnapshotRequest{Roots: []string{root + "/skills"}, MaxFiles: 2})
	if err != nil || !res.Truncated || len(res.Files) != 2 {
		t.Errorf("limited: %d files, truncated %v, %v", len(res.Files), res.Truncated, err)
	}
}

func TestGrep_binaryWithoutLines(t *testing.T) {
	const block = 256 << 10 // where a search cuts a file without lines
	for _, at := range []int{9, block - 3, block + 1, 5 * block} {
		data := strings.Repeat("\x00", at) + "needle" + strings.Repeat("\x00", 6*block)
		root := tree(t, map[string]string{"bin": data})
		if got := render(root, grep(t, execenv.GrepRequest{Path: root, Pattern: "nee+dle", Mode: execenv.GrepContent})); got != "bin binary\n" {
			t.Errorf("at %d: %q", at, got)
		}
	}
}
