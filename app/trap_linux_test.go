package app

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A trap halts a server, and all that it starts, before each system call that
// changes something outside its memory: a file made, renamed, written to or
// removed, a process started, a connection opened. So a test kills a server
// between any two of its steps, the same ones in every run, and the program
// knows nothing of it. See seccomp_unotify(2).
type trap struct {
	t        testing.TB
	listener int
	wake     [2]int // a pipe that ends the loop
	done     chan struct{}

	mu sync.Mutex

	left int               // calls until the cut; 0 while none is armed
	cut  func(call string) // is told which call that is
}

// trapFD names the variable that makes a process put itself under a trap, whose
// listener it hands over by this descriptor.
const trapFD = "GLOVEBOX_TEST_TRAP"

// init runs before anything of the program does: what it starts is to be trapped.
func init() {
	fd, err := strconv.Atoi(os.Getenv(trapFD))
	if err != nil {
		return
	}
	os.Unsetenv(trapFD)
	listener, err := enterTrap()
	if err == nil {
		err = unix.Sendmsg(fd, []byte{0}, unix.UnixRights(listener), nil, 0)
		unix.Close(listener)
	}
	unix.Close(fd)
	if err != nil {
		fmt.Fprintln(os.Stderr, "enter the trap:", err)
		os.Exit(1)
	}
}

// enterTrap puts a filter over every thread of this process and of its children,
// and returns where it tells of their calls.
func enterTrap() (listener int, err error) {
	const number, argument0, argument2 = 0, 16, 32 // offsets in struct seccomp_data; the low halves on little-endian machines
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	answer := func(a uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: a}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	any := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	filter := []unix.SockFilter{
		load(number),
		equal(unix.SYS_OPENAT, 0, 3),
		load(argument2),
		any(unix.O_CREAT, 0, 5),
		answer(unix.SECCOMP_RET_USER_NOTIF),
		equal(unix.SYS_CLONE, 0, 4),
		load(argument0),
		any(unix.CLONE_THREAD, 1, 0),
		answer(unix.SECCOMP_RET_USER_NOTIF),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	for nr := range trapped {
		filter = append(filter, equal(nr, 0, 1), answer(unix.SECCOMP_RET_USER_NOTIF))
	}
	filter = append(filter, answer(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return 0, err
		}
	}
	// Killable: a signal of Go's own scheduler does not make a call be told twice.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC |
		unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

// trapped are the calls that are told of, beside openat that makes a file and
// clone that makes a process.
var trapped = map[uint32]string{
	unix.SYS_MKDIRAT: "mkdir", unix.SYS_UNLINKAT: "unlink", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename",
	unix.SYS_LINKAT: "link", unix.SYS_SYMLINKAT: "symlink", unix.SYS_FTRUNCATE: "truncate", unix.SYS_PWRITE64: "pwrite",
	unix.SYS_FCHMODAT: "chmod", unix.SYS_FCHOWNAT: "chown", unix.SYS_BIND: "bind", unix.SYS_CONNECT: "connect",
	unix.SYS_EXECVE: "exec", unix.SYS_CLONE3: "clone", unix.SYS_PIVOT_ROOT: "pivot_root", unix.SYS_SETHOSTNAME: "sethostname",
	unix.SYS_PIDFD_SEND_SIGNAL: "signal",
}

// notification and response are struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	pointer    uint64
	args       [6]uint64
}

type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// trapCommand makes a command start in a trap, and returns what waits for that.
// What the command starts may outlive it: the trap answers for all of it until
// the test ends.
func trapCommand(t testing.TB, cmd *exec.Cmd) func() *trap {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "trap")
	cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", trapFD, 2+len(cmd.ExtraFiles)))
	tr := &trap{t: t, done: make(chan struct{})}
	entered := make(chan error, 1) // its one sender never blocks
	go func() {
		defer unix.Close(pair[0])
		err := tr.take(pair[0])
		entered <- err
		if err == nil {
			tr.loop()
		}
		close(tr.done)
	}()
	t.Cleanup(func() {
		theirs.Close() // one that never started ends the wait
		tr.mu.Lock()
		wake := tr.wake[1]
		tr.mu.Unlock()
		if wake != 0 {
			unix.Close(wake)
		}
		<-tr.done
	})
	return func() *trap {
		t.Helper()
		theirs.Close()
		if err := <-entered; err != nil {
			t.Fatalf("no trap (Linux 5.19 or later is needed): %v", err)
		}
		return tr
	}
}

// take receives the listener that a process sends when it has entered the trap.
func (tr *trap) take(from int) error {
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return errors.Join(errors.New("the process did not enter it"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.listener = fds[0]
	return unix.Pipe2(tr.wake[:], unix.O_CLOEXEC)
}

// arm has cut called before the n-th call from now on.
func (tr *trap) arm(n int, cut func(call string)) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.left, tr.cut = n, cut
}

// disarm ends what arm began.
func (tr *trap) disarm() { tr.arm(0, nil) }

func (tr *trap) loop() {
	defer unix.Close(tr.listener)
	defer unix.Close(tr.wake[0])
	for {
		fds := []unix.PollFd{{Fd: int32(tr.listener), Events: unix.POLLIN}, {Fd: int32(tr.wake[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			tr.t.Errorf("wait for calls: %v", err)
			return
		}
		if fds[1].Revents != 0 {
			return
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			return // nobody is left in it
		}
		var n notification
		if err := tr.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			continue // it died meanwhile
		}
		tr.meet(n)
		r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		tr.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // unless it has died
	}
}

func (tr *trap) control(request uintptr, p unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(tr.listener), request, uintptr(p)); errno != 0 {
		return errno
	}
	return nil
}

// meet counts a call, and makes the cut when it is its turn.
func (tr *trap) meet(n notification) {
	tr.mu.Lock()
	var cut func(string)
	if tr.left > 0 {
		if tr.left--; tr.left == 0 {
			cut = tr.cut
		}
	}
	tr.mu.Unlock()
	if cut != nil {
		cut(describeCall(n))
	}
}

// describeCall names a call, who makes it and, where that is easy, on what.
func describeCall(n notification) string {
	name := trapped[uint32(n.number)]
	path := 1 // which argument
	switch uint32(n.number) {
	case unix.SYS_OPENAT:
		name = "create"
	case unix.SYS_CLONE:
		name = "clone"
	case unix.SYS_EXECVE:
		path = 0
	}
	who, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", n.pid))
	text := fmt.Sprintf("%s (%s)", name, bytes.TrimSpace(who))
	switch name {
	case "pwrite", "truncate":
		target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.pid, n.args[0]))
		text += " " + filepath.Base(target)
	case "mkdir", "unlink", "rename", "create", "chmod", "chown", "exec":
		text += " " + filepath.Base(stringOf(n.pid, n.args[path]))
	}
	return text
}

// stringOf reads a text out of a process's memory.
func stringOf(pid uint32, at uint64) string {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return "?"
	}
	defer mem.Close()
	body := make([]byte, 512)
	n, _ := mem.ReadAt(body, int64(at)) // short at the end of a page
	text, _, _ := strings.Cut(string(body[:n]), "\x00")
	return text
}
