package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// printer writes frames for people or, as NDJSON, for programs.
type printer struct {
	out   io.Writer
	json  bool
	id    string
	think bool            // what a model thought is told
	told  bool            // messages and output are told from the log alone, since no live frames tell them
	user  bool            // what people wrote is told
	text  bool            // the last thing written was text without its line end
	live  string          // kind of the last live frame, while nothing else was written
	said  said            // of the messages that are told live
	turn  task.Summary    // of the turn that is printed: what it has used
	put   map[string]bool // questions that were printed, by call id: their answer is

	agents map[string]string // by subtask: the name of its agent
}

// outlet is a writer that calls gone when nobody takes what is written.
type outlet struct {
	io.Writer
	gone func()
}

func (o outlet) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.gone()
	}
	return n, err
}

// line writes one line of our own.
func (p *printer) line(kind string, fields map[string]any, format string, args ...any) {
	if p.json {
		fields["type"], fields["session_id"] = kind, p.id
		_ = writeJSON(p.out, fields) // a reader that went away ends us by SIGPIPE, or by the outlet
		return
	}
	p.endText()
	fmt.Fprintf(p.out, format+"\n", args...)
}

func (p *printer) endText() {
	if p.text {
		fmt.Fprintln(p.out)
	}
	p.text, p.live = false, ""
}

// piece writes what comes live. Thinking and what follows it are told apart.
func (p *printer) piece(f stream.Live) {
	thinking := f.Kind == stream.LiveThinking
	if thinking && !p.think {
		return
	}
	if f.Kind != p.live && (thinking || p.live == stream.LiveThinking) {
		p.endText()
	}
	if thinking && p.live == "" {
		fmt.Fprint(p.out, thinkingMark)
	}
	fmt.Fprint(p.out, printable(f.Data))
	p.text, p.live = !strings.HasSuffix(f.Data, "\n"), f.Kind
}

// controlText says who has the browser. That somebody keeps it goes without saying.
var controlText = map[task.ControlCause]string{
	task.ControlTaken:     "a person has taken control of the browser",
	task.ControlGivenBack: "the agent has the browser back",
	task.ControlExpired:   "the agent has the browser back: the time was over",
	task.ControlLeft:      "the agent has the browser back: nobody was there any more",
	task.ControlEnded:     "the browser ended, and a person's control of it",
}

// thinkingMark stands before what a model thought.
const thinkingMark = "… "

func (p *printer) frame(f httpapi.Frame) {
	if p.json {
		switch f.Type {
		case "event":
			fields := map[string]any{"seq": f.Seq, "kind": f.Event.Kind, "at": f.Event.At, "body": f.Event.Body}
			if f.Event.TaskID != f.Event.RootTaskID {
				fields["task_id"] = f.Event.TaskID
			}
			p.line("event", fields, "")
		case "live":
			p.line("live", map[string]any{"live": f.Live}, "")
		}
		return
	}
	switch f.Type {
	case "live":
		// Of several that speak at once no one could read any.
		if f.Live.TaskID == f.Live.RootTaskID && p.said.news(*f.Live) {
			p.piece(*f.Live)
		}
	case "event":
		p.event(*f.Event)
	}
}

