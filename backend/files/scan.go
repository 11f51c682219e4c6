package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const (
	scanBytes    = 256 << 10 // read at once; small enough for a processor's cache
	maxScanLine  = 8 << 20   // a longer line is searched in pieces of this size
	maxMultiline = 16 << 20  // a file that is searched across lines is held whole
	maxBefore    = 64 << 10  // context kept from one block to the next

	pieceOverlap = 4 << 10 // what is searched again where a line is cut into pieces
)

// scanner searches one file after another; each worker of a search has one.
type scanner struct {
	m   *matcher
	req execenv.GrepRequest
	buf []byte
}

// scan is the search of one file.
type scan struct {
	*scanner
	path   string
	cursor cursor
	limit  int // rows wanted
	budget int // bytes of text wanted

	data    []byte // the block: some context, then what is to be searched
	pieces  int    // bytes of the first line in earlier pieces of it
	start   int    // where the search of data begins
	counted int    // line is the number of the line that begins here
	line    int

	nextLine int // number of the line after the last one in rows
	after    int // context lines still owed after the last match
	owedAt   int // where they begin in data

	rows   []execenv.GrepRow
	count  int // matching lines
	bytes  int // of text in rows
	binary bool
	full   bool // the limit was reached; there may be more
}

var errTooLongForMultiline = errors.New("larger than 16 MiB: not searched across lines")

// file searches the file real and returns its rows, at most limit of them and
// about budget bytes of text. full tells that it may have more.
func (s *scanner) file(ctx context.Context, path, real string, limit, budget int) (rows []execenv.GrepRow, full bool, err error) {
	fd, err := openScan(real)
	if err != nil {
		return nil, false, err
	}
	defer syscall.Close(int(fd))
	x := &scan{scanner: s, path: path, limit: limit, budget: budget, line: 1, nextLine: 1}
	if s.req.Multiline {
		err = x.whole(fd)
	} else {
		err = x.stream(ctx, fd)
	}
	if cap(s.buf) > scanBytes*4 {
		s.buf = nil // one long line is no reason to keep that much
	}
	return x.result(), x.full, err
}

// descriptor reads a file without the overhead of os.File, which shows in a
// search of many small ones.
type descriptor int

func openScan(path string) (descriptor, error) {
	fd, err := openReal(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY)
	if err != nil {
		return -1, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		syscall.Close(fd)
		return -1, syscall.ENXIO
	}
	return descriptor(fd), nil
}

