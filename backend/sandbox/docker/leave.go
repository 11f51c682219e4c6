package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// leaveTimeout is what a guest has to end its calls and go.
const leaveTimeout = 8 * time.Second

// takeOut ends a guest in a container that was there before it and takes away
// what it brought. A container that does not run is left for later; one that is
// gone has taken all with it.
func (p *Provider) takeOut(ctx context.Context, b box, note owner) error {
	a := note.Adopted
	c, err := p.inspectAny(ctx, note.Container)
	if errors.Is(err, sandbox.ErrGone) {
		p.dropChannels(note.Container, a.socket())
		return b.remove()
	}
	if err != nil {
		return err
	}
	if err := canExec(c); err != nil {
		a.Left = true
		p.log.WarnContext(ctx, "the guest is taken out when the container runs again", "container", c.ID[:12], "dir", a.Dir, "err", err)
		return b.note(note)
	}
	if a.Dir != "" {
		kill := !p.sayGoodbye(ctx, c, b, a)
		p.dropChannels(c.ID, a.socket())
		err := p.takeAway(ctx, c.ID, a, kill)
		if err != nil && a.Exec == "" { // it never ran: half of it may be all that was copied
			arch, noArch := p.archOf(ctx, c)
			if noArch != nil {
				return noArch
			}
			if err = p.putAdoptedTree(ctx, c.ID, arch, a); err == nil {
				err = p.takeAway(ctx, c.ID, a, kill)
			}
		}
		if err != nil {
			return err
		}
	}
	return b.remove()
}

// sayGoodbye asks a guest to end, and reports whether it did.
func (p *Provider) sayGoodbye(ctx context.Context, c container.InspectResponse, b box, a *adopted) bool {
	if a.Exec == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	seen, err := p.engine.ContainerExecInspect(ctx, a.Exec)
	if err == nil && !seen.Running {
		return false // its calls may have outlived it
	}
	guest := p.guestClient(p.adoptedHandle(c.ID, b, a))
	defer guest.Close()
	if err := guest.Shutdown(ctx); err != nil {
		p.log.WarnContext(ctx, "guest did not shut down", "container", c.ID[:12], "err", err)
		return false
	}
	_, err = p.exitCode(ctx, a.Exec)
	return err == nil
}

// takeAway removes what a guest brought, each part as the user that owns it: uid
// 0 may have no right to pass over another's modes. The guest's program does it,
// the last thing that it removes being itself.
func (p *Provider) takeAway(ctx context.Context, id string, a *adopted, kill bool) error {
	if kill {
		argv := []string{a.guest(), "leave", "--kill", a.guest()}
		if a.FirstTag != 0 {
			argv = append(argv, "--tags", fmt.Sprintf("%d-%d", a.FirstTag, a.LastTag))
		}
		if err := p.leave(ctx, id, program{user: "0:0", argv: argv}); err != nil {
			return err
		}
	}
	return p.wipe(ctx, id, a)
}

func (p *Provider) wipe(ctx context.Context, id string, a *adopted) error {
	if err := p.leave(ctx, id, program{user: a.Own, argv: []string{a.guest(), "leave", "--empty", a.box()}}); err != nil {
		return err
	}
	user := "0:0"
	if a.GuestUID == 0 && a.Own != "0:0" {
		// In a tmpfs the directory is its maker's; in a root that was written to by
		// the engine it is uid 0's, and this fails.
		if err := p.leave(ctx, id, program{user: a.Own, argv: []string{a.guest(), "leave", "--dir", a.Dir}}); err == nil {
			return nil
		}
	}
	return p.leave(ctx, id, program{user: user, argv: []string{a.guest(), "leave", "--dir", a.Dir}})
}

// leave runs the guest's program for its last work. One that is not there has done
// that before, and only the word of it was lost; or it was in a tmpfs that is a new
// one since.
func (p *Provider) leave(ctx context.Context, id string, prog program) error {
	out, said, code, err := p.runExec(ctx, id, prog, nil, leaveTimeout)
	missing := func(text string) bool { return strings.Contains(text, "no such file or directory") }
	const notExecuted, notThere = 126, 127
	switch {
	case err != nil && missing(err.Error()), code == notThere, code == notExecuted && missing(string(out)):
		return nil
	case err == nil && code != 0: // what the engine itself has to say is in the output
		err = fmt.Errorf("code %d: %s", code, cmp.Or(said, strings.TrimSpace(string(out))))
	}
	if err != nil {
		return fmt.Errorf("take the guest out of the container %s: %w", id[:12], err)
	}
	return nil
}

// adoptions are this instance's guests in containers that were there before.
func (p *Provider) adoptions(match func(owner) bool) (map[box]owner, error) {
	found := map[box]owner{}
	err := p.eachBox(func(b box, o owner) {
		if o.Adopted != nil && o.Serves == nil && match(o) {
			found[b] = o
		}
	})
	return found, err
}

// takeOutLeft takes out the guests that could not be when they should have been.
func (p *Provider) takeOutLeft(ctx context.Context) {
	left, err := p.adoptions(func(o owner) bool { return o.Adopted.Left })
	for b, o := range left {
		c, inspectErr := p.inspectAny(ctx, o.Container)
		if inspectErr == nil && canExec(c) != nil {
			continue // not yet
		}
		err = errors.Join(err, p.takeOut(ctx, b, o))
	}
	if err != nil {
		p.log.WarnContext(ctx, "a guest is still in a container", "err", err)
	}
}
