package httpapi

import (
	"encoding/json"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
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
	Network    string             `json:"network"` // "proxy", "none" or "open"
	User       string             `json:"user"`
	ShortID    string             `json:"short_id"`
	Ref        sandbox.Ref        `json:"ref"`
	Sandbox    *sandbox.Condition `json:"sandbox"`
	Step       string             `json:"step"`     // of an allocation under way
	Progress   *StepProgress      `json:"progress"` // of the same, with how far it has come; null when none is
	Approvals  task.Approvals     `json:"approvals"`
	Agent      string             `json:"agent"` // the preset
	Plugins    []string           `json:"plugins"`
	Goal       string             `json:"goal"` // as far as 500 bytes of it go
	Archived   bool               `json:"archived"`
	Waiting    []Waiting          `json:"waiting"`
	Running    []string           `json:"running"` // call ids
	Retry      *Retry             `json:"retry"`   // while the turn waits to ask its model again
	Suspended  task.SuspendReason `json:"suspended"`
	Usage      llm.Usage          `json:"usage"`
	CostUSD    *float64           `json:"cost_usd"` // null when a price is not known
	Generation int64              `json:"generation"`
	Adopted    bool               `json:"adopted"` // it is a guest in a container that was there before
	Fork       *Fork              `json:"fork"`    // where it comes from; null for one that is no fork
	Shares     []string           `json:"shares"`  // the other sessions that hold the same sandbox now
	Work       *Work              `json:"work"`    // a snapshot or fork of it that is being made
	CreatedAt  time.Time          `json:"created_at"`
	UpdatedAt  time.Time          `json:"updated_at"`
	Seq        int64              `json:"seq"`
}

// StepProgress is how far a step of an allocation has come. The session's
// interrupt calls the allocation off.
type StepProgress struct {
	Step           string    `json:"step"`   // "pulling debian:12", "create", "start", "guest ready"
	Detail         string    `json:"detail"` // "2 of 5 layers", or ""
	Bytes          int64     `json:"bytes"`
	Total          int64     `json:"total"` // 0 while it is not known
	BytesPerSecond int64     `json:"bytes_per_second"`
	StartedAt      time.Time `json:"started_at"` // of the step
}

// Retry says when a model is asked again, after what.
type Retry struct {
	Attempt  int           `json:"attempt"`
	Attempts int           `json:"attempts"`
	At       time.Time     `json:"at"`
	Kind     llm.ErrorKind `json:"kind"`
	Detail   string        `json:"detail"`
}

// Waiting is a tool call that waits for a person. Kind is "approval", which is
// decided; "question", which is answered in words; or "hands", which asks for
// something to be done in the sandbox's browser and then answered.
type Waiting struct {
	TaskID  string   `json:"task_id"` // the session's, or that of a subtask
	CallID  string   `json:"call_id"`
	Tool    string   `json:"tool"`
	Kind    string   `json:"kind"`
	Reason  string   `json:"reason"`  // of an approval
	Text    string   `json:"text"`    // of a question
	Options []string `json:"options"` // to choose of; other answers are as good
}

// waitsForApproval is the Kind of a Waiting that is no question.
const waitsForApproval = "approval"

