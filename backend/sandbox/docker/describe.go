package docker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Describe reads back what a container is; see sandbox.Describer.
func (p *Provider) Describe(ctx context.Context, ref sandbox.Ref) (sandbox.Description, error) {
	at, err := p.spot(ref)
	if err != nil {
		return sandbox.Description{}, err
	}
	id := at.id
	f, err := p.connect(ctx)
	if err != nil {
		return sandbox.Description{}, fmt.Errorf("describe %s: %w", id[:12], err)
	}
	c, err := p.inspectSpot(ctx, at)
	if err != nil {
		return sandbox.Description{}, err
	}
	d := sandbox.Description{
		ID:          c.ID,
		ShortID:     c.ID[:12],
		Name:        strings.TrimPrefix(c.Name, "/"),
		Image:       c.Config.Image,
		ImageDigest: p.digest(ctx, c.Image),
		Mounts:      describeMounts(c),
		Limits:      describeLimits(c.HostConfig),
		NotEnforced: notEnforced(f),
		Network:     string(sandbox.NetworkNone),
	}
	config, _ := guestConfig(c)
	switch {
	case at.guest != "":
		p.describeAdopted(&d, c, at)
	case serves(c):
		d.Commands = p.commands(ctx, c)
	default:
		d.User = config.User
		d.Commands = p.commands(ctx, c)
	}
	d.StartedAt, _ = time.Parse(time.RFC3339Nano, c.State.StartedAt)
	if d.Network = string(networkOf(c)); d.Network == string(sandbox.NetworkOpen) {
		d.Notes = append(d.Notes, "the network is open: the sandbox reaches this machine's other addresses and the internet")
	} else if config.Relay != "" && at.guest == "" {
		d.Network = string(sandbox.NetworkProxy)
	}
	if d.User == "root" && at.guest == "" {
		d.Notes = append(d.Notes, "commands run as root: they can reach the guest itself, and hide a process from a kill")
	}
	if serves(c) {
		p.describeServed(ctx, &d, c)
	} else if !sharesSocket(c) && at.guest == "" {
		d.Notes = append(d.Notes, "the guest is reached through the engine: each byte of output passes it")
		if own := p.elsewhere.Load().container; own != "" {
			d.Notes = append(d.Notes, "Glovebox itself runs in the container "+shortID(own)+" of this engine: the guest was copied in, and paths of mounts are the engine's")
		}
		if !slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool { return m.Destination == c.Config.WorkingDir }) {
			d.Notes = append(d.Notes, "the workspace is the container's own: it is gone when the sandbox is removed")
		}
	}
	if needsLabels(f) && at.guest == "" && !slices.ContainsFunc(mountsOf(c.HostConfig), func(m labelled) bool {
		return m.label != "" && m.Target == c.Config.WorkingDir
	}) {
		d.Notes = append(d.Notes, "this engine has SELinux, which may keep commands from the workspace: list it as a mount with the label shared")
	}
	if f.remapped {
		d.Notes = append(d.Notes, "the engine maps user ids: uid 0 inside is another user on this machine")
	}
	return d, nil
}

// networkOf says what a container reaches.
func networkOf(c container.InspectResponse) sandbox.NetworkMode {
	if c.HostConfig.NetworkMode == "none" {
		return sandbox.NetworkNone
	}
	return sandbox.NetworkOpen
}

