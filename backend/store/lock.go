package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockName is the lock file's name in the data directory. The file stays when
// the lock is released: removing it would let two processes lock two files.
const lockName = "lock"

// Owner is the process that owns a data directory, and where it listens.
type Owner struct {
	PID int    `json:"pid"`
	URL string `json:"url"` // "" until it listens
}

// HeldError says that another process owns the data directory.
type HeldError struct {
	PID int    // 0 when it has not said yet
	URL string // "" when it does not listen yet
	Dir string
}

func (e *HeldError) Error() string {
	switch {
	case e.PID == 0:
		return fmt.Sprintf("the data directory %s is in use by another process; try again", e.Dir)
	case e.URL == "":
		return fmt.Sprintf("the data directory %s is in use by process %d, which is starting or stopping; try again", e.Dir, e.PID)
	}
	return fmt.Sprintf("the data directory %s is in use by process %d at %s; use that one, or choose another directory", e.Dir, e.PID, e.URL)
}

// Lock makes this process the owner of a data directory for as long as it lives
// or until Release. The kernel frees it with the process, however that ends.
type Lock struct {
	file *os.File
}

// Acquire takes the lock of dir, which is made when missing. While another
// process holds it, the error is a *HeldError.
func Acquire(dir string) (*Lock, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	held, err := flock(f)
	if err == nil && held {
		o := readOwner(f)
		err = &HeldError{PID: o.PID, URL: o.URL, Dir: dir}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l := &Lock{file: f}
	if err := l.write(Owner{PID: os.Getpid()}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// SetURL tells those who find the lock held where its owner listens.
func (l *Lock) SetURL(url string) error {
	return l.write(Owner{PID: os.Getpid(), URL: url})
}

// Release frees the lock. A second Release does nothing.
func (l *Lock) Release() error {
	err := l.file.Truncate(0) // an empty file names nobody
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return errors.Join(err, l.file.Close())
}

func (l *Lock) write(o Owner) error {
	b, err := json.Marshal(o)
	if err == nil {
		_, err = l.file.WriteAt(append(b, '\n'), 0)
	}
	if err == nil {
		// After the write, so that a reader never finds an empty file; it takes
		// the first value and ignores what a longer one left behind it.
		err = l.file.Truncate(int64(len(b) + 1))
	}
	if err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	return nil
}

// Peek returns who owns dir, and whether anybody does, without taking the lock.
func Peek(dir string) (Owner, bool) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return Owner{}, false
	}
	defer f.Close()
	if try(f, syscall.LOCK_SH) == nil {
		return Owner{}, false // the shared lock goes with the file
	}
	return readOwner(f), true
}

// flock takes the exclusive lock, or reports that an owner holds it. A shared
// lock is held for a moment by those who only look, and is waited for.
func flock(f *os.File) (held bool, err error) {
	for {
		err := try(f, syscall.LOCK_EX)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return false, err
		}
		err = try(f, syscall.LOCK_SH)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return true, nil
		}
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		}
		if err != nil {
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		time.Sleep(time.Millisecond)
	}
}

func try(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

// readOwner reads what the owner wrote. One that has just taken the lock of a
// process that was killed still shows that one's words, or none: it gets a
// moment to write its own.
func readOwner(f *os.File) Owner {
	for range 100 {
		var o Owner
		err := json.NewDecoder(io.NewSectionReader(f, 0, 64<<10)).Decode(&o)
		if err == nil && alive(o.PID) {
			return o
		}
		time.Sleep(2 * time.Millisecond)
	}
	return Owner{}
}

func alive(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
