package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

var _ sandbox.Snapshotter = (*Provider)(nil)

// snapshotRepo is what every snapshot is named under.
const snapshotRepo = "glovebox/snapshot"

// The labels of a snapshot. They are others than those of containers, for a
// container that somebody makes of a snapshot by hand is not ours.
const (
	labelSnapshot         = "glovebox.snapshot"          // of one making of one, so that its image is found without a name
	labelSnapshotInstance = "glovebox.snapshot.instance" // that made it
	labelSnapshotSession  = "glovebox.snapshot.session"  // of whose sandbox it is
)

// snapshotTimeout bounds a commit: the engine copies all that the container has
// written, which may be many gigabytes.
const snapshotTimeout = 30 * time.Minute

// removeImageTimeout bounds the removal of an image: the engine deletes file by
// file what may be many gigabytes.
const removeImageTimeout = 5 * time.Minute

// calledOff is how long a snapshot that nobody wants any more is waited for. The
// engine does not end one before it is done.
const calledOff = 10 * time.Second

var snapshotName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// snapshots are those that are being made.
type snapshots struct {
	mu     sync.Mutex
	making map[string]bool // by their label
}

func (s *snapshots) begin(id string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.making == nil {
		s.making = map[string]bool{}
	}
	s.making[id] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.making, id)
	}
}

func (s *snapshots) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.making[id]
}

// Snapshot makes an image of a container; see sandbox.Snapshotter. The engine
// cannot be stopped in it: when ctx ends, Snapshot returns once the engine is done
// and the image is gone again, or after some 10 s: then what comes of it is
// removed by the next call.
func (p *Provider) Snapshot(ctx context.Context, ref sandbox.Ref, name string) (sandbox.Snapshot, error) {
	begun := time.Now()
	at, err := p.spot(ref)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	if !snapshotName.MatchString(name) {
		return sandbox.Snapshot{}, &sandbox.FieldError{Field: "name", Reason: fmt.Sprintf("%q cannot be the tag of an image: up to 128 letters, digits and _ . -, and neither . nor - at first", name)}
	}
	if at.guest != "" {
		return sandbox.Snapshot{}, fmt.Errorf("the container %s was there before the session, and is not paused for it; to make an image of it by hand: docker commit %[1]s NAME: %w", at.id[:12], sandbox.ErrUnsupported)
	}
	if _, err := p.connect(ctx); err != nil {
		return sandbox.Snapshot{}, fmt.Errorf("snapshot %s: %w", at.id[:12], err)
	}
	p.removeUnnamed(ctx)
	c, err := p.inspect(ctx, at.id)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	target := snapshotRepo + ":" + name
	if taken, err := p.ImageExists(ctx, target); err != nil {
		return sandbox.Snapshot{}, err
	} else if taken {
		return sandbox.Snapshot{}, &sandbox.FieldError{Field: "name", Reason: fmt.Sprintf("%s is there already; choose another name, or remove that image first", target)}
	}
	config, err := p.snapshotConfig(ctx, c)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	defer p.snapshots.begin(config.Labels[labelSnapshot])()
	made, err := p.commit(ctx, c.ID, config)
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	img := image.InspectResponse{}
	if made, err = p.withHome(ctx, c, made, config); err == nil {
		img, err = p.nameSnapshot(ctx, made, target)
	}
	if err != nil {
		p.detached(ctx, func(ctx context.Context) error { return p.removeImage(ctx, made) })
		return sandbox.Snapshot{}, err
	}
	took := time.Since(begun)
	p.log.InfoContext(ctx, "snapshot made", "container", c.ID[:12], "image", target, "took", took)
	return sandbox.Snapshot{Image: target, ID: shortDigest(img.ID), Size: img.Size, Took: took}, nil
}

// commit has the engine make an image without a name. The container is paused
// meanwhile, and goes on afterwards, by the engine's own doing. When ctx ends
// first, the image is removed as soon as it is there.
func (p *Provider) commit(ctx context.Context, id string, config *container.Config) (string, error) {
	patient, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(calledOff, giveUp) })()
	made, err := call(patient, p, "commit the container", snapshotTimeout, func(ctx context.Context) (container.CommitResponse, error) {
		return p.engine.ContainerCommit(ctx, id, container.CommitOptions{Config: config, Pause: true})
	})
	switch {
	case cerrdefs.IsNotFound(err):
		return "", gone(id)
	case err != nil && patient.Err() != nil:
		return "", fmt.Errorf("snapshot: %w; the engine has not ended it yet, and what it makes is removed before the next one", ctx.Err())
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		p.detached(ctx, func(ctx context.Context) error { return p.removeImage(ctx, made.ID) })
		return "", fmt.Errorf("snapshot: %w", ctx.Err())
	}
	return made.ID, nil
}

