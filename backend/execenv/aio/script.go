package aio

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const (
	// longScript is how long a script may be to be sent as a command. A longer one
	// is written to a file first: the kernel takes 128 KiB as one argument, and a
	// terminal much less.
	longScript   = 96 << 10
	longTerminal = 2 << 10
	maxResult    = 1 << 30 // of a script, or of a command's output
)

// prelude are the functions that every script has. Everything but plain words is
// printed in base64, so that neither an encoding nor a terminal touches it.
const prelude = `LC_ALL=C; export LC_ALL
b() { base64 | tr -d '\n'; echo; }
die() { printf 'die %s ' "$1"; printf %s "$2" | b; exit 9; }
oops() { printf 'oops '; printf %s "$1" | b; exit 9; }
S='%f %s %u %g %.9Y'
info() {
  i=$(stat -c "$S" -- "$1" 2>&1) || oops "$i"
  echo "stat $i"
  if [ -L "$1" ]; then
    printf 'link '; readlink -n -- "$1" | b
    if i=$(stat -L -c "$S" -- "$1" 2>/dev/null); then echo "target $i"; fi
  fi
}
# A result is printed up to 128 KiB; more is left in its file, to be downloaded.
give() {
  if [ "$(stat -c %s -- "$2")" -gt 131072 ]; then
    printf 'file-%s ' "$1"; printf %s "$2" | b
  else printf '%s ' "$1"; b <"$2"; rm -f -- "$2"; fi
}
stage() { (umask 077; mktemp "${TMPDIR:-/tmp}/.glovebox-XXXXXXXX"); }
`

// answer is what a script printed: lines of a name and a value.
type answer struct {
	lines [][2]string
}

// word returns the plain value of a name, "" where it was not printed.
func (a answer) word(name string) string {
	for _, l := range a.lines {
		if l[0] == name {
			return l[1]
		}
	}
	return ""
}

func (a answer) has(name string) bool {
	for _, l := range a.lines {
		if l[0] == name {
			return true
		}
	}
	return false
}

// value returns the bytes that a name stands before.
func (a answer) value(name string) []byte {
	b, _ := base64.StdEncoding.DecodeString(a.word(name)) // script has looked
	return b
}

// failure is a script's own word that it could not do what it was to do.
type failure struct {
	kind string // of die; "" for the text of a program
	text string
}

func (e *failure) Error() string { return e.text }

// systemFaults are the texts that programs print for an errno, in LC_ALL=C.
var systemFaults = []struct {
	text string
	err  error
}{
	{"Not a directory", execenv.ErrNotDirectory},
	{"No such file or directory", execenv.ErrNotFound},
	{"Permission denied", execenv.ErrPermission},
	{"Operation not permitted", execenv.ErrPermission},
	{"Read-only file system", execenv.ErrPermission},
	{"File exists", execenv.ErrExists},
	{"Directory not empty", execenv.ErrInvalid},
	{"Is a directory", execenv.ErrIsDirectory},
	{"Too many levels of symbolic links", execenv.ErrNotFound},
	{"File name too long", execenv.ErrInvalid},
	{"No space left on device", errNoSpace},
	{"Disk quota exceeded", errNoSpace},
}

var errNoSpace = errors.New("there is no space left")

var scriptFaults = map[string]error{
	"escape": execenv.ErrEscape, "gone": execenv.ErrWorkdirGone, "isdir": execenv.ErrIsDirectory, "irregular": execenv.ErrNotRegular,
	"exists": execenv.ErrExists, "changed": execenv.ErrChanged, "notdir": execenv.ErrNotDirectory, "missing": execenv.ErrNotFound,
	"denied": execenv.ErrPermission, "invalid": execenv.ErrInvalid, "large": execenv.ErrTooLarge,
}

// pathError makes a script's failure one of the path that it was about.
func pathError(path string, err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	if known, ok := scriptFaults[f.kind]; ok {
		return &execenv.PathError{Path: path, Err: known, Detail: f.text}
	}
	for _, s := range systemFaults {
		if strings.Contains(f.text, s.text) {
			return &execenv.PathError{Path: path, Err: s.err}
		}
	}
	return fmt.Errorf("%s: %w: %s", path, errRefused, clip(f.text))
}

// script runs a script in a shell of its own on the server and returns what it
// printed. It is for operations on files: no preamble, no variables. An error is
// a *failure where the script said so itself.
func (s *Server) script(ctx context.Context, body string) (answer, error) {
	nonce := rand.Text()
	text := prelude + "echo; echo " + nonce + "-begin\n(\n" + body + "\n) 2>&1\necho; echo " + nonce + "-end $?\n"
	printed, err := s.printed(ctx, text)
	if err != nil {
		return answer{}, err
	}
	_, rest, ok := strings.Cut(printed, nonce+"-begin\n")
	if !ok {
		return answer{}, misfit("a script", errors.New("what it printed has no beginning"))
	}
	lines, end, ok := strings.Cut(rest, "\n"+nonce+"-end ")
	if !ok {
		return answer{}, misfit("a script", errors.New("what it printed was cut"))
	}
	var a answer
	for line := range strings.Lines(lines) {
		if line = strings.TrimRight(line, "\n"); line == "" {
			continue
		}
		name, value, _ := strings.Cut(line, " ")
		a.lines = append(a.lines, [2]string{name, value})
	}
	for _, name := range []string{"die", "oops"} {
		if !a.has(name) {
			continue
		}
		kind, text := "", a.word(name)
		if name == "die" {
			kind, text, _ = strings.Cut(text, " ")
		}
		said, _ := base64.StdEncoding.DecodeString(text) // what does not decode says nothing
		return a, &failure{kind, strings.TrimSpace(string(said))}
	}
	if code := strings.TrimSpace(end); code != "0" {
		return a, &failure{"", strings.TrimSpace(lines)} // a program that is not there, mostly
	}
	return a, nil
}