// OpenRequest opens a session. Nothing is needed: what is left out takes the
// configured default, and a session without a Goal waits for its first message.
type OpenRequest struct {
	Title     string         `json:"title"`
	Goal      string         `json:"goal"`
	Workspace string         `json:"workspace"` // absolute; "" makes an empty one in the data directory
	Model     string         `json:"model"`
	Agent     string         `json:"agent"` // a preset of About; "" is main
	Spec      sandbox.Spec   `json:"spec"`
	Approvals task.Approvals `json:"approvals"`
	OneShot   bool           `json:"one_shot"`
	Plugins   []string       `json:"plugins"` // of About; null is the configured default, and an empty list none
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

// AnswerRequest answers a question. What is Declined has its reason in Text, or
// none; what was asked to be done by hand and is done needs no Text.
type AnswerRequest struct {
	Text     string `json:"text"`
	Declined bool   `json:"declined"`
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

// ArchiveRequest puts a session out of sight, or back.
type ArchiveRequest struct {
	Archived bool `json:"archived"`
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

// ExecResult ends an exec socket. A command that the end of the server stopped has
// both an outcome and an error.
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
	Models       []ModelInfo  `json:"models"`
	DefaultModel string       `json:"default_model"`
	Agents       []AgentInfo  `json:"agents"`       // the first is the default
	Plugins      []PluginInfo `json:"plugins"`      // what an agent can be given beside its tools
	Home         string       `json:"home"`         // of who runs the server: where folders are picked from
	Window       bool         `json:"window"`       // the /window routes are served
	DefaultWall  sandbox.Wall `json:"default_wall"` // "" when none is available
	DefaultImage string       `json:"default_image"`
	DefaultSpec  sandbox.Spec `json:"default_spec"` // all that a session takes where it names nothing
	Walls        []WallInfo   `json:"walls"`
	Images       []string     `json:"images"` // local ones, on the docker wall
}

// ModelInfo is a model that a session can be given.
type ModelInfo struct {
	Name    string     `json:"name"` // as OpenRequest takes it: "anthropic:NAME"
	Label   string     `json:"label"`
	BaseURL string     `json:"base_url"` // "" for a model that asks nobody
	KeyEnv  string     `json:"key_env"`  // variable that holds its key; "" when it needs none
	KeySet  bool       `json:"key_set"`  // whether that variable is set where the server runs
	Sees    bool       `json:"sees"`     // whether it takes images
	Price   *llm.Price `json:"price"`
}

// AgentInfo is a preset of an agent.
type AgentInfo struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tools       []string `json:"tools"`
}

// PluginInfo is a plugin of an agent.
type PluginInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Default     bool   `json:"default"` // a session that names no plugins has it
}

// Images lists the images of the docker wall's engine, newest first, and the
// builds that run or have ended.
type Images struct {
	Default string      `json:"default"`
	Recipes []Recipe    `json:"recipes"`
	Images  []ImageInfo `json:"images"`
	Builds  []Build     `json:"builds"`
	Error   string      `json:"error"` // why the engine did not list them
}

// Recipe is an image that Glovebox can build: by this name it is asked for.
type Recipe struct {
	Name  string `json:"name"`
	Ref   string `json:"ref"`   // of this version's image
	There bool   `json:"there"` // it was built
}

// ImageInfo is one image.
type ImageInfo struct {
	Ref       string    `json:"ref"`
	ID        string    `json:"id"` // short
	Size      int64     `json:"size"`
	CreatedAt time.Time `json:"created_at"`
	Ours      bool      `json:"ours"`       // made by Glovebox
	SessionID string    `json:"session_id"` // of whose sandbox it is a snapshot; "" for any other image
}

// BuildRequest names an image: to build, one that Glovebox has a recipe for
// ("standard", "tiny"); to pull, as a registry knows it ("debian:12").
type BuildRequest struct {
	Image string `json:"image"`
}

// Build is one making of an image on the engine: by a recipe, or from a registry.
// There is at most one at a time per kind and image.
type Build struct {
	Kind      string     `json:"kind"`  // "build" or "pull"
	Image     string     `json:"image"` // as it was asked for
	Ref       string     `json:"ref"`   // what it makes
	State     string     `json:"state"` // "running", "done", "failed", "cancelled"
	Step      string     `json:"step"`
	Log       []string   `json:"log"`     // steps so far, the last 200
	Dropped   int        `json:"dropped"` // steps before those
	Error     string     `json:"error"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`

	// How far a pull has come, as in StepProgress.
	Detail         string `json:"detail"`
	Bytes          int64  `json:"bytes"`
	Total          int64  `json:"total"`
	BytesPerSecond int64  `json:"bytes_per_second"`
}

