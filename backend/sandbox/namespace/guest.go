//go:build linux

package namespace

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// publicKey is what the guest proves peers against; the private half is derived
// again whenever it is needed.
func (p *Provider) publicKey(id string) []byte {
	return client.DeriveKey(p.opts.Secret, id).Public().(ed25519.PublicKey)
}

func (p *Provider) client(b *box, dial sandbox.DialFunc) *client.Client {
	return client.New(client.Options{Dial: dial, GuestID: b.ID, Key: client.DeriveKey(p.opts.Secret, b.ID)})
}

// greet waits until the guest has answered, or its process has ended. The
// listener is older than the guest, so a connection waits for it and there is
// nothing to try again.
func (p *Provider) greet(ctx context.Context, b *box, dial sandbox.DialFunc, proc *process) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Ready)
	defer cancel()
	ended := errors.New("the guest ended")
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if proc.wait(ctx) == nil {
			stop(ended)
		}
	})
	defer wg.Wait()
	defer stop(nil)

	c := p.client(b, dial)
	defer c.Close()
	hello, err := c.Hello(ctx)
	switch {
	case errors.Is(context.Cause(ctx), ended):
		return fmt.Errorf("%w%s", ended, b.lastWords())
	case context.Cause(ctx) != nil:
		return fmt.Errorf("the guest does not answer: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("the guest does not answer: %w", err)
	case hello.GuestID != b.ID:
		return fmt.Errorf("the guest of another sandbox answers: %s", short(hello.GuestID))
	}
	return nil
}
