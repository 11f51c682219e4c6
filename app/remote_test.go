package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv/aio/aiotest"
	"github.com/glovebox-dev/glovebox/backend/guest/embedded"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// shared starts an AIO server with a key and returns it with a configuration
// file that names it, and with the variable that holds the key.
func shared(t *testing.T, more string) (fake *aiotest.Server, file string, env []string) {
	t.Helper()
	o := aiotest.Options{Generation: aiotest.Piped, Key: "zz-secret-123"}
	if os.Geteuid() == 0 {
		o.Hostname = "aio-7f3a" // which takes a namespace of its own
	}
	fake = aiotest.Start(t, o)
	file = filepath.Join(t.TempDir(), "config.toml")
	text := fmt.Sprintf("[exec_env]\nbase_url = %q\napi_key_env = \"GLOVEBOX_TEST_AIO_KEY\"\n%s", fake.URL, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return fake, file, []string{"GLOVEBOX_TEST_AIO_KEY=zz-secret-123"}
}

// One shared sandbox: its host name tells it, two sessions are in it, and the
// release of one leaves it, and the other, as they are. The key is nowhere.
func TestRemote_sharedByTwo(t *testing.T) {
	fake, file, env := shared(t, "")
	data := dataDir(t)
	s := startWith(t, data, env, "--config", file)
	one, two := s.open(httpapi.OpenRequest{Title: "one"}), s.open(httpapi.OpenRequest{Title: "two"})
	if r := s.bash(one, "hostname; echo from one >note; pwd"); r.Status != task.CallOK || os.Geteuid() == 0 && !strings.HasPrefix(r.Text, "aio-7f3a\n") {
		t.Errorf("one: %+v", r)
	}
	r := s.bash(two, "hostname; cat note")
	if r.Status != task.CallOK || !strings.Contains(r.Text, "from one") {
		t.Errorf("two: %+v", r)
	}
	if r.Where.Wall != "remote" || !strings.Contains(r.Where.Caveat, "not fenced") {
		t.Errorf("where: %+v", r.Where)
	}
	v := s.show(one)
	if v.Ref != sandbox.Ref(fake.URL) || v.Wall != sandbox.WallRemote || v.ShortID == "" {
		t.Errorf("session: %+v", v)
	}
	var card httpapi.Container
	if err := s.call(t.Context(), "GET", "/sessions/"+one+"/container", nil, &card); err != nil {
		t.Fatal(err)
	}
	if card.Description == nil || len(card.Description.Notes) < 2 || !strings.HasPrefix(card.Description.Notes[0], "Shared:") {
		t.Errorf("card: %+v", card)
	}
	s.post(one, "release", httpapi.ReleaseRequest{})
	if r := s.bash(two, "cat note"); !strings.Contains(r.Text, "from one") {
		t.Errorf("after the other's release: %+v", r)
	}
	s.post(one, "reprovision", nil)
	if r := s.bash(one, "cat note"); !strings.Contains(r.Text, "from one") {
		t.Errorf("bound again: %+v", r)
	}
	// Another process finds it again, and binds nothing new.
	s.kill()
	s = startWith(t, data, env, "--config", file)
	if r := s.bash(two, "cat note"); !strings.Contains(r.Text, "from one") {
		t.Errorf("after a crash: %+v", r)
	}
	// It goes away: the binding holds and says so.
	fake.Close()
	v = s.awaitState(two, 20*time.Second, sandbox.StateUnreachable)
	if v.Sandbox.Cause != sandbox.CauseServer || v.Sandbox.Source != "server" {
		t.Errorf("unreachable: %+v", v.Sandbox)
	}
	found := 0
	_ = filepath.WalkDir(data, func(path string, d os.DirEntry, err error) error {
		if body, err := os.ReadFile(path); err == nil && strings.Contains(string(body), "zz-secret") {
			found++
			t.Errorf("%s holds the key", path)
		}
		return nil
	})
	if strings.Contains(s.log.String(), "zz-secret") {
		t.Error("the log holds the key")
	}
}

// A wrong key names the variable, in the refusal of a session's call and by the doctor.
func TestRemote_wrongKey(t *testing.T) {
	_, file, _ := shared(t, "")
	s := startWith(t, dataDir(t), []string{"GLOVEBOX_TEST_AIO_KEY=nope"}, "--config", file)
	id := s.open(httpapi.OpenRequest{})
	parked := awaitEvent(s, id, 30*time.Second, func(p *task.TaskSuspended) bool { return true })
	if !strings.Contains(parked.Detail, "GLOVEBOX_TEST_AIO_KEY") || strings.Contains(parked.Detail, "nope") {
		t.Errorf("detail: %q", parked.Detail)
	}
	var d httpapi.Doctor
	if err := s.call(t.Context(), "GET", "/doctor", nil, &d); err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Checks {
		if c.Name == checkRemote && (c.Status != "fail" || !strings.Contains(c.Fix, "GLOVEBOX_TEST_AIO_KEY")) {
			t.Errorf("doctor: %+v", c)
		}
	}
}

// A URL on the command line is a sandbox.
func TestRemote_byURL(t *testing.T) {
	fake := aiotest.Start(t, aiotest.Options{Generation: aiotest.Older})
	data := dataDir(t)
	model := scripted(t, call("Bash", map[string]any{"command": "echo made >made; pwd"}), say("done"))
	run := glovebox("run", "--data", data, "--wall", fake.URL, "--model", model, "--keep", "go")
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "remote wall") {
		t.Errorf("run: %v\n%s", err, out)
	}
	out, err := glovebox("attach", "--data", data, fake.URL).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "shared") {
		t.Fatalf("attach: %v\n%s", err, out)
	}
	id, _, _ := strings.Cut(string(out), " ")
	if out, err := glovebox("exec", "--data", data, id, "--", "cat", "made").CombinedOutput(); err != nil || string(out) != "made\n" {
		t.Errorf("exec: %v, %q", err, out)
	}
	for _, bad := range []string{"http://user:secret@127.0.0.1:1", "ftp://127.0.0.1", "http://127.0.0.1/?api_key=secret"} {
		out, err := glovebox("run", "--data", data, "--wall", bad, "go").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "base_url") || strings.Contains(string(out), "secret") {
			t.Errorf("--wall %s: %v, %s", bad, err, out)
		}
	}
	s := start(t, data) // closes what is left
	s.closeAll()
}

