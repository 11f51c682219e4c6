package execenv

import "time"

// FileInfo describes one file. Symlink is the link's text when the path itself
// is a link; the other fields then describe what it leads to, where that is there.
type FileInfo struct {
	Path    string    `json:"path"`
	Kind    FileKind  `json:"kind"`
	Size    int64     `json:"size"`
	Mode    uint32    `json:"mode"` // permission bits
	UID     int       `json:"uid"`
	GID     int       `json:"gid"`
	ModTime time.Time `json:"mod_time"`
	Symlink string    `json:"symlink"`
}

// FileKind is what a path leads to.
type FileKind string

// The kinds of files. KindMissing is a dangling link.
const (
	KindFile    FileKind = "file"
	KindDir     FileKind = "dir"
	KindOther   FileKind = "other"
	KindMissing FileKind = "missing"
)

// HashLimit is the size up to which a read also returns the hash of the whole
// file; larger files cannot be edited or overwritten on the strength of a read.
const HashLimit = 64 << 20

// ReadRequest asks for a piece of a file: a range of lines when Lines is not
// zero, else a range of bytes.
type ReadRequest struct {
	Path string `json:"path"`

	Offset int64 `json:"offset"` // first byte
	Length int64 `json:"length"` // at most so many bytes; 0 means the whole file up to MaxBytes

	StartLine int `json:"start_line"` // first line, from 1
	Lines     int `json:"lines"`      // at most so many lines

	MaxLine  int   `json:"max_line"`  // bytes kept of one line; 0 means 2,000
	MaxBytes int64 `json:"max_bytes"` // bytes kept in all; 0 means 1 MiB

	// NoHash leaves Hash out, so that no more than the range is read: for one
	// who reads a file piece by piece.
	NoHash bool `json:"no_hash"`
}

// ReadResult is a piece of a file. A read by lines fills Lines and leaves Data
// empty, except that an image (by its first bytes) comes whole in Data with its
// MediaType, up to MaxBytes. A cut never splits a UTF-8 character.
type ReadResult struct {
	Info       FileInfo `json:"info"`
	Hash       string   `json:"hash"` // hex SHA-256 of the raw bytes; "" above HashLimit
	Data       []byte   `json:"data"`
	Lines      []Line   `json:"lines"`
	TotalLines int      `json:"total_lines"` // 0 when not counted: the file is over HashLimit and the range ended before it
	Truncated  bool     `json:"truncated"`   // MaxBytes ended it before the range did
	MediaType  string   `json:"media_type"`
	Binary     bool     `json:"binary"`   // a NUL byte among the first 8 KiB
	Repaired   bool     `json:"repaired"` // invalid UTF-8 was shown as U+FFFD
	BOM        bool     `json:"bom"`      // a UTF-8 byte order mark was left out of line 1
}

// Line is one line without its line ending.
type Line struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
	Cut    int64  `json:"cut"` // bytes of the line that are not in Text
}

// WriteMode says when WriteFile may write.
type WriteMode string

// The write modes. WriteExclusive wraps ErrExists when the path exists,
// WriteExpected wraps ErrChanged when the content's hash is another.
const (
	WriteOverwrite WriteMode = "overwrite"
	WriteExclusive WriteMode = "exclusive"
	WriteExpected  WriteMode = "expected"
)

// WriteRequest replaces or makes a file, atomically where the directory lets
// it; mode, owner and symlinks of an existing file are kept. Parents are made.
type WriteRequest struct {
	Call     Call      `json:"call"`
	Path     string    `json:"path"`
	Data     []byte    `json:"data"`
	Mode     WriteMode `json:"mode"`
	Expected string    `json:"expected"` // hash, for WriteExpected
	Within   []string  `json:"within"`   // the resolved path must lie in one of these
}

// WriteResult says what a write did.
type WriteResult struct {
	Info    FileInfo `json:"info"`
	Hash    string   `json:"hash"`
	Created bool     `json:"created"`
	InPlace bool     `json:"in_place"` // rewritten in place: its owner could not be kept otherwise
	Before  []byte   `json:"before"`   // what was there, up to 1 MiB, for the diff and for rewind
	// BeforeOmitted says that something was there and is not in Before.
	BeforeOmitted bool `json:"before_omitted"`
}

// EditRequest replaces exact text in a file, under a lock for that file.
type EditRequest struct {
	Call       Call     `json:"call"`
	Path       string   `json:"path"`
	Old        string   `json:"old"`
	New        string   `json:"new"`
	ReplaceAll bool     `json:"replace_all"`
	Within     []string `json:"within"`
}

// EditResult is a WriteResult with what the edit replaced.
type EditResult struct {
	WriteResult
	After        []byte `json:"after"` // the new content, up to 1 MiB
	AfterOmitted bool   `json:"after_omitted"`
	Replaced     int    `json:"replaced"`
	FirstLine    int    `json:"first_line"` // line of the first replacement, from 1
}

// ListResult is one directory, sorted by name.
type ListResult struct {
	Entries   []FileInfo `json:"entries"`
	Truncated bool       `json:"truncated"` // more than 10,000 entries
}

// ChangeKind is what Change does.
type ChangeKind string

// The changes. ChangeRemove removes a file or an empty directory; ChangeMkdir
// makes a directory with its parents and is quiet when it is there.
const (
	ChangeRemove ChangeKind = "remove"
	ChangeMkdir  ChangeKind = "mkdir"
	ChangeRename ChangeKind = "rename"
)

// ChangeRequest changes a directory's entries.
type ChangeRequest struct {
	Call   Call       `json:"call"`
	Kind   ChangeKind `json:"kind"`
	Path   string     `json:"path"`
	To     string     `json:"to"` // for ChangeRename
	Within []string   `json:"within"`
}

// Call identifies an effect, so that it happens once. The zero Call is an
// effect that nobody will ask for again.
type Call struct {
	ID string `json:"id"`
	// Boot, when not empty, makes the request a take-up: the effect was asked
	// for before, in that boot of the guest. A known id answers with its kept
	// outcome; an unknown one is run if Boot is the present boot, and is
	// ErrOutcomeUnknown otherwise.
	Boot string `json:"boot"`
}
