package httpapi

import (
	"context"
	"net/http"
)

// Stopped says how many turns a stop of all has met.
type Stopped struct {
	Sessions int `json:"sessions"`
}

// interruptAll stops every turn that runs or waits.
func (s *Server) interruptAll(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), commandTime)
	defer cancel()
	n, err := s.o.Sessions.InterruptAll(ctx)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, Stopped{Sessions: n})
}

// archiveSession puts a session out of sight, or back.
func (s *Server) archiveSession(w http.ResponseWriter, r *http.Request) {
	req, err := decode[ArchiveRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.carryOut(w, r, func(ctx context.Context, id string) error { return s.o.Sessions.Archive(ctx, id, req.Archived) })
}
