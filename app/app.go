// Package app is the program: it builds every service by hand, in one place,
// and is the only package that knows them all. [App] is the running server;
// [Main] the command line over it.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/recording"
	"github.com/glovebox-dev/glovebox/backend/config"
	"github.com/glovebox-dev/glovebox/backend/egress"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/container"
	"github.com/glovebox-dev/glovebox/backend/execenv/local"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/docker"
	"github.com/glovebox-dev/glovebox/backend/sandbox/mountcheck"
	"github.com/glovebox-dev/glovebox/backend/sandbox/namespace"
	"github.com/glovebox-dev/glovebox/backend/sandbox/remote"
	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/tools"
	"github.com/glovebox-dev/glovebox/frontend"
)

// Options say which server to build.
type Options struct {
	DataDir string // absolute
	Addr    string // to listen on; loopback, unless Expose is set
	Expose  string // http://HOST:PORT that people reach the server by from elsewhere; "" for nobody
	Config  config.Config
	Window  httpapi.Window // that shows the server; nil for none
	Part    Part

	// Host is what a program that embeds the server says about where tools run. It
	// goes before what Config says of the same.
	Host session.HostConfig

	Log *slog.Logger
}

// Part is what a server does beside answering.
type Part int

// The parts.
const (
	// PartServe drives every session, and ends as on_quit says.
	PartServe Part = iota
	// PartAct is for one verb that acts: at its end turns and sandboxes are left as
	// a server that is killed would leave them.
	PartAct
	// PartLook is for one verb that only reads: no session is driven, no sandbox is
	// changed, and its address is nobody else's to use.
	PartLook
)

// App is one server over one data directory. It is made by New, lives in Run
// and is ended by the end of Run's context.
type App struct {
	o        Options
	log      *slog.Logger
	lock     *store.Lock
	store    *store.Store
	identity identity
	hub      *stream.Hub
	docker   *docker.Provider
	images   *images
	places   *containers
	bwrap    *namespace.Provider
	egress   *egress.Proxy
	hosts    session.HostConfig // Options.Host and the configuration
	aio      *aioServers
	remote   *remote.Provider
	binder   *placeBinder
	browsers *browsers
	lifetime *lifetime.Manager
	local    *localBinder
	host     *local.Env // what a sandbox is compared with
	recorded *recording.Library
	sessions *session.Service
	server   *httpapi.Server
	listener net.Listener
	walls    wallCache
	tools    *tools.Set
	started  time.Time
}

