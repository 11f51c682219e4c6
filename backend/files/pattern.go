package files

import (
	"errors"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxAlternatives bounds what the braces of a pattern expand to.
const maxAlternatives = 1024

// pattern matches relative paths one name at a time, so that a walk knows at
// each directory whether anything below it can match. Its braces are expanded:
// it is a list of alternatives, each a list of segments.
type pattern [][]segment

// segment matches one name, or, as "**", any number of them.
type segment struct {
	kind segmentKind
	text string
}

type segmentKind uint8

const (
	spanning segmentKind = iota // "**"
	anyName                     // "*"
	literal                     // no special character
	suffix                      // "*" and a text without special characters
	general
)

// states is where in a pattern a path has come to: for each, the number of the
// alternative and of its next segment. It is sorted and holds no duplicates.
type states []state

type state struct{ alternative, segment uint16 }

func parsePattern(p string) (pattern, error) {
	switch {
	case p == "":
		return nil, errors.New("the pattern is empty")
	case strings.HasPrefix(p, "/"):
		return nil, errors.New("the pattern must be relative to its base directory")
	case !doublestar.ValidatePattern(p):
		return nil, errors.New("a bracket, a brace or a backslash is not closed")
	}
	alternatives, err := expandBraces(p)
	if err != nil {
		return nil, err
	}
	var out pattern
	for _, a := range alternatives {
		var segments []segment
		for name := range strings.SplitSeq(a, "/") {
			switch name {
			case "", ".":
				continue
			case "..":
				return nil, errors.New(`the pattern may not hold ".."`)
			}
			s := newSegment(name)
			if s.kind == spanning && len(segments) > 0 && segments[len(segments)-1].kind == spanning {
				continue
			}
			segments = append(segments, s)
		}
		out = append(out, segments)
	}
	return out, nil
}

func newSegment(name string) segment {
	special := func(s string) bool { return strings.ContainsAny(s, `*?[]{}\`) }
	switch {
	case name == "**":
		return segment{spanning, name}
	case name == "*":
		return segment{anyName, name}
	case !special(name):
		return segment{literal, name}
	case name[0] == '*' && !special(name[1:]):
		return segment{suffix, name[1:]}
	}
	return segment{general, name}
}

// matches reports whether s, which is not spanning, matches name.
func (s segment) matches(name string) bool {
	switch s.kind {
	case anyName:
		return true
	case literal:
		return s.text == name
	case suffix:
		return strings.HasSuffix(name, s.text)
	}
	return doublestar.MatchUnvalidated(s.text, name)
}

// namesDot reports whether s names a dot segment: one that begins with a dot.
func (s segment) namesDot() bool {
	return s.kind != suffix && strings.HasPrefix(strings.TrimPrefix(s.text, `\`), ".")
}

// start returns the states before the first name.
func (p pattern) start() states {
	var out states
	for i := range p {
		out = p.add(out, state{uint16(i), 0})
	}
	return out.sorted()
}

// add adds s and what follows from it: "**" may match no name at all.
func (p pattern) add(to states, s state) states {
	to = append(to, s)
	if segments := p[s.alternative]; int(s.segment) < len(segments) && segments[s.segment].kind == spanning {
		return p.add(to, state{s.alternative, s.segment + 1})
	}
	return to
}

func (s states) sorted() states {
	if len(s) < 2 {
		return s
	}
	slices.SortFunc(s, func(a, b state) int {
		if a.alternative != b.alternative {
			return int(a.alternative) - int(b.alternative)
		}
		return int(a.segment) - int(b.segment)
	})
	return slices.Compact(s)
}

// step goes one name further. With all set, hidden names match as any other;
// otherwise, and always for .git, only a segment that names a dot matches them.
// named tells that one did.
func (p pattern) step(from states, name string, all bool) (next states, matched, named bool) {
	dot := name[0] == '.' && (!all || name == ".git")
	for _, s := range from {
		segments := p[s.alternative]
		if int(s.segment) >= len(segments) {
			continue
		}
		seg := segments[s.segment]
		byDot := seg.kind != spanning && seg.namesDot()
		switch {
		case dot && !byDot:
			continue
		case seg.kind == spanning:
			next = p.add(next, s)
			matched = matched || int(s.segment) == len(segments)-1
		case seg.matches(name):
			named = named || byDot
			after := int(s.segment) + 1
			if after < len(segments) {
				next = p.add(next, state{s.alternative, s.segment + 1})
			}
			matched = matched || after == len(segments) || after == len(segments)-1 && segments[after].kind == spanning
		}
	}
	return next.sorted(), matched, named
}

// expandBraces returns the patterns that p stands for, in order.
func expandBraces(p string) ([]string, error) {
	out := []string{""}
	for p != "" {
		open := indexUnescaped(p, '{')
		if open < 0 {
			open = len(p)
		}
		for i := range out {
			out[i] += p[:open]
		}
		if p = p[open:]; p == "" {
			break
		}
		parts, rest := splitBraces(p)
		var choices []string
		for _, part := range parts {
			expanded, err := expandBraces(part)
			if err != nil {
				return nil, err
			}
			choices = append(choices, expanded...)
		}
		if len(out)*len(choices) > maxAlternatives {
			return nil, errors.New("its braces stand for too many patterns")
		}
		var product []string
		for _, head := range out {
			for _, c := range choices {
				product = append(product, head+c)
			}
		}
		out, p = product, rest
	}
	return out, nil
}

// splitBraces splits "{a,b}rest", which is valid, into its parts and the rest.
func splitBraces(p string) (parts []string, rest string) {
	depth, from := 0, 1
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '[':
			i += max(strings.IndexByte(p[i:], ']'), 0)
		case '{':
			depth++
		case ',':
			if depth == 1 {
				parts = append(parts, p[from:i])
				from = i + 1
			}
		case '}':
			if depth--; depth == 0 {
				return append(parts, p[from:i]), p[i+1:]
			}
		}
	}
	return append(parts, p[from:]), ""
}

func indexUnescaped(p string, c byte) int {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '[':
			i += max(strings.IndexByte(p[i:], ']'), 0)
		case c:
			return i
		}
	}
	return -1
}
