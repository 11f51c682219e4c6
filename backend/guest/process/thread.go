//go:build linux

package process

import (
	"fmt"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

// spawnerState is what became of the thread that forks commands.
type spawnerState struct {
	tag      wire.Tag
	apart    bool // a child can be forked into memory of its own
	warnings []string
	err      error
}

func (s *spawnerState) warn(format string, a ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, a...))
}

// fileCaps are the capabilities that a package manager needs.
const fileCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// raiseForGood gives the calling thread every capability that it may have.
func (t *Table) raiseForGood(state *spawnerState) {
	_, permitted, err := Capabilities()
	if err == nil {
		err = SetCapabilities(permitted, permitted)
	}
	if err != nil {
		state.warn("capabilities of the spawning thread: %v", err)
	}
}

// prepareThread makes the calling thread, which is locked, one that a command
// may be forked from: no capability survives the exec, none is gained by one.
func prepareThread(o Options, state *spawnerState) {
	_, permitted, _ := Capabilities()
	state.tag = o.Tag
	switch {
	case o.Tag == wire.TagGroup && permitted&(1<<unix.CAP_SETGID) == 0:
		state.tag = tagEnv
		state.warn("the guest may not set groups: a command can shed its tag, and runs as the guest's user")
	case o.Tag == wire.TagUTS && permitted&(1<<unix.CAP_SYS_ADMIN) == 0:
		state.tag = tagEnv
		state.warn("the guest may not make UTS namespaces: a command can shed its tag")
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		state.warn("ambient capabilities were not cleared: %v", err)
	}
	var keep uint64
	if o.KeepFileCaps {
		keep = fileCaps
	}
	for c := uintptr(0); c < 64; c++ {
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break // past the last one
		}
		if in == 0 || keep&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			state.warn("the bounding set was not dropped: %v; the guest needs SETPCAP", err)
			break
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		state.err = fmt.Errorf("set no_new_privs: %w", err)
		return
	}
	if err := installFilter(filter(state.tag)); err != nil {
		state.warn("no system call filter: %v", err)
	}
	if state.tag == wire.TagGroup {
		// Without the filter the kernel knows no such flags.
		err := unix.Unshare(apart)
		if state.apart = err == nil; err != nil {
			state.warn("from the first command on the guest's files in /proc are uid 0's: %v", err)
		}
	}
}

// installFilter puts a seccomp filter on the calling thread alone.
func installFilter(prog []bpf.Instruction) error {
	raw, err := bpf.Assemble(prog)
	if err != nil {
		return err
	}
	insns := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		insns[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	p := unix.SockFprog{Len: uint16(len(insns)), Filter: &insns[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return errno
	}
	return nil
}

// Capabilities returns the calling thread's effective and permitted sets.
func Capabilities() (effective, permitted uint64, err error) {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&h, &d[0]); err != nil {
		return 0, 0, err
	}
	return uint64(d[0].Effective) | uint64(d[1].Effective)<<32,
		uint64(d[0].Permitted) | uint64(d[1].Permitted)<<32, nil
}

// SetCapabilities sets those of the calling thread; the inheritable set is
// always emptied. The caller has locked its thread.
func SetCapabilities(effective, permitted uint64) error {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	d := [2]unix.CapUserData{
		{Effective: uint32(effective), Permitted: uint32(permitted)},
		{Effective: uint32(effective >> 32), Permitted: uint32(permitted >> 32)},
	}
	return unix.Capset(&h, &d[0])
}
