package app

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// A servedImage is made of a program that serves the AIO API, and of this
// machine's own bash and GNU tools, which that API's clients ask for.
var servedTools = strings.Fields(`bash git sh base64 basename cat chmod chown cp cut date dd dirname env false find grep head hostname id ln ls
	mkdir mktemp mv nohup od ps readlink realpath rm rmdir sed seq sh sleep sort stat tail tar tee test touch tr true truncate uname uniq wc whoami xargs`)

// servedImage makes an image by Dockerfile instructions.
func servedImage(t *testing.T, changes ...string) string {
	t.Helper()
	have(t, sandbox.WallDocker)
	program := filepath.Join(t.TempDir(), "aioserver")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "github.com/glovebox-dev/glovebox/backend/execenv/aio/aiotest/cmd/aioserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	seen := map[string]bool{}
	file := func(name, from string) {
		t.Helper()
		if seen[name] {
			return
		}
		seen[name] = true
		body, err := os.ReadFile(from)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(body))})
		}
		if err == nil {
			_, err = w.Write(body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"tmp", "workspace", "root"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o1777}); err != nil {
			t.Fatal(err)
		}
	}
	file("usr/bin/aioserver", program)
	library := regexp.MustCompile(`(?m)(/\S+) \(0x`)
	for _, tool := range servedTools {
		path, err := exec.LookPath(tool)
		if err != nil {
			continue
		}
		file("usr/bin/"+tool, path)
		libraries, _ := exec.Command("ldd", path).Output() // nothing of what is static
		for _, m := range library.FindAllStringSubmatch(string(libraries), -1) {
			file(strings.TrimPrefix(m[1], "/"), m[1])
		}
	}
	for name, text := range map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/sh\ngem:x:1000:1000::/tmp:/bin/sh\n", "etc/group": "root:x:0:\ngem:x:1000:\n"} {
		from := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(from, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		file(name, from)
	}
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin", Linkname: "usr/bin"}), w.Close()); err != nil {
		t.Fatal(err)
	}
	ref := "glovebox/test-served-" + strings.ToLower(rand.Text()[:10])
	args := []string{"import", "--change", "ENV PATH=/usr/bin"}
	for _, c := range changes {
		args = append(args, "--change", c)
	}
	load := exec.Command("docker", append(args, "-", ref)...)
	load.Stdin = &archive
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
	t.Cleanup(func() { dockerDo(t, "rmi", ref) })
	return ref
}

const serveIt = `CMD ["aioserver"]`

// container returns the full id of a session's container.
func (s *server) container(id string) string {
	s.t.Helper()
	return s.show(id).Ref.ID()
}

