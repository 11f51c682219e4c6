package docker

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-connections/nat"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Server is the AIO Sandbox API that an image serves by its own command, as far
// as a Provider asks it.
type Server interface {
	// Ping asks whether it is there and takes the key. The error wraps
	// sandbox.ErrUnauthorized for a key that it does not take, execenv.ErrNotFound
	// where something else answers, and execenv.ErrUnreachable where nothing does.
	Ping(ctx context.Context) error
	// About says what it calls itself, where it works, and what does not hold in it.
	About(ctx context.Context) (hostname, workdir, caveat string, err error)
}

const (
	servedPort = 8080 // of the API, in every image that serves it
	serverTime = 90 * time.Second
	lookTime   = 20 * time.Second // for what an image serves, where that is to be found out

	// keyVariable is what the image reads its key from.
	keyVariable = sandbox.DefaultKeyEnv
	// labelWire tells containers, and images that say so themselves, whose own
	// command serves an API.
	labelWire = "glovebox.wire"
)

// served is what a box notes of a container whose image does the work itself.
type served struct {
	Workdir string `json:"workdir"`
	KeyEnv  string `json:"key_env"` // the variable on this machine that holds its key; "" for one of its own
	Relay   string `json:"relay"`   // of the guest beside it; "" for no way out by the host
}

// checkServed finds what a container that serves an API of its own cannot be given.
func checkServed(spec sandbox.Spec) error {
	if spec.User == "root" {
		return &sandbox.FieldError{Field: "user", Reason: "the image's own server decides whom commands run as; choose host or image"}
	}
	if v, ok := spec.Env[keyVariable]; ok {
		switch {
		case v.FromHost == "":
			return &sandbox.FieldError{Field: "env." + keyVariable, Reason: "a key is not written down; name the variable of this machine that holds it, in from_host, or leave it out for a key of the container's own"}
		case os.Getenv(v.FromHost) == "":
			return &sandbox.FieldError{Field: "env." + keyVariable, Reason: fmt.Sprintf("the variable %s is not set where glovebox runs", v.FromHost)}
		}
	}
	return nil
}

// planServed says how a container whose image serves the API is spoken to.
func planServed(pl plan, spec sandbox.Spec) *served {
	return &served{Workdir: pl.workdir, KeyEnv: spec.Env[keyVariable].FromHost, Relay: pl.relay}
}

// serves reports whether a container of ours serves an API by its own command.
func serves(c container.InspectResponse) bool { return c.Config.Labels[labelWire] == sandbox.WireAIO }

// imageServes reports whether an image says, or may be, one that serves the API.
func imageServes(img image.InspectResponse) (says, maybe bool) {
	if img.Config == nil || len(img.Config.Entrypoint)+len(img.Config.Cmd) == 0 {
		return false, false
	}
	_, exposed := img.Config.ExposedPorts[strconv.Itoa(servedPort)+"/tcp"]
	return img.Config.Labels[labelWire] == sandbox.WireAIO, exposed
}

// recognise finds out what an image of which that is not known serves: by its own
// command, in a container that has neither a network nor a file of this machine
// and is removed at once. It is done once for each image.
func (p *Provider) recognise(ctx context.Context, pl plan) (bool, error) {
	if known, ok := p.looked.Load(pl.imageID); ok {
		return known.(bool), nil
	}
	pl.serves = &served{Workdir: "/"}
	pl.placed, pl.network, pl.relay, pl.env = nil, "none", "", nil
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	h, b, err := p.makeServed(limited, pl, func(string) {}, true)
	if b.path != "" {
		p.detached(ctx, func(ctx context.Context) error { return p.removeMade(ctx, b) })
	}
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, sandbox.ErrUnreachable) && p.engineSilent(ctx):
		return false, err
	}
	p.looked.Store(pl.imageID, err == nil)
	p.log.InfoContext(ctx, "looked what the image serves", "image", pl.image, "container", h.ShortID, "aio", err == nil, "err", err)
	return err == nil, nil
}

func (p *Provider) engineSilent(ctx context.Context) bool {
	_, err := p.connect(ctx)
	return err != nil
}

// allocateServed makes a container that runs its image's own command, and returns
// when its server answers.
func (p *Provider) allocateServed(ctx context.Context, pl plan, done func(string)) (sandbox.Handle, error) {
	h, b, err := p.makeServed(ctx, pl, done, false)
	if err != nil && b.path != "" {
		p.detached(ctx, func(ctx context.Context) error { return p.removeMade(ctx, b) })
	}
	return h, err
}

