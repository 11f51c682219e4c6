package aio

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
)

const (
	keptBytes  = 1 << 20 // of a file's old content that a result carries
	maxEntries = 10_000
)

// parseStat reads what stat printed by the format of the prelude.
func parseStat(text string) (f execenv.FileInfo, symlink bool, err error) {
	field := strings.Fields(text)
	if len(field) != 5 {
		return f, false, misfit("stat", fmt.Errorf("%d fields", len(field)))
	}
	mode, err1 := strconv.ParseUint(field[0], 16, 32)
	size, err2 := strconv.ParseInt(field[1], 10, 64)
	uid, err3 := strconv.Atoi(field[2])
	gid, err4 := strconv.Atoi(field[3])
	at, err5 := parseTime(field[4])
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			return f, false, misfit("stat", err)
		}
	}
	f = execenv.FileInfo{Size: size, Mode: uint32(mode) & 0o7777, UID: uid, GID: gid, ModTime: at}
	switch mode & 0o170000 {
	case 0o100000:
		f.Kind = execenv.KindFile
	case 0o040000:
		f.Kind = execenv.KindDir
	case 0o120000:
		symlink = true
	default:
		f.Kind = execenv.KindOther
	}
	return f, symlink, nil
}

// parseTime reads seconds with a fraction.
func parseTime(s string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	var nsec int64
	if fraction != "" {
		if len(fraction) > 9 {
			fraction = fraction[:9]
		}
		nsec, err = strconv.ParseInt(fraction+strings.Repeat("0", 9-len(fraction)), 10, 64)
	}
	return time.Unix(sec, nsec).UTC(), err
}

// infoOf reads what the script function info printed of p.
func infoOf(p string, a answer) (execenv.FileInfo, error) {
	f, symlink, err := parseStat(a.word("stat"))
	if err != nil {
		return f, err
	}
	if symlink {
		at := f.ModTime
		if a.has("target") {
			if f, _, err = parseStat(a.word("target")); err != nil {
				return f, err
			}
		} else {
			f = execenv.FileInfo{Kind: execenv.KindMissing, ModTime: at}
		}
		f.Symlink = string(a.value("link"))
	}
	f.Path = p
	return f, nil
}

// Stat describes a path.
func (e *Env) Stat(ctx context.Context, p string) (execenv.FileInfo, error) {
	p = e.abs(p)
	a, err := e.ask(ctx, p, "info "+execenv.Quote(p))
	if err != nil {
		return execenv.FileInfo{}, err
	}
	return infoOf(p, a)
}

// List lists a directory.
func (e *Env) List(ctx context.Context, p string) (execenv.ListResult, error) {
	p = e.abs(p)
	a, err := e.ask(ctx, p, "P="+execenv.Quote(p)+`
i=$(stat -c %n -- "$P/." 2>&1) || oops "$i"
t=$(stage); l=$(stage)
find "$P/" -mindepth 1 -maxdepth 1 -printf '`+treeFormat+`' >"$t" 2>/dev/null
find "$P/" -mindepth 1 -maxdepth 1 -type l -exec stat -L --printf '`+targetFormat+`' -- {} + >"$l" 2>/dev/null
give tree "$t"; give targets "$l"`)
	if err != nil {
		return execenv.ListResult{}, err
	}
	t, err := e.server.tree(ctx, p, p, a)
	if err != nil {
		return execenv.ListResult{}, e.down(ctx, err)
	}
	var res execenv.ListResult
	for _, name := range t.names() {
		if len(res.Entries) == maxEntries {
			res.Truncated = true
			break
		}
		res.Entries = append(res.Entries, t.describe(name))
	}
	return res, nil
}