// An image that serves the AIO API runs its own command, is reached by a port of
// this machine's loopback, which a start changes, and lives like any sandbox.
func TestServedImage_open(t *testing.T) {
	image := servedImage(t, serveIt)
	s := start(t, dataDir(t))
	ws := workspace(t, 1000)
	id := s.open(httpapi.OpenRequest{Workspace: ws, Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: image, Wire: "aio", Network: sandbox.Network{Mode: sandbox.NetworkOpen}}})
	r := s.bash(id, "hostname; id -u; pwd; echo made >made; env | grep -c SANDBOX_API_KEY")
	c := s.container(id)
	if want := c[:12] + "\n1000\n/workspace\n0"; !strings.HasPrefix(r.Text, want) || r.Where.Wall != "docker" {
		t.Fatalf("a command: %+v, want %q", r, want)
	}
	if info, err := os.Stat(filepath.Join(ws, "made")); err != nil || info.Sys().(*syscall.Stat_t).Uid != 1000 {
		t.Errorf("the file on this machine: %v, %v", info, err)
	}
	s.tool(id, "Write", map[string]any{"file_path": "f", "content": "one\n"})
	if r := s.tool(id, "Read", map[string]any{"file_path": "f"}); !strings.Contains(r.Text, "one") {
		t.Errorf("Read: %+v", r)
	}
	if r := s.tool(id, "Grep", map[string]any{"pattern": "on[e]", "output_mode": "content"}); !strings.Contains(r.Text, "f:1:one") {
		t.Errorf("Grep: %+v", r)
	}
	if got := dockerDo(t, "inspect", "-f", "{{.Path}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}}", c); got != "aioserver [ALL] [no-new-privileges]" {
		t.Errorf("the container runs %s", got)
	}
	before := dockerDo(t, "port", c, "8080")
	if !strings.HasPrefix(before, "127.0.0.1:") || strings.Contains(before, "\n") {
		t.Errorf("published on %s", before)
	}
	if r := s.tool(id, "Bash", map[string]any{"command": "sleep 1000", "timeout": 500}); r.Status != task.CallTimeout || !strings.Contains(r.Text, "may still be running") {
		t.Errorf("a timeout: %+v", r)
	}
	card := s.card(id)
	notes := strings.Join(card.Description.Notes, "\n")
	for _, want := range []string{"not fenced off", "not proven", "127.0.0.1", "key", "network is open"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the card does not say %q:\n%s", want, notes)
		}
	}

	// Another container may have the port by the time this one is started again.
	s.post(id, "stop", nil)
	s.awaitState(id, moments, sandbox.StateStopped)
	_, port, _ := strings.Cut(before, ":")
	taker := dockerDo(t, "run", "-d", "-p", "127.0.0.1:"+port+":8080", image)
	t.Cleanup(func() { dockerDo(t, "rm", "-f", taker) })
	s.post(id, "start", nil)
	s.awaitState(id, moments, sandbox.StateReady)
	if r := s.bash(id, "hostname; cat made"); !strings.HasPrefix(r.Text, c[:12]+"\nmade") {
		t.Errorf("after a start: %+v", r)
	}
	if after := dockerDo(t, "port", c, "8080"); after == before {
		t.Errorf("the port is still %s", after)
	}
	// And when it is done behind our back.
	dockerDo(t, "restart", "-t", "1", c)
	// Until the engine has told of its start it counts as stopped, or is asked at
	// the port that it had.
	until(t, 20*time.Second, func() error {
		var r httpapi.ToolResponse
		err := s.call(t.Context(), "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: "Bash", Input: []byte(`{"command":"hostname"}`)}, &r)
		if err == nil && r.Text != c[:12] {
			err = fmt.Errorf("a command says %+v", r)
		}
		if err != nil {
			return fmt.Errorf("after a restart by hand: %w", err)
		}
		return nil
	})

	s.kill()
	s = start(t, s.data)
	if r := s.bash(id, "cat made"); r.Text != "made" {
		t.Errorf("by the next server: %+v", r)
	}
	dockerDo(t, "rm", "-f", c)
	s.awaitState(id, moments, sandbox.StateLost)
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: "Bash", Input: []byte(`{"command":"true"}`)}, nil), "sandbox_lost")
	s.post(id, "reprovision", nil)
	s.awaitState(id, moments, sandbox.StateReady)
	second := s.container(id)
	if r := s.bash(id, "hostname; cat made"); !strings.HasPrefix(r.Text, second[:12]+"\nmade") || second == c {
		t.Errorf("re-provisioned: %+v", r)
	}
	s.post(id, "release", httpapi.ReleaseRequest{})
	if out, err := exec.Command("docker", "inspect", second).CombinedOutput(); err == nil {
		t.Errorf("released, and there: %s", out)
	}
	if left, _ := filepath.Glob(filepath.Join(s.data, "boxes", "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Without a network of its own the server is reached by a guest beside it, which
// is also the way out; no port is published. The image is known by asking.
func TestServedImage_closed(t *testing.T) {
	image := servedImage(t, serveIt, "EXPOSE 8080")
	s := start(t, dataDir(t))
	ws := workspace(t, 1000)
	for _, mode := range []sandbox.NetworkMode{sandbox.NetworkProxy, sandbox.NetworkNone} {
		t.Run(string(mode), func(t *testing.T) {
			s := s.in(t)
			id := s.open(httpapi.OpenRequest{Workspace: ws, Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: image, Network: sandbox.Network{Mode: mode}}})
			r := s.bash(id, "hostname; id -u; ls /sys/class/net; echo $HTTP_PROXY")
			c := s.container(id)
			want := c[:12] + "\n1000\nlo"
			if mode == sandbox.NetworkProxy {
				want += "\nhttp://127.0.0.1:3128"
			}
			if strings.TrimSpace(r.Text) != want {
				t.Fatalf("a command: %+v, want %q", r, want)
			}
			if got := dockerDo(t, "inspect", "-f", "{{.Path}} {{.HostConfig.NetworkMode}} {{.NetworkSettings.Ports}}", c); got != "aioserver none map[]" {
				t.Errorf("the container runs as %s", got)
			}
			// What goes out is decided about by the host.
			out := s.bash(id, `exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'GET http://169.254.169.254/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3 && head -n 1 <&3`)
			if closed := out.Status != task.CallOK; closed != (mode == sandbox.NetworkNone) || !closed && !strings.Contains(out.Text, "403") {
				t.Errorf("by the way out: %+v", out)
			}
			card := s.card(id)
			if card.Description.Network != string(mode) || !strings.Contains(strings.Join(card.Description.Notes, "\n"), "a guest beside it") {
				t.Errorf("the card: %+v", card.Description)
			}
			s.tool(id, "Write", map[string]any{"file_path": "f-" + string(mode), "content": "one\n"})
			s.post(id, "stop", nil)
			s.awaitState(id, moments, sandbox.StateStopped)
			s.post(id, "start", nil)
			s.awaitState(id, moments, sandbox.StateReady)
			if r := s.bash(id, "cat f-"+string(mode)); r.Text != "one" {
				t.Errorf("after a start: %+v", r)
			}
			if left := dockerDo(t, "ps", "-aq", "--filter", "label=glovebox.session="+id); strings.Contains(left, "\n") {
				t.Errorf("what the image was looked at with is still there: %s", left)
			}
			s.post(id, "release", httpapi.ReleaseRequest{})
			if out, err := exec.Command("docker", "inspect", c).CombinedOutput(); err == nil {
				t.Errorf("released, and there: %s", out)
			}
		})
	}
	if left, _ := filepath.Glob(filepath.Join(s.data, "boxes", "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A call under way ends with what befell its sandbox.
func TestServedImage_lostInMidCall(t *testing.T) {
	image := servedImage(t, serveIt, "LABEL glovebox.wire=aio")
	s := start(t, dataDir(t))
	id := s.open(httpapi.OpenRequest{Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: image}})
	n := nap()
	s.bash(id, "true")
	c := s.container(id)
	removed := make(chan error, 1) // the one result
	go func() {
		awaitSleeps(t, n)
		removed <- exec.Command("docker", "rm", "-f", c).Run()
	}()
	r := s.bash(id, "sleep "+n)
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	if r.Status != task.CallLost || !strings.Contains(r.Text, "re-provision") {
		t.Errorf("the call: %+v", r)
	}
}

// The key of a container comes from the variable that the session names, and is
// read for every request. A session cannot write one down.
func TestServedImage_key(t *testing.T) {
	image := servedImage(t, serveIt, "LABEL glovebox.wire=aio")
	s := startWith(t, dataDir(t), []string{"MY_BOX_KEY=zz-served-987"})
	spec := sandbox.Spec{Wall: sandbox.WallDocker, Image: image, Env: map[string]sandbox.EnvValue{"SANDBOX_API_KEY": {FromHost: "MY_BOX_KEY"}}}
	id := s.open(httpapi.OpenRequest{Spec: spec})
	if r := s.bash(id, "cat made 2>/dev/null; echo $SANDBOX_API_KEY"); r.Text != "" && strings.Contains(r.Text, "zz-served") {
		t.Errorf("a command sees the key: %+v", r)
	}
	if card := s.card(id); !strings.Contains(strings.Join(card.Description.Notes, "\n"), "MY_BOX_KEY") {
		t.Errorf("the card: %q", card.Description.Notes)
	}
	s.kill()
	hits := scan(t, s.data, "zz-served-987")
	if len(hits) > 0 || strings.Contains(s.log.String(), "zz-served-987") {
		t.Errorf("the key is in %q, or in the log", hits)
	}
	s = startWith(t, s.data, []string{"MY_BOX_KEY=another"})
	err := s.call(t.Context(), "POST", "/sessions/"+id+"/tools", httpapi.ToolRequest{Tool: "Bash", Input: []byte(`{"command":"true"}`)}, nil)
	if err == nil || !strings.Contains(err.Error(), "MY_BOX_KEY") || strings.Contains(err.Error(), "another") {
		t.Errorf("with another key: %v", err)
	}
	for _, env := range []map[string]sandbox.EnvValue{{"SANDBOX_API_KEY": {Literal: "x"}}, {"SANDBOX_API_KEY": {FromHost: "NOT_SET_ANYWHERE"}}} {
		spec.Env, spec.Wire = env, "aio"
		err := s.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Spec: spec}, nil)
		var e *apiError
		if !errors.As(err, &e) || e.Field != "env.SANDBOX_API_KEY" {
			t.Errorf("with %v: %v", env, err)
		}
	}
}

// scan returns the files below a directory that hold a text.
func scan(t *testing.T, dir, text string) (hits []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		body, err := os.ReadFile(path)
		if bytes.Contains(body, []byte(text)) {
			hits = append(hits, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

// What only looks like such an image, or is asked to be one and is not, says so.
func TestServedImage_notOne(t *testing.T) {
	quits := servedImage(t, "EXPOSE 8080", `CMD ["false"]`)
	s := start(t, dataDir(t))
	err := s.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: quits, Wire: "grpc"}}, nil)
	var e *apiError
	if !errors.As(err, &e) || e.Field != "wire" {
		t.Errorf("an unknown wire: %v", err)
	}
	id := s.open(httpapi.OpenRequest{Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: quits}})
	if r := s.bash(id, "hostname"); r.Where.Wall != "docker" || r.Status != task.CallOK || s.card(id).Hello == nil {
		t.Errorf("an ordinary image with that port: %+v", r)
	}
	model := scripted(t, call("Bash", map[string]any{"command": "true"}), say("done"))
	out, err := glovebox("run", "--data", s.data, "--image", quits, "--wire", "aio", "--model", model, "go").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "ended with code 1") {
		t.Errorf("run --wire aio: %v\n%s", err, out)
	}

}