// New takes the data directory and builds a server that listens already and
// answers from Run on. While another process owns the directory the error is a
// *store.HeldError and nothing is touched. Nor is anything made where it cannot
// listen.
func New(ctx context.Context, o Options) (a *App, err error) {
	a = &App{o: o, log: o.Log, hub: &stream.Hub{}, tools: tools.Standard(), started: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if a.listener, err = listen(o.Addr, o.Expose); err != nil {
		if owner, held := store.Peek(o.DataDir); held { // who most likely has the address
			err = &store.HeldError{PID: owner.PID, URL: owner.URL, Dir: o.DataDir}
		}
		return a, err
	}
	if a.lock, err = store.Acquire(o.DataDir); err != nil {
		return a, err
	}
	if a.identity, err = loadIdentity(o.DataDir); err != nil {
		return a, err
	}
	if a.store, err = store.Open(ctx, o.DataDir, store.Options{Log: o.Log, Bell: a.hub.Ring}); err != nil {
		return a, err
	}
	if err = a.build(); err != nil {
		return a, err
	}
	if o.Part == PartLook {
		return a, nil
	}
	return a, a.lock.SetURL(a.URL())
}

// build makes the services, from the bottom of the layers to the top.
func (a *App) build() error {
	var err error
	a.docker, err = docker.New(docker.Options{
		Host: a.o.Config.Docker.Host, PathMap: a.o.Config.Docker.PathMap, DataDir: a.o.DataDir, Instance: a.identity.instance,
		Secret: a.identity.secret, Version: Version, Log: a.log,
		Server: func(h sandbox.Handle) (docker.Server, error) { return a.aio.of(h) },
	})
	if err != nil {
		return err
	}
	a.images = newImages(a.docker, a.defaultImage, a.hub.Ring, a.log)
	a.bwrap, err = namespace.New(namespace.Options{
		DataDir: a.o.DataDir, Instance: a.identity.instance, Secret: a.identity.secret, Version: Version, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.hosts, a.aio = hostConfig(a.o.Host, a.o.Config), &aioServers{log: a.log}
	a.remote = a.newRemote()
	providers := map[sandbox.Wall]sandbox.Provider{sandbox.WallDocker: a.docker, sandbox.WallNamespace: a.bwrap, sandbox.WallRemote: a.remote}
	if own := a.hosts.SandboxProvider; own != nil {
		providers[a.hosts.SandboxSpec.Wall] = own
	}
	a.egress = egress.New(egress.Options{
		Decided: func(root string, d egress.Decision) { a.sessions.EgressDecided(root, d) },
		Ended:   func(root string, d egress.Decision) { a.sessions.EgressEnded(root, d) },
		Own:     a.own, Dial: a.wayOut(),
	})
	a.lifetime = lifetime.New(lifetime.Options{
		Egress:    a.egress,
		Providers: providers,
		Ledger:    a.store,
		Secret:    a.identity.secret,
		IdleStop:  a.o.Config.IdleAfter(),
		Busy:      func(root string) bool { return a.sessions.Busy(root) },
		LookOnly:  a.o.Part == PartLook,
		Log:       a.log,
		Observe: func(root string, r sandbox.Record, c sandbox.Condition, detail string) {
			if a.o.Part == PartLook {
				return
			}
			if !c.Value.Owned() || c.Value == sandbox.StateLost {
				a.aio.forget(r.Ref)
				if err := errors.Join(a.binder.forget(root), a.browsers.kept.forget(root)); err != nil {
					a.log.Warn("close a sandbox's backend", "session", root, "err", err)
				}
			}
			a.sessions.Observe(root, r, c, detail)
		},
	})
	a.local = &localBinder{workspace: a.workspaceOf, log: a.log, envs: map[string]*local.Env{}}
	if a.host, err = local.New(local.Options{Workspace: a.o.DataDir, Log: a.log}); err != nil {
		return err
	}
	sandboxed := &placeBinder{
		lifetime: a.lifetime, servers: a.aio, host: a.hosts,
		guest: container.New(container.Options{Channels: a.lifetime, Preamble: a.hosts.SandboxExecPreamble}),
	}
	a.binder = sandboxed
	a.browsers = &browsers{lifetime: a.lifetime, servers: a.aio, host: a.hosts}
	router := execenv.NewRouter(map[string]execenv.Binder{
		string(sandbox.WallDocker):    sandboxed,
		string(sandbox.WallNamespace): sandboxed,
		string(sandbox.WallRemote):    sandboxed,
		string(sandbox.WallLocal):     a.local,
	})
	a.recorded = recording.New(recording.Options{
		Dir: filepath.Join(a.o.DataDir, "recordings"), On: a.o.Config.Browser.Records(), Limit: a.o.Config.Browser.Limit(), Log: a.log,
	})
	a.sessions = session.New(session.Options{
		Store: a.store, Lifetime: a.lifetime, Router: router, Hub: a.hub, Tools: a.tools,
		Model: a.openModel, Host: a.identity.instance, Workspace: a.newWorkspace, ReleaseLocal: a.local.release, HostRunner: a.host, Log: a.log,
		HostConfig: a.hosts, Browsers: a.browsers, Recordings: a.recorded, RemoveImage: a.docker.RemoveImage, LookOnly: a.o.Part == PartLook, LeaveTurns: a.keeps(),
		Default: session.Defaults{Wall: a.defaultWall, Image: a.defaultImage, Model: a.defaultModel(), Spec: a.configuredSpec(), Plugins: a.o.Config.Agent.Plugins},
	})
	a.places = newContainers(a.docker, a.sessions, a.identity.instance, a.hub.Ring, a.log)
	assets, built := frontend.Assets()
	a.server = httpapi.New(httpapi.Options{
		Sessions: a.sessions, Hub: a.hub, Token: httpapi.NewToken(a.identity.token), Hosts: a.exposed(),
		About: a.about, Doctor: a.doctor, Images: a.images, Containers: a.places,
		Home: home(), Workspace: func(dir string) error {
			return mountcheck.CheckWorkspace(dir, mountcheck.Private(a.o.DataDir))
		},
		Rotate: func() (string, error) { return renew(a.o.DataDir, tokenFile, tokenBytes) },
		Window: a.o.Window, Assets: assets, Built: built, Version: Version, Instance: a.identity.instance, Log: a.log,
	})
	return nil
}

// URL returns the address of the server on this machine, without its token.
func (a *App) URL() string {
	addr := a.listener.Addr().String()
	if tcp, ok := a.listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return "http://" + addr
}

// shown returns the address that people open.
func (a *App) shown() string { return cmp.Or(a.o.Expose, a.URL()) }

// wayOut is how what a sandbox sends leaves this machine: straight when nil, or
// by the proxy of the configuration.
func (a *App) wayOut() func(ctx context.Context, network, address string) (net.Conn, error) {
	proxy, ok := strings.CutPrefix(a.o.Config.Egress.Upstream, "http://")
	if !ok {
		return nil
	}
	return egress.Upstream(strings.TrimSuffix(proxy, "/"), nil)
}

// exposed are the Host values that are ours beside loopback's.
func (a *App) exposed() []string {
	if host, ok := strings.CutPrefix(a.o.Expose, "http://"); ok {
		return []string{host}
	}
	return nil
}

// own is what no sandbox may reach, whatever it is allowed.
func (a *App) own() []netip.AddrPort {
	if a.listener == nil {
		return nil
	}
	if tcp, ok := a.listener.Addr().(*net.TCPAddr); ok {
		return []netip.AddrPort{tcp.AddrPort()}
	}
	return nil
}

// Run serves until ctx ends. Then sandboxes are kept, stopped or released as the
// configuration says, and everything is closed. In sandboxes that are kept,
// running turns are left for the next start to take up; else they are stopped and
// recorded. It is called once.
func (a *App) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // of what the sessions stand on
	defer end()
	var below sync.WaitGroup
	failed := make(chan error, 2) // one per sender
	below.Go(func() { failed <- a.lifetime.Run(life) })
	below.Go(func() { a.places.run(life) })
	if a.o.Part != PartLook {
		half := a.halfCopied() // before the sessions begin with others
		below.Go(func() { a.removeHalfCopied(half) })
	}
	below.Go(func() { failed <- a.server.Serve(life, a.listener) })

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1) // its one sender never blocks
	go func() { done <- a.sessions.Run(ctx) }()
	var errs []error
	select {
	case err := <-failed: // a service cannot go on; the rest ends in good order
		errs = append(errs, err)
		stop()
		errs = append(errs, <-done)
	case err := <-done:
		errs = append(errs, err)
	}
	a.quit(life)
	end()
	below.Wait()
	return errors.Join(append(errs, a.close())...)
}

// quitTime bounds what on_quit may take.
const quitTime = 10 * time.Second

// keeps reports whether sandboxes, and what runs in them, outlive the server.
func (a *App) keeps() bool {
	return a.o.Part != PartServe || a.o.Config.OnQuit == "" || a.o.Config.OnQuit == "keep"
}

// quit does with the sandboxes what the configuration says.
func (a *App) quit(ctx context.Context) {
	policy := a.o.Config.OnQuit
	if a.keeps() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, quitTime)
	defer cancel()
	views, err := a.sessions.Views(ctx)
	if err != nil {
		a.log.Warn("sandboxes left as they are", "err", err)
		return
	}
	var each sync.WaitGroup
	for _, v := range views {
		if v.Condition == nil || !v.Condition.Value.Owned() {
			continue
		}
		if policy == "stop" && v.Created.Spec.Adopt != "" {
			continue // the container is somebody else's
		}
		each.Go(func() {
			how := lifetime.StopOnly
			if policy == "release" {
				how = lifetime.Remove
			}
			if err := a.lifetime.Release(ctx, v.ID, how); err != nil {
				a.log.Warn("sandbox left as it is", "session", v.ID, "err", err)
			}
		})
	}
	each.Wait()
}

