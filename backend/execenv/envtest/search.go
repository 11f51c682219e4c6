package envtest

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func (s *suite) glob(pattern string, all bool) string {
	s.Helper()
	r, err := s.env.Glob(s.ctx(), execenv.GlobRequest{Base: s.dir, Pattern: pattern, All: all})
	s.must(err)
	var out []string
	for _, f := range r.Files {
		out = append(out, strings.TrimPrefix(f.Path, s.dir+"/"))
	}
	return strings.Join(out, " ")
}

func testGlob(s *suite) {
	s.do(`mkdir -p .github/workflows src/deep build; touch .github/workflows/ci.yml .env src/a.ts src/b.tsx src/deep/c.ts build/x.ts a.log
		ln -s .. src/loop; ln -s src link; ln -s /etc out; printf 'build/\n*.log\n' >.gitignore
		find . -type f -exec touch -d '2024-01-01 00:00:00' {} +; touch src/deep/c.ts`)
	for _, tt := range []struct {
		pattern string
		all     bool
		want    string
	}{
		{".github/**/*.yml", false, ".github/workflows/ci.yml"},
		{"**/.env", false, ".env"},
		{"**/*.{ts,tsx}", false, "src/deep/c.ts src/a.ts src/b.tsx"},
		{"*.{ts,tsx}", false, ""},
		{"src/*", false, "src/a.ts src/b.tsx"},
		{"link/*.ts", false, "link/a.ts"},
		{"**/*.log", false, ""},
		{"**/*.log", true, "a.log"},
		{"**/x.ts", true, "build/x.ts"},
		{"out/*", true, ""},
		{"[ab].log", true, "a.log"},
	} {
		if got := s.glob(tt.pattern, tt.all); got != tt.want {
			s.Errorf("glob %s, all %v: %q, want %q", tt.pattern, tt.all, got, tt.want)
		}
	}
	if got := s.glob("**/*", true); strings.Contains(got, "out/") || strings.Count(got, "a.ts") != 1 {
		s.Errorf("everything: %s", got)
	}
	r, err := s.env.Glob(s.ctx(), execenv.GlobRequest{Base: s.dir, Pattern: "**/*.ts*", Limit: 1})
	s.must(err)
	if len(r.Files) != 1 || r.Total != 3 || !r.Truncated {
		s.Errorf("limited: %+v", r)
	}
	_, err = s.env.Glob(s.ctx(), execenv.GlobRequest{Base: s.path("gone"), Pattern: "*"})
	s.is("a base that is gone", err, execenv.ErrNotFound)
	_, err = s.env.Glob(s.ctx(), execenv.GlobRequest{Base: s.dir, Pattern: "["})
	s.is("a pattern", err, execenv.ErrPattern)
}

