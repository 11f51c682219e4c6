// Package aiotest is a server that behaves as those of the AIO Sandbox API do,
// in the three generations there are, for tests of what talks to one. It runs
// commands and opens files on this machine, as the test's own user.
//
//	fake := aiotest.Start(t, aiotest.Options{Generation: aiotest.Piped})
//	server, err := aio.New(aio.Options{BaseURL: fake.URL})
//
// It is as unhelpful as the real ones: faults come in band or by status with the
// age, output is cut, exit codes are null, a terminal's output is merged and its
// kill reaches the shell alone. With the variable AIO_OPENAPI naming the API's
// specification, every request and answer is held against it.
package aiotest

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Generation is how old the server is.
type Generation int

// The generations.
const (
	Older  Generation = iota + 1 // no /v1/bash, file faults by status
	Piped                        // /v1/bash, file faults in band
	Daemon                       // the same with /v1/capabilities
)

// Options say what the server is like. Zero fields are ordinary.
type Options struct {
	Generation Generation
	Key        string // wanted in a header; "" for an open server
	Hostname   string // of its commands, where the test may make one
	Workspace  string // a temporary directory
	NoSpill    bool   // an older server that keeps nothing of what it cuts
	Prefix     string // of every path, as of a gateway

	// CDP is the WebSocket of a browser that the server has, which it serves below
	// /cdp; "" for one that it names and that is not there.
	CDP       string
	NoBrowser bool   // it has none, and names none
	Tools     *Tools // of its /mcp; nil where it serves none

	// Intercept sees each request first, and reports whether it has answered it.
	Intercept func(w http.ResponseWriter, r *http.Request) bool
}

// Server is a running server.
type Server struct {
	URL string

	o      Options
	spills string // directory of what is cut
	tag    string // in the environment of all that it starts
	spec   *openAPI
	t      testing.TB
	http   *httptest.Server

	mu       sync.Mutex
	seen     map[string]int // requests, by method and path
	commands map[string]*command
	shells   map[string]string // directory by session; the command of one is in commands
}

// New returns a server for a program that serves it as a handler. Workspace is
// not empty; Close takes along all that it has started.
func New(o Options) *Server {
	return &Server{o: o, spills: os.TempDir(), tag: "AIOTEST=" + rand.Text(), seen: map[string]int{}, commands: map[string]*command{}, shells: map[string]string{}}
}

// Start starts a server, which ends with the test and takes all it started with it.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Workspace == "" {
		o.Workspace = t.TempDir()
	}
	s := New(o)
	s.t, s.spills = t, t.TempDir()
	if path := os.Getenv("AIO_OPENAPI"); path != "" {
		s.spec = loadOpenAPI(t, path)
	}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL + o.Prefix
	t.Cleanup(s.Close)
	return s
}

// Close ends the server at once, requests under way with it, and all of its
// processes. It is idempotent.
func (s *Server) Close() {
	if s.http != nil {
		s.http.CloseClientConnections()
	}
	s.mu.Lock()
	for _, c := range s.commands {
		c.abandon()
	}
	s.mu.Unlock()
	s.killAll()
	if s.http != nil {
		s.http.Close()
	}
}

// Requests returns how many requests of a method and path, such as
// "POST /v1/bash/exec", have come.
func (s *Server) Requests(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[what]
}

// Sessions returns how many sessions are open.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.commands) + len(s.shells)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.URL.Path = strings.TrimPrefix(r.URL.Path, s.o.Prefix)
	s.mu.Lock()
	s.seen[r.Method+" "+r.URL.Path]++
	s.mu.Unlock()
	if s.o.Intercept != nil && s.o.Intercept(w, r) {
		return
	}
	beside := r.URL.Path == "/mcp" || strings.HasPrefix(r.URL.Path, "/cdp/") // other protocols than the API
	if s.spec != nil && !beside {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.spec.request(s.t, r, body)
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		defer func() { s.spec.answer(s.t, r, rec) }()
		w = rec
	}
	if s.o.Key != "" && r.URL.Path != "/v1/ping" && r.Header.Get("X-AIO-API-Key") != s.o.Key && r.Header.Get("Authorization") != "Bearer "+s.o.Key {
		fail(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	s.mux().ServeHTTP(w, r)
}

func (s *Server) mux() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/ping", func(w http.ResponseWriter, _ *http.Request) { ok(w, "pong") })
	m.HandleFunc("GET /v1/sandbox", s.sandbox)
	m.HandleFunc("POST /v1/shell/exec", s.shellExec)
	m.HandleFunc("POST /v1/shell/kill", s.shellKill)
	m.HandleFunc("POST /v1/shell/sessions/create", s.shellCreate)
	m.HandleFunc("DELETE /v1/shell/sessions/{id}", s.shellDelete)
	m.HandleFunc("POST /v1/file/write", s.write)
	m.HandleFunc("GET /v1/file/download", s.download)
	m.HandleFunc("GET /v1/browser/info", s.browser)
	if s.o.CDP != "" {
		m.Handle("/cdp/", s.cdp())
	}
	if s.o.Tools != nil {
		m.Handle("/mcp", s.o.Tools)
	}
	if s.o.Generation != Older {
		m.HandleFunc("GET /v1/bash/sessions", func(w http.ResponseWriter, _ *http.Request) { ok(w, []any{}) })
		m.HandleFunc("POST /v1/bash/exec", s.bashExec)
		m.HandleFunc("POST /v1/bash/output", s.bashOutput)
		m.HandleFunc("POST /v1/bash/kill", s.bashKill)
		m.HandleFunc("POST /v1/bash/sessions/{id}/close", s.bashClose)
	}
	if s.o.Generation == Daemon {
		m.HandleFunc("GET /v1/capabilities", func(w http.ResponseWriter, _ *http.Request) {
			ok(w, map[string]any{"files": true, "exec": true, "browser": false})
		})
	}
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		send(w, http.StatusNotFound, map[string]any{"detail": "Not Found"})
	})
	return m
}

