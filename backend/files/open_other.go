//go:build !linux

package files

import "golang.org/x/sys/unix"

// openNoLinks opens path. Only its last name is held against links here: what
// Linux's version keeps from being read is a guest's own process, and a guest
// runs on Linux.
func openNoLinks(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
