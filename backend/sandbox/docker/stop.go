package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// What a guest has to say that it goes, and then to have gone.
const (
	shutdownTimeout = 5 * time.Second
	goTimeout       = wire.ShutdownTime + 2*time.Second
)

// Stop ends what runs in a container and keeps its contents; see
// sandbox.Stopper. The guest is asked first: it ignores signals, since those
// may come from inside.
func (p *Provider) Stop(ctx context.Context, ref sandbox.Ref) error {
	at, err := p.spot(ref)
	if err != nil {
		return err
	}
	id := at.id
	unlock, err := p.starting.lock(ctx, id)
	if err != nil {
		return fmt.Errorf("stop %s: %w", id[:12], err)
	}
	defer unlock()
	if _, err := p.connect(ctx); err != nil {
		return fmt.Errorf("stop %s: %w", id[:12], err)
	}
	c, err := p.inspectSpot(ctx, at)
	if err != nil {
		return err
	}
	if at.guest != "" {
		return p.StopPlace(ctx, id)
	}
	if c.State.Paused { // a frozen guest cannot put its calls in order
		if err := p.run(ctx, c); err != nil {
			return err
		}
	}
	if c.State.Running && !serves(c) {
		p.shutDown(ctx, c)
	}
	_, err = call(ctx, p, "stop the container", startTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.ContainerStop(ctx, id, container.StopOptions{})
	})
	if cerrdefs.IsNotFound(err) {
		return gone(id)
	}
	return err
}

// shutDown asks a guest to end, and waits for that: an engine is less patient. One that
// does not is ended by the engine.
func (p *Provider) shutDown(ctx context.Context, c container.InspectResponse) {
	b, err := p.box(c.Config.Labels[labelSandbox])
	if err != nil {
		return
	}
	h, err := p.handle(c.ID, b, c.Config.WorkingDir, p.guestDial(c, b))
	if err != nil {
		return
	}
	asked, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	guest := p.guestClient(h)
	defer guest.Close()
	if err := guest.Shutdown(asked); err != nil {
		p.log.WarnContext(ctx, "guest did not shut down", "container", h.ShortID, "err", err)
		return
	}
	going, cancel := context.WithTimeout(ctx, goTimeout)
	defer cancel()
	ended, failed := p.engine.ContainerWait(going, c.ID, container.WaitConditionNotRunning)
	select {
	case <-ended:
	case err := <-failed:
		p.log.WarnContext(ctx, "guest has not gone", "container", h.ShortID, "err", err)
	}
}

// The time around the end of a container in which its signals are looked for, and the
// end of its stop.
const (
	signalled = 2 * time.Second // before it, and before that the patience of a stop
	followed  = 3 * time.Second
)

// killedBy says why a container ended by SIGKILL. An engine's stop ends so,
// because the guest ignores the polite signal; and an engine's mark of a full
// memory may be of a command that ended long before. Only the engine's log of
// events tells them apart: a stop ends with its own event, and a kill by hand
// begins with one, which the kernel's has not. The event of a stop can come after
// those who were told of the end have asked, so a stop is known as well by the two
// signals that it sends. cause is the answer where the engine has no better.
//
// All times are of the engine's clock, which may be another machine's.
func (p *Provider) killedBy(ctx context.Context, c container.InspectResponse, cause string) string {
	ended, err := time.Parse(time.RFC3339Nano, c.State.FinishedAt)
	if err != nil {
		return cause
	}
	patience := signalled + 10*time.Second // an engine's own where it was told none
	if c.Config.StopTimeout != nil {
		patience = signalled + time.Duration(*c.Config.StopTimeout)*time.Second
	}
	until := ended.Add(min(max(time.Since(ended), 0), followed) + time.Millisecond)
	better, _ := call(ctx, p, "read the engine's events", readTimeout, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, failed := p.engine.Events(ctx, events.ListOptions{
			Since: ended.Add(-patience).Format(time.RFC3339Nano),
			Until: until.Format(time.RFC3339Nano),
			Filters: filters.NewArgs(
				filters.Arg("container", c.ID),
				filters.Arg("event", string(events.ActionStart)),
				filters.Arg("event", string(events.ActionKill)),
				filters.Arg("event", string(events.ActionStop)),
			),
		})
		found, asked := cause, false
		for {
			select {
			case e := <-stream:
				switch {
				case e.Action == events.ActionStart: // what came before is of another run
					found, asked = cause, false
				case e.Action == events.ActionStop:
					found = sandbox.CauseByHand
				case e.Action == events.ActionKill && e.Actor.Attributes["signal"] == "15":
					asked = true
					if cause == sandbox.CauseExited { // and it heeded that
						found = sandbox.CauseByHand
					}
				case e.Action == events.ActionKill && e.Actor.Attributes["signal"] == "9" && asked:
					found = sandbox.CauseByHand
				case e.Action == events.ActionKill && e.Actor.Attributes["signal"] == "9" && found != sandbox.CauseByHand:
					found = sandbox.CauseKilled
				}
			case err := <-failed: // the client's goroutine has ended
				if errors.Is(err, io.EOF) {
					err = nil
				}
				return found, err
			}
		}
	})
	return better
}