// describeAdopted says what a guest can promise in a container that it did not
// make: no more than that container's own walls.
func (p *Provider) describeAdopted(d *sandbox.Description, c container.InspectResponse, at spot) {
	_, note, err := p.adoption(at)
	if err != nil {
		return
	}
	a := note.Adopted
	d.User = a.User
	d.Notes = append(d.Notes,
		"this container was here before the session: a release takes the guest out, and what was changed in it stays",
		"its walls are its own: whoever made it chose what it reaches, and what is installed or changed in it stays",
		"it has no workspace on this machine: files are those of the container, below "+a.Workdir)
	if missing := missingRights(c.HostConfig); len(missing) > 0 {
		d.Notes = append(d.Notes, "it lacks "+strings.Join(missing, ", ")+": the guest runs as its commands' own user, who can reach it; a command can hide a process from a kill")
	} else if a.User == "root" {
		d.Notes = append(d.Notes, "commands run as root: they can reach the guest itself, and hide a process from a kill")
	}
	if c.HostConfig.Privileged {
		d.Notes = append(d.Notes, "it is privileged: what runs in it can take over this machine")
	}
	if n := p.guestsIn(c.ID); n > 1 {
		d.Notes = append(d.Notes, fmt.Sprintf("it is shared: %d sessions of this instance have a guest in it", n))
	}
	docker := []string{"docker"}
	if p.endpoint.host != "unix://"+defaultSocket {
		docker = append(docker, "-H", p.endpoint.host)
	}
	line := func(does string, args ...string) {
		d.Commands = append(d.Commands, sandbox.HandCommand{Does: does, Text: sandbox.ShellLine(append(slices.Clone(docker), args...))})
	}
	if c.State.Running && !c.State.Paused {
		line("shell", "exec", "-it", "-w", a.Workdir, c.ID[:12], "sh")
	}
	line("logs", "logs", "--tail", "200", c.ID[:12])
}

// guestsIn counts this instance's guests in a container that it did not make.
func (p *Provider) guestsIn(id string) int {
	found, _ := p.adoptions(func(o owner) bool { return o.Container == id && !o.Adopted.Left })
	return len(found)
}

// digest returns the name of an image's content: that of a registry where it
// has one, else its id.
func (p *Provider) digest(ctx context.Context, id string) string {
	img, err := call(ctx, p, "inspect image", readTimeout, func(ctx context.Context) (image.InspectResponse, error) {
		return p.engine.ImageInspect(ctx, id)
	})
	if err == nil && len(img.RepoDigests) > 0 {
		_, digest, _ := strings.Cut(img.RepoDigests[0], "@")
		return digest
	}
	return id
}

// describeMounts lists what the sandbox was given, by target: the engine's own
// order is another one each time.
func describeMounts(c container.InspectResponse) []sandbox.Mount {
	var mounts []sandbox.Mount
	for _, m := range c.Mounts {
		if m.Destination == insideDir || strings.HasPrefix(m.Destination, insideDir+"/") {
			continue
		}
		d := sandbox.Mount{Source: m.Source, Target: m.Destination, Mode: sandbox.ReadWrite, Kind: sandbox.LocalPath}
		if m.Type == mount.TypeVolume {
			d.Source, d.Kind = m.Name, sandbox.Volume
		}
		if !m.RW {
			d.Mode = sandbox.ReadOnly
		}
		mounts = append(mounts, d)
	}
	slices.SortFunc(mounts, func(a, b sandbox.Mount) int { return strings.Compare(a.Target, b.Target) })
	return mounts
}

func describeLimits(h *container.HostConfig) map[string]string {
	l := map[string]string{
		"memory": sandbox.FormatSize(h.Memory),
		"shm":    sandbox.FormatSize(h.ShmSize),
		"cpus":   strconv.FormatFloat(float64(h.NanoCPUs)/1e9, 'f', -1, 64),
	}
	if h.PidsLimit != nil {
		l["pids"] = strconv.FormatInt(*h.PidsLimit, 10)
	}
	return l
}

// notEnforced names the limits that the engine's kernel or cgroups cannot hold.
func notEnforced(f *facts) []string {
	var names []string
	for _, l := range []struct {
		name string
		held bool
	}{
		{"memory", f.MemoryLimit},
		{"cpus", f.CPUCfsQuota},
		{"pids", f.PidsLimit},
	} {
		if !l.held {
			names = append(names, l.name)
		}
	}
	return names
}
