// Package container is the Env of a sandbox with a guest in it, whatever wall is
// around it. A [Binder] opens one [Env] per root task and caller; the Env passes
// each request on to the guest by whatever channel is open at that moment, so it
// outlives a stop, a start and a re-provision.
//
//	binder := container.New(container.Options{Channels: manager})
//	env, err := binder.Bind(ctx, rootTaskID, execenv.Caller{RootTaskID: rootTaskID, Generation: 3})
//
// When a channel breaks under a request, the Env asks why. A sandbox that is
// gone or stopped is execenv.ErrLost and one that stays silent
// execenv.ErrUnreachable, with a text that says what to do; where the guest
// answers again, the request is taken up under its call id, so that it has its
// effect once.
package container

import (
	"context"
	"path"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Channels opens the channels to sandboxes' guests and knows what became of them.
type Channels interface {
	// Channel returns the open channel to a root task's sandbox, and opens it
	// when it is not. The error wraps sandbox.ErrGone, ErrStopped or
	// ErrUnreachable. The client is the implementation's to close.
	Channel(ctx context.Context, rootTaskID string) (*client.Client, sandbox.Record, wire.Hello, error)

	// Why says why a channel broke, with an error as of Channel; nil when the
	// guest answers, perhaps from another boot.
	Why(ctx context.Context, rootTaskID string) error
}

// Options are what a Binder is made of.
type Options struct {
	Channels Channels

	// Preamble is asked before every command for text to evaluate first, by the
	// sandbox that it runs in; nil for none. See execenv.Preamble.
	Preamble func(ctx context.Context, ref sandbox.Ref, argv []string) (string, error)
}

// Binder binds root tasks to their sandboxes.
type Binder struct {
	channels Channels
	preamble func(ctx context.Context, ref sandbox.Ref, argv []string) (string, error)
}

var _ execenv.Binder = (*Binder)(nil)

// New returns a Binder.
func New(o Options) *Binder { return &Binder{o.Channels, o.Preamble} }

// Bind opens the Env of a root task for a caller.
func (b *Binder) Bind(ctx context.Context, rootTaskID string, c execenv.Caller) (execenv.Env, error) {
	e := &Env{channels: b.channels, preamble: b.preamble, root: rootTaskID, caller: c}
	if _, err := e.channel(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// Env is a root task's sandbox as one caller sees it.
type Env struct {
	channels Channels
	preamble func(ctx context.Context, ref sandbox.Ref, argv []string) (string, error)
	root     string
	caller   execenv.Caller

	mu sync.Mutex

	where execenv.Where // as of the last channel
}

var _ execenv.Env = (*Env)(nil)

// Where says what this place is.
func (e *Env) Where() execenv.Where {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.where
}

// channel is an open channel with what is known of the place behind it.
type channel struct {
	*client.Client
	boot    string
	workdir string
	env     map[string]sandbox.EnvValue
	ref     sandbox.Ref
}

func (e *Env) channel(ctx context.Context) (channel, error) {
	c, rec, hello, err := e.channels.Channel(ctx, e.root)
	if err != nil {
		return channel{}, translate(err)
	}
	workdir := rec.Workdir
	if workdir == "" {
		workdir = hello.Workdir
	}
	e.mu.Lock()
	e.where = execenv.Where{Wall: string(rec.Wall), SandboxID: rec.ShortID, Workdir: workdir, Boot: hello.BootID}
	e.mu.Unlock()
	return channel{c, hello.BootID, workdir, rec.Spec.Env, rec.Ref}, nil
}

// abs resolves a path as a command in the working directory would.
func (c channel) abs(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(c.workdir, p)
}

func (c channel) allAbs(ps []string) []string {
	abs := make([]string, len(ps))
	for i, p := range ps {
		abs[i] = c.abs(p)
	}
	return abs
}