func (p *printer) event(e task.Event) {
	payload, err := task.Decode(e)
	if err != nil {
		return
	}
	if e.TaskID != e.RootTaskID {
		p.turn.ApplySubtask(e)
		p.subtask(e.TaskID, payload)
		return
	}
	p.turn.Apply(e)
	switch v := payload.(type) {
	case *task.SubtaskSpawned, *task.SubtaskCompleted:
		p.handed("", v)
	case *task.TaskWoken:
		if v.Cause == "message" {
			p.turn = task.Summary{}
		}
	case *task.LLMRequestStarted:
		p.said.over(e.Seq)
	case *task.LLMRequestFinished:
		p.said.answered = e.Seq
	case *task.LLMRetryScheduled:
		p.line("", nil, "↻ %s", retryText(v.Detail, v.At, v.Attempt, v.Attempts))
	case *task.TaskHostBound:
		if v.Wall == sandbox.WallLocal {
			p.line("", nil, "• on this machine itself: no isolation")
			return
		}
		p.line("", nil, "• in %s (%s wall, network %s)", v.SandboxID, v.Wall, v.Network)
	case *task.BrowserControlChanged:
		if text := controlText[v.Cause]; text != "" {
			p.line("", nil, "• %s", text)
		}
	case *task.MessagesAppended:
		for _, m := range v.Messages {
			p.message(m)
			if m.Role == llm.RoleAssistant && !p.told {
				p.missing(e.Seq, m)
			}
		}
	case *task.ToolCallStarted:
		p.line("", nil, "▸ %s %s", v.Tool, brief(v.Input))
	case *task.UserQuestionRequested:
		if p.put == nil {
			p.put = map[string]bool{}
		}
		p.put[v.CallID] = true
		p.line("", nil, "? %s", questionText(v.Question))
	case *task.UserQuestionAnswered:
		p.line("", nil, "%s", answerText(v))
	case *task.ToolResultRecorded:
		if p.put[v.CallID] && (v.Status == task.CallOK || v.Status == task.CallDenied) {
			return // as the answer was
		}
		if p.told && v.Text != "" {
			p.line("", nil, "%s", strings.TrimSuffix(printable(v.Text), "\n"))
		}
		p.line("", nil, "  %s, %d ms", v.Status, v.Duration.Milliseconds())
	case *task.TurnInterrupted:
		p.line("", nil, "■ %s", stoppedText(v))
	case *task.SandboxStateChanged:
		switch c := v.Condition; c.Cause {
		case "":
		case sandbox.CauseCalledOff:
			p.line("", nil, "• sandbox %s", c.Cause)
		default:
			p.line("", nil, "• sandbox %s: %s", c.Value, c.Cause)
		}
	case *task.EgressDecided:
		if !v.Allowed && v.Host != "" {
			p.line("", nil, "• refused %s: %s", printable(net.JoinHostPort(v.Host, strconv.Itoa(int(v.Port)))), printable(v.Reason))
		}
	case *task.TaskSuspended:
		if p.user && v.Reason == task.TurnFailed { // a run says it as its error
			p.line("", nil, "■ parked: %s", printable(v.Detail))
		}
		if p.user && v.Reason == task.NoSandbox {
			p.line("", nil, "■ no sandbox: %s", printable(v.Detail))
		}
		p.endTurn()
	case *task.TaskCompleted:
		p.endTurn()
	}
}

// subtask prints what a subagent does, in brief: each line says which does it.
func (p *printer) subtask(id string, payload task.Payload) {
	mark := "  [" + p.agents[id] + "] "
	switch v := payload.(type) {
	case *task.SubtaskSpawned, *task.SubtaskCompleted:
		p.handed(mark, v)
	case *task.ToolCallStarted:
		p.line("", nil, "%s▸ %s %s", mark, v.Tool, brief(v.Input))
	case *task.ToolResultRecorded:
		p.line("", nil, "%s  %s, %d ms", mark, v.Status, v.Duration.Milliseconds())
	case *task.UserQuestionRequested:
		p.line("", nil, "%s? %s", mark, questionText(v.Question))
	case *task.UserQuestionAnswered:
		p.line("", nil, "%s%s", mark, answerText(v))
	case *task.LLMRetryScheduled:
		p.line("", nil, "%s↻ %s", mark, retryText(v.Detail, v.At, v.Attempt, v.Attempts))
	case *task.TaskSuspended:
		if v.Reason == task.TurnFailed {
			p.line("", nil, "%s■ parked: %s", mark, printable(v.Detail))
		}
	}
}

