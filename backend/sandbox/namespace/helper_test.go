//go:build linux

package namespace

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// The test's own binary is also the program that tries what a shell cannot,
// inside a sandbox, and the server that dies, outside.
const helperVariable = "GLOVEBOX_NAMESPACE_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) == "" {
		os.Exit(m.Run())
	}
	if err := help(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func help(args []string) error {
	switch args[0] {
	case "serve":
		return serveUntilKilled(args[1:])
	case "connect":
		c, err := net.Dial("unix", args[1])
		if err == nil {
			c.Close()
		}
		return err
	case "userns":
		return unix.Unshare(unix.CLONE_NEWUSER)
	case "vsock": // belongs to the machine, not to a network namespace
		fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	case "terminal":
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer tty.Close()
		key := byte('x')
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, tty.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&key))); errno != 0 {
			return errno
		}
		return nil
	case "signals":
		for s := range 65 {
			unix.Kill(1, unix.Signal(s))
		}
		return nil
	case "attach", "seize", "memory", "readv":
		pid, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		switch args[0] {
		case "attach":
			return unix.PtraceAttach(pid)
		case "seize":
			return unix.PtraceSeize(pid)
		case "memory":
			f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
			if err == nil {
				f.Close()
			}
			return err
		}
		buf := make([]byte, 1)
		local := []unix.Iovec{{Base: &buf[0], Len: 1}}
		_, err = unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
		return err
	}
	return fmt.Errorf("unknown verb %q", args[0])
}

// serveUntilKilled allocates as a server would, says how far it got, and stays.
// Its arguments: data directory, root task, workspace, the step to hang at.
func serveUntilKilled(args []string) error {
	p, err := New(Options{DataDir: args[0], Instance: "test", Secret: secret, Version: "test"})
	if err != nil {
		return err
	}
	h, err := p.AllocateWithProgress(context.Background(), args[1], sandbox.Spec{Workspace: args[2]}, func(s sandbox.Step) {
		if s.Name == args[3] {
			fmt.Println("reached")
			select {}
		}
	})
	if err != nil {
		return err
	}
	ref, err := h.Ref()
	if err != nil {
		return err
	}
	fmt.Println(ref)
	select {}
}

// server is a process of ours that has allocated.
type server struct {
	cmd  *exec.Cmd
	said string
}

// startServer runs serveUntilKilled as a user and returns when it has spoken.
func startServer(t *testing.T, uid int, dataDir, root, workspace, step string) *server {
	t.Helper()
	exe := helperFor(t, filepath.Dir(workspace))
	s := &server{cmd: exec.Command(exe, "serve", dataDir, root, workspace, step)}
	s.cmd.Env = append(os.Environ(), helperVariable+"=1")
	s.cmd.Dir = "/"
	s.cmd.Stderr = os.Stderr
	if uid != os.Getuid() {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	buf := make([]byte, 4096)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatalf("the server said nothing: %v", err)
	}
	s.said = strings.TrimSpace(string(buf[:n]))
	return s
}

// kill ends the server as a crash does.
func (s *server) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// helperFor puts a copy of the test's binary where any user can run it.
func helperFor(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.CreateTemp(dir, "glovebox-helper-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(out.Name()) })
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Chmod(0o755); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Name()
}
