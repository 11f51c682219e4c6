package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const (
	newFileMode = 0o644 // less the umask
	// keptBytes is how much of a file's old and new content a result carries.
	keptBytes = 1 << 20
)

// WriteFile replaces or makes a file. A link is written through, to a target
// that must lie in r.Within; mode, owner, extended attributes and the link stay.
func (e *Engine) WriteFile(ctx context.Context, r execenv.WriteRequest) (execenv.WriteResult, error) {
	p, err := e.locate(r.Path, r.Within, resolve)
	if err != nil {
		return execenv.WriteResult{}, err
	}
	switch r.Mode {
	case "", execenv.WriteOverwrite, execenv.WriteExpected:
	case execenv.WriteExclusive:
		if _, err := os.Lstat(p.path); err == nil {
			return execenv.WriteResult{}, &execenv.PathError{Path: r.Path, Err: execenv.ErrExists}
		}
	default:
		return execenv.WriteResult{}, &execenv.PathError{Path: r.Path, Err: execenv.ErrInvalid, Detail: fmt.Sprintf("unknown write mode %q", r.Mode)}
	}
	unlock, err := e.locks.lock(ctx, p.real)
	if err != nil {
		return execenv.WriteResult{}, err
	}
	defer unlock()

	t, err := openTarget(p, r.Mode != execenv.WriteExpected)
	if err != nil {
		return execenv.WriteResult{}, pathError(r.Path, err)
	}
	defer t.close()
	res, err := t.write(ctx, r)
	return res, pathError(r.Path, err)
}

// EditFile replaces exact text in a file by the rules of [execenv.ApplyEdit].
func (e *Engine) EditFile(ctx context.Context, r execenv.EditRequest) (execenv.EditResult, error) {
	p, err := e.locate(r.Path, r.Within, resolve)
	if err != nil {
		return execenv.EditResult{}, err
	}
	unlock, err := e.locks.lock(ctx, p.real)
	if err != nil {
		return execenv.EditResult{}, err
	}
	defer unlock()

	t, err := openTarget(p, false)
	if err != nil {
		return execenv.EditResult{}, pathError(r.Path, err)
	}
	defer t.close()
	res, err := t.edit(r)
	return res, pathError(r.Path, err)
}

// target is a file about to be written: the directory it is in and what is
// there now.
type target struct {
	place
	dir  *os.Root
	name string
	was  fs.FileInfo // nil: nothing is there
}

// openTarget opens the directory of p, made if it is missing and parents is set,
// and looks at what is there. Only a regular file, or nothing, can be written.
func openTarget(p place, parents bool) (*target, error) {
	if p.isFence() {
		return nil, &execenv.PathError{Path: p.path, Err: execenv.ErrIsDirectory}
	}
	dir, name, err := p.open(parents)
	if err != nil {
		return nil, err
	}
	t := &target{place: p, dir: dir, name: name}
	t.was, err = dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.was, err = nil, nil
	case err == nil && t.was.Mode()&fs.ModeSymlink != 0:
		err = &execenv.PathError{Path: p.path, Err: execenv.ErrChanged, Detail: "a link was put there just now"}
	case err == nil:
		err = regular(p.path, t.was)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return t, nil
}

func (t *target) close() { t.dir.Close() }

func (t *target) write(ctx context.Context, r execenv.WriteRequest) (execenv.WriteResult, error) {
	var res execenv.WriteResult
	if r.Mode == execenv.WriteExpected {
		if t.was == nil {
			return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrChanged, Detail: "it is not there any more"}
		}
		if t.was.Size() > execenv.HashLimit {
			return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrTooLarge,
				Detail: fmt.Sprintf("%d bytes; a file of more than %d is not compared with what was read", t.was.Size(), execenv.HashLimit)}
		}
	}
	if t.was != nil {
		hash, before, err := t.look(ctx, r.Mode == execenv.WriteExpected)
		switch {
		case r.Mode == execenv.WriteExpected && err != nil:
			return res, err
		case r.Mode == execenv.WriteExpected && hash != r.Expected:
			return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrChanged, Detail: "its content is another than what was read: read it again"}
		case err != nil || len(before) > keptBytes: // one may write what one may not read
			res.BeforeOmitted = true
		default:
			res.Before = before
		}
	}
	err := t.replace(r.Data, r.Mode == execenv.WriteExclusive, &res)
	return res, err
}

// look returns the content, or a little more than keptBytes of it, and its hash
// where that is asked for.
func (t *target) look(ctx context.Context, hashed bool) (hash string, before []byte, err error) {
	f, err := t.openOld(os.O_RDONLY)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	before, err = io.ReadAll(io.LimitReader(f, keptBytes+1))
	if err != nil || !hashed {
		return "", before, err
	}
	h := sha256.New()
	h.Write(before)
	if _, err := io.Copy(h, &ctxReader{ctx, f}); err != nil {
		return "", nil, err
	}
	return hex.EncodeToString(h.Sum(nil)), before, nil
}

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

