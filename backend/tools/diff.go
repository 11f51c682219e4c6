package tools

import (
	"fmt"
	"strings"
	"time"

	"github.com/sergi/go-diff/diffmatchpatch"
)

const (
	diffContext = 3         // unchanged lines on either side of a change
	maxDiff     = 256 << 10 // bytes of a diff; a longer one is left out
)

// diffLine is one line of a comparison: kept (' '), removed ('-') or added ('+').
type diffLine struct {
	op   byte
	text string // with its line ending, if it has one
}

// unified returns the difference of two contents as a unified diff, and how
// many lines were added and removed. It is for people: bytes that are not
// UTF-8 show as U+FFFD.
func unified(name string, before, after []byte) (diff string, added, removed int) {
	all := compare(clean(string(before)), clean(string(after)))
	for _, l := range all {
		switch l.op {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- a/%[1]s\n+++ b/%[1]s\n", strings.TrimPrefix(name, "/"))
	oldLine, newLine := 1, 1
	for i := 0; i < len(all); {
		first, last, ok := nextHunk(all, i)
		if !ok {
			break
		}
		oldLine, newLine = oldLine+first-i, newLine+first-i // only kept lines lie between
		hunk := all[first:last]
		oldCount, newCount := 0, 0
		for _, l := range hunk {
			if l.op != '+' {
				oldCount++
			}
			if l.op != '-' {
				newCount++
			}
		}
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", span(oldLine, oldCount), span(newLine, newCount))
		for _, l := range hunk {
			b.WriteByte(l.op)
			b.WriteString(l.text)
			if !strings.HasSuffix(l.text, "\n") {
				b.WriteString("\n\\ No newline at end of file\n")
			}
		}
		if b.Len() > maxDiff {
			return "", added, removed
		}
		oldLine, newLine, i = oldLine+oldCount, newLine+newCount, last
	}
	if added+removed == 0 {
		return "", 0, 0
	}
	return b.String(), added, removed
}

// compare lines up two texts.
func compare(before, after string) []diffLine {
	d := diffmatchpatch.New()
	d.DiffTimeout = time.Second // past it the result is right but not minimal
	a, b, table := d.DiffLinesToRunes(before, after)
	var all []diffLine
	for _, part := range d.DiffCharsToLines(d.DiffMainRunes(a, b, false), table) {
		op := byte(' ')
		switch part.Type {
		case diffmatchpatch.DiffDelete:
			op = '-'
		case diffmatchpatch.DiffInsert:
			op = '+'
		}
		for line := range strings.SplitAfterSeq(part.Text, "\n") {
			if line != "" {
				all = append(all, diffLine{op, line})
			}
		}
	}
	return all
}

// nextHunk returns the range of the next changes at or after from, with their
// context; changes closer than two contexts share a hunk.
func nextHunk(all []diffLine, from int) (first, last int, ok bool) {
	i := from
	for i < len(all) && all[i].op == ' ' {
		i++
	}
	if i == len(all) {
		return 0, 0, false
	}
	first, last = max(from, i-diffContext), i
	for ; i < len(all) && i-last <= 2*diffContext; i++ {
		if all[i].op != ' ' {
			last = i + 1
		}
	}
	return first, min(last+diffContext, len(all)), true
}

// span writes a hunk's range: an empty one counts from the line before it.
func span(line, n int) string {
	if n == 0 {
		line--
	}
	return fmt.Sprintf("%d,%d", line, n)
}
