//go:build linux

package guest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Hide covers the directories of cfg.Hide, and makes the mounts of cfg.ReadOnly
// so, for the guest and all that it will ever start. It is the first thing that
// "serve" does: the inherited
// descriptors must not be close-on-exec yet. With nothing to hide it marks them
// so and returns. Else it never returns but for an error: it starts the guest's program again,
// in the same process, with a configuration in which Hide is empty and StateDir
// and LockFile go through an open descriptor.
//
// In the namespace wall a command has the guest's own uid, so permissions
// cannot keep it away from the journal. Nor can unmounting: the mounts belong
// to a user namespace above the guest's and are locked together. What the
// guest can do is take a mount namespace of its own and put an empty, read-only
// file system on top, which nobody without CAP_SYS_ADMIN takes off again. A
// mount namespace belongs to a thread, and a Go program has several before main
// starts; the new start is what gives all of them the new one.
//
// The descriptor that remains is reachable as /proc/PID/fd/N by the guest
// alone: the kernel asks everybody else for the right to trace it, which is
// refused to a command because it lacks the guest's capabilities.
func Hide(cfg wire.GuestConfig) error {
	if len(cfg.Hide) == 0 {
		// Whatever was inherited is the guest's, not its commands': what was kept
		// over the start below, and what a careless parent left open.
		return closeOnExec()
	}
	runtime.LockOSThread() // never unlocked: the thread's file system view is its own now

	dir, err := unix.Open(cfg.StateDir, unix.O_RDONLY|unix.O_DIRECTORY, 0) // survives the exec on purpose
	if err != nil {
		return fmt.Errorf("open the state directory: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("take a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	for _, hidden := range cfg.Hide {
		flags := uintptr(unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
		if err := unix.Mount("glovebox", hidden, "tmpfs", flags, "size=4k,mode=0555"); err != nil {
			return fmt.Errorf("cover %s: %w", hidden, err)
		}
	}
	for _, mounted := range cfg.ReadOnly {
		var st unix.Statfs_t
		if err := unix.Statfs(mounted, &st); err != nil {
			return fmt.Errorf("read the mount %s: %w", mounted, err)
		}
		// What it is already is locked, and has to be asked for again.
		kept := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
		if err := unix.Mount("", mounted, "", kept|unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("make %s read-only: %w", mounted, err)
		}
	}

	kept := throughFD + strconv.Itoa(dir)
	if rest, ok := strings.CutPrefix(cfg.LockFile, path.Clean(cfg.StateDir)+"/"); ok {
		cfg.LockFile = path.Join(kept, rest)
	}
	cfg.StateDir, cfg.Hide, cfg.ReadOnly = kept, nil, nil
	argv, err := withConfig(os.Args, cfg)
	if err != nil {
		return err
	}
	if err := unix.Exec("/proc/self/exe", argv, os.Environ()); err != nil {
		return fmt.Errorf("start again behind the cover: %w", err)
	}
	return nil
}

// throughFD and a descriptor's number make a path to what it has open.
const throughFD = "/proc/self/fd/"

// closeOnExec marks every descriptor but the standard ones.
func closeOnExec() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Before Linux 5.11.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("read the inherited descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// withConfig returns args with the value of --config replaced.
func withConfig(args []string, cfg wire.GuestConfig) ([]string, error) {
	body, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	args = slices.Clone(args)
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "--config="):
			args[i] = "--config=" + string(body)
			return args, nil
		case arg == "--config" && i+1 < len(args):
			args[i+1] = string(body)
			return args, nil
		}
	}
	return nil, fmt.Errorf("no --config among the arguments to start again with")
}
