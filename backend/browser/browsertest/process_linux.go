package browsertest

import "syscall"

// attributes puts the browser into a process group of its own, so that the wrapper
// script, the browser and all its children end together; and it ends with the
// test binary, whose own end may be a panic over a timeout.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
