package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/local"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// testEnv is the real Env of the host. err, when set, is what its reads and
// commands return.
type testEnv struct {
	*local.Env

	err error
}

func (e *testEnv) ReadFile(ctx context.Context, r execenv.ReadRequest) (execenv.ReadResult, error) {
	if e.err != nil {
		return execenv.ReadResult{}, e.err
	}
	return e.Env.ReadFile(ctx, r)
}

// View is what tools look by; a fault is that of ReadFile.
func (e *testEnv) View() execenv.Viewer {
	if e.err != nil {
		return e
	}
	return e.Env.View()
}

func (e *testEnv) Run(ctx context.Context, c execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	if e.err != nil {
		return execenv.Outcome{}, e.err
	}
	return e.Env.Run(ctx, c, live)
}

// bench calls the standard tools as one agent does: it remembers what they say
// about files.
type bench struct {
	t     *testing.T
	env   *testEnv
	dir   string // the workspace
	seen  map[string]string
	set   *tools.Set
	calls *int // ids are never used twice
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env, err := local.New(local.Options{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{t: t, env: &testEnv{Env: env}, dir: dir, seen: map[string]string{}, set: tools.Standard(), calls: new(int)}
}

// try calls a tool and returns whatever it returns.
func (b *bench) try(ctx context.Context, name string, input any, live func(execenv.Chunk)) (tools.Result, error) {
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
	*b.calls++
	r, err := tool.Run(ctx, tools.Call{
		ID: fmt.Sprint("call-", *b.calls), Input: raw, Env: b.env, Live: live,
		Known: func(p string) (string, bool) {
			h, ok := b.seen[p]
			return h, ok
		},
	})
	for p, h := range r.Files {
		b.seen[p] = h
	}
	return r, err
}

// call wants a status and, in the text, each of parts.
func (b *bench) call(name string, input any, status task.CallStatus, parts ...string) tools.Result {
	b.t.Helper()
	r, err := b.try(b.t.Context(), name, input, nil)
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

// on returns b for a subtest.
func (b *bench) on(t *testing.T) *bench {
	sub := *b
	sub.t = t
	return &sub
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

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
