package aio

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Place is where on a server an Env works, and how it is shown.
type Place struct {
	Wall     sandbox.Wall
	ShortID  string
	Workdir  string
	Env      map[string]sandbox.EnvValue // for every command
	Preamble execenv.Preamble            // before every command; nil for none

	// Why says why the server does not answer, with an error that wraps
	// sandbox.ErrGone or ErrStopped; nil where that is not known. May be nil.
	Why func(ctx context.Context) error
}

// Env is an AIO server as tools see it.
type Env struct {
	server *Server
	place  Place
}

var _ execenv.Env = (*Env)(nil)

// Env returns the Env of a place on the server.
func (s *Server) Env(p Place) *Env {
	if p.Workdir == "" {
		p.Workdir = sandbox.DefaultWorkdir
	}
	return &Env{server: s, place: p}
}

// Where says what this place is, and what does not hold in it.
func (e *Env) Where() execenv.Where {
	e.server.mu.Lock()
	info := e.server.info
	e.server.mu.Unlock()
	return execenv.Where{Wall: string(e.place.Wall), SandboxID: e.place.ShortID, Workdir: e.place.Workdir, Caveat: info.Caveat()}
}

// Shell returns the shell that commands of tools are given to.
func (e *Env) Shell() string { return "bash" }

// abs resolves a path as a command in the working directory would.
func (e *Env) abs(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(e.place.Workdir, p)
}

// whyTime bounds the question what befell a sandbox whose caller may have gone.
const whyTime = 3 * time.Second

// befell returns what became of a sandbox whose server does not answer, in the
// words of an Env; nil when nobody knows.
func (e *Env) befell(ctx context.Context) error {
	if e.place.Why == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), whyTime)
	defer cancel()
	why := e.place.Why(ctx)
	switch {
	case errors.Is(why, sandbox.ErrGone):
		return fmt.Errorf("%w: %w; re-provision the session", execenv.ErrLost, why)
	case errors.Is(why, sandbox.ErrStopped):
		return fmt.Errorf("%w: %w; start it to go on", execenv.ErrLost, why)
	}
	return nil
}

// midway makes the error of a command whose server went away say what befell it.
// After a sandbox that stopped, nobody knows how far the command came.
func (e *Env) midway(ctx context.Context, err error) error {
	if !errors.Is(err, execenv.ErrOutcomeUnknown) && !errors.Is(err, execenv.ErrUnreachable) {
		return err
	}
	switch why := e.befell(ctx); {
	case errors.Is(why, sandbox.ErrGone):
		return why
	case why != nil:
		return fmt.Errorf("the sandbox stopped while this was under way; start it to go on: %w: %w", execenv.ErrOutcomeUnknown, sandbox.ErrStopped)
	}
	return e.down(ctx, err)
}

// down makes an error of a server that does not answer say what to do next.
func (e *Env) down(ctx context.Context, err error) error {
	if errors.Is(err, execenv.ErrUnreachable) && !errors.Is(err, execenv.ErrOutcomeUnknown) {
		if why := e.befell(ctx); why != nil {
			return why
		}
	}
	switch {
	case errors.Is(err, sandbox.ErrUnauthorized):
		return fmt.Errorf("%w: %w", execenv.ErrUnreachable, err)
	case errors.Is(err, errMisfit):
		return fmt.Errorf("%w; is it an AIO server?", err)
	case errors.Is(err, execenv.ErrUnreachable):
		return fmt.Errorf("%w; the session stays bound to it, try again", err)
	}
	return err
}

// ask makes a request without effects by a script, whose failures are of path.
func (e *Env) ask(ctx context.Context, path, script string) (answer, error) {
	a, err := e.server.script(ctx, script)
	if err != nil {
		return a, e.down(ctx, silent(pathError(path, err)))
	}
	return a, nil
}