// close releases what New took, as far as it came.
func (a *App) close() error {
	var errs []error
	if a.listener != nil {
		if err := a.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if a.local != nil {
		errs = append(errs, a.local.close())
	}
	if a.host != nil {
		errs = append(errs, a.host.Close())
	}
	if a.lifetime != nil {
		errs = append(errs, a.lifetime.Close())
	}
	if a.sessions != nil {
		a.sessions.FlushEgress()
	}
	if a.recorded != nil {
		errs = append(errs, a.recorded.Close())
	}
	if a.binder != nil {
		errs = append(errs, a.binder.close())
	}
	if a.browsers != nil {
		errs = append(errs, a.browsers.kept.close())
	}
	if a.aio != nil {
		errs = append(errs, a.aio.close())
	}
	if a.images != nil {
		errs = append(errs, a.images.close())
	}
	if a.docker != nil {
		errs = append(errs, a.docker.Close())
	}
	if a.bwrap != nil {
		errs = append(errs, a.bwrap.Close())
	}
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	if a.lock != nil {
		errs = append(errs, a.lock.Release())
	}
	return errors.Join(errs...)
}

// listen opens a listener on a loopback address: the API is not meant for others.
// On another one it listens where expose says by which address people come, as
// where the server runs in a container: whoever reaches that needs the token, and
// has to ask for this very address.
func listen(addr, expose string) (net.Listener, error) {
	if expose != "" {
		if u, err := url.Parse(expose); err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Host+u.Path != strings.TrimPrefix(expose, "http://") || u.Path != "" || u.User != nil {
			return nil, &sandbox.FieldError{Field: "expose", Reason: fmt.Sprintf("%q is not http://HOST:PORT", expose)}
		}
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &sandbox.FieldError{Field: "addr", Reason: fmt.Sprintf("%q is not HOST:PORT", addr)}
	}
	if ip := net.ParseIP(host); expose == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, &sandbox.FieldError{Field: "addr", Reason: fmt.Sprintf("%q is not a loopback address; choose 127.0.0.1, or say with --expose by which address people come", host)}
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program listens on %s; choose another --addr, or port 0 for a free one", addr)
	}
	if op := new(net.OpError); errors.As(err, &op) {
		err = op.Err // which says neither "listen" nor the address once more
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another --addr, or port 0 for a free one", addr, err)
	}
	return l, nil
}

