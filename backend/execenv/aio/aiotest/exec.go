package aiotest

import (
	"crypto/rand"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// keptOutput is what a command's output may run ahead of who asks for it.
const keptOutput = 64 << 20

// keptTerminal is what a terminal keeps of a command's output.
const keptTerminal = 24 << 20

// pollBytes is what one answer carries of an output.
const pollBytes = 4 << 20

// command is one running command, or one that has ended.
type command struct {
	id  string
	cmd *exec.Cmd

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	out     [2][]byte
	read    [2]int64 // as far as it was asked for
	status  string
	code    *int
	dropped bool // nobody will read it
}

// sink takes one output in. It holds the command back where nobody reads.
type sink struct {
	c *command
	i int
}

func (k sink) Write(p []byte) (int, error) {
	k.c.mu.Lock()
	for int64(len(k.c.out[k.i]))-k.c.read[k.i] > keptOutput && !k.c.dropped {
		changed := k.c.changed
		k.c.mu.Unlock()
		<-changed
		k.c.mu.Lock()
	}
	defer k.c.mu.Unlock()
	if !k.c.dropped {
		k.c.out[k.i] = append(k.c.out[k.i], p...)
	}
	k.c.wake()
	return len(p), nil
}

func (c *command) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *command) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = true
	c.wake()
}

