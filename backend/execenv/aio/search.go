package aio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
)

// What a search may bring over.
const (
	maxGrepFile  = 64 << 20
	maxGrepBytes = 256 << 20
)

// Glob finds files by a pattern: the names of the tree are brought over, and
// matched by the same engine as everywhere.
func (e *Env) Glob(ctx context.Context, r execenv.GlobRequest) (execenv.GlobResult, error) {
	base := path.Clean(e.abs(r.Base))
	if err := e.checkGlob(ctx, r.Pattern); err != nil {
		return execenv.GlobResult{}, err
	}
	m, err := e.mirror(ctx, base, strings.Contains(r.Pattern, ".git"))
	if err != nil {
		return execenv.GlobResult{}, err
	}
	defer m.close()
	r.Base = m.top
	res, err := m.engine.Glob(ctx, r)
	if err != nil {
		return res, m.theirs(err)
	}
	for i, f := range res.Files {
		res.Files[i] = m.info(f)
	}
	return res, nil
}

// checkGlob has a pattern judged before anything is asked of the server.
func (e *Env) checkGlob(ctx context.Context, pattern string) error {
	return onNothing(func(dir string) error {
		_, err := files.New(files.Options{}).Glob(ctx, execenv.GlobRequest{Base: dir, Pattern: pattern})
		return err
	})
}

// onNothing runs a search on an empty directory: all that can go wrong there is
// the request.
func onNothing(search func(dir string) error) error {
	dir, err := os.MkdirTemp("", "glovebox-empty-")
	if err != nil {
		return fmt.Errorf("make a directory to search in: %w", err)
	}
	defer os.RemoveAll(dir)
	return search(dir)
}

// Grep searches contents. The names of the tree are brought over, then the files
// that can hold a match, as one archive: the server leaves out those without the
// texts that every match needs. They are searched here, by the same engine as
// everywhere, so that a pattern means the same.
func (e *Env) Grep(ctx context.Context, r execenv.GrepRequest) (execenv.GrepResult, error) {
	asked := path.Clean(e.abs(r.Path))
	err := onNothing(func(dir string) error {
		q := r
		q.Path = dir
		_, err := files.New(files.Options{}).Grep(ctx, q)
		return err
	})
	if err != nil {
		return execenv.GrepResult{}, err
	}
	info, err := e.Stat(ctx, asked)
	if err != nil {
		return execenv.GrepResult{}, err
	}
	if info.Kind != execenv.KindDir {
		return e.grepFile(ctx, r, info)
	}
	m, err := e.mirror(ctx, asked, strings.Contains(r.Glob, ".git"))
	if err != nil {
		return execenv.GrepResult{}, err
	}
	defer m.close()
	found, err := m.engine.Glob(ctx, execenv.GlobRequest{Base: m.top, Pattern: walked(r.Glob), All: r.All, Limit: maxTree})
	if err != nil {
		return execenv.GrepResult{}, m.theirs(err)
	}
	var names, warnings []string
	for _, f := range found.Files {
		name, ok := m.name(f.Path)
		switch {
		case !ok:
		case m.tree.files[name].Size > maxGrepFile:
			warnings = append(warnings, fmt.Sprintf("%s: larger than %d MiB: not searched", m.tree.base+"/"+name, maxGrepFile>>20))
			m.empty(name)
		default:
			names = append(names, name)
			m.empty(name)
		}
	}
	slices.Sort(names)
	if err := m.fetch(ctx, slices.Compact(names), r); err != nil {
		return execenv.GrepResult{}, e.down(ctx, err)
	}
	r.Path = m.top
	res, err := m.engine.Grep(ctx, r)
	if err != nil {
		return res, m.theirs(err)
	}
	for i := range res.Rows {
		res.Rows[i].Path = m.path(res.Rows[i].Path)
	}
	for i, w := range res.Warnings {
		res.Warnings[i] = strings.ReplaceAll(w, m.top, m.tree.base)
	}
	res.Warnings = append(res.Warnings, warnings...)
	return res, nil
}

// walked is the pattern of the files that a Grep with a glob can search.
func walked(glob string) string {
	switch {
	case glob == "" || strings.HasPrefix(glob, "!"):
		return "**"
	case !strings.Contains(glob, "/"):
		return "**/" + glob
	}
	return strings.TrimPrefix(glob, "/")
}

