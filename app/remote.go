package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/config"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio"
	"github.com/glovebox-dev/glovebox/backend/execenv/container"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/remote"
	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// hostConfig is what the embedding program said, with what it left out filled in
// from the configuration file.
func hostConfig(h session.HostConfig, c config.Config) session.HostConfig {
	if h.ExecEnv == nil && c.ExecEnv.BaseURL != "" {
		e := c.ExecEnv
		h.ExecEnv = &sandbox.RemoteConfig{BaseURL: e.BaseURL, APIKeyEnv: e.APIKeyEnv, Header: e.Header, Workdir: e.Workdir}
	}
	if h.SandboxExecPreamble == nil && len(c.Sandbox.Preamble) > 0 {
		h.SandboxExecPreamble = helper(c.Sandbox.Preamble)
	}
	if h.SandboxPolicy == nil && len(c.Sandbox.Policy) > 0 {
		h.SandboxPolicy = func(_, workspace string) bool { return c.Sandbox.Sandboxed(workspace) }
	}
	if h.SandboxProvider != nil {
		h.SandboxSpec.Wall = cmp.Or(h.SandboxSpec.Wall, sandbox.WallRemote)
	}
	return h
}

// sharedByDefault reports whether a session that names nothing works in the one
// shared sandbox: where the program named it, or the file did and nothing before it.
func (a *App) sharedByDefault() bool {
	switch {
	case a.o.Host.SandboxProvider != nil:
		return false
	case a.o.Host.ExecEnv != nil:
		return true
	}
	return a.o.Config.Shared()
}

// What a preamble's program may take and print.
const (
	helperTime  = 10 * time.Second
	helperBytes = 64 << 10
)

// helper returns the preamble that a program prints. It is given the sandbox's
// address in a variable, and the command as a JSON array on its standard input.
func helper(argv []string) func(context.Context, sandbox.Ref, []string) (string, error) {
	return func(ctx context.Context, ref sandbox.Ref, command []string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, helperTime)
		defer cancel()
		in, err := json.Marshal(command)
		if err != nil {
			return "", err
		}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "GLOVEBOX_SANDBOX_REF="+string(ref))
		cmd.Stdin = bytes.NewReader(in)
		cmd.WaitDelay = time.Second
		var out limited
		cmd.Stdout = &out
		// What it says as an error may hold what it mints: it is not repeated.
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("run %s: %w", argv[0], err)
		}
		if out.over {
			return "", fmt.Errorf("%s printed more than %d bytes", argv[0], helperBytes)
		}
		return out.String(), nil
	}
}

// limited keeps so much of what is written to it.
type limited struct {
	bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > helperBytes {
		l.over = true
		return len(p), nil
	}
	return l.Buffer.Write(p)
}

// aioServers are the AIO servers that are spoken to, one for each URL and key, or
// for each sandbox of ours whose image serves.
type aioServers struct {
	log  *slog.Logger
	left sync.WaitGroup // for those that were forgotten

	mu  sync.Mutex
	all map[string]*aio.Server
}

// server returns the one at a URL.
func (s *aioServers) server(baseURL string, auth sandbox.Auth) (*aio.Server, error) {
	key := baseURL
	if k, ok := auth.(sandbox.StaticAPIKey); ok {
		key += "\x00" + k.Variable() + "\x00" + k.HeaderName
	}
	return s.get(key, aio.Options{BaseURL: baseURL, Auth: auth})
}

// of returns the one that a handle leads to.
func (s *aioServers) of(h sandbox.Handle) (*aio.Server, error) {
	if h.Server == "" {
		return s.server(h.BaseURL, h.Auth)
	}
	ref, err := h.Ref()
	if err != nil {
		return nil, err
	}
	return s.get(string(ref), aio.Options{BaseURL: h.Server, Auth: h.Auth, Dial: h.ServerDial, Name: "the server in " + h.ShortID})
}

func (s *aioServers) get(key string, o aio.Options) (*aio.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.all[key]; ok {
		return known, nil
	}
	o.Log = s.log
	made, err := aio.New(o)
	if err != nil {
		return nil, err
	}
	if s.all == nil {
		s.all = map[string]*aio.Server{}
	}
	s.all[key] = made
	return made, nil
}

// forget drops the server of a sandbox that is gone. What it still puts away there
// has nowhere to be put.
func (s *aioServers) forget(ref sandbox.Ref) {
	s.mu.Lock()
	server := s.all[string(ref)]
	delete(s.all, string(ref))
	s.mu.Unlock()
	if server != nil {
		s.left.Go(func() { _ = server.Close() }) // which only waits
	}
}

func (s *aioServers) close() error {
	defer s.left.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, server := range s.all {
		errs = append(errs, server.Close())
	}
	clear(s.all)
	return errors.Join(errs...)
}

// newRemote makes the provider of what is there already.
func (a *App) newRemote() *remote.Provider {
	o := remote.Options{Server: func(url string, auth sandbox.Auth) (remote.Server, error) { return a.aio.server(url, auth) }}
	if e := a.hosts.ExecEnv; e != nil {
		o.Config = *e
	}
	return remote.New(o)
}

