package aio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/capture"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

const (
	longestRun = 24 * time.Hour // of a command that was given no time
	overtime   = 10 * time.Second
	pollTime   = 15 * time.Second       // one wait for output
	killGrace  = 300 * time.Millisecond // between asking a command to end and killing it
	killTime   = time.Second            // for each word of a stop
	maxStdin   = 64 << 20
	dirGone    = 97 // the exit code of a command whose directory is not there
)

// bashResult is the answer to /v1/bash/exec.
type bashResult struct {
	SessionID string `json:"session_id"`
	CommandID string `json:"command_id"`
	Status    string `json:"status"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	ExitCode  *int   `json:"exit_code"`
}

// bashOutput is the answer to /v1/bash/output.
type bashOutput struct {
	Stdout       string `json:"stdout"`
	Stderr       string `json:"stderr"`
	Offset       int64  `json:"offset"`
	StderrOffset int64  `json:"stderr_offset"`
	Command      *struct {
		Status   string `json:"status"`
		ExitCode *int   `json:"exit_code"`
	} `json:"command"`
}

// Run runs a command; see execenv.Runner. Newer servers give the two outputs
// apart and while they come, as text: bytes that are no UTF-8 are what the server
// made of them. What a kill has ended is never proven here, so an Outcome has no
// KillReport. A request whose answer was lost is not sent again: the error is
// then execenv.ErrOutcomeUnknown.
func (e *Env) Run(ctx context.Context, c execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	var none execenv.Outcome
	if len(c.Argv) == 0 {
		return none, fmt.Errorf("a command needs an argument list: %w", execenv.ErrInvalid)
	}
	if err := again(c.Call); err != nil {
		return none, err
	}
	if ctx.Err() != nil {
		return none, fmt.Errorf("run a command: %w", context.Cause(ctx))
	}
	info, err := e.server.Probe(ctx)
	if err != nil {
		return none, e.down(ctx, err)
	}
	c.Dir = e.abs(c.Dir)
	c.Env = append(sandbox.Variables(e.place.Env), c.Env...)
	if c, err = e.place.Preamble.Prepare(ctx, c); err != nil {
		return none, err
	}
	input, err := e.input(ctx, c.Stdin)
	if err != nil {
		return none, err
	}
	if input != "" {
		defer e.server.remove(ctx, input)
	}
	r := &run{server: e.server, command: c, live: live, input: input, began: time.Now()}
	r.stdout, r.stderr = capture.New(execenv.OverflowDrop), capture.New(execenv.OverflowDrop)
	in := r.inBash
	if info.Generation == Older {
		in = r.inTerminal
	}
	o, err := in(ctx)
	if err != nil {
		return o, e.midway(ctx, err)
	}
	return o, nil
}

// again refuses what may have been done before: nobody on the other side keeps
// what became of it.
func again(c execenv.Call) error {
	if c.Boot != "" {
		return fmt.Errorf("call %s was made before, and an AIO server keeps no outcomes: %w", c.ID, execenv.ErrOutcomeUnknown)
	}
	return nil
}

// input puts a command's input into a file there, whole, and returns its path.
func (e *Env) input(ctx context.Context, in io.Reader) (string, error) {
	if in == nil {
		return "", nil
	}
	data, err := io.ReadAll(io.LimitReader(in, maxStdin+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the command's input: %w", err)
	case len(data) > maxStdin:
		return "", fmt.Errorf("the command's input is over %d bytes, the most an AIO server is given: %w", maxStdin, execenv.ErrTooLarge)
	}
	path, err := e.server.stage(ctx, data)
	if err != nil {
		return "", e.down(ctx, err)
	}
	return path, nil
}

// run is one command under way.
type run struct {
	server  *Server
	command execenv.Command
	live    func(execenv.Chunk)
	input   string // file with its input
	began   time.Time

	stdout, stderr *capture.Stream
	outAt, errAt   int64 // bytes handed out
}

// limit is how long the server lets the command run.
func (r *run) limit() time.Duration {
	if r.command.Timeout > 0 {
		return r.command.Timeout
	}
	return longestRun
}

// text is the command as a shell takes it, in its directory. mark is printed,
// where that is not there, instead of running anything.
func (r *run) text(mark string) string {
	from := "/dev/null"
	if r.input != "" {
		from = r.input
	}
	return "cd -- " + execenv.Quote(r.command.Dir) + " 2>/dev/null || { echo " + mark + " >&2; exit " + fmt.Sprint(dirGone) + "; }; " +
		"exec " + execenv.Quote(r.command.Argv...) + " <" + execenv.Quote(from)
}

func (r *run) emit(stream execenv.Stream, text string) {
	if text == "" {
		return
	}
	into, at := r.stdout, &r.outAt
	if stream == execenv.Stderr {
		into, at = r.stderr, &r.errAt
	}
	data := []byte(text)
	_, _ = into.Write(data) // fails only after Close
	if r.live != nil {
		r.live(execenv.Chunk{Stream: stream, Offset: *at, Data: data})
	}
	*at += int64(len(data))
}

func (r *run) outcome(code int) execenv.Outcome {
	r.stdout.Close()
	r.stderr.Close()
	o := execenv.Outcome{ExitCode: code, Duration: time.Since(r.began), Stdout: r.stdout.Captured(), Stderr: r.stderr.Captured()}
	if code > 128 && code <= 128+31 {
		o.Signal = code - 128
	}
	return o
}

// environment returns the variables as the API takes them; the last of a name
// holds.
func environment(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, v := range list {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env
}

// inBash runs the command with pipes, on a server that has them: it is started
// without waiting for it, and its output is asked for as it comes.
func (r *run) inBash(ctx context.Context) (execenv.Outcome, error) {
	mark := "glovebox-no-directory-" + rand.Text()
	var begun bashResult
	// A stop that comes now is for the command, which may run already.
	start, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(killTime, cancel) })()
	err := r.server.post(start, shortTime, "/v1/bash/exec", map[string]any{
		"command": r.text(mark), "env": environment(r.command.Env), "async_mode": true, "hard_timeout": seconds(r.limit()),
	}, &begun)
	switch {
	case errors.Is(err, execenv.ErrNotFound):
		// Another server answers here now, or a gateway hides it: it ran nothing.
		r.server.Forget()
		return execenv.Outcome{}, fmt.Errorf("the server has no /v1/bash any more; try again: %w", execenv.ErrUnreachable)
	case err != nil && start.Err() != nil:
		return execenv.Outcome{}, fmt.Errorf("stop a command that was being started: %w", execenv.ErrOutcomeUnknown)
	case err != nil:
		return execenv.Outcome{}, unknown("run a command", err)
	case begun.SessionID == "":
		return execenv.Outcome{}, unknown("run a command", misfit("/v1/bash/exec", errors.New("no session id")))
	}
	defer r.server.later(ctx, func(ctx context.Context) error { return r.server.closeSession(ctx, begun.SessionID) })

	f := &follow{run: r, session: begun.SessionID, id: begun.CommandID, status: begun.Status, code: begun.ExitCode}
	hung, hang := context.WithCancelCause(ctx)
	defer hang(nil)
	defer context.AfterFunc(ctx, func() { hang(context.Cause(ctx)) })()
	watch := time.AfterFunc(r.limit()+overtime, func() { hang(errOverran) })
	defer watch.Stop()
	for {
		fresh, err := f.poll(hung, pollTime)
		switch {
		case hung.Err() != nil && ctx.Err() != nil:
			f.stop(ctx)
			o := r.outcome(137)
			o.Interrupted = true
			return o, nil
		case hung.Err() != nil: // it was to kill the command and has not
			f.stop(context.WithoutCancel(ctx))
			o := r.outcome(137)
			o.TimedOut = true
			return o, nil
		case err != nil:
			f.stop(context.WithoutCancel(ctx))
			return r.outcome(-1), fmt.Errorf("follow a command: %w: %w", execenv.ErrOutcomeUnknown, err)
		case fresh || f.running():
			continue
		}
		return f.end(mark)
	}
}

var errOverran = errors.New("the server did not end the command in its time")

// follow asks for a command's output.
type follow struct {
	*run
	session, id string
	out, err    int64 // the server's offsets
	status      string
	code        *int
}

func (f *follow) running() bool {
	switch f.status {
	case "completed", "timed_out", "killed", "finished", "terminated":
		return false
	}
	return true
}

// poll waits for output, or for the end, and reports whether something came. It
// asks for what follows an offset, so that nothing is lost or told twice.
func (f *follow) poll(ctx context.Context, wait time.Duration) (fresh bool, err error) {
	var o bashOutput
	err = f.server.post(ctx, wait+shortTime, "/v1/bash/output", map[string]any{
		"session_id": f.session, "command_id": f.id, "offset": f.out, "stderr_offset": f.err,
		"wait": wait > 0 && f.running(), "wait_timeout": seconds(wait),
	}, &o)
	if err != nil {
		return false, err
	}
	if o.Stdout != "" && o.Offset <= f.out || o.Stderr != "" && o.StderrOffset <= f.err {
		return false, misfit("/v1/bash/output", errors.New("output that does not move its offset"))
	}
	f.out, f.err = max(f.out, o.Offset), max(f.err, o.StderrOffset)
	f.emit(execenv.Stdout, o.Stdout)
	f.emit(execenv.Stderr, o.Stderr)
	if o.Command != nil {
		f.status, f.code = o.Command.Status, o.Command.ExitCode
	}
	return o.Stdout != "" || o.Stderr != "", nil
}

// stop ends the command as well as the server can, and takes what it still
// printed. ctx may have ended.
func (f *follow) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*killTime)
	defer cancel()
	// Killed in any case: of a command that has ended, children may not have.
	for _, signal := range []string{"SIGTERM", "SIGKILL"} {
		err := f.server.post(ctx, killTime, "/v1/bash/kill", map[string]any{"session_id": f.session, "signal": signal}, nil)
		if err == nil {
			_, err = f.poll(ctx, killGrace)
		}
		if err != nil {
			f.server.log.DebugContext(ctx, "stop a command", "signal", signal, "err", err)
		}
	}
}

// end is the outcome of a command that has ended by itself or by its timeout.
func (f *follow) end(mark string) (execenv.Outcome, error) {
	switch {
	case f.status == "timed_out":
		o := f.outcome(137)
		o.TimedOut = true
		return o, nil
	case f.code == nil && f.status == "killed":
		return f.outcome(137), nil
	case f.code == nil:
		return f.outcome(-1), fmt.Errorf("the server says that the command ended and not how: %w", execenv.ErrOutcomeUnknown)
	}
	o := f.outcome(exitCode(*f.code))
	if o.ExitCode == dirGone && strings.HasPrefix(string(o.Stderr.Head), mark) {
		return execenv.Outcome{}, errNoDir(f.command.Dir)
	}
	return o, nil
}

// exitCode is a code as a shell gives it: some servers write the signal that
// ended a command as a negative number.
func exitCode(code int) int {
	if code < 0 && code >= -64 {
		return 128 - code
	}
	return code
}

func errNoDir(dir string) error {
	return &execenv.PathError{Path: dir, Err: execenv.ErrWorkdirGone}
}

func (s *Server) closeSession(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	return s.post(ctx, shortTime, "/v1/bash/sessions/"+url.PathEscape(id)+"/close", struct{}{}, nil)
}
