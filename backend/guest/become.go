//go:build linux

package guest

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/guest/process"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// become makes the guest a user that nobody else in the sandbox is, and keeps
// its capabilities. A container starts it as uid 0, and uid 0 is also what the
// commands of a workspace of root are: they have no capability, but what belongs
// to uid 0 they could read, replace and write all the same, the journal, the
// socket and the files of /proc/1 among it. It reports whether it changed.
//
// The directory of the guest belongs to that user from the start, and is open so
// that the engine can start the guest in it; from here on it is closed.
func become(cfg wire.GuestConfig) (changed bool, err error) {
	if cfg.GuestUID == 0 || os.Geteuid() != 0 {
		return false, nil
	}
	_, permitted, err := process.Capabilities()
	if err != nil {
		return false, fmt.Errorf("read capabilities: %w", err)
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); errno != 0 {
		return false, fmt.Errorf("keep capabilities: %w", errno)
	}
	id := cfg.GuestUID
	if err := syscall.Setresgid(id, id, id); err != nil {
		return false, fmt.Errorf("become group %d: %w", id, err)
	}
	if err := syscall.Setresuid(id, id, id); err != nil {
		return false, fmt.Errorf("become user %d: %w", id, err)
	}
	if err := setAllCapabilities(permitted, permitted); err != nil {
		return false, fmt.Errorf("keep capabilities as user %d: %w", id, err)
	}
	if cfg.Own != "" {
		if err := os.Chmod(cfg.Own, 0o700); err != nil {
			return false, fmt.Errorf("close the guest's directory: %w", err)
		}
	}
	return true, nil
}

// setAllCapabilities sets the capabilities of every thread.
func setAllCapabilities(effective, permitted uint64) error {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	d := [2]unix.CapUserData{
		{Effective: uint32(effective), Permitted: uint32(permitted)},
		{Effective: uint32(effective >> 32), Permitted: uint32(permitted >> 32)},
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&d[0])), 0); errno != 0 {
		return errno
	}
	return nil
}
