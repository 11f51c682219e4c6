package httpapi

import (
	"encoding/json"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Session is a session as lists and cards show it. Sandbox is what was last
// observed, with its age; it is null on the local wall and before the first
// observation.
type Session struct {
	ID         string             `json:"id"`
	Title      string             `json:"title"`
	Status     task.Status        `json:"status"`
	Detail     string             `json:"detail"`
	Model      string             `json:"model"`
	Workspace  string             `json:"workspace"`
	Wall       sandbox.Wall       `json:"wall"`
	Image      string             `json:"image"`
	Network    string             `json:"network"`
	User       string             `json:"user"`
	ShortID    string             `json:"short_id"`
	Ref        sandbox.Ref        `json:"ref"`
	Sandbox    *sandbox.Condition `json:"sandbox"`
	Step       string             `json:"step"` // of an allocation under way
	Approvals  task.Approvals     `json:"approvals"`
	Waiting    []Waiting          `json:"waiting"`
	Running    []string           `json:"running"` // call ids
	Generation int64              `json:"generation"`
	CreatedAt  time.Time          `json:"created_at"`
	UpdatedAt  time.Time          `json:"updated_at"`
	Seq        int64              `json:"seq"`
}

// Waiting is a tool call that waits for a decision.
type Waiting struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
}

// OpenRequest opens a session. Nothing is needed: what is left out takes the
// configured default, and a session without a Goal waits for its first message.
type OpenRequest struct {
	Title     string         `json:"title"`
	Goal      string         `json:"goal"`
	Workspace string         `json:"workspace"` // absolute; "" makes an empty one in the data directory
	Model     string         `json:"model"`
	Spec      sandbox.Spec   `json:"spec"`
	Approvals task.Approvals `json:"approvals"`
	OneShot   bool           `json:"one_shot"`
}

// Accepted answers a command: it was recorded, and its effect will show in the events.
type Accepted struct {
	SessionID string `json:"session_id"`
}

// MessageRequest sends a message.
type MessageRequest struct {
	Text string `json:"text"`
}

// DecisionRequest answers an approval.
type DecisionRequest struct {
	Allow  bool   `json:"allow"`
	Reason string `json:"reason"`
}

// ReleaseRequest releases a session's sandbox. How is "remove" (default),
// "keep" or "stop".
type ReleaseRequest struct {
	How string `json:"how"`
}

// RenameRequest changes a session's title.
type RenameRequest struct {
	Title string `json:"title"`
}

// ToolRequest makes one tool call by hand.
type ToolRequest struct {
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"`
}

// ToolResponse is the structured result of a tool call.
type ToolResponse struct {
	Type      string          `json:"type"` // "tool_result"
	SessionID string          `json:"session_id"`
	CallID    string          `json:"call_id"`
	Tool      string          `json:"tool"`
	Status    task.CallStatus `json:"status"`
	Text      string          `json:"text"`
	Display   any             `json:"display"`
	Where     execenv.Where   `json:"where"`
	TookMS    int64           `json:"took_ms"`
}

// ExecRequest is the first message of an exec socket; binary messages are input
// after it, an empty one its end. The server answers with binary messages, one
// byte of stream (1 or 2) before the data, and last an ExecResult as text. An
// empty message of the server says nothing: it looks whether the client is there.
type ExecRequest struct {
	Argv  []string `json:"argv"`
	Dir   string   `json:"dir"`
	Env   []string `json:"env"`
	Stdin bool     `json:"stdin"`
}

// ExecResult ends an exec socket.
type ExecResult struct {
	Outcome *execenv.Outcome `json:"outcome"`
	Error   *ErrorBody       `json:"error"`
}

// About says what this server is and what it can offer.
type About struct {
	Version      string       `json:"version"`
	Commit       string       `json:"commit"`
	Instance     string       `json:"instance"`
	DataDir      string       `json:"data_dir"`
	PID          int          `json:"pid"`
	StartedAt    time.Time    `json:"started_at"`
	Models       []string     `json:"models"`
	DefaultModel string       `json:"default_model"`
	DefaultWall  sandbox.Wall `json:"default_wall"` // "" when none is available
	DefaultImage string       `json:"default_image"`
	Walls        []WallInfo   `json:"walls"`
	Images       []string     `json:"images"` // local ones, on the docker wall
}

// Image names an image that was made.
type Image struct {
	Image string `json:"image"`
}

// WallInfo says whether a wall can be used, what it is worth, and what to do
// where it cannot.
type WallInfo struct {
	Wall      sandbox.Wall `json:"wall"`
	Available bool         `json:"available"`
	Detail    string       `json:"detail"` // version and endpoint, or what is missing
	Fix       string       `json:"fix"`
	Worth     string       `json:"worth"` // what it keeps apart, in plain words
}

// Doctor is the result of all checks.
type Doctor struct {
	OK     bool    `json:"ok"` // at least one wall, and nothing broken
	Checks []Check `json:"checks"`
}

// Check is one check of the doctor.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // "ok", "warn", "fail"
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// Container is the card of a session's sandbox, read back from the engine, the
// kernel and the guest.
type Container struct {
	Condition   sandbox.Condition    `json:"condition"`
	Description *sandbox.Description `json:"description"`
	Hello       *wire.Hello          `json:"hello"`
	Stats       *wire.Stats          `json:"stats"`
	Error       string               `json:"error"` // why a part is missing
}

// ErrorResponse is the body of every answer with a status of 400 or more.
type ErrorResponse struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody names what went wrong and, for bad input, the field.
type ErrorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

// Frame is one message of the events socket, in either direction. Type says
// which fields are set:
//
//	server: hello{version, seq} · sessions{sessions} · session{session} ·
//	        event{session_id, event} · caught_up{session_id, seq} ·
//	        live{live} · dropped{session_id} · ping{at} · error{error}
//	client: subscribe{session_id, after} · unsubscribe{session_id}
//
// Events carry a seq and are never dropped; live frames have none and may be.
type Frame struct {
	Type      string       `json:"type"`
	Version   string       `json:"version,omitempty"`
	Instance  string       `json:"instance,omitempty"`
	SessionID string       `json:"session_id,omitempty"`
	Seq       int64        `json:"seq,omitempty"`
	After     int64        `json:"after,omitempty"`
	Sessions  []Session    `json:"sessions,omitempty"`
	Session   *Session     `json:"session,omitempty"`
	Event     *task.Event  `json:"event,omitempty"`
	Live      *stream.Live `json:"live,omitempty"`
	At        *time.Time   `json:"at,omitempty"`
	Error     *ErrorBody   `json:"error,omitempty"`
}
