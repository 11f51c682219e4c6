package aio_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio/aiotest"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func sh(t *testing.T, env *aio.Env, script string) (execenv.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return env.Run(ctx, execenv.Command{Argv: []string{"sh", "-c", script}}, nil)
}

func text(o execenv.Outcome) string {
	return string(o.Stdout.Head) + string(o.Stdout.Tail) + string(o.Stderr.Head)
}

// A server is known by what it does, and says what does not hold.
func TestProbe(t *testing.T) {
	for _, g := range generations {
		t.Run(g.name, func(t *testing.T) {
			fake, server, env := open(t, aiotest.Options{Generation: g.fake, Prefix: "/gw/box"})
			info, err := server.Probe(t.Context())
			if err != nil || info.Generation != g.want || info.Version == "" {
				t.Errorf("Probe() = %+v, %v, want %v", info, err, g.want)
			}
			if _, err := server.Probe(t.Context()); err != nil || fake.Requests("GET /v1/sandbox") != 1 {
				t.Errorf("it asked %d times", fake.Requests("GET /v1/sandbox"))
			}
			if older := strings.Contains(env.Where().Caveat, "may go on"); older != (g.want == aio.Older) || env.Where().Caveat == "" {
				t.Errorf("caveat %q", env.Where().Caveat)
			}
			url, err := server.CDPURL(t.Context())
			if want := "ws" + strings.TrimPrefix(fake.URL, "http") + "/cdp/devtools/browser/abc?x=1"; err != nil || url != want {
				t.Errorf("CDPURL() = %q, %v, want %q", url, err, want)
			}
		})
	}
}

// A server that has no browser, or does not let it be had, is told from one that
// is not there, or that wants another key.
func TestCDP_none(t *testing.T) {
	t.Setenv("AIO_TEST_KEY", "")
	for name, o := range map[string]aiotest.Options{
		"none":     {NoBrowser: true},
		"no names": {Intercept: func(w http.ResponseWriter, r *http.Request) bool { return replied(w, r, `{"success":true,"data":{}}`) }},
		"in band": {Intercept: func(w http.ResponseWriter, r *http.Request) bool {
			return replied(w, r, `{"success":false,"message":"no"}`)
		}},
		"no JSON": {Intercept: func(w http.ResponseWriter, r *http.Request) bool { return replied(w, r, "<html>") }},
		"not let": {}, // it is named, and /cdp is not served
	} {
		o.Generation = aiotest.Piped
		_, server, _ := open(t, o)
		if conn, err := server.CDP(t.Context()); !errors.Is(err, execenv.ErrNoBrowser) {
			t.Errorf("%s: CDP() = %v, %v, want ErrNoBrowser", name, conn, err)
		}
	}
	fake, server, _ := open(t, aiotest.Options{Generation: aiotest.Daemon, Key: "zz-secret"})
	if _, err := server.CDP(t.Context()); !errors.Is(err, sandbox.ErrUnauthorized) || !strings.Contains(err.Error(), "AIO_TEST_KEY") {
		t.Errorf("without the key: CDP() = %v", err)
	}
	fake.Close()
	if _, err := server.CDP(t.Context()); !errors.Is(err, execenv.ErrUnreachable) || errors.Is(err, execenv.ErrNoBrowser) {
		t.Errorf("of a server that is gone: CDP() = %v", err)
	}
}

func replied(w http.ResponseWriter, r *http.Request, body string) bool {
	if r.URL.Path == "/v1/browser/info" {
		fmt.Fprint(w, body)
	}
	return r.URL.Path == "/v1/browser/info"
}

