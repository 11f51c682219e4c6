package execenv

import (
	"bytes"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// bom is the UTF-8 byte order mark.
const bom = "\xef\xbb\xbf"

// listedLines is how many places an error names.
const listedLines = 10

// ApplyEdit replaces e.Old by e.New in content and returns the new content, how
// many places were replaced and the line of the first one, from 1. It touches
// no file and does not change content.
//
// Old is looked for byte by byte first; only when that finds nothing are \n and
// \r\n taken for the same. New goes in as it is, except that its line ends
// become those of the place it goes to. A byte order mark is kept, and never
// in the way.
//
// Errors, each with a Detail that helps to mend the request: ErrInvalid for an
// empty Old, ErrNoChange, ErrNoMatch, and ErrAmbiguous where Old is found more
// than once without ReplaceAll.
func ApplyEdit(content []byte, e EditRequest) (after []byte, replaced, firstLine int, err error) {
	fail := func(err error, detail string) ([]byte, int, int, error) {
		return nil, 0, 0, &PathError{Path: e.Path, Err: err, Detail: detail}
	}
	if e.Old == "" {
		return fail(ErrInvalid, "old_string is empty: name the text to replace, or write the whole file")
	}
	if e.Old == e.New {
		return fail(ErrNoChange, "")
	}

	body, hasBOM := bytes.CutPrefix(content, []byte(bom))
	spans := findExact(body, e.Old)
	if len(spans) == 0 && strings.HasPrefix(e.Old, bom) {
		e.Old = strings.TrimPrefix(e.Old, bom)
		if e.Old != "" {
			spans = findExact(body, e.Old)
		}
	}
	if len(spans) == 0 && e.Old != "" {
		spans = findAnyEnding(body, e.Old)
	}
	switch {
	case len(spans) == 0:
		return fail(ErrNoMatch, nearMatch(body, e.Old))
	case len(spans) > 1 && !e.ReplaceAll:
		return fail(ErrAmbiguous, fmt.Sprintf("%d matches, at lines %s: give more context, or replace all",
			len(spans), spanLines(body, spans)))
	}

	var b bytes.Buffer
	b.Grow(len(content) + len(spans)*(len(e.New)-len(e.Old)+1))
	if hasBOM {
		b.WriteString(bom)
	}
	end := 0
	for _, s := range spans {
		b.Write(body[end:s.start])
		text := withEnding(e.New, endingAt(body, s))
		if s.start == 0 {
			text = strings.TrimPrefix(text, bom)
		}
		b.WriteString(text)
		end = s.end
	}
	b.Write(body[end:])
	if bytes.Equal(b.Bytes(), content) {
		return fail(ErrNoChange, "they differ in line ends or a byte order mark only, which an edit keeps")
	}
	return b.Bytes(), len(spans), 1 + bytes.Count(body[:spans[0].start], []byte("\n")), nil
}

// span is a piece of the body.
type span struct{ start, end int }

// findExact returns where old is in body, without overlaps. A match that begins
// between \r and \n begins before the \r, so that a line end stays whole.
func findExact(body []byte, old string) []span {
	var spans []span
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte(old))
		if i < 0 {
			return spans
		}
		s := span{at + i, at + i + len(old)}
		at = s.end
		if old[0] == '\n' && s.start > 0 && body[s.start-1] == '\r' && (len(spans) == 0 || spans[len(spans)-1].end < s.start) {
			s.start--
		}
		spans = append(spans, s)
	}
}

// findAnyEnding is findExact with \r\n and \n taken for the same.
func findAnyEnding(body []byte, old string) []span {
	if !strings.Contains(old, "\n") {
		return nil
	}
	// The text with \n alone, and where in it a \r was left out.
	var returns []int
	flat := make([]byte, 0, len(body))
	for i, c := range body {
		if c == '\r' && i+1 < len(body) && body[i+1] == '\n' {
			returns = append(returns, len(flat))
			continue
		}
		flat = append(flat, c)
	}
	old = strings.ReplaceAll(old, "\r\n", "\n")
	needle := []byte(old)
	var spans []span
	for at := 0; ; {
		i := bytes.Index(flat[at:], needle)
		if i < 0 {
			return spans
		}
		start, end := at+i, at+i+len(needle)
		at = end
		spans = append(spans, span{
			start + sort.SearchInts(returns, start),
			end + sort.SearchInts(returns, end),
		})
	}
}

// endingAt returns the line end in use at s: of the first line that ends in it,
// else of the line it is in, else of the line before; "" in a body of one line.
func endingAt(body []byte, s span) string {
	i := bytes.IndexByte(body[s.start:], '\n')
	if i >= 0 {
		i += s.start
	} else {
		i = bytes.LastIndexByte(body[:s.start], '\n')
	}
	switch {
	case i < 0:
		return ""
	case i > 0 && body[i-1] == '\r':
		return "\r\n"
	default:
		return "\n"
	}
}

// withEnding returns text with its line ends as ending; "" leaves them.
func withEnding(text, ending string) string {
	if ending == "" || !strings.Contains(text, "\n") {
		return text
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if ending == "\n" {
		return text
	}
	return strings.ReplaceAll(text, "\n", ending)
}

// spanLines names the lines of spans, the first few.
func spanLines(body []byte, spans []span) string {
	var b strings.Builder
	line, at := 1, 0
	for i, s := range spans {
		if i == listedLines {
			b.WriteString(", …")
			break
		}
		line += bytes.Count(body[at:s.start], []byte("\n"))
		at = s.start
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(line))
	}
	return b.String()
}
