package docker

import (
	"context"
	"slices"

	"github.com/docker/docker/api/types/image"
)

// Images returns the references of the engine's tagged images, sorted.
func (p *Provider) Images(ctx context.Context) ([]string, error) {
	if _, err := p.connect(ctx); err != nil {
		return nil, err
	}
	found, err := call(ctx, p, "list images", readTimeout, func(ctx context.Context) ([]image.Summary, error) {
		return p.engine.ImageList(ctx, image.ListOptions{})
	})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, img := range found {
		for _, tag := range img.RepoTags {
			if tag != "<none>:<none>" {
				names = append(names, tag)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}
