package httpapi

import (
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox/backend/session"
)

// SnapshotRequest keeps what a session's sandbox holds as an image,
// glovebox/snapshot:NAME, of which other sandboxes can be made. Mounts, the
// workspace among them, are not part of it. The sandbox is paused meanwhile.
//
// It answers when the image is there, which may take minutes: see Session.Work
// for how far it has come, and work/cancel to call it off.
type SnapshotRequest struct {
	Name string `json:"name"` // letters, digits and _ . -; "" makes one of the session's id and the time
}

// Snapshot is an image that was made of a sandbox.
type Snapshot struct {
	Image  string `json:"image"` // "glovebox/snapshot:NAME"
	ID     string `json:"id"`    // short
	Size   int64  `json:"size"`  // with all that it is made on
	TookMS int64  `json:"took_ms"`
}

// ForkRequest makes another session that goes on from this one's conversation.
//
// Sandbox is "snapshot" (a sandbox of its own, with what this one holds now),
// "fresh" (of its own, from the same image; the default) or "share" (the same
// sandbox, which is there until the last session that shares it lets go).
// Workspace is "share" (the same directory; the default) or "copy" (of its own).
//
// It answers as SnapshotRequest does, when all is copied; the new session's
// sandbox follows by itself. After a failure, or when it was called off, nothing
// of it is left.
type ForkRequest struct {
	Title     string `json:"title"` // "" is the source's, and that it is a fork
	Sandbox   string `json:"sandbox"`
	Workspace string `json:"workspace"`
}

// Work is a snapshot or a fork of a session that is being made.
type Work struct {
	Kind      string    `json:"kind"` // "snapshot" or "fork"
	Step      string    `json:"step"` // "snapshot of the sandbox", "copy of the workspace"
	Files     int64     `json:"files"`
	Bytes     int64     `json:"bytes"` // copied
	Total     int64     `json:"total"` // to copy; 0 while it is not known, and for a snapshot, of which only the time is
	StartedAt time.Time `json:"started_at"`
}

// Fork says where a session comes from.
type Fork struct {
	SessionID string `json:"session_id"` // the source
	Seq       int64  `json:"seq"`        // of the source's last event that is in it
	Sandbox   string `json:"sandbox"`    // as ForkRequest has it
	Workspace string `json:"workspace"`
}

// RemoveImageRequest removes an image that Glovebox has made.
type RemoveImageRequest struct {
	Image string `json:"image"`
}

// snapshot answers with the image, when it is there.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	req, err := decode[SnapshotRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	snap, err := s.o.Sessions.Snapshot(r.Context(), r.PathValue("id"), req.Name)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, Snapshot{Image: snap.Image, ID: snap.ID, Size: snap.Size, TookMS: snap.Took.Milliseconds()})
}

// fork answers with the new session, when it is recorded.
func (s *Server) fork(w http.ResponseWriter, r *http.Request) {
	req, err := decode[ForkRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	id, err := s.o.Sessions.Fork(r.Context(), r.PathValue("id"), session.Fork{Title: req.Title, Sandbox: req.Sandbox, Workspace: req.Workspace})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, Accepted{SessionID: id})
}

func (s *Server) removeImage(w http.ResponseWriter, r *http.Request) {
	req, err := decode[RemoveImageRequest](r)
	if err == nil {
		err = s.o.Images.Remove(r.Context(), req.Image)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, struct{}{})
}

// forkOf fills in what a session has to do with others.
func forkOf(out *Session, v session.View) {
	if f := v.Fork; f != nil {
		out.Fork = &Fork{SessionID: f.SourceID, Seq: f.Seq, Sandbox: f.Sandbox, Workspace: f.Workspace}
	}
	out.Shares = v.Shares
	if out.Shares == nil {
		out.Shares = []string{}
	}
	if p := v.Work; p != nil {
		out.Work = &Work{Kind: p.Kind, Step: p.Step, Files: p.Files, Bytes: p.Bytes, Total: p.Total, StartedAt: p.StartedAt}
	}
}
