package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/guest/embedded"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

var _ sandbox.Adopter = (*Provider)(nil)

// adopted is what a box notes of a guest in a container that was there before.
type adopted struct {
	Dir      string `json:"dir"`       // of the guest, inside
	GuestUID int    `json:"guest_uid"` // that the guest becomes, 0 when it stays what it was started as
	Own      string `json:"own"`       // UID:GID of the guest's own files
	User     string `json:"user"`      // whom commands run as, as the guest was told
	Workdir  string `json:"workdir"`
	Exec     string `json:"exec"`      // of "guest serve"
	FirstTag int    `json:"first_tag"` // of the groups that mark its calls
	LastTag  int    `json:"last_tag"`
	Relay    string `json:"relay,omitempty"` // where it listens for what goes out by the host

	// Left says that the guest is to be taken out and could not be: the container
	// is stopped or paused. It is done when that runs.
	Left bool `json:"left"`
}

func (a *adopted) guest() string  { return a.Dir + "/guest" }
func (a *adopted) box() string    { return a.Dir + "/box" }
func (a *adopted) log() string    { return a.Dir + "/guest.log" }
func (a *adopted) socket() string { return a.box() + "/" + socketName }

// adoptedID is the sandbox id of a guest in a container that others may have a
// guest in as well.
func adoptedID(container, guest string) string { return container + "+" + guest }

// Resolve finds a running or stopped container by its name or the beginning of
// its id; see sandbox.Adopter.
func (p *Provider) Resolve(ctx context.Context, name string) (sandbox.Place, error) {
	if _, err := p.connect(ctx); err != nil {
		return sandbox.Place{}, err
	}
	c, err := p.inspectAny(ctx, name)
	if err != nil {
		return sandbox.Place{}, err
	}
	if err := p.notAnothers(c); err != nil {
		return sandbox.Place{}, err
	}
	return sandbox.Place{
		ID: c.ID, Name: strings.TrimPrefix(c.Name, "/"), Image: c.Config.Image, Workdir: cmp.Or(c.Config.WorkingDir, "/"),
		Instance: c.Config.Labels[labelInstance], RootTaskID: c.Config.Labels[labelSession], Network: networkOf(c),
	}, nil
}

// notAnothers refuses the containers of another instance: two on one engine do not
// touch each other's. Those of strangers are the person's.
func (p *Provider) notAnothers(c container.InspectResponse) error {
	if made := c.Config.Labels[labelInstance]; made != "" && made != p.opts.Instance {
		return fmt.Errorf("the container %s belongs to another glovebox on this engine; use that one: %w", strings.TrimPrefix(c.Name, "/"), sandbox.ErrForeign)
	}
	return nil
}

// inspectAny reads a container, whoever made it.
func (p *Provider) inspectAny(ctx context.Context, name string) (container.InspectResponse, error) {
	c, err := call(ctx, p, "inspect the container", readTimeout, func(ctx context.Context) (container.InspectResponse, error) {
		return p.engine.ContainerInspect(ctx, name)
	})
	switch {
	case cerrdefs.IsNotFound(err):
		return c, fmt.Errorf("the engine at %s has no container %s: %w", p.endpoint.host, name, sandbox.ErrGone)
	case err != nil:
		return c, err
	case c.ContainerJSONBase == nil || c.State == nil || c.Config == nil || c.HostConfig == nil:
		return c, fmt.Errorf("inspect the container %s: the engine's answer lacks parts", name)
	}
	return c, nil
}

// Adopt puts a guest into a running container; see sandbox.Adopter.
func (p *Provider) Adopt(ctx context.Context, rootTaskID string, spec sandbox.Spec, report func(sandbox.Step)) (h sandbox.Handle, err error) {
	done := func(name string) {
		if report != nil {
			report(sandbox.Step{Name: name, At: time.Now()})
		}
	}
	c, plan, err := p.planAdopt(ctx, spec)
	if err != nil {
		return h, err
	}
	b, err := p.box(newGuestID())
	if err != nil {
		return h, err
	}
	note := owner{Session: rootTaskID, Container: c.ID, Adopted: &plan.adopted}
	if err := b.makeNote(note); err != nil {
		return h, err
	}
	defer func() {
		if err != nil {
			p.detached(ctx, func(ctx context.Context) error { return p.takeOut(ctx, b, note) })
		}
	}()
	if err := p.putAdopted(ctx, c, plan, b, &note); err != nil {
		return h, err
	}
	done("copy")
	if err := p.serveAdopted(ctx, c, plan.env, b, &note); err != nil {
		return h, err
	}
	done("guest ready")
	return p.adoptedHandle(c.ID, b, note.Adopted), nil
}

