package tools

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func TestElide_cutsBetweenCharacters(t *testing.T) {
	whole := strings.Repeat("你😀é", 100)
	for at := range 12 { // the stream was cut inside a character on both sides
		c := execenv.Captured{Head: []byte(whole[:100+at]), Tail: []byte(whole[len(whole)-100-at:]), Total: int64(len(whole))}
		text, cut := elide(c, 1000)
		if strings.Contains(text, "\uFFFD") {
			t.Errorf("cut at %d: %q", at, text)
		}
		head, rest, _ := strings.Cut(text, "\n[…")
		_, tail, _ := strings.Cut(rest, "…]\n")
		if !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail) || int(cut) != len(whole)-len(head)-len(tail) {
			t.Errorf("cut at %d: head %q, tail %q, %d bytes cut", at, head, tail, cut)
		}
	}
}

func FuzzElide(f *testing.F) {
	f.Add([]byte("abc"), []byte("def"), int64(3), 4)
	f.Add([]byte("\xff\xc3"), []byte("\xa9"), int64(0), 2)
	f.Fuzz(func(t *testing.T, head, tail []byte, dropped int64, limit int) {
		if dropped < 0 || dropped > 1<<40 || limit < 0 || limit > 1<<16 {
			return
		}
		text, cut := elide(execenv.Captured{Head: head, Tail: tail, Total: int64(len(head)+len(tail)) + dropped}, limit)
		if !utf8.ValidString(text) || utf8.RuneCountInString(text) > limit+100 {
			t.Errorf("%d characters for a limit of %d, valid %v", utf8.RuneCountInString(text), limit, utf8.ValidString(text))
		}
		if cut < dropped {
			t.Errorf("%d bytes cut, though %d were dropped before", cut, dropped)
		}
	})
}

func TestUnified_manyLines(t *testing.T) {
	var b strings.Builder
	for i := range 120_000 { // more than there are runes below the surrogates
		fmt.Fprintln(&b, i)
	}
	before := b.String()
	after := strings.Replace(before, "\n70000\n", "\nseventy thousand\n", 1)
	diff, added, removed := unified("f", []byte(before), []byte(after))
	want := "--- a/f\n+++ b/f\n@@ -69998,7 +69998,7 @@\n 69997\n 69998\n 69999\n-70000\n+seventy thousand\n 70001\n 70002\n 70003\n"
	if diff != want || added != 1 || removed != 1 {
		t.Errorf("diff (%d added, %d removed) = %.500q, want %q", added, removed, diff, want)
	}
}

func FuzzCompare(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nB\nc")
	f.Add("", "x")
	f.Add("a\r\nb", "b\r\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		before, after = clean(before), clean(after)
		var was, is strings.Builder
		for _, l := range compare(before, after) {
			if l.op != '+' {
				was.WriteString(l.text)
			}
			if l.op != '-' {
				is.WriteString(l.text)
			}
		}
		if was.String() != before || is.String() != after {
			t.Errorf("compare(%q, %q) shows %q and %q", before, after, was.String(), is.String())
		}
	})
}
