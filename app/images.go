package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/docker"
)

// tinyRecipe is what a build of the tiny image is asked for by.
const tinyRecipe = "tiny"

// logLines is how much of a build's log is kept.
const logLines = 200

var _ httpapi.Imager = (*images)(nil)

// images lists the engine's images and builds those that Glovebox has a recipe
// for, each once at a time, in the background: a build belongs to the server, not
// to the window that asked for it.
type images struct {
	docker   *docker.Provider
	standard func(ctx context.Context) (string, error) // the default image
	changed  func()                                    // told after every change of a build; it must not block
	log      *slog.Logger

	life context.Context // of the builds
	end  context.CancelFunc
	work sync.WaitGroup

	mu sync.Mutex

	builds map[string]*build // the last one of each image
	closed bool
}

// build is one build. Its state is guarded by images.mu.
type build struct {
	httpapi.Build
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
}

func newImages(d *docker.Provider, standard func(ctx context.Context) (string, error), changed func(), log *slog.Logger) *images {
	m := &images{docker: d, standard: standard, changed: changed, log: log.With("component", "images"), builds: map[string]*build{}}
	m.life, m.end = context.WithCancel(context.Background())
	return m
}

// close cancels what is being built and waits for its end.
func (m *images) close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.work.Wait()
	return nil
}

// Images implements httpapi.Imager.
func (m *images) Images(ctx context.Context) httpapi.Images {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out := httpapi.Images{Images: []httpapi.ImageInfo{}, Builds: m.Builds()}
	found, err := m.docker.Images(ctx)
	if err == nil {
		out.Default, err = m.standard(ctx)
	}
	if err != nil {
		out.Error = err.Error()
	}
	for _, img := range found {
		out.Images = append(out.Images, httpapi.ImageInfo(img))
	}
	return out
}

// Builds implements httpapi.Imager.
func (m *images) Builds() []httpapi.Build {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []httpapi.Build{}
	for _, b := range m.builds {
		all = append(all, b.snapshot())
	}
	slices.SortFunc(all, func(a, b httpapi.Build) int { return cmp.Compare(a.Image, b.Image) })
	return all
}

// snapshot is a copy that the build does not write to any more.
func (b *build) snapshot() httpapi.Build {
	s := b.Build
	s.Log = slices.Clone(s.Log)
	return s
}

// Build implements httpapi.Imager.
func (m *images) Build(image string) (httpapi.Build, error) {
	if image != tinyRecipe {
		return httpapi.Build{}, &sandbox.FieldError{Field: "image", Reason: fmt.Sprintf("there is no recipe for %q; choose %s", image, tinyRecipe)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return httpapi.Build{}, fmt.Errorf("build %s: the server is ending: %w", image, context.Canceled)
	}
	if b := m.builds[image]; b != nil && b.State == httpapi.BuildRunning {
		return b.snapshot(), nil
	}
	ctx, cancel := context.WithCancel(m.life)
	b := &build{
		Build: httpapi.Build{
			Kind: httpapi.KindBuild, Image: image, Ref: m.docker.TinyImage(), State: httpapi.BuildRunning, Step: "ask the engine",
			Log: []string{}, StartedAt: time.Now().UTC(),
		},
		cancel: cancel,
		done:   make(chan struct{}),
	}
	m.builds[image] = b
	m.work.Go(func() { m.run(ctx, b) })
	return b.snapshot(), nil
}

// run is one build from its start to its end.
func (m *images) run(ctx context.Context, b *build) {
	defer close(b.done)
	defer b.cancel()
	m.changed()
	_, err := m.docker.ImportTiny(ctx, func(step string) { m.step(b, step) })
	m.mu.Lock()
	ended := time.Now().UTC()
	b.EndedAt, b.Step = &ended, ""
	switch {
	case err == nil:
		b.State = httpapi.BuildDone
		b.note(b.Ref + " is there")
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		b.State = httpapi.BuildCancelled
		b.note("cancelled")
	default:
		b.State, b.Error = httpapi.BuildFailed, strings.ToValidUTF8(err.Error(), "\ufffd")
		b.note(b.Error)
	}
	state := b.State
	m.mu.Unlock()
	m.log.Info("image build", "image", b.Image, "state", state, "took", ended.Sub(b.StartedAt), "err", err)
	m.changed()
}

func (m *images) step(b *build, step string) {
	m.mu.Lock()
	b.Step = step
	b.note(step)
	m.mu.Unlock()
	m.changed()
}

// note adds a line to the log. images.mu is held.
func (b *build) note(line string) {
	b.Log = append(b.Log, line)
	if over := len(b.Log) - logLines; over > 0 {
		b.Log = slices.Delete(b.Log, 0, over)
	}
}

// Remove implements httpapi.Imager.
func (m *images) Remove(ctx context.Context, image string) error {
	return m.docker.RemoveImage(ctx, image)
}

// Cancel implements httpapi.Imager.
func (m *images) Cancel(ctx context.Context, image string) (httpapi.Build, error) {
	m.mu.Lock()
	b := m.builds[image]
	if b == nil || b.State != httpapi.BuildRunning {
		m.mu.Unlock()
		return httpapi.Build{}, fmt.Errorf("cancel %q: %w", image, httpapi.ErrNoBuild)
	}
	m.mu.Unlock()
	b.cancel()
	select {
	case <-b.done:
	case <-ctx.Done():
		return httpapi.Build{}, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return b.snapshot(), nil
}
