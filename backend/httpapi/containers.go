package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/session"
)

// Containers shows the containers of the docker wall's engine, whoever made them.
// Its methods may be called from several goroutines at once; containers go by
// name, id or the beginning of an id. The error wraps sandbox.ErrGone for none of
// that name, and sandbox.ErrForeign for what is not ours to touch.
type Containers interface {
	// List asks the engine. One that does not answer is told in it.
	List(ctx context.Context) EngineContainers

	// Watch keeps Seen fresh until the returned function is called. The hub's bell
	// is rung whenever it has changed.
	Watch() (end func())
	Seen(ctx context.Context) EngineContainers

	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	Release(ctx context.Context, name, how string) error
	Logs(ctx context.Context, name string, tail int) (string, error)
}

func (s *Server) listContainers(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, s.o.Containers.List(r.Context()))
}

// attachContainer opens a session whose sandbox is a container that is there
// already.
func (s *Server) attachContainer(w http.ResponseWriter, r *http.Request) {
	req, err := decode[AttachRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	name := r.PathValue("container")
	id, err := s.o.Sessions.Open(r.Context(), session.Open{
		Title: req.Title, Goal: req.Goal, Model: req.Model, Agent: req.Agent, Approvals: req.Approvals,
		Spec: sandbox.Spec{Wall: sandbox.WallDocker, Adopt: name, Workdir: req.Workdir},
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, Accepted{SessionID: id})
}

// onContainer answers 202 once a verb without a body has been carried out.
func (s *Server) onContainer(verb func(c Containers, ctx context.Context, name string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.carryOutOn(w, r, func(ctx context.Context, name string) error { return verb(s.o.Containers, ctx, name) })
	}
}

func (s *Server) carryOutOn(w http.ResponseWriter, r *http.Request, verb func(ctx context.Context, name string) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), commandTime)
	defer cancel()
	if err := verb(ctx, r.PathValue("container")); err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, struct{}{})
}

func (s *Server) releaseContainer(w http.ResponseWriter, r *http.Request) {
	req, err := decode[ReleaseRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.carryOutOn(w, r, func(ctx context.Context, name string) error { return s.o.Containers.Release(ctx, name, req.How) })
}

func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	tail, err := count(r, "tail", someLines, 10000)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	text, err := s.o.Containers.Logs(r.Context(), r.PathValue("container"), tail)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, Logs{Text: strings.ToValidUTF8(text, "\ufffd"), At: time.Now().UTC()})
}

// watchContainers begins or ends the watch of a window.
func (e *eventSocket) watchContainers(on bool) {
	switch {
	case on && e.unwatch == nil:
		e.unwatch = e.server.o.Containers.Watch()
	case !on && e.unwatch != nil:
		e.unwatch()
		e.unwatch, e.containers = nil, nil
	}
}

// sendContainers sends the list where it is watched and has changed.
func (e *eventSocket) sendContainers(ctx context.Context) error {
	if e.unwatch == nil {
		return nil
	}
	seen := e.server.o.Containers.Seen(ctx)
	if seen.ObservedAt.IsZero() && seen.Error == "" {
		return nil // the first answer rings
	}
	body, err := json.Marshal(seen)
	if err != nil || bytes.Equal(body, e.containers) {
		return err
	}
	e.containers = body
	return e.send(ctx, Frame{Type: "containers", Containers: &seen})
}