func send(w http.ResponseWriter, status int, v any) {
	body, _ := json.Marshal(v) // maps of plain values
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the peer may be gone
}

func ok(w http.ResponseWriter, data any) {
	send(w, http.StatusOK, map[string]any{"success": true, "message": "Operation successful", "data": data, "hint": nil})
}

func fail(w http.ResponseWriter, status int, message string) {
	send(w, status, map[string]any{"success": false, "message": message, "data": nil, "hint": nil})
}

// decode reads a request's body; a field that is missing is the fault that the
// real ones answer.
func decode(w http.ResponseWriter, r *http.Request, v any, needed ...string) bool {
	body, _ := io.ReadAll(r.Body)
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &fields); err != nil {
		send(w, http.StatusUnprocessableEntity, map[string]any{"detail": []any{map[string]any{"loc": []any{"body"}, "msg": "JSON decode error", "type": "json_invalid"}}})
		return false
	}
	for _, name := range needed {
		if _, ok := fields[name]; !ok {
			send(w, http.StatusUnprocessableEntity, map[string]any{"detail": []any{map[string]any{"loc": []any{"body", name}, "msg": "Field required", "type": "missing"}}})
			return false
		}
	}
	if err := json.Unmarshal(body, v); err != nil {
		send(w, http.StatusUnprocessableEntity, map[string]any{"detail": []any{map[string]any{"loc": []any{"body"}, "msg": err.Error(), "type": "type_error"}}})
		return false
	}
	return true
}

func (s *Server) sandbox(w http.ResponseWriter, _ *http.Request) {
	version := map[Generation]string{Older: "1.2.2", Piped: "1.9.4", Daemon: "0.9.2"}[s.o.Generation]
	send(w, http.StatusOK, map[string]any{
		"success": true, "message": "ok", "data": "a sandbox", "hint": nil,
		"home_dir": "/tmp", "workspace": s.o.Workspace, "version": version,
		"detail": map[string]any{
			"system":  map[string]any{"os": "Linux", "os_version": "12", "arch": "x86_64", "user": "gem", "home_dir": "/tmp", "timezone": "UTC", "occupied_ports": []string{"8080"}},
			"runtime": map[string]any{"python": []any{}, "nodejs": []any{}}, "utils": []any{},
		},
	})
}

// fileFault answers a file operation that failed: by status in old servers, in
// band in later ones.
func (s *Server) fileFault(w http.ResponseWriter, operation, path string, err error) {
	kind, status := "io_error", http.StatusInternalServerError
	switch {
	case os.IsNotExist(err):
		kind, status = "not_found", http.StatusNotFound
	case os.IsPermission(err):
		kind = "permission_denied"
	}
	if s.o.Generation == Older {
		fail(w, status, err.Error())
		return
	}
	send(w, http.StatusOK, map[string]any{"success": false, "message": "Operation failed", "hint": nil, "data": map[string]any{
		"path": path, "operation": operation, "message": err.Error(), "error_type": kind, "retryable": false, "errno": nil, "errno_name": nil, "exception_type": "OSError",
	}})
}

func (s *Server) write(w http.ResponseWriter, r *http.Request) {
	var q struct {
		File, Content, Encoding string
		Append                  bool
	}
	if !decode(w, r, &q, "file", "content") {
		return
	}
	data := []byte(q.Content)
	if q.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(q.Content); err != nil {
			s.fileFault(w, "write", q.File, err)
			return
		}
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if q.Append {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(q.File, flags, 0o644)
	if err == nil {
		_, err = f.Write(data)
		f.Close()
	}
	if err != nil {
		s.fileFault(w, "write", q.File, err)
		return
	}
	ok(w, map[string]any{"file": q.File, "bytes_written": len(data)})
}

func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Query().Get("path")
	f, err := os.Open(path)
	if err != nil {
		fail(w, http.StatusNotFound, "File not found: "+path)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+filepath.Base(path)+`"`)
	_, _ = io.Copy(w, f) // a client may have enough of it
}

// killAll ends all processes that the server has started, however they hide.
func (s *Server) killAll() {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		found := false
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range dirs {
			env, err := os.ReadFile(dir + "/environ")
			if err != nil || !bytes.Contains(env, []byte(s.tag)) {
				continue
			}
			found = true
			if pid := number(filepath.Base(dir)); pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by now
			}
		}
		if !found {
			return
		}
	}
}

func number(s string) int {
	n := 0
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}
