package httpapi

import (
	"context"
	"errors"
	"net/http"
)

// ErrNoBuild says that no build or pull of an image runs that could be cancelled.
var ErrNoBuild = errors.New("nothing is being made of this image")

// Imager lists and makes the images of the docker wall. Its methods may be called
// from several goroutines at once.
type Imager interface {
	// Images lists what there is. An engine that does not answer is told in it.
	Images(ctx context.Context) Images

	// Builds returns the last build of each image, as it stands. The hub's bell
	// is rung whenever one has changed.
	Builds() []Build

	// Build starts a build, or joins the one that runs, and does not wait for
	// it. An image without a recipe is a *sandbox.FieldError.
	Build(image string) (Build, error)

	// Remove removes an image that Glovebox has made and that nothing uses.
	Remove(ctx context.Context, image string) error

	// Pull begins to get an image from its registry, or joins the pull that
	// runs, and does not wait for it. A name that no registry can have is a
	// *sandbox.FieldError.
	Pull(image string) (Build, error)

	// Cancel ends a running build or pull, by its kind, and returns when nothing
	// of it is left. A sandbox that waits for the same pull goes on with it. The
	// error wraps ErrNoBuild when none runs.
	Cancel(ctx context.Context, kind, image string) (Build, error)
}

// The kinds of a Build.
const (
	KindBuild = "build" // by a recipe
	KindPull  = "pull"  // from a registry
)

// The states of a Build.
const (
	BuildRunning   = "running"
	BuildDone      = "done"
	BuildFailed    = "failed"
	BuildCancelled = "cancelled"
)

func (s *Server) listImages(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, s.o.Images.Images(r.Context()))
}

func (s *Server) buildImage(w http.ResponseWriter, r *http.Request) {
	s.onImage(w, r, func(_ context.Context, image string) (Build, error) { return s.o.Images.Build(image) })
}

func (s *Server) pullImage(w http.ResponseWriter, r *http.Request) {
	s.onImage(w, r, func(_ context.Context, image string) (Build, error) { return s.o.Images.Pull(image) })
}

// cancelImage cancels what is made of an image in one way.
func (s *Server) cancelImage(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.onImage(w, r, func(ctx context.Context, image string) (Build, error) { return s.o.Images.Cancel(ctx, kind, image) })
	}
}

func (s *Server) onImage(w http.ResponseWriter, r *http.Request, verb func(ctx context.Context, image string) (Build, error)) {
	req, err := decode[BuildRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandTime)
	defer cancel()
	build, err := verb(ctx, req.Image)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, build)
}