// handed prints that work was handed to a subagent, and how that has ended.
func (p *printer) handed(mark string, payload task.Payload) {
	switch v := payload.(type) {
	case *task.SubtaskSpawned:
		if p.agents == nil {
			p.agents = map[string]string{}
		}
		p.agents[v.TaskID] = printable(v.Agent)
		p.line("", nil, "%s→ %s: %s", mark, printable(v.Agent), printable(v.Description))
	case *task.SubtaskCompleted:
		p.line("", nil, "%s← %s: %s", mark, p.agents[v.TaskID], v.Status)
		if text := strings.TrimSpace(printable(v.Text)); text != "" && mark == "" && !p.told { // where it is told, the call's result is
			p.line("", nil, "%s", text)
		}
	}
}

// answerText says what a person has answered.
func answerText(v *task.UserQuestionAnswered) string {
	text := strings.ReplaceAll(printable(v.Text), "\n", "\n> ")
	switch {
	case v.Declined && text == "":
		return "> (declined)"
	case v.Declined:
		return "> (declined) " + text
	}
	return "> " + text
}

// stoppedText says what is known of a stopped turn: how many processes are left is
// said where a kill has proven it.
func stoppedText(v *task.TurnInterrupted) string {
	text := "stopped"
	if len(v.Kills) > 0 {
		text += fmt.Sprintf(": %d processes left, %d ms", v.Left, v.Took.Milliseconds())
	}
	switch {
	case v.Unknown == 1:
		text += "; the outcome of a call is unknown: it may still run"
	case v.Unknown > 1:
		text += fmt.Sprintf("; the outcome of %d calls is unknown: they may still run", v.Unknown)
	}
	return text
}

// endTurn says what a turn has used.
func (p *printer) endTurn() {
	p.endText()
	if text := spent(p.turn.Usage, p.turn.CostUSD); text != "" {
		p.line("", nil, "• %s", text)
	}
	p.turn = task.Summary{}
}

// message prints what a person, or in a log the model, has said.
func (p *printer) message(m llm.Message) {
	for _, b := range m.Blocks {
		switch {
		case b.Thinking != nil && b.Thinking.Text != "" && p.think && p.told:
			p.line("", nil, "%s%s", thinkingMark, strings.TrimSuffix(printable(b.Thinking.Text), "\n"))
		case b.Text == "":
		case m.Role == llm.RoleUser && p.user:
			p.line("", nil, "> %s", strings.ReplaceAll(printable(b.Text), "\n", "\n> "))
		case m.Role == llm.RoleAssistant && p.told:
			p.line("", nil, "%s", strings.TrimSuffix(printable(b.Text), "\n"))
		}
	}
}

// missing prints what no live frame has told of a message at seq in the log.
func (p *printer) missing(seq int64, m llm.Message) {
	for _, kind := range []string{stream.LiveThinking, stream.LiveText} {
		text, whole := p.said.missing(seq, kind, m)
		if text == "" {
			continue
		}
		if whole {
			p.endText()
		}
		p.piece(stream.Live{Kind: kind, Data: text})
	}
}

// writeJSON writes v as one line of JSON.
func writeJSON(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(readable(body), '\n'))
	return err
}

// escapes are those that JSON needs only within pages.
var escapes = map[string]byte{`\u003c`: '<', `\u003e`: '>', `\u0026`: '&'}

// readable gives > & and < in JSON their own characters back, also within what
// the server has sent as it is.
func readable(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for {
		n := bytes.IndexByte(body, '\\')
		if n < 0 || n+2 > len(body) {
			return append(out, body...)
		}
		out = append(out, body[:n]...)
		body = body[n:]
		if c, ok := escapes[string(body[:min(len(body), 6)])]; ok {
			out = append(out, c)
			body = body[6:]
			continue
		}
		out = append(out, body[:2]...) // what is escaped may be a backslash
		body = body[2:]
	}
}

// brief shortens a call's input to one line.
func brief(input json.RawMessage) string {
	const limit = 120
	s := []rune(strings.Join(strings.Fields(printable(string(readable(input)))), " "))
	if len(s) > limit {
		return string(s[:limit]) + "…"
	}
	return string(s)
}

// printable takes the escape characters out of what a sandbox wrote, so that it
// cannot drive the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\n' && r != '\t') || (r >= 0x7f && r < 0xa0) {
			return -1
		}
		return r
	}, s)
}
