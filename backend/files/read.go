package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const (
	headBytes       = 8 << 10 // what a file's kind is judged by
	defaultMaxLine  = 2_000
	defaultMaxBytes = 1 << 20
	// unreadyWait bounds a read of a special file that looks regular, such as
	// some of /proc, and has nothing to read.
	unreadyWait = time.Second
)

var bom = []byte("\xef\xbb\xbf")

var buffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// ReadFile returns a piece of a file. Memory is bounded by the request, not by
// the file, which is read once from its start as far as its hash, the number of
// its lines or the range need it.
func (e *Engine) ReadFile(ctx context.Context, r execenv.ReadRequest) (execenv.ReadResult, error) {
	f, info, err := e.open(r.Path)
	if err != nil {
		return execenv.ReadResult{}, pathError(r.Path, err)
	}
	defer f.Close()
	res, err := ReadFrom(ctx, f, info.Size, r)
	res.Info = info
	return res, err
}

// ReadFrom is ReadFile of a file of about size bytes that somebody else has
// opened, on this machine or another. It fills in all but the Info.
func ReadFrom(ctx context.Context, src io.ReadSeeker, size int64, r execenv.ReadRequest) (execenv.ReadResult, error) {
	if r.Offset < 0 || r.Length < 0 || r.StartLine < 0 || r.Lines < 0 {
		return execenv.ReadResult{}, &execenv.PathError{Path: r.Path, Err: execenv.ErrInvalid, Detail: "a range begins before the file does"}
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = defaultMaxBytes
	}
	if r.MaxLine <= 0 {
		r.MaxLine = defaultMaxLine
	}
	res, err := read(ctx, src, size, r)
	return res, pathError(r.Path, err)
}

// open opens a regular file for reading and never waits for anything else.
func (e *Engine) open(path string) (*os.File, execenv.FileInfo, error) {
	path, err := clean(path)
	if err != nil {
		return nil, execenv.FileInfo{}, err
	}
	r, err := resolve(path)
	if err == nil {
		err = e.mayRead(path, r)
	}
	if err != nil {
		return nil, execenv.FileInfo{}, err
	}
	f, err := openRegular(r.real)
	if err != nil {
		if p, ok := errors.AsType[*execenv.PathError](err); ok {
			p.Path = path
		}
		return nil, execenv.FileInfo{}, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, execenv.FileInfo{}, err
	}
	info := describe(path, st)
	if l, err := os.Lstat(path); err == nil && l.Mode()&os.ModeSymlink != 0 {
		info.Symlink, _ = os.Readlink(path)
	}
	return f, info, nil
}

