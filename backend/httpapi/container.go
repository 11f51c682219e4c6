package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// How many lines of a sandbox's log are told: where nothing is said, and at most.
const (
	someLines = 200
	mostLines = 5000
)

// logs answers with the last lines that a sandbox's own process wrote.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	tail := someLines
	if r.URL.Query().Has("tail") {
		n, err := strconv.Atoi(r.URL.Query().Get("tail"))
		if err != nil || n < 1 || n > mostLines {
			s.fail(w, r, &sandbox.FieldError{Field: "tail", Reason: fmt.Sprintf("is not a number from 1 to %d", mostLines)})
			return
		}
		tail = n
	}
	text, err := s.o.Sessions.Logs(r.Context(), r.PathValue("id"), tail)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, Logs{Text: text, At: time.Now().UTC()})
}
