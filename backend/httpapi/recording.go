package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
)

// RecordingPage is a part of what was recorded of a session's browser.
type RecordingPage struct {
	Entries []RecordingEntry `json:"entries"`
	More    bool             `json:"more"` // there are entries behind the last of these
	Info    BrowserRecording `json:"info"`
}

// RecordingEntry is one thing that a recording holds: what the page looked like
// from then on, what the agent did, or that nothing was recorded from then on.
type RecordingEntry struct {
	N     int64     `json:"n"`    // rises; numbers are never used twice
	At    time.Time `json:"at"`   // as the session's events have it; of an action, when it began
	Kind  string    `json:"kind"` // frame, action or gap
	Tab   int       `json:"tab"`
	URL   string    `json:"url"`
	Title string    `json:"title"`

	// Of a frame: what it shows, in CSS pixels, with the page offset_top below its
	// upper edge and scrolled by scroll_x and scroll_y, and the number of the frame
	// that has its picture.
	Width     float64 `json:"width"`
	Height    float64 `json:"height"`
	OffsetTop float64 `json:"offset_top"`
	ScrollX   float64 `json:"scroll_x"`
	ScrollY   float64 `json:"scroll_y"`
	Picture   int64   `json:"picture"`

	Label  string       `json:"label"` // of an action: what; of a gap: why
	Box    *browser.Box `json:"box"`   // of an action, in CSS pixels of the page
	CallID string       `json:"call_id"`
	Failed bool         `json:"failed"`
	Reason string       `json:"reason"` // of a gap: held, idle, ended or erased
}

// recording reads a part of a session's recording.
func (s *Server) recording(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil && r.URL.Query().Has("after") {
		s.fail(w, r, fmt.Errorf("%w: after is not a number", errBody))
		return
	}
	p, err := s.o.Sessions.Recording(r.Context(), r.PathValue("id"), after)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := RecordingPage{Entries: make([]RecordingEntry, len(p.Entries)), More: p.More, Info: BrowserRecording(p.Info)}
	for i, e := range p.Entries {
		out.Entries[i] = RecordingEntry(e)
	}
	reply(w, http.StatusOK, out)
}

// recordedPicture sends a picture of a recording.
func (s *Server) recordedPicture(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	if err != nil {
		s.fail(w, r, fmt.Errorf("%w: a picture has a number", errBody))
		return
	}
	b, err := s.o.Sessions.RecordedPicture(r.Context(), r.PathValue("id"), n)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "image/jpeg")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Header().Set("Cache-Control", "no-store") // it can be erased
	_, _ = w.Write(b)                           // the client may have gone
}