func (d descriptor) Read(b []byte) (int, error) {
	for {
		n, err := syscall.Read(int(d), b)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// stream searches line by line, a block at a time.
func (x *scan) stream(ctx context.Context, src io.Reader) error {
	if x.buf == nil {
		x.buf = make([]byte, scanBytes)
	}
	var (
		n     int // bytes in buf
		start int // what begins here was not searched yet
		first = true
		eof   bool
	)
	for !eof && !x.full {
		if err := ctx.Err(); err != nil {
			return err
		}
		for n < len(x.buf) && !eof {
			m, err := src.Read(x.buf[n:])
			n += m
			if eof = errors.Is(err, io.EOF); err != nil && !eof {
				return err
			}
			if first && n > 0 && m < scanBytes/4 && n >= headBytes {
				break // a small piece, as of /proc; do not wait for more of it
			}
		}
		if first {
			first = false
			x.binary = bytes.IndexByte(x.buf[:min(n, headBytes)], 0) >= 0
			if bytes.HasPrefix(x.buf[:n], bom) {
				start = len(bom)
				x.counted = start
			}
		}
		end, overlap := n, 0
		if !eof {
			if i := bytes.LastIndexByte(x.buf[start:n], '\n'); i >= 0 {
				end = start + i + 1
			} else if !x.binary && len(x.buf) < maxScanLine {
				grown := make([]byte, len(x.buf)*2)
				copy(grown, x.buf[:n])
				x.buf = grown
				continue
			} else { // the lines of a binary file are none, and need no memory
				overlap = min(pieceOverlap, n-start-1)
			}
		}
		x.data = x.buf[:end]
		x.block(start)
		if overlap > 0 {
			x.pieces += end - overlap - start
			x.after = 0
		} else {
			x.pieces = 0
		}
		start, n = x.slide(end-overlap, n)
	}
	return nil
}

// block searches data from start on.
func (x *scan) block(start int) {
	x.start = start
	x.cursor.reset()
	for pos := start; !x.full; {
		from, to, ok := x.m.line(&x.cursor, x.data, pos)
		if !ok {
			break
		}
		x.hit(from, to)
		pos = to + 1
	}
	x.owed(len(x.data))
}

// slide moves what follows end to the front of buf, with the context before it,
// and returns where it now begins and how long buf's content is.
func (x *scan) slide(end, n int) (start, length int) {
	keep := end
	if x.req.Before > 0 && x.req.Mode == execenv.GrepContent {
		for range x.req.Before {
			if keep == 0 {
				break
			}
			line := bytes.LastIndexByte(x.buf[:keep-1], '\n') + 1
			if end-line > maxBefore {
				break
			}
			keep = line
		}
	}
	if x.req.Mode == execenv.GrepContent {
		x.line += bytes.Count(x.buf[min(x.counted, keep):keep], []byte("\n"))
		if x.counted > keep { // counted further than what is kept
			x.line -= bytes.Count(x.buf[keep:x.counted], []byte("\n"))
		}
	}
	copy(x.buf, x.buf[keep:n])
	x.counted = 0
	x.owedAt -= keep
	return end - keep, n - keep
}

// hit takes in the matching line data[from:to].
func (x *scan) hit(from, to int) {
	x.count++
	switch {
	case x.req.Mode != execenv.GrepContent:
		x.full = x.req.Mode == execenv.GrepFiles
		return
	case x.binary:
		x.full = true
		return
	}
	x.owed(from)
	if x.full {
		return
	}
	number := x.number(from)
	x.before(from, number)
	line := trimReturn(x.data[from:to])
	if x.req.OnlyMatch {
		for _, m := range x.m.re.FindAllIndex(line, x.limit-len(x.rows)+1) {
			x.row(execenv.GrepRow{Line: number}, line[m[0]:m[1]], 0, 0)
		}
	} else {
		var m []int
		if len(line) > x.req.MaxLine {
			m = x.m.match(line)
		}
		if m == nil {
			m = []int{0, 0}
		}
		x.row(execenv.GrepRow{Line: number}, line, m[0], m[1])
		if last := len(x.rows) - 1; from == x.start && x.pieces > 0 && !x.full {
			x.rows[last].Cut = true
			x.rows[last].Offset += x.pieces
		}
	}
	x.nextLine, x.after, x.owedAt = number+1, x.req.After, to+1
}

// number returns the number of the line that begins at from.
func (x *scan) number(from int) int {
	x.line += bytes.Count(x.data[x.counted:from], []byte("\n"))
	x.counted = from
	return x.line
}

// before adds the context before the line number, which begins at from.
func (x *scan) before(from, number int) {
	if x.req.Before == 0 || x.req.OnlyMatch {
		return
	}
	start, n := from, number
	for n > x.nextLine && number-n < x.req.Before && start > 0 {
		start = bytes.LastIndexByte(x.data[:start-1], '\n') + 1
		n--
	}
	for start < from {
		end := lineEnd(x.data, start)
		x.row(execenv.GrepRow{Line: n, Context: true}, trimReturn(x.data[start:end]), 0, 0)
		x.nextLine = n + 1
		start = end + 1
		n++
	}
}

// owed adds the context that is owed after the last match, as far as until.
func (x *scan) owed(until int) {
	if x.req.OnlyMatch {
		x.after = 0
	}
	for x.after > 0 && x.owedAt < until && !x.full {
		end := lineEnd(x.data, x.owedAt)
		x.row(execenv.GrepRow{Line: x.nextLine, Context: true}, trimReturn(x.data[x.owedAt:end]), 0, 0)
		x.nextLine++
		x.after--
		x.owedAt = end + 1
	}
}

// row adds a row with a piece of line, of MaxLine bytes at most, around the
// match from start to end.
func (x *scan) row(r execenv.GrepRow, line []byte, start, end int) {
	if len(x.rows) >= x.limit || x.bytes > x.budget {
		x.full = true
		return
	}
	r.Path = x.path
	context := x.req.Before > 0 || x.req.After > 0
	r.Break = context && !x.req.OnlyMatch && len(x.rows) > 0 && r.Line > x.nextLine
	if len(line) > x.req.MaxLine {
		r.Cut = true
		r.Offset = max(0, min(start-(x.req.MaxLine-(end-start))/2, len(line)-x.req.MaxLine))
		if end-start > x.req.MaxLine {
			r.Offset = start
		}
		for r.Offset < len(line) && r.Offset > 0 && !utf8.RuneStart(line[r.Offset]) {
			r.Offset++
		}
		line = line[r.Offset:]
		if len(line) > x.req.MaxLine {
			line = line[:runeCut(line, x.req.MaxLine)]
		}
	}
	r.Text = validText(line)
	x.bytes += len(r.Text)
	x.rows = append(x.rows, r)
}

// validText returns b with each invalid byte as U+FFFD.
func validText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}

// whole searches across lines.
func (x *scan) whole(src io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(src, maxMultiline+1))
	if err != nil {
		return err
	}
	if len(data) > maxMultiline {
		return errTooLongForMultiline
	}
	x.binary = bytes.IndexByte(data[:min(len(data), headBytes)], 0) >= 0
	x.data = bytes.TrimPrefix(data, bom)
	x.cursor.reset()
	if len(x.m.needles) > 0 && x.cursor.find(x.m.needles, x.data, 0) < 0 {
		return nil
	}
	for pos, last := 0, -1; pos <= len(x.data) && !x.full; {
		m := x.m.re.FindIndex(x.data[pos:])
		if m == nil {
			break
		}
		from, to := pos+m[0], pos+m[1]
		x.span(from, to, last)
		last = to
		if pos = to; from == to {
			_, size := utf8.DecodeRune(x.data[pos:])
			pos += max(size, 1)
		}
	}
	x.owed(len(x.data))
	return nil
}

