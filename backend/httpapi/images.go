package httpapi

import (
	"context"
	"errors"
	"net/http"
)

// ErrNoBuild says that no build of an image runs that could be cancelled.
var ErrNoBuild = errors.New("no build of this image is running")

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

	// Cancel ends a running build and returns when nothing of it is left. The
	// error wraps ErrNoBuild when none runs.
	Cancel(ctx context.Context, image string) (Build, error)
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
	req, err := decode[BuildRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	build, err := s.o.Images.Build(req.Image)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, build)
}

func (s *Server) cancelBuild(w http.ResponseWriter, r *http.Request) {
	req, err := decode[BuildRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandTime)
	defer cancel()
	build, err := s.o.Images.Cancel(ctx, req.Image)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, build)
}