func (t *target) edit(r execenv.EditRequest) (execenv.EditResult, error) {
	var res execenv.EditResult
	if t.was == nil {
		return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrNotFound}
	}
	if t.was.Size() > execenv.HashLimit {
		return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrTooLarge,
			Detail: fmt.Sprintf("%d bytes; a file of up to %d can be edited", t.was.Size(), execenv.HashLimit)}
	}
	f, err := t.openOld(os.O_RDONLY)
	if err != nil {
		return res, err
	}
	content, err := io.ReadAll(io.LimitReader(f, execenv.HashLimit+1))
	f.Close()
	if err != nil {
		return res, err
	}
	if bytes.IndexByte(content[:min(len(content), headBytes)], 0) >= 0 {
		return res, &execenv.PathError{Path: r.Path, Err: execenv.ErrBinary}
	}
	after, replaced, first, err := execenv.ApplyEdit(content, r)
	if err != nil {
		return res, err
	}
	if err := t.replace(after, false, &res.WriteResult); err != nil {
		return res, err
	}
	res.Replaced, res.FirstLine = replaced, first
	if res.Before = content; len(content) > keptBytes {
		res.Before, res.BeforeOmitted = nil, true
	}
	if res.After = after; len(after) > keptBytes {
		res.After, res.AfterOmitted = nil, true
	}
	return res, nil
}

// openOld opens the file that was there, and only that one.
func (t *target) openOld(flag int) (*os.File, error) {
	f, err := t.dir.OpenFile(t.name, flag|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !os.SameFile(st, t.was) {
		err = &execenv.PathError{Path: t.path, Err: execenv.ErrChanged, Detail: "another file was put there just now"}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// replace makes data the content and fills in the result.
func (t *target) replace(data []byte, exclusive bool, res *execenv.WriteResult) error {
	var info fs.FileInfo
	var err error
	switch {
	case exclusive:
		info, err = t.create(t.name, newFileMode, data, nil)
	case t.was == nil:
		info, err = t.swap(data, newFileMode, nil)
	default:
		info, res.InPlace, err = t.overwrite(data)
	}
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	res.Hash = hex.EncodeToString(sum[:])
	res.Created = t.was == nil
	res.Info = describe(t.path, info)
	if l, err := os.Readlink(t.path); err == nil {
		res.Info.Symlink = l
	}
	return nil
}

// overwrite replaces the old file by a new one that is like it in all but
// content, or, where there can be none, rewrites it in place.
func (t *target) overwrite(data []byte) (info fs.FileInfo, inPlace bool, err error) {
	// Who may not write the file may not replace it either, though rename asks
	// for the directory's rights alone. A program that runs can be replaced.
	old, err := t.openOld(os.O_WRONLY)
	if err != nil && !errors.Is(err, syscall.ETXTBSY) {
		return nil, false, err
	}
	if old != nil {
		defer old.Close()
	}
	info, err = t.swap(data, 0o600, t.likeOld)
	if err == nil || old == nil {
		return info, false, err
	}
	if !errors.Is(err, errUnlike) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EBUSY) {
		return nil, false, err
	}
	if _, err := old.Write(data); err != nil {
		return nil, true, err
	}
	if err := old.Truncate(int64(len(data))); err != nil {
		return nil, true, err
	}
	info, err = old.Stat()
	return info, true, err
}

// errUnlike means that a new file cannot be given what the old one has.
var errUnlike = errors.New("owner or attributes cannot be kept")

// likeOld gives f the owner, the attributes and the mode of the old file.
func (t *target) likeOld(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	was, ok1 := t.was.Sys().(*syscall.Stat_t)
	now, ok2 := st.Sys().(*syscall.Stat_t)
	if ok1 && ok2 && (was.Uid != now.Uid || was.Gid != now.Gid) {
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return errUnlike
		}
	}
	old, err := t.openOld(os.O_RDONLY)
	if err == nil {
		err = copyAttributes(old, f)
		old.Close()
	}
	if err != nil {
		return errUnlike
	}
	// After chown, which takes set-user-id away.
	return f.Chmod(t.was.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky))
}

// swap writes data to a new file beside the target and renames it there. The
// rename takes the place of whatever has the name by then, and follows nothing.
func (t *target) swap(data []byte, mode fs.FileMode, prepare func(*os.File) error) (fs.FileInfo, error) {
	temp := "." + t.name
	if len(temp) > 200 {
		temp = temp[:200]
	}
	temp += "." + rand.Text()[:10] + ".tmp"
	info, err := t.create(temp, mode, data, prepare)
	if err != nil {
		return nil, err
	}
	if err := t.dir.Rename(temp, t.name); err != nil {
		t.dir.Remove(temp)
		return nil, err
	}
	return info, nil
}

// create makes the file name with data, or leaves nothing behind.
func (t *target) create(name string, mode fs.FileMode, data []byte, prepare func(*os.File) error) (info fs.FileInfo, err error) {
	f, err := t.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			t.dir.Remove(name)
		}
	}()
	if _, err := f.Write(data); err != nil {
		return nil, err
	}
	if prepare != nil {
		if err := prepare(f); err != nil {
			return nil, err
		}
	}
	return f.Stat()
}
