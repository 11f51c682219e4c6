package lifetime

import (
	"context"

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
