package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Limits of Bash.
const (
	bashTimeout    = 120_000 // milliseconds, when none is given
	maxBashTimeout = 600_000
	maxBashText    = 30_000 // characters of a result
	bashNotes      = 1_000  // of them kept for what is said about the command
	maxErrText     = 10_000 // characters of stderr when stdout is long too
)

// BashDisplay shows a command. Stdout and Stderr are the beginning and the end
// of a long stream, joined by a line that says what was cut.
type BashDisplay struct {
	Command     string              `json:"command"`
	Description string              `json:"description"`
	ExitCode    int                 `json:"exit_code"`
	Signal      int                 `json:"signal"`
	TimedOut    bool                `json:"timed_out"`
	Interrupted bool                `json:"interrupted"`
	OutOfMemory bool                `json:"out_of_memory"`
	Stdout      string              `json:"stdout"`
	Stderr      string              `json:"stderr"`
	StdoutTotal int64               `json:"stdout_total"` // bytes
	StderrTotal int64               `json:"stderr_total"`
	Dropped     int64               `json:"dropped"` // bytes of both that are not shown
	Background  []execenv.Process   `json:"background"`
	Kill        *execenv.KillReport `json:"kill"`
	DurationMS  int64               `json:"duration_ms"`
}

// Sheller is an Env that knows a better shell than /bin/sh. The command is
// always the one argument of the shell's -c: nothing is put around it, so that
// what the model wrote is what runs. /bin/sh is the default because every image
// has it, where bash is often missing.
type Sheller interface {
	// Shell returns the absolute path of a POSIX shell, or "".
	Shell() string
}

//go:embed bash.md
var bashDescription string

type bashParams struct {
	Command     string `json:"command" jsonschema:"the command to run"`
	Timeout     int    `json:"timeout,omitempty" jsonschema:"milliseconds after which the command is killed (120000 when left out, 600000 at most)"`
	Description string `json:"description,omitempty" jsonschema:"what the command does, in five to ten words"`
	Background  bool   `json:"run_in_background,omitempty" jsonschema:"run it without waiting for its end"`
}

// Bash runs commands.
type Bash struct{ params[bashParams] }

var _ Tool = (*Bash)(nil)

// NewBash returns the Bash tool.
func NewBash() *Bash {
	return &Bash{describe[bashParams]("Bash", bashDescription, func(s *jsonschema.Schema) {
		s.Properties["timeout"].Minimum = new(1.0)
		s.Properties["timeout"].Maximum = new(float64(maxBashTimeout))
	})}
}

// Risk implements Tool.
func (t *Bash) Risk() Risk { return RiskHigh }

// Run implements Tool.
func (t *Bash) Run(ctx context.Context, c Call) (Result, error) {
	p, err := t.decode(c.Input, bashParams{Timeout: bashTimeout})
	switch {
	case err != nil:
		return invalid(err), nil
	case strings.TrimSpace(p.Command) == "":
		return invalid(errors.New("command: must not be empty")), nil
	case strings.ContainsRune(p.Command, 0):
		return invalid(errors.New("command: must not hold NUL bytes")), nil
	case p.Background:
		return unmade("run_in_background is not supported here. Run the command in the foreground with a timeout, or start it with \"command > out.log 2>&1 &\" and look at out.log later."), nil
	}
	shell := "/bin/sh"
	if s, ok := c.Env.(Sheller); ok && s.Shell() != "" {
		shell = s.Shell()
	}
	o, err := c.Env.Run(ctx, execenv.Command{
		Call: c.effect(), Argv: []string{shell, "-c", p.Command},
		Timeout: time.Duration(p.Timeout) * time.Millisecond, Overflow: execenv.OverflowDrop,
	}, c.Live)
	if err != nil {
		r, fatal := fault(ctx, err)
		switch {
		case o.Interrupted && r.Status == task.CallLost && errors.Is(err, sandbox.ErrStopped): // the sandbox's end took it along
			r.NotMade = false
			r.Text = clean(fmt.Sprintf("Ended with its sandbox: %v. What the command had done until then stays; look at the state of things before you run it again.", err))
		case r.Status == task.CallError: // what ran and failed is no error
			r.NotMade = true
		}
		return r, fatal
	}
	return Result{Status: bashStatus(o), Text: bashText(p, o), Display: bashDisplay(p, o), Kill: o.Kill, Took: o.Duration}, nil
}