// adoptPlan is how a guest will live in a container.
type adoptPlan struct {
	adopted
	arch string
	env  []string
}

// planAdopt checks whether a guest can live in the container of spec.Adopt, and
// how. It makes nothing.
func (p *Provider) planAdopt(ctx context.Context, spec sandbox.Spec) (c container.InspectResponse, plan adoptPlan, err error) {
	if _, err := p.connect(ctx); err != nil {
		return c, plan, err
	}
	if c, err = p.inspectAny(ctx, spec.Adopt); err != nil {
		return c, plan, err
	}
	if err := p.notAnothers(c); err != nil {
		return c, plan, err
	}
	if spec.Workspace != "" || len(spec.Mounts) > 0 || len(spec.Resources) > 0 {
		return c, plan, &sandbox.FieldError{Field: "adopt", Reason: "a container that is there already takes no workspace, mounts or limits; leave them out"}
	}
	if err := canExec(c); err != nil {
		return c, plan, err
	}
	if plan.arch, err = p.archOf(ctx, c); err != nil {
		return c, plan, err
	}
	if err := embedded.Built(plan.arch); err != nil {
		return c, plan, fmt.Errorf("the container %s is made for linux/%s, and there is no guest for that: %w: %v", c.ID[:12], plan.arch, sandbox.ErrUnsupported, err)
	}
	for name, v := range spec.Env {
		if v.FromHost == "" {
			plan.env = append(plan.env, name+"="+v.Literal)
		}
	}
	slices.Sort(plan.env)
	plan.Workdir = path.Clean(cmp.Or(spec.Workdir, c.Config.WorkingDir, "/"))
	return c, plan, p.planUser(ctx, c, &plan.adopted)
}

// notRunning says why nothing can be run in a container. It is a
// sandbox.ErrStopped, whose own words would speak of another state.
type notRunning string

func (e notRunning) Error() string { return string(e) }
func (e notRunning) Unwrap() error { return sandbox.ErrStopped }

// canExec says why nothing can be run in a container.
func canExec(c container.InspectResponse) error {
	id := c.ID[:12]
	switch {
	case c.State.Paused:
		return notRunning(fmt.Sprintf("the container %s is paused, and nothing can be run in it; unpause it first (docker unpause %[1]s)", id))
	case c.State.Restarting:
		return notRunning(fmt.Sprintf("the container %s is restarting; see why (docker logs %[1]s)", id))
	case !c.State.Running:
		return notRunning(fmt.Sprintf("the container %s is not running; start it first (docker start %[1]s)", id))
	}
	return nil
}

// planUser decides whom commands run as: the container's own user, as "docker
// exec" does, or in a container of ours the owner of its workspace.
func (p *Provider) planUser(ctx context.Context, c container.InspectResponse, a *adopted) error {
	own := ids{}
	if config, ok := guestConfig(c); ok && c.Config.Labels[labelSandbox] != "" {
		a.User, a.Workdir = config.User, config.Workdir
	} else {
		user, group, hasGroup := strings.Cut(c.Config.User, ":")
		if user != "" {
			passwd, err := p.readFile(ctx, c.ID, "/etc/passwd")
			if err != nil {
				return err
			}
			groups, err := p.readFile(ctx, c.ID, "/etc/group")
			if err != nil {
				return err
			}
			if own, err = lookUp(user, group, hasGroup, passwd, groups); err != nil {
				return fmt.Errorf("find the user %q of the container %s: %w", c.Config.User, c.ID[:12], err)
			}
		}
		a.User = fmt.Sprintf("%d:%d", own.uid, own.gid)
		if own.uid == 0 {
			a.User = "root"
		}
	}
	if len(missingRights(c.HostConfig)) > 0 {
		// Nobody can change users there: the guest is what its commands are.
		a.Own = fmt.Sprintf("%d:%d", own.uid, own.gid)
		return nil
	}
	a.GuestUID = plan{uid: own.uid}.guestUID()
	a.Own = fmt.Sprintf("%d:%[1]d", a.GuestUID)
	return nil
}