func (p *Provider) makeServed(ctx context.Context, pl plan, done func(string), look bool) (h sandbox.Handle, b box, err error) {
	if p.opts.Server == nil {
		return h, b, fmt.Errorf("use the server of %s: %w", pl.image, sandbox.ErrUnsupported)
	}
	if b, err = p.box(newGuestID()); err != nil {
		return h, b, err
	}
	if err := b.makeNote(owner{Session: pl.root, Serves: pl.serves}); err != nil {
		return h, b, err
	}
	id, err := p.create(ctx, pl, "", b)
	if err != nil {
		return h, b, err
	}
	done("create")
	if err := p.start(ctx, id); err != nil {
		return h, b, err
	}
	done("start")
	if h, err = p.reachServed(ctx, id, b, look); err == nil {
		done("server ready")
	}
	return h, b, err
}

// servedConfig is a container that runs what its image says.
func (p *Provider) servedConfig(pl plan, b box) (*container.Config, error) {
	key := p.ownKey(b)
	if name := pl.serves.KeyEnv; name != "" {
		if key = os.Getenv(name); key == "" {
			return nil, checkServed(sandbox.Spec{Env: map[string]sandbox.EnvValue{keyVariable: {FromHost: name}}})
		}
	}
	env := []string{keyVariable + "=" + key, "WORKSPACE=" + pl.serves.Workdir}
	if pl.user == "host" {
		env = append(env, "USER_UID="+strconv.Itoa(pl.uid), "USER_GID="+strconv.Itoa(pl.gid))
	}
	if pl.serves.Relay != "" {
		env = append(env, wire.ProxyVariables("http://"+pl.serves.Relay)...)
	}
	stopTimeout := 5 // seconds, for a supervisor and what it keeps
	c := &container.Config{
		Image: pl.image, Env: append(env, pl.env...), StopTimeout: &stopTimeout,
		Labels: map[string]string{
			labelInstance: p.opts.Instance, labelSession: pl.root, labelSandbox: b.guestID,
			labelVersion: p.opts.Version, labelWire: sandbox.WireAIO,
		},
	}
	if p.publishes(pl) {
		c.ExposedPorts = nat.PortSet{servedNat: {}}
	}
	return c, nil
}

// publishes reports whether a container's server is reached by a port of this
// machine. Where it has no network, or the engine is not here, a guest beside it
// carries the connections.
func (p *Provider) publishes(pl plan) bool {
	return pl.network == "bridge" && !p.bindless() && !p.opts.ByExec
}

var servedNat = nat.Port(strconv.Itoa(servedPort) + "/tcp")

// servedHostConfig is the wall of a container that runs its image's own command.
// That begins as root and becomes an ordinary user, so it keeps what that takes,
// and nothing else of what an engine gives.
func (p *Provider) servedHostConfig(pl plan) *container.HostConfig {
	h := &container.HostConfig{
		NetworkMode:   pl.network,
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		CapDrop:       []string{"ALL"},
		CapAdd:        []string{"SETUID", "SETGID", "KILL", "SETPCAP", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "NET_BIND_SERVICE", "SYS_CHROOT"},
		SecurityOpt:   []string{"no-new-privileges"},
		ShmSize:       pl.limits.Shm,
		Resources:     engineLimits(pl.limits),
	}
	h.Mounts, h.Binds = split(pl.placed)
	if p.publishes(pl) {
		h.PortBindings = nat.PortMap{servedNat: {{HostIP: "127.0.0.1"}}} // a free one, another at each start
	}
	return h
}

// attachServed finds a container whose image does the work, and starts it where
// it does not run.
func (p *Provider) attachServed(ctx context.Context, c container.InspectResponse, b box) (sandbox.Handle, error) {
	if err := p.run(ctx, c); err != nil {
		return sandbox.Handle{}, err
	}
	return p.reachServed(ctx, c.ID, b, false)
}

