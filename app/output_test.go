package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// What a command prints arrives as it was printed: in the result, in the log, at
// a viewer, and byte by byte at exec.
func TestOutputIsExact(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := s.in(t)
		ws := workspace(t, 1000)
		id := s.place(wall, ws)
		noise := make([]byte, 100)
		rand.Read(noise)
		for name, body := range map[string]string{
			"wide":   strings.Repeat("你", 50_000),
			"line":   strings.Repeat("x", 70_000) + "\nEND\n",
			"long":   strings.Repeat("y", 5_000_000) + "\nEND\n",
			"random": string(noise),
		} {
			if err := os.WriteFile(filepath.Join(ws, name), []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := glovebox("exec", "--data", s.data, id, "--", "cat", name).Output()
			if err != nil || string(out) != body {
				t.Errorf("exec cat %s: %d bytes of %d, the same: %t, %v", name, len(out), len(body), string(out) == body, err)
			}
		}
		for _, tt := range []struct {
			command, stdout, stderr string
			status                  task.CallStatus
			code, signal            int
			live                    bool // all of it reaches a viewer
		}{
			{command: "echo hi", stdout: "hi\n", live: true},
			{command: "cat wide", stdout: strings.Repeat("你", 50_000), live: true},
			{command: `for b in 360 237 230 200 12; do printf "\\$b"; sleep .05; done`, stdout: "😀\n", live: true},
			{command: "cat line", stdout: strings.Repeat("x", 70_000) + "\nEND\n", live: true},
			{command: "cat long", stdout: strings.Repeat("y", 5_000_000) + "\nEND\n"},
			{command: "for i in 1 2 3 4 5 6; do echo out $i; echo err $i >&2; done", live: true,
				stdout: "out 1\nout 2\nout 3\nout 4\nout 5\nout 6\n", stderr: "err 1\nerr 2\nerr 3\nerr 4\nerr 5\nerr 6\n"},
			{command: "true", live: true},
			{command: "false", status: task.CallError, code: 1, live: true},
			{command: "kill -9 $$", status: task.CallError, code: 137, signal: 9, live: true},
			{command: "cat random; echo; echo END", stdout: strings.ToValidUTF8(string(noise), "\uFFFD") + "\nEND\n", live: false},
		} {
			t.Run(tt.command, func(t *testing.T) {
				s := s.in(t)
				v := s.watch(id)
				r := s.bash(id, tt.command)
				recorded := v.result(r.CallID)
				if recorded.Text != r.Text || recorded.Status != r.Status {
					t.Errorf("the log has %s %.80q, the answer was %s %.80q", recorded.Status, recorded.Text, r.Status, r.Text)
				}
				d := shown(t, r)
				if tt.status == "" {
					tt.status = task.CallOK
				}
				if r.Status != tt.status || d.ExitCode != tt.code || d.Signal != tt.signal {
					t.Errorf("%s, exit code %d, signal %d, want %s, %d, %d", r.Status, d.ExitCode, d.Signal, tt.status, tt.code, tt.signal)
				}
				if tt.signal > 0 && !strings.Contains(r.Text, "killed by signal 9") {
					t.Errorf("the text does not say what killed it: %q", r.Text)
				}
				sameCut(t, "stdout", d.Stdout, tt.stdout)
				sameCut(t, "stderr", d.Stderr, tt.stderr)
				if !utf8.ValidString(r.Text) || strings.Contains(r.Text, "\uFFFD") != strings.Contains(tt.stdout, "\uFFFD") {
					t.Errorf("the text tears characters: %.200q", r.Text)
				}
				if tt.live {
					v.whole("stdout", r.CallID, tt.stdout)
					v.whole("stderr", r.CallID, tt.stderr)
				}
			})
		}
	})
}

// cutNote is what stands where the middle of a long output was.
var cutNote = regexp.MustCompile(`\n\[… ([\d,]+) bytes? of ([\d,]+) cut …\]\n`)

// sameCut checks that got is want, or its two ends with a note that counts what
// is missing.
func sameCut(t testing.TB, what, got, want string) {
	t.Helper()
	at := cutNote.FindStringSubmatchIndex(got)
	if at == nil {
		if got != want {
			t.Errorf("%s is %.200q (%d bytes), want %.200q (%d bytes)", what, got, len(got), want, len(want))
		}
		return
	}
	head, tail := got[:at[0]], got[at[1]:]
	cut, total := got[at[2]:at[3]], got[at[4]:at[5]]
	if !strings.HasPrefix(want, head) || !strings.HasSuffix(want, tail) || len(head) < 10_000 || len(tail) < 10_000 {
		t.Errorf("%s: %d and %d bytes are not the two ends of the %d that were printed", what, len(head), len(tail), len(want))
	}
	if n := number(total); n != len(want) || number(cut) != n-len(head)-len(tail) {
		t.Errorf("%s: the note says that %s of %s bytes are cut, of %d there are %d and %d", what, cut, total, len(want), len(head), len(tail))
	}
}

