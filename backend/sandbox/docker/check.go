package docker

import (
	"context"
	"errors"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

var _ sandbox.Checker = (*Provider)(nil)

// Install says how a machine without an engine gets one.
const Install = "install and start a Docker engine (Debian: apt-get install docker.io; then: dockerd or systemctl start docker)"

// Probe looks whether an engine answers. Where none does the error wraps
// sandbox.ErrNoWall and says what to do.
func (p *Provider) Probe(ctx context.Context) error {
	_, err := p.connect(ctx)
	if !errors.Is(err, sandbox.ErrUnreachable) {
		return err
	}
	text := err.Error()
	if remedy, _ := p.Remedy(err); !Refused(err) && !strings.Contains(text, remedy) {
		text += "; " + remedy
	}
	return &sandbox.WallError{Wall: sandbox.WallDocker, Err: errors.New(text)}
}

// Check finds the faults of a spec as Allocate does, and makes nothing: the
// name of an image's user, which only a container can tell, is left to Allocate,
// and so is what a registry says of an image that the engine does not have. The
// tiny image need not be there, where it can be made.
func (p *Provider) Check(ctx context.Context, spec sandbox.Spec) error {
	if err := p.Probe(ctx); err != nil {
		return err
	}
	if spec.Adopt != "" {
		_, _, err := p.planAdopt(ctx, spec)
		return err
	}
	if spec.User == "image" {
		spec.User = "host"
	}
	pl, err := p.outline(ctx, "check", spec)
	if err != nil {
		return err
	}
	img, there, err := p.checkImage(ctx, pl.image)
	if err != nil || !there {
		return err
	}
	_, err = p.on(ctx, pl, img)
	return err
}
