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

// count reads a number from 1 to most of a request's query, or is otherwise where
// the query has none of that name.
func count(r *http.Request, name string, otherwise, most int) (int, error) {
	if !r.URL.Query().Has(name) {
		return otherwise, nil
	}
	text := r.URL.Query().Get(name)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, &sandbox.FieldError{Field: name, Reason: fmt.Sprintf("%q is not a number from 1 to %d", text, most)}
	}
	return n, nil
}

// logs answers with the last lines that a sandbox's own process wrote.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	tail, err := count(r, "tail", someLines, mostLines)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	text, err := s.o.Sessions.Logs(r.Context(), r.PathValue("id"), tail)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, Logs{Text: text, At: time.Now().UTC()})
}
