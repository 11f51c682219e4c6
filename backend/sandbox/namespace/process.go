//go:build linux

package namespace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// identity names a process so that no other one is ever taken for it: a pid is
// used again, a pid with its start time is not within one boot of the kernel.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
	Boot  string `json:"boot"`
}

// process is an open handle of a living process.
type process struct {
	id    identity
	pidfd *os.File
}

// identify reads the identity of a process that is known to be alive.
func identify(pid int) (identity, error) {
	start, _, err := stat(pid)
	if err != nil {
		return identity{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, err
	}
	return identity{PID: pid, Start: start, Boot: string(bytes.TrimSpace(boot))}, nil
}

// stat returns the start time and the state of a process.
func stat(pid int) (start uint64, state byte, err error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The name is in parentheses and may hold anything, so count from the last one.
	fields := strings.Fields(string(body[bytes.LastIndexByte(body, ')')+1:]))
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0][0], err
}

// find opens the process that id names; nil when it has ended.
func find(id identity) (*process, error) {
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", id.PID, err)
	}
	p := &process{id: id, pidfd: os.NewFile(uintptr(fd), "pidfd")}
	// The descriptor is opened first: whatever is read now is of the process
	// that it holds, or that one has ended.
	now, err := identify(id.PID)
	if err != nil || now.Start != id.Start || now.Boot != id.Boot || p.ended() {
		p.Close()
		return nil, nil
	}
	return p, nil
}

// Close lets go of the handle, not of the process.
func (p *process) Close() { p.pidfd.Close() }

func (p *process) ended() bool {
	ended := false
	p.control(func(fd int) { ended = readable(fd) })
	return ended
}

func (p *process) control(f func(fd int)) error {
	c, err := p.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	return c.Control(func(fd uintptr) { f(int(fd)) })
}

// readable reports whether the process of a pidfd has ended.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

// wait returns when the process has ended. The init of a pid namespace ends
// last: then nothing of the sandbox runs.
func (p *process) wait(ctx context.Context) error {
	c, err := p.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	p.pidfd.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { p.pidfd.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = c.Read(func(fd uintptr) bool { return readable(int(fd)) })
	if ctx.Err() != nil && !p.ended() {
		return ctx.Err()
	}
	return err
}

// kill ends the process and waits until it is gone.
func (p *process) kill(ctx context.Context) error {
	var sent error
	err := p.control(func(fd int) { sent = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) })
	if err == nil && !errors.Is(sent, unix.ESRCH) {
		err = sent
	}
	if err != nil {
		return fmt.Errorf("kill process %d: %w", p.id.PID, err)
	}
	if err := p.wait(ctx); err != nil {
		return fmt.Errorf("process %d does not end: %w", p.id.PID, err)
	}
	return nil
}

// search looks for the init of a sandbox whose identity was never written down,
// because its server died between the start and the note. The guest's id is in
// its arguments, and those of bubblewrap before it; being init tells it from
// the bubblewrap outside.
func search(guestID string) (*process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !bytes.Contains(args, []byte(`"guest_id":"`+guestID+`"`)) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil || !isInit(status) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		id, err := identify(pid)
		if err != nil {
			continue
		}
		if p, err := find(id); p != nil || err != nil {
			return p, err
		}
	}
	return nil, nil
}

// isInit reports whether a status file is that of the init of a namespace below
// our own.
func isInit(status []byte) bool {
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(ids)
			return len(f) > 1 && f[len(f)-1] == "1"
		}
	}
	return false
}