// missingRights are the capabilities that a guest needs to mark what it starts
// and to change users, and that uid 0 does not have in a container.
func missingRights(h *container.HostConfig) (missing []string) {
	if h.Privileged {
		return nil
	}
	has := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(s string) bool {
			s = strings.TrimPrefix(strings.ToUpper(s), "CAP_")
			return s == name || s == "ALL"
		})
	}
	for _, name := range []string{"SETUID", "SETGID", "KILL", "SETPCAP"} {
		if has(h.CapDrop, name) && !has(h.CapAdd, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// startedAs is the user that "guest serve" is started as.
func (a *adopted) startedAs() string {
	if a.GuestUID != 0 {
		return "0:0"
	}
	return a.Own
}

// putAdopted copies the guest into a container: into its root, or, where that
// cannot be written, into a place that is mounted into it. The note follows.
func (p *Provider) putAdopted(ctx context.Context, c container.InspectResponse, plan adoptPlan, b box, note *owner) error {
	name := ".glovebox-" + b.guestID[:12]
	try := func(parent string, put func(ctx context.Context, a *adopted) error) error {
		note.Adopted.Dir = path.Join(parent, name)
		if err := b.note(*note); err != nil { // before the effect
			return err
		}
		return put(ctx, note.Adopted)
	}
	tree := func(ctx context.Context, a *adopted) error { return p.putAdoptedTree(ctx, c.ID, plan.arch, a) }
	err := try("/", tree)
	if err == nil || !c.HostConfig.ReadonlyRootfs {
		return err
	}
	var tried []string
	for _, target := range writable(c) {
		put := tree
		if target.tmpfs {
			put = func(ctx context.Context, a *adopted) error { return p.pipeAdopted(ctx, c.ID, plan.arch, a) }
		}
		err := try(target.path, put)
		if err == nil {
			if err = p.probeAdopted(ctx, c.ID, note.Adopted); err == nil {
				return nil
			}
			p.detached(ctx, func(ctx context.Context) error { return p.wipe(ctx, c.ID, note.Adopted) })
		}
		if !answered(err) {
			return err
		}
		tried = append(tried, fmt.Sprintf("%s: %v", target.path, err))
	}
	note.Adopted.Dir = ""
	reason := "nothing writable is mounted in it"
	if len(tried) > 0 {
		reason = strings.Join(tried, "; ")
	}
	return fmt.Errorf("the container %s has a read-only root, and the guest finds no place to run from (%s); give it one: --tmpfs /run/glovebox:exec, or a volume: %w", c.ID[:12], reason, sandbox.ErrUnsupported)
}

// putAdoptedTree copies the guest by the engine's archive call, which asks for
// nothing inside.
func (p *Provider) putAdoptedTree(ctx context.Context, id, arch string, a *adopted) error {
	body, err := embedded.Binary(arch)
	if err != nil {
		return err
	}
	own := a.ids(a.Own)
	started := a.ids(a.startedAs())
	in := func(name string) string { return strings.TrimPrefix(path.Base(a.Dir)+"/"+name, "/") }
	return p.putTree(ctx, id, path.Dir(a.Dir), func(t *treeWriter) {
		t.entry(&tar.Header{Typeflag: tar.TypeDir, Name: in(""), Mode: 0o755}, nil)
		t.entry(&tar.Header{Typeflag: tar.TypeReg, Name: in("guest"), Mode: 0o755, Size: int64(len(body))}, body)
		t.entry(&tar.Header{Typeflag: tar.TypeReg, Name: in("guest.log"), Mode: 0o644, Uid: started.uid, Gid: started.gid}, nil)
		t.entry(&tar.Header{Typeflag: tar.TypeDir, Name: in("box/"), Mode: 0o700, Uid: own.uid, Gid: own.gid}, nil)
	})
}

func (a *adopted) ids(user string) ids {
	uid, gid, _ := strings.Cut(user, ":")
	var i ids
	i.uid, _ = strconv.Atoi(uid)
	i.gid, _ = strconv.Atoi(gid)
	return i
}

// pipeAdopted brings the guest into a tmpfs, which the engine cannot write to
// from outside: a shell inside takes it from its input. There the guest cannot
// have a user of its own.
func (p *Provider) pipeAdopted(ctx context.Context, id, arch string, a *adopted) error {
	body, err := embedded.Binary(arch)
	if err != nil {
		return err
	}
	a.GuestUID, a.Own = 0, "0:0"
	if a.User != "root" {
		if a.Own = a.User; a.Own == "host" {
			return errors.New("the guest needs a user of its own")
		}
	}
	d := sandbox.ShellLine([]string{a.Dir})
	script := "umask 022 && mkdir " + d + " && cd " + d + " && cat >guest && chmod 755 guest && mkdir -m 700 box"
	_, said, code, err := p.runExec(ctx, id, program{user: a.Own, argv: []string{"sh", "-c", script}}, bytes.NewReader(body), createTimeout)
	switch {
	case err != nil && strings.Contains(err.Error(), "executable file not found"), code == 126 || code == 127:
		return errors.New("a tmpfs takes the guest only from a shell, and the image has none")
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("a shell could not write there: %s", said)
	}
	return nil
}

// probeAdopted runs the guest where it lies: a mount may forbid that.
func (p *Provider) probeAdopted(ctx context.Context, id string, a *adopted) error {
	_, said, code, err := p.runExec(ctx, id, program{user: a.startedAs(), argv: []string{a.guest(), "version"}}, nil, readTimeout)
	if err == nil && code != 0 {
		err = fmt.Errorf("the guest ends with %d there: %s", code, said)
	}
	if err != nil && strings.Contains(err.Error(), "permission denied") {
		return errors.New("nothing may be executed there (noexec)")
	}
	return err
}

// mounted is a directory of a container that lies outside its root.
type mounted struct {
	path  string
	tmpfs bool
}

// writable are the mounted places of a container that may take a guest: what
// vanishes with it first.
func writable(c container.InspectResponse) (places []mounted) {
	for target, options := range c.HostConfig.Tmpfs {
		if slices.Contains(strings.Split(options, ","), "exec") {
			places = append(places, mounted{target, true})
		}
	}
	for _, m := range c.Mounts {
		if m.RW && m.Type == "volume" {
			places = append(places, mounted{m.Destination, false})
		}
	}
	for _, m := range c.Mounts {
		if m.RW && m.Type == "bind" && !strings.HasSuffix(m.Destination, ".sock") {
			places = append(places, mounted{m.Destination, false})
		}
	}
	return slices.DeleteFunc(places, func(m mounted) bool { return len(m.path) > 60 }) // the address of a socket is short
}

// serveAdopted starts the guest and returns when it answers.
func (p *Provider) serveAdopted(ctx context.Context, c container.InspectResponse, env []string, b box, note *owner) error {
	a := note.Adopted
	home := "/"
	if uid, _, ok := strings.Cut(a.User, ":"); ok || a.User == "root" {
		if a.User == "root" {
			uid = "0"
		}
		passwd, err := p.readFile(ctx, c.ID, "/etc/passwd")
		if err != nil {
			return err
		}
		if f := findEntry(passwd, func(f []string) bool { return len(f) > 5 && f[2] == uid }); f != nil {
			home = f[5]
		}
	} else if config, ok := guestConfig(c); ok {
		home = config.Home
	}
	config, err := json.Marshal(wire.GuestConfig{
		GuestID: b.guestID, PublicKey: client.DeriveKey(p.opts.Secret, b.guestID).Public().(ed25519.PublicKey),
		Socket: a.socket(), StateDir: a.box(), LockFile: a.box() + "/lock", LogFile: a.log(),
		Workdir: a.Workdir, Home: home, User: a.User, Tag: wire.TagGroup, GuestUID: a.GuestUID, Own: a.box(), Env: env, Relay: a.Relay, Adopted: true,
	})
	if err != nil {
		return fmt.Errorf("encode the guest's configuration: %w", err)
	}
	execID, _, err := p.startExec(ctx, c.ID, program{user: a.startedAs(), argv: []string{a.guest(), "serve", "--config", string(config)}, detached: true})
	if err != nil {
		return fmt.Errorf("start the guest in the container %s: %w", c.ID[:12], err)
	}
	a.Exec = execID
	if err := b.note(*note); err != nil {
		return err
	}
	hello, err := p.awaitAdopted(ctx, c, b, a)
	if err != nil {
		return err
	}
	a.FirstTag, a.LastTag = hello.FirstTag, hello.LastTag
	return b.note(*note)
}

// awaitAdopted returns when the guest answers, or at once when it has ended: then
// the error holds what it last said.
func (p *Provider) awaitAdopted(ctx context.Context, c container.InspectResponse, b box, a *adopted) (wire.Hello, error) {
	limited, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	guest := p.guestClient(p.adoptedHandle(c.ID, b, a))
	defer guest.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		hello, err := guest.Hello(limited)
		if err == nil {
			return hello, nil
		}
		seen, inspectErr := p.engine.ContainerExecInspect(limited, a.Exec)
		if inspectErr == nil && !seen.Running {
			said, _ := p.readFile(context.WithoutCancel(ctx), c.ID, a.log())
			return hello, fmt.Errorf("the guest in the container %s ended with code %d before it answered: %s: %w", c.ID[:12], seen.ExitCode, strings.TrimSpace(said), sandbox.ErrUnsupported)
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if err := ctx.Err(); err != nil {
				return hello, fmt.Errorf("wait for the guest: %w", err)
			}
			return hello, fmt.Errorf("wait for the guest in %s: %w (%v): %w", c.ID[:12], errGuestSilent, err, sandbox.ErrUnreachable)
		}
	}
}

func (p *Provider) adoptedHandle(id string, b box, a *adopted) sandbox.Handle {
	return sandbox.Handle{
		BaseURL: p.endpoint.baseURL(), SandboxID: adoptedID(id, b.guestID), ShortID: id[:12], GuestID: b.guestID, Workdir: a.Workdir,
		Dial: p.channel(id, a.socket(), a.guest(), a.Own).dial,
	}
}

// attachAdopted finds a guest in a container again, and starts both where they
// do not run.
func (p *Provider) attachAdopted(ctx context.Context, id string, b box, note owner) (h sandbox.Handle, err error) {
	c, err := p.inspectAny(ctx, id)
	if err != nil {
		return h, err
	}
	switch {
	case c.State.Paused:
		err = p.unpause(ctx, id)
	case !c.State.Running:
		p.resetChannels(id)
		if err = p.start(ctx, id); err != nil && answered(err) {
			err = fmt.Errorf("%w: %w", err, sandbox.ErrStopped)
		}
	}
	if err != nil {
		return h, err
	}
	h = p.adoptedHandle(id, b, note.Adopted)
	guest := p.guestClient(h)
	defer guest.Close()
	limited, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if _, err := guest.Hello(limited); err == nil {
		return h, nil
	}
	arch, err := p.archOf(ctx, c)
	if err != nil {
		return h, err
	}
	if c, err = p.inspectAny(ctx, id); err != nil {
		return h, err
	}
	if running, err := call(ctx, p, "look for the guest", readTimeout, func(ctx context.Context) (container.ExecInspect, error) {
		return p.engine.ContainerExecInspect(ctx, note.Adopted.Exec)
	}); err == nil && running.Running {
		_, err := p.awaitAdopted(ctx, c, b, note.Adopted) // slow, not gone
		return h, err
	}
	if err := p.putAdopted(ctx, c, adoptPlan{adopted: *note.Adopted, arch: arch}, b, &note); err != nil {
		return h, err
	}
	p.resetChannels(id)
	if err := p.serveAdopted(ctx, c, nil, b, &note); err != nil {
		return h, err
	}
	return p.adoptedHandle(id, b, note.Adopted), nil
}

// archOf is the architecture of a container, as its image says, or its engine where
// that was removed under it.
func (p *Provider) archOf(ctx context.Context, c container.InspectResponse) (string, error) {
	img, err := call(ctx, p, "inspect image", readTimeout, func(ctx context.Context) (image.InspectResponse, error) {
		return p.engine.ImageInspect(ctx, c.Image)
	})
	if err == nil {
		return img.Architecture, nil
	}
	f := p.facts.Load()
	if !cerrdefs.IsNotFound(err) || f == nil {
		return "", err
	}
	return goArch(f.Architecture), nil
}
