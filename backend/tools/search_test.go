package tools_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func (b *bench) lines(name string, input in) []string {
	b.t.Helper()
	return strings.Split(b.call(name, input, task.CallOK).Text, "\n")
}

func TestGlob(t *testing.T) {
	b := newBench(t)
	for _, f := range []string{".github/workflows/ci.yml", ".env", "src/a.ts", "src/b.tsx", "README"} {
		b.put(f, "x\n")
	}
	for name, c := range map[string]struct {
		in   in
		want []string
	}{
		"braces":        {in{"pattern": "**/*.{ts,tsx}"}, []string{"src/a.ts", "src/b.tsx"}},
		"dot directory": {in{"pattern": ".github/**/*.yml"}, []string{".github/workflows/ci.yml"}},
		"dot file":      {in{"pattern": "**/.env"}, []string{".env"}},
		"in a path":     {in{"pattern": "*.ts", "path": "src"}, []string{"src/a.ts"}},
		"hidden":        {in{"pattern": "**/*"}, []string{"README", "src/a.ts", "src/b.tsx"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := b.on(t).lines("Glob", c.in)
			if len(got) != len(c.want) {
				t.Fatalf("files = %q, want %q in any order", got, c.want)
			}
			for _, w := range c.want {
				if !strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+w+"\n") {
					t.Errorf("files = %q, want %q among them", got, w)
				}
			}
		})
	}
	b.call("Glob", in{"pattern": "*.nope"}, task.CallOK, "No files found")
	b.call("Glob", in{"pattern": "*", "path": "nowhere"}, task.CallError, "no such directory")
}

func TestGlob_isBounded(t *testing.T) {
	b := newBench(t)
	for i := range 230 {
		b.put(fmt.Sprintf("d/%03d", i), "")
	}
	r := b.call("Glob", in{"pattern": "d/*"}, task.CallOK, "(the newest 200 of 230 files")
	if d := r.Display.(tools.SearchDisplay); d.Rows != 200 || d.Total != 230 || !d.Truncated {
		t.Errorf("display = %+v", d)
	}
}

func TestGrep_modes(t *testing.T) {
	b := newBench(t)
	b.put("a.go", "one\nTwo\nthree two\nfour\nfive\nsix two\n")
	b.put("b.txt", "two\n")
	for name, c := range map[string]struct {
		in   in
		want string
	}{
		"files":            {in{"pattern": "two"}, "a.go\nb.txt"},
		"content":          {in{"pattern": "three", "output_mode": "content"}, "a.go:3:three two"},
		"no numbers":       {in{"pattern": "three", "output_mode": "content", "-n": false}, "a.go:three two"},
		"ignore case":      {in{"pattern": "^two", "output_mode": "content", "-i": true}, "a.go:2:Two\nb.txt:1:two"},
		"only the match":   {in{"pattern": "thr..", "output_mode": "content", "-o": true}, "a.go:3:three"},
		"count":            {in{"pattern": "two", "output_mode": "count"}, "a.go:2\nb.txt:1"},
		"context":          {in{"pattern": "four", "output_mode": "content", "-C": 1}, "a.go-3-three two\na.go:4:four\na.go-5-five"},
		"context wins":     {in{"pattern": "four", "output_mode": "content", "-C": 5, "context": 0}, "a.go:4:four"},
		"groups":           {in{"pattern": "one|six", "output_mode": "content", "-A": 1}, "a.go:1:one\na.go-2-Two\n--\na.go:6:six two"},
		"glob filter":      {in{"pattern": "two", "glob": "*.txt"}, "b.txt"},
		"type filter":      {in{"pattern": "two", "type": "go"}, "a.go"},
		"one file":         {in{"pattern": "two", "path": "b.txt", "glob": "*.go"}, "b.txt"},
		"multiline":        {in{"pattern": "four\nfive", "output_mode": "count", "multiline": true}, "a.go:1"},
		"offset and limit": {in{"pattern": "two", "output_mode": "content", "offset": 1, "head_limit": 1}, "a.go:6:six two\n(cut after 1 line; there are more: use offset=2 to go on, or narrow the search)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := b.on(t).call("Grep", c.in, task.CallOK).Text; got != c.want {
				t.Errorf("text = %q, want %q", got, c.want)
			}
		})
	}
}

func TestGrep_patternIsOnlyAPattern(t *testing.T) {
	b := newBench(t)
	text := []string{"--release", "-v", "->foo(", "--", "$HOME", "a|b", "'x\" y", "`id`", "; touch pwned"}
	b.put("f", strings.Join(text, "\n")+"\n")
	for pattern, line := range map[string]int{
		"--release": 1, "^-v": 2, `->foo\(`: 3, "^--$": 4, `\$HOME`: 5, `a\|b`: 6, `'x" y`: 7, "`id`": 8, "; touch pwned": 9,
	} {
		got := b.call("Grep", in{"pattern": pattern, "output_mode": "content"}, task.CallOK).Text
		if want := fmt.Sprintf("f:%d:%s", line, text[line-1]); got != want {
			t.Errorf("Grep(%q) = %q, want %q", pattern, got, want)
		}
	}
	if got := b.lines("Glob", in{"pattern": "*"}); len(got) != 1 {
		t.Errorf("the workspace holds %q, want only f", got)
	}
}

func TestGrep_errorIsNotNoMatch(t *testing.T) {
	b := newBench(t)
	b.put("f", "x\n")
	b.put("bin", "a\x00needle")
	b.put("long", strings.Repeat("a", 1<<20)+"needle"+strings.Repeat("b", 1<<20))
	b.call("Grep", in{"pattern": "("}, task.CallError, "invalid pattern")
	b.call("Grep", in{"pattern": "a(?=b)"}, task.CallError, "RE2")
	b.call("Grep", in{"pattern": "x", "type": "klingon"}, task.CallError)
	b.call("Grep", in{"pattern": "x", "path": "nowhere"}, task.CallError, "no such file or directory")
	b.call("Grep", in{"pattern": "nothing like it"}, task.CallOK, "No matches found.", `"-u": true`)
	if r := b.call("Grep", in{"pattern": "nothing like it", "-u": true}, task.CallOK); r.Text != "No matches found." {
		t.Errorf("text = %q", r.Text)
	}
	r := b.call("Grep", in{"pattern": "needle", "output_mode": "content"}, task.CallOK, "bin: binary file matches", "long:1:[…at byte ")
	if len(r.Text) > 5000 || !strings.Contains(r.Text, "needle") {
		t.Errorf("text has %d bytes", len(r.Text))
	}
}

func TestGrep_isBounded(t *testing.T) {
	b := newBench(t)
	b.put("f", strings.Repeat("match\n", 100_000))
	r := b.call("Grep", in{"pattern": "match", "output_mode": "content"}, task.CallOK, "(cut after 250 lines", "offset=250")
	if d := r.Display.(tools.SearchDisplay); d.Rows != 250 || !d.Truncated {
		t.Errorf("display = %+v", d)
	}
	r = b.call("Grep", in{"pattern": "match", "output_mode": "content", "head_limit": 0}, task.CallOK, "(cut after ")
	if len(r.Text) > 33<<10 {
		t.Errorf("without a limit the text has %d bytes", len(r.Text))
	}
}
