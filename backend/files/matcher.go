package files

import (
	"bytes"
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// maxNeedles is how many texts a matcher looks for at once; a pattern that
// needs more is tried on every line.
const maxNeedles = 8

// matcher finds the lines that a regular expression matches. Most expressions
// need one of a few texts to be in a line, and those are far cheaper to find
// than a match: the expression is tried only on the lines that hold one.
type matcher struct {
	re      *regexp.Regexp
	needles []needle // a match holds one of them; none means that nothing is known
	whole   bool     // what holds a needle matches
}

// needle is a text that is looked for.
type needle struct {
	text string // lower case when fold is set
	fold bool   // in any case, of ASCII letters
	rare int    // index of the byte that is looked for first, when fold is set
}

// newMatcher compiles a pattern. In multiline mode ^ and $ match at every line,
// and a dot matches line ends; otherwise no match may span lines.
func newMatcher(pattern string, ignoreCase, multiline bool) (*matcher, error) {
	flags := syntax.Perl
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	prefix := ""
	if ignoreCase {
		prefix = "(?i)"
	}
	if multiline {
		flags = flags&^syntax.OneLine | syntax.DotNL
		prefix += "(?sm)"
	}
	tree, err := syntax.Parse(pattern, flags)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(prefix + "(?:" + pattern + ")")
	if err != nil {
		return nil, err
	}
	if !multiline && spansLines(tree) {
		return nil, errors.New(`the pattern holds a line end (\n): search with multiline`)
	}
	m := &matcher{re: re}
	m.needles, m.whole = needs(tree.Simplify())
	if len(m.needles) > maxNeedles {
		m.needles, m.whole = nil, false
	}
	return m, nil
}

// Needles returns up to eight texts of which every match of a Grep's pattern
// holds at least one, and whether they are found in any case of ASCII letters;
// none means that nothing is known. It lets who searches elsewhere leave out
// what cannot match.
func Needles(r execenv.GrepRequest) (texts []string, fold bool) {
	m, err := newMatcher(r.Pattern, r.IgnoreCase, r.Multiline)
	if err != nil {
		return nil, false
	}
	for _, n := range m.needles {
		texts, fold = append(texts, n.text), fold || n.fold
	}
	return texts, fold
}

// spansLines reports whether re names a line end as such; a class that holds
// one, as \s does, is no sign of intent.
func spansLines(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral {
		for _, r := range re.Rune {
			if r == '\n' {
				return true
			}
		}
	}
	for _, sub := range re.Sub {
		if spansLines(sub) {
			return true
		}
	}
	return false
}

// needs returns texts of which every match of re holds at least one, and
// whether holding one is all that a match takes.
func needs(re *syntax.Regexp) (needles []needle, whole bool) {
	switch re.Op {
	case syntax.OpLiteral:
		n, whole := literalNeedle(re)
		if n.text == "" {
			return nil, false
		}
		return []needle{n}, whole
	case syntax.OpCapture:
		return needs(re.Sub[0])
	case syntax.OpPlus:
		needles, _ := needs(re.Sub[0])
		return needles, false
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if n, _ := needs(sub); worth(n) > worth(needles) {
				needles = n
			}
		}
		return needles, false
	case syntax.OpAlternate:
		whole := true
		for _, sub := range re.Sub {
			n, w := needs(sub)
			if len(n) == 0 {
				return nil, false
			}
			needles, whole = append(needles, n...), whole && w
		}
		return needles, whole
	}
	return nil, false
}

// worth ranks sets of needles: the shortest text decides, then their number.
func worth(needles []needle) int {
	if len(needles) == 0 || len(needles) > maxNeedles {
		return 0
	}
	shortest := len(needles[0].text)
	for _, n := range needles {
		shortest = min(shortest, len(n.text))
	}
	return shortest*maxNeedles + maxNeedles - len(needles)
}

