//go:build linux

package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/process"
)

// fileCaps are those that commands keep where the user is root by choice, and
// so those that file operations have.
const fileCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// lower gives every thread of this process the user's rights over files and
// takes every capability out of effect, so that whatever goroutine a file
// operation runs on it can do what a command could do, and no more. The guest's own
// rights are a keeper's.
func lower(u user, keepFileCaps bool) (warning string, err error) {
	_, permitted, err := process.Capabilities()
	if err != nil {
		return "", fmt.Errorf("read capabilities: %w", err)
	}
	var keep uint64
	if keepFileCaps {
		keep = permitted & fileCaps
	}
	err = func() error {
		if u.uid != os.Geteuid() || u.gid != os.Getegid() {
			groups := make([]uint32, len(u.groups)+1)
			for i, g := range u.groups {
				groups[i] = uint32(g)
			}
			n := uintptr(len(u.groups))
			// Go's setgroups follows every thread; it has nothing for the fs ids.
			if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_SETGROUPS, n, uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
				return fmt.Errorf("set groups: %w", errno)
			}
			if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_SETFSGID, uintptr(u.gid), 0, 0); errno != 0 {
				return fmt.Errorf("set fsgid: %w", errno)
			}
			if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_SETFSUID, uintptr(u.uid), 0, 0); errno != 0 {
				return fmt.Errorf("set fsuid: %w", errno)
			}
			if uid, gid := fsIDs(); uid != u.uid || gid != u.gid {
				return fmt.Errorf("file access stayed with %d:%d; the guest needs SETUID and SETGID", uid, gid)
			}
		}
		if err := setAllCapabilities(keep, permitted); err != nil {
			return fmt.Errorf("lower capabilities: %w", err)
		}
		return nil
	}()
	if errors.Is(err, syscall.ENOTSUP) && u.uid == os.Geteuid() && u.gid == os.Getegid() {
		return "file operations keep the guest's capabilities: it was built with cgo", nil
	}
	if err != nil {
		return "", fmt.Errorf("take on the rights of %d:%d: %w", u.uid, u.gid, err)
	}
	return "", nil
}

// fsIDs reads the calling thread's fsuid and fsgid: an id that cannot be set
// only asks.
func fsIDs() (uid, gid int) {
	u, _ := unix.SetfsuidRetUid(-1)
	g, _ := unix.SetfsgidRetGid(-1)
	return u, g
}

// empower runs f on a thread that has all capabilities of the guest and the
// user's ids: enough to see and to end processes. Unlike a change of ids it leaves
// the guest's files in /proc alone at every moment.
func empower(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	effective, permitted, err := process.Capabilities()
	if err == nil {
		_ = process.SetCapabilities(permitted, permitted)
		defer func() {
			if err := process.SetCapabilities(effective, permitted); err != nil {
				panic("guest: a thread kept capabilities that it must not have")
			}
		}()
	}
	f()
}

// refuse guards file operations against what belongs to the guest itself: a
// thread may always look into its own process, whatever its user.
func refuse(path string, write bool) error {
	path = filepath.Clean(path)
	denied := &execenv.PathError{Path: path, Err: execenv.ErrPermission, Detail: "it belongs to the guest or the kernel"}
	if rest, ok := strings.CutPrefix(path, "/proc/"); ok {
		first, _, _ := strings.Cut(rest, "/")
		if first == "self" || first == "thread-self" || isOurs(first) {
			return denied
		}
	}
	if !write {
		return nil
	}
	for p := path; ; p = filepath.Dir(p) {
		var st unix.Stat_t
		var fs unix.Statfs_t
		if unix.Stat(p, &st) != nil || unix.Statfs(p, &fs) != nil {
			if p == "/" {
				return nil
			}
			continue // not there yet: its parent decides
		}
		switch fs.Type {
		case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
			unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.DEVPTS_SUPER_MAGIC:
			return denied
		}
		if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFCHR || kind == unix.S_IFBLK {
			return denied
		}
		return nil
	}
}

// isOurs says whether name, the number of a process or thread, is the guest.
func isOurs(name string) bool {
	n, err := strconv.Atoi(name)
	if err != nil {
		return false
	}
	if n == os.Getpid() {
		return true
	}
	// A thread has a directory of its own that no listing shows.
	_, err = os.Lstat("/proc/self/task/" + strconv.Itoa(n))
	return err == nil
}