func bashStatus(o execenv.Outcome) task.CallStatus {
	switch {
	case o.TimedOut:
		return task.CallTimeout
	case o.Interrupted:
		return task.CallInterrupted
	case o.ExitCode != 0 || o.Signal != 0:
		return task.CallError
	}
	return task.CallOK
}

// bashText is what the model reads: the output, then what is to be said about it.
func bashText(p bashParams, o execenv.Outcome) string {
	stderr, _ := elide(o.Stderr, maxBashText-bashNotes)
	stdout, _ := elide(o.Stdout, maxBashText-bashNotes)
	if len([]rune(stdout))+len([]rune(stderr)) > maxBashText-bashNotes {
		// A long stdout leaves stderr a third; a short one leaves it the rest.
		rest := max(maxErrText, maxBashText-bashNotes-len([]rune(stdout)))
		stderr, _ = elide(o.Stderr, rest)
		stdout, _ = elide(o.Stdout, maxBashText-bashNotes-min(rest, len([]rune(stderr))))
	}
	stdout, stderr = strings.TrimRight(stdout, "\n"), strings.TrimRight(stderr, "\n")
	var parts []string
	switch {
	case stdout != "" && stderr != "":
		parts = append(parts, stdout, "stderr:\n"+stderr)
	case stdout != "" || stderr != "":
		parts = append(parts, stdout+stderr)
	default:
		parts = append(parts, "(no output)")
	}
	return strings.Join(append(parts, bashNotesOf(p, o)...), "\n")
}

// bashNotesOf says how a command ended and what it left behind.
func bashNotesOf(p bashParams, o execenv.Outcome) []string {
	var notes []string
	switch {
	case o.TimedOut:
		after := time.Duration(p.Timeout) * time.Millisecond
		notes = append(notes, fmt.Sprintf("Command timed out after %gs; %s", after.Seconds(), killText(o.Kill)))
	case o.Interrupted:
		notes = append(notes, "Command interrupted (stop requested); "+killText(o.Kill))
	case o.Signal != 0:
		notes = append(notes, fmt.Sprintf("Exit code %d: killed by signal %d", o.ExitCode, o.Signal))
	case o.ExitCode != 0:
		notes = append(notes, fmt.Sprintf("Exit code %d", o.ExitCode))
	}
	if o.OutOfMemory {
		limit := "the sandbox's memory limit was hit"
		if o.MemoryLimit > 0 {
			limit = "limit " + sandbox.FormatSize(o.MemoryLimit)
		}
		notes = append(notes, fmt.Sprintf("A process was killed, probably out of memory (%s).", limit))
	}
	if len(o.Background) > 0 {
		notes = append(notes, fmt.Sprintf("Background processes still running: %s", processes(o.Background)))
	}
	return notes
}

// killText tells a KillReport: who died and who is left.
func killText(k *execenv.KillReport) string {
	if k == nil {
		return "it may still be running"
	}
	text := "nothing was left to kill"
	if len(k.Killed) > 0 {
		text = "killed: " + processes(k.Killed)
	}
	if len(k.Left) == 0 {
		text += "; 0 processes left"
	} else {
		text += fmt.Sprintf("; %s left: %s", countProcesses(len(k.Left)), processes(k.Left))
	}
	if len(k.Stuck) > 0 {
		text += fmt.Sprintf("; stuck in the kernel: %s", processes(k.Stuck))
	}
	if k.BestEffort {
		text += " (best effort: commands can hide here)"
	}
	return text
}

func countProcesses(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

func bashDisplay(p bashParams, o execenv.Outcome) BashDisplay {
	stdout, cutOut := elide(o.Stdout, maxBashText)
	stderr, cutErr := elide(o.Stderr, maxBashText)
	return BashDisplay{
		Command: clean(p.Command), Description: clean(p.Description),
		ExitCode: o.ExitCode, Signal: o.Signal, TimedOut: o.TimedOut, Interrupted: o.Interrupted, OutOfMemory: o.OutOfMemory,
		Stdout: stdout, Stderr: stderr, StdoutTotal: o.Stdout.Total, StderrTotal: o.Stderr.Total, Dropped: cutOut + cutErr,
		Background: o.Background, Kill: o.Kill, DurationMS: o.Duration.Milliseconds(),
	}
}