// number reads a number with commas.
func number(s string) int {
	n, _ := strconv.Atoi(strings.ReplaceAll(s, ",", ""))
	return n
}

const hugeBytes = 500_000_000

// Output without end costs neither memory nor time: the server and the guest
// stay small, the API answers, the command is not held up, and of what it
// printed the two ends, the length and the true exit code are kept.
func TestHugeOutput(t *testing.T) {
	t.Parallel()
	// The race detector multiplies memory: what is measured is the program as it
	// is shipped.
	program := filepath.Join(t.TempDir(), "glovebox")
	build := exec.Command("go", "build", "-o", program, "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	serve := func(t testing.TB, data string) *server {
		cmd := exec.Command(program, "serve", "--json", "--no-open", "--addr", "127.0.0.1:0", "--data", data)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME=/proc/none")
		return startCommand(t, data, cmd)
	}
	// How busy the machine is anyway shows at a server that has nothing to do.
	idle := serve(t, dataDir(t))
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		data, ws := dataDir(t), workspace(t, 1000)
		s := serve(t, data)
		id := s.place(wall, ws)
		block := bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz 0123456789 ABC你\n"), 200_000)
		if err := os.WriteFile(filepath.Join(ws, "block"), block[:10_000_000], 0o644); err != nil {
			t.Fatal(err)
		}
		const flood = "for i in $(seq 50); do cat block; done; exit 7" // hugeBytes, faster than yes
		s.bash(id, "cat block")                                        // warm
		guest := guestOf(t, s.show(id))

		// measured runs a call and watches memory and the API meanwhile. How fast
		// that is shows in the looks of all calls together: a short one has few.
		var looks, others []time.Duration
		measured := func(t *testing.T, s *server, body map[string]any) httpapi.ToolResponse {
			t.Helper()
			server := s.cmd.Process.Pid
			before := map[string]int{"server": memory(t, server, "VmRSS"), "guest": memory(t, guest, "VmRSS")}
			ended := s.toolAside(id, "Bash", body)
			for {
				looks, others = append(looks, s.look(t)), append(others, idle.look(t))
				select {
				case e := <-ended:
					if e.err != nil {
						t.Fatal(e.err)
					}
					for who, pid := range map[string]int{"server": server, "guest": guest} {
						if grown := memory(t, pid, "VmHWM") - before[who]; grown > 64<<10 {
							t.Errorf("the %s has grown by %d MiB, want less than 64", who, grown>>10)
						}
					}
					return e.ToolResponse
				case <-time.After(10 * time.Millisecond): // the next look
				}
			}
		}
		check := func(t *testing.T, s *server, r httpapi.ToolResponse, code int, stderr bool, total int64) {
			t.Helper()
			d := shown(t, r)
			out, n, other := d.Stdout, d.StdoutTotal, d.StderrTotal
			if stderr {
				out, n, other = d.Stderr, d.StderrTotal, d.StdoutTotal
			}
			if d.ExitCode != code || n != total || other != 0 {
				t.Errorf("exit code %d with %d and %d bytes, want %d with %d", d.ExitCode, n, other, code, total)
			}
			at := cutNote.FindStringSubmatch(out)
			if at == nil || number(at[2]) != int(total) || d.Dropped != int64(number(at[1])) {
				t.Errorf("the note on what was cut is %q, want one of %d bytes", at, total)
			}
			if !strings.Contains(r.Text, "cut …]") || code != 0 && !strings.Contains(r.Text, fmt.Sprint("Exit code ", code)) {
				t.Errorf("the text does not say that output was cut and the exit code: …%q", r.Text[max(0, len(r.Text)-200):])
			}
			e := s.resultEvent(id, r.CallID)
			if limit := 2 * (execenv.HeadBytes + execenv.TailBytes); len(e.Body) > limit {
				t.Errorf("the recorded result has %d bytes, want at most %d", len(e.Body), limit)
			}
		}

		quiet := shown(t, s.bash(id, strings.Replace(flood, "cat block;", "cat block >/dev/null; cat block | cat >/dev/null;", 1))).DurationMS
		t.Run("nobody watches", func(t *testing.T) {
			begun := time.Now()
			r := measured(t, s.in(t), map[string]any{"command": flood})
			still := time.Since(begun) - since(begun)
			check(t, s.in(t), r, 7, false, hugeBytes)
			if took := shown(t, r).DurationMS - still.Milliseconds(); took > 3*quiet+1000 {
				t.Errorf("took %d ms, and %d ms with the output thrown away", took, quiet)
			}
		})
		t.Run("a viewer reads", func(t *testing.T) {
			s := s.in(t)
			v := s.watch(id)
			r := measured(t, s, map[string]any{"command": flood})
			check(t, s, r, 7, false, hugeBytes)
			v.result(r.CallID)
			v.last("stdout", r.CallID, hugeBytes)
			// 4 MiB in a second, and what may lie in its queue.
			if sent, limit := v.bytes(), (4<<20)*(int(r.TookMS/1000)+2); sent > limit {
				t.Errorf("the viewer was sent %d bytes in %d ms, want at most %d", sent, r.TookMS, limit)
			}
		})
		t.Run("a viewer does not read", func(t *testing.T) {
			s := s.in(t)
			s.watchBlindly(id)
			r := measured(t, s, map[string]any{"command": flood})
			check(t, s, r, 7, false, hugeBytes)
		})
		t.Run("one line", func(t *testing.T) {
			s := s.in(t)
			s.watch(id)
			check(t, s, measured(t, s, map[string]any{"command": `head -c 200000000 /dev/zero | tr '\0' a`}), 0, false, 200_000_000)
		})
		t.Run("stderr", func(t *testing.T) {
			s := s.in(t)
			s.watch(id)
			check(t, s, measured(t, s, map[string]any{"command": `head -c 200000000 /dev/zero | tr '\0' a >&2`}), 0, true, 200_000_000)
		})
		t.Run("timeout", func(t *testing.T) {
			s := s.in(t)
			s.watch(id)
			begun := time.Now()
			r := measured(t, s, map[string]any{"command": "yes", "timeout": 5000})
			still := time.Since(begun) - since(begun)
			if d := shown(t, r); r.Status != task.CallTimeout || d.DurationMS < 4000 || d.DurationMS > 6000+still.Milliseconds() {
				t.Errorf("%s after %d ms, of which the machine stood still for %v, want a timeout after 5 s", r.Status, d.DurationMS, still)
			}
		})
		t.Run("the server dies", func(t *testing.T) {
			before := memory(t, guest, "VmRSS")
			s := s.in(t)
			seen := map[string]bool{}
			for _, call := range s.calls(id) {
				seen[call] = true
			}
			s.toolAside(id, "Bash", map[string]any{"command": "cat block; touch half; sleep 1; " + flood})
			s.awaitOutput(id, "0123456789abcdefghijklmnopqrstuvwxyz 0123456789 ABC你")
			s.kill()
			s = serve(t, data)
			r := awaitEvent(s, id, 60*time.Second, func(r *task.ToolResultRecorded) bool { return !seen[r.CallID] })
			check(t, s, httpapi.ToolResponse{CallID: r.CallID, Status: r.Status, Text: r.Text, Display: r.Display}, 7, false, hugeBytes+10_000_000)
			if grown := memory(t, guest, "VmHWM") - before; grown > 64<<10 {
				t.Errorf("the guest has grown by %d MiB, want less than 64", grown>>10)
			}
		})
		slow, control := p95(looks), p95(others)
		if crowded(t) {
			t.Logf("the machine is crowded: GET /sessions took %v meanwhile", slow)
		} else if slow > max(200*time.Millisecond, 4*control) {
			t.Errorf("GET /sessions took %v meanwhile (p95 of %d), and %v where nothing ran, want at most 200ms", slow, len(looks), control)
		}
	})
}

