package container

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

var _ execenv.Terminals = (*Env)(nil)

// OpenTerminal starts a terminal in the guest, which keeps it. A request whose
// channel broke is not made again: there might be two terminals then.
func (e *Env) OpenTerminal(ctx context.Context, r execenv.TerminalRequest) (execenv.Terminal, error) {
	c, err := e.channel(ctx)
	if err != nil {
		return execenv.Terminal{}, err
	}
	r.Dir = c.abs(r.Dir)
	r.Env = slices.Concat(sandbox.Variables(c.env), r.Env)
	t, err := c.OpenTerminal(ctx, r)
	return t, e.explain(ctx, err)
}

// ListTerminals lists the guest's terminals.
func (e *Env) ListTerminals(ctx context.Context) ([]execenv.Terminal, error) {
	return ask(ctx, e, func(c channel) ([]execenv.Terminal, error) { return c.ListTerminals(ctx) })
}

// CloseTerminal ends a terminal.
func (e *Env) CloseTerminal(ctx context.Context, id string) error {
	_, err := ask(ctx, e, func(c channel) (struct{}, error) { return struct{}{}, c.CloseTerminal(ctx, id) })
	return err
}

// ViewTerminal opens a view of a terminal in the guest.
func (e *Env) ViewTerminal(ctx context.Context, id string, after int64) (execenv.TerminalView, error) {
	return ask(ctx, e, func(c channel) (execenv.TerminalView, error) {
		v, err := c.ViewTerminal(ctx, id, after)
		if err != nil {
			return nil, err
		}
		return &view{v, e}, nil
	})
}

// explain is err with the reason why the channel broke, if it did.
func (e *Env) explain(ctx context.Context, err error) error {
	if !broken(err) {
		return err
	}
	if why := e.why(ctx); why != nil {
		return why
	}
	return silent(err)
}

// view says why it was cut.
type view struct {
	execenv.TerminalView
	env *Env
}

func (v *view) Next(ctx context.Context) (execenv.TerminalEvent, error) {
	event, err := v.TerminalView.Next(ctx)
	if err == nil || errors.Is(err, io.EOF) {
		return event, err
	}
	return event, v.env.explain(ctx, err)
}

func (v *view) Input(ctx context.Context, data []byte) error {
	return v.env.explain(ctx, v.TerminalView.Input(ctx, data))
}

func (v *view) Resize(ctx context.Context, cols, rows int) error {
	return v.env.explain(ctx, v.TerminalView.Resize(ctx, cols, rows))
}
