//go:build linux

package process

import (
	"runtime"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Offsets in struct seccomp_data; arguments are little-endian on both
// architectures that a guest is built for.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

const x32Bit = 0x40000000

// apart makes [syscall.ForkExec] give a child memory of its own. It shares ours
// with the child until the exec unless a user namespace is asked for; a change of
// user in shared memory makes the guest itself undumpable, and so its files in
// /proc uid 0's, whom commands may be. The kernel knows no unshare with these
// flags: the filter says that it was done, and nothing is.
const apart = unix.CLONE_NEWUSER | 1

func deny(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

var allow bpf.Instruction = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

// filter is what commands may not ask of the kernel. Everywhere: the limits of
// other processes, which would reach the guest where both have one uid, sockets
// that no network namespace holds, and system calls of a foreign architecture,
// whose numbers mean something else. Behind the namespace wall, which brings no
// filter, also what Docker's default profile denies.
func filter(tag wire.Tag) []bpf.Instruction {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		deny(unix.ENOSYS),
		bpf.LoadAbsolute{Off: dataNr, Size: 4},
	}
	if runtime.GOARCH == "amd64" {
		p = append(p,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32Bit, SkipFalse: 1},
			deny(unix.ENOSYS))
	}
	p = append(p, onCall(unix.SYS_PRLIMIT64,
		bpf.LoadAbsolute{Off: dataArgs, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		deny(unix.EPERM),
		allow)...)
	// Sockets to the hypervisor belong to no network namespace.
	p = append(p, onCall(unix.SYS_SOCKET,
		bpf.LoadAbsolute{Off: dataArgs, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_VSOCK, SkipFalse: 1},
		deny(unix.EAFNOSUPPORT),
		allow)...)
	if tag != wire.TagUTS {
		p = append(p, onCall(unix.SYS_UNSHARE,
			bpf.LoadAbsolute{Off: dataArgs, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: apart, SkipFalse: 1},
			deny(0), // without an error: done
			allow)...)
		return append(p, allow)
	}
	// The spawning thread itself unshares one UTS namespace per command; a
	// command is refused that by the kernel, for it has no capability.
	p = append(p, onCall(unix.SYS_UNSHARE,
		bpf.LoadAbsolute{Off: dataArgs, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.CLONE_NEWUTS, SkipTrue: 1},
		deny(unix.EPERM),
		allow)...)
	p = append(p, onCall(unix.SYS_CLONE,
		bpf.LoadAbsolute{Off: dataArgs, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS, SkipFalse: 1},
		deny(unix.EPERM),
		allow)...)
	// Its flags lie in memory, out of a filter's sight; C libraries fall back.
	p = append(p, onCall(unix.SYS_CLONE3, deny(unix.ENOSYS))...)
	p = append(p, onCall(unix.SYS_IOCTL,
		bpf.LoadAbsolute{Off: dataArgs + 8, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipFalse: 1},
		deny(unix.EPERM),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCLINUX, SkipFalse: 1},
		deny(unix.EPERM),
		allow)...)
	for _, nr := range deniedCalls {
		p = append(p, onCall(nr, deny(unix.EPERM))...)
	}
	return append(p, allow)
}

// onCall runs body, which ends in a verdict, for system call nr.
func onCall(nr uint32, body ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: uint8(len(body))},
	}, body...)
}

// deniedCalls is what Docker's default profile denies a container without
// capabilities, as far as both architectures have it.
var deniedCalls = []uint32{
	unix.SYS_ACCT,
	unix.SYS_ADD_KEY,
	unix.SYS_ADJTIMEX,
	unix.SYS_BPF,
	unix.SYS_CHROOT,
	unix.SYS_CLOCK_ADJTIME,
	unix.SYS_CLOCK_SETTIME,
	unix.SYS_DELETE_MODULE,
	unix.SYS_FANOTIFY_INIT,
	unix.SYS_FINIT_MODULE,
	unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT,
	unix.SYS_FSOPEN,
	unix.SYS_FSPICK,
	unix.SYS_GET_MEMPOLICY,
	unix.SYS_INIT_MODULE,
	unix.SYS_IO_URING_ENTER,
	unix.SYS_IO_URING_REGISTER,
	unix.SYS_IO_URING_SETUP,
	unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_KEXEC_LOAD,
	unix.SYS_KEYCTL,
	unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_MBIND,
	unix.SYS_MIGRATE_PAGES,
	unix.SYS_MOUNT,
	unix.SYS_MOUNT_SETATTR,
	unix.SYS_MOVE_MOUNT,
	unix.SYS_MOVE_PAGES,
	unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_NFSSERVCTL,
	unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_OPEN_TREE,
	unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_PIVOT_ROOT,
	unix.SYS_QUOTACTL,
	unix.SYS_QUOTACTL_FD,
	unix.SYS_REBOOT,
	unix.SYS_REQUEST_KEY,
	unix.SYS_SETDOMAINNAME,
	unix.SYS_SETHOSTNAME,
	unix.SYS_SETNS,
	unix.SYS_SETTIMEOFDAY,
	unix.SYS_SET_MEMPOLICY,
	unix.SYS_SWAPOFF,
	unix.SYS_SWAPON,
	unix.SYS_SYSLOG,
	unix.SYS_UMOUNT2,
	unix.SYS_USERFAULTFD,
	unix.SYS_VHANGUP,
}
