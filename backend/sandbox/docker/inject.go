package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/glovebox-dev/glovebox/backend/guest/embedded"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// putGuest copies the guest and its directories into a container that has not
// started: where nothing of this machine can be mounted, or no socket comes
// through. It is done before every start of ours, so that what runs as the
// container's first process is never what somebody inside has made of it.
func (p *Provider) putGuest(ctx context.Context, id string, arch string, guestUID int, entries ...*tar.Header) error {
	body, err := embedded.Binary(arch)
	if err != nil {
		return err
	}
	own := func(name string, mode int64) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeDir, Name: name[1:] + "/", Mode: mode, Uid: guestUID, Gid: guestUID}
	}
	guest := &tar.Header{Typeflag: tar.TypeReg, Name: insideGuest[1:], Mode: 0o755, Size: int64(len(body))}
	return p.putTree(ctx, id, "/", func(t *treeWriter) {
		t.entry(own(insideDir, 0o711), nil)
		t.entry(own(insideBox, 0o700), nil)
		t.entry(guest, body)
		for _, e := range entries {
			t.entry(e, nil)
		}
	})
}

// putTree copies a tree into a container, below dir.
func (p *Provider) putTree(ctx context.Context, id, dir string, write func(*treeWriter)) error {
	var archive bytes.Buffer
	t := &treeWriter{w: tar.NewWriter(&archive)}
	write(t)
	if err := errors.Join(t.err, t.w.Close()); err != nil {
		return fmt.Errorf("pack the guest: %w", err)
	}
	_, err := call(ctx, p, "copy the guest into the container", createTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.CopyToContainer(ctx, id, dir, &archive, container.CopyToContainerOptions{})
	})
	return err
}

// ownWorkdir is the working directory of a sandbox that is given none of this
// machine: its own, of an ordinary user, gone with the container.
func (pl plan) ownWorkdir() *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(pl.workdir, "/") + "/", Mode: 0o755, Uid: pl.uid, Gid: pl.gid}
}

// ordinary is the user of a workdir that nobody on this machine owns.
const ordinary = 1000

// probeMounts finds out, by a container that is never started, whether the engine
// sees this program's files: it does not where this program is itself in a
// container, or its engine at the end of a tunnel.
func (p *Provider) probeMounts(ctx context.Context, pl plan, guest string) error {
	if pl.facts.podman && strings.ContainsAny(guest, `,"`) {
		return nil // it could not say
	}
	if p.bindless() || p.probed.Load() || !exists("/.dockerenv") && !exists("/run/.containerenv") && !p.endpoint.loopback() {
		return nil
	}
	created, err := call(ctx, p, "look for this program's files", createTimeout, func(ctx context.Context) (container.CreateResponse, error) {
		return p.engine.ContainerCreate(ctx, &container.Config{
			Image: pl.imageID, Entrypoint: []string{insideGuest},
			Labels: map[string]string{labelInstance: p.opts.Instance, labelSession: pl.root, labelVersion: p.opts.Version},
		}, &container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{{Type: mount.TypeBind, Source: guest, Target: insideGuest, ReadOnly: true}}}, nil, nil, "")
	})
	if err == nil {
		p.probed.Store(true)
		p.detached(ctx, func(ctx context.Context) error { return p.removeContainer(ctx, created.ID) })
		return nil
	}
	if !sourceMissing(err, guest) {
		return err
	}
	p.unseen.Store(true)
	return p.noMounts("workspace", "")
}

// sourceMissing reports whether an engine refused a mount because its source is
// not there, where it is for us. An engine misses files of its own at times, so
// that one has to be named.
func sourceMissing(err error, source string) bool {
	return answered(err) && strings.Contains(err.Error(), source) &&
		(strings.Contains(err.Error(), "bind source path does not exist") || strings.Contains(err.Error(), "no such file or directory"))
}

// noMounts refuses a directory of this machine by the field that names it.
func (p *Provider) noMounts(field, source string) error {
	where := "is on another machine"
	if p.unseen.Load() {
		where = "sees other files than this program"
	}
	reason := fmt.Sprintf("the engine at %s (%s) %s, so nothing of this machine can be mounted; leave the workspace empty, and use volumes", p.endpoint.host, p.endpoint.why, where)
	if known := p.elsewhere.Load().known(); known != "" && source != "" {
		reason = fmt.Sprintf("%s is in none of the directories that this program and the engine at %s both see: %s; choose one there, mount it into this program's container too (or name it in docker.path_map), or leave the workspace empty", source, p.endpoint.host, known)
	}
	return &sandbox.FieldError{Field: field, Reason: reason}
}

// checkMounts refuses what an engine cannot mount by its name.
func (p *Provider) checkMounts(spec sandbox.Spec) error {
	if f := p.facts.Load(); f != nil && f.podman {
		// Its API makes one text of a mount, and fields of that text by commas.
		odd := func(path string) bool { return strings.ContainsAny(path, `,"`) }
		const reason = `%s: Podman mounts no path that has a comma or a quote in it; rename the directory, or use a Docker engine`
		if odd(spec.Workspace) {
			return &sandbox.FieldError{Field: "workspace", Reason: fmt.Sprintf(reason, spec.Workspace)}
		}
		for i, m := range spec.Mounts {
			if odd(m.Source) || odd(m.Target) {
				return &sandbox.FieldError{Field: fmt.Sprintf("mounts[%d].source", i), Reason: fmt.Sprintf(reason, m.Source)}
			}
		}
	}
	return nil
}

// guestConfig reads what a container's guest was told, where it is its first
// process.
func guestConfig(c container.InspectResponse) (wire.GuestConfig, bool) {
	var config wire.GuestConfig
	argv := c.Config.Entrypoint
	if len(argv) == 0 || json.Unmarshal([]byte(argv[len(argv)-1]), &config) != nil {
		return config, false
	}
	return config, true
}

// sharesSocket reports whether the guest of a container listens in a directory
// of this machine.
func sharesSocket(c container.InspectResponse) bool {
	for _, m := range mountsOf(c.HostConfig) {
		if m.Target == insideBox {
			return true
		}
	}
	return slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool { return m.Destination == insideBox })
}

// guestDial is the way to the guest of a container of ours.
func (p *Provider) guestDial(c container.InspectResponse, b box) sandbox.DialFunc {
	config, ok := guestConfig(c)
	if !ok || sharesSocket(c) {
		return b.dial
	}
	return p.execDial(c.ID, config.GuestUID)
}

// execDial is the way to a guest through the engine. The user is the guest's
// own: nobody else may enter the directory of its socket.
func (p *Provider) execDial(id string, guestUID int) sandbox.DialFunc {
	user := strconv.Itoa(guestUID)
	return p.channel(id, path.Join(insideBox, socketName), insideGuest, user+":"+user).dial
}
