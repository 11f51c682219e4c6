package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// unbuilt gives a provider a tiny image of its own, which nobody has made yet.
func unbuilt(t *testing.T) *Provider {
	t.Helper()
	p := ownProvider(t)
	p.opts.Version = "test-" + strings.ToLower(rand.Text()[:10])
	p.opts.DefaultImage = p.TinyImage()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := p.Release(ctx, "root"); err != nil {
			t.Error(err)
		}
		p.engine.ImageRemove(ctx, p.TinyImage(), image.RemoveOptions{Force: true, PruneChildren: true})
	})
	return p
}

// unnamed counts the engine's images without a name that are a test's own: others
// come and go.
func unnamed(t *testing.T, p *Provider, own func(image.Summary) bool) (n int) {
	t.Helper()
	found, err := p.engine.ImageList(t.Context(), image.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range found {
		if own(img) && (len(img.RepoTags) == 0 || slices.Contains(img.RepoTags, noTag)) {
			n++
		}
	}
	return n
}

// ofVersion are the images that a provider of a test's own version has made.
func ofVersion(p *Provider) func(image.Summary) bool {
	return func(img image.Summary) bool { return img.Labels["org.opencontainers.image.version"] == p.opts.Version }
}

func TestImages(t *testing.T) {
	p := unbuilt(t)
	ref, err := p.ImportTiny(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	second := "localhost/also-" + strings.ToLower(rand.Text()[:10]) + ":1"
	if err := p.engine.ImageTag(t.Context(), ref, second); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.engine.ImageRemove(context.WithoutCancel(t.Context()), second, image.RemoveOptions{}) })
	images, err := p.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Image{}
	for i, img := range images {
		found[img.Ref] = img
		if i > 0 && img.CreatedAt.After(images[i-1].CreatedAt) {
			t.Errorf("%s is newer than what stands before it", img.Ref)
		}
		if strings.Contains(img.Ref, "<none>") {
			t.Errorf("an image without a name is listed: %+v", img)
		}
	}
	a, b := found[ref], found[second]
	if !a.Ours || b.Ours || a.ID != b.ID || len(a.ID) != 12 || a.Size < 100<<10 || time.Since(a.CreatedAt).Abs() > time.Hour {
		t.Errorf("found %+v and %+v", a, b)
	}
}

func TestImportTiny_cancelled(t *testing.T) {
	p := unbuilt(t)
	for _, at := range []string{"pack busybox", "import " + p.TinyImage()} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := p.ImportTiny(ctx, func(step string) {
			if step == at {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %q: %v", at, err)
		}
		if there, err := p.ImageExists(t.Context(), p.TinyImage()); err != nil || there {
			t.Errorf("cancelled at %q: there is an image: %v, %v", at, there, err)
		}
	}
	// The engine had everything when the cancel came.
	root, err := tinyRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(5*time.Millisecond, cancel)
	if err := p.importTree(ctx, p.TinyImage(), bytes.NewReader(root), createTimeout, "", p.tinyChanges()); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled on the way: %v", err)
	} else if err != nil {
		if there, err := p.ImageExists(t.Context(), p.TinyImage()); err != nil || there {
			t.Errorf("cancelled on the way: there is an image: %v, %v", there, err)
		}
	}
	if n := unnamed(t, p, ofVersion(p)); n > 0 {
		t.Errorf("%d images without a name", n)
	}
	if _, err := p.ImportTiny(t.Context(), nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAllocate_makesTheTinyImage(t *testing.T) {
	p := unbuilt(t)
	spec := sandbox.Spec{Workspace: t.TempDir()}
	if err := p.Check(t.Context(), spec); err != nil {
		t.Errorf("Check = %v", err)
	}
	if there, err := p.ImageExists(t.Context(), p.TinyImage()); err != nil || there {
		t.Errorf("Check made something: %v, %v", there, err)
	}
	var steps []string
	_, err := p.AllocateWithProgress(t.Context(), "root", spec, func(s sandbox.Step) { steps = append(steps, s.Name) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"pack busybox", "import " + p.TinyImage(), "create", "start", "guest ready"}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
}