// The preamble is asked for every command and for nothing else; a failing one
// stops the command. The policy sends other workspaces to the host, once.
func TestRemote_preambleAndPolicy(t *testing.T) {
	dir := t.TempDir()
	helper := filepath.Join(dir, "preamble")
	count := filepath.Join(dir, "count")
	script := "#!/bin/sh\necho x >>" + count + "\n[ ! -e " + dir + "/broken ] || exit 3\nprintf 'export TOKEN=tok-%s && ' $(wc -l <" + count + ")\n"
	if err := os.WriteFile(helper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	inside, outside := workspace(t, 0), workspace(t, 0)
	_, file, env := shared(t, fmt.Sprintf("[sandbox]\npreamble = [%q]\npolicy = [%q]\n", helper, inside))
	s := startWith(t, dataDir(t), env, "--config", file)

	id := s.open(httpapi.OpenRequest{Workspace: inside})
	for i := 1; i <= 2; i++ {
		if r := s.bash(id, `echo "$TOKEN"; env | grep -c PREAMBLE`); !strings.Contains(r.Text, fmt.Sprintf("tok-%d\n0", i)) {
			t.Errorf("command %d: %+v", i, r)
		}
	}
	s.tool(id, "Write", map[string]any{"file_path": "f", "content": "x"})
	s.tool(id, "Glob", map[string]any{"pattern": "*"})
	if body, _ := os.ReadFile(count); string(body) != "x\nx\n" {
		t.Errorf("the preamble was asked %d times", len(body)/2)
	}
	if err := os.WriteFile(dir+"/broken", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.bash(id, "echo ran >ran"); r.Status == task.CallOK || !strings.Contains(r.Text, "preamble") {
		t.Errorf("a failing preamble: %+v", r)
	}
	if r := s.tool(id, "Glob", map[string]any{"pattern": "ran"}); strings.Contains(r.Text, "/ran") {
		t.Errorf("the command ran: %s", r.Text)
	}

	local := s.open(httpapi.OpenRequest{Workspace: outside})
	bound := awaitEvent(s, local, 20*time.Second, func(*task.TaskHostBound) bool { return true })
	if bound.Wall != sandbox.WallLocal || !bound.ByPolicy {
		t.Errorf("outside the policy: %+v", bound)
	}
	var e *apiError
	err := s.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Workspace: outside, Spec: sandbox.Spec{Wall: sandbox.WallRemote}}, nil)
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "policy") {
		t.Errorf("a wall by name against the policy: %v", err)
	}
}

// A turn whose server goes away in mid-call says that the outcome is unknown,
// and nothing is sent twice.
func TestRemote_cutInMidCall(t *testing.T) {
	var cut atomic.Bool
	fake := aiotest.Start(t, aiotest.Options{Generation: aiotest.Piped, Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/bash/output" || !cut.Load() {
			return false
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
		return true
	}})
	s := start(t, dataDir(t))
	id := s.open(httpapi.OpenRequest{Spec: sandbox.Spec{BaseURL: fake.URL}})
	s.bash(id, "true")
	before := fake.Requests("POST /v1/bash/exec")
	cut.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var r httpapi.ToolResponse
	err := s.call(ctx, "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: "Bash", Input: []byte(`{"command":"echo once >>effects"}`)}, &r)
	if err != nil || r.Status != task.CallUnknown {
		t.Errorf("the call: %+v, %v", r, err)
	}
	if n := fake.Requests("POST /v1/bash/exec") - before; n != 1 {
		t.Errorf("%d requests to run it", n)
	}
	cut.Store(false)
	if r := s.bash(id, "cat effects 2>/dev/null | wc -l"); r.Text != "1" && r.Text != "0" {
		t.Errorf("its effect happened %s times", r.Text)
	}
}