// ReadFile reads a piece of a file, by a download.
func (e *Env) ReadFile(ctx context.Context, r execenv.ReadRequest) (execenv.ReadResult, error) {
	r.Path = e.abs(r.Path)
	info, err := e.Stat(ctx, r.Path)
	switch {
	case err != nil:
		return execenv.ReadResult{}, err
	case info.Kind == execenv.KindDir:
		return execenv.ReadResult{}, &execenv.PathError{Path: r.Path, Err: execenv.ErrIsDirectory}
	case info.Kind == execenv.KindMissing:
		return execenv.ReadResult{}, &execenv.PathError{Path: r.Path, Err: execenv.ErrNotFound}
	case info.Kind != execenv.KindFile:
		return execenv.ReadResult{}, &execenv.PathError{Path: r.Path, Err: execenv.ErrNotRegular, Detail: "it is a device, a pipe or a socket"}
	}
	ctx, cancel := context.WithTimeout(ctx, bytesTime)
	defer cancel()
	d := &downloaded{ctx: ctx, server: e.server, path: r.Path}
	defer d.Close()
	res, err := files.ReadFrom(ctx, d, info.Size, r)
	res.Info = info
	return res, e.down(ctx, err)
}

// downloaded is a file that is read by downloads, of which there is one more
// for each place that is jumped to.
type downloaded struct {
	ctx    context.Context
	server *Server
	path   string

	body io.ReadCloser
	at   int64
}

func (d *downloaded) Read(b []byte) (int, error) {
	if d.body == nil {
		body, err := d.server.open(d.ctx, d.path, d.at)
		if err != nil {
			return 0, err
		}
		d.body = body
	}
	n, err := d.body.Read(b)
	d.at += int64(n)
	if err != nil && err != io.EOF {
		err = d.server.lost(d.ctx, "GET", err)
	}
	return n, err
}

// Seek goes to an offset from the start.
func (d *downloaded) Seek(offset int64, _ int) (int64, error) {
	if offset != d.at {
		_ = d.Close() // of a body that is not read any further
		d.at = offset
	}
	return offset, nil
}

func (d *downloaded) Close() error {
	if d.body == nil {
		return nil
	}
	err := d.body.Close()
	d.body = nil
	return err
}

// locate is the part of a script that resolves the path P, as kind says ("file"
// follows a last link, "entry" does not), to R and holds it against the fence.
// Between this and what follows a link can be exchanged: a server's shell has no
// way to hold a directory open. What keeps the rest of the server apart is its
// own wall.
func locate(p string, within []string, kind string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "P=%s\n", execenv.Quote(p))
	if kind == "entry" {
		b.WriteString(`P=${P%/}; D=$(realpath -m -- "$(dirname -- "$P")" 2>&1; echo x) || :; D=${D%?x}
R=${D%/}/$(basename -- "$P")
`)
	} else {
		b.WriteString(`R=$(realpath -m -- "$P" 2>&1; echo x); R=${R%?x}
`)
	}
	b.WriteString(`case $R in /*) ;; *) oops "$R" ;; esac
`)
	if len(within) == 0 {
		return b.String()
	}
	b.WriteString("in=; there=\nfor w in " + execenv.Quote(within...) + `; do
  w=$(realpath -e -- "$w" 2>/dev/null; echo x); w=${w%?x}
  [ -n "${w%x}" ] || continue
  there=1
  case $R in "$w") in=$w; top=1 ;; "${w%/}"/*) in=$w ;; esac
done
[ -n "$there" ] || die gone 'the workspace is not there: put it back'
[ -n "$in" ] || die escape "it leads to $R; allowed is what lies in the workspace"
`)
	return b.String()
}

