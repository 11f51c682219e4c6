package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// A copy of a workspace is bounded: what is larger is shared, or copied by hand.
const (
	mostCopied      = 20 << 30 // bytes
	mostCopiedFiles = 1_000_000
	leftFree        = 1 << 30 // bytes that a copy leaves free on the disk
)

// copyTold is how often the progress of a copy is told.
const copyTold = 200 * time.Millisecond

// amount is how much there is of a tree, or has been copied of it.
type amount struct{ files, bytes int64 }

// copyTree copies the directory from to the directory to, which is empty and
// there: files with their mode, owner and times, directories, and symbolic links
// as they are, none of which is followed. What is neither (a socket, a pipe) is
// left out, for there is nothing in it. told is called now and then. On an error
// the caller removes what was copied.
func copyTree(ctx context.Context, from, to string, told func(done, all amount)) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	all, err := measure(ctx, source)
	if err != nil {
		return err
	}
	if err := fits(from, to, all); err != nil {
		return err
	}
	c := &copier{source: source, target: target, all: all, tell: told}
	told(amount{}, all)
	err = walk(ctx, source, func(name string, info fs.FileInfo) error { return c.copy(ctx, name, info) })
	if err != nil {
		return err
	}
	told(c.done, all)
	return c.finish()
}

// fits refuses what is too large.
func fits(from, to string, all amount) error {
	bad := func(format string, a ...any) error {
		return &sandbox.FieldError{Field: "workspace", Reason: from + " " + fmt.Sprintf(format, a...) + "; share it, or copy what is needed of it by hand"}
	}
	if all.bytes > mostCopied || all.files > mostCopiedFiles {
		return bad("has more than a fork copies, which is %d GiB in %d files", mostCopied>>30, mostCopiedFiles)
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(to, &disk); err != nil {
		return fmt.Errorf("ask how much is free at %s: %w", to, err)
	}
	if free := int64(disk.Bavail) * disk.Bsize; all.bytes > free-leftFree {
		return bad("has %d MiB, and there are %d MiB free for its copy", all.bytes>>20, free>>20)
	}
	return nil
}

// measure counts a tree, and stops when there is more than is copied.
func measure(ctx context.Context, root *os.Root) (amount, error) {
	var all amount
	enough := errors.New("enough")
	err := walk(ctx, root, func(_ string, info fs.FileInfo) error {
		all.files++
		if info.Mode().IsRegular() {
			all.bytes += info.Size()
		}
		if all.files > mostCopiedFiles || all.bytes > mostCopied {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return all, err
	}
	return all, nil
}

// walk visits everything in a tree, directories before what is in them. What
// vanishes meanwhile is not visited.
func walk(ctx context.Context, root *os.Root, visit func(name string, info fs.FileInfo) error) error {
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return visit(name, info)
	})
}

// copier copies the entries of a tree one after the other.
type copier struct {
	source, target *os.Root
	done, all      amount
	tell           func(done, all amount)
	told           time.Time
	dirs           []entry // whose times and modes come last, since their contents change them
}

type entry struct {
	name string
	info fs.FileInfo
}

func (c *copier) copy(ctx context.Context, name string, info fs.FileInfo) error {
	var err error
	switch {
	case info.IsDir():
		if name != "." {
			err = c.target.Mkdir(name, 0o700)
		}
		c.dirs = append(c.dirs, entry{name, info})
	case info.Mode()&fs.ModeSymlink != 0:
		var to string
		if to, err = c.source.Readlink(name); err == nil {
			err = c.target.Symlink(to, name)
		}
		if err == nil {
			err = c.own(name, info)
		}
	case info.Mode().IsRegular():
		err = c.file(ctx, name, info)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copy %s: %w", path.Join(c.source.Name(), name), err)
	}
	c.done.files++
	c.progress()
	return nil
}

// progress tells how far it is, now and then.
func (c *copier) progress() {
	if time.Since(c.told) >= copyTold {
		c.told = time.Now()
		c.tell(c.done, c.all)
	}
}

func (c *copier) file(ctx context.Context, name string, info fs.FileInfo) error {
	from, err := c.source.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // should it be a pipe by now
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := c.target.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	const part = 16 << 20 // between two looks at ctx
	for err == nil && ctx.Err() == nil {
		var n int64
		n, err = io.CopyN(to, from, part)
		if c.done.bytes += n; err == nil && c.done.bytes > mostCopied+leftFree {
			err = errors.New("it grows while it is copied") // for ever, if it were let
		}
		c.progress()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	err = errors.Join(err, ctx.Err())
	return errors.Join(err, to.Close(), c.dress(name, info))
}

// dress gives an entry the owner, mode and times of its source.
func (c *copier) dress(name string, info fs.FileInfo) error {
	if err := c.own(name, info); err != nil {
		return err
	}
	mode := info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	return errors.Join(c.target.Chmod(name, mode), c.target.Chtimes(name, time.Time{}, info.ModTime()))
}

// own gives an entry the owner of its source. Only root can give files away: for
// anybody else what is copied is theirs.
func (c *copier) own(name string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return c.target.Lchown(name, int(st.Uid), int(st.Gid))
}

// finish dresses the directories, the inner ones first.
func (c *copier) finish() error {
	for i := len(c.dirs) - 1; i >= 0; i-- {
		if err := c.dress(c.dirs[i].name, c.dirs[i].info); err != nil {
			return fmt.Errorf("copy %s: %w", path.Join(c.source.Name(), c.dirs[i].name), err)
		}
	}
	return nil
}
