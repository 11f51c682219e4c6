package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// testEnv is the real engine of files over a directory, and real processes.
// err, when set, is what every method returns.
type testEnv struct {
	*files.Engine

	dir string
	err error
}

func (e *testEnv) Where() execenv.Where { return execenv.Where{Wall: "local", Workdir: e.dir} }

func (e *testEnv) ReadFile(ctx context.Context, r execenv.ReadRequest) (execenv.ReadResult, error) {
	if e.err != nil {
		return execenv.ReadResult{}, e.err
	}
	return e.Engine.ReadFile(ctx, r)
}

func (e *testEnv) Run(ctx context.Context, c execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	if e.err != nil {
		return execenv.Outcome{}, e.err
	}
	timed, cancel := context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
	defer cancel()
	cmd := exec.CommandContext(timed, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = e.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	runErr := cmd.Run()
	if live != nil {
		live(execenv.Chunk{Stream: execenv.Stdout, Data: out.Bytes()})
	}
	o := execenv.Outcome{ExitCode: cmd.ProcessState.ExitCode(), Stdout: captured(out.Bytes()), Stderr: captured(errs.Bytes())}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		o.Signal, o.ExitCode = int(status.Signal()), 128+int(status.Signal())
	}
	if runErr != nil && timed.Err() != nil {
		o.TimedOut, o.Interrupted = errors.Is(context.Cause(timed), errTimeout), ctx.Err() != nil
		o.Kill = &execenv.KillReport{Killed: []execenv.Process{{PID: cmd.Process.Pid, Name: "sh"}}, Rounds: 1}
	}
	return o, nil
}

var errTimeout = errors.New("timeout")

func captured(b []byte) execenv.Captured {
	c := execenv.Captured{Head: b, Total: int64(len(b))}
	if len(b) > execenv.HeadBytes+execenv.TailBytes {
		c.Head, c.Tail = b[:execenv.HeadBytes], b[len(b)-execenv.TailBytes:]
	}
	return c
}

// bench calls the standard tools as one agent does: it remembers what they say
// about files.
type bench struct {
	t    *testing.T
	env  *testEnv
	seen map[string]string
	set  *tools.Set
	ctx  context.Context
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, env: &testEnv{Engine: files.New(files.Options{}), dir: dir}, seen: map[string]string{}, set: tools.Standard(), ctx: t.Context()}
}

// try calls a tool and returns whatever it returns.
func (b *bench) try(name string, input any) (tools.Result, error) {
	b.t.Helper()
	raw, ok := input.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(input); err != nil {
			b.t.Fatal(err)
		}
	}
	tool, ok := b.set.Lookup(name)
	if !ok {
		b.t.Fatalf("no tool %s", name)
	}
	r, err := tool.Run(b.ctx, tools.Call{ID: "call-1", Input: raw, Env: b.env, Known: func(p string) (string, bool) {
		h, ok := b.seen[p]
		return h, ok
	}})
	for p, h := range r.Files {
		b.seen[p] = h
	}
	return r, err
}

// call wants a status and, in the text, each of parts.
func (b *bench) call(name string, input any, status task.CallStatus, parts ...string) tools.Result {
	b.t.Helper()
	r, err := b.try(name, input)
	if err != nil {
		b.t.Fatalf("%s(%v): %v", name, input, err)
	}
	if r.Status != status {
		b.t.Errorf("%s(%v) = %s, want %s; text: %s", name, input, r.Status, status, r.Text)
	}
	for _, part := range parts {
		if !strings.Contains(r.Text, part) {
			b.t.Errorf("%s(%v) says %q, want it to hold %q", name, input, r.Text, part)
		}
	}
	return r
}

func (b *bench) path(name string) string { return filepath.Join(b.env.dir, name) }

func (b *bench) put(name, content string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// onDisk wants a file's exact bytes.
func (b *bench) onDisk(name, want string) {
	b.t.Helper()
	got, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	if string(got) != want {
		b.t.Errorf("%s holds %q, want %q", name, got, want)
	}
}

type in map[string]any
