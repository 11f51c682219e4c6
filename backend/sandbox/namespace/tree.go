//go:build linux

package namespace

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Paths inside a sandbox.
const (
	insideRun   = "/run/glovebox"
	insideGuest = "/run/glovebox/guest"
	insideState = "/run/glovebox/state"
	insideHome  = "/home/glovebox"
)

// arguments builds the command line of bubblewrap and the descriptors that go
// with it. Descriptors 0 to 2 are the standard ones.
type arguments struct {
	args  []string
	files []*os.File // number i becomes descriptor 3+i
}

func (a *arguments) add(args ...string) { a.args = append(a.args, args...) }

// pass hands a file over and returns its number as an argument.
func (a *arguments) pass(f *os.File) string {
	a.files = append(a.files, f)
	return strconv.Itoa(2 + len(a.files))
}

func (a *arguments) close() {
	for _, f := range a.files {
		f.Close()
	}
}

// bind mounts source, a path without symlinks. The file is opened here and
// bubblewrap compares it with what it mounted, so that no link can be put in
// between after the check.
func (a *arguments) bind(source, target string, readOnly bool) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, source, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", source, err)
	}
	option := "--bind-fd"
	if readOnly {
		option = "--ro-bind-fd"
	}
	a.add(option, a.pass(os.NewFile(uintptr(fd), source)), target)
	return nil
}

// chrome is where Google's browser lies, the one that is not below /usr.
const chrome = "/opt/google/chrome"

// devices are the host's own, each a mount. Commands of uid 0 own them, and
// could change the mode of the host's /dev/null. bubblewrap would make a
// read-only mount one without devices, so the guest does it.
func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
}

// isolate adds the namespaces and rights of a sandbox.
//
// The three capabilities are for the guest, in the sandbox's user namespace:
// CAP_SYS_ADMIN makes the UTS namespace that marks the processes of a call, and
// covers the guest's directories; CAP_SETPCAP drops the bounding set of
// commands; CAP_SYS_PTRACE lets the guest read the mark of a process that made
// itself undumpable, which could else hide from a kill.
//
// Making user namespaces is disabled, since in one of its own a command would
// have every capability, and the parts of the kernel that these open.
func (a *arguments) isolate(uid, gid int, hostname string) {
	a.add("--unshare-user", "--unshare-all", "--disable-userns", "--new-session", "--as-pid-1", "--clearenv",
		"--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP", "--cap-add", "CAP_SYS_PTRACE",
		"--uid", strconv.Itoa(uid), "--gid", strconv.Itoa(gid), "--hostname", hostname)
}

// root adds the root tree, which holds /usr and its links of the host and
// nothing else. What the sandbox is to have comes over it; lockRoot goes last.
func (a *arguments) root(uid int, shm int64) error {
	a.add("--ro-bind", "/usr", "/usr")
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		info, err := os.Lstat(name)
		switch {
		case err != nil: // not on every architecture
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			a.add("--symlink", target, name)
		default: // a system whose /usr is not merged
			a.add("--ro-bind", name, name)
		}
	}
	a.add("--ro-bind-try", chrome, chrome)
	if err := a.proc(); err != nil {
		return err
	}
	if uid == 0 {
		// Its commands own the kernel's objects, and an owner may change modes:
		// those of the files of one procfs are those of all.
		a.add("--remount-ro", "/proc")
	}
	a.add("--dev", "/dev",
		"--perms", "1777", "--size", strconv.FormatInt(shm, 10), "--tmpfs", "/dev/shm",
		"--perms", "1777", "--tmpfs", "/tmp",
		"--perms", "1777", "--tmpfs", "/var/tmp",
		"--dir", "/run", "--symlink", "/run", "/var/run")
	return nil
}

// masked are the files and directories below /proc that tell about the host's
// kernel or its other users.
var masked = map[string]bool{
	"acpi": true, "kcore": true, "keys": true, "latency_stats": true, "sched_debug": true,
	"scsi": true, "timer_list": true, "timer_stats": true,
}

// proc adds a /proc of the sandbox's own and takes the rest of it away. A new
// procfs in a pid namespace shows its own processes and the whole machine's
// settings all the same. Those are protected by file modes alone, and where
// the workspace is root's, the sandbox's user is the owner: core_pattern would
// make a program of its choice run as root on the host.
func (a *arguments) proc() error {
	a.add("--proc", "/proc")
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := "/proc/" + e.Name()
		info, err := e.Info()
		switch {
		case strings.Trim(e.Name(), "0123456789") == "" || err != nil: // a process
		case masked[e.Name()] && e.IsDir():
			a.add("--perms", "0555", "--tmpfs", name, "--remount-ro", name)
		case masked[e.Name()]:
			a.add("--ro-bind", "/dev/null", name) // without the device, so it does not even open
		case name == "/proc/sys":
			a.add("--ro-bind", name, name)
		case e.IsDir(), info.Mode().IsRegular() && info.Mode().Perm()&0o222 != 0:
			a.add("--ro-bind-try", name, name) // modules come and go
		}
	}
	return nil
}

// lockRoot makes the root itself read-only: what can be written is what was
// mounted to be.
func (a *arguments) lockRoot() { a.add("--remount-ro", "/") }
