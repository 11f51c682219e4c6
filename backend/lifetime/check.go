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