// The key is in the handshake with the browser too, and in no message.
func TestCDP_key(t *testing.T) {
	t.Setenv("AIO_TEST_KEY", "zz-secret")
	for _, status := range []int{http.StatusUnauthorized, http.StatusBadGateway} {
		keys := 0
		_, server, _ := open(t, aiotest.Options{Generation: aiotest.Piped, Key: "zz-secret", Intercept: func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/cdp/") {
				return false
			}
			if r.Header.Get("X-AIO-API-Key") == "zz-secret" && r.URL.RawQuery == "x=1" {
				keys++
			}
			w.WriteHeader(status)
			return true
		}})
		_, err := server.CDP(t.Context())
		if keys != 1 || errors.Is(err, sandbox.ErrUnauthorized) != (status == http.StatusUnauthorized) || strings.Contains(err.Error(), "zz") {
			t.Errorf("%d: the key came %d times, CDP() = %v", status, keys, err)
		}
	}
}

// The key goes with every request, is read anew for each, and is in no message.
func TestKey(t *testing.T) {
	_, server, env := open(t, aiotest.Options{Generation: aiotest.Piped, Key: "zz-secret"})
	for _, test := range []struct {
		key   string
		works bool
	}{{"", false}, {"wrong-zz", false}, {"zz-secret", true}} { // the last one stays
		t.Setenv("AIO_TEST_KEY", test.key)
		err := server.Ping(t.Context())
		if (err == nil) != test.works {
			t.Errorf("Ping() with %q = %v", test.key, err)
		}
		if !test.works && (!errors.Is(err, sandbox.ErrUnauthorized) || !strings.Contains(err.Error(), "AIO_TEST_KEY") || strings.Contains(err.Error(), "zz")) {
			t.Errorf("with %q: %v, want the variable's name", test.key, err)
		}
	}
	o, err := sh(t, env, "env")
	if err != nil || strings.Contains(strings.ReplaceAll(text(o), "AIO_TEST_KEY=zz-secret", ""), "zz-secret") {
		t.Errorf("a command sees the key: %v", err) // but for the test's own environment, which is the fake's
	}
	t.Setenv("AIO_TEST_KEY", "")
	if _, err := sh(t, env, "true"); !errors.Is(err, sandbox.ErrUnauthorized) {
		t.Errorf("Run() without the key: %v", err)
	}
}

// A preamble stands before each command, fresh, and before no operation on files.
func TestPreamble(t *testing.T) {
	for _, g := range generations {
		t.Run(g.name, func(t *testing.T) {
			_, server, plain := open(t, aiotest.Options{Generation: g.fake})
			asked, prefix := 0, ""
			env := server.Env(aio.Place{Wall: sandbox.WallRemote, Workdir: plain.Where().Workdir,
				Env: map[string]sandbox.EnvValue{"LITERAL": {Literal: "it's"}},
				Preamble: func(_ context.Context, argv []string) (string, error) {
					if asked++; len(argv) != 3 || argv[0] != "sh" {
						t.Errorf("asked for %q", argv)
					}
					if prefix == "fault" {
						return "", errors.New("no token today")
					}
					return prefix, nil
				}})
			prefix = `export TOKEN="tok 1" && `
			o, err := sh(t, env, `pwd; echo "$TOKEN|$LITERAL"; env | grep -c GLOVEBOX_PREAMBLE; tr '\0' ' ' </proc/$$/cmdline`)
			if err != nil || !strings.HasPrefix(text(o), env.Where().Workdir+"\ntok 1|it's\n0\nsh -c pwd") {
				t.Errorf("Run() = %q, %v", text(o), err)
			}
			for _, bad := range []string{"false && ", "false\n", "exit 3; ", "fault"} {
				prefix = bad
				o, err := sh(t, env, "echo ran >>ran")
				if bad == "fault" && (err == nil || !strings.Contains(err.Error(), "no token today")) || bad != "fault" && (err != nil || o.ExitCode == 0) {
					t.Errorf("%q: %+v, %v", bad, o, err)
				}
			}
			before := asked
			if _, err := env.Stat(t.Context(), "ran"); !errors.Is(err, execenv.ErrNotFound) {
				t.Errorf("a command ran after a failing preamble: %v", err)
			}
			if _, err := env.WriteFile(t.Context(), execenv.WriteRequest{Path: env.Where().Workdir + "/f", Data: []byte("x")}); err != nil || asked != before {
				t.Errorf("a write: %v; asked %d times", err, asked-before)
			}
		})
	}
}

