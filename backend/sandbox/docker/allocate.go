package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/guest/embedded"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Allocate makes a container for a root task; see sandbox.Provider.
func (p *Provider) Allocate(ctx context.Context, rootTaskID string, spec sandbox.Spec) (sandbox.Handle, error) {
	return p.AllocateWithProgress(ctx, rootTaskID, spec, func(sandbox.Step) {})
}

// AllocateWithProgress is Allocate that tells its steps: "create", "start" and
// "guest ready", each when it is done. Where the engine does not have the image,
// those of the tiny image's making or of a pull come before them.
func (p *Provider) AllocateWithProgress(ctx context.Context, rootTaskID string, spec sandbox.Spec, report func(sandbox.Step)) (h sandbox.Handle, err error) {
	begun := time.Now()
	done := func(name string) { report(sandbox.Step{Name: name, At: time.Now()}) }
	pl, err := p.outline(ctx, rootTaskID, spec)
	if err != nil {
		return h, err
	}
	img, err := p.image(ctx, pl.image, report)
	if err != nil {
		return h, err
	}
	if pl, err = p.on(ctx, pl, img); err != nil {
		return h, err
	}
	if pl.maybe {
		aio, err := p.recognise(ctx, pl)
		if err != nil {
			return h, err
		}
		if aio {
			pl.serves = pl.server
		}
	}
	if pl.serves != nil {
		return p.allocateServed(ctx, pl, done)
	}
	guest, err := embedded.Install(p.guests(), pl.arch)
	if err != nil {
		return h, err
	}
	if err := p.probeMounts(ctx, pl, guest); err != nil {
		return h, err
	}
	b, err := p.makeBox(newGuestID(), rootTaskID, pl.uid, pl.gid)
	defer func() {
		if err != nil {
			p.detached(ctx, func(ctx context.Context) error { return p.removeMade(ctx, b) })
		}
	}()
	if err != nil {
		return h, err
	}

	id, err := p.create(ctx, pl, guest, b)
	if err != nil {
		return h, err
	}
	done("create")
	if err := p.start(ctx, id); err != nil {
		return h, err
	}
	done("start")
	dial := b.dial
	if pl.byExec {
		dial = p.execDial(id, pl.guestUID())
	}
	if h, err = p.handle(id, b, pl.workdir, dial); err != nil {
		return h, err
	}
	if err := p.awaitGuest(ctx, h); err != nil {
		return h, err
	}
	if err := p.provePlace(ctx, h, pl); err != nil {
		return h, err
	}
	if pl.facts.remapped {
		if err := p.proveOwner(ctx, h, pl); err != nil {
			return h, err
		}
	}
	done("guest ready")
	p.log.InfoContext(ctx, "container ready", "task", rootTaskID, "container", h.ShortID, "took", time.Since(begun))
	return h, nil
}

// create makes the container of a plan and notes it in its box. It is not cut
// short by the end of ctx: the engine would finish a creation that we no longer
// know of. It takes some milliseconds.
func (p *Provider) create(ctx context.Context, pl plan, guest string, b box) (string, error) {
	config, host, err := p.configs(pl, guest, b)
	if err != nil {
		return "", err
	}
	n, err := p.nextNumber(ctx, pl.root)
	if err != nil {
		return "", err
	}
	detached := context.WithoutCancel(ctx)
	for ; ; n++ {
		created, err := call(detached, p, "create the container", createTimeout, func(ctx context.Context) (container.CreateResponse, error) {
			return p.engine.ContainerCreate(ctx, config, host, nil, nil, p.name(pl.root, n))
		})
		if cerrdefs.IsConflict(err) && strings.Contains(err.Error(), "is already in use") && ctx.Err() == nil {
			continue // a name that somebody without our labels took
		}
		if err != nil {
			return "", err
		}
		for _, warning := range created.Warnings {
			p.log.WarnContext(ctx, "engine warning", "task", pl.root, "container", created.ID[:12], "warning", warning)
		}
		if err := b.note(owner{Session: pl.root, Container: created.ID, Serves: pl.serves}); err != nil {
			return "", fmt.Errorf("note the container: %w", err)
		}
		if pl.serves != nil {
			return created.ID, ctx.Err()
		}
		if pl.byExec {
			var own []*tar.Header
			if pl.ownPlace {
				own = append(own, pl.ownWorkdir())
			}
			if err := p.putGuest(ctx, created.ID, pl.arch, pl.guestUID(), own...); err != nil {
				return "", err
			}
		}
		if pl.home == homeInside {
			if err := p.makeHome(ctx, created.ID, pl); err != nil {
				return "", err
			}
		}
		return created.ID, ctx.Err()
	}
}

// configs are both parts of a container's configuration.
func (p *Provider) configs(pl plan, guest string, b box) (*container.Config, *container.HostConfig, error) {
	if pl.serves != nil {
		config, err := p.servedConfig(pl, b)
		return config, p.servedHostConfig(pl), err
	}
	config, err := p.config(pl, b)
	return config, p.hostConfig(pl, guest, b), err
}