// literalNeedle returns the text of a literal, or, where case is folded, the
// longest part of it whose folding stays within ASCII: k and s have partners
// outside of it. A text that ends in a carriage return is not all that a match
// takes: the one before a line end is no part of the line.
func literalNeedle(re *syntax.Regexp) (n needle, whole bool) {
	text := string(re.Rune)
	if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
		return needle{}, false
	}
	if re.Flags&syntax.FoldCase == 0 {
		return needle{text: text}, !strings.HasSuffix(text, "\r")
	}
	text = strings.ToLower(text)
	best := ""
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r >= utf8.RuneSelf || r == 'k' || r == 's' }) {
		if len(part) > len(best) {
			best = part
		}
	}
	n = needle{text: best, fold: true}
	for i := range best {
		if rarity(best[i]) > rarity(best[n.rare]) {
			n.rare = i
		}
	}
	return n, best == text && !strings.HasSuffix(text, "\r")
}

// rarity guesses how rarely a byte occurs in source text.
func rarity(c byte) int {
	if i := strings.IndexByte("etaoinrsl cdupmhgbfyvwkxjqz", c); i >= 0 {
		return i
	}
	return 20
}

// cursor looks for the matcher's needles in one text, from left to right.
type cursor struct {
	next [maxNeedles]int // where each needle is next; at least the last position asked for
}

// find returns where the next needle in text is, from pos on, or -1.
func (c *cursor) find(needles []needle, text []byte, pos int) int {
	first := -1
	for i := range needles {
		at := c.next[i]
		if at < pos {
			at = needles[i].index(text, pos)
			if at < 0 {
				at = len(text)
			}
			c.next[i] = at
		}
		if at < len(text) && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

func (c *cursor) reset() {
	for i := range c.next {
		c.next[i] = -1
	}
}

// index returns where n is in text, from pos on, or -1.
func (n *needle) index(text []byte, pos int) int {
	if !n.fold {
		i := bytes.Index(text[pos:], []byte(n.text))
		if i < 0 {
			return -1
		}
		return pos + i
	}
	lower := n.text[n.rare]
	upper := lower
	if lower >= 'a' && lower <= 'z' {
		upper -= 'a' - 'A'
	}
	from := pos + n.rare
	nextLower, nextUpper := from-1, from-1
	for {
		nextLower = nextByte(text, lower, nextLower, from)
		if upper == lower {
			nextUpper = len(text)
		} else {
			nextUpper = nextByte(text, upper, nextUpper, from)
		}
		at := min(nextLower, nextUpper)
		if at >= len(text) {
			return -1
		}
		if start := at - n.rare; start+len(n.text) <= len(text) && equalFold(text[start:], n.text) {
			return start
		}
		from = at + 1
	}
}

// nextByte returns where c is in text from from on, given that at is the answer
// for an earlier from; len(text) means nowhere.
func nextByte(text []byte, c byte, at, from int) int {
	if at >= from {
		return at
	}
	if from >= len(text) {
		return len(text)
	}
	i := bytes.IndexByte(text[from:], c)
	if i < 0 {
		return len(text)
	}
	return from + i
}

// equalFold reports whether text begins with lower in any case of ASCII letters.
func equalFold(text []byte, lower string) bool {
	for i := range len(lower) {
		c := text[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// line returns the next line of text that matches, from pos, the start of a
// line, on; end leaves its line end out. found is false when there is none.
func (m *matcher) line(c *cursor, text []byte, pos int) (start, end int, found bool) {
	for pos < len(text) {
		start = pos
		if len(m.needles) > 0 {
			at := c.find(m.needles, text, pos)
			if at < 0 {
				return 0, 0, false
			}
			start = pos + bytes.LastIndexByte(text[pos:at], '\n') + 1
			end = lineEnd(text, at)
		} else {
			end = lineEnd(text, pos)
		}
		if m.whole || m.re.Match(trimReturn(text[start:end])) {
			return start, end, true
		}
		pos = end + 1
	}
	return 0, 0, false
}

// match returns the place of the first match in line.
func (m *matcher) match(line []byte) []int {
	if m.whole && len(m.needles) == 1 {
		at := m.needles[0].index(line, 0)
		if at < 0 {
			return nil
		}
		return []int{at, at + len(m.needles[0].text)}
	}
	return m.re.FindIndex(line)
}

// lineEnd returns where the line that pos is in ends.
func lineEnd(text []byte, pos int) int {
	i := bytes.IndexByte(text[pos:], '\n')
	if i < 0 {
		return len(text)
	}
	return pos + i
}

func trimReturn(line []byte) []byte { return bytes.TrimSuffix(line, []byte("\r")) }
