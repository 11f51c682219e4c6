package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

const sourceEngine = "engine"

// condition is what the state of a container means.
func condition(s *container.State) sandbox.Condition {
	c := sandbox.Condition{ObservedAt: time.Now(), Source: sourceEngine}
	switch {
	case s.Dead || s.Status == container.StateRemoving:
		c.Value, c.Cause = sandbox.StateLost, sandbox.CauseRemoved
	case s.Paused:
		c.Value, c.Cause = sandbox.StatePaused, sandbox.CauseByHand
	case s.Restarting:
		c.Value, c.Cause = sandbox.StateStopped, sandbox.CauseByHand
	case s.Running:
		c.Value = sandbox.StateReady
	case s.Status == container.StateCreated:
		c.Value = sandbox.StateStopped // made, never run
	default:
		c.Value, c.Cause = sandbox.StateStopped, exitCause(s)
	}
	return c
}

// exitCause says why a container ended. The engine keeps its mark of a full
// memory also when that ended only a command, so it counts for the container
// only beside SIGKILL. A guest ends with 0 when it is asked to stop.
func exitCause(s *container.State) string {
	const sigkill, sigterm = 128 + 9, 128 + 15
	switch {
	case s.ExitCode == sigkill && s.OOMKilled:
		return sandbox.CauseOutOfMemory
	case s.ExitCode == sigterm || s.ExitCode == 0:
		return sandbox.CauseByHand
	case s.ExitCode > 128:
		return sandbox.CauseKilled
	}
	return sandbox.CauseExited
}

func lost() sandbox.Condition {
	return sandbox.Condition{Value: sandbox.StateLost, Cause: sandbox.CauseRemoved, ObservedAt: time.Now(), Source: sourceEngine}
}

func unreachable() sandbox.Condition {
	return sandbox.Condition{Value: sandbox.StateUnreachable, Cause: sandbox.CauseEngine, ObservedAt: time.Now(), Source: sourceEngine}
}

// Inspect reads the condition of a container from the engine; see
// sandbox.Inspector. A silent engine is a condition, not an error.
func (p *Provider) Inspect(ctx context.Context, ref sandbox.Ref) (sandbox.Condition, error) {
	at, err := p.spot(ref)
	if err != nil {
		return sandbox.Condition{}, err
	}
	return p.observe(ctx, at)
}

func (p *Provider) observe(ctx context.Context, at spot) (sandbox.Condition, error) {
	_, err := p.connect(ctx)
	var c container.InspectResponse
	if err == nil {
		c, err = p.inspectSpot(ctx, at)
	}
	switch {
	case errors.Is(err, sandbox.ErrGone):
		return lost(), nil
	case errors.Is(err, sandbox.ErrUnreachable):
		return unreachable(), nil
	case err != nil:
		return sandbox.Condition{}, err
	}
	seen := condition(c.State)
	if serves(c) && c.State.ExitCode == 0 && seen.Cause == sandbox.CauseByHand {
		seen.Cause = p.killedBy(ctx, c, sandbox.CauseExited) // an image's command may end by itself
	}
	switch seen.Cause {
	case sandbox.CauseKilled, sandbox.CauseOutOfMemory:
		seen.Cause = p.killedBy(ctx, c, seen.Cause)
	}
	return seen, nil
}

// List returns the containers that this instance made; see sandbox.Lister.
func (p *Provider) List(ctx context.Context) ([]sandbox.Found, error) {
	if _, err := p.connect(ctx); err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	summaries, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]sandbox.Found, len(summaries))
	errs := make([]error, len(summaries))
	var wg sync.WaitGroup
	for i, s := range summaries {
		wg.Go(func() { found[i], errs[i] = p.found(ctx, s) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.takeOutLeft(ctx)
	adopted, err := p.listAdopted(ctx)
	return append(found, adopted...), err
}

// listAdopted returns the containers that this instance has a guest in and has
// not made, once for each guest.
func (p *Provider) listAdopted(ctx context.Context) (found []sandbox.Found, err error) {
	all, err := p.adoptions(func(o owner) bool { return !o.Adopted.Left })
	if err != nil {
		return nil, err
	}
	for b, o := range all {
		at := spot{o.Container, b.guestID}
		seen, err := p.observe(ctx, at)
		if err != nil {
			return nil, err
		}
		if seen.Value == sandbox.StateLost {
			continue // as an engine leaves out what is gone
		}
		ref, err := p.ref(at.String())
		if err != nil {
			return nil, err
		}
		found = append(found, sandbox.Found{Ref: ref, ShortID: at.id[:12], RootTaskID: o.Session, Instance: p.opts.Instance, Condition: seen})
	}
	return found, nil
}

// found describes one line of the engine's list. A list does not say why a
// container ended, so such a one is inspected.
func (p *Provider) found(ctx context.Context, s container.Summary) (sandbox.Found, error) {
	ref, err := p.ref(s.ID)
	if err != nil {
		return sandbox.Found{}, err
	}
	f := sandbox.Found{
		Ref:        ref,
		ShortID:    s.ID[:12],
		RootTaskID: p.claimed(s.Labels),
		Instance:   s.Labels[labelInstance],
		Image:      s.Image,
		CreatedAt:  time.Unix(s.Created, 0),
	}
	if s.State == container.StateRunning {
		f.Condition = condition(&container.State{Status: s.State, Running: true})
		return f, nil
	}
	f.Condition, err = p.observe(ctx, spot{id: s.ID})
	return f, err
}

// claimed returns the session that a container was made for, where this data
// directory says the same as the labels. A directory that was copied or brought
// back from a backup has the instance of another one, which may be alive: what
// that has made since is nobody's to judge here. What is no sandbox, but was made
// for a moment on the way to one, has no directory and holds nothing.
func (p *Provider) claimed(labels map[string]string) string {
	if labels[labelSandbox] == "" {
		return labels[labelSession]
	}
	b, err := p.box(labels[labelSandbox])
	if err != nil {
		return ""
	}
	note, ok := b.read()
	if !ok || note.Session != labels[labelSession] {
		return ""
	}
	return note.Session
}