// makeHome makes the HOME of commands in a container that has not started. The
// engine does it: the guest may not give files away.
func (p *Provider) makeHome(ctx context.Context, id string, pl plan) error {
	var archive bytes.Buffer
	t := &treeWriter{w: tar.NewWriter(&archive)}
	t.entry(&tar.Header{Typeflag: tar.TypeDir, Name: insideHome[1:] + "/", Mode: 0o755, Uid: pl.uid, Gid: pl.gid}, nil)
	if err := errors.Join(t.err, t.w.Close()); err != nil {
		return fmt.Errorf("pack the home directory: %w", err)
	}
	_, err := call(ctx, p, "make the home directory", createTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.CopyToContainer(ctx, id, "/", &archive, container.CopyToContainerOptions{})
	})
	return err
}

// config is the part of a container's configuration that does not depend on
// the host.
func (p *Provider) config(pl plan, b box) (*container.Config, error) {
	key := client.DeriveKey(p.opts.Secret, b.guestID)
	own := insideDir // a tmpfs that is open again at each start
	if pl.byExec {
		own = insideBox
	}
	guestConfig, err := json.Marshal(wire.GuestConfig{
		GuestID:   b.guestID,
		PublicKey: key.Public().(ed25519.PublicKey),
		Socket:    insideBox + "/" + socketName,
		StateDir:  insideBox,
		Workdir:   pl.workdir,
		Home:      insideHome,
		User:      pl.user,
		Tag:       wire.TagGroup,
		GuestUID:  pl.guestUID(),
		Own:       own,
		Env:       pl.env,
		Relay:     pl.relay,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the guest's configuration: %w", err)
	}
	stopTimeout := 2 // seconds: the guest ends its calls in under one
	return &container.Config{
		Image:       pl.image,
		Entrypoint:  []string{insideGuest, "serve", "--config", string(guestConfig)},
		Cmd:         []string{},
		User:        "0:0",
		WorkingDir:  pl.workdir,
		StopSignal:  "SIGTERM",
		StopTimeout: &stopTimeout,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // the image's would run beside the guest
		Labels: map[string]string{
			labelInstance: p.opts.Instance,
			labelSession:  pl.root,
			labelSandbox:  b.guestID,
			labelVersion:  p.opts.Version,
		},
	}, nil
}

// hostConfig is the wall: what the container may do and have on this host. No
// command keeps one of these capabilities; they are the guest's, for becoming
// the commands' user and ending what that user started.
func (p *Provider) hostConfig(pl plan, guest string, b box) *container.HostConfig {
	capabilities := []string{"SETUID", "SETGID", "KILL", "SETPCAP"}
	if pl.asRoot {
		capabilities = append(capabilities, "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID")
	}
	init := false
	tmpfs := map[string]string{insideDir: pl.ownDirectory()}
	if pl.byExec {
		tmpfs = nil // it would hide what was copied in
	}
	mounts, binds := pl.engineMounts(guest, b)
	return &container.HostConfig{
		Mounts:        mounts,
		Binds:         binds,
		Tmpfs:         tmpfs,
		NetworkMode:   pl.network,
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Init:          &init,
		CapDrop:       []string{"ALL"},
		CapAdd:        capabilities,
		SecurityOpt:   []string{"no-new-privileges"},
		ShmSize:       pl.limits.Shm,
		Resources:     engineLimits(pl.limits),
	}
}

// name is the name of a root task's n-th container. The engine refuses a
// second container of a name, so that a creation never happens twice.
func (p *Provider) name(root string, n int) string {
	return p.namePrefix(root) + strconv.Itoa(n)
}

func (p *Provider) namePrefix(root string) string {
	return "glovebox-" + nameable(p.opts.Instance) + "-" + nameable(root) + "-"
}

// nameable makes of s what the engine takes in a name.
func nameable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, s)
	return s[:min(len(s), 48)]
}

// nextNumber returns the number after the highest that a container of the root
// task has.
func (p *Provider) nextNumber(ctx context.Context, root string) (int, error) {
	found, err := p.list(ctx, labelSession+"="+root)
	if err != nil {
		return 0, err
	}
	highest := 0
	for _, c := range found {
		for _, name := range c.Names {
			rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "/"), p.namePrefix(root))
			if n, err := strconv.Atoi(rest); ok && err == nil {
				highest = max(highest, n)
			}
		}
	}
	return highest + 1, nil
}

// list returns the containers of this instance, running or not, that have all
// of the labels.
func (p *Provider) list(ctx context.Context, labels ...string) ([]container.Summary, error) {
	args := filters.NewArgs(filters.Arg("label", labelInstance+"="+p.opts.Instance))
	for _, label := range labels {
		args.Add("label", label)
	}
	return call(ctx, p, "list containers", readTimeout, func(ctx context.Context) ([]container.Summary, error) {
		return p.engine.ContainerList(ctx, container.ListOptions{All: true, Filters: args})
	})
}

func (p *Provider) start(ctx context.Context, id string) error {
	_, err := call(ctx, p, "start the container", startTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.ContainerStart(ctx, id, container.StartOptions{})
	})
	return err
}

func (p *Provider) unpause(ctx context.Context, id string) error {
	_, err := call(ctx, p, "unpause the container", startTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.ContainerUnpause(ctx, id)
	})
	return err
}

// handle is the live address of a container.
func (p *Provider) handle(id string, b box, workdir string, dial sandbox.DialFunc) (sandbox.Handle, error) {
	if _, err := p.ref(id); err != nil {
		return sandbox.Handle{}, err
	}
	return sandbox.Handle{
		BaseURL:   p.endpoint.baseURL(),
		SandboxID: id,
		ShortID:   id[:12],
		GuestID:   b.guestID,
		Workdir:   workdir,
		Dial:      dial,
	}, nil
}
