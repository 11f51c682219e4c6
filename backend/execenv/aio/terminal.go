package aio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// cutAt is where the older servers cut what they answer with.
const cutAt = 30_000

// shellResult is the answer to /v1/shell/exec. Spill is where the server has put
// the whole of an output that it cut; no specification names it.
type shellResult struct {
	SessionID string  `json:"session_id"`
	Status    string  `json:"status"`
	Output    *string `json:"output"`
	ExitCode  *int    `json:"exit_code"`
	Spill     string  `json:"full_output_file_path"`
}

// text is the output with the line ends that a program writes, not a terminal.
func (r shellResult) text() string {
	if r.Output == nil {
		return ""
	}
	return strings.ReplaceAll(*r.Output, "\r\n", "\n")
}

func (r shellResult) ended() bool { return r.Status == "completed" || r.Status == "finished" }

// inTerminal runs the command in a terminal session of its own, which is all
// that the older servers have: both outputs come as one, and at the end. A
// session that two share mixes them up.
func (r *run) inTerminal(ctx context.Context) (execenv.Outcome, error) {
	mark := "glovebox-no-directory-" + rand.Text()
	command, staged, err := r.terminalCommand(ctx, mark)
	if err != nil {
		return execenv.Outcome{}, err
	}
	if staged != "" {
		defer r.server.remove(ctx, staged)
	}
	session := "glovebox-" + strings.ToLower(rand.Text())
	err = r.server.post(ctx, shortTime, "/v1/shell/sessions/create", map[string]any{"id": session, "exec_dir": "/"}, nil)
	if err != nil {
		return execenv.Outcome{}, silent(err) // nothing of the command was sent
	}
	defer r.server.later(ctx, func(ctx context.Context) error { return r.server.endTerminal(ctx, session) })

	exec, cancel := context.WithTimeoutCause(ctx, r.limit()+overtime, errOverran)
	defer cancel()
	var res shellResult
	err = r.server.post(exec, r.limit()+2*overtime, "/v1/shell/exec", map[string]any{
		"id": session, "command": command, "exec_dir": "/", "strict": true,
		"hard_timeout": seconds(r.limit()), "no_change_timeout": int((r.limit() + time.Minute).Seconds()),
	}, &res)
	switch {
	case ctx.Err() != nil:
		r.server.killTerminal(ctx, session)
		o := r.outcome(137)
		o.Interrupted = true
		return o, nil
	case exec.Err() != nil:
		r.server.killTerminal(ctx, session)
		o := r.outcome(137)
		o.TimedOut = true
		return o, nil
	case err != nil:
		return execenv.Outcome{}, unknown("run a command", err)
	}
	if err := r.take(ctx, res); err != nil {
		return r.outcome(-1), fmt.Errorf("read the output of a command that ended: %w", silent(err))
	}
	return r.endedInTerminal(ctx, session, mark, res)
}

func (r *run) endedInTerminal(ctx context.Context, session, mark string, res shellResult) (execenv.Outcome, error) {
	switch {
	case res.Status == "hard_timeout", res.Status == "terminated" && res.ExitCode == nil:
		r.server.killTerminal(ctx, session)
		o := r.outcome(137)
		o.TimedOut = res.Status == "hard_timeout"
		return o, nil
	case res.Status == "running", res.Status == "no_change_timeout":
		// It gave up waiting before the command's time was over; the command did not.
		r.server.killTerminal(ctx, session)
		o := r.outcome(137)
		o.TimedOut = true
		return o, nil
	case res.ExitCode == nil:
		return r.outcome(-1), fmt.Errorf("the server says that the command ended and not how: %w", execenv.ErrOutcomeUnknown)
	}
	o := r.outcome(exitCode(*res.ExitCode))
	if o.ExitCode == dirGone && strings.HasPrefix(string(o.Stdout.Head), mark) {
		return execenv.Outcome{}, errNoDir(r.command.Dir)
	}
	return o, nil
}

