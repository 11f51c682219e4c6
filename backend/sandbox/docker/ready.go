package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// dial opens a connection to the guest of a box.
func (b box) dial(ctx context.Context) (net.Conn, error) {
	return dialUnix(ctx, b.shared(), socketName)
}

// guestClient talks to the guest of a handle.
func (p *Provider) guestClient(h sandbox.Handle) *client.Client {
	return client.New(client.Options{
		Dial:    h.Dial,
		GuestID: h.GuestID,
		Key:     client.DeriveKey(p.opts.Secret, h.GuestID),
	})
}

// awaitGuest returns when the guest answers, or at once when its container
// ended: then the error holds what it last said.
func (p *Provider) awaitGuest(ctx context.Context, h sandbox.Handle) error {
	limited, cancel := context.WithTimeoutCause(ctx, guestTimeout, errGuestSilent)
	defer cancel()
	exited, waitErr := p.engine.ContainerWait(limited, h.SandboxID, container.WaitConditionNotRunning)

	c := p.guestClient(h)
	defer c.Close()
	// A guest listens some 10 ms after its start, so this is worth asking for
	// often; the dial of a socket that is not there yet costs microseconds.
	const longest = 10 * time.Millisecond
	pause := time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last error
	for {
		select {
		case end := <-exited:
			return p.explainExit(ctx, h.SandboxID, end.StatusCode)
		case <-waitErr:
			waitErr = nil // the engine went silent; the guest may answer all the same
		case <-limited.Done():
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("wait for the guest: %w", err)
			}
			return fmt.Errorf("wait for the guest in %s: %w (%v)%s: %w", h.ShortID, errGuestSilent, last, p.lastWords(ctx, h.SandboxID), sandbox.ErrUnreachable)
		case <-timer.C:
			hello, err := c.Hello(limited)
			if err == nil && hello.GuestID != h.GuestID {
				return fmt.Errorf("the guest in %s says it is %q, not %q: %w", h.ShortID, hello.GuestID, h.GuestID, sandbox.ErrForeign)
			}
			if err == nil {
				return nil
			}
			last = err
			pause = min(2*pause, longest)
			timer.Reset(pause)
		}
	}
}

var errGuestSilent = errors.New("no answer in time")

// explaining is how many lines of a container's log explain its end: a crash of
// the guest says why first, and then where it was.
const explaining = 30

// explainExit makes an error of a container that ended instead of serving.
func (p *Provider) explainExit(ctx context.Context, id string, code int64) error {
	return fmt.Errorf("the container %s ended with code %d before it answered%s: %w", id[:12], code, p.lastWords(ctx, id), sandbox.ErrStopped)
}

// lastWords is the end of a container's log, as it stands behind an error.
func (p *Provider) lastWords(ctx context.Context, id string) string {
	body, err := p.logs(context.WithoutCancel(ctx), id, explaining, false)
	if said := strings.TrimSpace(body); err == nil && said != "" {
		return ": " + said
	}
	return ""
}
