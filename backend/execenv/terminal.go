package execenv

import (
	"context"
	"time"
)

// Terminals is an Env in which a person can have terminals. A terminal belongs
// to the place, not to a view of it: it goes on when the last view is closed,
// and ends with its shell, by CloseTerminal, or with the place. It is no call of
// an agent and carries no fence.
type Terminals interface {
	// OpenTerminal starts a terminal. The error wraps ErrBusy when there are
	// too many, ErrWorkdirGone, ErrNotFound for an argument list whose program
	// is not there, or ErrUnreachable.
	OpenTerminal(ctx context.Context, r TerminalRequest) (Terminal, error)

	// ListTerminals returns the terminals that were opened and not closed, in
	// the order they were opened, those whose shell has ended among them.
	ListTerminals(ctx context.Context) ([]Terminal, error)

	// CloseTerminal ends all processes of a terminal and forgets it. An unknown
	// id is no error.
	CloseTerminal(ctx context.Context, id string) error

	// ViewTerminal opens a view. It first yields what is kept of the output
	// after an offset, then what comes. Any number of views may be open; input
	// of all is taken. The error wraps ErrNotFound for an unknown id.
	ViewTerminal(ctx context.Context, id string, after int64) (TerminalView, error)
}

// TerminalRequest asks for a terminal. A zero field takes its default.
type TerminalRequest struct {
	Argv []string `json:"argv"` // the user's shell, found in the place
	Dir  string   `json:"dir"`  // the workspace
	Env  []string `json:"env"`  // after the place's own; TERM is xterm-256color
	Cols int      `json:"cols"` // 80; 1 to 1000
	Rows int      `json:"rows"` // 24; 1 to 1000
}

// Terminal says what a terminal is now.
type Terminal struct {
	ID        string     `json:"id"`
	Argv      []string   `json:"argv"`
	Dir       string     `json:"dir"`
	PID       int        `json:"pid"` // of its first process, as seen inside
	Cols      int        `json:"cols"`
	Rows      int        `json:"rows"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"` // when its first process ended
	ExitCode  int        `json:"exit_code"`
	Signal    string     `json:"signal"` // that ended it; "" for none
	Start     int64      `json:"start"`  // offset of the oldest byte that is kept
	End       int64      `json:"end"`    // bytes written since it was opened
	Views     int        `json:"views"`
}

// TerminalView is one open view of a terminal. Its methods may be called from
// several goroutines; Next from one.
type TerminalView interface {
	// Next waits for output, or for a change of the terminal; how the terminal is
	// comes first of all. Data is valid until the next call. It returns io.EOF once
	// the terminal has ended and all its output was yielded; ErrUnreachable when
	// the connection broke: the terminal may go on.
	Next(ctx context.Context) (TerminalEvent, error)

	// Input types bytes. It blocks while the terminal takes none.
	Input(ctx context.Context, data []byte) error

	// Resize sets the size for all views.
	Resize(ctx context.Context, cols, rows int) error

	// Close closes the view alone.
	Close() error
}

// TerminalEvent is output at an offset, or, with no Data, how the terminal is
// now: after a resize and at its end.
type TerminalEvent struct {
	Offset  int64     `json:"offset"` // of Data; a gap to what came before was not kept
	Data    []byte    `json:"data"`
	Changed *Terminal `json:"changed"`
}
