package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// BrowserInfo is a look at a session's browser, and at who uses it.
type BrowserInfo struct {
	State       wire.BrowserState `json:"state"`
	ObservedAt  time.Time         `json:"observed_at"`
	Source      string            `json:"source"`  // who says so: "guest", "server" or "host"
	Error       string            `json:"error"`   // why there is none, or why the last start failed
	Version     string            `json:"version"` // of the last start
	Program     string            `json:"program"`
	Sandboxed   bool              `json:"sandboxed"`   // Chromium's own sandbox is around its pages
	Unsandboxed string            `json:"unsandboxed"` // why it is not
	Downloads   string            `json:"downloads"`   // directory
	Viewers     int               `json:"viewers"`
	Control     BrowserControl    `json:"control"`
	Live        bool              `json:"live"` // it can be looked on; false for one that only acts
}

// BrowserControl is who has the browser.
type BrowserControl struct {
	Holder string    `json:"holder"` // the viewer; "" for the agent
	Until  time.Time `json:"until,omitzero"`
	Look   bool      `json:"look"` // the agent has to look before it acts
}

// BrowserRecording is what is kept of a session's browser.
type BrowserRecording struct {
	On     bool      `json:"on"`
	Bytes  int64     `json:"bytes"`
	Limit  int64     `json:"limit"` // over which the oldest go
	From   time.Time `json:"from,omitzero"`
	To     time.Time `json:"to,omitzero"`
	Frames int       `json:"frames"`
	First  int64     `json:"first"` // number of its oldest entry
}

// BrowserSocket is a text message of a viewer's socket. The pictures are binary:
// the length of a JSON head in four bytes, big-endian, that head (relay.Frame),
// and a JPEG. No more than two pictures are on their way that were not got.
//
// To the viewer: "state"; "error", of the message with that ID where it had one;
// "done", with the ID of what was asked for; "clipboard", the answer of "copy";
// "pong". From the viewer: "got", a picture is on the screen; "view", how it is
// looked at; "take", "extend" and "give_back" control; "input" and "command" of
// who has control; "copy", what is selected; "ping".
type BrowserSocket struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"` // the viewer's own, of what it asks for

	State  *relay.State `json:"state,omitempty"`
	Error  *ErrorBody   `json:"error,omitempty"`
	Text   string       `json:"text,omitempty"` // of "clipboard"
	T      float64      `json:"t,omitempty"`    // of "ping", and of its "pong"
	Server *time.Time   `json:"server,omitempty"`

	Seq     uint64         `json:"seq,omitempty"` // of "got"
	Width   float64        `json:"width,omitempty"`
	Height  float64        `json:"height,omitempty"`
	DPR     float64        `json:"dpr,omitempty"`
	Seconds int            `json:"seconds,omitempty"` // of "take" and "extend"; 0 for five minutes
	Input   *relay.Input   `json:"input,omitempty"`
	Command *relay.Command `json:"command,omitempty"`
}

func (s *Server) browserInfo(w http.ResponseWriter, r *http.Request) {
	b, err := s.o.Sessions.BrowserStatus(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, BrowserInfo{
		State: b.State, ObservedAt: b.ObservedAt, Source: b.Source, Error: b.Error, Version: b.Version, Program: b.Program,
		Sandboxed: b.Sandboxed, Unsandboxed: b.Unsandboxed, Downloads: b.Downloads, Viewers: b.Viewers, Live: b.Live,
		Control: BrowserControl{Holder: b.Control.Viewer, Until: b.Control.Until, Look: b.Control.Look},
	})
}

func (s *Server) browserOutline(w http.ResponseWriter, r *http.Request) {
	o, err := s.o.Sessions.BrowserOutline(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, o)
}

// viewBrowser serves one view of a session's browser: see BrowserSocket.
func (s *Server) viewBrowser(w http.ResponseWriter, r *http.Request) {
	view, err := browserViewOf(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	c, release, err := s.accept(w, r)
	if err != nil {
		return
	}
	defer release()
	ctx, cancel := s.o.Token.until(r.Context())
	defer cancel()
	serveBrowser(ctx, s.o.Log, c, func(ctx context.Context) (*session.BrowserView, error) {
		return s.o.Sessions.ViewBrowser(ctx, r.PathValue("id"), view)
	})
}

// How a viewer may look on.
const (
	maxViewer = 64    // characters of its id
	maxSide   = 16384 // CSS pixels of its picture
	maxDPR    = 8
)

var errViewer = errors.New("not a viewer")

// browserViewOf reads how a viewer looks on from the query of its socket.
func browserViewOf(q url.Values) (relay.View, error) {
	v := relay.View{ID: q.Get("viewer")}
	if !isViewer(v.ID) {
		return v, fmt.Errorf("%w: viewer must be 1 to %d letters, digits, - and _", errViewer, maxViewer)
	}
	for name, field := range map[string]*float64{"width": &v.Width, "height": &v.Height, "dpr": &v.DPR} {
		if !q.Has(name) {
			continue
		}
		var err error
		if *field, err = strconv.ParseFloat(q.Get(name), 64); err != nil {
			return v, fmt.Errorf("%w: %s is not a number", errViewer, name)
		}
	}
	if q.Has("quality") {
		var err error
		if v.Quality, err = strconv.Atoi(q.Get("quality")); err != nil || v.Quality < 1 || v.Quality > 100 {
			return v, fmt.Errorf("%w: quality is not 1 to 100", errViewer)
		}
	}
	return v, checkView(v.Width, v.Height, v.DPR)
}

func checkView(width, height, dpr float64) error {
	within := func(v, limit float64) bool { return !math.IsNaN(v) && v >= 0 && v <= limit }
	if !within(width, maxSide) || !within(height, maxSide) || !within(dpr, maxDPR) {
		return fmt.Errorf("%w: a picture is at most %d CSS pixels wide and high, at %d pixels each", errViewer, maxSide, maxDPR)
	}
	return nil
}

func isViewer(id string) bool {
	for _, c := range id {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return id != "" && len(id) <= maxViewer
}
