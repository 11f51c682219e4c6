// Package remote is the provider of sandboxes that are there already: a guest
// that listens by itself, or a server of the AIO Sandbox API, by URL. It makes
// nothing and removes nothing. What it hands out is shared by all who know the
// URL, and [Provider.Release] leaves the other side as it is.
//
//	p := remote.New(remote.Options{Server: func(url string, auth sandbox.Auth) (remote.Server, error) { … }})
//	h, err := p.Allocate(ctx, task, sandbox.Spec{Wall: sandbox.WallRemote, BaseURL: "http://127.0.0.1:8080"})
//
// Which of the two answers at a URL is found out by asking: a guest speaks
// first. A guest is given a proof of the key, never the key itself, so that it
// can be reached without TLS; an AIO server is sent the key, as its API wants it.
// Neither keeps what is said from who listens in between: use https, or a tunnel,
// beyond this machine.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Server is a server of the AIO Sandbox API, as far as a provider asks it.
type Server interface {
	// Ping asks whether it is there and takes the key. The error wraps
	// sandbox.ErrUnauthorized for a key that it does not take.
	Ping(ctx context.Context) error
	// About says what it calls itself, where it works, and what does not hold in it.
	About(ctx context.Context) (hostname, workdir, caveat string, err error)
}

// Options are what a Provider is made of.
type Options struct {
	// Config names the one that a session takes which names no URL; its key goes
	// to no other.
	Config sandbox.RemoteConfig
	// Server speaks to an AIO server; nil where there are none.
	Server func(baseURL string, auth sandbox.Auth) (Server, error)
}

// Provider attaches to remote sandboxes.
type Provider struct {
	o Options

	mu    sync.Mutex
	kinds map[string]kind // by base URL, what answered there last
}

var (
	_ sandbox.Provider  = (*Provider)(nil)
	_ sandbox.Borrower  = (*Provider)(nil)
	_ sandbox.Checker   = (*Provider)(nil)
	_ sandbox.Inspector = (*Provider)(nil)
	_ sandbox.Describer = (*Provider)(nil)
)

// New returns a Provider. It connects to nothing.
func New(o Options) *Provider {
	return &Provider{o: o, kinds: map[string]kind{}}
}

// Borrows marks what the provider hands out as shared.
func (p *Provider) Borrows() {}

// checkURL says what is wrong with the URL of a remote sandbox, as an error that
// wraps sandbox.ErrSpec.
func checkURL(base string) error {
	bad := func(reason string) error { return &sandbox.FieldError{Field: "base_url", Reason: reason} }
	if base == "" {
		return bad("is empty; give the URL of a guest or of an AIO server, as http://HOST:PORT")
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return bad("is no URL; give it as http://HOST:PORT")
	case u.User != nil:
		return bad("carries a credential; put the key into a variable and name that in exec_env.api_key_env")
	case u.Scheme != "http" && u.Scheme != "https":
		return bad(fmt.Sprintf("has the scheme %q; choose http or https", u.Scheme))
	case u.Hostname() == "":
		return bad("names no host")
	case u.RawQuery != "" || u.Fragment != "":
		return bad("has a query or a fragment, which may hold a key; leave it out")
	}
	if _, err := sandbox.EncodeRef(base, ""); err != nil {
		return bad(err.Error())
	}
	return nil
}

// target returns the URL that a spec means.
func (p *Provider) target(spec sandbox.Spec) (string, error) {
	base := strings.TrimRight(spec.BaseURL, "/")
	if base == "" {
		base = strings.TrimRight(p.o.Config.BaseURL, "/")
	}
	return base, checkURL(base)
}

// Check finds what a sandbox that is there already cannot be given.
func (p *Provider) Check(_ context.Context, spec sandbox.Spec) error {
	_, err := p.target(spec)
	refuse := func(field string) error {
		return &sandbox.FieldError{Field: field, Reason: "a remote sandbox is there already and is taken as it is; leave it out"}
	}
	switch {
	case err != nil:
		return err
	case spec.Image != "":
		return refuse("image")
	case spec.User != "":
		return refuse("user")
	case len(spec.Mounts) > 0:
		return refuse("mounts")
	case len(spec.Resources) > 0:
		return refuse("resources")
	case spec.Network.Mode == sandbox.NetworkNone || spec.Network.Mode == sandbox.NetworkProxy:
		return refuse("network.mode")
	}
	return nil
}

// Allocate binds to the sandbox at the spec's URL, or at the configured one.
// The host's workspace is not in it.
func (p *Provider) Allocate(ctx context.Context, _ string, spec sandbox.Spec) (sandbox.Handle, error) {
	if err := p.Check(ctx, spec); err != nil {
		return sandbox.Handle{}, err
	}
	base, err := p.target(spec)
	if err != nil {
		return sandbox.Handle{}, err
	}
	h, err := p.reach(ctx, base)
	if err == nil && spec.Workdir != "" {
		h.Workdir = spec.Workdir
	}
	return h, err
}

// Attach reconnects to the sandbox that a ref names. Another guest at its place
// is sandbox.ErrForeign.
func (p *Provider) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Handle, error) {
	base, id, err := split(ref)
	if err != nil {
		return sandbox.Handle{}, err
	}
	h, err := p.reach(ctx, base)
	if err != nil {
		return sandbox.Handle{}, err
	}
	if id != h.SandboxID {
		return sandbox.Handle{}, fmt.Errorf("attach %s: what answers there now is %q: %w", ref, h.SandboxID, sandbox.ErrGone)
	}
	return h, nil
}