// An output that an older server cut comes whole from its file, or says that it
// was cut.
func TestTerminal_cutOutput(t *testing.T) {
	_, _, env := open(t, aiotest.Options{Generation: aiotest.Older})
	o, err := sh(t, env, "seq 100000; echo END >&2")
	if err != nil || o.Stdout.Total < 500_000 || !strings.HasSuffix(string(o.Stdout.Tail), "100000\nEND\n") {
		t.Errorf("%d bytes, %v", o.Stdout.Total, err)
	}
	_, _, env = open(t, aiotest.Options{Generation: aiotest.Older, NoSpill: true})
	if o, err = sh(t, env, "seq 100000"); err != nil || !strings.Contains(text(o), "the server cut this output") {
		t.Errorf("%d bytes without a word, %v", o.Stdout.Total, err)
	}
}

// What is put on the server for a call is taken away again, sessions too.
func TestEnv_leavesNothing(t *testing.T) {
	for _, g := range generations {
		t.Run(g.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			fake, server, env := open(t, aiotest.Options{Generation: g.fake})
			big := strings.Repeat("x", 300_000)
			w := env.Where().Workdir
			if _, err := env.WriteFile(t.Context(), execenv.WriteRequest{Path: w + "/big", Data: []byte(big)}); err != nil {
				t.Fatal(err)
			}
			if r, err := env.WriteFile(t.Context(), execenv.WriteRequest{Path: w + "/big", Data: []byte("small")}); err != nil || string(r.Before) != big {
				t.Errorf("before: %d bytes, %v", len(r.Before), err)
			}
			if _, err := env.Run(t.Context(), execenv.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("in"), Env: []string{"A=b"}}, nil); err != nil {
				t.Error(err)
			}
			if _, err := env.Grep(t.Context(), execenv.GrepRequest{Path: w, Pattern: "small"}); err != nil {
				t.Error(err)
			}
			server.Close()
			if n := fake.Sessions(); n != 0 {
				t.Errorf("%d sessions are open", n)
			}
			for _, dir := range []string{os.Getenv("TMPDIR"), "/tmp"} {
				entries, _ := os.ReadDir(dir)
				for _, e := range entries {
					if strings.HasPrefix(e.Name(), ".glovebox-") {
						t.Errorf("%s/%s is left", dir, e.Name())
					}
				}
			}
		})
	}
}

// hostile answers some path as it likes and leaves the rest to the fake.
func hostile(t *testing.T, g aiotest.Generation, path string, answer func(w http.ResponseWriter, r *http.Request)) (*aiotest.Server, *aio.Env) {
	t.Helper()
	var on atomic.Bool
	fake, server, env := open(t, aiotest.Options{Generation: g, Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		if !on.Load() || r.URL.Path != path {
			return false
		}
		answer(w, r)
		return true
	}})
	if _, err := server.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	on.Store(true)
	return fake, env
}