// placeBinder opens the Env of a sandbox by what is in it: a guest, a server of
// the AIO API, or whatever the embedding program's factory makes of it.
type placeBinder struct {
	lifetime *lifetime.Manager
	guest    *container.Binder
	servers  *aioServers
	host     session.HostConfig

	mu   sync.Mutex
	made map[string]madeEnv // by root task, of the factory
}

type madeEnv struct {
	ref sandbox.Ref
	env execenv.Env
}

// Bind implements execenv.Binder.
func (b *placeBinder) Bind(ctx context.Context, rootTaskID string, c execenv.Caller) (execenv.Env, error) {
	h, rec, err := b.lifetime.Handle(ctx, rootTaskID)
	guest := h.Dial != nil && h.Wire != sandbox.WireAIO
	if err != nil || guest && b.host.SandboxBackendFactory == nil {
		return b.guest.Bind(ctx, rootTaskID, c) // which has the words for what is wrong
	}
	var preamble execenv.Preamble
	if ask := b.host.SandboxExecPreamble; ask != nil {
		preamble = func(ctx context.Context, argv []string) (string, error) { return ask(ctx, rec.Ref, argv) }
	}
	if b.host.SandboxBackendFactory != nil {
		return b.make(rootTaskID, rec.Ref, h, preamble)
	}
	server, err := b.servers.of(h)
	if err != nil {
		return nil, err
	}
	env := maps.Clone(rec.Spec.Env)
	delete(env, sandbox.DefaultKeyEnv) // the server's, not its commands'
	p := aio.Place{Wall: rec.Wall, ShortID: rec.ShortID, Workdir: cmp.Or(rec.Workdir, h.Workdir), Env: env, Preamble: preamble}
	if h.Server != "" {
		p.Why = func(ctx context.Context) error { return b.lifetime.Why(ctx, rootTaskID) }
	}
	return server.Env(p), nil
}

// make asks the factory, once for each sandbox of a root task.
func (b *placeBinder) make(root string, ref sandbox.Ref, h sandbox.Handle, preamble execenv.Preamble) (execenv.Env, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.made[root]
	if ok && old.ref == ref {
		return old.env, nil
	}
	env, err := b.host.SandboxBackendFactory(h, preamble)
	if err != nil {
		return nil, fmt.Errorf("make the backend of sandbox %s: %w", ref, err)
	}
	if b.made == nil {
		b.made = map[string]madeEnv{}
	}
	b.made[root] = madeEnv{ref, env}
	return env, errors.Join(old.close())
}

func (m madeEnv) close() error {
	if c, ok := m.env.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// forget closes the Env that the factory made for a root task.
func (b *placeBinder) forget(root string) error {
	b.mu.Lock()
	old := b.made[root]
	delete(b.made, root)
	b.mu.Unlock()
	return old.close()
}

func (b *placeBinder) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, m := range b.made {
		errs = append(errs, m.close())
	}
	clear(b.made)
	return errors.Join(errs...)
}

// remoteWall says how the configured remote sandbox is, for the list of walls.
func (a *App) remoteWall(ctx context.Context) (httpapi.WallInfo, bool) {
	e := a.hosts.ExecEnv
	if e == nil || a.hosts.SandboxProvider != nil {
		return httpapi.WallInfo{}, false
	}
	w := httpapi.WallInfo{
		Wall:  sandbox.WallRemote,
		Worth: "A sandbox that is there already, shared by all who use it: what keeps it apart is whatever the other side has.",
	}
	h, err := a.remote.Allocate(ctx, "", sandbox.Spec{Wall: sandbox.WallRemote})
	switch {
	case errors.Is(err, sandbox.ErrUnauthorized):
		w.Detail, w.Fix = err.Error(), "set the variable "+e.Auth().Variable()+" where glovebox runs"
	case err != nil:
		w.Detail, w.Fix = err.Error(), "start it, or change exec_env.base_url"
	default:
		w.Available = true
		w.Detail = fmt.Sprintf("%s at %s, %s", map[bool]string{true: "an AIO server", false: "a guest"}[h.Wire == sandbox.WireAIO], h.BaseURL, h.ShortID)
	}
	return w, true
}

// isURL reports whether a word of the command line is the URL of a sandbox.
func isURL(s string) bool { return strings.Contains(s, "://") }

// attachURL opens a session in the sandbox at a URL and waits until it is bound.
func (c *cli) attachURL(ctx context.Context, url string) error {
	return c.with(ctx, PartAct, func(client *apiClient) error {
		req := httpapi.OpenRequest{Title: url, Spec: sandbox.Spec{Wall: sandbox.WallRemote, BaseURL: url}}
		var opened httpapi.Accepted
		if err := client.call(ctx, "POST", "/sessions", req, &opened); err != nil {
			return asUsage(err)
		}
		var outcome error
		err := client.follow(ctx, opened.SessionID, 0, func(f httpapi.Frame) error {
			if f.Type != "event" {
				return nil
			}
			p, err := task.Decode(*f.Event)
			if err != nil {
				return nil // a newer kind
			}
			switch p := p.(type) {
			case *task.TaskHostBound:
				_, outcome = fmt.Fprintf(c.out, "%s attached to %s (shared: a release leaves it as it is)\n", opened.SessionID, printable(p.SandboxID))
				return errDone
			case *task.TaskSuspended:
				outcome = errors.New(printable(p.Detail))
				return errDone
			}
			return nil
		})
		return errors.Join(err, outcome)
	})
}
