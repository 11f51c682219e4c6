package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/session"
)

const (
	viewBytes = 2 << 20 // of a text that a view shows
	rawPiece  = 1 << 20 // of a file that is on its way
	filesTime = 30 * time.Second
)

// The kinds of a FileView.
const (
	kindText   = "text"
	kindImage  = "image"
	kindBinary = "binary"
)

func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), filesTime)
	defer cancel()
	f, err := s.o.Sessions.Files(ctx, r.PathValue("id"))
	var res execenv.ListResult
	at := r.URL.Query().Get("path")
	if err == nil {
		res, err = f.List(ctx, at)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := Listing{Path: f.Path(at), Entries: res.Entries, Truncated: res.Truncated}
	if out.Entries == nil {
		out.Entries = []execenv.FileInfo{}
	}
	slices.SortFunc(out.Entries, func(a, b execenv.FileInfo) int {
		if c := cmp.Compare(rank(a), rank(b)); c != 0 {
			return c
		}
		return cmp.Compare(a.Path, b.Path)
	})
	reply(w, http.StatusOK, out)
}

// rank puts directories first.
func rank(f execenv.FileInfo) int {
	if f.Kind == execenv.KindDir {
		return 0
	}
	return 1
}

func (s *Server) viewFile(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), filesTime)
	defer cancel()
	f, err := s.o.Sessions.Files(ctx, r.PathValue("id"))
	var res execenv.ReadResult
	if err == nil {
		res, err = f.Read(ctx, execenv.ReadRequest{Path: r.URL.Query().Get("path"), Length: viewBytes + 1, MaxBytes: viewBytes + 1, NoHash: true})
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, viewOf(res.Info, res.Data))
}

// viewOf shows the first bytes of a file, one more than are shown where it has
// more. Only text has Text and Hash.
func viewOf(info execenv.FileInfo, data []byte) FileView {
	v := FileView{Info: info, Truncated: len(data) > viewBytes}
	v.Kind, v.MediaType = sniff(data)
	if v.Kind != kindText {
		v.Truncated = false
		return v
	}
	if v.Truncated {
		data = data[:cutAt(data, viewBytes)]
	}
	v.Text = decodeText(data)
	sum := sha256.Sum256(data)
	v.Hash = hex.EncodeToString(sum[:])
	return v
}

// images are the only kinds that a browser is told of: none of them can hold
// markup or a script, as an SVG can.
var images = []struct{ magic, mediaType string }{
	{"\x89PNG\r\n\x1a\n", "image/png"},
	{"\xff\xd8\xff", "image/jpeg"},
	{"GIF87a", "image/gif"},
	{"GIF89a", "image/gif"},
}

const (
	typeBytes   = "application/octet-stream"
	typeUTF8    = "text/plain; charset=utf-8"
	typeUTF16LE = "text/plain; charset=utf-16le"
	typeUTF16BE = "text/plain; charset=utf-16be"
	typeOther   = "text/plain; charset=unknown-8bit" // RFC 1428
)

// sniff says by a file's first bytes what it is: text in UTF-8, or in UTF-16
// with a byte order mark, one of four kinds of image, or neither. For the last,
// the media type is a word for a person.
func sniff(data []byte) (kind, mediaType string) {
	for _, i := range images {
		if bytes.HasPrefix(data, []byte(i.magic)) {
			return kindImage, i.mediaType
		}
	}
	if len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP" {
		return kindImage, "image/webp"
	}
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe\x00\x00")): // UTF-32: nobody writes it
		return kindBinary, typeBytes
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		return kindText, typeUTF16LE
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		return kindText, typeUTF16BE
	case bytes.IndexByte(data, 0) >= 0, bytes.HasPrefix(data, []byte("%PDF-")):
	case utf8.Valid(data[:cutAt(data, len(data))]):
		return kindText, typeUTF8
	default:
		if !bytes.ContainsFunc(data, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\r\f\b\x1b", r) }) {
			return kindBinary, typeOther
		}
	}
	if t := http.DetectContentType(data); !strings.HasPrefix(t, "text/") && !strings.HasPrefix(t, "image/") {
		return kindBinary, t
	}
	return kindBinary, typeBytes
}

