package execenv

import (
	"io"
	"time"
)

// Command is one command to run.
type Command struct {
	Call    Call          `json:"call"`
	Argv    []string      `json:"argv"`
	Dir     string        `json:"dir"`     // the workdir when empty
	Env     []string      `json:"env"`     // added to the sandbox's own
	Timeout time.Duration `json:"timeout"` // 0 means none; the guest enforces it

	// Overflow says what happens to output that nobody has read yet.
	Overflow Overflow `json:"overflow"`

	// Stdin feeds the command; nil is /dev/null.
	Stdin io.Reader `json:"-"`
}

// Overflow is a policy for unread output.
type Overflow string

// The policies. OverflowDrop, the default, always drains the command and keeps
// a bounded part; OverflowBlock holds the command back instead and loses nothing.
const (
	OverflowDrop  Overflow = "drop"
	OverflowBlock Overflow = "block"
)

// What OverflowDrop keeps of each stream: its first and last bytes for the
// result, and a ring for those who watch.
const (
	HeadBytes = 64 << 10
	TailBytes = 64 << 10
	RingBytes = 1 << 20
)

// Stream is one of a command's two outputs.
type Stream uint8

// The streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Chunk is a piece of output at its offset in the stream. A gap between two
// chunks was dropped. Data is valid only during the call that hands it over.
type Chunk struct {
	Stream Stream
	Offset int64
	Data   []byte
}

// Outcome says how a command ended.
type Outcome struct {
	ExitCode    int           `json:"exit_code"` // 128+n when signal n ended it
	Signal      int           `json:"signal"`
	TimedOut    bool          `json:"timed_out"`
	Interrupted bool          `json:"interrupted"`
	OutOfMemory bool          `json:"out_of_memory"` // probably: killed while the limit was hit
	MemoryLimit int64         `json:"memory_limit"`  // in bytes, where it was; 0 when it is not known
	Duration    time.Duration `json:"duration"`
	Stdout      Captured      `json:"stdout"`
	Stderr      Captured      `json:"stderr"`
	Background  []Process     `json:"background"` // children that live on
	Kill        *KillReport   `json:"kill"`       // nil after a timeout or a stop: nobody knows whether it still runs
}

// Captured is what was kept of one stream. Head and Tail do not overlap: all of
// a stream of up to HeadBytes+TailBytes is Head followed by Tail.
type Captured struct {
	Head  []byte `json:"head"`
	Tail  []byte `json:"tail"`
	Total int64  `json:"total"`
	Hash  string `json:"hash"` // hex SHA-256 of the whole stream
}

// Dropped returns how many bytes are in neither Head nor Tail.
func (c Captured) Dropped() int64 { return c.Total - int64(len(c.Head)) - int64(len(c.Tail)) }

// Process names a process of a call.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// KillReport is the proof of a kill: what was ended, in how many rounds, and
// what a last scan still found.
type KillReport struct {
	Cause      string        `json:"cause"` // "timeout", "stop", "shutdown"
	Killed     []Process     `json:"killed"`
	Rounds     int           `json:"rounds"`
	Took       time.Duration `json:"took"`
	Left       []Process     `json:"left"`        // alive after the last round
	Stuck      []Process     `json:"stuck"`       // in the kernel (state D), not waited for
	BestEffort bool          `json:"best_effort"` // the tag can be shed here
}