// nameSnapshot gives a committed image its name.
func (p *Provider) nameSnapshot(ctx context.Context, id, target string) (image.InspectResponse, error) {
	img, err := call(ctx, p, "inspect the snapshot", readTimeout, func(ctx context.Context) (image.InspectResponse, error) {
		return p.engine.ImageInspect(ctx, id)
	})
	if err != nil {
		return img, err
	}
	_, err = call(ctx, p, "name the snapshot", readTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.engine.ImageTag(ctx, id, target)
	})
	return img, err
}

// snapshotConfig is the configuration of a snapshot's image: that of the image
// the container was made of. What of the container's own the engine would add,
// and cannot be made to leave out, is emptied: its labels, which would make of
// every container by hand one of ours, for the reaper to remove.
func (p *Provider) snapshotConfig(ctx context.Context, c container.InspectResponse) (*container.Config, error) {
	img, err := call(ctx, p, "inspect the sandbox's image", readTimeout, func(ctx context.Context) (image.InspectResponse, error) {
		return p.engine.ImageInspect(ctx, c.Image)
	})
	if err != nil {
		return nil, err
	}
	config := &container.Config{User: "0:0", WorkingDir: "/", Labels: map[string]string{}}
	for label := range c.Config.Labels {
		config.Labels[label] = ""
	}
	if from := img.Config; from != nil {
		if from.User != "" {
			config.User = from.User
		}
		if from.WorkingDir != "" {
			config.WorkingDir = from.WorkingDir
		}
		config.Env, config.Entrypoint, config.Cmd = from.Env, from.Entrypoint, from.Cmd
		for label, value := range from.Labels {
			config.Labels[label] = value
		}
	}
	if config.Entrypoint == nil {
		config.Entrypoint = []string{} // nil takes the container's, which is the guest
	}
	config.Labels[labelSnapshot] = strings.ToLower(rand.Text())
	config.Labels[labelSnapshotInstance] = p.opts.Instance
	config.Labels[labelSnapshotSession] = c.Config.Labels[labelSession]
	return config, nil
}

// removeUnnamed removes what a process that died in the middle of a snapshot has
// left: an image of this instance that never got its name.
func (p *Provider) removeUnnamed(ctx context.Context) {
	found, err := call(ctx, p, "list half-made snapshots", readTimeout, func(ctx context.Context) ([]image.Summary, error) {
		return p.engine.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(
			filters.Arg("dangling", "true"), filters.Arg("label", labelSnapshotInstance+"="+p.opts.Instance))})
	})
	if err != nil {
		p.log.DebugContext(ctx, "half-made snapshots", "err", err)
		return
	}
	for _, img := range found {
		if p.snapshots.has(img.Labels[labelSnapshot]) {
			continue
		}
		if err := p.removeImage(ctx, img.ID); err != nil {
			p.log.WarnContext(ctx, "half-made snapshot not removed", "image", shortDigest(img.ID), "err", err)
		}
	}
}

func (p *Provider) removeImage(ctx context.Context, id string) error {
	_, err := call(ctx, p, "remove the image", removeImageTimeout, func(ctx context.Context) ([]image.DeleteResponse, error) {
		return p.engine.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
	})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// RemoveImage removes an image that Glovebox has made, by its name. One that is
// not there, or that Glovebox has not made, is a *sandbox.FieldError; the error
// wraps sandbox.ErrImageInUse for one that a container is made of.
func (p *Provider) RemoveImage(ctx context.Context, ref string) error {
	if !strings.HasPrefix(ref, "glovebox/") {
		return &sandbox.FieldError{Field: "image", Reason: fmt.Sprintf("%q is not an image that Glovebox has made; remove it with docker rmi", ref)}
	}
	images, err := p.Images(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(images, func(i Image) bool { return i.Ref == ref }) {
		return &sandbox.FieldError{Field: "image", Reason: fmt.Sprintf("%s is not on this engine", ref)}
	}
	err = p.removeImage(ctx, ref)
	if cerrdefs.IsConflict(err) {
		return fmt.Errorf("%s: %w: release or close what is made of it first (%v)", ref, sandbox.ErrImageInUse, errors.Unwrap(err))
	}
	return err
}
