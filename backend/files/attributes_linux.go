package files

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// copyAttributes copies the extended attributes that are the user's to set, and
// access control lists. The kernel keeps the others (security, trusted).
func copyAttributes(from, to *os.File) error {
	size, err := unix.Flistxattr(int(from.Fd()), nil)
	if err != nil || size <= 0 {
		return ignoreUnsupported(err)
	}
	list := make([]byte, size)
	if size, err = unix.Flistxattr(int(from.Fd()), list); err != nil {
		return ignoreUnsupported(err)
	}
	for name := range strings.SplitSeq(strings.Trim(string(list[:size]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl_") {
			continue
		}
		n, err := unix.Fgetxattr(int(from.Fd()), name, nil)
		if err != nil {
			return err
		}
		value := make([]byte, n)
		if n, err = unix.Fgetxattr(int(from.Fd()), name, value); err != nil {
			return err
		}
		if err := unix.Fsetxattr(int(to.Fd()), name, value[:n], 0); err != nil {
			return err
		}
	}
	return nil
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
