package tools

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Limits of what a model gets of a page, in characters.
const (
	maxBrowserPage    = 40_000  // of a page's text in one answer
	maxBrowserList    = 20_000  // of its elements
	maxBrowserDisplay = 4_000   // of both on a card
	maxSnapshot       = 1 << 20 // bytes of a page's text that can be asked for in all
)

// window is the part of a look that a model gets. The zero window is the
// beginning of the text and of the elements.
type window struct {
	offset int  // characters of the page's text before it
	skip   int  // elements before it
	page   bool // the text holds the page itself, before its elements
	newest bool // it is a list, of which the end counts
}

var (
	tabLine     = regexp.MustCompile(`(?m)^Tab \d+ \([^)]*\): .*\n`)
	elementLine = regexp.MustCompile(`^\[\d+\] `)
)

const elementsHeader = "# Interactive elements\n"

// of cuts a look's text: what a call has to tell stays whole, the page's text and
// the list of its elements are shown from where the window begins, and what is
// left out of each is said with how to get it.
func (w window) of(text string) string {
	text = clean(text)
	if w.newest {
		return newest(text)
	}
	head, page, list := "", "", text
	if w.page {
		if at := strings.LastIndex(text, "\n"+elementsHeader); at >= 0 {
			page, list = text[:at], text[at+1+len(elementsHeader):]
		}
		if at := tabLine.FindStringIndex(page); at != nil {
			head, page = page[:at[1]], page[at[1]:]
		}
	}
	var b strings.Builder
	b.WriteString(head)
	if page != "" {
		b.WriteString(w.pageText(page))
		b.WriteString("\n" + elementsHeader)
	}
	b.WriteString(w.elements(list))
	return b.String()
}

func (w window) pageText(page string) string {
	note := ""
	if len(page) > maxSnapshot {
		page = strings.ToValidUTF8(page[:maxSnapshot], "")
		note = "\n[The page's text is longer than 1 MiB; it is cut there, and the rest cannot be read this way.]\n"
	}
	total := utf8.RuneCountInString(page)
	if w.offset >= total && w.offset > 0 {
		return fmt.Sprintf("[offset %s is past the end: the page's text has %s.]\n", thousands(int64(w.offset)), count(total, "character"))
	}
	shown := firstPart(skipRunes(page, w.offset), maxBrowserPage)
	end := w.offset + utf8.RuneCountInString(shown)
	if end < total {
		note = fmt.Sprintf("\n[Characters %s to %s of %s of the page's text are shown: browser_extract with offset=%d goes on.]\n",
			thousands(int64(w.offset)), thousands(int64(end)), thousands(int64(total)), end)
	}
	return shown + note
}

// elements cuts a list between its lines. A line that is no element, as the name
// of a frame, goes with the element after it.
func (w window) elements(list string) string {
	var b strings.Builder
	room := maxBrowserList
	seen, shown, cut := 0, 0, false
	for line := range strings.Lines(list) {
		is := elementLine.MatchString(line)
		if is {
			seen++
		}
		if is && seen <= w.skip || !is && seen < w.skip {
			continue
		}
		n := utf8.RuneCountInString(line)
		if cut = cut || n > room; cut {
			continue
		}
		room -= n
		if is {
			shown++
		}
		b.WriteString(line)
	}
	switch left := seen - w.skip - shown; {
	case left > 0:
		fmt.Fprintf(&b, "[%s not shown: browser_extract with skip_elements=%d lists them; a selector reaches them too.]\n", areMore(left), w.skip+shown)
	case cut:
		b.WriteString("[The rest is left out.]\n")
	}
	return b.String()
}

func areMore(n int) string {
	if n == 1 {
		return "1 more element is"
	}
	return thousands(int64(n)) + " more elements are"
}

// newest returns the last lines of a list that is too long.
func newest(list string) string {
	lines := strings.SplitAfter(list, "\n")
	room, from := maxBrowserList, len(lines)
	for from > 0 && room >= utf8.RuneCountInString(lines[from-1]) {
		from--
		room -= utf8.RuneCountInString(lines[from])
	}
	if from == 0 {
		return list
	}
	return fmt.Sprintf("[%s older left out]\n", count(from, "line")) + strings.Join(lines[from:], "")
}

// firstPart returns at most n characters of the beginning of s.
func firstPart(s string, n int) string {
	return s[:len(s)-len(skipRunes(s, n))]
}

// skipRunes returns s without its first n characters.
func skipRunes(s string, n int) string {
	for ; n > 0 && s != ""; n-- {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	return s
}