func split(ref sandbox.Ref) (base, id string, err error) {
	if base, id, err = sandbox.DecodeRef(ref); err != nil {
		return "", "", err
	}
	if err := checkURL(base); err != nil {
		return "", "", fmt.Errorf("%w: %v", sandbox.ErrRef, err)
	}
	return base, id, nil
}

// Release changes nothing: the other side is somebody else's.
func (p *Provider) Release(context.Context, string) error { return nil }

// Inspect asks the other side how it is.
func (p *Provider) Inspect(ctx context.Context, ref sandbox.Ref) (sandbox.Condition, error) {
	if _, err := p.Attach(ctx, ref); err != nil {
		return sandbox.Condition{}, err
	}
	return sandbox.Condition{Value: sandbox.StateReady, ObservedAt: time.Now(), Source: "server"}, nil
}

// Describe says what a remote sandbox is, as far as it says so itself.
func (p *Provider) Describe(ctx context.Context, ref sandbox.Ref) (sandbox.Description, error) {
	base, _, err := split(ref)
	if err != nil {
		return sandbox.Description{}, err
	}
	h, err := p.Attach(ctx, ref)
	if err != nil {
		return sandbox.Description{}, err
	}
	d := sandbox.Description{
		ID: h.SandboxID, ShortID: h.ShortID, Name: base, Network: "its own", User: "its own",
		Mounts: []sandbox.Mount{}, Limits: map[string]string{}, NotEnforced: []string{}, Commands: []sandbox.HandCommand{},
		Notes: []string{
			"Shared: it was there before, all who know its address work in it at the same time, and a release leaves it as it is.",
			"What keeps it apart is whatever the other side has; the workspace on this machine is not in it.",
		},
	}
	if h.Caveat != "" {
		d.Notes = append(d.Notes, h.Caveat)
	}
	if strings.HasPrefix(base, "http://") && !nearby(base) {
		d.Notes = append(d.Notes, "The connection is not encrypted: what is said to it can be read on the way.")
	}
	return d, nil
}

// auth returns how the sandbox at a URL is given its key. The configured key is
// for the configured URL alone.
func (p *Provider) auth(base string) sandbox.StaticAPIKey {
	own := p.o.Config.Auth()
	if p.o.Config.BaseURL == "" || strings.TrimRight(p.o.Config.BaseURL, "/") == base {
		return own
	}
	if own.Variable() == sandbox.DefaultKeyEnv {
		return sandbox.StaticAPIKey{EnvName: "GLOVEBOX_REMOTE_KEY"}
	}
	return sandbox.StaticAPIKey{}
}

// reach finds out what is at a URL and returns its handle.
func (p *Provider) reach(ctx context.Context, base string) (sandbox.Handle, error) {
	fail := func(err error) (sandbox.Handle, error) {
		p.forget(base)
		if errors.Is(ctx.Err(), context.Canceled) {
			return sandbox.Handle{}, context.Cause(ctx)
		}
		return sandbox.Handle{}, fmt.Errorf("reach %s: %w: %w", base, sandbox.ErrUnreachable, err)
	}
	k, err := p.kind(ctx, base)
	if err != nil {
		return fail(err)
	}
	auth := p.auth(base)
	h := sandbox.Handle{BaseURL: base, Auth: auth, Workdir: p.workdir(base)}
	if k == kindGuest {
		g := &dialer{base: base, auth: auth}
		hello, err := g.hello(ctx)
		if err != nil {
			return fail(err)
		}
		h.SandboxID, h.GuestID, h.ShortID, h.Dial = hello.GuestID, hello.GuestID, hello.Hostname, g.dial
		if h.Workdir == "" {
			h.Workdir = hello.Workdir
		}
		return h, nil
	}
	if p.o.Server == nil {
		return sandbox.Handle{}, fmt.Errorf("reach %s: an AIO server: %w", base, sandbox.ErrUnsupported)
	}
	server, err := p.o.Server(base, auth)
	if err != nil {
		return sandbox.Handle{}, err
	}
	if err := server.Ping(ctx); err != nil {
		return fail(err)
	}
	hostname, workdir, caveat, err := server.About(ctx)
	if err != nil {
		return fail(err)
	}
	h.Wire, h.ShortID, h.Greet, h.Caveat = sandbox.WireAIO, hostname, server.Ping, caveat
	if h.Workdir == "" {
		h.Workdir = workdir
	}
	return h, nil
}

func (p *Provider) workdir(base string) string {
	if strings.TrimRight(p.o.Config.BaseURL, "/") == base {
		return p.o.Config.Workdir
	}
	return ""
}

func (p *Provider) forget(base string) {
	p.mu.Lock()
	delete(p.kinds, base)
	p.mu.Unlock()
}

// hello asks the guest what it is.
func (d *dialer) hello(ctx context.Context) (wire.Hello, error) {
	conn, err := d.greet(ctx)
	if err != nil {
		return wire.Hello{}, err
	}
	id := conn.greeting.GuestID
	conn.Close()
	c := client.New(client.Options{Dial: d.dial, GuestID: id})
	defer c.Close()
	return c.Hello(ctx)
}
