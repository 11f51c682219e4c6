package docker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Places lists every container of the engine, running or not, whoever made it;
// see sandbox.Overseer. One list is all that the engine is asked for, so the
// causes of ends are those that it can tell.
func (p *Provider) Places(ctx context.Context) ([]sandbox.Place, error) {
	if _, err := p.connect(ctx); err != nil {
		return nil, fmt.Errorf("list the containers: %w", err)
	}
	summaries, err := call(ctx, p, "list the containers", readTimeout, func(ctx context.Context) ([]container.Summary, error) {
		return p.engine.ContainerList(ctx, container.ListOptions{All: true})
	})
	if err != nil {
		return nil, err
	}
	guests, err := p.adoptions(func(o owner) bool { return !o.Adopted.Left })
	if err != nil {
		return nil, err
	}
	places := make([]sandbox.Place, 0, len(summaries))
	for _, s := range summaries {
		place := sandbox.Place{
			ID: s.ID, Image: s.Image, Instance: s.Labels[labelInstance], RootTaskID: s.Labels[labelSession],
			CreatedAt: time.Unix(s.Created, 0).UTC(), Ports: portsOf(s.Ports), Condition: summaryCondition(s),
			Network: sandbox.NetworkOpen,
		}
		if s.HostConfig.NetworkMode == "none" {
			place.Network = sandbox.NetworkNone
		}
		if len(s.Names) > 0 {
			place.Name = strings.TrimPrefix(s.Names[0], "/")
		}
		for _, o := range guests {
			if o.Container == s.ID {
				place.Adopted = append(place.Adopted, o.Session)
			}
		}
		slices.Sort(place.Adopted)
		places = append(places, place)
	}
	return places, nil
}

// summaryCondition is what a line of the engine's list says. Its status text is
// for people ("Exited (137) 2 hours ago"), and the only place of the exit code.
func summaryCondition(s container.Summary) sandbox.Condition {
	state := container.State{Status: s.State, Running: s.State == container.StateRunning,
		Paused: s.State == container.StatePaused, Restarting: s.State == container.StateRestarting, Dead: s.State == container.StateDead}
	if _, rest, ok := strings.Cut(s.Status, "("); ok {
		code, _, _ := strings.Cut(rest, ")")
		state.ExitCode, _ = strconv.Atoi(code)
	}
	return condition(&state)
}

func portsOf(ports []container.Port) []string {
	var texts []string
	for _, port := range ports {
		text := fmt.Sprintf("%d/%s", port.PrivatePort, port.Type)
		if port.PublicPort != 0 {
			text = fmt.Sprintf("%s:%d->%s", port.IP, port.PublicPort, text)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// StartPlace starts a container of the engine, whoever made it, or lets a paused
// one go on.
func (p *Provider) StartPlace(ctx context.Context, id string) error {
	if _, err := p.connect(ctx); err != nil {
		return err
	}
	c, err := p.inspectAny(ctx, id)
	switch {
	case err != nil:
		return err
	case c.State.Paused:
		return p.unpause(ctx, id)
	case c.Config.Labels[labelInstance] == p.opts.Instance:
		return p.run(ctx, c) // its mounts are looked at again
	}
	return p.start(ctx, id)
}

// StopPlace stops a container of the engine, whoever made it.
func (p *Provider) StopPlace(ctx context.Context, id string) error {
	if _, err := p.connect(ctx); err != nil {
		return err
	}
	_, err := call(ctx, p, "stop the container", startTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.ContainerStop(ctx, id, container.StopOptions{})
	})
	if isNotFound(err) {
		return gone(id)
	}
	return err
}

// RemovePlace removes a container that this instance made, and no other.
func (p *Provider) RemovePlace(ctx context.Context, id string) error {
	ref, err := p.ref(id)
	if err != nil {
		return err
	}
	return p.Remove(ctx, ref)
}

// PlaceLogs returns the last lines that a container wrote, whoever made it.
func (p *Provider) PlaceLogs(ctx context.Context, id string, tail int) (string, error) {
	if _, err := p.connect(ctx); err != nil {
		return "", err
	}
	c, err := p.inspectAny(ctx, id)
	if err != nil {
		return "", err
	}
	return p.logs(ctx, c.ID, tail, c.Config.Tty)
}

// Changes calls changed after every change of any container, as Watch sees them:
// that has to run.
func (p *Provider) Changes(ctx context.Context, changed func()) error {
	wake := p.listeners.add()
	defer p.listeners.remove(wake)
	for {
		select {
		case <-wake:
			changed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// listeners are woken by changes. A wake says no more than that there was one,
// so that one is enough for many.
type listeners struct {
	mu  sync.Mutex
	all map[chan struct{}]bool
}

func (l *listeners) add() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[chan struct{}]bool{}
	}
	wake := make(chan struct{}, 1)
	l.all[wake] = true
	return wake
}

func (l *listeners) remove(wake chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, wake)
}

func (l *listeners) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for wake := range l.all {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}
