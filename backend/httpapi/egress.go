package httpapi

import (
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// EgressRow is one entry of what a sandbox asked of the network. The events of
// the log hold the same, as they come.
type EgressRow struct {
	Seq     int64              `json:"seq"`
	At      time.Time          `json:"at"`
	Decided task.EgressDecided `json:"decided"`
}

// listEgress lists the last decisions about a session's connections.
func (s *Server) listEgress(w http.ResponseWriter, r *http.Request) {
	limit, err := count(r, "limit", 200, session.MaxEgress)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	rows, err := s.o.Sessions.Egress(r.Context(), r.PathValue("id"), limit)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := make([]EgressRow, len(rows))
	for i, row := range rows {
		out[i] = EgressRow{Seq: row.Seq, At: row.At, Decided: row.EgressDecided}
	}
	reply(w, http.StatusOK, out)
}
