package execenv

// GlobRequest asks for the files below Base whose path relative to Base
// matches Pattern. "*" stays within a segment, "**" spans segments, braces and
// classes work. Ignored and hidden files are left out unless All is set or the
// pattern itself names a dot segment. Links to directories inside Base are
// followed once per real directory, never outside it.
type GlobRequest struct {
	Base    string `json:"base"`
	Pattern string `json:"pattern"`
	All     bool   `json:"all"`
	Limit   int    `json:"limit"` // 0 means 200
}

// GlobResult is sorted newest first, then by path; paths are absolute.
type GlobResult struct {
	Files     []FileInfo `json:"files"`
	Total     int        `json:"total"` // matches in all, also those over the limit
	Truncated bool       `json:"truncated"`
}

// GrepMode is what a Grep returns.
type GrepMode string

// The grep modes, named as the tool's output_mode.
const (
	GrepFiles   GrepMode = "files_with_matches"
	GrepContent GrepMode = "content"
	GrepCount   GrepMode = "count"
)

// GrepRequest searches a file or the files below a directory for an RE2
// pattern. Glob and Type filter a walk, never a file named by Path.
type GrepRequest struct {
	Pattern    string   `json:"pattern"`
	Path       string   `json:"path"`
	Glob       string   `json:"glob"`
	Type       string   `json:"type"` // a name such as go, py, ts; unknown ones wrap ErrPattern
	Mode       GrepMode `json:"mode"`
	IgnoreCase bool     `json:"ignore_case"`
	OnlyMatch  bool     `json:"only_match"`
	All        bool     `json:"all"` // hidden and ignored files too
	Multiline  bool     `json:"multiline"`
	Before     int      `json:"before"`
	After      int      `json:"after"`
	Skip       int      `json:"skip"`      // output lines to leave out first
	Limit      int      `json:"limit"`     // output lines to return; 0 means no limit
	MaxBytes   int      `json:"max_bytes"` // bytes of text in all; 0 means 32 KiB
	MaxLine    int      `json:"max_line"`  // bytes of one line; 0 means 2,000
}

// GrepResult holds rows sorted by path and line. The search stops as soon as
// the limits are reached, so Truncated does not know how many more there are.
type GrepResult struct {
	Rows      []GrepRow `json:"rows"`
	Truncated bool      `json:"truncated"`
	Warnings  []string  `json:"warnings"` // files that could not be read, at most 20
}

// GrepRow is one row: a file (GrepFiles), a file with its count (GrepCount), or
// a line (GrepContent). Break marks a row that follows on a gap between groups
// of context.
type GrepRow struct {
	Path    string `json:"path"`
	Line    int    `json:"line"`
	Offset  int    `json:"offset"` // byte of the line at which Text begins, when Cut
	Text    string `json:"text"`
	Context bool   `json:"context"`
	Break   bool   `json:"break"`
	Cut     bool   `json:"cut"`
	Binary  bool   `json:"binary"` // "binary file matches": Text is empty
	Count   int    `json:"count"`
}

// SnapshotRequest lists all regular files below Roots, with the contents of
// those whose base name is ContentName. Missing roots are skipped.
type SnapshotRequest struct {
	Roots       []string `json:"roots"`
	ContentName string   `json:"content_name"`
	MaxFiles    int      `json:"max_files"`   // 0 means 20,000
	MaxContent  int64    `json:"max_content"` // bytes of one content; 0 means 256 KiB
}

// SnapshotResult is sorted by path; paths are absolute.
type SnapshotResult struct {
	Files     []string          `json:"files"`
	Contents  map[string][]byte `json:"contents"`
	Truncated bool              `json:"truncated"`
}
