package files

import (
	"strings"

	"golang.org/x/sys/unix"
)

// openNoLinks opens path; a link anywhere on the way is ELOOP, or ENOTDIR where
// names are opened one by one.
func openNoLinks(path string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS})
		switch err {
		case unix.EINTR, unix.EAGAIN: // a rename elsewhere came between
			continue
		case unix.ENOSYS, unix.EPERM: // before Linux 5.6, and where a filter does not know the call
			return openByNames(path, flags)
		}
		return fd, err
	}
}

// openByNames is openNoLinks with a system call for every name.
func openByNames(path string, flags int) (int, error) {
	dir, err := openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return -1, err
	}
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(names) == 0 {
		names = []string{"."}
	}
	for _, name := range names[:len(names)-1] {
		next, err := openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		unix.Close(dir)
		if err != nil {
			return -1, err
		}
		dir = next
	}
	defer unix.Close(dir)
	return openat(dir, names[len(names)-1], flags)
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
