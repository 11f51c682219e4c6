package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// marker is the variable by which the processes of a call are known.
const marker = "GLOVEBOX_CALL"

// passed are the variables of this program that a command gets. Others may hold
// credentials.
var passed = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR"}

func environment(added []string, mark string) []string {
	var env []string
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(append(env, added...), marker+"="+mark)
}

// run runs one command to the end of its first process.
func (e *Env) run(ctx context.Context, c execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return execenv.Outcome{}, err
	}
	ctx, done, err := e.begin(ctx)
	if err != nil {
		return execenv.Outcome{}, err
	}
	defer done()
	if len(c.Argv) == 0 {
		return execenv.Outcome{}, fmt.Errorf("run a command without arguments: %w", execenv.ErrInvalid)
	}
	if c.Dir == "" {
		c.Dir = e.workspace
	}
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return execenv.Outcome{}, fmt.Errorf("%s: %w", c.Dir, execenv.ErrWorkdirGone)
	}
	overflow := c.Overflow
	if live == nil {
		overflow = execenv.OverflowDrop // nobody would ever make room
	}
	stdout, w1, err := newOutput(execenv.Stdout, overflow)
	if err != nil {
		return execenv.Outcome{}, fmt.Errorf("make the pipes of a command: %w", err)
	}
	stderr, w2, err := newOutput(execenv.Stderr, overflow)
	if err != nil {
		stdout.r.Close()
		w1.Close()
		return execenv.Outcome{}, fmt.Errorf("make the pipes of a command: %w", err)
	}

	mark := rand.Text()
	if c.Call.ID != "" {
		mark = c.Call.ID
	}
	cmd := &exec.Cmd{
		Path: c.Argv[0], Args: c.Argv, Dir: c.Dir, Env: environment(c.Env, mark),
		Stdout: w1, Stderr: w2,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // no terminal, and a session of its own to know it by
	}
	failed := lookPath(cmd)
	var started time.Time
	var stdin *os.File
	if failed == nil {
		stdin, err = e.feed(cmd, c.Stdin)
		started = time.Now()
		if err == nil {
			err = cmd.Start()
		}
		failed = startFailure(cmd.Path, err)
	}
	w1.Close()
	w2.Close()
	if f, ok := cmd.Stdin.(*os.File); ok && stdin != nil {
		f.Close() // the command has it now
	}
	if failed != nil || err != nil {
		stdout.r.Close()
		stderr.r.Close()
		if stdin != nil {
			stdin.Close()
		}
		if failed != nil {
			return complain(stdout, stderr, *failed, live), nil
		}
		return execenv.Outcome{}, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	if stdin != nil {
		go func() { // ends when c.Stdin does: a Read cannot be called back
			_, _ = io.Copy(stdin, c.Stdin)
			stdin.Close()
		}()
	}
	e.hold(stdout)
	e.hold(stderr)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		if live != nil {
			follow(live, stdout, stderr)
		}
	}()

	t := newTree(cmd.Process.Pid, mark)
	o := e.await(ctx, c.Timeout, cmd, t, stdout, stderr)
	if len(t.living()) > 0 {
		e.remember(t)
	}
	done() // what is left is for Close to end; a slow reader does not hold it up
	<-stdout.settled
	<-stderr.settled
	<-followed
	if stdin != nil {
		stdin.Close()
	}
	o.Stdout, o.Stderr = stdout.Captured(), stderr.Captured()
	o.Background = t.living()
	o.Duration = time.Since(started)
	return o, nil
}

// await waits for the first process, or for what ends it before its time.
func (e *Env) await(ctx context.Context, timeout time.Duration, cmd *exec.Cmd, t *tree, outputs ...*output) execenv.Outcome {
	var o execenv.Outcome
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
	var timer <-chan time.Time
	if timeout > 0 {
		tm := time.NewTimer(timeout)
		defer tm.Stop()
		timer = tm.C
	}
	cause := ""
	select {
	case <-exited:
	case <-timer:
		if !t.ended() { // in time, where all stood still since
			cause, o.TimedOut = "timeout", true
		}
	case <-ctx.Done():
		cause, o.Interrupted = "stop", true
	}
	if cause != "" {
		for _, out := range outputs {
			out.Unblock()
		}
		report := t.kill(cause, exited)
		o.Kill = &report
	}
	for _, out := range outputs {
		out.exited()
	}
	select {
	case <-exited:
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		o.ExitCode = status.ExitStatus()
		if status.Signaled() {
			o.Signal = int(status.Signal())
		}
	case <-time.After(grace): // held in the kernel: not waited for
		o.Signal = int(syscall.SIGKILL)
	}
	if o.Signal != 0 {
		o.ExitCode = 128 + o.Signal
	}
	return o
}

// hold drains an output until nobody has it open, or the Env is closed.
func (e *Env) hold(o *output) {
	e.mu.Lock()
	e.held[o] = struct{}{}
	e.mu.Unlock()
	e.drains.Go(func() {
		o.drain()
		e.mu.Lock()
		delete(e.held, o)
		e.mu.Unlock()
	})
}

// remember keeps a tree for Close, and drops those that came to their end.
func (e *Env) remember(t *tree) {
	e.mu.Lock()
	trees := make([]*tree, 0, len(e.trees))
	for old := range e.trees {
		trees = append(trees, old)
	}
	e.trees[t] = struct{}{}
	e.mu.Unlock()
	for _, old := range trees {
		if len(old.living()) == 0 {
			e.mu.Lock()
			delete(e.trees, old)
			e.mu.Unlock()
		}
	}
}

// feed gives cmd its input; when that has to be copied, w is where to.
func (e *Env) feed(cmd *exec.Cmd, stdin io.Reader) (w *os.File, err error) {
	switch in := stdin.(type) {
	case nil:
		return nil, nil // /dev/null
	case *os.File:
		cmd.Stdin = in
		return nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = r
	return w, nil
}

// failure is a command that never ran, said as a shell would say it.
type failure struct {
	code int
	text string
}

// lookPath finds the program of cmd in the PATH that cmd itself gets.
func lookPath(cmd *exec.Cmd) *failure {
	name := cmd.Path
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			cmd.Path = filepath.Join(cmd.Dir, name)
		}
		return nil
	}
	var path string
	for _, kv := range cmd.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			cmd.Path = file
			return nil
		}
	}
	return &failure{127, name + ": not found\n"}
}

func startFailure(path string, err error) *failure {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return &failure{127, path + ": not found\n"}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.ENOTDIR):
		return &failure{126, path + ": cannot execute\n"}
	}
	return nil
}

// complain is the outcome of a command that could not be executed.
func complain(stdout, stderr *output, f failure, live func(execenv.Chunk)) execenv.Outcome {
	_, _ = io.WriteString(stderr.Stream, f.text)
	stdout.Stream.Close()
	stderr.Stream.Close()
	if live != nil {
		follow(live, stdout, stderr)
	}
	return execenv.Outcome{ExitCode: f.code, Stdout: stdout.Captured(), Stderr: stderr.Captured()}
}
