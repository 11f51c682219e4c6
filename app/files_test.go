package app

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// anyWall runs a test behind every wall, and without one.
func anyWall(t *testing.T, test func(t *testing.T, wall sandbox.Wall)) {
	eachWall(t, test)
	t.Run("local", func(t *testing.T) { test(t, sandbox.WallLocal) })
}

// get reads a route of a session's files.
func (s *server) get(id, route, path string) *http.Response {
	s.t.Helper()
	address := s.base + "/api/v1/sessions/" + id + "/" + route + "?path=" + url.QueryEscape(path)
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", address, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// fault returns the code of an answer that must be an error.
func (s *server) fault(id, route, path string) string {
	s.t.Helper()
	resp := s.get(id, route, path)
	var e httpapi.ErrorResponse
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.StatusCode < 400 {
		s.t.Errorf("%s of %q answered %s", route, path, resp.Status)
	}
	return e.Error.Code
}

func answerOf[T any](s *server, resp *http.Response) T {
	s.t.Helper()
	var v T
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("%s: %s %s", resp.Request.URL, resp.Status, body)
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		s.t.Fatal(err)
	}
	return v
}

func TestFiles(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	anyWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := s.in(t)
		ws := workspace(t, 1000)
		hostile := "<img src=x>\"\u202e\n.svg"
		svg := `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
		png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
		if err := errors.Join(os.MkdirAll(ws+"/z/inner", 0o755), os.WriteFile(ws+"/a.txt", []byte("hello\n"), 0o644),
			os.WriteFile(filepath.Join(ws, hostile), []byte(svg), 0o644), os.WriteFile(ws+"/p.png", []byte(png), 0o644),
			os.Symlink("/etc/hostname", ws+"/out")); err != nil {
			t.Fatal(err)
		}
		id := s.place(wall, ws)
		l := answerOf[httpapi.Listing](s, s.get(id, "files", ""))
		var names []string
		for _, e := range l.Entries {
			names = append(names, filepath.Base(e.Path))
		}
		if want := []string{"z", hostile, "a.txt", "out", "p.png"}; !slices.Equal(names, want) {
			t.Errorf("the workspace holds %q, want %q", names, want)
		}
		if inner := answerOf[httpapi.Listing](s, s.get(id, "files", "z")); inner.Path != l.Path+"/z" || len(inner.Entries) != 1 {
			t.Errorf("files of z: %+v", inner)
		}
		v := answerOf[httpapi.FileView](s, s.get(id, "files/view", l.Path+"/a.txt"))
		if sum := sha256.Sum256([]byte("hello\n")); v.Text != "hello\n" || v.Kind != "text" || v.Truncated || v.Hash != fmt.Sprintf("%x", sum) || v.Info.Size != 6 {
			t.Errorf("view of a.txt: %+v", v)
		}
		if v := answerOf[httpapi.FileView](s, s.get(id, "files/view", hostile)); v.Kind != "text" || v.Text != svg {
			t.Errorf("view of an SVG: %+v", v)
		}
		if v := answerOf[httpapi.FileView](s, s.get(id, "files/view", "p.png")); v.Kind != "image" || v.MediaType != "image/png" || v.Text != "" {
			t.Errorf("view of an image: %+v", v)
		}
		for name, want := range map[string]string{hostile: "application/octet-stream", "a.txt": "application/octet-stream", "p.png": "image/png"} {
			resp := s.get(id, "files/raw", name)
			h := resp.Header
			if h.Get("Content-Type") != want || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; ") ||
				h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
				t.Errorf("raw %q has the headers %v", name, h)
			}
			body, err := io.ReadAll(resp.Body)
			onHost, _ := os.ReadFile(filepath.Join(ws, name))
			if err != nil || string(body) != string(onHost) || resp.ContentLength != int64(len(body)) {
				t.Errorf("raw %q = %q (%d), %v", name, body, resp.ContentLength, err)
			}
		}
		for path, want := range map[string]string{"none": "not_found", "z": "is_directory"} {
			if got := s.fault(id, "files/raw", path); got != want {
				t.Errorf("raw %s: %s, want %s", path, got, want)
			}
			if got := s.fault(id, "files/view", path); got != want {
				t.Errorf("view %s: %s, want %s", path, got, want)
			}
		}
		if got := s.fault(id, "files", "a.txt"); got != "not_directory" {
			t.Errorf("files of a file: %s", got)
		}
		if wall == sandbox.WallLocal {
			for _, path := range []string{"out", "/etc/hostname", "../x", "/etc"} {
				if got := s.fault(id, "files/view", path); got != "outside_workspace" && got != "is_directory" && got != "not_found" {
					t.Errorf("view %s: %s", path, got)
				}
			}
			if got := s.fault(id, "files/view", "out"); got != "outside_workspace" {
				t.Errorf("view by a link out of the workspace: %s", got)
			}
			if got := s.fault(id, "files", "/etc"); got != "outside_workspace" {
				t.Errorf("files of /etc: %s", got)
			}
		}
		// What a person looked at is not what the agent has read.
		if r := s.tool(id, "Edit", map[string]any{"file_path": l.Path + "/a.txt", "old_string": "hello", "new_string": "bye"}); r.Status == task.CallOK {
			t.Errorf("an edit of a file that only a person looked at: %+v", r)
		}
	})
}

// memory returns the most that a server has had in memory so far, in bytes.
func (s *server) memory() int64 {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kb int64
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				s.t.Fatal(err)
			}
			return kb << 10
		}
	}
	s.t.Fatal("no VmHWM")
	return 0
}

func TestFiles_largeInLittleMemory(t *testing.T) {
	t.Parallel()
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := start(t, dataDir(t))
		ws := workspace(t, 1000)
		big, err := os.Create(ws + "/big")
		if err != nil {
			t.Fatal(err)
		}
		defer big.Close()
		const size = 100 << 20
		sum := sha256.New()
		if _, err := io.CopyN(io.MultiWriter(big, sum), rand.Reader, size); err != nil {
			t.Fatal(err)
		}
		id := s.place(wall, ws)
		s.get(id, "files", "") // it stands
		before := s.memory()
		resp := s.get(id, "files/raw", "big")
		got := sha256.New()
		n, err := io.Copy(got, resp.Body)
		if err != nil || n != size || resp.ContentLength != size || string(got.Sum(nil)) != string(sum.Sum(nil)) {
			t.Errorf("%d of %d bytes came, or others than are there: %v", n, size, err)
		}
		if grew := s.memory() - before; grew > 48<<20 {
			t.Errorf("the server grew by %d MiB for a file of %d MiB", grew>>20, size>>20)
		}

		resp = s.get(id, "files/raw", "big")
		if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
			t.Fatal(err)
		}
		if err := big.Truncate(1000); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("a file that shrank ended in good order after %d bytes", n+1<<20)
		}
	})
}

// window is an open events socket.
type window struct {
	t    testing.TB
	conn *websocket.Conn
	ctx  context.Context
}

func (s *server) window(within time.Duration) *window {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	s.t.Cleanup(cancel)
	conn, err := s.dial(ctx, "/events")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.CloseNow() })
	return &window{s.t, conn, ctx}
}

func (w *window) say(f httpapi.Frame) {
	w.t.Helper()
	body, err := json.Marshal(f)
	if err == nil {
		err = w.conn.Write(w.ctx, websocket.MessageText, body)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// await reads frames until one passes, and returns that.
func (w *window) await(what string, ok func(httpapi.Frame) bool) httpapi.Frame {
	w.t.Helper()
	for {
		_, data, err := w.conn.Read(w.ctx)
		var f httpapi.Frame
		if err == nil {
			err = json.Unmarshal(data, &f)
		}
		if err != nil {
			w.t.Fatalf("waiting for %s: %v", what, err)
		}
		if ok(f) {
			return f
		}
	}
}

// changed waits until a directory was reported.
func (w *window) changed(id, dir string) {
	w.t.Helper()
	w.await("a change in "+dir, func(f httpapi.Frame) bool {
		if f.Type == "error" {
			w.t.Errorf("an error frame: %+v", f.Error)
		}
		return f.Type == "files" && f.SessionID == id && slices.Contains(f.Dirs, dir)
	})
}

func TestWatchFiles(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	anyWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := s.in(t)
		ws := workspace(t, 1000)
		if err := errors.Join(os.Mkdir(ws+"/sub", 0o755), os.Chmod(ws+"/sub", 0o777)); err != nil {
			t.Fatal(err)
		}
		id := s.place(wall, ws)
		w := s.window(90 * time.Second)
		w.say(httpapi.Frame{Type: "watch_files", SessionID: id, Dirs: []string{"", "sub"}})
		w.changed(id, "sub") // it holds
		if err := os.WriteFile(ws+"/sub/by-the-host", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		w.changed(id, "sub")
		if wall == sandbox.WallLocal {
			return
		}
		s.bash(id, "touch by-a-command")
		w.changed(id, "")

		s.post(id, "stop", nil)
		said := w.await("trouble", func(f httpapi.Frame) bool { return f.Type == "error" })
		if said.SessionID != id || said.Error.Code != "sandbox_stopped" {
			t.Errorf("after the stop: %+v, %+v", said, said.Error)
		}
		s.post(id, "start", nil)
		w.changed(id, "sub") // taken up by itself, and nothing more was said
		if r := s.bash(id, "touch sub/after"); r.Status != task.CallOK {
			t.Fatalf("touch: %+v", r)
		}
		w.changed(id, "sub")

		w.say(httpapi.Frame{Type: "watch_files", SessionID: id, Dirs: make([]string, 257)})
		if f := w.await("a refusal", func(f httpapi.Frame) bool { return f.Type == "error" }); f.Error.Code != "invalid_body" {
			t.Errorf("257 directories: %+v", f.Error)
		}
		w.say(httpapi.Frame{Type: "watch_files", SessionID: "s-none", Dirs: []string{""}})
		if f := w.await("a refusal", func(f httpapi.Frame) bool { return f.Type == "error" }); f.Error.Code != "unknown_session" {
			t.Errorf("an unknown session: %+v", f.Error)
		}
	})
}

func TestIsolation_probe(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	anyWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := s.in(t)
		id := s.place(wall, workspace(t, 1000))
		s.get(id, "files", "") // it stands
		i := answerOf[httpapi.Isolation](s, s.get(id, "isolation", ""))
		host, inside := i.Host, i.Sandbox
		name, _ := os.Hostname()
		if host.Error != "" || host.Hostname != name || host.UID != os.Geteuid() || host.Processes < 2 || len(host.Interfaces) < 1 {
			t.Fatalf("the host's side: %+v", host)
		}
		if inside.Error != "" || i.Command == "" || time.Since(i.At) > time.Minute {
			t.Fatalf("the probe: %+v", i)
		}
		if wall == sandbox.WallLocal {
			if inside.Hostname != host.Hostname || inside.UID != host.UID || !slices.Equal(inside.Interfaces, host.Interfaces) {
				t.Errorf("without a wall: %+v, want the host's %+v", inside, host)
			}
			return
		}
		if v := s.show(id); inside.Hostname != v.ShortID || v.ShortID == "" {
			t.Errorf("hostname %q, want %q", inside.Hostname, v.ShortID)
		}
		if inside.Capabilities != "0000000000000000" || !slices.Equal(inside.Interfaces, []string{"lo"}) || inside.Kernel != host.Kernel {
			t.Errorf("inside: %+v", inside)
		}
		if inside.Processes >= host.Processes || inside.Init == host.Init {
			t.Errorf("inside %d processes, the first of them %s; on the host %d, %s", inside.Processes, inside.Init, host.Processes, host.Init)
		}
		if os.Geteuid() == 0 && (inside.UID != 1000 || inside.GID != 1000) {
			t.Errorf("commands run as %d:%d, want 1000:1000", inside.UID, inside.GID)
		}
		s.post(id, "stop", nil)
		i = answerOf[httpapi.Isolation](s, s.get(id, "isolation", ""))
		if !strings.Contains(i.Sandbox.Error, "stopped") || i.Sandbox.Hostname != "" || i.Host.Error != "" {
			t.Errorf("after a stop: %+v", i)
		}
	})
}

func TestDirs(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	s := start(t, data)
	var home, made httpapi.Dirs
	if err := s.call(t.Context(), "GET", "/dirs", nil, &home); err != nil || home.Path == "" || home.Refused == "" {
		t.Errorf("GET /dirs = %+v, %v; want the home, which is no workspace", home, err)
	}
	var about httpapi.About
	if err := s.call(t.Context(), "GET", "/about", nil, &about); err != nil || about.Home != home.Path {
		t.Errorf("home is %q in about, %q in dirs, %v", about.Home, home.Path, err)
	}
	dir := filepath.Join(workspace(t, 1000), "new")
	if err := s.call(t.Context(), "POST", "/dirs", httpapi.MakeDirRequest{Path: dir}, &made); err != nil || made.Path != dir || made.Refused != "" {
		t.Fatalf("POST /dirs = %+v, %v", made, err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("the directory: %v, %v", info, err)
	}
	var own httpapi.Dirs
	if err := s.call(t.Context(), "GET", "/dirs?path="+url.QueryEscape(data), nil, &own); err != nil || own.Refused == "" {
		t.Errorf("the data directory = %+v, %v; want it refused", own, err)
	}
	if err := s.call(t.Context(), "POST", "/dirs", httpapi.MakeDirRequest{Path: filepath.Join(data, "boxes", "x")}, nil); err == nil {
		t.Error("a directory was made among the program's own")
	}
	var refused *apiError
	if err := s.call(t.Context(), "GET", "/dirs?path=/none-such", nil, nil); !errors.As(err, &refused) || refused.Code != "not_found" {
		t.Errorf("GET /dirs of nothing = %v", err)
	}
}
