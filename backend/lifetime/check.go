package lifetime

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Check finds the faults of a spec before anything is made: an unknown wall, and
// what the wall's provider can tell. The error wraps sandbox.ErrSpec or says
// that the engine does not answer.
func (m *Manager) Check(ctx context.Context, spec sandbox.Spec) error {
	if err := m.check(spec); err != nil {
		return err
	}
	p, err := m.provider(spec.Wall)
	if err != nil {
		return err
	}
	c, ok := p.(sandbox.Checker)
	if !ok {
		return nil
	}
	return m.Instead(ctx, spec.Wall, c.Check(ctx, spec))
}

// Instead adds to an error that says that a wall is not available which other one
// is. Other errors, and nil, are returned as they are.
func (m *Manager) Instead(ctx context.Context, wall sandbox.Wall, err error) error {
	if !errors.Is(err, sandbox.ErrNoWall) {
		return err
	}
	if other := m.otherWall(ctx, wall); other != "" {
		return fmt.Errorf("%w. The %s wall is available (--wall %[2]s)", err, other)
	}
	return err
}

// otherWall returns a wall that is available where one is not, "" for none.
func (m *Manager) otherWall(ctx context.Context, than sandbox.Wall) sandbox.Wall {
	for _, wall := range []sandbox.Wall{sandbox.WallDocker, sandbox.WallNamespace} {
		p, ok := m.providers[wall].(sandbox.Prober)
		if !ok || wall == than {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
		err := p.Probe(ctx)
		cancel()
		if err == nil {
			return wall
		}
	}
	return ""
}

// MountsHost reports whether a sandbox behind a wall can be given a directory of
// this machine. Where it cannot, a spec needs no workspace.
func (m *Manager) MountsHost(wall sandbox.Wall) bool {
	p, err := m.provider(wall)
	if err != nil {
		return true
	}
	h, ok := p.(sandbox.HostMounter)
	return !ok || h.MountsHost()
}

// Resolve finds a place behind a wall that a session can be a guest in.
func (m *Manager) Resolve(ctx context.Context, wall sandbox.Wall, name string) (sandbox.Place, error) {
	p, err := m.provider(wall)
	if err != nil {
		return sandbox.Place{}, err
	}
	a, ok := p.(sandbox.Adopter)
	if !ok {
		return sandbox.Place{}, fmt.Errorf("adopt a %s sandbox: %w", wall, sandbox.ErrUnsupported)
	}
	return a.Resolve(ctx, name)
}

// check finds the faults that nobody has to be asked about.
func (m *Manager) check(spec sandbox.Spec) error {
	if spec.Wall == "" {
		return &sandbox.FieldError{Field: "wall", Reason: "no wall was chosen; choose docker or namespace"}
	}
	if _, err := m.provider(spec.Wall); err != nil {
		return err
	}
	return spec.Validate()
}
