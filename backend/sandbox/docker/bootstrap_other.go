//go:build !linux

package docker

import (
	"context"
	"errors"
	"io"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// bootstrapDebian needs Linux: packages run their own programs.
func bootstrapDebian(context.Context, func(sandbox.Step)) (io.ReadCloser, error) {
	return nil, errors.New("an image is made of packages on Linux alone; let the engine reach a registry")
}
