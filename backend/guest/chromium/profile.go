//go:build linux

package chromium

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// profileLock is a file in a profile that is locked for as long as a browser
// runs in it. Chromium's own lock names a host and a process, which says nothing
// to another sandbox that has the same directory mounted.
const profileLock = "glovebox.lock"

// profile is a directory that a browser may use.
type profile struct {
	dir  string
	lock *os.File
}

// takeProfile makes a directory the profile of one browser, with our preferences.
// What a browser that is dead left behind in it is removed; one that lives is
// execenv.ErrBusy.
func takeProfile(dir, hostname string) (_ *profile, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the browser's profile: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, profileLock), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the browser's profile: %w", err)
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, fmt.Errorf("the browser's profile %s is used by the browser of another sandbox; stop that one, or give this sandbox a HOME of its own: %w", dir, execenv.ErrBusy)
	case err != nil:
		return nil, fmt.Errorf("lock the browser's profile %s: %w", dir, err)
	}
	owner, err := os.Readlink(filepath.Join(dir, "SingletonLock"))
	if err == nil {
		host, pid := splitOwner(owner)
		// Another host's browser would hold our lock if it lived.
		if host == hostname && usesProfile(pid, dir) {
			return nil, fmt.Errorf("the browser's profile %s is used by process %d, which was started by hand; end that one: %w", dir, pid, execenv.ErrBusy)
		}
	}
	for _, name := range []string{"SingletonLock", "SingletonCookie", "SingletonSocket"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("free the browser's profile: %w", err)
		}
	}
	if err := prefer(dir); err != nil {
		return nil, fmt.Errorf("write the browser's preferences: %w", err)
	}
	return &profile{dir, lock}, nil
}

func (p *profile) close() { p.lock.Close() }

// splitOwner takes the text of Chromium's lock apart: HOST-PID.
func splitOwner(text string) (host string, pid int) {
	i := strings.LastIndexByte(text, '-')
	if i < 0 {
		return "", 0
	}
	pid, err := strconv.Atoi(text[i+1:])
	if err != nil {
		return "", 0
	}
	return text[:i], pid
}

// usesProfile says whether a process lives and is a browser with this profile:
// its number alone may long be another's.
func usesProfile(pid int, dir string) bool {
	if pid <= 0 {
		return false
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH)
	}
	return bytes.Contains(line, []byte("--user-data-dir="+dir))
}
