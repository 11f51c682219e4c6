package docker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/registrytest"
)

// withRegistry returns a provider on the machine's engine and a registry that the
// engine reaches. Images that it gets there go with the test.
func withRegistry(t *testing.T) (*Provider, *registrytest.Registry, func(nameTag string) string) {
	t.Helper()
	p := ownProvider(t)
	r := registrytest.Start(t)
	return p, r, func(nameTag string) string {
		ref := r.Image(nameTag)
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			if err := p.Release(ctx, "root"); err != nil {
				t.Error(err)
			}
			p.engine.ImageRemove(ctx, ref, image.RemoveOptions{Force: true, PruneChildren: true})
		})
		return ref
	}
}

// halfWay waits until a held pull has shown that half of the layer has come.
func halfWay(t *testing.T, steps <-chan sandbox.Step) sandbox.Step {
	t.Helper()
	limit := time.After(20 * time.Second)
	var last sandbox.Step
	for {
		select {
		case s := <-steps:
			last = s
			if s.Bytes >= registrytest.LayerSize/4 {
				return s
			}
		case <-limit:
			t.Fatalf("no progress is shown: %+v", last)
		}
	}
}

// A sandbox of an image that the engine does not have gets it first; the next one
// asks no registry.
func TestAllocate_pullsTheImage(t *testing.T) {
	p, registry, has := withRegistry(t)
	spec := sandbox.Spec{Workspace: t.TempDir(), Image: has("app:1")}
	if err := p.Check(t.Context(), spec); err != nil {
		t.Errorf("Check = %v", err)
	}
	if n, _ := registry.Asked(); n != 0 {
		t.Errorf("Check asked the registry %d times", n)
	}
	var names []string
	_, err := p.AllocateWithProgress(t.Context(), "root", spec, func(s sandbox.Step) { names = append(names, s.Name) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"pulling " + spec.Image, "create", "start", "guest ready"}; !slices.Equal(slices.Compact(names), want) {
		t.Errorf("steps %q, want %q", slices.Compact(names), want)
	}
	before, _ := registry.Asked()
	registry.Refuse(503)
	if _, err := p.Allocate(t.Context(), "root", spec); err != nil {
		t.Errorf("a second sandbox: %v", err)
	}
	if err := p.Pull(t.Context(), spec.Image, nil); err != nil {
		t.Errorf("Pull of an image that is there: %v", err)
	}
	if after, _ := registry.Asked(); after != before {
		t.Errorf("an image that is there asked the registry %d times", after-before)
	}
}

// A pull that is called off half-way ends at once and leaves neither image nor
// container; the one who waits for the same image gets it.
func TestAllocate_pullCancelled(t *testing.T) {
	p, registry, has := withRegistry(t)
	ref := has("app:1")
	host, _, _ := strings.Cut(ref, "/")
	pulled := func(img image.Summary) bool {
		return slices.ContainsFunc(img.RepoDigests, func(d string) bool { return strings.HasPrefix(d, host+"/") })
	}
	registry.Hold()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps, ended := make(chan sandbox.Step, 1024), make(chan error, 1)
	go func() {
		_, err := p.AllocateWithProgress(ctx, "root", sandbox.Spec{Workspace: t.TempDir(), Image: ref}, func(s sandbox.Step) { steps <- s })
		ended <- err
	}()
	if s := halfWay(t, steps); s.Total < registrytest.LayerSize || s.Bytes >= s.Total {
		t.Errorf("half-way it shows %+v", s)
	}
	other := make(chan error, 1)
	go func() { other <- p.Pull(t.Context(), ref, nil) }()
	joined(t, p, 2)

	cancel()
	asked := time.Now()
	if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(asked) > 20*time.Second {
		t.Errorf("cancelled: %v after %v", err, time.Since(asked))
	}
	if left := leftOf(t, p); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	registry.Go()
	if err := <-other; err != nil {
		t.Errorf("the other one: %v", err)
	}
	if _, layers := registry.Asked(); layers != 1 {
		t.Errorf("the layer was asked for %d times", layers)
	}

	// Nobody waits: the engine gives it up too.
	second := has("app:2")
	registry.Hold()
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- p.Pull(ctx, second, func(s sandbox.Step) { steps <- s }) }()
	halfWay(t, steps)
	cancel()
	asked = time.Now()
	if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(asked) > 20*time.Second {
		t.Errorf("cancelled: %v after %v", err, time.Since(asked))
	}
	registry.Abandoned()
	registry.Go()
	if there, err := p.ImageExists(t.Context(), second); err != nil || there {
		t.Errorf("there is an image: %v, %v", there, err)
	}
	if n := unnamed(t, p, pulled); n > 0 {
		t.Errorf("%d images without a name", n)
	}
}

// joined waits until so many wait for the only pull.
func joined(t *testing.T, p *Provider, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		p.pulls.mu.Lock()
		waiters := 0
		for _, pl := range p.pulls.byName {
			waiters += pl.waiters
		}
		p.pulls.mu.Unlock()
		if waiters == n {
			return
		}
	}
	t.Fatalf("%d do not wait for the pull", n)
}

// What a real registry's refusals become is said by the engine's own words, with
// the image and what to do, and nothing is made.
func TestAllocate_pullRefused(t *testing.T) {
	p, registry, has := withRegistry(t)
	ref := has("app:1")
	host, _, _ := strings.Cut(ref, "/")
	for _, test := range []struct {
		name, image string
		refuse      int
		says        []string
	}{
		{"no such tag", host + "/app:9", 0, []string{"check its name and tag"}},
		{"a login", ref, 401, []string{"docker login " + host}},
		{"no registry", "127.0.0.1:1/app:1", 0, []string{"connection refused", "docker load"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			registry.Refuse(test.refuse)
			_, err := p.Allocate(t.Context(), "root", sandbox.Spec{Workspace: t.TempDir(), Image: test.image})
			for _, want := range append(test.says, test.image) {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Allocate = %v; want it to say %q", err, want)
				}
			}
			if left := leftOf(t, p); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}
