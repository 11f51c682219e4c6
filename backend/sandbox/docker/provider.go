package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/mountcheck"
)

// The labels of what a provider makes: they are how it knows its own.
const (
	labelInstance = "glovebox.instance"
	labelSession  = "glovebox.session"
	labelSandbox  = "glovebox.sandbox"
	labelVersion  = "glovebox.version"
)

// Options says what a Provider works on.
type Options struct {
	Host         string // the engine's address; "" finds it like the docker command does
	DataDir      string // holds the guests' binaries and each container's directory
	Instance     string // the id of the data directory; told apart from other instances by it
	Secret       []byte // what the keys that guests know us by are derived from
	Version      string // of this program, for the label
	DefaultImage string // of a Spec that names none
	ByExec       bool   // reach guests through the engine even where their sockets are on this machine

	// PathMap names directories of the engine's machine that this program sees by
	// another name: its name there, then ours. That the engine sees other files
	// than this program follows. Where this program runs in a container of the
	// engine, what that has mounted is found out without it.
	PathMap map[string]string

	// Server speaks to the AIO Sandbox API that an image serves by itself, by the
	// handle's Server; nil where no such images are used.
	Server func(h sandbox.Handle) (Server, error)

	Log *slog.Logger
}

var (
	_ sandbox.Provider  = (*Provider)(nil)
	_ sandbox.Progress  = (*Provider)(nil)
	_ sandbox.Lister    = (*Provider)(nil)
	_ sandbox.Inspector = (*Provider)(nil)
	_ sandbox.Starter   = (*Provider)(nil)
	_ sandbox.Stopper   = (*Provider)(nil)
	_ sandbox.Remover   = (*Provider)(nil)
	_ sandbox.Watcher   = (*Provider)(nil)
	_ sandbox.Describer = (*Provider)(nil)
	_ sandbox.Logger    = (*Provider)(nil)

	_ sandbox.Reacher     = (*Provider)(nil)
	_ sandbox.HostMounter = (*Provider)(nil)
	_ sandbox.Overseer    = (*Provider)(nil)
)

// Provider makes and finds containers on one engine. Its methods may be called
// from several goroutines at once.
type Provider struct {
	opts     Options
	endpoint endpoint
	engine   *client.Client
	log      *slog.Logger
	starting keyedLock // by container id

	listeners listeners // to changes of any container

	channels channels // to guests whose socket is not on this machine

	snapshots snapshots

	pulls pulls

	facts  atomic.Pointer[facts] // nil until the engine has answered, and after it fell silent
	probed atomic.Bool           // the engine has mounted a file of this machine
	looked sync.Map              // by image id, whether its own command serves the AIO API
	unseen atomic.Bool           // the engine sees other files than this program

	elsewhere atomic.Pointer[elsewhere] // what it sees of ours all the same; never nil
}

// facts are what the first answer of an engine says, and does not change while
// it runs.
type facts struct {
	system.Info
	remapped bool // uids inside are not those outside
	desktop  bool // a virtual machine that passes files on, and no unix sockets
	podman   bool // has no tmpfs of another user, and no mounts with a comma in their path
}

// New finds the engine's address. It does not talk to it: an engine may come
// up later. Where what is set names no engine, every call to one says so.
func New(opts Options) (*Provider, error) {
	e, err := findEndpoint(opts.Host, usualSockets())
	if err != nil {
		e = endpoint{why: e.why, fault: fmt.Errorf("find the docker engine: %w", err)}
	}
	if opts.DataDir, err = filepath.Abs(opts.DataDir); err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	if opts.Instance == "" {
		return nil, errors.New("docker provider without an instance id")
	}
	engine, err := e.client()
	if err != nil {
		return nil, fmt.Errorf("use the docker engine at %s (%s): %w", e.host, e.why, err)
	}
	log := opts.Log
	if log == nil {
		log = slog.Default()
	}
	p := &Provider{
		opts:     opts,
		endpoint: e,
		engine:   engine,
		log:      log.With("component", "docker"),
	}
	seen, err := opts.configured()
	if err != nil {
		return nil, err
	}
	p.elsewhere.Store(seen)
	p.unseen.Store(len(seen.paths) > 0)
	if err := p.clearHalfMade(); err != nil {
		return nil, err
	}
	return p, nil
}

// Close drops idle connections to the engine. Sandboxes stay as they are.
func (p *Provider) Close() error {
	p.dropChannels("", "")
	return p.engine.Close()
}

// Endpoint returns the engine's address and what made it this one.
func (p *Provider) Endpoint() (host, why string) { return p.endpoint.host, p.endpoint.why }

// Info is what an engine says of itself, for doctor.
type Info struct {
	Endpoint        string   `json:"endpoint"`
	Why             string   `json:"why"` // what made it this endpoint
	Version         string   `json:"version"`
	APIVersion      string   `json:"api_version"` // negotiated
	OS              string   `json:"os"`
	Arch            string   `json:"arch"`
	Kernel          string   `json:"kernel"`
	CPUs            int      `json:"cpus"`
	Rootless        bool     `json:"rootless"`
	Remapped        bool     `json:"remapped"`  // uids inside are not those outside
	Engine          string   `json:"engine"`    // "Docker" or "Podman"
	Channel         string   `json:"channel"`   // how guests are reached: "socket" or "exec"
	Mounts          bool     `json:"mounts"`    // directories of this machine can be mounted
	Container       string   `json:"container"` // the short id of the one that this program runs in, on this engine
	Shared          string   `json:"shared"`    // where Mounts is false: the directories that can be mounted all the same
	SecurityOptions []string `json:"security_options"`
	Warnings        []string `json:"warnings"`
}

