package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// bootstrapTime is how long mmdebstrap has to clean up after itself.
const bootstrapTime = 30 * time.Second

// debianSources are where packages come from. They are signed, so that nothing
// has to be believed of the way.
var debianSources = []string{
	"deb http://deb.debian.org/debian " + debian + " main",
	"deb http://deb.debian.org/debian " + debian + "-updates main",
	"deb http://deb.debian.org/debian-security " + debian + "-security main",
}

// bootstrapDebian makes the root tree of the standard image with mmdebstrap.
func bootstrapDebian(ctx context.Context, report func(sandbox.Step)) (io.ReadCloser, error) {
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return nil, errors.New("mmdebstrap is not on this machine; install the package mmdebstrap, or let the engine reach a registry")
	}
	dir, err := os.MkdirTemp("", "glovebox-image-")
	if err != nil {
		return nil, err
	}
	// Packages are fetched by a user of their own, who has to get in.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	args := []string{"--variant=minbase", "--format=tar", "--verbose", "--include=" + strings.Join(standardPackages, ",")}
	for _, pattern := range leftOut {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	// The engine gives a container its own.
	args = append(args, `--customize-hook=rm -f "$1"/etc/resolv.conf "$1"/etc/hostname; mkdir -p "$1"/workspace`)
	args = append(append(args, debian, "-"), debianSources...)

	lines := &packageLines{name: "making a Debian of packages", report: report}
	life, stop := context.WithCancel(ctx)
	cmd := exec.CommandContext(life, program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "LC_ALL=C.UTF-8")
	cmd.Stderr = lines
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS // whatever it mounts goes with it
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = bootstrapTime
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("start mmdebstrap: %w", err), os.RemoveAll(dir))
	}
	return &bootstrapped{ctx: ctx, stop: stop, cmd: cmd, out: out, dir: dir, lines: lines}, nil
}

// bootstrapped is a root tree that is being made. Close may come while an HTTP
// client still reads.
type bootstrapped struct {
	ctx   context.Context // of who wants it
	stop  context.CancelFunc
	cmd   *exec.Cmd
	out   io.ReadCloser
	dir   string
	lines *packageLines
	ended sync.Once
	err   error // of its maker, once ended is done
}

// Read implements io.Reader. A tree is complete only when its maker says so.
func (b *bootstrapped) Read(buf []byte) (int, error) {
	n, err := b.out.Read(buf)
	if err == nil || n > 0 {
		return n, nil
	}
	b.ended.Do(b.end)
	if b.err != nil {
		return 0, b.err
	}
	return 0, io.EOF
}

// Close ends what still runs, and leaves nothing.
func (b *bootstrapped) Close() error {
	b.stop()
	b.ended.Do(b.end)
	return os.RemoveAll(b.dir)
}

func (b *bootstrapped) end() {
	err := b.cmd.Wait()
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	switch {
	case b.ctx.Err() != nil:
		b.err = context.Cause(b.ctx)
	case err != nil:
		b.err = fmt.Errorf("mmdebstrap: %w: %s", err, b.lines.last())
	}
}