// grepFile searches one file, which is downloaded.
func (e *Env) grepFile(ctx context.Context, r execenv.GrepRequest, info execenv.FileInfo) (execenv.GrepResult, error) {
	switch {
	case info.Kind == execenv.KindMissing:
		return execenv.GrepResult{}, &execenv.PathError{Path: info.Path, Err: execenv.ErrNotFound}
	case info.Kind != execenv.KindFile:
		return execenv.GrepResult{}, &execenv.PathError{Path: info.Path, Err: execenv.ErrNotRegular, Detail: "it is a device, a pipe or a socket"}
	case info.Size > maxGrepBytes:
		return execenv.GrepResult{}, &execenv.PathError{Path: info.Path, Err: execenv.ErrTooLarge,
			Detail: fmt.Sprintf("an AIO server's file is downloaded to be searched, up to %d MiB; use grep by Bash", maxGrepBytes>>20)}
	}
	f, err := os.CreateTemp("", "glovebox-grep-")
	if err != nil {
		return execenv.GrepResult{}, fmt.Errorf("make a file to search in: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := e.server.download(ctx, info.Path, f, maxGrepBytes); err != nil {
		return execenv.GrepResult{}, e.down(ctx, err)
	}
	r.Path = f.Name()
	res, err := files.New(files.Options{}).Grep(ctx, r)
	for i := range res.Rows {
		res.Rows[i].Path = info.Path
	}
	var p *execenv.PathError
	if errors.As(err, &p) && p.Path == f.Name() {
		p.Path = info.Path
	}
	return res, err
}

// Snapshot lists trees with selected contents, in one request and perhaps a
// download.
func (e *Env) Snapshot(ctx context.Context, r execenv.SnapshotRequest) (execenv.SnapshotResult, error) {
	maxFiles, maxContent := r.MaxFiles, r.MaxContent
	if maxFiles <= 0 {
		maxFiles = 20_000
	}
	if maxContent <= 0 {
		maxContent = 256 << 10
	}
	res := execenv.SnapshotResult{Contents: map[string][]byte{}}
	roots := make([]string, len(r.Roots))
	for i, root := range r.Roots {
		roots[i] = path.Clean(e.abs(root)) + "/"
	}
	if len(roots) == 0 {
		return res, nil
	}
	script := `t=$(stage); c=$(stage)
for r in ` + execenv.Quote(roots...) + `; do
  [ -d "$r" ] || continue
  find -L "${r%/}" -type f -printf '%p\0' 2>/dev/null
done >"$t"
give files "$t"
`
	if r.ContentName != "" {
		script += `for r in ` + execenv.Quote(roots...) + `; do
  [ -d "$r" ] || continue
  find -L "${r%/}" -type f -name ` + execenv.Quote(globQuote(r.ContentName)) + ` -exec sh -c 'n=$1; shift
    for f; do printf %s "$f" | base64 | tr -d "\n"; printf " "; head -c "$n" -- "$f" 2>/dev/null | base64 | tr -d "\n"; echo; done' sh ` + fmt.Sprint(maxContent) + ` {} + 2>/dev/null
done >"$c"
give contents "$c"
`
	}
	a, err := e.ask(ctx, strings.Join(roots, ", "), script+`rm -f -- "$c"`)
	if err != nil {
		return res, err
	}
	list, err := e.server.result(ctx, a, "files")
	if err != nil {
		return res, e.down(ctx, err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if name != "" {
			res.Files = append(res.Files, name)
		}
	}
	slices.Sort(res.Files)
	res.Files = slices.Compact(res.Files)
	if len(res.Files) > maxFiles {
		res.Files, res.Truncated = res.Files[:maxFiles], true
	}
	contents, err := e.server.result(ctx, a, "contents")
	if err != nil {
		return res, e.down(ctx, err)
	}
	for line := range strings.Lines(string(contents)) {
		name, body, ok := strings.Cut(strings.TrimSpace(line), " ")
		file, err1 := decode(name)
		content, err2 := decode(body)
		if !ok && name == "" || err1 != nil || err2 != nil || int64(len(content)) > maxContent {
			return res, misfit("a snapshot", errors.New("a line that does not decode"))
		}
		if _, found := slices.BinarySearch(res.Files, string(file)); found {
			res.Contents[string(file)] = content
		}
	}
	return res, nil
}

// globQuote returns the pattern that matches a name alone.
func globQuote(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// theirs makes an error of the mirror one of the server's tree.
func (m *mirror) theirs(err error) error {
	var p *execenv.PathError
	if errors.As(err, &p) && strings.HasPrefix(p.Path, m.top) {
		return &execenv.PathError{Path: m.path(p.Path), Err: p.Err, Detail: p.Detail}
	}
	return err
}

// path returns the server's path of one in the mirror.
func (m *mirror) path(p string) string {
	return m.tree.base + strings.TrimPrefix(p, m.top)
}

// name returns the name, in the tree, of the file that a path in the mirror
// leads to.
func (m *mirror) name(p string) (string, bool) {
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return "", false
	}
	name, ok := strings.CutPrefix(real, m.top+"/")
	return name, ok && m.tree.files[name].Kind == execenv.KindFile
}

// info describes a file of the mirror as the server's.
func (m *mirror) info(f execenv.FileInfo) execenv.FileInfo {
	given := m.path(f.Path)
	name, ok := m.name(f.Path)
	if !ok {
		f.Path = given
		return f
	}
	own := m.tree.describe(name)
	own.Path = given
	if link, ok := m.tree.links[strings.TrimPrefix(given, m.tree.base+"/")]; ok {
		own.Symlink = link
	}
	return own
}
