package docker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/mountcheck"
)

// Attach finds the container of ref again and makes it run; see
// sandbox.Provider. Calls for one container wait for each other.
func (p *Provider) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Handle, error) {
	at, err := p.spot(ref)
	if err != nil {
		return sandbox.Handle{}, err
	}
	id := at.id
	unlock, err := p.starting.lock(ctx, id)
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("attach to %s: %w", id[:12], err)
	}
	defer unlock()
	if _, err := p.connect(ctx); err != nil {
		return sandbox.Handle{}, err
	}
	if at.guest != "" {
		b, note, err := p.adoption(at)
		if err != nil {
			return sandbox.Handle{}, err
		}
		return p.attachAdopted(ctx, id, b, note)
	}
	c, err := p.settled(ctx, id)
	if err != nil {
		return sandbox.Handle{}, err
	}
	b, err := p.box(c.Config.Labels[labelSandbox])
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("attach to %s: %v: %w", id[:12], err, sandbox.ErrForeign)
	}
	if serves(c) {
		return p.attachServed(ctx, c, b)
	}
	if err := p.run(ctx, c); err != nil {
		return sandbox.Handle{}, err
	}
	h, err := p.handle(id, b, c.Config.WorkingDir, p.guestDial(c, b))
	if err != nil {
		return sandbox.Handle{}, err
	}
	err = p.awaitGuest(ctx, h)
	if errors.Is(err, sandbox.ErrStopped) && restarts(c) {
		// It ended just now, and its engine starts it again by itself.
		if c, err = p.settled(ctx, id); err == nil {
			if err = p.run(ctx, c); err == nil {
				err = p.awaitGuest(ctx, h)
			}
		}
	}
	return h, err
}

// restarts reports whether an engine was told to start a container again
// whenever it ends. We never tell it that.
func restarts(c container.InspectResponse) bool {
	policy := c.HostConfig.RestartPolicy.Name
	return policy != "" && policy != container.RestartPolicyDisabled
}

// Start starts a stopped or paused container; see sandbox.Starter.
func (p *Provider) Start(ctx context.Context, ref sandbox.Ref) (sandbox.Handle, error) {
	return p.Attach(ctx, ref)
}

// run brings a container that we have just inspected to life.
func (p *Provider) run(ctx context.Context, c container.InspectResponse) error {
	switch {
	case c.State.Paused:
		return p.unpause(ctx, c.ID)
	case c.State.Running:
		return nil
	}
	if err := p.recheckMounts(c); err != nil {
		return fmt.Errorf("start the container %s: %w: %w", c.ID[:12], err, sandbox.ErrStopped)
	}
	if serves(c) {
		p.resetChannels(c.ID)
	} else if config, ok := guestConfig(c); ok && !sharesSocket(c) {
		if err := p.putAgain(ctx, c, config.GuestUID); err != nil {
			return fmt.Errorf("start the container %s: %w", c.ID[:12], err)
		}
		p.resetChannels(c.ID)
	}
	err := p.start(ctx, c.ID)
	switch {
	case cerrdefs.IsNotFound(err):
		return gone(c.ID)
	case err != nil && answered(err):
		return fmt.Errorf("%w: %w", err, sandbox.ErrStopped)
	}
	return err
}

// putAgain puts today's guest where that of a stopped container was.
func (p *Provider) putAgain(ctx context.Context, c container.InspectResponse, guestUID int) error {
	img, err := call(ctx, p, "inspect image", readTimeout, func(ctx context.Context) (image.InspectResponse, error) {
		return p.engine.ImageInspect(ctx, c.Image)
	})
	if err != nil {
		return err
	}
	return p.putGuest(ctx, c.ID, img.Architecture, guestUID)
}