// Behind the walls of our own a preamble is the same, and in no argument list.
func TestPreamble_behindWalls(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte("[sandbox]\npreamble = [\"/bin/sh\", \"-c\", \"cat >/dev/null; echo 'export TOKEN=tok-456 && '\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, dataDir(t), "--config", file)
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := s.in(t)
		id := s.open(httpapi.OpenRequest{Spec: sandbox.Spec{Wall: wall}})
		r := s.bash(id, `echo "$TOKEN"; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -c tok-45[6]; env | grep -c GLOVEBOX_PREAMBLE`)
		if !strings.HasPrefix(r.Text, "tok-456\n0\n0") {
			t.Errorf("%s", r.Text)
		}
	})
	if strings.Contains(s.log.String(), "tok-456") {
		t.Error("the log holds what the preamble minted")
	}

	// It stands between the change of directory and the command, which does not run
	// when it fails, in whatever way.
	said := filepath.Join(t.TempDir(), "preamble")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("[sandbox]\npreamble = [\"/bin/sh\", \"-c\", \"cat >/dev/null; cat %s\"]\n", said)), 0o600); err != nil {
		t.Fatal(err)
	}
	s = start(t, dataDir(t), "--config", file)
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := s.in(t)
		prints := func(text string) {
			t.Helper()
			if err := os.WriteFile(said, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		prints("HERE=$PWD && ")
		ws := workspace(t, 1000)
		id := s.open(httpapi.OpenRequest{Workspace: ws, Spec: sandbox.Spec{Wall: wall}})
		if r := s.bash(id, "cd / && echo $HERE from $PWD; HERE=/workspace"); strings.TrimSpace(r.Text) != "from /" {
			t.Errorf("a variable that is not exported: %+v", r) // it is the preamble's shell's own
		}
		prints("export HERE=$PWD\n")
		if r := s.bash(id, "cd / && echo $HERE from $PWD"); r.Text != "/workspace from /" {
			t.Errorf("in its directory: %+v", r)
		}
		for _, bad := range []string{"false && ", "false\n", "exit 3; ", "nosuchprogram && ", "'unclosed "} {
			prints(bad)
			if r := s.bash(id, "echo ran >>ran"); r.Status == task.CallOK && !strings.Contains(r.Text, "xit") {
				t.Errorf("%q: %+v", bad, r)
			}
		}
		if _, err := os.Lstat(filepath.Join(ws, "ran")); err == nil {
			t.Error("a command ran after a failing preamble")
		}
	})
}

// A guest that stands alone in a container of somebody else's: its host name
// tells where a session is, kills are proven, and a release leaves it running.
func TestRemote_guestInContainer(t *testing.T) {
	have(t, sandbox.WallDocker)
	data := dataDir(t)
	built, err := glovebox("image", "build", "--tiny", "--data", data).CombinedOutput()
	if err != nil {
		t.Fatalf("build the tiny image: %v\n%s", err, built)
	}
	image := regexp.MustCompile(`glovebox/tiny:[\w.-]+`).FindString(string(built))
	bin := filepath.Join(t.TempDir(), "glovebox-guest")
	body, err := embedded.Binary("amd64")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, body, 0o755); err != nil {
		t.Fatal(err)
	}
	container := dockerDo(t, "create", "--hostname", "lent-box", "-p", "127.0.0.1::7000", "-e", "GLOVEBOX_GUEST_KEY=long and random", "-w", "/tmp",
		image, "/tmp/glovebox-guest", "serve", "--listen", "0.0.0.0:7000", "--workdir", "/tmp")
	t.Cleanup(func() { dockerDo(t, "rm", "-f", container) })
	dockerDo(t, "cp", bin, container+":/tmp/glovebox-guest")
	dockerDo(t, "start", container)
	url := "http://" + dockerDo(t, "port", container, "7000")

	s := startWith(t, data, []string{"SANDBOX_API_KEY=long and random"})
	one := s.open(httpapi.OpenRequest{Spec: sandbox.Spec{BaseURL: url}})
	two := s.open(httpapi.OpenRequest{Spec: sandbox.Spec{BaseURL: url}})
	if r := s.bash(one, "hostname; echo one >/tmp/note"); !strings.HasPrefix(r.Text, "lent-box") {
		t.Errorf("one: %+v", r)
	}
	if v := s.show(one); v.Ref != sandbox.Ref(url+"#lent-box") {
		t.Errorf("ref %q", v.Ref)
	}
	s.post(one, "release", httpapi.ReleaseRequest{})
	r := s.tool(two, "Bash", map[string]any{"command": "cat /tmp/note; sleep 1000 & sleep 1000", "timeout": 3000})
	if r.Status != task.CallTimeout || !strings.Contains(r.Text, "one") || !strings.Contains(r.Text, "0 processes left") {
		t.Errorf("two: %+v", r)
	}
	if running := dockerDo(t, "inspect", "-f", "{{.State.Running}}", container); running != "true" {
		t.Errorf("the container after a release runs: %s", running)
	}
}
