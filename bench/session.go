package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// session is an open session whose workspace holds this program.
type session struct {
	id        string
	env       execenv.Env
	workspace string // on the host
	workdir   string // inside
	helper    string // this program, inside
	container string // id, behind the docker wall
}

// helperName is what this program is called in a workspace.
const helperName = "glovebox-bench"

// errSeen ends a Follow that has seen what it waited for.
var errSeen = errors.New("seen")

// openTime bounds the wait for a sandbox.
const openTime = 2 * time.Minute

// openSession opens a session and returns how long it took from the request
// until its sandbox was bound, as the events socket tells it. Once there is an
// id the session has to be closed, whatever the error.
func openSession(ctx context.Context, api API, wall sandbox.Wall) (id string, took time.Duration, err error) {
	return openSpec(ctx, api, sandbox.Spec{Wall: wall})
}

// openSpec is openSession for more than a wall.
func openSpec(ctx context.Context, api API, spec sandbox.Spec) (id string, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	began := time.Now()
	var a httpapi.Accepted
	if err := api.Call(ctx, "POST", "/sessions", httpapi.OpenRequest{Title: "benchmark", Spec: spec}, &a); err != nil {
		return "", 0, fmt.Errorf("open a session: %w", err)
	}
	err = api.Follow(ctx, a.SessionID, func(f httpapi.Frame) error {
		if f.Type != "event" {
			return nil
		}
		payload, err := task.Decode(*f.Event)
		if err != nil {
			return err
		}
		switch p := payload.(type) {
		case *task.TaskHostBound:
			took = time.Since(began)
			return errSeen
		case *task.TaskSuspended:
			return errors.New(p.Detail)
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		return a.SessionID, 0, fmt.Errorf("open a session: %w", err)
	}
	return a.SessionID, took, nil
}

func closeSession(ctx context.Context, api API, id string) error {
	if id == "" {
		return nil
	}
	if err := api.Call(ctx, "POST", "/sessions/"+id+"/close", nil, nil); err != nil {
		return fmt.Errorf("close session %s: %w", id, err)
	}
	return nil
}

// session returns the session behind a wall that rows share.
func (b *bench) session(ctx context.Context, wall sandbox.Wall) (*session, error) {
	if s, ok := b.sessions[wall]; ok {
		return s, nil
	}
	id, _, err := openSession(ctx, b.o.API, wall)
	s := &session{id: id}
	if err == nil {
		err = b.prepare(ctx, s)
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		return nil, errors.Join(err, closeSession(clean, b.o.API, id))
	}
	b.sessions[wall] = s
	return s, nil
}

func (b *bench) prepare(ctx context.Context, s *session) error {
	var v httpapi.Session
	if err := b.o.API.Call(ctx, "GET", "/sessions/"+s.id, nil, &v); err != nil {
		return err
	}
	s.workspace = v.Workspace
	if v.Wall == sandbox.WallDocker {
		var err error
		if _, s.container, err = sandbox.DecodeRef(v.Ref); err != nil {
			return err
		}
	}
	env, err := b.o.Env(ctx, s.id)
	if err != nil {
		return err
	}
	s.env, s.workdir = env, env.Where().Workdir
	s.helper = s.workdir + "/" + helperName
	return install(b.o.Program, filepath.Join(s.workspace, helperName))
}

// install copies a program to where a sandbox can run it.
func install(program, target string) error {
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// run runs a command to its end and expects it to succeed.
func (s *session) run(ctx context.Context, cmd execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	o, err := s.env.Run(ctx, cmd, live)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil && o.ExitCode != 0 {
		err = fmt.Errorf("%s ended with code %d: %s", cmd.Argv[0], o.ExitCode, o.Stderr.Head)
		if cmd.Argv[0] == s.helper {
			err = fmt.Errorf("%w; a program that is not static runs in few sandboxes: make build", err)
		}
	}
	return o, err
}

// inside runs this program in the sandbox and returns the durations it prints.
func (s *session) inside(ctx context.Context, args ...string) ([]time.Duration, error) {
	o, err := s.run(ctx, execenv.Command{Argv: append([]string{s.helper, "bench", "inside"}, args...)}, nil)
	if err != nil {
		return nil, err
	}
	return nanoseconds(string(o.Stdout.Head) + string(o.Stdout.Tail))
}

// callBash makes a Bash call by the API and expects it to succeed.
func (b *bench) callBash(ctx context.Context, s *session, command string) error {
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return err
	}
	var r httpapi.ToolResponse
	err = b.o.API.Call(ctx, "POST", "/sessions/"+s.id+"/tools", httpapi.ToolRequest{Tool: "Bash", Input: input}, &r)
	if err == nil && r.Status != task.CallOK {
		err = fmt.Errorf("bash: %s: %s", r.Status, r.Text)
	}
	return err
}

// timed returns how long f took.
func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

// repeat does f n times and appends what each took.
func repeat(ds []time.Duration, n int, f func() error) ([]time.Duration, error) {
	for range n {
		d, err := timed(f)
		if err != nil {
			return ds, err
		}
		ds = append(ds, d)
	}
	return ds, nil
}