// Dirs lists the directories of a directory of the server's machine, for the
// one who picks a workspace.
type Dirs struct {
	Path    string `json:"path"`
	Parent  string `json:"parent"`  // "" at the root
	Refused string `json:"refused"` // why Path itself cannot be a workspace; "" when it can
	Dirs    []Dir  `json:"dirs"`
	More    bool   `json:"more"` // there are more than 1,000
}

// Dir is one directory.
type Dir struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Hidden bool   `json:"hidden"`
}

// MakeDirRequest makes a directory in one that is there.
type MakeDirRequest struct {
	Path string `json:"path"` // absolute
}

// Listing is a directory in a session's sandbox.
type Listing struct {
	Path      string             `json:"path"`
	Entries   []execenv.FileInfo `json:"entries"` // directories first, then by name
	Truncated bool               `json:"truncated"`
}

// FileView is a file in a session's sandbox as a screen shows it. Text is set
// for one that is text, as far as it is read; the bytes of any are at /raw.
type FileView struct {
	Info      execenv.FileInfo `json:"info"`
	Kind      string           `json:"kind"`       // "text", "image", "binary"
	MediaType string           `json:"media_type"` // by content, never by what the file claims
	Text      string           `json:"text"`
	Truncated bool             `json:"truncated"` // Text is the first 2 MiB
	Hash      string           `json:"hash"`      // of the bytes in Text
}

// TerminalSocket is a text message of a terminal's socket. Output travels in
// binary ones: the offset of the data, 8 bytes big-endian, then the data; one
// without data says nothing. A binary message of the client is input.
//
//	server: terminal{terminal} at first, and whenever it changes · error{error}
//	client: resize{cols, rows}
type TerminalSocket struct {
	Type     string            `json:"type"`
	Terminal *execenv.Terminal `json:"terminal,omitempty"`
	Cols     int               `json:"cols,omitempty"`
	Rows     int               `json:"rows,omitempty"`
	Error    *ErrorBody        `json:"error,omitempty"`
}

// Logs are the last lines that a sandbox's own process wrote.
type Logs struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// Isolation is the same probe, made at the same time on the host and in a
// session's sandbox.
type Isolation struct {
	At      time.Time `json:"at"`
	Command string    `json:"command"` // the probe, as it was run on both sides
	Host    Probe     `json:"host"`
	Sandbox Probe     `json:"sandbox"`
}

// Probe is what the kernel told one side.
type Probe struct {
	Hostname     string   `json:"hostname"`
	UID          int      `json:"uid"`
	GID          int      `json:"gid"`
	Kernel       string   `json:"kernel"`
	Processes    int      `json:"processes"`    // that it can see
	Init         string   `json:"init"`         // name of its process 1
	Capabilities string   `json:"capabilities"` // effective, in hexadecimal
	Interfaces   []string `json:"interfaces"`
	Error        string   `json:"error"` // why it is empty
}

// FolderRequest and FolderResponse pick a directory in the window's own dialog.
type FolderRequest struct {
	Start string `json:"start"`
}

// FolderResponse is described at FolderRequest.
type FolderResponse struct {
	Path string `json:"path"` // "" when none was picked
}

// LinkRequest opens an address in the system's browser: http and https alone.
type LinkRequest struct {
	URL string `json:"url"`
}

// NotifyRequest shows a notification of the system.
type NotifyRequest struct {
	Title string `json:"title"`
	Body  string `json:"body"`
}

// WallInfo says whether a wall can be used, what it is worth, and what to do
// where it cannot.
type WallInfo struct {
	Wall      sandbox.Wall `json:"wall"`
	Available bool         `json:"available"`
	Detail    string       `json:"detail"` // version and endpoint, or what is missing
	Fix       string       `json:"fix"`
	Command   string       `json:"command"` // as Check has it
	Worth     string       `json:"worth"`   // what it keeps apart, in plain words
}

// Doctor is the result of all checks.
type Doctor struct {
	OK     bool    `json:"ok"` // at least one wall, and nothing broken
	Checks []Check `json:"checks"`
}