// cutAt returns the last place up to n between two characters of UTF-8. An
// unfinished one at the end of data counts as cut off when data was.
func cutAt(data []byte, n int) int {
	if n < len(data) {
		for i := n; i > n-utf8.UTFMax && i > 0; i-- {
			if utf8.RuneStart(data[i]) {
				return i
			}
		}
		return n
	}
	if len(data) > viewBytes { // it goes on
		for i := len(data) - 1; i >= len(data)-utf8.UTFMax; i-- {
			if utf8.RuneStart(data[i]) {
				if !utf8.FullRune(data[i:]) {
					return i
				}
				break
			}
		}
	}
	return len(data)
}

// decodeText returns text, from UTF-16 where its byte order mark says so. Of a
// file in UTF-8 the mark stays: Text is its bytes.
func decodeText(data []byte) string {
	var order func([]byte) uint16
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		order = func(b []byte) uint16 { return uint16(b[0]) | uint16(b[1])<<8 }
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		order = func(b []byte) uint16 { return uint16(b[1]) | uint16(b[0])<<8 }
	default:
		return string(data)
	}
	data = data[2:]
	units := make([]uint16, 0, len(data)/2)
	for ; len(data) >= 2; data = data[2:] {
		units = append(units, order(data))
	}
	return string(utf16.Decode(units))
}

// rawFile sends a file's bytes, piece by piece: the next one is read when the
// one before it was taken, so neither a large file nor a slow client fills this
// server's memory. A file that is not what it was at the first piece breaks the
// connection, lest a part of it pass for the whole.
func (s *Server) rawFile(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	f, err := s.o.Sessions.Files(ctx, r.PathValue("id"))
	var piece execenv.ReadResult
	at := r.URL.Query().Get("path")
	if err == nil {
		piece, err = readPiece(ctx, f, at, 0)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	first := piece.Info
	size := first.Size
	kind, mediaType := sniff(piece.Data)
	if kind != kindImage {
		mediaType = typeBytes
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Disposition", attachment(path.Base(f.Path(at))))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	// What /proc holds has no size until it is read.
	endless := size == 0 && len(piece.Data) > 0
	if !endless {
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	for sent := int64(0); ; {
		n, err := w.Write(piece.Data)
		sent += int64(n)
		if err != nil || !endless && sent >= size {
			return
		}
		piece, err = readPiece(ctx, f, at, sent)
		switch {
		case err == nil && endless && len(piece.Data) == 0:
			return
		case err == nil && !endless && (piece.Info.Size != size || !piece.Info.ModTime.Equal(first.ModTime) || len(piece.Data) == 0):
			err = errors.New("it changed")
		}
		if err != nil {
			s.o.Log.DebugContext(ctx, "file not sent to its end", "path", at, "sent", sent, "err", err)
			panic(http.ErrAbortHandler) // how net/http breaks a connection, without a word in the log
		}
	}
}

func readPiece(ctx context.Context, f *session.Files, at string, offset int64) (execenv.ReadResult, error) {
	res, err := f.Read(ctx, execenv.ReadRequest{Path: at, Offset: offset, Length: rawPiece, MaxBytes: rawPiece, NoHash: true})
	if err == nil && len(res.Data) > rawPiece {
		err = fmt.Errorf("read %s: %d bytes came where %d were asked for: %w", at, len(res.Data), rawPiece, io.ErrShortBuffer)
	}
	return res, err
}

// attachment returns a Content-Disposition that saves under a name, whatever is
// in it: RFC 6266, with a plain form for old readers. A name is shown to a person
// before it is a file, so what would deceive them there is left out.
func attachment(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r == '/' || r == '\\' || r == utf8.RuneError:
			return '_'
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return '_' // line ends, and what turns the direction of reading
		}
		return r
	}, name)
	plain := strings.Map(func(r rune) rune {
		if r > '~' || strings.ContainsRune(`"%;<>&'`, r) {
			return '_'
		}
		return r
	}, name)
	d := mime.FormatMediaType("attachment", map[string]string{"filename": plain})
	if plain != name {
		d += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return d
}

func (s *Server) isolation(w http.ResponseWriter, r *http.Request) {
	i, err := s.o.Sessions.Isolation(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, Isolation{At: i.At, Command: i.Command, Host: probeOf(i.Host), Sandbox: probeOf(i.Sandbox)})
}

func probeOf(p session.Probe) Probe {
	if p.Interfaces == nil {
		p.Interfaces = []string{}
	}
	return Probe(p)
}
