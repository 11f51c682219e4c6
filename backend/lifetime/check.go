package lifetime

import (
	"context"
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
	return c.Check(ctx, spec)
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
