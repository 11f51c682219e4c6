package lifetime

import (
	"context"
	"errors"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// ErrHeld refuses to replace a sandbox that is still there.
var ErrHeld = errors.New("the session has a sandbox")

// ErrCalledOff ends the making of a sandbox that was stopped. It is a
// context.Canceled, and does not say so in its text: whoever has pressed Stop
// need not read which call that broke off.
var ErrCalledOff error = calledOff{}

type calledOff struct{}

func (calledOff) Error() string        { return "stopped before the sandbox was ready" }
func (calledOff) Is(target error) bool { return target == context.Canceled }

// DownError says that no call can be made to a sandbox, and why. It wraps
// sandbox.ErrGone, ErrStopped or ErrUnreachable.
type DownError struct {
	Condition sandbox.Condition // as last observed
	Err       error
}

func (e *DownError) Error() string {
	if e.Condition.Cause == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + ": " + e.Condition.Cause
}

// Unwrap returns the sentinel.
func (e *DownError) Unwrap() error { return e.Err }

// Cause returns the cause of the condition, for example "removed".
func (e *DownError) Cause() string { return e.Condition.Cause }

// down returns why no call can be made in the condition c, or nil when one can.
func down(c sandbox.Condition) error {
	switch c.Value {
	case sandbox.StateReady:
		return nil
	case sandbox.StateStopped:
		return &DownError{c, sandbox.ErrStopped}
	case sandbox.StatePaused:
		c.Cause = string(sandbox.StatePaused)
		return &DownError{c, sandbox.ErrStopped}
	case sandbox.StateUnreachable, sandbox.StateAllocating:
		return &DownError{c, sandbox.ErrUnreachable}
	}
	if c.Cause == "" && c.Value != sandbox.StateLost {
		c.Cause = string(c.Value)
	}
	return &DownError{c, sandbox.ErrGone}
}
