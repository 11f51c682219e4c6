package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/docker/docker/client"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// The deadlines of calls to the engine. A healthy engine answers a read within
// milliseconds and starts a container within a second; the long ones leave room
// for a machine under load.
const (
	pingTimeout   = 3 * time.Second
	readTimeout   = 10 * time.Second
	createTimeout = 20 * time.Second
	startTimeout  = 25 * time.Second
	removeTimeout = 20 * time.Second
	guestTimeout  = 15 * time.Second // from start to the guest's first answer
)

// call runs one request to the engine under a deadline of its own and makes a
// silent engine sandbox.ErrUnreachable.
func call[T any](ctx context.Context, p *Provider, what string, timeout time.Duration, do func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, err := do(limited)
	return v, p.engineError(ctx, what, err)
}

// engineError says what we were doing, and wraps sandbox.ErrUnreachable when
// the engine did not answer. The caller's own end of ctx stays what it is.
func (p *Provider) engineError(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: the engine at %s (%s) did not answer in time: %w", what, p.endpoint.host, p.endpoint.why, sandbox.ErrUnreachable)
	case silent(err):
		return fmt.Errorf("%s: no engine answers at %s (%s); start it, or set DOCKER_HOST: %w", what, p.endpoint.host, p.endpoint.why, sandbox.ErrUnreachable)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// silent reports whether err means that no answer came, as opposed to a bad one.
func silent(err error) bool {
	var op *net.OpError
	return client.IsErrConnectionFailed(err) || errors.As(err, &op) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// answered reports whether err is the engine's refusal, as opposed to its
// silence or the caller's end.
func answered(err error) bool {
	return !errors.Is(err, sandbox.ErrUnreachable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
