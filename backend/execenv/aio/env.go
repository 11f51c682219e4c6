package aio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

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
}

// Env is an AIO server as tools see it.
type Env struct {
	server   *Server
	place    Place
	preamble execenv.Preamble
}

var _ execenv.Env = (*Env)(nil)

// Env returns the Env of a place on the server.
func (s *Server) Env(p Place) *Env {
	if p.Workdir == "" {
		p.Workdir = sandbox.DefaultWorkdir
	}
	return &Env{server: s, place: p, preamble: p.Preamble}
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

// variables returns the place's variables. A host's variable is read now, for
// this command alone; one that is not set is left out.
func (e *Env) variables() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(e.place.Env)) {
		value := e.place.Env[name].Literal
		if host := e.place.Env[name].FromHost; host != "" {
			var set bool
			if value, set = os.LookupEnv(host); !set {
				continue
			}
		}
		env = append(env, name+"="+value)
	}
	return env
}

// down makes an error of a server that does not answer say what to do next.
func (e *Env) down(err error) error {
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
		return a, e.down(silent(pathError(path, err)))
	}
	return a, nil
}
