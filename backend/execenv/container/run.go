package container

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

const (
	whyTime = 3 * time.Second // to learn what befell a command whose caller has gone
	ackTime = 2 * time.Second
)

// Run runs a command; see execenv.Runner. The client already takes up a stream
// that was cut for a moment. What is left here is a sandbox that went away, which
// ends the call with the reason and not with an exit code, and a guest that
// answers again, where the call is taken up by its id.
func (e *Env) Run(ctx context.Context, cmd execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	c, err := e.channel(ctx)
	if err != nil {
		return execenv.Outcome{}, err
	}
	cmd.Dir = c.abs(cmd.Dir)
	cmd.Env = slices.Concat(sandbox.Variables(c.env), cmd.Env)
	if e.preamble != nil {
		bound := execenv.Preamble(func(ctx context.Context, argv []string) (string, error) { return e.preamble(ctx, c.ref, argv) })
		if cmd, err = bound.Prepare(ctx, cmd); err != nil {
			return execenv.Outcome{}, err
		}
	}
	if cmd.Call.ID == "" {
		// Nobody will ask for it again, but this call may have to.
		cmd.Call.ID = "host-" + rand.Text()
		defer e.forget(ctx, cmd.Call.ID)
	}
	live = once(live)

	o, err := c.Run(ctx, e.caller, cmd, live)
	switch {
	case err == nil && ctx.Err() == nil && o.Interrupted && o.Kill != nil && o.Kill.Cause == "shutdown":
		// The guest was told to end and took the command with it. It may still
		// answer when it is asked why.
		if why := e.why(ctx); why != nil {
			return o, why
		}
		return o, translate(sandbox.ErrStopped)
	case !broken(err):
		return o, err
	}
	wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), whyTime)
	defer cancel()
	if ctx.Err() == nil {
		wctx = ctx
	}
	if why := e.why(wctx); why != nil {
		return execenv.Outcome{}, midway(why)
	}
	if ctx.Err() != nil {
		return execenv.Outcome{}, silent(err)
	}
	if cmd.Stdin != nil { // what was read of it cannot be sent twice
		return execenv.Outcome{}, fmt.Errorf("the connection broke under the command's input: %w", execenv.ErrOutcomeUnknown)
	}
	if cmd.Call.Boot == "" {
		cmd.Call.Boot = c.boot
	}
	if c, err = e.channel(ctx); err != nil {
		return execenv.Outcome{}, err
	}
	if o, err = c.Run(ctx, e.caller, cmd, live); broken(err) {
		return execenv.Outcome{}, silent(err)
	}
	return o, err
}

// forget lets the guest drop the outcome of a call that has no other owner.
func (e *Env) forget(ctx context.Context, callID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTime)
	defer cancel()
	c, err := e.channel(ctx)
	if err != nil {
		return // what it kept is bounded, and gone with the sandbox
	}
	_ = c.Ack(ctx, callID) // likewise
}

// once returns live without what it was handed before: a call that is taken up
// may be told from its beginning.
func once(live func(execenv.Chunk)) func(execenv.Chunk) {
	if live == nil {
		return nil
	}
	seen := make(map[execenv.Stream]int64)
	return func(c execenv.Chunk) {
		end := c.Offset + int64(len(c.Data))
		if end <= seen[c.Stream] {
			return
		}
		if old := seen[c.Stream] - c.Offset; old > 0 {
			c.Data, c.Offset = c.Data[old:], c.Offset+old
		}
		seen[c.Stream] = end
		live(c)
	}
}
