// Package local is the Env without a wall: files and processes of the host, as
// the user of this program. It is used only where a person chose it by name.
//
//	env, err := local.New(local.Options{Workspace: dir})
//	defer env.Close()
//
// Writes stay within the roots that each request names; reads are free. What a
// command leaves running is known by its session, its parents and a variable in
// its environment, all of which a process can shed: a kill is best effort here,
// and its report says so. Effects happen once for each call id as long as the
// Env lives; after that their outcome is unknown.
package local

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
	"github.com/glovebox-dev/glovebox/backend/terminal"
)

// Options configure an Env.
type Options struct {
	Workspace string // where commands run unless they say otherwise; must exist
	Log       *slog.Logger
}

// Env is the host. It is safe for concurrent use.
type Env struct {
	*files.Engine // reads and searches

	view      *files.Engine // of the workspace alone
	workspace string
	log       *slog.Logger
	calls     calls
	life      context.Context // of the commands; Close ends it
	end       context.CancelFunc
	runs      sync.WaitGroup // of commands under way; none is added once closed is set
	drains    sync.WaitGroup // of outputs that background children still hold
	terminals terminal.Set

	mu     sync.Mutex
	closed bool
	held   map[*output]struct{}
	trees  map[*tree]struct{} // commands that left something running
}

var _ execenv.Env = (*Env)(nil)

// New returns the host's Env for a workspace.
func New(o Options) (*Env, error) {
	dir, err := filepath.Abs(o.Workspace)
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", o.Workspace, err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("workspace %s: %w: choose a directory that is there", dir, execenv.ErrWorkdirGone)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	life, end := context.WithCancel(context.Background())
	return &Env{
		life:      life,
		end:       end,
		Engine:    files.New(files.Options{}),
		view:      newView(dir),
		workspace: dir,
		log:       o.Log.With("component", "local"),
		held:      make(map[*output]struct{}),
		trees:     make(map[*tree]struct{}),
	}, nil
}

// Where says that this is the host.
func (e *Env) Where() execenv.Where {
	return execenv.Where{Wall: "local", Workdir: e.workspace}
}

// WriteFile writes a file, once for each call id.
func (e *Env) WriteFile(ctx context.Context, r execenv.WriteRequest) (execenv.WriteResult, error) {
	return once(ctx, &e.calls, "write", r.Call, func() (execenv.WriteResult, error) { return e.Engine.WriteFile(ctx, r) })
}

// EditFile edits a file, once for each call id.
func (e *Env) EditFile(ctx context.Context, r execenv.EditRequest) (execenv.EditResult, error) {
	return once(ctx, &e.calls, "edit", r.Call, func() (execenv.EditResult, error) { return e.Engine.EditFile(ctx, r) })
}

// Change changes a directory, once for each call id.
func (e *Env) Change(ctx context.Context, r execenv.ChangeRequest) error {
	_, err := once(ctx, &e.calls, "change", r.Call, func() (struct{}, error) { return struct{}{}, e.Engine.Change(ctx, r) })
	return err
}

// Run runs a command, once for each call id. A Stdin that is not an *os.File is
// read by a goroutine that ends only when its Read returns.
func (e *Env) Run(ctx context.Context, c execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	return once(ctx, &e.calls, "run", c.Call, func() (execenv.Outcome, error) { return e.run(ctx, c, live) })
}

// begin admits one command: its context ends with the Env too. done, which may be
// called twice, says that its first process has ended; Close waits for that.
func (e *Env) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil, fmt.Errorf("run a command on the host: the session has let go of it: %w", execenv.ErrLost)
	}
	e.runs.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.life, cancel)
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel()
		e.runs.Done()
	}), nil
}

// Close kills what runs and what commands left running, as the release of a
// sandbox does.
func (e *Env) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.end()
	e.terminals.Shutdown(context.Background()) // bounded by what a kill may take
	e.runs.Wait()
	e.mu.Lock()
	trees := e.trees
	e.trees = make(map[*tree]struct{})
	e.mu.Unlock()
	for t := range trees {
		if report := t.kill("shutdown", nil); len(report.Left) > 0 {
			e.log.Warn("processes are left", "count", len(report.Left), "first", report.Left[0].Name)
		}
	}
	e.mu.Lock()
	held := slices.Collect(maps.Keys(e.held))
	e.mu.Unlock()
	for _, o := range held {
		o.Unblock() // a reader that is slow to take what is left loses it
		o.r.Close()
	}
	e.drains.Wait()
	return nil
}
