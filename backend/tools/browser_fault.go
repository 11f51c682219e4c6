package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// noBrowser refuses a call where there is no browser.
func noBrowser() Result {
	return unmade("There is no browser in this session. Nothing was done; go on without one, and say so where it matters.")
}

// unopened turns the fault of a browser that could not be had into a Result:
// nothing was done.
func unopened(ctx context.Context, err error) (Result, error) {
	tell := fault
	switch {
	case ctx.Err() != nil, errors.Is(err, execenv.ErrNoBrowser), errors.Is(err, execenv.ErrBrowser), errors.Is(err, context.DeadlineExceeded):
		tell = browserFault
	}
	r, err := tell(ctx, err)
	r.NotMade = true
	return r, err
}

// browserFault turns a browser's error into a Result. Those errors end with what
// to do next.
func browserFault(ctx context.Context, err error) (Result, error) {
	var held *control.HeldError
	var taken *browser.TakenError
	switch {
	case errors.Is(err, execenv.ErrFenced), errors.Is(context.Cause(ctx), execenv.ErrLeave):
		return Result{}, err
	case ctx.Err() != nil:
		// A browser's call has no processes: with it, all that it was has ended.
		return Result{
			Status: task.CallInterrupted, Kill: &execenv.KillReport{Cause: "stop"},
			Text: "Interrupted: the turn was stopped while this call ran. It may or may not have had its effect; look at the page (browser_extract) before you go on.",
		}, nil
	case errors.As(err, &taken) && taken.Done:
		return Result{Status: task.CallOK, Text: sentence(err)}, nil
	case errors.As(err, &taken):
		return Result{Status: task.CallUnknown, Text: "Broken off: " + sentence(err)}, nil
	case errors.As(err, &held):
		return unmade("%v. Until then, go on with what needs no browser, or wait with Bash (sleep) and try again.", err), nil
	case errors.Is(err, execenv.ErrNoBrowser):
		return unmade("There is no browser in this sandbox. Nothing was done; go on without one, and say so where it matters.\n%v.", err), nil
	case errors.Is(err, execenv.ErrLost), errors.Is(err, execenv.ErrWorkdirGone):
		return fault(ctx, err)
	case errors.Is(err, execenv.ErrBrowser):
		return unmade("The browser of the sandbox does not run: %v. Nothing was done; the next call starts it again.", err), nil
	case errors.Is(err, tabs.ErrBroken):
		return Result{Status: task.CallUnknown, Text: sentence(err)}, nil
	case errors.Is(err, browser.ErrTimeout), errors.Is(err, tabs.ErrStuck):
		return Result{Status: task.CallTimeout, Text: sentence(err)}, nil
	case errors.Is(err, context.DeadlineExceeded):
		return Result{Status: task.CallTimeout, Text: "The browser did not answer in time. The call may or may not have had its effect; look at the page (browser_extract), or reload it, before you try again."}, nil
	case errors.Is(err, tabs.ErrForbidden):
		return refuse("%s A file of the sandbox can be served, for example with \"python3 -m http.server --bind 127.0.0.1 8000 &\" in Bash, and opened at http://127.0.0.1:8000/.", sentence(err)), nil
	}
	return Result{Status: task.CallError, Text: sentence(err)}, nil
}

// refusedBy tells a refusal of the lease from other errors, and from one that came
// when something had been done.
func refusedBy(err error) string {
	var held *control.HeldError
	var taken *browser.TakenError
	switch {
	case errors.As(err, &taken):
		return ""
	case errors.As(err, &held):
		return RefusedHeld
	case errors.Is(err, control.ErrLook):
		return RefusedLook
	}
	return ""
}

// sentence is an error as a sentence of its own. What follows its first line is
// left as it is.
func sentence(err error) string {
	first, rest, more := strings.Cut(clean(err.Error()), "\n")
	if first != "" && !strings.HasSuffix(first, ".") {
		first += "."
	}
	if more {
		return fmt.Sprintf("%s\n%s", first, rest)
	}
	return first
}