// writeScript replaces R by the bytes in the file N, in the mode M, as long as
// what is there has the hash X.
const writeScript = `
if [ "$M" = exclusive ] && { [ -e "$P" ] || [ -L "$P" ]; }; then die exists ''; fi
[ ! -d "$R" ] || die isdir ''
[ ! -e "$R" ] || [ -f "$R" ] || die irregular 'it is a device, a pipe or a socket'
case $P in */) die isdir '' ;; esac
if [ "$M" = expected ]; then
  [ -e "$R" ] || die changed 'it is not there any more'
  h=$(sha256sum <"$R" 2>&1) || oops "$h"
  [ "${h%% *}" = "$X" ] || die changed 'its content is another than what was read: read it again'
fi
D=$(dirname -- "$R")
if [ ! -d "$D" ]; then
  i=$(umask 022; mkdir -p -- "$D" 2>&1) || { d=$D; while [ "$d" != / ] && [ ! -e "$d" ]; do d=$(dirname -- "$d"); done; [ -d "$d" ] || die notdir ''; oops "$i"; }
fi
if [ -e "$R" ]; then
  [ -w "$R" ] || die denied ''
  if [ "$(stat -c %s -- "$R")" -le ` + "1048576" + ` ] && o=$(stage) && cat -- "$R" >"$o" 2>/dev/null; then give before "$o"
  else echo 'omitted 1'; fi
  if t=$(mktemp "$D/.glovebox-XXXXXXXX" 2>/dev/null) && cat -- "$N" >"$t" && chown --reference="$R" -- "$t" 2>/dev/null && chmod --reference="$R" -- "$t" && mv -fT -- "$t" "$R"; then :
  else
    [ -z "$t" ] || rm -f -- "$t"
    i=$(cat -- "$N" 2>&1 >"$R") || oops "$i"
    echo 'inplace 1'
  fi
else
  echo 'created 1'
  t=$(mktemp "$D/.glovebox-XXXXXXXX" 2>&1) || oops "$t"
  i=$(cat -- "$N" 2>&1 >"$t" && chmod 644 -- "$t" 2>&1) || { rm -f -- "$t"; oops "$i"; }
  if [ "$M" = exclusive ]; then i=$(ln -T -- "$t" "$R" 2>&1) || { rm -f -- "$t"; oops "$i"; }; rm -f -- "$t"
  else i=$(mv -fT -- "$t" "$R" 2>&1) || { rm -f -- "$t"; oops "$i"; }; fi
fi
info "$P"`

// WriteFile replaces or makes a file.
func (e *Env) WriteFile(ctx context.Context, r execenv.WriteRequest) (execenv.WriteResult, error) {
	r.Path = e.abs(r.Path)
	unlock, err := e.server.lockWrites(ctx)
	if err != nil {
		return execenv.WriteResult{}, err
	}
	defer unlock()
	return e.write(ctx, r)
}

// write is WriteFile for one who holds the lock. Once its request is out, the
// end of ctx does not say whether it happened.
func (e *Env) write(ctx context.Context, r execenv.WriteRequest) (execenv.WriteResult, error) {
	var res execenv.WriteResult
	if err := again(r.Call); err != nil {
		return res, err
	}
	switch r.Mode {
	case "", execenv.WriteOverwrite, execenv.WriteExclusive, execenv.WriteExpected:
	default:
		return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrInvalid, Detail: fmt.Sprintf("unknown write mode %q", r.Mode)}
	}
	script := locate(r.Path, e.allAbs(r.Within), "file") +
		fmt.Sprintf("M=%s X=%s\n", execenv.Quote(string(r.Mode)), execenv.Quote(r.Expected))
	encoded := base64.StdEncoding.EncodeToString(r.Data)
	if len(encoded) <= longScript/2 {
		script += "N=$(stage); printf %s " + encoded + ` | base64 -d >"$N"; trap 'rm -f -- "$N"' EXIT` + "\n"
	} else {
		staged, err := e.server.stage(ctx, r.Data)
		if err != nil {
			return res, e.down(ctx, pathError(r.Path, err)) // nothing has happened to the file that is meant
		}
		defer e.server.remove(ctx, staged)
		script += "N=" + execenv.Quote(staged) + "\n"
	}
	a, err := e.server.script(ctx, script+writeScript)
	if err != nil {
		return res, e.down(ctx, unknown("write "+r.Path, pathError(r.Path, err)))
	}
	if res.Info, err = infoOf(r.Path, a); err != nil {
		return res, err
	}
	sum := sha256.Sum256(r.Data)
	res.Hash = hex.EncodeToString(sum[:])
	res.Created, res.InPlace, res.BeforeOmitted = a.has("created"), a.has("inplace"), a.has("omitted")
	if !res.Created && !res.BeforeOmitted {
		if res.Before, err = e.server.result(ctx, a, "before"); err != nil {
			res.Before, res.BeforeOmitted = nil, true
		}
	}
	return res, nil
}

