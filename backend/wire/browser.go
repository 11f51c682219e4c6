package wire

import (
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// MaxCDP bounds one message of PathCDP, in both directions. An answer of the
// browser that is larger becomes an error of the one command that it answers.
const MaxCDP = 128 << 20

// BrowserState is what a sandbox's browser does.
type BrowserState string

// The states of a browser.
const (
	BrowserNone     BrowserState = "none" // the sandbox has no program for one
	BrowserStopped  BrowserState = "stopped"
	BrowserStarting BrowserState = "starting"
	BrowserRunning  BrowserState = "running"
	BrowserStopping BrowserState = "stopping"
)

// Browser is one look at a sandbox's browser.
type Browser struct {
	ObservedAt time.Time    `json:"observed_at"`
	State      BrowserState `json:"state"`
	Error      string       `json:"error"`   // with BrowserNone why, else why the last start failed
	Program    string       `json:"program"` // the file that is started
	Version    string       `json:"version"` // "Chrome/156.0.8078.108"; of the last start
	PID        int          `json:"pid"`     // inside the sandbox; 0 unless it runs
	Since      *time.Time   `json:"since"`   // of this start; nil unless it runs

	// Sandboxed says that Chromium's own sandbox is around its pages, inside
	// the wall. Unsandboxed is why it is not.
	Sandboxed   bool   `json:"sandboxed"`
	Unsandboxed string `json:"unsandboxed"`

	Profile   string      `json:"profile"`   // directory
	Downloads string      `json:"downloads"` // directory
	Clients   int         `json:"clients"`   // connections of PathCDP
	LastEnd   *BrowserEnd `json:"last_end"`
}

// The causes of a BrowserEnd.
const (
	BrowserEndStop     = "stop"     // it was asked to
	BrowserEndShutdown = "shutdown" // the sandbox ends
	BrowserEndCrash    = "crash"    // it was killed by a signal, or ended with an error
	BrowserEndExit     = "exit"     // it ended by itself, without an error
)

// BrowserEnd is how a browser ended.
type BrowserEnd struct {
	At     time.Time          `json:"at"`
	Cause  string             `json:"cause"`
	Detail string             `json:"detail"` // "signal: killed", and what it said last
	Kill   execenv.KillReport `json:"kill"`   // of what the first process left behind
}
