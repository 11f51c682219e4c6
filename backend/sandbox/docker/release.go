package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Release removes every container of a root task, with its anonymous volumes,
// its home and its journal; see sandbox.Provider.
func (p *Provider) Release(ctx context.Context, rootTaskID string) error {
	if _, err := p.connect(ctx); err != nil {
		return fmt.Errorf("release %s: %w", rootTaskID, err)
	}
	found, err := p.list(ctx, labelSession+"="+rootTaskID)
	if err != nil {
		return fmt.Errorf("release %s: %w", rootTaskID, err)
	}
	if err := p.removeAll(ctx, found); err != nil {
		return fmt.Errorf("release %s: %w", rootTaskID, err)
	}
	// Boxes last: a container that still runs would lose its journal. Those of
	// containers that went away behind our back are found by their note.
	err = p.eachRelease(ctx, func(o owner) bool { return o.Session == rootTaskID })
	if err != nil {
		return fmt.Errorf("release %s: %w", rootTaskID, err)
	}
	return nil
}

// Remove removes one container by its address; see sandbox.Remover.
func (p *Provider) Remove(ctx context.Context, ref sandbox.Ref) error {
	at, err := p.spot(ref)
	if err != nil {
		return err
	}
	id := at.id
	if _, err := p.connect(ctx); err != nil {
		return fmt.Errorf("remove %s: %w", id[:12], err)
	}
	if at.guest != "" { // the container is not ours to remove
		b, note, err := p.adoption(at)
		if errors.Is(err, sandbox.ErrGone) {
			return nil
		}
		if err != nil {
			return err
		}
		return p.takeOut(ctx, b, note)
	}
	_, err = p.inspect(ctx, id)
	if err == nil {
		err = p.removeContainer(ctx, id)
	}
	if err != nil && !errors.Is(err, sandbox.ErrGone) {
		return fmt.Errorf("remove %s: %w", id[:12], err)
	}
	return p.eachRelease(ctx, func(o owner) bool { return o.Container == id })
}

// eachRelease removes the boxes whose owner matches, and the guests that some of
// them are about.
func (p *Provider) eachRelease(ctx context.Context, match func(owner) bool) error {
	found := map[box]owner{}
	err := p.eachBox(func(b box, o owner) {
		if match(o) {
			found[b] = o
		}
	})
	for b, o := range found {
		if o.Adopted != nil && !o.Adopted.Left {
			err = errors.Join(err, p.takeOut(ctx, b, o))
		} else if o.Adopted == nil {
			err = errors.Join(err, b.remove())
		}
	}
	return err
}

// removeMade removes what an allocation has made so far. The container is
// looked for by its label: a creation whose answer was lost has no id.
func (p *Provider) removeMade(ctx context.Context, b box) error {
	_, err := p.connect(ctx) // an engine that hangs is not waited for longer
	var found []container.Summary
	if err == nil {
		found, err = p.list(ctx, labelSandbox+"="+b.guestID)
	}
	if err == nil {
		err = p.removeAll(ctx, found)
	}
	return errors.Join(err, b.remove())
}

// detached runs a clean-up that the end of ctx must not stop.
func (p *Provider) detached(ctx context.Context, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		p.log.WarnContext(ctx, "clean-up left something; the next start removes it", "err", err)
	}
}

// removeAll removes containers side by side.
func (p *Provider) removeAll(ctx context.Context, found []container.Summary) error {
	errs := make([]error, len(found))
	var wg sync.WaitGroup
	for i, c := range found {
		wg.Go(func() { errs[i] = p.removeContainer(ctx, c.ID) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// removeContainer kills and removes a container in whatever state it is, and
// its anonymous volumes. One that is not there is no error; one that somebody
// else is removing is waited for.
func (p *Provider) removeContainer(ctx context.Context, id string) error {
	p.dropChannels(id, "")
	if f := p.facts.Load(); f != nil && f.podman {
		// Its removal by force begins with a polite stop, which a guest does not heed.
		_, _ = call(ctx, p, "kill the container", removeTimeout, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, p.engine.ContainerKill(ctx, id, "KILL")
		})
	}
	_, err := call(ctx, p, "remove the container", removeTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	})
	switch {
	case cerrdefs.IsNotFound(err):
		return nil
	case !cerrdefs.IsConflict(err):
		return err
	}
	_, err = call(ctx, p, "wait for the removal of the container", removeTimeout, func(ctx context.Context) (struct{}, error) {
		removed, failed := p.engine.ContainerWait(ctx, id, container.WaitConditionRemoved)
		select {
		case <-removed:
			return struct{}{}, nil
		case err := <-failed:
			return struct{}{}, err
		}
	})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}
