package config

import (
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Browser says what is kept of what sandboxes' browsers show.
type Browser struct {
	Record      string `toml:"record"`       // on or off; on
	RecordLimit string `toml:"record_limit"` // of one session's recording: "64m", the default; 1m at least
}

// The limit of one session's recording, in bytes.
const (
	defaultRecordLimit = 64 << 20
	minRecordLimit     = 1 << 20
)

// Records reports whether browsers are recorded while agents use them.
func (b Browser) Records() bool { return b.Record != "off" }

// Limit returns how large one session's recording may become, in bytes.
func (b Browser) Limit() int64 {
	n, err := b.limit()
	if err != nil { // Load has refused it
		return defaultRecordLimit
	}
	return n
}

func (b Browser) limit() (int64, error) {
	if b.RecordLimit == "" {
		return defaultRecordLimit, nil
	}
	n, err := sandbox.ParseSize(b.RecordLimit)
	if err != nil || n < minRecordLimit {
		return 0, &sandbox.FieldError{Field: "browser.record_limit", Reason: fmt.Sprintf("%q is not a size of at least 1m, as in 64m or 1g; record = \"off\" keeps nothing", b.RecordLimit)}
	}
	return n, nil
}

func (b Browser) validate() error {
	switch b.Record {
	case "", "on", "off":
	default:
		return &sandbox.FieldError{Field: "browser.record", Reason: fmt.Sprintf("unknown word %q; choose on or off", b.Record)}
	}
	_, err := b.limit()
	return err
}
