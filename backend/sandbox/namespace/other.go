//go:build !linux

package namespace

import (
	"context"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

var errLinux = fmt.Errorf("%w: the namespace wall needs Linux; use a container engine", sandbox.ErrNoWall)

// Provider is never made on this system.
type Provider struct{}

var _ sandbox.Provider = (*Provider)(nil)

// New returns an error that wraps sandbox.ErrNoWall.
func New(Options) (*Provider, error) { return nil, errLinux }

// Probe returns what New does.
func (*Provider) Probe(context.Context) error { return errLinux }

// Close does nothing.
func (*Provider) Close() error { return nil }

// Allocate implements sandbox.Provider.
func (*Provider) Allocate(context.Context, string, sandbox.Spec) (sandbox.Handle, error) {
	return sandbox.Handle{}, errLinux
}

// Attach implements sandbox.Provider.
func (*Provider) Attach(context.Context, sandbox.Ref) (sandbox.Handle, error) {
	return sandbox.Handle{}, errLinux
}

// Release implements sandbox.Provider.
func (*Provider) Release(context.Context, string) error { return nil }
