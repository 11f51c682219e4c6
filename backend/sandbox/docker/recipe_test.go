package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// someRecipe is one that takes no time: it is made on the tiny image.
func someRecipe(t *testing.T, p *Provider) recipe {
	t.Helper()
	r := recipe{
		name: "test", ref: "glovebox/test-" + strings.ToLower(rand.Text()[:10]) + ":1", base: p.opts.DefaultImage,
		script: "echo '0 upgraded, 1 newly installed, 0 to remove and 0 not upgraded.'; echo 'Setting up something (1.0) ...'; echo made >/made",
		env:    []string{tinyPath, "COLOUR=green"}, command: []string{"sh"}, workdir: "/workspace",
		bootstrap: func(context.Context, func(sandbox.Step)) (io.ReadCloser, error) {
			return nil, errors.New("this machine makes nothing of packages")
		},
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(p.Release(ctx, "root"), p.removeImage(ctx, r.ref)); err != nil {
			t.Error(err)
		}
	})
	return r
}

// builds lists the containers that make an image for a provider.
func builds(t *testing.T, p *Provider, r recipe) (names []string) {
	t.Helper()
	found, err := p.engine.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found {
		if slices.Contains(c.Names, "/"+p.buildName(r)) {
			names = append(names, c.ID)
		}
	}
	return names
}

func TestRecipe_onABase(t *testing.T) {
	p := ownProvider(t)
	r := someRecipe(t, p)
	var said []string
	if err := p.ensure(t.Context(), r, func(s sandbox.Step) { said = append(said, strings.TrimSpace(s.Name+" "+s.Detail)) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(said, "installing packages set up 1 of 1") || !slices.Contains(said, "writing "+r.ref) {
		t.Errorf("steps %q", said)
	}
	img, err := p.engine.ImageInspect(t.Context(), r.ref)
	if err != nil {
		t.Fatal(err)
	}
	c := img.Config
	if len(c.Entrypoint) != 0 || !slices.Equal(c.Cmd, r.command) || c.WorkingDir != "/workspace" || !slices.Contains(c.Env, "COLOUR=green") ||
		c.Labels["org.opencontainers.image.vendor"] != "Glovebox" || c.Labels["org.opencontainers.image.version"] != "test" {
		t.Errorf("image %+v", c)
	}
	h := mustAllocate(t, p, sandbox.Spec{Image: r.ref, Workspace: t.TempDir()})
	if out, code := run(t, p, h, "cat /made; echo $COLOUR"); out != "made\ngreen" || code != 0 {
		t.Errorf("inside: %q, %d", out, code)
	}
	if left := builds(t, p, r); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	said = nil
	if err := p.ensure(t.Context(), r, func(s sandbox.Step) { said = append(said, s.Name) }); err != nil || said != nil {
		t.Errorf("a second time: %v, %q", err, said)
	}
}

func TestRecipe_ofPackages(t *testing.T) {
	p := ownProvider(t)
	r := someRecipe(t, p)
	r.base = "127.0.0.1:1/no/registry:here"
	err := p.ensure(t.Context(), r, nil)
	if err == nil || !strings.Contains(err.Error(), "makes nothing of packages") {
		t.Errorf("where neither works: %v", err)
	}
	root, err := tinyRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the tree is not complete")
	r.bootstrap = func(context.Context, func(sandbox.Step)) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(root[:len(root)/2]), failing{broken})), nil
	}
	if err := p.ensure(t.Context(), r, nil); err == nil {
		t.Error("half a tree became an image")
	}
	if there, err := p.ImageExists(t.Context(), r.ref); err != nil || there {
		t.Errorf("half a tree: an image is there: %v, %v", there, err)
	}
	r.bootstrap = func(context.Context, func(sandbox.Step)) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(root)), nil
	}
	var said []string
	if err := p.ensure(t.Context(), r, func(s sandbox.Step) { said = append(said, s.Name) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(said, "making it of packages") {
		t.Errorf("steps %q", said)
	}
	img, err := p.engine.ImageInspect(t.Context(), r.ref)
	if err != nil {
		t.Fatal(err)
	}
	if c := img.Config; !slices.Equal(c.Cmd, r.command) || c.WorkingDir != "/workspace" || c.Labels["org.opencontainers.image.title"] != "glovebox test" {
		t.Errorf("image %+v", c)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestRecipe_cancelLeavesNothing(t *testing.T) {
	p := ownProvider(t)
	r := someRecipe(t, p)
	p.opts.Version = "test-" + strings.ToLower(rand.Text()[:10])
	r.script += "; echo 'I: waits'; sleep 1000"
	for _, at := range []string{"running the recipe on " + r.base, "installing packages"} {
		ctx, cancel := context.WithCancel(t.Context())
		err := p.ensure(ctx, r, func(s sandbox.Step) {
			if s.Name == at {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %q: %v", at, err)
		}
		if left := builds(t, p, r); len(left) != 0 {
			t.Errorf("cancelled at %q: left behind: %v", at, left)
		}
	}
	// When the engine is writing already, the image is taken away again.
	r.script = "true"
	ctx, cancel := context.WithCancel(t.Context())
	err := p.ensure(ctx, r, func(s sandbox.Step) {
		if s.Name == "writing "+r.ref {
			cancel()
		}
	})
	cancel()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled at the end: %v", err)
	}
	if there, err := p.ImageExists(t.Context(), r.ref); err != nil || there {
		t.Errorf("an image is there: %v, %v", there, err)
	}
	if n := unnamed(t, p, ofVersion(p)); n > 0 {
		t.Errorf("%d images without a name", n)
	}
}

func TestRecipe_failsWithItsLastWords(t *testing.T) {
	p := ownProvider(t)
	r := someRecipe(t, p)
	r.script = "echo 'E: Unable to locate package nonsense' >&2; exit 100"
	err := p.ensure(t.Context(), r, nil)
	if err == nil || !strings.Contains(err.Error(), "exit status 100: E: Unable to locate package nonsense") {
		t.Errorf("err = %v", err)
	}
	// What a server that was killed left behind is no obstacle.
	if _, err := p.engine.ContainerCreate(t.Context(), &container.Config{Image: r.base}, nil, nil, nil, p.buildName(r)); err != nil {
		t.Fatal(err)
	}
	r.script = "true"
	if err := p.ensure(t.Context(), r, nil); err != nil {
		t.Error(err)
	}
	if left := builds(t, p, r); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
