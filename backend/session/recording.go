package session

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/browser/pane"
	"github.com/glovebox-dev/glovebox/backend/browser/recording"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// Recording returns the entries of a session's recording after the one that is
// numbered so. It needs no sandbox: what was recorded is kept as the log is.
func (s *Service) Recording(ctx context.Context, id string, after int64) (recording.Page, error) {
	v, err := s.View(ctx, id)
	if err != nil || s.o.Recordings == nil {
		return recording.Page{}, err
	}
	return s.o.Recordings.Page(v.ID, after)
}

// RecordedPicture returns a picture of a session's recording, a JPEG;
// recording.ErrNoPicture where it is not there.
func (s *Service) RecordedPicture(ctx context.Context, id string, n int64) ([]byte, error) {
	v, err := s.View(ctx, id)
	if err != nil {
		return nil, err
	}
	if s.o.Recordings == nil {
		return nil, recording.ErrNoPicture
	}
	return s.o.Recordings.Picture(v.ID, n)
}

// EraseRecording removes what has been recorded of a session's browser.
func (s *Service) EraseRecording(ctx context.Context, id string) error {
	v, err := s.View(ctx, id)
	if err != nil || s.o.Recordings == nil {
		return err
	}
	return s.o.Recordings.Erase(v.ID)
}

// watchBrowser says which browser the calls of a session's agents are made on.
func (s *Service) watchBrowser(root string, p *pane.Pane) {
	if s.o.Recordings != nil && p.Relay() != nil {
		s.o.Recordings.Watch(root, recording.Source{Relay: p.Relay(), Lease: p.Lease()})
	}
}

// recordCalls has what the browser shows recorded while a call uses it, and marks
// what the call did.
func (s *Service) recordCalls(root string, payloads []task.Payload) {
	if s.o.Recordings == nil {
		return
	}
	for _, p := range payloads {
		switch p := p.(type) { // an agent hands over values, a person's call a pointer
		case task.ToolCallStarted:
			s.recordBegin(root, p)
		case *task.ToolCallStarted:
			s.recordBegin(root, *p)
		case task.ToolResultRecorded:
			s.recordEnd(root, p)
		case *task.ToolResultRecorded:
			s.recordEnd(root, *p)
		}
	}
}

// usesBrowser reports whether a tool acts on the browser; a question to a person
// does not.
func usesBrowser(tool string) bool {
	return strings.HasPrefix(tool, "browser_") && tool != "browser_ask_person"
}

func (s *Service) recordBegin(root string, c task.ToolCallStarted) {
	if usesBrowser(c.Tool) {
		s.o.Recordings.Began(root, c.CallID)
	}
}

func (s *Service) recordEnd(root string, r task.ToolResultRecorded) {
	if !usesBrowser(r.Tool) {
		return
	}
	action := recording.Entry{CallID: r.CallID, Failed: r.Status != task.CallOK}
	var d tools.BrowserDisplay
	if json.Unmarshal(r.Display, &d) == nil && d.Action != "" { // a call that did not run has none
		action.Label = strings.TrimSpace(d.Action + " " + d.Target)
		action.Tab, action.URL, action.Title, action.Box = d.Tab, d.URL, d.Title, d.Box
	}
	s.o.Recordings.Ended(root, action)
}