// start starts a command. merged sends both outputs to the first, as a terminal.
func (s *Server) start(text, dir string, env map[string]string, merged bool, limit float64) (*command, error) {
	c := &command{id: rand.Text(), changed: make(chan struct{}), status: "running"}
	argv := []string{"bash", "--norc", "--noprofile", "-c", text}
	if s.o.Hostname != "" {
		argv = append([]string{"unshare", "--uts", "sh", "-c", `hostname "$0"; exec "$@"`, s.o.Hostname}, argv...)
	}
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Dir = dir
	c.cmd.Env = append(os.Environ(), s.tag, "HOME=/tmp")
	for name, value := range env {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Stdout, c.cmd.Stderr = sink{c, 0}, sink{c, 1}
	if merged {
		c.cmd.Stderr = c.cmd.Stdout
	}
	c.cmd.WaitDelay = 100 * time.Millisecond // for what children hold open
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	var timer *time.Timer
	if limit > 0 {
		timer = time.AfterFunc(time.Duration(limit*float64(time.Second)), func() {
			c.end(map[bool]string{true: "hard_timeout", false: "timed_out"}[merged])
			s.signal(c, syscall.SIGKILL, merged)
		})
	}
	go func() { // ends with the command, which Close kills
		_ = c.cmd.Wait() // how it ended is in its state
		if timer != nil {
			timer.Stop()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.status == "running" {
			code := exitCode(c.cmd.ProcessState)
			c.status, c.code = "completed", &code
		}
		c.wake()
	}()
	return c, nil
}

func exitCode(st *os.ProcessState) int {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return st.ExitCode()
}

// end gives a command that runs an end without an exit code.
func (c *command) end(status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status == "running" {
		c.status = status
	}
	c.dropped = c.dropped || status == "timed_out"
	c.wake()
}

// signal reaches a command's process group, or, in a terminal, its shell alone.
func (s *Server) signal(c *command, sig syscall.Signal, merged bool) {
	pid := -c.cmd.Process.Pid
	if merged {
		pid = -pid
	}
	_ = syscall.Kill(pid, sig) // it may have ended
}

func (c *command) ended() bool { return c.status != "running" }

// text is output as the servers make JSON of it.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// middle cuts text in its middle, as the servers do.
func middle(s string, most int) string {
	if most <= 0 || utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return string(r[:most/2]) + "\n... [output truncated] ...\n" + string(r[len(r)-most/2:])
}

func (s *Server) find(w http.ResponseWriter, id string) *command {
	s.mu.Lock()
	c := s.commands[id]
	s.mu.Unlock()
	if c == nil {
		fail(w, http.StatusNotFound, "Session not found")
	}
	return c
}

func (s *Server) bashExec(w http.ResponseWriter, r *http.Request) {
	q := struct {
		SessionID   string            `json:"session_id"`
		Command     string            `json:"command"`
		ExecDir     string            `json:"exec_dir"`
		Env         map[string]string `json:"env"`
		AsyncMode   bool              `json:"async_mode"`
		HardTimeout float64           `json:"hard_timeout"`
		Max         *int              `json:"max_output_length"`
	}{}
	if !decode(w, r, &q, "command") {
		return
	}
	if q.SessionID != "" && s.find(w, q.SessionID) == nil {
		return
	}
	if q.ExecDir == "" {
		q.ExecDir = s.o.Workspace
	}
	c, err := s.start(q.Command, q.ExecDir, q.Env, false, q.HardTimeout)
	if err != nil {
		fail(w, http.StatusOK, err.Error())
		return
	}
	s.mu.Lock()
	s.commands[c.id] = c
	s.mu.Unlock()
	answer := map[string]any{"session_id": c.id, "command_id": c.id, "command": q.Command, "status": "running", "stdout": nil, "stderr": nil, "exit_code": nil, "offset": 0, "stderr_offset": 0}
	if q.AsyncMode {
		ok(w, answer)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.ended() {
		c.read = [2]int64{int64(len(c.out[0])), int64(len(c.out[1]))}
		changed := c.changed
		c.mu.Unlock()
		<-changed
		c.mu.Lock()
	}
	most := 50_000
	if q.Max != nil {
		most = *q.Max
	}
	answer["status"], answer["exit_code"] = c.status, c.code
	answer["stdout"], answer["stderr"] = middle(text(c.out[0]), most), middle(text(c.out[1]), most)
	answer["offset"], answer["stderr_offset"] = len(c.out[0]), len(c.out[1])
	ok(w, answer)
}

func (s *Server) bashOutput(w http.ResponseWriter, r *http.Request) {
	q := struct {
		SessionID    string  `json:"session_id"`
		Offset       int64   `json:"offset"`
		StderrOffset int64   `json:"stderr_offset"`
		Wait         bool    `json:"wait"`
		WaitTimeout  float64 `json:"wait_timeout"`
	}{WaitTimeout: 30}
	if !decode(w, r, &q, "session_id") {
		return
	}
	c := s.find(w, q.SessionID)
	if c == nil {
		return
	}
	limit := time.NewTimer(time.Duration(q.WaitTimeout * float64(time.Second)))
	defer limit.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := [2]int64{q.Offset, q.StderrOffset}
	waiting := q.Wait
	for waiting && !c.ended() && int64(len(c.out[0])) <= at[0] && int64(len(c.out[1])) <= at[1] {
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-limit.C:
			waiting = false
		case <-r.Context().Done():
			waiting = false
		}
		c.mu.Lock()
	}
	var piece [2]string
	for i := range piece {
		from := min(max(at[i], 0), int64(len(c.out[i])))
		b := c.out[i][from:]
		b = b[:min(len(b), pollBytes)]
		for cut := 0; len(b) > 0 && cut < utf8.UTFMax && !c.ended(); cut++ { // no half of a character
			if last, size := utf8.DecodeLastRune(b); last != utf8.RuneError || size != 1 || utf8.FullRune(c.out[i][from+int64(len(b))-1:]) {
				break
			}
			b = b[:len(b)-1]
		}
		piece[i], at[i] = text(b), from+int64(len(b))
		c.read[i] = max(c.read[i], at[i])
	}
	c.wake()
	ok(w, map[string]any{
		"session_id": c.id, "stdout": piece[0], "stderr": piece[1], "offset": at[0], "stderr_offset": at[1],
		"command": map[string]any{"command_id": c.id, "command": "", "status": c.status, "exit_code": c.code},
	})
}

func (s *Server) bashKill(w http.ResponseWriter, r *http.Request) {
	q := struct {
		SessionID string `json:"session_id"`
		Signal    string `json:"signal"`
	}{Signal: "SIGTERM"}
	if !decode(w, r, &q, "session_id") {
		return
	}
	c := s.find(w, q.SessionID)
	if c == nil {
		return
	}
	sig := map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL, "SIGINT": syscall.SIGINT}[q.Signal]
	s.signal(c, sig, false)
	if sig == syscall.SIGKILL {
		c.end("killed")
	}
	ok(w, nil)
}

func (s *Server) bashClose(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	c := s.find(w, id)
	if c == nil {
		return
	}
	s.mu.Lock()
	delete(s.commands, id)
	s.mu.Unlock()
	c.abandon()
	ok(w, nil)
}

func (s *Server) shellCreate(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID      string `json:"id"`
		ExecDir string `json:"exec_dir"`
	}
	if !decode(w, r, &q) {
		return
	}
	if q.ID == "" {
		q.ID = rand.Text()
	}
	s.mu.Lock()
	s.shells[q.ID] = q.ExecDir
	s.mu.Unlock()
	ok(w, map[string]any{"session_id": q.ID, "working_dir": q.ExecDir})
}

