package namespace

import (
	"context"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

var _ sandbox.Checker = (*Provider)(nil)

// Check finds the faults of a spec as Allocate does, and makes nothing.
func (p *Provider) Check(_ context.Context, spec sandbox.Spec) error {
	_, err := p.plan(spec)
	return err
}
