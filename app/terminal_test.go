package app

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// terminalView is a view of a terminal over its socket, with what it has shown.
type terminalView struct {
	t     testing.TB
	conn  *websocket.Conn
	text  strings.Builder
	seen  int
	at    int64
	gaps  int
	last  execenv.Terminal
	fault *httpapi.ErrorBody
}

// terminal opens a terminal by the API.
func (s *server) terminal(id string, r execenv.TerminalRequest) execenv.Terminal {
	s.t.Helper()
	var t execenv.Terminal
	if err := s.call(s.t.Context(), "POST", "/sessions/"+id+"/terminals", r, &t); err != nil {
		s.t.Fatalf("open a terminal: %v", err)
	}
	return t
}

// view opens a view of a terminal.
func (s *server) view(id, terminal string, after int64) *terminalView {
	s.t.Helper()
	conn, err := s.dial(s.t.Context(), "/sessions/"+id+"/terminals/"+terminal+"/socket?after="+strconv.FormatInt(after, 10))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.CloseNow() })
	return &terminalView{t: s.t, conn: conn, at: after}
}

// next takes one message of the server's.
func (v *terminalView) next() error {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), 20*time.Second)
	defer cancel()
	kind, data, err := v.conn.Read(ctx)
	if err != nil {
		return err
	}
	if kind == websocket.MessageText {
		var m httpapi.TerminalSocket
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		if m.Terminal != nil {
			v.last = *m.Terminal
		}
		if m.Error != nil {
			v.fault = m.Error
		}
		return nil
	}
	at := int64(binary.BigEndian.Uint64(data))
	if at < v.at {
		v.t.Fatalf("output at %d after %d", at, v.at)
	}
	if at > v.at {
		v.gaps++
	}
	v.text.Write(data[8:])
	v.at = at + int64(len(data)-8)
	return nil
}

func (v *terminalView) await(want string) string {
	v.t.Helper()
	for {
		if i := strings.Index(v.text.String()[v.seen:], want); i >= 0 {
			shown := v.text.String()[v.seen : v.seen+i]
			v.seen += i + len(want)
			return shown
		}
		if err := v.next(); err != nil {
			text := v.text.String()
			v.t.Fatalf("waiting for %q: %v (%+v); the terminal showed %q", want, err, v.fault, text[max(0, len(text)-2000):])
		}
	}
}

func (v *terminalView) keys(keys string) {
	v.t.Helper()
	if err := v.conn.Write(v.t.Context(), websocket.MessageBinary, []byte(keys)); err != nil {
		v.t.Fatal(err)
	}
}

// line types a command and returns what it printed.
func (v *terminalView) line(command string) string {
	v.t.Helper()
	v.keys("echo be''gin; " + command + "; echo e''nd\r")
	v.await("begin\r\n")
	return strings.TrimSuffix(v.await("end\r\n"), "\r\n")
}

