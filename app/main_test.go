package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// asGlovebox makes the test binary be the program, so that a server under test
// is a real process that can be killed.
const asGlovebox = "GLOVEBOX_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asGlovebox) != "" {
		os.Unsetenv(asGlovebox)
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	go stood.watch()
	testscript.Main(m, map[string]func(){
		"glovebox": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// stood is when this machine stood still: what a test measures and waits for is not
// longer for it.
var stood standstills

// standstills are the times in which this process did not run although it was to.
type standstills struct {
	mu   sync.Mutex
	beat time.Time // the last one
	all  []standstill
}

type standstill struct{ from, to time.Time }

const (
	beatTime  = 20 * time.Millisecond
	stillTime = 100 * time.Millisecond // without a beat, from which on it stood still
)

func (s *standstills) watch() {
	for {
		s.now()
		time.Sleep(beatTime)
	}
}

// now is a beat.
func (s *standstills) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.beat.IsZero() && now.Sub(s.beat) > stillTime {
		s.all = append(s.all, standstill{s.beat.Add(beatTime), now})
	}
	s.beat = now
	return now
}

// since is time.Since without the time for which the machine stood still.
func since(begun time.Time) time.Duration {
	d := stood.now().Sub(begun)
	stood.mu.Lock()
	defer stood.mu.Unlock()
	for _, s := range stood.all {
		if s.from.Before(begun) {
			s.from = begun
		}
		d -= max(0, s.to.Sub(s.from))
	}
	return d
}

// patient returns a context that ends as one with a timeout does, by since.
func patient(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	begun := time.Now()
	go func() { // until the one or the other
		for left := within; left > 0; left = within - since(begun) {
			select {
			case <-time.After(left):
			case <-ctx.Done():
				return
			}
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// required reports whether a missing part is a failure rather than a skip.
func required(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("GLOVEBOX_TEST_REQUIRE"), ","), part)
}

// installed skips or fails where the machine lacks a program that sandboxes get
// from it.
func installed(t testing.TB, program string) {
	t.Helper()
	_, err := os.Stat("/usr/bin/" + program)
	if err != nil && required("programs") {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

// have skips or fails where the machine lacks what a wall needs.
func have(t testing.TB, wall sandbox.Wall) {
	t.Helper()
	part, probe := "docker", exec.Command("docker", "version", "--format", "{{.Server.Version}}")
	if wall == sandbox.WallNamespace {
		part, probe = "bwrap", exec.Command("bwrap", "--version")
	}
	if out, err := probe.CombinedOutput(); err != nil {
		if required(part) {
			t.Fatalf("%s is required: %v\n%s", part, err, out)
		}
		t.Skipf("no %s on this machine: %v", part, err)
	}
}

// walls are those that hold something in.
var walls = []sandbox.Wall{sandbox.WallDocker, sandbox.WallNamespace}

// eachWall runs a test behind every wall.
func eachWall(t *testing.T, test func(t *testing.T, wall sandbox.Wall)) {
	for _, w := range walls {
		t.Run(string(w), func(t *testing.T) {
			have(t, w)
			test(t, w)
		})
	}
}

// server is a glovebox process over a data directory.
type server struct {
	*apiClient
	t    testing.TB
	data string
	cmd  *exec.Cmd
	log  *transcript
	gone chan struct{}
}

// dataDir returns a data directory that every user can traverse. What sessions
// left in it is released at the end.
func dataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "glovebox-app-")
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	t.Cleanup(func() {
		if t.Failed() {
			closeLeft(t, data)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the data directory: %v", err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return data
}

// closeLeft closes the sessions of a data directory whose server a failed test
// had killed: their sandboxes outlive it.
func closeLeft(t testing.TB, data string) {
	if _, err := os.Stat(data); err != nil {
		return // it was never made
	}
	out, err := glovebox("ls", "--all", "--json", "--data", data).Output()
	if err != nil {
		t.Logf("list what is left: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		var v struct {
			ID string `json:"session_id"`
		}
		if json.Unmarshal([]byte(line), &v) != nil {
			continue
		}
		if out, err := glovebox("close", v.ID, "--data", data).CombinedOutput(); err != nil {
			t.Logf("close what is left of %s: %v\n%s", v.ID, err, out)
		}
	}
}

// start starts a server and waits for its ready line. At the end of the test it
// is stopped, after every session has been closed.
func start(t testing.TB, data string, args ...string) *server {
	t.Helper()
	return startWith(t, data, nil, args...)
}

// startWith is start with variables added to the server's environment.
func startWith(t testing.TB, data string, env []string, args ...string) *server {
	t.Helper()
	cmd := glovebox(append([]string{"serve", "--json", "--no-open", "--addr", "127.0.0.1:0", "--data", data}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	return startCommand(t, data, cmd)
}

// startCommand is start for a command that serves a data directory.
func startCommand(t testing.TB, data string, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, data: data, cmd: cmd, log: &transcript{}, gone: make(chan struct{})}
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	go func() { s.cmd.Wait(); close(s.gone) }()
	if err != nil {
		<-s.gone
		t.Fatalf("no ready line: %v\n%s", err, s.log)
	}
	var ready struct{ Type, URL string }
	if err := json.Unmarshal(line, &ready); err != nil || ready.Type != "ready" {
		t.Fatalf("ready line %q: %v", line, err)
	}
	if s.apiClient, err = newClient(ready.URL, data); err != nil {
		t.Fatal(err)
	}
	return s
}

// A transcript holds what a process prints. It may be read while the process
// lives.
type transcript struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// in returns the server as a subtest uses it, so that its faults are that test's.
func (s *server) in(t testing.TB) *server {
	own := *s
	own.t = t
	return &own
}

// glovebox returns the program with arguments, to be started.
func glovebox(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asGlovebox+"=1", "XDG_CONFIG_HOME=/proc/none") // nobody's configuration, where nobody can put one
	return cmd
}

// kill ends the server as a crash does.
func (s *server) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-s.gone
}

func (s *server) stop() {
	select {
	case <-s.gone:
		return
	default:
	}
	if s.apiClient != nil {
		s.closeAll()
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.gone:
	case <-time.After(20 * time.Second):
		s.t.Error("the server does not stop")
		s.cmd.Process.Signal(syscall.SIGQUIT) // its log then says where it hangs
		<-s.gone
	}
	if s.t.Failed() {
		s.t.Logf("server's log:\n%s", s.log)
	}
}

func (s *server) closeAll() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all []httpapi.Session
	if err := s.call(ctx, "GET", "/sessions", nil, &all); err != nil {
		s.t.Errorf("list sessions: %v", err)
		return
	}
	for _, v := range all {
		if err := s.call(ctx, "POST", "/sessions/"+v.ID+"/close", nil, nil); err != nil {
			s.t.Errorf("close %s: %v", v.ID, err)
		}
	}
}

// open opens a session and returns its id.
func (s *server) open(req httpapi.OpenRequest) string {
	s.t.Helper()
	var a httpapi.Accepted
	if err := s.call(s.t.Context(), "POST", "/sessions", req, &a); err != nil {
		s.t.Fatalf("open a session: %v", err)
	}
	return a.SessionID
}

// post posts to a session's route and expects it to be accepted.
func (s *server) post(id, route string, body any) {
	s.t.Helper()
	if err := s.call(s.t.Context(), "POST", "/sessions/"+id+"/"+route, body, nil); err != nil {
		s.t.Fatalf("%s %s: %v", route, id, err)
	}
}

func (s *server) show(id string) httpapi.Session {
	s.t.Helper()
	var v httpapi.Session
	if err := s.call(s.t.Context(), "GET", "/sessions/"+id, nil, &v); err != nil {
		s.t.Fatalf("show %s: %v", id, err)
	}
	return v
}

// tool makes a tool call by hand.
func (s *server) tool(id, name string, input any) httpapi.ToolResponse {
	s.t.Helper()
	body, err := json.Marshal(input)
	if err != nil {
		s.t.Fatal(err)
	}
	var r httpapi.ToolResponse
	if err := s.call(s.t.Context(), "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: name, Input: body}, &r); err != nil {
		s.t.Fatalf("tool %s: %v", name, err)
	}
	return r
}

// bash runs a command by hand.
func (s *server) bash(id, command string) httpapi.ToolResponse {
	s.t.Helper()
	return s.tool(id, "Bash", map[string]any{"command": command})
}

// until waits for something that tells nobody when it happens.
func until(t testing.TB, within time.Duration, ok func() error) {
	t.Helper()
	begun := time.Now()
	for {
		err := ok()
		if err == nil {
			return
		}
		if since(begun) > within {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// await follows a session's frames from its first event on, until seen says
// that it has seen enough.
func (s *server) await(id string, within time.Duration, what string, seen func(f httpapi.Frame) bool) {
	s.t.Helper()
	ctx, cancel := patient(s.t.Context(), within)
	defer cancel()
	err := s.follow(ctx, id, 0, func(f httpapi.Frame) error {
		if seen(f) {
			return errDone
		}
		return nil
	})
	if err != nil {
		s.t.Fatalf("waiting for %s: %v\nsession: %+v", what, err, s.show(id))
	}
}

// awaitEvent waits for an event whose payload passes ok, and returns that.
func awaitEvent[P any](s *server, id string, within time.Duration, ok func(P) bool) P {
	s.t.Helper()
	var found P
	s.await(id, within, fmt.Sprintf("%T", found), func(f httpapi.Frame) bool {
		if f.Type != "event" {
			return false
		}
		payload, err := task.Decode(*f.Event)
		if err != nil {
			s.t.Fatal(err)
		}
		p, is := payload.(any).(P)
		if !is || !ok(p) {
			return false
		}
		found = p
		return true
	})
	return found
}

// awaitSession waits until a session is shown in a way that passes ok.
func (s *server) awaitSession(id string, within time.Duration, what string, ok func(httpapi.Session) bool) httpapi.Session {
	s.t.Helper()
	var found httpapi.Session
	s.await(id, within, what, func(f httpapi.Frame) bool {
		all := f.Sessions
		if f.Session != nil {
			all = append(all, *f.Session)
		}
		for _, v := range all {
			if v.ID == id && ok(v) {
				found = v
				return true
			}
		}
		return false
	})
	return found
}

// awaitState waits until a session's sandbox is observed in a state.
func (s *server) awaitState(id string, within time.Duration, want sandbox.State) httpapi.Session {
	s.t.Helper()
	return s.awaitSession(id, within, "state "+string(want), func(v httpapi.Session) bool {
		return v.Sandbox != nil && v.Sandbox.Value == want
	})
}

// scripted writes a model's script and returns the model's name.
func scripted(t testing.TB, steps ...any) string {
	t.Helper()
	body, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, body, 0o644); err != nil {
		t.Fatal(err)
	}
	return "script:" + path
}

// call is a script's step that makes one tool call.
func call(tool string, input any) any {
	return map[string]any{"text": "", "calls": []any{map[string]any{"tool": tool, "input": input}}}
}

// say is a script's step that only speaks.
func say(text string) any { return map[string]any{"text": text} }

// workspace returns a directory that uid owns and everyone can reach.
func workspace(t testing.TB, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "glovebox-ws-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
