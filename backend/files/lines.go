package files

import (
	"bytes"
	"math"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// lineScanner takes a range of lines from a text that it is fed piece by piece.
// It keeps no more of a line than it returns.
type lineScanner struct {
	first, last int // numbers of the wanted lines
	maxLine     int
	maxBytes    int64

	out       []execenv.Line
	total     int // lines in all, known after finish
	truncated bool
	repaired  bool

	number int    // of the present line
	keep   []byte // its beginning, when it is wanted
	length int64  // its length so far
	last1  byte   // its last byte so far
	used   int64  // bytes in out
}

func newLineScanner(r execenv.ReadRequest) *lineScanner {
	s := &lineScanner{first: max(r.StartLine, 1), maxLine: r.MaxLine, maxBytes: r.MaxBytes, number: 1}
	s.last = math.MaxInt
	if r.Lines < math.MaxInt-s.first {
		s.last = s.first + r.Lines - 1
	}
	return s
}

// done reports that no further line is wanted.
func (s *lineScanner) done() bool { return s.truncated || s.number > s.last }

func (s *lineScanner) feed(b []byte) {
	for len(b) > 0 {
		if s.done() {
			s.count(b)
			return
		}
		piece, rest, ended := bytes.Cut(b, []byte("\n"))
		s.add(piece)
		b = rest
		if ended {
			s.endLine(true)
		}
	}
}

// count goes over text of which only the number of lines matters.
func (s *lineScanner) count(b []byte) {
	s.number += bytes.Count(b, []byte("\n"))
	s.length = 1
	if b[len(b)-1] == '\n' {
		s.length = 0
	}
}

func (s *lineScanner) add(piece []byte) {
	if len(piece) == 0 {
		return
	}
	s.length += int64(len(piece))
	s.last1 = piece[len(piece)-1]
	if s.number < s.first {
		return
	}
	// Room for a byte order mark, and for the character after the cut.
	if room := s.maxLine + len(bom) + utf8.UTFMax - len(s.keep); room > 0 {
		s.keep = append(s.keep, piece[:min(room, len(piece))]...)
	}
}

// endLine ends the present line, by a line end or by the end of the text.
func (s *lineScanner) endLine(ended bool) {
	if s.number >= s.first {
		s.emit(ended)
	}
	s.number++
	s.keep, s.length, s.last1 = s.keep[:0], 0, 0
}

func (s *lineScanner) emit(ended bool) {
	text, length := s.keep, s.length
	if ended && length > 0 && s.last1 == '\r' {
		if int64(len(text)) == length {
			text = text[:length-1]
		}
		length--
	}
	if s.number == 1 && bytes.HasPrefix(text, bom) {
		text = text[len(bom):]
		length -= int64(len(bom))
	}
	if len(text) > s.maxLine {
		text = text[:runeCut(text, s.maxLine)]
	}
	if room := s.maxBytes - s.used; int64(len(text)) > room {
		s.truncated = true
		if len(s.out) > 0 {
			return
		}
		text = text[:runeCut(text, int(room))] // one line alone is too long: better a piece than nothing
	}
	line := execenv.Line{Number: s.number, Text: string(text), Cut: length - int64(len(text))}
	if !utf8.Valid(text) {
		line.Text, s.repaired = string([]rune(line.Text)), true
	}
	s.used += int64(len(line.Text)) + 1
	s.out = append(s.out, line)
}

// finish ends the text. Where it was not read to its end, total stays 0.
func (s *lineScanner) finish(ended bool) {
	if !ended {
		return
	}
	if s.length > 0 {
		if s.done() {
			s.number++
		} else {
			s.endLine(false)
		}
	}
	s.total = s.number - 1
}