// newWorkspace makes the empty workspace of a session that names none.
func (a *App) newWorkspace(sessionID string) (string, error) {
	dir := filepath.Join(a.o.DataDir, mountcheck.Workspaces, sessionID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, nil
}

// halfCopied are the workspaces that a process was copying for a fork when it died.
func (a *App) halfCopied() []string {
	half, err := filepath.Glob(filepath.Join(a.o.DataDir, mountcheck.Workspaces, "*"+session.Copying))
	if err != nil {
		a.log.Warn("half-copied workspaces not looked for", "err", err)
	}
	return half
}

func (a *App) removeHalfCopied(half []string) {
	for _, dir := range half {
		err := errors.Join(os.RemoveAll(dir), os.RemoveAll(strings.TrimSuffix(dir, session.Copying)))
		if err != nil {
			a.log.Warn("half-copied workspace not removed", "err", err)
		}
	}
}

func (a *App) workspaceOf(ctx context.Context, rootTaskID string) (string, error) {
	v, err := a.sessions.View(ctx, rootTaskID)
	return v.Created.Workspace, err
}

// localBinder opens the Env of a session that was bound, by name, to the host
// itself. One Env per session keeps its calls' outcomes.
type localBinder struct {
	workspace func(ctx context.Context, rootTaskID string) (string, error)
	log       *slog.Logger

	mu   sync.Mutex
	envs map[string]*local.Env
}

// Bind implements execenv.Binder.
func (b *localBinder) Bind(ctx context.Context, rootTaskID string, _ execenv.Caller) (execenv.Env, error) {
	dir, err := b.workspace(ctx, rootTaskID)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if env, ok := b.envs[rootTaskID]; ok {
		return env, nil
	}
	env, err := local.New(local.Options{Workspace: dir, Log: b.log})
	if err != nil {
		return nil, err
	}
	b.envs[rootTaskID] = env
	return env, nil
}

// release ends what the commands of a session have left running. Its next call
// opens a new Env. Where there is none it does nothing.
func (b *localBinder) release(rootTaskID string) error {
	b.mu.Lock()
	env, ok := b.envs[rootTaskID]
	delete(b.envs, rootTaskID)
	b.mu.Unlock()
	if !ok {
		return nil
	}
	return env.Close()
}

// close ends what commands on the host have left running.
func (b *localBinder) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, env := range b.envs {
		errs = append(errs, env.Close())
	}
	clear(b.envs)
	return errors.Join(errs...)
}
