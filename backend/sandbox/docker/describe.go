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
	id, err := p.containerID(ref)
	if err != nil {
		return sandbox.Description{}, err
	}
	f, err := p.connect(ctx)
	if err != nil {
		return sandbox.Description{}, fmt.Errorf("describe %s: %w", id[:12], err)
	}
	c, err := p.inspect(ctx, id)
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
		User:        guestUser(c),
	}
	d.Commands = p.commands(ctx, c)
	d.StartedAt, _ = time.Parse(time.RFC3339Nano, c.State.StartedAt)
	if c.HostConfig.NetworkMode != "none" {
		d.Network = string(sandbox.NetworkOpen)
		d.Notes = append(d.Notes, "the network is open: the sandbox reaches this machine's other addresses and the internet")
	}
	if d.User == "root" {
		d.Notes = append(d.Notes, "commands run as root: they can reach the guest itself, and hide a process from a kill")
	}
	if !sharesSocket(c) {
		d.Notes = append(d.Notes, "the guest is reached through the engine: each byte of output passes it")
		if p.bindless() {
			d.Notes = append(d.Notes, "the workspace is the container's own: it is gone when the sandbox is removed")
		}
	}
	if f.remapped {
		d.Notes = append(d.Notes, "the engine maps user ids: uid 0 inside is another user on this machine")
	}
	return d, nil
}

// guestUser reads whom a container's guest was told to run commands as.
func guestUser(c container.InspectResponse) string {
	config, _ := guestConfig(c)
	return config.User
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