func (v *terminalView) say(m httpapi.TerminalSocket) {
	v.t.Helper()
	body, err := json.Marshal(m)
	if err == nil {
		err = v.conn.Write(v.t.Context(), websocket.MessageText, body)
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

// A shell outlives its view and the server, killed or not; who comes back sees
// what it missed.
func TestTerminal_outlivesTheServer(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		ws := workspace(t, 1000)
		id := s.open(httpapi.OpenRequest{Workspace: ws, Spec: sandbox.Spec{Wall: wall}, Model: scripted(t, say("hi"))})
		term := s.terminal(id, execenv.TerminalRequest{Cols: 100, Rows: 30})
		v := s.view(id, term.ID, 0)
		if got := v.line("fruit=plum; stty size"); got != "30 100" {
			t.Errorf("stty size printed %q", got)
		}
		if v.last.ID != term.ID || v.last.Dir != "/workspace" {
			t.Errorf("the socket said %+v", v.last)
		}
		if got := v.line("grep -h ^Cap /proc/self/status | sort -u -k2"); !strings.HasSuffix(got, "0000000000000000") || strings.Count(got, "Cap") != 1 {
			t.Errorf("capabilities of a terminal's programs: %q", got)
		}
		if got := v.line("id -u; hostname"); !strings.Contains(got, s.show(id).ShortID) {
			t.Errorf("id and hostname are %q, want the sandbox's %s", got, s.show(id).ShortID)
		}
		v.say(httpapi.TerminalSocket{Type: "resize", Cols: 132, Rows: 50})
		for v.last.Cols != 132 {
			if err := v.next(); err != nil {
				t.Fatal(err)
			}
		}
		for _, wrong := range []httpapi.TerminalSocket{{Type: "resize", Cols: 0, Rows: 5}, {Type: "resize", Cols: 5, Rows: 100_000}, {Type: "dance"}} {
			for v.say(wrong); v.fault == nil; {
				if err := v.next(); err != nil {
					t.Fatal(err)
				}
			}
			v.fault = nil
		}
		v.keys("( (until [ -e /workspace/away ]; do sleep .1; done; echo while-aw''ay) & )\r")
		v.await("\r\n")
		s.kill()
		write(t, filepath.Join(ws, "away"), "", 1000)

		s = start(t, data)
		v2 := s.view(id, term.ID, v.at)
		v2.await("while-away")
		if got := v2.line("echo still $fruit; stty size"); got != "still plum\r\n50 132" {
			t.Errorf("after a kill of the server the shell printed %q", got)
		}
		var all []execenv.Terminal
		if err := s.call(t.Context(), "GET", "/sessions/"+id+"/terminals", nil, &all); err != nil || len(all) != 1 || all[0].ID != term.ID || all[0].PID != term.PID {
			t.Errorf("terminals after the restart: %+v, %v", all, err)
		}

		// What the agent's calls do, and their end, is none of its business.
		v2.keys("sleep 98765 &\r")
		s.bash(id, "until grep -a -q 'slee[p].98765' /proc/[0-9]*/cmdline 2>/dev/null; do sleep 0.1; done")
		if got := v2.line("kill -0 $! && echo runs"); got != "runs" {
			t.Errorf("a job of the terminal after a call: %q", got)
		}

		if err := s.call(t.Context(), "DELETE", "/sessions/"+id+"/terminals/"+term.ID, nil, nil); err != nil {
			t.Fatal(err)
		}
		for v2.next() == nil {
		}
		if v2.last.EndedAt == nil {
			t.Errorf("the last word of a closed terminal: %+v", v2.last)
		}
		left := s.bash(id, "grep -a -l '[9]8765' /proc/[0-9]*/cmdline 2>/dev/null | wc -l")
		if strings.TrimSpace(left.Text) != "0" {
			t.Errorf("processes of the terminal after its close: %s", left.Text)
		}
		gone := s.view(id, term.ID, 0)
		for gone.next() == nil {
		}
		if gone.fault == nil || gone.fault.Code != "not_found" {
			t.Errorf("a view of a closed terminal: %+v", gone.fault)
		}

		s.post(id, "stop", nil)
		s.awaitState(id, 20*time.Second, sandbox.StateStopped)
		err := s.call(t.Context(), "POST", "/sessions/"+id+"/terminals", execenv.TerminalRequest{}, nil)
		var answered *apiError
		if !errors.As(err, &answered) || answered.Code != "sandbox_stopped" {
			t.Errorf("a terminal in a stopped sandbox: %v", err)
		}
	})
}

