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

// What a build of an image is asked for by.
const (
	tinyRecipe     = "tiny"
	standardRecipe = "standard"
)

// logLines is how much of a build's log is kept.
const logLines = 200

var _ httpapi.Imager = (*images)(nil)

// images lists the engine's images, builds those that Glovebox has a recipe for,
// and pulls others, each once at a time, in the background: a build belongs to the
// server, not to the window that asked for it.
type images struct {
	docker   *docker.Provider
	standard func(ctx context.Context) (string, error) // the default image
	changed  func()                                    // told after every change of a build; it must not block
	log      *slog.Logger

	life context.Context // of the builds
	end  context.CancelFunc
	work sync.WaitGroup

	mu sync.Mutex

	builds map[making]*build // the last one of each
	closed bool
}

// making is what there is one of at a time.
type making struct{ kind, image string }

// build is one build or pull. Its state is guarded by images.mu.
type build struct {
	httpapi.Build
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
}

func newImages(d *docker.Provider, standard func(ctx context.Context) (string, error), changed func(), log *slog.Logger) *images {
	m := &images{docker: d, standard: standard, changed: changed, log: log.With("component", "images"), builds: map[making]*build{}}
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
	out.Recipes = []httpapi.Recipe{{Name: standardRecipe, Ref: m.docker.StandardImage()}, {Name: tinyRecipe, Ref: m.docker.TinyImage()}}
	found, err := m.docker.Images(ctx)
	if err == nil {
		out.Default, err = m.standard(ctx)
	}
	if err != nil {
		out.Error = err.Error()
	}
	for _, img := range found {
		out.Images = append(out.Images, httpapi.ImageInfo(img))
		for i := range out.Recipes {
			out.Recipes[i].There = out.Recipes[i].There || out.Recipes[i].Ref == img.Ref
		}
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
	slices.SortFunc(all, func(a, b httpapi.Build) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.Kind, b.Kind))
	})
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
	first := httpapi.Build{Kind: httpapi.KindBuild, Image: image}
	switch image {
	case tinyRecipe:
		first.Ref = m.docker.TinyImage()
		return m.begin(first, func(ctx context.Context, b *build) error {
			_, err := m.docker.ImportTiny(ctx, func(step string) { m.step(b, sandbox.Step{Name: step}) })
			return err
		})
	case standardRecipe:
		first.Ref = m.docker.StandardImage()
		return m.begin(first, func(ctx context.Context, b *build) error {
			_, err := m.docker.MakeStandard(ctx, func(s sandbox.Step) { m.step(b, s) })
			return err
		})
	}
	return httpapi.Build{}, &sandbox.FieldError{Field: "image", Reason: fmt.Sprintf("there is no recipe for %q; choose %s or %s", image, standardRecipe, tinyRecipe)}
}

// Pull implements httpapi.Imager.
func (m *images) Pull(image string) (httpapi.Build, error) {
	ref, err := docker.FullRef(image)
	if err != nil {
		return httpapi.Build{}, err
	}
	return m.begin(httpapi.Build{Kind: httpapi.KindPull, Image: image, Ref: ref}, func(ctx context.Context, b *build) error {
		return m.docker.Pull(ctx, image, func(s sandbox.Step) { m.step(b, s) })
	})
}

// begin makes what first says in the background, unless that is being made.
func (m *images) begin(first httpapi.Build, work func(context.Context, *build) error) (httpapi.Build, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return httpapi.Build{}, fmt.Errorf("%s %s: the server is ending: %w", first.Kind, first.Image, context.Canceled)
	}
	key := making{first.Kind, first.Image}
	if b := m.builds[key]; b != nil && b.State == httpapi.BuildRunning {
		return b.snapshot(), nil
	}
	first.State, first.Step, first.Log, first.StartedAt = httpapi.BuildRunning, "ask the engine", []string{}, time.Now().UTC()
	ctx, cancel := context.WithCancel(m.life)
	b := &build{Build: first, cancel: cancel, done: make(chan struct{})}
	m.builds[key] = b
	m.forgetOld()
	m.work.Go(func() { m.run(ctx, b, work) })
	return b.snapshot(), nil
}

// forgetOld drops the oldest of too many builds that have ended: the names of
// images to pull are anybody's. images.mu is held.
func (m *images) forgetOld() {
	const kept = 20
	for len(m.builds) > kept {
		var oldest making
		for key, b := range m.builds {
			if b.EndedAt != nil && (oldest == making{} || b.EndedAt.Before(*m.builds[oldest].EndedAt)) {
				oldest = key
			}
		}
		if (oldest == making{}) {
			return
		}
		delete(m.builds, oldest)
	}
}

// run is one build from its start to its end.
func (m *images) run(ctx context.Context, b *build, work func(context.Context, *build) error) {
	defer close(b.done)
	defer b.cancel()
	m.changed()
	err := work(ctx, b)
	m.mu.Lock()
	ended := time.Now().UTC()
	b.EndedAt, b.Step, b.BytesPerSecond = &ended, "", 0
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
	m.log.Info("image made", "kind", b.Kind, "image", b.Image, "state", state, "took", ended.Sub(b.StartedAt), "err", err)
	m.changed()
}

// step shows how far a build is. Its log has each step and each thing said of one.
func (m *images) step(b *build, s sandbox.Step) {
	m.mu.Lock()
	if b.Step != s.Name {
		b.note(s.Name)
	}
	if b.Detail != s.Detail && s.Detail != "" {
		b.note(s.Detail)
	}
	b.Step, b.Detail, b.Bytes, b.Total, b.BytesPerSecond = s.Name, s.Detail, s.Bytes, s.Total, s.BytesPerSecond
	m.mu.Unlock()
	m.changed()
}

// note adds a line to the log. images.mu is held.
func (b *build) note(line string) {
	b.Log = append(b.Log, line)
	if over := len(b.Log) - logLines; over > 0 {
		b.Log = slices.Delete(b.Log, 0, over)
		b.Dropped += over
	}
}

// Remove implements httpapi.Imager.
func (m *images) Remove(ctx context.Context, image string) error {
	return m.docker.RemoveImage(ctx, image)
}

// Cancel implements httpapi.Imager.
func (m *images) Cancel(ctx context.Context, kind, image string) (httpapi.Build, error) {
	m.mu.Lock()
	b := m.builds[making{kind, image}]
	if b == nil || b.State != httpapi.BuildRunning {
		m.mu.Unlock()
		return httpapi.Build{}, fmt.Errorf("cancel the %s of %q: %w", kind, image, httpapi.ErrNoBuild)
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