// printed runs a script's text by whatever the server has and returns its output.
func (s *Server) printed(ctx context.Context, text string) (string, error) {
	info, err := s.Probe(ctx)
	if err != nil {
		return "", err
	}
	limit := longScript
	if info.Generation == Older {
		limit = longTerminal
	}
	command := "sh -c " + execenv.Quote(text)
	if len(command) > limit {
		path := "/tmp/.glovebox-" + rand.Text()
		if err := s.put(ctx, path, []byte(text)); err != nil {
			return "", fmt.Errorf("put a script there: %w", err)
		}
		command = "sh " + path + "; rm -f " + path
	}
	if info.Generation == Older {
		return s.terminalScript(ctx, "( "+command+" ) </dev/null")
	}
	var r bashResult
	err = s.post(ctx, scriptTime+shortTime, "/v1/bash/exec", map[string]any{
		"command": command + " </dev/null", "exec_dir": "/", "hard_timeout": seconds(scriptTime), "max_output_length": 0,
	}, &r)
	if err != nil {
		return "", err
	}
	s.later(ctx, func(ctx context.Context) error { return s.closeSession(ctx, r.SessionID) })
	if r.Status != "completed" {
		return "", fmt.Errorf("an operation on files ended as %q: %w", clip(r.Status), execenv.ErrOutcomeUnknown)
	}
	return r.Stdout, nil
}

// put writes a file as it is, by the API.
func (s *Server) put(ctx context.Context, path string, data []byte) error {
	return s.post(ctx, bytesTime, "/v1/file/write", map[string]any{
		"file": path, "content": base64.StdEncoding.EncodeToString(data), "encoding": "base64",
	}, nil)
}

// stage puts data into a temporary file of ours that only the user can read, and
// returns its path; whoever asked for it removes it.
func (s *Server) stage(ctx context.Context, data []byte) (string, error) {
	a, err := s.script(ctx, `t=$(stage); printf 'path '; printf %s "$t" | b`)
	if err != nil {
		return "", silent(err)
	}
	path := string(a.value("path"))
	if err := s.put(ctx, path, data); err != nil {
		s.remove(ctx, path)
		return "", silent(err)
	}
	return path, nil
}

// result returns the bytes that a script gave under a name: as it printed them,
// or from the file that it left them in, which is then removed.
func (s *Server) result(ctx context.Context, a answer, name string) ([]byte, error) {
	if !a.has("file-" + name) {
		return a.value(name), nil
	}
	path := string(a.value("file-" + name))
	defer s.remove(ctx, path)
	var b bytes.Buffer
	err := s.download(ctx, path, &b, maxResult)
	return b.Bytes(), err
}

// remove removes a temporary file of ours, later.
func (s *Server) remove(ctx context.Context, paths ...string) {
	s.later(ctx, func(ctx context.Context) error {
		_, err := s.script(ctx, "rm -f -- "+execenv.Quote(paths...))
		return err
	})
}

// download copies a file's bytes to w, up to a limit.
func (s *Server) download(ctx context.Context, path string, w io.Writer, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, bytesTime)
	defer cancel()
	body, err := s.open(ctx, path, 0)
	if err != nil {
		return err
	}
	defer body.Close()
	n, err := io.Copy(w, io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return s.lost(ctx, http.MethodGet, err)
	case n > limit:
		return &execenv.PathError{Path: path, Err: execenv.ErrTooLarge, Detail: fmt.Sprintf("the server sends more than %d bytes", limit)}
	}
	return nil
}

// open begins a download at an offset, by a range where the server knows them.
func (s *Server) open(ctx context.Context, path string, offset int64) (io.ReadCloser, error) {
	header := http.Header{}
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	answer, err := s.send(ctx, http.MethodGet, "/v1/file/download?path="+url.QueryEscape(path), nil, header)
	if err != nil {
		var status *statusError
		if errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusForbidden) {
			return nil, &execenv.PathError{Path: path, Err: status.err, Detail: status.Message}
		}
		return nil, err
	}
	if offset > 0 && answer.StatusCode != http.StatusPartialContent {
		if _, err := io.CopyN(io.Discard, answer.Body, offset); err != nil && !errors.Is(err, io.EOF) {
			answer.Body.Close()
			return nil, s.lost(ctx, http.MethodGet, err)
		}
	}
	return answer.Body, nil
}
