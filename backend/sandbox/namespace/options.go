package namespace

import (
	"log/slog"
	"time"
)

// BaseURL is the base of every ref of this provider.
const BaseURL = "namespace://local"

// Options are what a Provider needs to know. DataDir, Instance and Secret have
// to be given.
type Options struct {
	DataDir  string // boxes and guests lie below it
	Instance string // sandboxes of other instances are refused
	Secret   []byte // the guests' keys are derived from it
	Version  string // of this Glovebox, noted in each box
	Log      *slog.Logger

	// Ready bounds the wait for a guest that was started; 20 s when 0.
	Ready time.Duration
}