// reachServed returns the handle of a running container when its server answers.
func (p *Provider) reachServed(ctx context.Context, id string, b box, look bool) (h sandbox.Handle, err error) {
	c, err := p.inspect(ctx, id)
	if err != nil {
		return h, err
	}
	note, ok := b.read()
	if !ok || note.Serves == nil {
		return h, fmt.Errorf("the container %s has lost the note of how it is spoken to (%s): %w", id[:12], b.path, sandbox.ErrForeign)
	}
	if h, err = p.handle(id, b, note.Serves.Workdir, nil); err != nil {
		return h, err
	}
	h.GuestID, h.Wire, h.Auth = "", sandbox.WireAIO, p.servedAuth(b, note)
	if len(c.HostConfig.PortBindings) > 0 {
		h.Server, h.ServerDial = "http://localhost:"+strconv.Itoa(servedPort), p.publishedDial(id)
	} else {
		if h.GuestID, h.Dial, err = p.guestBeside(ctx, c, b, &note); err != nil {
			if now, inspectErr := p.inspect(ctx, id); inspectErr == nil && now.State.Status == container.StateExited {
				return h, p.explainExit(ctx, id, int64(now.State.ExitCode)) // before a guest could enter
			}
			return h, err
		}
		h.Server, h.ServerDial = "http://localhost"+wire.ProxyPath(strconv.Itoa(servedPort)), p.dialBeside(id, b)
	}
	server, err := p.opts.Server(h)
	if err != nil {
		return h, err
	}
	h.Greet = server.Ping
	return h, p.awaitServer(ctx, c, server, look)
}

// awaitServer returns when an image's server answers, or at once when it cannot
// any more. With look it is enough that something else does.
func (p *Provider) awaitServer(ctx context.Context, c container.InspectResponse, server Server, look bool) error {
	limited, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	exited, waitErr := p.engine.ContainerWait(limited, c.ID, container.WaitConditionNotRunning)
	const longest = time.Second
	pause := 50 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last error
	for {
		select {
		case end := <-exited:
			return p.explainExit(ctx, c.ID, end.StatusCode)
		case <-waitErr:
			waitErr = nil // the engine went silent; the server may answer all the same
		case <-limited.Done():
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("wait for the server in %s: %w", c.ID[:12], err)
			}
			said, _ := p.logs(context.WithoutCancel(ctx), c.ID, 5, false)
			return fmt.Errorf("wait for the server in %s: %w (%v); its log ends with %q: %w", c.ID[:12], errGuestSilent, last, strings.TrimSpace(said), sandbox.ErrUnreachable)
		case <-timer.C:
			last = server.Ping(limited)
			switch {
			case last == nil:
				return nil
			case errors.Is(last, sandbox.ErrUnauthorized):
				return fmt.Errorf("the server in %s: %w: %w", c.ID[:12], sandbox.ErrUnreachable, last)
			case errors.Is(last, execenv.ErrNotFound), look && !errors.Is(last, execenv.ErrUnreachable):
				return fmt.Errorf("what listens on port %d in %s does not serve the AIO API (%v); leave the wire out: %w", servedPort, c.ID[:12], last, sandbox.ErrUnsupported)
			}
			pause = min(pause*3/2, longest)
			timer.Reset(pause)
		}
	}
}

