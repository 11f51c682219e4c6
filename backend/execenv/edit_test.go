package execenv_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func TestApplyEdit(t *testing.T) {
	const bom = "\xef\xbb\xbf"
	tests := []struct {
		name, content, old, new string
		all                     bool
		want                    string
		replaced, first         int
	}{
		{name: "plain", content: "a\nb\nc\n", old: "b", new: "B", want: "a\nB\nc\n", replaced: 1, first: 2},
		{name: "crlf file, lf request", content: "alpha\r\nbeta\r\ngamma\r\n", old: "alpha\nbeta", new: "ALPHA\nBETA\nNEW", want: "ALPHA\r\nBETA\r\nNEW\r\ngamma\r\n", replaced: 1, first: 1},
		{name: "lf file, crlf request", content: "a\nb\nc\n", old: "a\r\nb", new: "A\r\nB", want: "A\nB\nc\n", replaced: 1, first: 1},
		{name: "mixed file, one byte", content: "a\r\nb\nc\r\n", old: "b", new: "B", want: "a\r\nB\nc\r\n", replaced: 1, first: 2},
		{name: "new lines take the ending of the place", content: "a\r\nb\r\nc\nd\n", old: "b", new: "b\nx", want: "a\r\nb\r\nx\r\nc\nd\n", replaced: 1, first: 2},
		{name: "last line without an end", content: "a\r\nb", old: "b", new: "b\nx", want: "a\r\nb\r\nx", replaced: 1, first: 2},
		{name: "begins with a line end", content: "a\r\nb\r\n", old: "\nb", new: "\nB\nC", want: "a\r\nB\r\nC\r\n", replaced: 1, first: 1},
		{name: "bom stays", content: bom + "hello\nтест é\n", old: "hello", new: "hello2", want: bom + "hello2\nтест é\n", replaced: 1, first: 1},
		{name: "bom in the request", content: bom + "hello\n", old: bom + "hello", new: bom + "bye", want: bom + "bye\n", replaced: 1, first: 1},
		{name: "no bom gained", content: "hello\n", old: "hello", new: bom + "bye", want: "bye\n", replaced: 1, first: 1},
		{name: "no overlap", content: "aaa", old: "aa", new: "b", all: true, want: "ba", replaced: 1, first: 1},
		{name: "all", content: "x\nyx\nx", old: "x", new: "xx", all: true, want: "xx\nyxx\nxx", replaced: 3, first: 1},
		{name: "a curly quote stays", content: "“Hello.” he said\n", old: "Hello.", new: "Hi \"you\".", want: "“Hi \"you\".” he said\n", replaced: 1, first: 1},
		{name: "deletion", content: "a\r\nb\r\nc\r\n", old: "b\n", new: "", want: "a\r\nc\r\n", replaced: 1, first: 2},
	}
	for _, literal := range []string{"$&", "$$", "$1", "${HOME}", `\1`, "&", `\n`, "`id`", "$(touch /tmp/x)", `'"`, "%s", "{{.}}", "EOF"} {
		tests = append(tests, struct {
			name, content, old, new string
			all                     bool
			want                    string
			replaced, first         int
		}{name: "literal " + literal, content: "A X B X C", old: "X", new: literal, all: true,
			want: strings.ReplaceAll("A X B X C", "X", literal), replaced: 2, first: 1})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			content := []byte(tt.content)
			got, replaced, first, err := execenv.ApplyEdit(content, execenv.EditRequest{Old: tt.old, New: tt.new, ReplaceAll: tt.all})
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want || replaced != tt.replaced || first != tt.first {
				t.Errorf("ApplyEdit() = %q, %d, %d, want %q, %d, %d", got, replaced, first, tt.want, tt.replaced, tt.first)
			}
			if string(content) != tt.content {
				t.Error("the content given was changed")
			}
		})
	}
}

func TestApplyEdit_errors(t *testing.T) {
	tests := []struct {
		name, content, old, new string
		all                     bool
		want                    error
		detail                  string
	}{
		{"twice", "foo\nfoo\n", "foo", "bar", false, execenv.ErrAmbiguous, "2 matches, at lines 1, 2"},
		{"empty", "foo", "", "bar", false, execenv.ErrInvalid, "empty"},
		{"empty, all", "foo", "", "bar", true, execenv.ErrInvalid, "empty"},
		{"same", "foo", "foo", "foo", false, execenv.ErrNoChange, ""},
		{"same but for line ends", "a\nb\n", "a\nb", "a\r\nb", false, execenv.ErrNoChange, "line ends"},
		{"nothing", "foo", "bar", "baz", false, execenv.ErrNoMatch, "read the file again"},
		{"quotes", "x\nsay “Hello.”\n", `say "Hello."`, "y", false, execenv.ErrNoMatch, "line 2 and differs in typographic quotes"},
		{"accents", "x\ny\ncafe\u0301\n", "café", "y", false, execenv.ErrNoMatch, "line 3 and differs in the Unicode form"},
		{"trailing space", "a \nb\n", "a\nb", "c", false, execenv.ErrNoMatch, "line 1 and differs in space at the ends"},
		{"indentation", "\tif x {\n\t\ty\n", "if x {\n    y", "c", false, execenv.ErrNoMatch, "line 1 and differs in indentation"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, _, err := execenv.ApplyEdit([]byte(tt.content), execenv.EditRequest{Path: "/f", Old: tt.old, New: tt.new, ReplaceAll: tt.all})
			if !errors.Is(err, tt.want) {
				t.Fatalf("ApplyEdit() = %v, want %v", err, tt.want)
			}
			var p *execenv.PathError
			if !errors.As(err, &p) || p.Path != "/f" || !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("detail = %q, want one with %q", p.Detail, tt.detail)
			}
		})
	}
}

// FuzzApplyEdit holds edits against plain replacement on a text without \r, and
// the promises that hold for any text.
func FuzzApplyEdit(f *testing.F) {
	f.Add([]byte("a\r\nb\nc"), "a\nb", "x\ny", true)
	f.Add([]byte("\xef\xbb\xbfhello"), "hello", "bye", false)
	f.Add([]byte("a\r\n\nb"), "\n", "", true)
	f.Fuzz(func(t *testing.T, content []byte, old, new string, all bool) {
		before := bytes.Clone(content)
		after, replaced, first, err := execenv.ApplyEdit(content, execenv.EditRequest{Old: old, New: new, ReplaceAll: all})
		if !bytes.Equal(content, before) {
			t.Fatal("the content given was changed")
		}
		if err != nil {
			if after != nil {
				t.Fatal("an error came with content")
			}
			return
		}
		if replaced < 1 || first < 1 || !all && replaced != 1 {
			t.Fatalf("replaced %d, first line %d", replaced, first)
		}
		if bytes.Equal(after, content) {
			t.Fatal("a success changed nothing")
		}
		bom := []byte("\xef\xbb\xbf")
		if bytes.HasPrefix(content, bom) != bytes.HasPrefix(after, bom) && !bytes.HasPrefix(content[min(len(content), len(old)):], bom) {
			t.Fatal("a byte order mark came or went")
		}
		if !bytes.ContainsRune(content, '\r') && !strings.ContainsAny(old+new, "\r\uFEFF") && !bytes.Contains(content, bom) {
			if want := strings.ReplaceAll(string(content), old, new); string(after) != want {
				t.Fatalf("got %q, want %q", after, want)
			}
		}
	})
}
