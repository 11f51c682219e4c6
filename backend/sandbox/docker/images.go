package docker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/image"
)

// noTag is the engine's name for an image that has none: a layer that another
// build left behind, or one whose name went to a newer image.
const noTag = "<none>:<none>"

// Image is a name on the engine, with the image that it stands for today.
type Image struct {
	Ref       string
	ID        string // the first 12 digits
	Size      int64
	CreatedAt time.Time
	Ours      bool   // made by Glovebox
	SessionID string // of whose sandbox it is a snapshot; "" for any other image
}

// Images returns the engine's named images, newest first. One with several
// names is there under each.
func (p *Provider) Images(ctx context.Context) ([]Image, error) {
	if _, err := p.connect(ctx); err != nil {
		return nil, err
	}
	found, err := call(ctx, p, "list images", readTimeout, func(ctx context.Context) ([]image.Summary, error) {
		return p.engine.ImageList(ctx, image.ListOptions{})
	})
	if err != nil {
		return nil, err
	}
	images := []Image{}
	for _, img := range found {
		for _, ref := range img.RepoTags {
			if ref == noTag {
				continue
			}
			found := Image{
				Ref:       ref,
				ID:        shortDigest(img.ID),
				Size:      img.Size,
				CreatedAt: time.Unix(img.Created, 0).UTC(),
				Ours:      strings.HasPrefix(ref, "glovebox/"),
			}
			if strings.HasPrefix(ref, snapshotRepo+":") {
				found.SessionID = img.Labels[labelSnapshotSession]
			}
			images = append(images, found)
		}
	}
	slices.SortFunc(images, func(a, b Image) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(a.Ref, b.Ref))
	})
	return images, nil
}

// shortDigest is what people are shown of an image's id.
func shortDigest(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(12, len(id))]
}