// take takes the output in, from the file that holds the whole of it where the
// answer was cut.
func (r *run) take(ctx context.Context, res shellResult) error {
	text := res.text()
	if res.Spill != "" {
		err := r.server.download(ctx, res.Spill, lineEnds{r}, maxResult)
		if err == nil || r.outAt > 0 {
			return err
		}
		r.server.log.WarnContext(ctx, "read the whole of a cut output", "err", err)
	}
	r.emit(execenv.Stdout, text)
	if res.Output != nil && utf8.RuneCountInString(*res.Output) >= cutAt {
		r.emit(execenv.Stdout, "\n[the server cut this output at about 30,000 characters]\n")
	}
	return nil
}

// lineEnds hands a downloaded output on without a terminal's carriage returns.
type lineEnds struct{ r *run }

func (l lineEnds) Write(p []byte) (int, error) {
	l.r.emit(execenv.Stdout, strings.ReplaceAll(string(p), "\r\n", "\n"))
	return len(p), nil
}

// terminalCommand is the command as it is typed. A session has no variables of a
// call, and what is typed is echoed: variables, and all that is long, go by a
// file that only the user can read.
func (r *run) terminalCommand(ctx context.Context, mark string) (command, staged string, err error) {
	var b strings.Builder
	for _, v := range r.command.Env {
		if name, value, ok := strings.Cut(v, "="); ok && isName(name) {
			fmt.Fprintf(&b, "export %s=%s\n", name, execenv.Quote(value))
		}
	}
	text := r.text(mark)
	if b.Len() == 0 && len(text) <= longTerminal {
		return quietly(text), "", nil
	}
	b.WriteString(text + "\n")
	if staged, err = r.server.stage(ctx, []byte(b.String())); err != nil {
		return "", "", err
	}
	return quietly("sh " + execenv.Quote(staged)), staged, nil
}

// quietly runs a text in a shell of its own, so that "exit" ends that alone, and
// keeps what the session's shell says of how it ended out of its output.
func quietly(text string) string { return "{ ( " + text + " ) 2>&3 3>&-; } 3>&2 2>/dev/null" }

// isName reports whether a shell can have a variable of this name.
func isName(s string) bool {
	for i, c := range s {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// terminalScript runs a script's command in a session that the server makes for
// it, and returns all of its output.
func (s *Server) terminalScript(ctx context.Context, command string) (string, error) {
	var res shellResult
	err := s.post(ctx, scriptTime+shortTime, "/v1/shell/exec", map[string]any{
		"command": command, "exec_dir": "/", "strict": true, "truncate": false,
		"hard_timeout": seconds(scriptTime), "no_change_timeout": int(scriptTime.Seconds()) + 60,
	}, &res)
	if err != nil {
		return "", err
	}
	s.later(ctx, func(ctx context.Context) error { return s.endTerminal(ctx, res.SessionID) })
	if !res.ended() {
		return "", fmt.Errorf("an operation on files ended as %q: %w", clip(res.Status), execenv.ErrOutcomeUnknown)
	}
	if res.Spill == "" {
		return res.text(), nil
	}
	var b strings.Builder // one that cuts though it was asked not to
	if err := s.download(ctx, res.Spill, &b, maxAnswer); err != nil {
		return "", err
	}
	return strings.ReplaceAll(b.String(), "\r\n", "\n"), nil
}

// killTerminal asks for the end of what runs in a session. Whether that ends it
// all, these servers do not tell.
func (s *Server) killTerminal(ctx context.Context, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	if err := s.post(ctx, killTime, "/v1/shell/kill", map[string]any{"id": session}, nil); err != nil {
		s.log.DebugContext(ctx, "stop a command", "err", err)
	}
}

func (s *Server) endTerminal(ctx context.Context, session string) error {
	if session == "" {
		return nil
	}
	err := s.ask(ctx, shortTime, http.MethodDelete, "/v1/shell/sessions/"+url.PathEscape(session), nil, nil)
	if errors.Is(err, execenv.ErrNotFound) {
		return nil
	}
	return err
}