func says(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// A command that may have run is never sent again, whatever comes back.
func TestRun_neverTwice(t *testing.T) {
	answers := map[string]func(http.ResponseWriter, *http.Request){
		"wrong types": says(200, `{"success":"yes","data":[1,2]}`),
		"no data":     says(200, `{"success":true,"data":null}`),
		"no JSON":     says(200, `<html>`),
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"success":true`)
		},
		"hung up": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/bash/exec", http.StatusTemporaryRedirect)
		},
		"gateway": says(502, "<html>Bad Gateway</html>"),
		"busy":    says(429, `{"success":false,"message":"too many sessions"}`),
		"missing": says(422, `{"detail":[{"loc":["body","command"],"msg":"Field required","type":"missing"}]}`),
		"in band": says(200, `{"success":false,"message":"no shell","data":null}`),
		"no bash": says(404, `{"detail":"Not Found"}`),
		"no code": says(200, `{"data":{"session_id":"","status":"completed","exit_code":null}}`),
		"huge":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, io.LimitReader(zeros{}, 200<<20)) },
	}
	unknown := map[string]bool{"wrong types": true, "no data": true, "no JSON": true, "cut": true, "hung up": true, "no code": true}
	for _, path := range []string{"/v1/bash/exec", "/v1/shell/exec"} {
		for name, answer := range answers {
			t.Run(name+path, func(t *testing.T) {
				g := aiotest.Piped
				if strings.Contains(path, "shell") {
					g = aiotest.Older
				}
				fake, env := hostile(t, g, path, answer)
				o, err := sh(t, env, "true")
				if err == nil {
					t.Errorf("Run() = %+v, want an error", o)
				}
				if unknown[name] && !errors.Is(err, execenv.ErrOutcomeUnknown) {
					t.Errorf("Run() = %v, want ErrOutcomeUnknown", err)
				}
				if n := fake.Requests("POST " + path); n != 1 {
					t.Errorf("it was sent %d times", n)
				}
			})
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// A stream that never ends, ends with the command's time.
func TestRun_endlessOutput(t *testing.T) {
	var at atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, env := hostile(t, aiotest.Piped, "/v1/bash/output", func(w http.ResponseWriter, r *http.Request) {
		n := at.Add(1 << 20)
		if n == 8<<20 {
			cancel()
		}
		body, _ := json.Marshal(map[string]any{"data": map[string]any{"stdout": strings.Repeat("x", 1<<20), "offset": n, "command": map[string]any{"status": "running"}}})
		_, _ = w.Write(body)
	})
	o, err := env.Run(ctx, execenv.Command{Argv: []string{"true"}}, nil)
	if err != nil || !o.Interrupted || len(o.Stdout.Head)+len(o.Stdout.Tail) > execenv.HeadBytes+execenv.TailBytes {
		t.Errorf("Run() = %v, %d bytes kept", err, len(o.Stdout.Head)+len(o.Stdout.Tail))
	}
	_, env = hostile(t, aiotest.Piped, "/v1/bash/output", says(200, `{"data":{"stdout":"again","offset":0,"command":{"status":"running"}}}`))
	if _, err := sh(t, env, "true"); !errors.Is(err, execenv.ErrOutcomeUnknown) {
		t.Errorf("output that stands still: %v", err)
	}
}

// What a server says of its files is held against what can be.
func TestFiles_lies(t *testing.T) {
	lie := func(lines string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, rest, _ := strings.Cut(string(body), "echo; echo ")
			nonce, _, _ := strings.Cut(rest, "-begin")
			answer, _ := json.Marshal(map[string]any{"data": map[string]any{"session_id": "s", "status": "completed", "exit_code": 0,
				"stdout": "\n" + nonce + "-begin\n" + lines + "\n" + nonce + "-end 0\n"}})
			_, _ = w.Write(answer)
		}
	}
	for name, lines := range map[string]string{
		"nothing": "", "no numbers": "stat a b c d e", "few": "stat 81a4 1", "escape": "real L3RtcA==\ntree " +
			"ZiA2NDQgMSAwIDAgMS4wAC4uLy4uL2V0Yy9ldmlsAAA=\ntargets \nlinks \nrules \nstat 41ed 1 0 0 1.0",
	} {
		t.Run(name, func(t *testing.T) {
			_, env := hostile(t, aiotest.Piped, "/v1/bash/exec", lie(lines))
			if _, err := env.Stat(t.Context(), "/f"); err == nil && name != "escape" {
				t.Error("Stat() took it")
			}
			if _, err := env.Glob(t.Context(), execenv.GlobRequest{Base: "/tmp", Pattern: "**"}); err == nil {
				t.Error("Glob() took it")
			}
			if _, err := os.Lstat("/etc/evil"); err == nil {
				t.Fatal("a listing wrote outside of its mirror")
			}
		})
	}
	_, env := hostile(t, aiotest.Piped, "/v1/file/download", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, zeros{}) // until the client has enough
	})
	if _, err := env.WriteFile(t.Context(), execenv.WriteRequest{Path: env.Where().Workdir + "/f", Data: []byte("a\n")}); err != nil {
		t.Fatal(err)
	}
	r, err := env.ReadFile(t.Context(), execenv.ReadRequest{Path: "f", NoHash: true, Length: 10})
	if err != nil || len(r.Data) != 10 {
		t.Errorf("an endless download: %d bytes, %v", len(r.Data), err)
	}
}

// Faults of files come by status or in band, and mean the same.
func TestFaults(t *testing.T) {
	for body, want := range map[string]error{
		`200 {"success":false,"data":{"path":"/f","operation":"write","message":"no","error_type":"permission_denied"}}`: execenv.ErrPermission,
		`200 {"success":false,"data":{"path":"/f","operation":"write","message":"no","error_type":"not_found"}}`:         execenv.ErrNotFound,
		`404 {"success":false,"message":"no"}`: execenv.ErrNotFound,
		`403 {"success":false,"message":"no"}`: execenv.ErrPermission,
		`503 <html>`:                           execenv.ErrUnreachable,
	} {
		var status int
		_, _ = fmt.Sscan(body, &status)
		_, env := hostile(t, aiotest.Piped, "/v1/file/write", says(status, body[4:]))
		_, err := env.WriteFile(t.Context(), execenv.WriteRequest{Path: env.Where().Workdir + "/f", Data: make([]byte, 200_000)})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", body, err, want)
		}
	}
}

// A call that another process has made is not made again.
func TestTakeUp(t *testing.T) {
	_, _, env := open(t, aiotest.Options{Generation: aiotest.Piped})
	c := execenv.Call{ID: "c", Boot: "none"}
	_, err := env.Run(t.Context(), execenv.Command{Call: c, Argv: []string{"true"}}, nil)
	_, err2 := env.WriteFile(t.Context(), execenv.WriteRequest{Call: c, Path: "/x"})
	_, err3 := env.EditFile(t.Context(), execenv.EditRequest{Call: c, Path: "/x"})
	err4 := env.Change(t.Context(), execenv.ChangeRequest{Call: c, Path: "/x"})
	for _, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, execenv.ErrOutcomeUnknown) {
			t.Errorf("%v, want ErrOutcomeUnknown", err)
		}
	}
}

// A tree is listed and searched by the path that was given, also through a link,
// and links in it are what they lead to.
func TestList_throughLink(t *testing.T) {
	_, _, env := open(t, aiotest.Options{Generation: aiotest.Piped})
	w := env.Where().Workdir
	if o, err := sh(t, env, "mkdir real; printf four >real/f; ln -s f real/link; ln -s real by"); err != nil || o.ExitCode != 0 {
		t.Fatal(o, err)
	}
	l, err := env.List(t.Context(), "by")
	if err != nil || len(l.Entries) != 2 || l.Entries[1].Path != w+"/by/link" || l.Entries[1].Symlink != "f" || l.Entries[1].Size != 4 || l.Entries[1].Kind != execenv.KindFile {
		t.Errorf("List() = %+v, %v", l, err)
	}
	g, err := env.Glob(t.Context(), execenv.GlobRequest{Base: w + "/by", Pattern: "f"})
	if err != nil || len(g.Files) != 1 || g.Files[0].Path != w+"/by/f" || g.Files[0].Size != 4 {
		t.Errorf("Glob() = %+v, %v", g, err)
	}
	r, err := env.Grep(t.Context(), execenv.GrepRequest{Path: w + "/by", Pattern: "fo+r", Mode: execenv.GrepContent})
	if err == nil && len(r.Rows) > 0 {
		t.Errorf("Grep() = %+v", r)
	}
	r, err = env.Grep(t.Context(), execenv.GrepRequest{Path: w + "/by", Pattern: "fo+ur", Mode: execenv.GrepContent})
	if err != nil || len(r.Rows) == 0 || r.Rows[0].Path != w+"/by/f" {
		t.Errorf("Grep() = %+v, %v", r, err)
	}
}