// Ping asks the engine for a sign of life and what it is. An error wraps
// sandbox.ErrUnreachable when nothing answers; Endpoint and Why are set even then.
func (p *Provider) Ping(ctx context.Context) (Info, error) {
	info := Info{Endpoint: p.endpoint.host, Why: p.endpoint.why}
	f, err := p.connect(ctx)
	if err != nil {
		return info, err
	}
	info.Version, info.APIVersion = f.ServerVersion, p.engine.ClientVersion()
	info.OS, info.Arch, info.Kernel, info.CPUs = f.OSType, goArch(f.Architecture), f.KernelVersion, f.NCPU
	info.SecurityOptions, info.Warnings = f.SecurityOptions, f.Warnings
	info.Rootless, info.Remapped = hasOption(f.Info, "rootless"), f.remapped
	if info.Engine = "Docker"; f.podman {
		info.Engine = "Podman"
	}
	e := p.elsewhere.Load()
	info.Container, info.Shared = shortID(e.container), e.known()
	info.Channel, info.Mounts = "socket", !p.bindless()
	if p.byExec(f) {
		info.Channel = "exec"
	}
	return info, nil
}

// connect makes sure that the engine answers now, and that the API's version
// is negotiated before the first real request. Facts are asked for once.
func (p *Provider) connect(ctx context.Context) (*facts, error) {
	ping, err := call(ctx, p, "reach the engine", pingTimeout, p.engine.Ping)
	if err != nil {
		p.facts.Store(nil) // it may come back as another
		return nil, err
	}
	if err := p.negotiate(ping); err != nil {
		return nil, err
	}
	if known := p.facts.Load(); known != nil {
		return known, nil
	}
	info, err := call(ctx, p, "ask what the engine is", readTimeout, p.engine.Info)
	if err != nil {
		return nil, p.versionError(err)
	}
	if info.OSType != "linux" && info.OSType != "" {
		return nil, fmt.Errorf("the engine at %s runs %s containers: %w; switch it to Linux containers", p.endpoint.host, info.OSType, sandbox.ErrUnsupported)
	}
	version, err := call(ctx, p, "ask what the engine is", readTimeout, p.engine.ServerVersion)
	if err != nil && !answered(err) {
		return nil, err
	}
	known := &facts{Info: info,
		podman:   slices.ContainsFunc(version.Components, func(c types.ComponentVersion) bool { return c.Name == "Podman Engine" }),
		remapped: hasOption(info, "rootless") || hasOption(info, "userns"),
		desktop:  strings.Contains(info.OperatingSystem, "Docker Desktop")}
	if err := p.lookAround(ctx); err != nil {
		return nil, err
	}
	p.facts.Store(known)
	return known, nil
}

// bindless reports whether the engine has none of this program's files by the
// names that they have here: it is on another machine, or sees other files.
func (p *Provider) bindless() bool {
	return p.endpoint.remote() && !p.endpoint.loopback() || p.unseen.Load()
}

// byExec reports whether guests are reached through the engine, because their
// sockets are not on this machine.
func (p *Provider) byExec(f *facts) bool {
	return p.opts.ByExec || f.desktop || f.podman || p.bindless()
}

// MountsHost reports whether a sandbox can be given a directory of this machine
// that we make; see sandbox.HostMounter. A program in a container asks the engine,
// or the answer would be another one before the first sandbox than after it.
func (p *Provider) MountsHost() bool {
	if p.facts.Load() == nil && ownContainer() != "" {
		ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
		defer cancel()
		_, _ = p.connect(ctx) // an engine that is silent refuses the sandbox in time
	}
	if !p.bindless() {
		return true
	}
	_, ok := p.elsewhere.Load().there(filepath.Join(p.opts.DataDir, mountcheck.Workspaces))
	return ok
}

func hasOption(info system.Info, name string) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		return o == "name="+name || strings.HasPrefix(o, "name="+name+",")
	})
}

// goArch turns the kernel's name of an architecture into Go's.
func goArch(name string) string {
	switch name {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return name
}

// boxes is the directory that holds one directory per container.
func (p *Provider) boxes() string { return filepath.Join(p.opts.DataDir, "boxes") }

// guests is the directory that the guests' binaries are installed in.
func (p *Provider) guests() string { return filepath.Join(p.opts.DataDir, "guests") }

// ref is the durable address of a container.
func (p *Provider) ref(id string) (sandbox.Ref, error) {
	return sandbox.EncodeRef(p.endpoint.baseURL(), id)
}

// spot is what a Ref of this provider names: a container, and with a guest one
// that was there before that guest.
type spot struct{ id, guest string }

// spot returns what a Ref names that this provider could have made.
func (p *Provider) spot(ref sandbox.Ref) (spot, error) {
	base, id, err := sandbox.DecodeRef(ref)
	if err != nil {
		return spot{}, err
	}
	id, guest, adopted := strings.Cut(id, "+")
	if ref.Scheme() != "docker" || !isHex(id) || len(id) != 64 || adopted && (!isHex(guest) || len(guest) != guestIDLen) {
		return spot{}, fmt.Errorf("%w: %q is not the address of a container", sandbox.ErrRef, ref)
	}
	if base != p.endpoint.baseURL() {
		return spot{}, fmt.Errorf("the sandbox lives on the engine at %s, and this program uses %s (%s): %w", base, p.endpoint.host, p.endpoint.why, sandbox.ErrUnreachable)
	}
	return spot{id, guest}, nil
}

// Reaches implements sandbox.Reacher.
func (p *Provider) Reaches(ref sandbox.Ref) error {
	_, err := p.spot(ref)
	return err
}

func (s spot) String() string {
	if s.guest == "" {
		return s.id
	}
	return adoptedID(s.id, s.guest)
}

func isHex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdef") == ""
}