// Half a gigabyte through a pipe: both ends, the length, the exit code.
func TestYesThroughHead(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := s.in(t)
		d := shown(t, s.bash(s.place(wall, workspace(t, 1000)), "yes | head -c 500000000"))
		if d.ExitCode != 0 || d.StdoutTotal != hugeBytes || !strings.HasPrefix(d.Stdout, "y\ny\n") || !strings.HasSuffix(d.Stdout, "y\ny\n") {
			t.Errorf("exit code %d and %d bytes, %.20q", d.ExitCode, d.StdoutTotal, d.Stdout)
		}
	})
}

// look asks for the sessions and returns how long the answer took.
func (s *server) look(t testing.TB) time.Duration {
	t.Helper()
	begun := time.Now()
	if err := s.call(t.Context(), "GET", "/sessions", nil, nil); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun)
}

// crowded reports whether so much runs on this machine that a busy process gets
// hardly any of it, however little it asks for.
func crowded(t testing.TB) bool {
	t.Helper()
	body, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	load, _, _ := strings.Cut(string(body), " ")
	n, err := strconv.ParseFloat(load, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n > float64(8*runtime.NumCPU())
}

// p95 returns the time that 95 of 100 stay below.
func p95(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)*95/100]
}

// memory reads a figure of a process in KiB.
func memory(t testing.TB, pid int, name string) int {
	t.Helper()
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB$`).FindSubmatch(body)
	if m == nil {
		t.Fatalf("no %s in %s", name, body)
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// resultEvent returns the event that records a call's result.
func (s *server) resultEvent(id, callID string) (found task.Event) {
	s.t.Helper()
	s.await(id, 30*time.Second, "the result of "+callID, func(f httpapi.Frame) bool {
		if f.Type != "event" || f.Event.Kind != task.KindToolResultRecorded || !bytes.Contains(f.Event.Body, []byte(callID)) {
			return false
		}
		found = *f.Event
		return true
	})
	return found
}

// calls returns the ids of all calls that were started in a session.
func (s *server) calls(id string) (ids []string) {
	s.t.Helper()
	s.await(id, 30*time.Second, "the log's end", func(f httpapi.Frame) bool {
		if f.Type != "event" || f.Event.Kind != task.KindToolCallStarted {
			return f.Type == "caught_up"
		}
		p, err := task.Decode(*f.Event)
		if err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, p.(*task.ToolCallStarted).CallID)
		return false
	})
	return ids
}

// viewer is a window on a session, which keeps what was sent to it.
type viewer struct {
	t       testing.TB
	changed chan struct{} // capacity one: rung at every frame

	mu      sync.Mutex
	results map[string]*task.ToolResultRecorded
	frames  map[string][]stream.Live // by stream and call, the newest thousand
	sent    int
	err     error
}

// watch opens a window on a session. It is closed at the end of the test.
func (s *server) watch(id string) *viewer {
	s.t.Helper()
	v := &viewer{t: s.t, changed: make(chan struct{}, 1), results: map[string]*task.ToolResultRecorded{}, frames: map[string][]stream.Live{}}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan struct{})
	s.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		err := s.follow(ctx, id, 0, func(f httpapi.Frame) error {
			if f.Type == "caught_up" {
				close(ready)
			}
			return v.take(f)
		})
		v.mu.Lock()
		v.err = err
		v.mu.Unlock()
		v.ring()
	}()
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		s.t.Fatal("the window is not served")
	}
	return v
}

func (v *viewer) ring() {
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

func (v *viewer) take(f httpapi.Frame) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.ring()
	switch f.Type {
	case "live":
		key := f.Live.Stream + f.Live.CallID
		fs := append(v.frames[key], *f.Live)
		v.frames[key] = fs[max(0, len(fs)-1000):]
		v.sent += len(f.Live.Data)
	case "event":
		p, err := task.Decode(*f.Event)
		if err != nil {
			return err
		}
		if r, ok := p.(*task.ToolResultRecorded); ok {
			v.results[r.CallID] = r
		}
	}
	return nil
}

// until waits until ok, which is called with v.mu held.
func (v *viewer) until(what string, ok func() bool) {
	v.t.Helper()
	late := time.After(time.Minute)
	for {
		v.mu.Lock()
		done, err := ok(), v.err
		v.mu.Unlock()
		if done {
			return
		}
		if err != nil {
			v.t.Fatalf("%s: the window was closed: %v", what, err)
		}
		select {
		case <-v.changed:
		case <-late:
			v.t.Fatalf("%s did not arrive", what)
		}
	}
}

// result waits for the event of a call's result.
func (v *viewer) result(callID string) (r *task.ToolResultRecorded) {
	v.t.Helper()
	v.until("the result", func() bool { r = v.results[callID]; return r != nil })
	return r
}

// whole waits until all of a stream has arrived and compares it.
func (v *viewer) whole(name, callID, want string) {
	v.t.Helper()
	if want == "" {
		return
	}
	v.last(name, callID, int64(len(want)))
	v.mu.Lock()
	defer v.mu.Unlock()
	var got strings.Builder
	for _, f := range v.frames[name+callID] {
		if f.Offset != int64(got.Len()) {
			v.t.Errorf("%s: a frame at %d after %d bytes", name, f.Offset, got.Len())
		}
		got.WriteString(f.Data)
	}
	if got.String() != want {
		v.t.Errorf("the viewer got %.100q as %s, want %.100q", got.String(), name, want)
	}
}

// last waits for the frame that ends a stream.
func (v *viewer) last(name, callID string, total int64) {
	v.t.Helper()
	v.until("the end of "+name, func() bool {
		fs := v.frames[name+callID]
		return len(fs) > 0 && fs[len(fs)-1].End == total
	})
}

func (v *viewer) bytes() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sent
}

// watchBlindly opens a window that asks for everything and reads nothing.
func (s *server) watchBlindly(id string) {
	s.t.Helper()
	conn, err := s.dial(s.t.Context(), "/events")
	if err == nil {
		err = conn.Write(s.t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"type":"subscribe","session_id":%q}`, id))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := conn.CloseNow(); err != nil && !errors.Is(err, context.Canceled) {
			s.t.Logf("close the window: %v", err)
		}
	})
}
