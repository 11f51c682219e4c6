//go:build unix && !linux

package browsertest

import "syscall"

// attributes puts the browser into a process group of its own, so that the wrapper
// script, the browser and all its children end together.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
