//go:build !linux

package docker

import (
	"context"
	"net"
	"path/filepath"
)

// dialUnix connects to the socket called name in dir.
func dialUnix(ctx context.Context, dir, name string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", filepath.Join(dir, name))
}
