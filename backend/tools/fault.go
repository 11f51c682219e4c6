package tools

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// unmade returns the Result of a call that was not made.
func unmade(format string, args ...any) Result {
	r := refuse(format, args...)
	r.NotMade = true
	return r
}

// refuse returns the Result of a call that its place did not carry out.
func refuse(format string, args ...any) Result {
	return Result{Status: task.CallError, Text: clean(fmt.Sprintf(format, args...))}
}

// invalid returns the Result of arguments that decode refused.
func invalid(err error) Result { return unmade("Invalid input: %v.", err) }

// fault turns an Env's error into a Result. The errors that say nothing of the
// call itself stay errors: see Tool.
func fault(ctx context.Context, err error) (Result, error) {
	var p *execenv.PathError
	switch {
	case errors.Is(err, execenv.ErrFenced), errors.Is(context.Cause(ctx), execenv.ErrLeave):
		return Result{}, err
	case ctx.Err() != nil:
		return Result{Status: task.CallInterrupted, Text: "Interrupted: the turn was stopped while this call ran."}, nil
	case errors.Is(err, execenv.ErrUnreachable):
		return Result{}, err
	case errors.Is(err, execenv.ErrLost) && errors.Is(err, sandbox.ErrStopped):
		return Result{Status: task.CallLost, NotMade: true, Text: clean(fmt.Sprintf("Sandbox not running: %v. Nothing was done.", err))}, nil
	case errors.Is(err, execenv.ErrLost):
		return Result{Status: task.CallLost, Text: clean(fmt.Sprintf("Sandbox lost: %v. What was inside it, apart from the workspace, is gone.", err))}, nil
	case errors.Is(err, execenv.ErrOutcomeUnknown):
		return Result{Status: task.CallUnknown, Text: "Outcome unknown: the sandbox stopped while this call ran, so it may or may not have had its effect. It was not repeated; look at the state of things before you try again."}, nil
	case errors.Is(err, execenv.ErrWorkdirGone):
		return unmade("Workspace missing: %v. Nothing was done; calls work again once the directory is back and its sandbox, if it has one, has been stopped and started.", err), nil
	case errors.Is(err, execenv.ErrEscape):
		return refuse("%v. Only paths inside the workspace are allowed here.", err), nil
	case errors.Is(err, execenv.ErrBusy):
		return unmade("%v: try again when other calls have ended.", err), nil
	case errors.As(err, &p):
		return refuse("%v.", p), nil
	}
	return refuse("%v.", err), nil
}
