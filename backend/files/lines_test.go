package files

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// FuzzLineScanner holds that it does not matter in which pieces a text comes,
// and that the lines are those of a plain split.
func FuzzLineScanner(f *testing.F) {
	f.Add([]byte("one\r\ntwo\n\nthree"), uint8(1), uint8(3), uint8(2), uint8(7), uint16(100))
	f.Add([]byte("\xef\xbb\xbfé€😀\r\n\xff\n\r\r\n"), uint8(1), uint8(9), uint8(3), uint8(1), uint16(9))
	f.Add([]byte("a\nb\nc\n"), uint8(2), uint8(1), uint8(0), uint8(2), uint16(0))
	f.Fuzz(func(t *testing.T, text []byte, start, lines, maxLine, piece uint8, maxBytes uint16) {
		r := execenv.ReadRequest{StartLine: int(start), Lines: int(lines) + 1, MaxLine: int(maxLine) + 4, MaxBytes: int64(maxBytes) + 4}
		whole, pieces := newLineScanner(r), newLineScanner(r)
		whole.feed(text)
		whole.finish(true)
		for rest := text; len(rest) > 0; {
			n := min(int(piece)+1, len(rest))
			pieces.feed(rest[:n])
			rest = rest[n:]
		}
		pieces.finish(true)
		if diff := cmp.Diff(whole.out, pieces.out); diff != "" || whole.total != pieces.total || whole.truncated != pieces.truncated {
			t.Fatalf("in pieces: %s total %d and %d", diff, whole.total, pieces.total)
		}

		want := strings.Split(string(text), "\n")
		last := len(want) - 1
		if want[last] == "" {
			want = want[:last]
		}
		if whole.total != len(want) {
			t.Fatalf("%d lines, want %d", whole.total, len(want))
		}
		for _, l := range whole.out {
			line := want[l.Number-1]
			if l.Number-1 < last {
				line = strings.TrimSuffix(line, "\r")
			}
			if l.Number == 1 {
				line = strings.TrimPrefix(line, string(bom))
			}
			kept := len(line) - int(l.Cut)
			if kept < 0 || kept > r.MaxLine || !utf8.ValidString(l.Text) {
				t.Fatalf("line %d: %q, cut %d, of %q", l.Number, l.Text, l.Cut, line)
			}
			if l.Text != string([]rune(line[:kept])) {
				t.Fatalf("line %d is %q, want %q", l.Number, l.Text, line[:kept])
			}
			if utf8.ValidString(line) && !utf8.ValidString(line[:kept]) {
				t.Fatalf("line %d is cut within a character", l.Number)
			}
		}
	})
}

// FuzzMatcher holds the search by needles against the plain regular expression.
func FuzzMatcher(f *testing.F) {
	f.Add("foo|bar+baz", []byte("a\nxfoo\r\nBARbaz\n\nbarrbaz"), false)
	f.Add("(?:Kelvin|sose)x?", []byte("\u212aelvin\nſoſe\nKELVIN"), true)
	f.Add("^a.*z$", []byte("az\r\nab\nabz"), true)
	f.Add("a\r", []byte("a\r\nA\r\r\n\r"), true)
	f.Fuzz(func(t *testing.T, pattern string, text []byte, fold bool) {
		m, err := newMatcher(pattern, fold, false)
		if err != nil {
			return
		}
		var got, want []int
		var c cursor
		c.reset()
		for pos := 0; ; {
			start, end, ok := m.line(&c, text, pos)
			if !ok {
				break
			}
			got = append(got, start)
			pos = end + 1
		}
		at := 0
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if (at < len(text)) && m.re.Match(trimReturn(line)) {
				want = append(want, at)
			}
			at += len(line) + 1
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q in %q, fold %v: %s", pattern, text, fold, diff)
		}
	})
}