// recheckMounts looks at the sources of a container's mounts once more before
// it starts: the engine follows whatever symlink stands there now.
func (p *Provider) recheckMounts(c container.InspectResponse) error {
	var spec sandbox.Spec
	for _, m := range mountsOf(c.HostConfig) {
		if m.Type != mount.TypeBind || path.Dir(m.Target) == insideDir {
			continue
		}
		source, mode := m.Source, sandbox.ReadWrite
		if m.ReadOnly {
			mode = sandbox.ReadOnly
		}
		if p.bindless() {
			ours, ok := p.elsewhere.Load().here(source)
			if !ok {
				return fmt.Errorf("%s, which the sandbox has mounted, is not to be seen by this program any more: mount it into this program's container again", source)
			}
			source = ours
		}
		if _, own := within(source, p.boxes()); own && m.Target == insideHome {
			continue // we made it
		}
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: source, Target: m.Target, Mode: mode})
	}
	mounts, err := mountcheck.ResolveMounts(spec, p.denied(nil))
	if err != nil {
		return err
	}
	if _, err := p.place(spec, mounts, p.facts.Load()); err != nil {
		return err
	}
	now := map[string]string{}
	for _, m := range mounts {
		now[m.Target] = m.Source
	}
	for i, m := range spec.Mounts {
		if now[m.Target] != m.Source {
			return &sandbox.FieldError{Field: fmt.Sprintf("mounts[%d].source", i), Reason: fmt.Sprintf("%s has become a link to %s since the sandbox was made", m.Source, now[m.Target])}
		}
	}
	return nil
}

// inspect reads a container of this instance. The error wraps sandbox.ErrGone
// or sandbox.ErrForeign.
func (p *Provider) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	c, err := call(ctx, p, "inspect the container", readTimeout, func(ctx context.Context) (container.InspectResponse, error) {
		return p.engine.ContainerInspect(ctx, id)
	})
	switch {
	case cerrdefs.IsNotFound(err):
		return c, gone(id)
	case err != nil:
		return c, err
	case c.ContainerJSONBase == nil || c.State == nil || c.Config == nil || c.HostConfig == nil:
		return c, fmt.Errorf("inspect the container %s: the engine's answer lacks parts", id[:12])
	case c.Config.Labels[labelInstance] != p.opts.Instance:
		return c, fmt.Errorf("the container %s belongs to another instance of glovebox, or to none: %w", id[:12], sandbox.ErrForeign)
	}
	return c, nil
}

// adoption returns the box of a guest in a container that was there before it.
func (p *Provider) adoption(at spot) (box, owner, error) {
	b, err := p.box(at.guest)
	if err != nil {
		return b, owner{}, err
	}
	note, ok := b.read()
	switch {
	case !ok || note.Adopted != nil && note.Adopted.Left:
		return b, note, fmt.Errorf("the guest has left the container %s: %w", at.id[:12], sandbox.ErrGone)
	case note.Adopted == nil || note.Container != at.id:
		return b, note, fmt.Errorf("the container %s has no guest of this instance: %w", at.id[:12], sandbox.ErrForeign)
	}
	return b, note, nil
}

// inspectSpot reads a container of this instance, or one that it has a guest in.
func (p *Provider) inspectSpot(ctx context.Context, at spot) (container.InspectResponse, error) {
	if at.guest == "" {
		return p.inspect(ctx, at.id)
	}
	if _, _, err := p.adoption(at); err != nil {
		return container.InspectResponse{}, err
	}
	return p.inspectAny(ctx, at.id)
}

// settled is inspect for a container that is about to be used: it waits until
// the engine is done restarting it.
func (p *Provider) settled(ctx context.Context, id string) (container.InspectResponse, error) {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := p.inspect(ctx, id)
		if err != nil {
			return c, err
		}
		switch {
		case c.State.Dead || c.State.Status == container.StateRemoving:
			return c, gone(id)
		case !c.State.Restarting:
			return c, nil
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			return c, p.engineError(ctx, "wait for the restart of the container", limited.Err())
		}
	}
}

func gone(id string) error {
	return fmt.Errorf("the container %s is not there any more: %w", id[:12], sandbox.ErrGone)
}