// A flood costs its viewer gaps, and the server little.
func TestTerminal_flood(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := start(t, dataDir(t))
		id := s.open(httpapi.OpenRequest{Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: wall}, Model: scripted(t, say("hi"))})
		term := s.terminal(id, execenv.TerminalRequest{Argv: []string{"sh"}})
		v := s.view(id, term.ID, 0)
		v.line("true")
		before, ours, began := cpuTime(t, s.cmd.Process.Pid), cpuTime(t, os.Getpid()), time.Now()
		v.keys("yes\r")
		for time.Since(began) < 2*time.Second {
			if err := v.next(); err != nil {
				t.Fatal(err)
			}
		}
		took := time.Since(began)
		used := cpuTime(t, s.cmd.Process.Pid) - before
		// 4 MiB in a second, and what may lie in its queue.
		if got := v.text.Len(); got > int((took.Seconds()+2)*(4<<20)) {
			t.Errorf("a view got %d bytes in %v", got, took)
		}
		// Who takes it, here, shows how slow the machine is.
		share, taking := used.Seconds()/took.Seconds(), (cpuTime(t, os.Getpid())-ours).Seconds()/took.Seconds()
		t.Logf("%d bytes and %d gaps in %v, %.1f %% of a processor, and %.1f %% to take them", v.text.Len(), v.gaps, took, 100*share, 100*taking)
		if share > max(0.4, 3*taking) {
			t.Errorf("the server used %.0f %% of a processor", 100*share)
		}
		pressed := time.Now()
		v.keys("\x03")
		v.keys("\recho qui''et\r")
		v.await("quiet\r\n")
		t.Logf("quiet after %v", time.Since(pressed))
	})
}

// cpuTime is the processor time that a process has used.
func cpuTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	var d time.Duration
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	stat := string(body)
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	for _, field := range f[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		d += time.Duration(n) * 10 * time.Millisecond
	}
	return d
}

// An echo crosses socket, server, guest and terminal, and comes back, while a
// person would not notice.
func TestTerminal_echo(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := start(t, dataDir(t))
		id := s.open(httpapi.OpenRequest{Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: wall}, Model: scripted(t, say("hi"))})
		term := s.terminal(id, execenv.TerminalRequest{Argv: []string{"sh", "-c", "echo ready; exec cat >/dev/null"}})
		v := s.view(id, term.ID, 0)
		v.await("ready\r\n")
		var took []time.Duration
		for range 101 {
			pressed := time.Now()
			v.keys("x")
			v.await("x")
			took = append(took, time.Since(pressed))
		}
		slices.Sort(took)
		// Half of them: a machine that does something else now and then is no slow echo.
		if half := took[len(took)/2]; half > 20*time.Millisecond {
			t.Errorf("an echo took %v, the slowest %v", half, took[len(took)-1])
		} else {
			t.Logf("an echo took %v, the slowest %v", half, took[len(took)-1])
		}
	})
}

// A fork bomb in a terminal ends with its close, and the session goes on.
func TestTerminal_forkBomb(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := start(t, dataDir(t))
		spec := sandbox.Spec{Wall: wall, Resources: map[string]string{"pids": "150"}}
		id := s.open(httpapi.OpenRequest{Workspace: workspace(t, 1000), Spec: spec, Model: scripted(t, say("hi"))})
		term := s.terminal(id, execenv.TerminalRequest{Argv: []string{"sh"}})
		var card httpapi.Container
		if err := s.call(t.Context(), "GET", "/sessions/"+id+"/container", nil, &card); err != nil {
			t.Fatal(err)
		}
		if card.Description == nil || strings.Contains(strings.Join(card.Description.NotEnforced, " "), "pids") {
			t.Skip("the number of processes is not limited on this machine: the bomb would hit all of it")
		}
		v := s.view(id, term.ID, 0)
		v.line("true")
		v.keys("{ while :; do { while :; do :; done; } & done; } & echo lau''nched\r")
		v.await("launched\r\n")
		began := time.Now()
		if err := s.call(t.Context(), "DELETE", "/sessions/"+id+"/terminals/"+term.ID, nil, nil); err != nil {
			t.Errorf("close: %v after %v", err, time.Since(began))
		}
		if got := s.bash(id, "echo usable; cat /proc/[0-9]*/stat 2>/dev/null | wc -l"); !strings.HasPrefix(got.Text, "usable\n") {
			t.Errorf("after a bomb: %+v", got)
		} else {
			t.Logf("closed in %v; %s", time.Since(began), got.Text)
		}
	})
}