// EditFile replaces exact text in a file: it is read, changed here, and written
// on the condition that nobody has changed it meanwhile.
func (e *Env) EditFile(ctx context.Context, r execenv.EditRequest) (execenv.EditResult, error) {
	var res execenv.EditResult
	r.Path = e.abs(r.Path)
	if err := again(r.Call); err != nil {
		return res, err
	}
	unlock, err := e.server.lockWrites(ctx)
	if err != nil {
		return res, err
	}
	defer unlock()
	// The fence comes first: what lies outside is not even read.
	a, err := e.ask(ctx, r.Path, locate(r.Path, e.allAbs(r.Within), "file")+`info "$P"`)
	if err != nil {
		return res, err
	}
	info, err := infoOf(r.Path, a)
	switch {
	case err != nil:
		return res, err
	case info.Kind == execenv.KindMissing:
		return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrNotFound}
	case info.Kind == execenv.KindDir:
		return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrIsDirectory}
	case info.Kind != execenv.KindFile:
		return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrNotRegular}
	case info.Size > execenv.HashLimit:
		return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrTooLarge,
			Detail: fmt.Sprintf("%d bytes; a file of up to %d can be edited", info.Size, execenv.HashLimit)}
	}
	d := &downloaded{ctx: ctx, server: e.server, path: r.Path}
	content, err := io.ReadAll(io.LimitReader(d, execenv.HashLimit+1))
	d.Close()
	if err != nil {
		return res, e.down(ctx, err)
	}
	if strings.IndexByte(string(content[:min(len(content), 8<<10)]), 0) >= 0 {
		return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrBinary}
	}
	after, replaced, first, err := execenv.ApplyEdit(content, r)
	if err != nil {
		return res, err
	}
	sum := sha256.Sum256(content)
	res.WriteResult, err = e.write(ctx, execenv.WriteRequest{
		Call: r.Call, Path: r.Path, Data: after, Mode: execenv.WriteExpected, Expected: hex.EncodeToString(sum[:]), Within: r.Within,
	})
	if err != nil {
		return res, err
	}
	res.Replaced, res.FirstLine = replaced, first
	if res.Before, res.BeforeOmitted = content, false; len(content) > keptBytes {
		res.Before, res.BeforeOmitted = nil, true
	}
	if res.After = after; len(after) > keptBytes {
		res.After, res.AfterOmitted = nil, true
	}
	return res, nil
}

// Change changes a directory's entries.
func (e *Env) Change(ctx context.Context, r execenv.ChangeRequest) error {
	if err := again(r.Call); err != nil {
		return err
	}
	r.Path = e.abs(r.Path)
	within := e.allAbs(r.Within)
	var script string
	switch r.Kind {
	case execenv.ChangeMkdir:
		script = locate(r.Path, within, "file") + `
[ ! -e "$R" ] || [ -d "$R" ] || die exists ''
i=$(umask 022; mkdir -p -- "$R" 2>&1) || { d=$R; while [ ! -e "$d" ]; do d=$(dirname -- "$d"); done; [ -d "$d" ] || die notdir ''; oops "$i"; }`
	case execenv.ChangeRemove:
		script = locate(r.Path, within, "entry") + `
[ -z "${top-}" ] || die invalid 'it is the workspace itself'
if [ -d "$R" ] && [ ! -L "$R" ]; then i=$(rmdir -- "$R" 2>&1) || oops "$i"
else i=$(rm -- "$R" 2>&1 </dev/null) || oops "$i"; fi`
	case execenv.ChangeRename:
		script = locate(e.abs(r.To), within, "entry") + "T=$R\n" + locate(r.Path, within, "entry") + `
[ -z "${top-}" ] || die invalid 'it is the workspace itself'
i=$(stat -c %n -- "$R" 2>&1) || oops "$i"
i=$(mv -fT -- "$R" "$T" 2>&1) || oops "$i"`
	default:
		return &execenv.PathError{Path: r.Path, Err: execenv.ErrInvalid, Detail: fmt.Sprintf("unknown change %q", r.Kind)}
	}
	unlock, err := e.server.lockWrites(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := e.server.script(ctx, script); err != nil {
		return e.down(ctx, unknown(string(r.Kind)+" "+r.Path, pathError(r.Path, err)))
	}
	return nil
}

func (e *Env) allAbs(ps []string) []string {
	abs := make([]string, len(ps))
	for i, p := range ps {
		abs[i] = path.Clean(e.abs(p))
	}
	return abs
}
