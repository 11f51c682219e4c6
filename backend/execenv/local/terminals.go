package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/terminal"
)

var _ execenv.Terminals = (*Env)(nil)

// OpenTerminal starts a terminal on the host. It ends with the Env at the latest.
func (e *Env) OpenTerminal(_ context.Context, r execenv.TerminalRequest) (execenv.Terminal, error) {
	if err := terminal.Check(&r); err != nil {
		return execenv.Terminal{}, err
	}
	_, done, err := e.begin(e.life)
	if err != nil {
		return execenv.Terminal{}, err
	}
	defer done() // Close waits until the terminal is one that it can close
	if r.Dir == "" {
		r.Dir = e.workspace
	} else if !filepath.IsAbs(r.Dir) {
		r.Dir = filepath.Join(e.workspace, r.Dir)
	}
	if info, err := os.Stat(r.Dir); err != nil || !info.IsDir() {
		return execenv.Terminal{}, fmt.Errorf("%s: %w", r.Dir, execenv.ErrWorkdirGone)
	}
	if len(r.Argv) == 0 {
		r.Argv = []string{terminal.FindShell(os.Getenv("SHELL"), func(name string) string {
			found, _ := exec.LookPath(name)
			return found
		})}
	}
	mark := rand.Text()
	cmd := &exec.Cmd{
		Path: r.Argv[0], Args: r.Argv, Dir: r.Dir,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	cmd.Env = environment(slices.Concat(terminal.Variables(r.Argv[0], userName(), hostName()), r.Env), mark)
	if lookPath(cmd) != nil {
		return execenv.Terminal{}, &execenv.PathError{Path: r.Argv[0], Err: execenv.ErrNotFound}
	}
	return e.terminals.Open(r, func(tty *os.File) (terminal.Process, error) {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		err := cmd.Start()
		switch {
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENOEXEC):
			return nil, &execenv.PathError{Path: r.Argv[0], Err: execenv.ErrNotFound}
		case errors.Is(err, syscall.EACCES):
			return nil, &execenv.PathError{Path: r.Argv[0], Err: execenv.ErrPermission, Detail: "it is no program"}
		case err != nil:
			return nil, fmt.Errorf("start %s: %w", r.Argv[0], err)
		}
		p := &terminalProcess{cmd: cmd, tree: newTree(cmd.Process.Pid, mark), done: make(chan struct{})}
		go func() {
			defer close(p.done)
			_ = cmd.Wait() // how it ended is in ProcessState
		}()
		return p, nil
	})
}

// ListTerminals lists the terminals of this Env.
func (e *Env) ListTerminals(context.Context) ([]execenv.Terminal, error) {
	return e.terminals.List(), nil
}

// CloseTerminal ends a terminal.
func (e *Env) CloseTerminal(_ context.Context, id string) error { return e.terminals.Close(id) }

// ViewTerminal opens a view of a terminal.
func (e *Env) ViewTerminal(_ context.Context, id string, after int64) (execenv.TerminalView, error) {
	v, err := e.terminals.View(id, after)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// terminalProcess is the first process of a terminal.
type terminalProcess struct {
	cmd  *exec.Cmd
	tree *tree
	done chan struct{}
}

func (p *terminalProcess) PID() int              { return p.cmd.Process.Pid }
func (p *terminalProcess) Done() <-chan struct{} { return p.done }

func (p *terminalProcess) Status() syscall.WaitStatus {
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status
}

func (p *terminalProcess) Kill(cause string) execenv.KillReport { return p.tree.kill(cause, p.done) }

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "user"
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "host"
	}
	return name
}