func (s *Server) shellExec(w http.ResponseWriter, r *http.Request) {
	q := struct {
		ID          string  `json:"id"`
		Command     string  `json:"command"`
		ExecDir     string  `json:"exec_dir"`
		Strict      bool    `json:"strict"`
		Truncate    bool    `json:"truncate"`
		HardTimeout float64 `json:"hard_timeout"`
		NoChange    int     `json:"no_change_timeout"`
	}{Truncate: true, NoChange: 120}
	if !decode(w, r, &q, "command") {
		return
	}
	s.mu.Lock()
	dir, known := s.shells[q.ID]
	if q.ID == "" {
		q.ID, known = rand.Text(), true
		s.shells[q.ID] = ""
	}
	s.mu.Unlock()
	if !known {
		fail(w, http.StatusNotFound, "Session not found")
		return
	}
	if st, err := os.Stat(q.ExecDir); err == nil && st.IsDir() {
		dir = q.ExecDir
	} else if q.Strict {
		fail(w, http.StatusOK, "Directory does not exist: "+q.ExecDir)
		return
	}
	if dir == "" {
		dir = s.o.Workspace
	}
	c, err := s.start(q.Command, dir, nil, true, q.HardTimeout)
	if err != nil {
		fail(w, http.StatusOK, err.Error())
		return
	}
	s.mu.Lock()
	s.commands["shell "+q.ID] = c
	s.mu.Unlock()
	status := c.awaitQuiet(time.Duration(q.NoChange) * time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := map[string]any{"session_id": q.ID, "command": q.Command, "status": status, "exit_code": c.code, "console": []any{}}
	printed := strings.ReplaceAll(string(c.out[0]), "\n", "\r\n")
	whole := strings.ToValidUTF8(printed, "\uFFFD")
	answer["output"] = whole
	if cut := first(whole, 30_000); q.Truncate && len(cut) < len(whole) {
		answer["output"] = cut
		if !s.o.NoSpill {
			spill := s.spills + "/full-output-" + rand.Text()
			if err := os.WriteFile(spill, []byte(printed), 0o600); err == nil {
				answer["full_output_file_path"] = spill
			}
		}
	}
	ok(w, answer)
}

// first returns the first characters of a text.
func first(s string, most int) string {
	for i := range s {
		if most--; most < 0 {
			return s[:i]
		}
	}
	return s
}

// awaitQuiet waits for a command's end, or until it has said nothing for a while.
func (c *command) awaitQuiet(quiet time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.ended() {
		c.read[0] = int64(len(c.out[0]))
		if c.read[0] > keptTerminal {
			c.dropped = true
		}
		changed := c.changed
		c.mu.Unlock()
		timer := time.NewTimer(quiet)
		select {
		case <-changed:
			c.mu.Lock()
		case <-timer.C:
			c.mu.Lock()
			return "no_change_timeout"
		}
		timer.Stop()
	}
	return c.status
}

func (s *Server) shellKill(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID string `json:"id"`
	}
	if !decode(w, r, &q, "id") {
		return
	}
	c := s.find(w, "shell "+q.ID)
	if c == nil {
		return
	}
	s.signal(c, syscall.SIGTERM, true)
	s.signal(c, syscall.SIGKILL, true)
	c.end("terminated")
	ok(w, map[string]any{"status": "terminated", "exit_code": nil, "returncode": nil})
}

func (s *Server) shellDelete(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	_, known := s.shells[id]
	c := s.commands["shell "+id]
	delete(s.shells, id)
	delete(s.commands, "shell "+id)
	s.mu.Unlock()
	if !known {
		fail(w, http.StatusNotFound, "Session not found")
		return
	}
	if c != nil {
		c.abandon()
	}
	ok(w, nil)
}
