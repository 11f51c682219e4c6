package container

import (
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// downError says in the words of an Env why a sandbox takes no calls. It matches
// the sentinels of both packages.
type downError struct {
	text      string
	env, wall error
	cause     string
}

// Cause implements what cause asks for.
func (e *downError) Cause() string { return e.cause }

func (e *downError) Error() string   { return e.text }
func (e *downError) Unwrap() []error { return []error{e.env, e.wall} }

// translate makes an error of the sandbox one of its Env, with what to do next.
// Others pass through.
func translate(err error) error {
	var down *downError
	switch {
	case err == nil, errors.As(err, &down):
		return err
	case errors.Is(err, sandbox.ErrGone):
		return &downError{"the sandbox is lost" + cause(err) + "; re-provision the session", execenv.ErrLost, sandbox.ErrGone, causeOf(err)}
	case errors.Is(err, sandbox.ErrStopped) && causeOf(err) == string(sandbox.StatePaused):
		return &downError{"the sandbox is paused; unpause it to go on", execenv.ErrLost, sandbox.ErrStopped, causeOf(err)}
	case errors.Is(err, sandbox.ErrStopped):
		return &downError{"the sandbox is stopped" + cause(err) + "; start it to go on", execenv.ErrLost, sandbox.ErrStopped, causeOf(err)}
	case errors.Is(err, sandbox.ErrUnauthorized): // which names the variable
		return &downError{"the sandbox does not answer: " + err.Error() + "; the session stays bound to it", execenv.ErrUnreachable, sandbox.ErrUnreachable, causeOf(err)}
	case errors.Is(err, sandbox.ErrUnreachable):
		return &downError{"the sandbox does not answer" + cause(err) + "; the session stays bound to it, try again", execenv.ErrUnreachable, sandbox.ErrUnreachable, causeOf(err)}
	case errors.Is(err, sandbox.ErrUnsupported):
		return fmt.Errorf("%w: %w", execenv.ErrUnsupported, err)
	}
	return err
}

// midway is the error of an effect that was under way when its sandbox went
// down, for the reason why. One that is removed is lost; after one that stopped,
// nobody knows how far the effect came, and it must not be tried again.
func midway(why error) error {
	if !errors.Is(why, sandbox.ErrStopped) {
		return why
	}
	return &downError{"the sandbox stopped" + cause(why) + " while this was under way; start it to go on", execenv.ErrOutcomeUnknown, sandbox.ErrStopped, causeOf(why)}
}

// causeOf returns the cause that err knows of.
func causeOf(err error) string {
	var c interface{ Cause() string }
	if errors.As(err, &c) {
		return c.Cause()
	}
	return ""
}

// cause returns the cause that err knows of, to be put behind what happened.
func cause(err error) string {
	if c := causeOf(err); c != "" {
		return ": " + c
	}
	return ""
}

// broken reports whether err is a fault of the channel rather than the guest's
// word about the request.
func broken(err error) bool { return errors.Is(err, execenv.ErrUnreachable) }

// silent is the error of a guest that answers when it is asked how it is, and
// not when it is asked for something.
func silent(err error) error {
	return fmt.Errorf("%w; the session stays bound to it, try again", err)
}
