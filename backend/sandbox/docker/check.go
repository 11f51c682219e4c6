package docker

import (
	"context"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

var _ sandbox.Checker = (*Provider)(nil)

// Check finds the faults of a spec as Allocate does, and makes nothing: the
// name of an image's user, which only a container can tell, is left to Allocate.
func (p *Provider) Check(ctx context.Context, spec sandbox.Spec) error {
	if spec.User == "image" {
		spec.User = "host"
	}
	_, err := p.plan(ctx, "check", spec)
	return err
}
