package docker

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// dialUnix connects to the socket called name in dir. The address of a unix
// socket has room for 107 bytes, fewer than a data directory's path may take,
// so the way leads through a descriptor of the directory.
func dialUnix(ctx context.Context, dir, name string) (net.Conn, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	var d net.Dialer
	return d.DialContext(ctx, "unix", filepath.Join("/proc/self/fd", strconv.Itoa(fd), name))
}