// publishedDial connects to a container's server by the port that it has now: the
// engine chooses another at each start of the container or of itself, and what
// listens on the old one may be anybody's.
func (p *Provider) publishedDial(id string) sandbox.DialFunc {
	return func(ctx context.Context) (net.Conn, error) {
		c, err := p.inspect(ctx, id)
		if err != nil {
			return nil, err
		}
		port := publishedPort(c)
		if port == "" {
			return nil, fmt.Errorf("the container %s has no port while it does not run: %w", id[:12], sandbox.ErrStopped)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	}
}

func publishedPort(c container.InspectResponse) string {
	if c.NetworkSettings == nil {
		return ""
	}
	for _, binding := range c.NetworkSettings.Ports[servedNat] {
		if binding.HostIP == "127.0.0.1" {
			return binding.HostPort
		}
	}
	return ""
}

// guestBeside puts a guest beside an image's own server, or finds the one that is
// there, for the way in and out of a container without a network.
func (p *Provider) guestBeside(ctx context.Context, c container.InspectResponse, b box, note *owner) (string, sandbox.DialFunc, error) {
	if note.Adopted != nil {
		h, err := p.attachAdopted(ctx, c.ID, b, *note)
		return b.guestID, h.Dial, err
	}
	img, err := call(ctx, p, "inspect image", readTimeout, func(ctx context.Context) (image.InspectResponse, error) {
		return p.engine.ImageInspect(ctx, c.Image)
	})
	if err != nil {
		return "", nil, err
	}
	a := &adopted{Workdir: cmp.Or(c.Config.WorkingDir, "/"), Relay: note.Serves.Relay}
	if err := p.planUser(ctx, c, a); err != nil {
		return "", nil, err
	}
	note.Adopted = a
	if err := p.putAdopted(ctx, c, adoptPlan{adopted: *a, arch: img.Architecture}, b, note); err != nil {
		return "", nil, err
	}
	if err := p.serveAdopted(ctx, c, nil, b, note); err != nil {
		return "", nil, err
	}
	return b.guestID, p.adoptedHandle(c.ID, b, a).Dial, nil
}

// dialBeside opens connections to the guest beside an image's server, past its
// greeting. Where the guest lies is looked up each time: a start may have put it
// elsewhere.
func (p *Provider) dialBeside(id string, b box) sandbox.DialFunc {
	return func(ctx context.Context) (net.Conn, error) {
		note, ok := b.read()
		if !ok || note.Adopted == nil {
			return nil, fmt.Errorf("no guest is beside the server in %s: %w", id[:12], sandbox.ErrGone)
		}
		return p.guestClient(p.adoptedHandle(id, b, note.Adopted)).Connect(ctx)
	}
}

// ownKey is the key of one container that names no variable for it: derived, so
// that it is kept nowhere. It opens nothing but that container.
func (p *Provider) ownKey(b box) string {
	mac := hmac.New(sha256.New, p.opts.Secret)
	mac.Write([]byte("glovebox server\x00" + b.guestID))
	return hex.EncodeToString(mac.Sum(nil))
}

func (p *Provider) servedAuth(b box, note owner) sandbox.Auth {
	if note.Serves.KeyEnv != "" {
		return sandbox.StaticAPIKey{EnvName: note.Serves.KeyEnv}
	}
	return ownAuth{p, b}
}

// ownAuth sends the key that a container was given at its creation.
type ownAuth struct {
	p *Provider
	b box
}

func (a ownAuth) Headers(context.Context) (http.Header, error) {
	return http.Header{sandbox.DefaultKeyHeader: {a.p.ownKey(a.b)}}, nil
}

// describeServed says what holds in a container that runs its image's own server.
func (p *Provider) describeServed(ctx context.Context, d *sandbox.Description, c container.InspectResponse) {
	d.User = "the image's own"
	caveat := "The image's own server does the work: another take-up of the task is not fenced off, and what a timeout or a stop has killed is not proven."
	b, err := p.box(c.Config.Labels[labelSandbox])
	if err != nil {
		return
	}
	note, ok := b.read()
	if ok && c.State.Running && !c.State.Paused && p.opts.Server != nil {
		ctx, cancel := context.WithTimeout(ctx, helloTimeout)
		defer cancel()
		if said := p.caveat(ctx, c, b, note); said != "" {
			caveat = said
		}
	}
	d.Notes = append(d.Notes, caveat,
		"Its processes are the image's: they keep the capabilities that a start as root takes, and may be root's.",
		"Its key is in the container's own environment, and opens nothing but this container.")
	if ok && note.Serves != nil {
		if note.Serves.KeyEnv != "" {
			d.Notes[len(d.Notes)-1] = "Its key, from the variable " + note.Serves.KeyEnv + ", is in the container's own environment, where its commands can read it."
		}
		if note.Serves.Relay != "" {
			d.Network = string(sandbox.NetworkProxy)
		}
	}
	if len(c.HostConfig.PortBindings) > 0 {
		d.Notes = append(d.Notes, "Its server is reached by the port "+cmp.Or(publishedPort(c), "that it gets")+" of 127.0.0.1, which every user of this machine can connect to; the key keeps them out.")
	} else {
		d.Notes = append(d.Notes, "Its server is reached by a guest beside it; no port is published.")
	}
}

func (p *Provider) caveat(ctx context.Context, c container.InspectResponse, b box, note owner) string {
	if note.Serves == nil {
		return ""
	}
	h, err := p.handle(c.ID, b, note.Serves.Workdir, nil)
	if err != nil {
		return ""
	}
	h.Wire, h.Auth = sandbox.WireAIO, p.servedAuth(b, note)
	h.Server, h.ServerDial = "http://localhost:"+strconv.Itoa(servedPort), p.publishedDial(c.ID)
	if len(c.HostConfig.PortBindings) == 0 {
		h.Server, h.ServerDial = "http://localhost"+wire.ProxyPath(strconv.Itoa(servedPort)), p.dialBeside(c.ID, b)
	}
	server, err := p.opts.Server(h)
	if err != nil {
		return ""
	}
	_, _, caveat, _ := server.About(ctx) // a card does not wait for one that hangs
	return caveat
}

// engineMount is a mount in the engine's struct.
func engineMount(m sandbox.Mount) mount.Mount {
	kind := mount.TypeBind
	if m.Kind == sandbox.Volume {
		kind = mount.TypeVolume
	}
	return mount.Mount{Type: kind, Source: m.Source, Target: m.Target, ReadOnly: m.Mode == sandbox.ReadOnly}
}