// Check is one check of the doctor.
type Check struct {
	Name    string `json:"name"`
	Status  string `json:"status"` // "ok", "info" (worth knowing, no fault), "warn", "fail"
	Detail  string `json:"detail"`
	Fix     string `json:"fix"`     // what to do, in words; "" when all is well
	Command string `json:"command"` // a line for a shell that does it; "" when there is none
	Recipe  string `json:"recipe"`  // the image whose build does it; "" when there is none
}

// Container is the card of a session's sandbox, read back from the engine, the
// kernel and the guest. Uptime counts from Description.StartedAt; the generation
// is the Session's; whom commands run as is in Hello, by number and name, as the
// guest has read it from the kernel.
//
// Stats.CPU is the processor time in nanoseconds that the sandbox has used since
// it started. Two readings give its load, where 100 is one whole processor:
// 100 × (cpu₂ − cpu₁) / (observed_at₂ − observed_at₁ in nanoseconds). A start in
// between begins anew: a difference below 0 says nothing.
type Container struct {
	Condition   sandbox.Condition    `json:"condition"`
	Description *sandbox.Description `json:"description"`
	Hello       *wire.Hello          `json:"hello"` // null while no call can be made
	Stats       *wire.Stats          `json:"stats"` // the same
	Error       string               `json:"error"` // why a part is missing
}

// EngineContainers are all containers of the docker wall's engine, newest first.
type EngineContainers struct {
	Endpoint   string            `json:"endpoint"` // of the engine
	Why        string            `json:"why"`      // what made it this one: "DOCKER_HOST"
	Containers []EngineContainer `json:"containers"`
	ObservedAt time.Time         `json:"observed_at"` // when the engine was asked
	Error      string            `json:"error"`       // why it did not answer; the list is then the last one
}

// EngineContainer is one container of the engine. Owner is "session" for one that
// a session of this instance has or keeps, "orphan" for one of this instance that
// none does, "instance" for one of another instance, "stranger" for any other. Sessions
// are those that are in it: its own one, and those that have a guest in it.
type EngineContainer struct {
	ID        string            `json:"id"` // full
	ShortID   string            `json:"short_id"`
	Name      string            `json:"name"`
	Image     string            `json:"image"`
	Owner     string            `json:"owner"`
	SessionID string            `json:"session_id"` // whose own it is; "" for one that was not made by a session of this instance
	Sessions  []string          `json:"sessions"`
	Kept      bool              `json:"kept"` // its session let go of it and kept it: attach that session to take it up again
	Condition sandbox.Condition `json:"condition"`
	Ports     []string          `json:"ports"`
	Network   string            `json:"network"`
	CreatedAt time.Time         `json:"created_at"`
}

// AttachRequest opens a session in a container that is there already. What is
// left out takes its default; Approvals is "ask" then.
type AttachRequest struct {
	Title     string         `json:"title"`
	Goal      string         `json:"goal"`
	Model     string         `json:"model"`
	Agent     string         `json:"agent"`
	Workdir   string         `json:"workdir"` // inside; "" is the container's own
	Approvals task.Approvals `json:"approvals"`
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

// Frame is one message of the events socket, in either direction; a message of
// the server may also be a list of frames. Type says which fields are set:
//
//	server: hello{version, seq} · sessions{sessions} · session{session} ·
//	        event{session_id, event} · caught_up{session_id, seq} ·
//	        live{live} · dropped{session_id} · ping{at} · error{error} ·
//	        files{session_id, dirs} · build{build} ·
//	        containers{containers}, the whole list, while it is watched
//	client: subscribe{session_id, after} · unsubscribe{session_id} ·
//	        watch_files{session_id, dirs}, which replaces what was watched before ·
//	        watch_containers · unwatch_containers
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
	Dirs      []string     `json:"dirs,omitempty"`
	Build     *Build       `json:"build,omitempty"`

	Containers *EngineContainers `json:"containers,omitempty"`
}