// span takes in a match that may span lines; last is where the one before ended.
func (x *scan) span(from, to, last int) {
	if x.req.Mode != execenv.GrepContent || x.binary {
		x.hit(from, to)
		return
	}
	start := bytes.LastIndexByte(x.data[:from], '\n') + 1
	if start == len(x.data) && start > 0 {
		return // an empty match after the last line end is in no line
	}
	if x.req.OnlyMatch {
		x.count++
		x.row(execenv.GrepRow{Line: x.number(start)}, x.data[from:to], 0, 0)
		return
	}
	for start < to || start == from {
		end := lineEnd(x.data, start)
		if start >= x.owedAt || last < 0 {
			x.span1(start, end, from, to)
		}
		if x.full {
			return
		}
		start = end + 1
		if start > len(x.data) {
			return
		}
	}
}

// span1 takes in one line of a match.
func (x *scan) span1(start, end, from, to int) {
	x.owed(start)
	if x.full {
		return
	}
	x.count++
	number := x.number(start)
	x.before(start, number)
	line := trimReturn(x.data[start:end])
	x.row(execenv.GrepRow{Line: number}, line, min(max(from-start, 0), len(line)), min(to-start, len(line)))
	x.nextLine, x.after, x.owedAt = number+1, x.req.After, end+1
}

// result returns the rows by the mode that was asked for.
func (x *scan) result() []execenv.GrepRow {
	switch {
	case x.count == 0:
		return nil
	case x.req.Mode == execenv.GrepContent && !x.binary:
		return x.rows
	case x.req.Mode == execenv.GrepCount:
		return []execenv.GrepRow{{Path: x.path, Count: x.count, Binary: x.binary}}
	}
	x.full = false
	return []execenv.GrepRow{{Path: x.path, Binary: x.binary}}
}
