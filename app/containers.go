package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/docker"
	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// containersFresh is how old a list of containers gets while somebody looks at it.
const containersFresh = 5 * time.Second

var _ httpapi.Containers = (*containers)(nil)

// containers shows what the engine has, and who of us is in it: the engine says
// the first, the sessions the second.
type containers struct {
	docker   *docker.Provider
	sessions *session.Service
	instance string
	changed  func()
	log      *slog.Logger
	wake     chan struct{} // capacity 1: somebody began to look, or something changed

	mu       sync.Mutex
	watchers int
	places   []sandbox.Place
	at       time.Time
	err      error
}

func newContainers(d *docker.Provider, s *session.Service, instance string, changed func(), log *slog.Logger) *containers {
	return &containers{docker: d, sessions: s, instance: instance, changed: changed, log: log.With("component", "containers"), wake: make(chan struct{}, 1)}
}

// run keeps the list fresh while somebody looks, until ctx ends.
func (c *containers) run(ctx context.Context) {
	var follow sync.WaitGroup
	defer follow.Wait()
	follow.Go(func() { c.docker.Changes(ctx, c.nudge) })
	tick := time.NewTicker(containersFresh)
	defer tick.Stop()
	for {
		select {
		case <-c.wake:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if c.watched() {
			c.read(ctx)
			c.changed()
		}
	}
}

func (c *containers) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *containers) watched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watchers > 0
}

// Watch implements httpapi.Containers.
func (c *containers) Watch() (end func()) {
	c.mu.Lock()
	c.watchers++
	c.mu.Unlock()
	c.nudge()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers--
	}
}

// read asks the engine. A list that it does not answer with leaves the last one.
func (c *containers) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	places, err := c.docker.Places(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; err == nil {
		c.places, c.at = places, time.Now().UTC()
	}
}

// List implements httpapi.Containers.
func (c *containers) List(ctx context.Context) httpapi.EngineContainers {
	c.read(ctx)
	return c.Seen(ctx)
}

// Seen implements httpapi.Containers.
func (c *containers) Seen(ctx context.Context) httpapi.EngineContainers {
	c.mu.Lock()
	places, at, err := c.places, c.at, c.err
	c.mu.Unlock()
	out := httpapi.EngineContainers{Containers: []httpapi.EngineContainer{}, ObservedAt: at}
	out.Endpoint, out.Why = c.docker.Endpoint()
	var in map[string][]session.View
	var kept map[string]string
	if err == nil {
		in, kept, err = c.inhabitants(ctx)
	}
	if err != nil {
		out.Error = err.Error()
	}
	for _, p := range places {
		out.Containers = append(out.Containers, c.show(p, in[p.ID], kept[p.ID]))
	}
	return out
}

// inhabitants returns the sessions that hold something in a container, by its id,
// and the session that let go of one and kept it: an attach takes that up again.
func (c *containers) inhabitants(ctx context.Context) (in map[string][]session.View, kept map[string]string, err error) {
	views, err := c.sessions.Views(ctx)
	if err != nil {
		return nil, nil, err
	}
	in, kept = map[string][]session.View{}, map[string]string{}
	for _, v := range views {
		if v.Bound == nil || v.Bound.Wall != sandbox.WallDocker || v.Condition == nil {
			continue
		}
		id, _, _ := strings.Cut(v.Bound.ExecEnvRef.ID(), "+")
		switch {
		case v.Condition.Value.Owned():
			in[id] = append(in[id], v)
		case v.Condition.Value == sandbox.StateDetached && v.Status != task.StatusEnded:
			kept[id] = v.ID
		}
	}
	return in, kept, nil
}

