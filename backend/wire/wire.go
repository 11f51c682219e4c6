// Package wire is what a host and a guest say to each other: the greeting that
// opens a connection, HTTP/1.1 paths and bodies, and the frames of a stream.
// Bodies of file and search requests are the structs of package execenv.
//
// # Connection
//
// The guest speaks first: one line of JSON, a [Greeting]. A peer outside the
// sandbox's pid namespace is trusted; any other one answers with one line, a
// [Proof], and reads one line, a [Verdict]. HTTP/1.1 follows.
//
// # Requests
//
// An agent's request carries HeaderRoot and HeaderGeneration; a lower
// generation than the highest that the guest has seen for that root task is
// answered with 409 and code "fenced". A person's request carries neither. Every error is
// an [Error] with a status of 400 or more.
package wire

import (
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// Version is the wire's version. A guest also serves Version-1.
const Version = 1

// ShutdownTime is what a guest takes at most to end what runs in it and to write down
// what became of that, from its answer to PathShutdown on.
const ShutdownTime = 10 * time.Second

// The headers of a fenced request.
const (
	HeaderRoot       = "Glovebox-Root"
	HeaderGeneration = "Glovebox-Generation"
)

// The paths of the guest's API.
const (
	PathHello    = "/v1/hello"            // GET → Hello
	PathStats    = "/v1/stats"            // GET → Stats
	PathShutdown = "/v1/shutdown"         // POST: kill every call, flush the journal, exit
	PathRun      = "/v1/run"              // POST execenv.Command → frames
	PathCalls    = "/v1/calls"            // GET → []CallInfo
	PathCall     = "/v1/calls/{id}"       // GET ?stdout=N&stderr=N → frames from those offsets
	PathKill     = "/v1/calls/{id}/kill"  // POST KillRequest → execenv.KillReport
	PathStdin    = "/v1/calls/{id}/stdin" // POST raw bytes; the end of the body is the end of input
	PathAck      = "/v1/calls/{id}/ack"   // POST: the host has stored the outcome; forget it

	PathTerminals = "/v1/terminals"           // GET → []execenv.Terminal; POST execenv.TerminalRequest → execenv.Terminal
	PathTerminal  = "/v1/terminals/{id}"      // DELETE: end all of its processes and forget it
	PathView      = "/v1/terminals/{id}/view" // GET ?after=N, an upgrade to frames in both directions

	PathRelay = "/v1/relay" // GET, an upgrade to ProtocolRelay; the last one counts

	PathBrowser      = "/v1/browser"       // GET → Browser
	PathBrowserStart = "/v1/browser/start" // POST → Browser, when it answers
	PathBrowserStop  = "/v1/browser/stop"  // POST → Browser, when nothing of it is left
	PathCDP          = "/cdp"              // GET, a WebSocket of CDP messages; starts the browser

	PathProxy     = "/proxy/{port}"           // any method: what listens on a port inside, with the prefix taken off
	PathProxyRest = "/proxy/{port}/{rest...}" // likewise

	PathRead     = "/v1/files/read"     // POST execenv.ReadRequest → execenv.ReadResult
	PathWrite    = "/v1/files/write"    // POST execenv.WriteRequest → execenv.WriteResult
	PathEdit     = "/v1/files/edit"     // POST execenv.EditRequest → execenv.EditResult
	PathStat     = "/v1/files/stat"     // POST PathRequest → execenv.FileInfo
	PathList     = "/v1/files/list"     // POST PathRequest → execenv.ListResult
	PathChange   = "/v1/files/change"   // POST execenv.ChangeRequest
	PathGlob     = "/v1/files/glob"     // POST execenv.GlobRequest → execenv.GlobResult
	PathGrep     = "/v1/files/grep"     // POST execenv.GrepRequest → execenv.GrepResult
	PathSnapshot = "/v1/files/snapshot" // POST execenv.SnapshotRequest → execenv.SnapshotResult
	PathWatch    = "/v1/files/watch"    // POST WatchDirs → frames, until the connection ends
)

// ProxyPath is the prefix of what listens on a port inside the sandbox.
func ProxyPath(port string) string { return "/proxy/" + port }

// ProtocolView is what the connection of a PathView request is upgraded to.
const ProtocolView = "glovebox-terminal"

// TerminalSize is the payload of FrameResize.
type TerminalSize struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// Greeting is the guest's first line on every connection.
type Greeting struct {
	Version int    `json:"version"`
	GuestID string `json:"guest_id"`
	BootID  string `json:"boot_id"`
	Trusted bool   `json:"trusted"`
	Nonce   []byte `json:"nonce"` // 32 random bytes, for a peer that is not trusted
}

// Proof answers a Greeting that does not trust its peer.
type Proof struct {
	Version   int    `json:"version"`
	Signature []byte `json:"signature"` // Ed25519 over ProofMessage
}

// Verdict answers a Proof.
type Verdict struct {
	OK    bool   `json:"ok"`
	Error string `json:"error"`
}

// Hello says what the guest is.
type Hello struct {
	Version    int       `json:"version"`
	Build      string    `json:"build"` // the guest binary's version
	GuestID    string    `json:"guest_id"`
	BootID     string    `json:"boot_id"`
	StartedAt  time.Time `json:"started_at"`
	Hostname   string    `json:"hostname"`
	Workdir    string    `json:"workdir"`
	UID        int       `json:"uid"` // of commands
	GID        int       `json:"gid"`
	User       string    `json:"user"`
	Home       string    `json:"home"`
	Tag        string    `json:"tag"`       // "gid" or "uts": how a call's processes are known
	FirstTag   int       `json:"first_tag"` // of the groups, where it is "gid"
	LastTag    int       `json:"last_tag"`
	BestEffort bool      `json:"best_effort"` // a command can shed the tag
	Kernel     string    `json:"kernel"`
	Shell      string    `json:"shell"` // path of the sh (or bash) that Bash uses
	Warnings   []string  `json:"warnings"`
}

// Stats is one reading of the sandbox's own use, by cgroup or by /proc.
type Stats struct {
	ObservedAt  time.Time     `json:"observed_at"`
	CPU         time.Duration `json:"cpu"`    // spent in all
	Memory      int64         `json:"memory"` // bytes
	MemoryLimit int64         `json:"memory_limit"`
	PIDs        int           `json:"pids"`
	PIDsLimit   int           `json:"pids_limit"`
	GuestMemory int64         `json:"guest_memory"` // RSS of the guest alone
	Calls       int           `json:"calls"`        // running
	Terminals   int           `json:"terminals"`    // running
	Processes   int           `json:"processes"`    // of commands that run, and what others have left in the background
}

// PathRequest names one path.
type PathRequest struct {
	Path string `json:"path"`
}

// WatchDirs names directories to watch, and, in a FrameChanged, those of them
// that have changed.
type WatchDirs struct {
	Dirs []string `json:"dirs"`
}

// KillRequest asks for the end of a call.
type KillRequest struct {
	Cause string `json:"cause"`
}

// CallInfo is a call that the guest knows.
type CallInfo struct {
	ID        string           `json:"id"`
	Root      string           `json:"root"`
	Argv      []string         `json:"argv"`
	StartedAt time.Time        `json:"started_at"`
	Running   bool             `json:"running"`
	Outcome   *execenv.Outcome `json:"outcome"`
}

// Error is the body of every answer with a status of 400 or more.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Path    string `json:"path"`
	Detail  string `json:"detail"`
}