// rows writes the rows of a search as grep would.
func (s *suite) rows(r execenv.GrepRequest) string {
	s.Helper()
	if r.Path == "" {
		r.Path = s.dir
	}
	res, err := s.env.Grep(s.ctx(), r)
	s.must(err)
	var b strings.Builder
	for _, row := range res.Rows {
		if row.Break {
			b.WriteString("--\n")
		}
		mark := ":"
		if row.Context {
			mark = "-"
		}
		fmt.Fprintf(&b, "%s%s%d%s%s", strings.TrimPrefix(row.Path, s.dir+"/"), mark, max(row.Line, row.Count), mark, row.Text)
		if row.Binary {
			b.WriteString("binary")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func testGrep(s *suite) {
	s.put("a.go", "package a\n\nfunc Foo() {}\nfunc Bar() {}\n\nvar foo = 1\n")
	s.put("b/c.py", "def foo():\r\n    pass\r\n")
	s.put("bin", "x\x00foo\n")
	s.put(".hidden", "foo\n")
	s.put("odd", "--release\n-v\n->foo(\n$HOME\na|b\n; touch pwned\n")
	content := execenv.GrepContent
	for _, tt := range []struct {
		req  execenv.GrepRequest
		want string
	}{
		{execenv.GrepRequest{Pattern: "foo"}, "a.go:0:\nb/c.py:0:\nbin:0:binary\nodd:0:\n"},
		{execenv.GrepRequest{Pattern: "foo", All: true, Glob: ".hid*"}, ".hidden:0:\n"},
		{execenv.GrepRequest{Pattern: `foo\(`, Mode: content}, "b/c.py:1:def foo():\nodd:3:->foo(\n"},
		{execenv.GrepRequest{Pattern: "FOO", IgnoreCase: true, Type: "go", Mode: execenv.GrepCount}, "a.go:2:\n"},
		{execenv.GrepRequest{Pattern: "Foo|foo", Glob: "*.go", Mode: content, Before: 1}, "a.go-2-\na.go:3:func Foo() {}\n--\na.go-5-\na.go:6:var foo = 1\n"},
		{execenv.GrepRequest{Pattern: `\w+\(\)`, Glob: "*.go", Mode: content, OnlyMatch: true}, "a.go:3:Foo()\na.go:4:Bar()\n"},
		{execenv.GrepRequest{Pattern: `Foo.*Bar`, Mode: content, Multiline: true}, "a.go:3:func Foo() {}\na.go:4:func Bar() {}\n"},
		{execenv.GrepRequest{Pattern: "--release", Mode: content}, "odd:1:--release\n"},
		{execenv.GrepRequest{Pattern: "^-v$", Mode: content}, "odd:2:-v\n"},
		{execenv.GrepRequest{Pattern: `\$HOME|a\|b`, Mode: content}, "odd:4:$HOME\nodd:5:a|b\n"},
		{execenv.GrepRequest{Pattern: "; touch pwned", Mode: content}, "odd:6:; touch pwned\n"},
		{execenv.GrepRequest{Pattern: "foo", Skip: 1, Limit: 2}, "b/c.py:0:\nbin:0:binary\n"},
		{execenv.GrepRequest{Pattern: "xyzzy"}, ""},
		{execenv.GrepRequest{Pattern: "foo", Path: s.path(".hidden"), Glob: "*.go"}, ".hidden:0:\n"},
	} {
		if diff := cmp.Diff(tt.want, s.rows(tt.req)); diff != "" {
			s.Errorf("%+v: %s", tt.req, diff)
		}
	}
	for what, r := range map[string]execenv.GrepRequest{"an open group": {Pattern: "("}, "look-ahead": {Pattern: "(?=x)"}, "a type": {Pattern: "x", Type: "klingon"}} {
		r.Path = s.dir
		_, err := s.env.Grep(s.ctx(), r)
		s.is(what, err, execenv.ErrPattern)
	}
	_, err := s.env.Grep(s.ctx(), execenv.GrepRequest{Path: s.path("gone"), Pattern: "x"})
	s.is("a path that is gone", err, execenv.ErrNotFound)

	s.do("(head -c 10000000 /dev/zero | tr '\\0' a; echo needle | tr -d '\\n'; head -c 10000000 /dev/zero | tr '\\0' b) >long; yes 'one match' | head -n 1000000 >many")
	res, err := s.env.Grep(s.ctx(), execenv.GrepRequest{Path: s.path("long"), Pattern: "needle", Mode: content})
	s.must(err)
	if len(res.Rows) != 1 || !res.Rows[0].Cut || !strings.Contains(res.Rows[0].Text, "aneedleb") || len(res.Rows[0].Text) > 2000 {
		s.Errorf("a long line: %d rows", len(res.Rows))
	}
	res, err = s.env.Grep(s.ctx(), execenv.GrepRequest{Path: s.dir, Pattern: "one match", Mode: content})
	s.must(err)
	if !res.Truncated || len(res.Rows) < 1000 || len(res.Rows) > 32<<10/len("one match") {
		s.Errorf("many matches: %d rows, truncated %v", len(res.Rows), res.Truncated)
	}
}

func testSnapshot(s *suite) {
	s.put("skills/one/SKILL.md", "one")
	s.put("skills/one/run.sh", "")
	s.put("skills/two/SKILL.md", "two")
	s.do("ln -s .. skills/two/loop")
	r, err := s.env.Snapshot(s.ctx(), execenv.SnapshotRequest{Roots: []string{s.path("skills"), s.path("gone")}, ContentName: "SKILL.md"})
	s.must(err)
	want := execenv.SnapshotResult{
		Files:    []string{s.path("skills/one/SKILL.md"), s.path("skills/one/run.sh"), s.path("skills/two/SKILL.md")},
		Contents: map[string][]byte{s.path("skills/one/SKILL.md"): []byte("one"), s.path("skills/two/SKILL.md"): []byte("two")},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		s.Error(diff)
	}
}