// show puts together what the engine says of a container, who is in it, and who
// keeps it; kept is "" for nobody.
func (c *containers) show(p sandbox.Place, in []session.View, kept string) httpapi.EngineContainer {
	out := httpapi.EngineContainer{
		ID: p.ID, ShortID: p.ID[:min(12, len(p.ID))], Name: p.Name, Image: p.Image, Owner: "stranger",
		Sessions: []string{}, Condition: p.Condition, Ports: p.Ports, Network: string(p.Network), CreatedAt: p.CreatedAt,
	}
	if out.Ports == nil {
		out.Ports = []string{}
	}
	switch p.Instance {
	case "":
	case c.instance:
		out.Owner = "orphan"
	default:
		out.Owner = "instance"
	}
	for _, v := range in {
		out.Sessions = append(out.Sessions, v.ID)
		if v.ID == p.RootTaskID && p.Instance == c.instance {
			out.SessionID = v.ID
		}
	}
	slices.Sort(out.Sessions)
	switch {
	case len(in) > 0:
		out.Owner = "session"
	case kept != "" && out.Owner == "orphan":
		out.Owner, out.SessionID, out.Kept = "session", kept, true
		out.Sessions = []string{kept}
	}
	return out
}

// find returns a container by whatever name, and the sessions in it.
func (c *containers) find(ctx context.Context, name string) (sandbox.Place, []session.View, error) {
	p, err := c.docker.Resolve(ctx, name)
	if err != nil {
		return p, nil, err
	}
	in, _, err := c.inhabitants(ctx)
	return p, in[p.ID], err
}

// own returns the session that a container was made for, where that has it still.
func (c *containers) own(p sandbox.Place, in []session.View) (session.View, bool) {
	i := slices.IndexFunc(in, func(v session.View) bool { return v.ID == p.RootTaskID && p.Instance == c.instance })
	if i < 0 {
		return session.View{}, false
	}
	return in[i], true
}

// Start implements httpapi.Containers.
func (c *containers) Start(ctx context.Context, name string) error {
	p, in, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	if v, ok := c.own(p, in); ok {
		return c.sessions.Attach(ctx, v.ID)
	}
	return c.docker.StartPlace(ctx, p.ID)
}

// Stop implements httpapi.Containers.
func (c *containers) Stop(ctx context.Context, name string) error {
	p, in, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	if v, ok := c.own(p, in); ok {
		return c.sessions.Stop(ctx, v.ID)
	}
	return c.docker.StopPlace(ctx, p.ID)
}

// Release implements httpapi.Containers: what is ours is removed, and a container
// that was there before stays, without the guests that we had in it.
func (c *containers) Release(ctx context.Context, name, how string) error {
	kind, ok := map[string]lifetime.How{"": lifetime.Remove, "remove": lifetime.Remove, "keep": lifetime.Keep, "stop": lifetime.StopOnly}[how]
	if !ok {
		return &sandbox.FieldError{Field: "how", Reason: fmt.Sprintf("unknown way %q; choose remove, keep or stop", how)}
	}
	p, in, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	// Guests leave before the container that they are in does.
	slices.SortFunc(in, func(a, b session.View) int {
		if a.ID == p.RootTaskID {
			return 1
		}
		if b.ID == p.RootTaskID {
			return -1
		}
		return strings.Compare(a.ID, b.ID)
	})
	if v, ok := c.own(p, in); ok && kind == lifetime.StopOnly {
		return c.sessions.Release(ctx, v.ID, kind) // its guests stop with it, and stay bound
	}
	for _, v := range in {
		if err := c.sessions.Release(ctx, v.ID, kind); err != nil {
			return err
		}
	}
	if len(in) > 0 {
		return nil
	}
	if p.Instance == "" {
		return fmt.Errorf("nothing of this glovebox is in the container %s, so there is nothing to release: %w", p.Name, sandbox.ErrForeign)
	}
	switch kind {
	case lifetime.StopOnly:
		return c.docker.StopPlace(ctx, p.ID)
	case lifetime.Keep:
		return nil
	}
	return c.docker.RemovePlace(ctx, p.ID)
}

// Logs implements httpapi.Containers.
func (c *containers) Logs(ctx context.Context, name string, tail int) (string, error) {
	return c.docker.PlaceLogs(ctx, name, tail)
}
