package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// snapshotsOf are the images of a provider's instance, with a name or without.
func snapshotsOf(t *testing.T, p *Provider) []image.Summary {
	t.Helper()
	found, err := p.engine.ImageList(context.WithoutCancel(t.Context()), image.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", labelSnapshotInstance+"="+p.opts.Instance)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// withoutSnapshots removes at the end what a test's snapshots have left.
func withoutSnapshots(t *testing.T, p *Provider) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := p.Release(ctx, "root"); err != nil {
			t.Error(err)
		}
		for _, img := range snapshotsOf(t, p) {
			if _, err := p.engine.ImageRemove(ctx, img.ID, image.RemoveOptions{Force: true, PruneChildren: true}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestSnapshot_holdsWhatTheSandboxHolds(t *testing.T) {
	p := ownProvider(t)
	withoutSnapshots(t, p)
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir(), User: "root", Env: map[string]sandbox.EnvValue{"SECRET": {Literal: "of-the-session"}}})
	if out, code := run(t, p, h, "mkdir -p /opt/tool && echo made >/opt/tool/mark && echo work >/workspace/in-the-workspace && echo home >$HOME/mine"); code != 0 {
		t.Fatal(out)
	}
	before := mustInspect(t, p, h)
	name := "test-" + strings.ToLower(rand.Text()[:8])
	snap, err := p.Snapshot(t.Context(), refOf(t, h), name)
	if err != nil {
		t.Fatal(err)
	}
	if snap.Image != "glovebox/snapshot:"+name || len(snap.ID) != 12 || snap.Size == 0 || snap.Took <= 0 {
		t.Errorf("Snapshot = %+v", snap)
	}
	if now := mustInspect(t, p, h); !now.State.Running || now.State.Paused || now.State.StartedAt != before.State.StartedAt {
		t.Errorf("the container afterwards: %+v", now.State)
	}
	img, err := p.engine.ImageInspect(t.Context(), snap.Image)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(img.Config.Entrypoint, insideGuest) || strings.Contains(strings.Join(img.Config.Env, " "), "of-the-session") {
		t.Errorf("the image keeps what is the session's: %q %q", img.Config.Entrypoint, img.Config.Env)
	}
	for _, label := range []string{labelInstance, labelSession, labelSandbox} {
		if got := img.Config.Labels[label]; got != "" {
			t.Errorf("label %s = %q; a container by hand would be ours", label, got)
		}
	}
	images, err := p.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(images, func(i Image) bool { return i.Ref == snap.Image })
	if i < 0 || !images[i].Ours || images[i].SessionID != "root" {
		t.Errorf("listed as %+v", images[max(i, 0)])
	}

	if _, err := p.Snapshot(t.Context(), refOf(t, h), name); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := p.Snapshot(t.Context(), refOf(t, h), "../x"); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("a name that is none: %v", err)
	}

	again := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir(), Image: snap.Image, User: "root"})
	if out, code := run(t, p, again, "cat /opt/tool/mark $HOME/mine; ls /workspace; echo \"[$SECRET]\""); code != 0 || out != "made\nhome\n[]" {
		t.Errorf("a sandbox of the snapshot has %q (%d)", out, code)
	}
	if err := p.RemoveImage(t.Context(), snap.Image); !errors.Is(err, sandbox.ErrImageInUse) {
		t.Errorf("RemoveImage of one in use = %v", err)
	}
	second, err := p.Snapshot(t.Context(), refOf(t, again), name+"-2")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Release(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{second.Image, snap.Image} {
		if err := p.RemoveImage(t.Context(), ref); err != nil {
			t.Errorf("RemoveImage(%s) = %v", ref, err)
		}
	}
	if left := snapshotsOf(t, p); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, ref := range []string{"debian:12", snap.Image} {
		if err := p.RemoveImage(t.Context(), ref); !errors.Is(err, sandbox.ErrSpec) {
			t.Errorf("RemoveImage(%s) = %v", ref, err)
		}
	}
}

func TestSnapshot_ofWhatDoesNotRun(t *testing.T) {
	p := ownProvider(t)
	withoutSnapshots(t, p)
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir()})
	if err := p.engine.ContainerPause(t.Context(), h.SandboxID); err != nil {
		t.Fatal(err)
	}
	name := "test-" + strings.ToLower(rand.Text()[:8])
	if _, err := p.Snapshot(t.Context(), refOf(t, h), name+"-paused"); err != nil {
		t.Error(err)
	}
	if now := mustInspect(t, p, h); !now.State.Paused {
		t.Errorf("what a person paused goes on: %+v", now.State)
	}
	if err := p.Stop(t.Context(), refOf(t, h)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Snapshot(t.Context(), refOf(t, h), name+"-stopped"); err != nil {
		t.Error(err)
	}
	if err := p.Release(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Snapshot(t.Context(), refOf(t, h), name+"-gone"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("of one that is not there: %v", err)
	}
}

func TestSnapshot_calledOffLeavesNothing(t *testing.T) {
	p := ownProvider(t)
	withoutSnapshots(t, p)
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir(), User: "root"})
	if out, code := run(t, p, h, "dd if=/dev/urandom of=/big bs=1M count=48 2>&1"); code != 0 {
		t.Fatal(out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	paused := make(chan error, 1)
	wait := actions(t.Context(), p, h.SandboxID, "pause")
	go func() { paused <- wait(); cancel() }()
	_, err := p.Snapshot(ctx, refOf(t, h), "test-"+strings.ToLower(rand.Text()[:8]))
	if werr := <-paused; werr != nil {
		t.Fatal(werr)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Snapshot = %v", err)
	}
	if left := snapshotsOf(t, p); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if now := mustInspect(t, p, h); now.State.Paused || !now.State.Running {
		t.Errorf("the container afterwards: %+v", now.State)
	}

	// One that a process left when it died goes with the next snapshot.
	config, err := p.snapshotConfig(t.Context(), mustInspect(t, p, h))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.engine.ContainerCommit(t.Context(), h.SandboxID, container.CommitOptions{Config: config}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Snapshot(t.Context(), refOf(t, h), "test-"+strings.ToLower(rand.Text()[:8])); err != nil {
		t.Fatal(err)
	}
	if left := snapshotsOf(t, p); len(left) != 1 || left[0].RepoTags[0] == noTag {
		t.Errorf("left: %v", left)
	}
}

// actions returns what waits until the engine tells that something has happened to a
// container since.
func actions(ctx context.Context, p *Provider, id, action string) (wait func() error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	// It returns when the engine has answered.
	seen, failed := p.engine.Events(ctx, events.ListOptions{Filters: filters.NewArgs(filters.Arg("container", id), filters.Arg("event", action))})
	return func() error {
		defer cancel()
		select {
		case <-seen:
			return nil
		case err := <-failed:
			return err
		}
	}
}