// openRegular opens path, which has no links, for reading when it is a regular
// file. It looks before it opens, since opening alone can have an effect on a
// device.
func openRegular(path string) (*os.File, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, st); err != nil {
		return nil, err
	}
	fd, err := openReal(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	if st, err = f.Stat(); err == nil {
		err = regular(path, st)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	_ = f.SetReadDeadline(time.Now().Add(unreadyWait)) // fails for nearly every file, which never waits
	return f, nil
}

// openReal opens path, which was resolved and judged before, and fails where one
// of its names has become a link since. Else who exchanges a directory for a
// link at the right moment would have opened, with the rights of this process,
// what resolve and [Options.Refuse] never saw.
func openReal(path string, flags int) (int, error) {
	fd, err := openNoLinks(path, flags)
	if errors.Is(err, syscall.ELOOP) {
		return -1, &execenv.PathError{Path: path, Err: execenv.ErrChanged, Detail: "a link was put on its way just now"}
	}
	return fd, err
}

func regular(path string, st os.FileInfo) error {
	switch {
	case st.IsDir():
		return &execenv.PathError{Path: path, Err: execenv.ErrIsDirectory}
	case !st.Mode().IsRegular():
		return &execenv.PathError{Path: path, Err: execenv.ErrNotRegular, Detail: "it is a device, a pipe or a socket"}
	}
	return nil
}

// read reads what r asks for from src, a file of about size bytes.
func read(ctx context.Context, src io.ReadSeeker, size int64, r execenv.ReadRequest) (execenv.ReadResult, error) {
	var res execenv.ReadResult
	head := make([]byte, headBytes)
	n, err := io.ReadFull(src, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return res, err
	}
	head = head[:n]
	res.MediaType = mediaType(head)
	res.Binary = bytes.IndexByte(head, 0) >= 0 || res.MediaType == "application/pdf"
	res.BOM = bytes.HasPrefix(head, bom)

	var p pass
	if size <= execenv.HashLimit && !r.NoHash {
		p.hash = sha256.New()
	}
	switch {
	case r.Lines == 0:
		p.want(r.Offset, r.Length, r.MaxBytes)
	case isImage(res.MediaType):
		if size <= r.MaxBytes {
			p.want(0, 0, r.MaxBytes)
		}
		res.Truncated = size > r.MaxBytes // a piece of an image is of no use
	case !res.Binary:
		p.lines = newLineScanner(r)
	}
	if p.hash == nil && p.lines == nil {
		if _, err := src.Seek(p.from, io.SeekStart); err != nil {
			return res, err
		}
		p.at = p.from
	} else {
		p.feed(head)
	}
	if err := p.run(ctx, src); err != nil {
		return res, err
	}
	if p.hash != nil {
		res.Hash = hex.EncodeToString(p.hash.Sum(nil))
	}
	if p.lines != nil {
		p.lines.finish(p.ended)
		res.Lines, res.TotalLines = p.lines.out, p.lines.total
		res.Truncated, res.Repaired = p.lines.truncated, p.lines.repaired
	}
	if r.Lines == 0 {
		res.Data, res.Truncated = p.data, p.cut
		if p.cut && !res.Binary {
			res.Data = res.Data[:runeCut(res.Data, len(res.Data))]
		}
	} else {
		res.Data = p.data
	}
	return res, nil
}

// pass is one reading of a file: what is taken from it on the way.
type pass struct {
	at    int64 // offset of the next byte
	hash  hash.Hash
	lines *lineScanner
	ended bool // the file was read to its end

	from, until int64 // the wanted bytes
	limit       int64 // how many of them are kept
	data        []byte
	cut         bool // there were more than limit
}

// want asks for length bytes from offset, all of them when length is 0, and
// keeps at most limit.
func (p *pass) want(offset, length, limit int64) {
	p.from, p.until, p.limit = offset, offset+length, limit
	if length == 0 || p.until < offset {
		p.until = 1<<63 - 1
	}
}

func (p *pass) feed(b []byte) {
	if p.hash != nil {
		if p.at+int64(len(b)) > execenv.HashLimit {
			p.hash = nil // it grew while it was read
		} else {
			p.hash.Write(b)
		}
	}
	if p.lines != nil {
		p.lines.feed(b)
	}
	start, end := max(p.from, p.at), min(p.until, p.at+int64(len(b)))
	if start < end {
		piece := b[start-p.at : end-p.at]
		if room := p.limit - int64(len(p.data)); int64(len(piece)) > room {
			piece, p.cut = piece[:room], true
		}
		p.data = append(p.data, piece...)
	}
	p.at += int64(len(b))
}

// done reports that nothing more is to be had from the file.
func (p *pass) done() bool {
	return p.hash == nil && (p.lines == nil || p.lines.done()) && (p.at >= p.until || p.cut)
}

func (p *pass) run(ctx context.Context, src io.Reader) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for !p.done() {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := src.Read(*buf)
		p.feed((*buf)[:n])
		switch {
		case errors.Is(err, io.EOF):
			p.ended = true
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// runeCut returns the last place up to n at which b can be cut between two
// UTF-8 characters. The bytes from n on, where b has them, are looked at too.
func runeCut(b []byte, n int) int {
	if n >= len(b) {
		n = len(b)
		// What follows is not known: an unfinished character at the end goes.
		for i := n - 1; i >= 0 && i >= n-utf8.UTFMax; i-- {
			if utf8.RuneStart(b[i]) {
				if !utf8.FullRune(b[i:]) {
					return i
				}
				break
			}
		}
		return n
	}
	for i := n; i > 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return n
}

// magics are the beginnings of the files that are known by them.
var magics = []struct{ magic, mediaType string }{
	{"\x89PNG\r\n\x1a\n", "image/png"},
	{"\xff\xd8\xff", "image/jpeg"},
	{"GIF87a", "image/gif"},
	{"GIF89a", "image/gif"},
	{"%PDF-", "application/pdf"},
}

func mediaType(head []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.mediaType
		}
	}
	if len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP" {
		return "image/webp"
	}
	return ""
}

func isImage(mediaType string) bool { return len(mediaType) > 6 && mediaType[:6] == "image/" }
