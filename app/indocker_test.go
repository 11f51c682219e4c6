package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// shipped builds the program, and the images of build/docker out of it, and
// returns the images' tag.
func shipped(t *testing.T) string {
	t.Helper()
	have(t, sandbox.WallDocker)
	if os.Geteuid() != 0 {
		t.Skip("needs root: what a server in a container leaves is root's")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "glovebox")
	build := exec.Command("go", "build", "-o", program, "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	guest := "../backend/guest/embedded/bin/glovebox-guest-linux-" + runtime.GOARCH
	tag := "test-" + strings.ToLower(rand.Text()[:10])
	t.Cleanup(func() {
		for _, image := range []string{"glovebox/glovebox:" + tag, "glovebox/guest:" + tag} {
			if out, err := exec.Command("docker", "rmi", "--force", image).CombinedOutput(); err != nil {
				t.Errorf("remove %s: %v\n%s", image, err, out)
			}
		}
	})
	if out, err := exec.Command("../build/docker/image.sh", program, guest, tag).CombinedOutput(); err != nil {
		t.Fatalf("image.sh: %v\n%s", err, out)
	}
	return tag
}

// freePort returns a port of loopback that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// housed is a server in a container, on the machine's engine.
type housed struct {
	*server
	id string // of the container
}

// house starts the image's server with more arguments of "docker run", on a port
// of loopback, and its state in a directory of this machine. The server's sessions
// are closed, and its container removed, at the end of the test.
func house(t *testing.T, tag, state, port string, args, serve []string) *housed {
	t.Helper()
	base := "http://127.0.0.1:" + port
	run := append([]string{"run", "--detach", "--publish", "127.0.0.1:" + port + ":7333", "--volume", state + ":/data"}, args...)
	run = append(run, "glovebox/glovebox:"+tag, "serve", "--no-open", "--json", "--addr", "0.0.0.0:7333", "--expose", base)
	h := &housed{server: &server{t: t, data: state}, id: dockerDo(t, append(run, serve...)...)}
	removed := sync.OnceFunc(func() { dockerDo(t, "rm", "--force", h.id) })
	t.Cleanup(removed)
	until(t, 30*time.Second, func() error {
		r, err := http.Get(base)
		if err != nil {
			return fmt.Errorf("%w: %s", err, dockerDo(t, "logs", h.id))
		}
		return r.Body.Close()
	})
	var err error
	if h.apiClient, err = newClient(base, state); err != nil {
		t.Fatal(err)
	}
	return h
}

// roofed returns directories of this machine that a server in a container and its
// sandboxes share.
func roofed(t *testing.T) (state, work string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "glovebox-housed-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	state, work = filepath.Join(dir, "state"), filepath.Join(dir, "work")
	for _, d := range []string{dir, state, work, filepath.Join(work, "p")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(work, "p"), 1000, 1000); err != nil {
		t.Fatal(err)
	}
	return state, work
}

// Glovebox in a container, in both forms.
func TestInDocker(t *testing.T) {
	t.Parallel()
	tag := shipped(t)
	t.Run("socket", func(t *testing.T) { testSocket(t, tag) })
	t.Run("sidecar", func(t *testing.T) { testSidecar(t, tag) })
}

// A server in a container with the engine's socket finds out that the engine sees
// other files, and which of its own those are: sessions get containers beside it,
// with the same files on both sides, and another container takes them over.
func testSocket(t *testing.T, tag string) {
	state, work := roofed(t)
	if err := os.WriteFile(filepath.Join(work, "p", "a"), []byte("of the machine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	mounts := []string{"--volume", "/var/run/docker.sock:/var/run/docker.sock", "--volume", work + ":/work"}
	first := house(t, tag, state, port, mounts, nil)
	instance, err := os.ReadFile(filepath.Join(state, "instance"))
	if err != nil {
		t.Fatal(err)
	}
	ours := func() string {
		return dockerDo(t, "ps", "--all", "--quiet", "--filter", "label=glovebox.instance="+strings.TrimSpace(string(instance)))
	}
	t.Cleanup(func() {
		if left := ours(); left != "" {
			t.Errorf("containers left: %s", left)
			dockerDo(t, append([]string{"rm", "--force"}, strings.Fields(left)...)...)
		}
	})

	var d httpapi.Doctor
	if err := first.call(t.Context(), "GET", "/doctor", nil, &d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"runs in its container " + first.id[:12], "/work (" + work + " there)", "reached through it"} {
		if d.Checks[0].Name != checkDocker || !strings.Contains(d.Checks[0].Detail, want) {
			t.Errorf("doctor says %+v, want %q", d.Checks[0], want)
		}
	}

	spec := sandbox.Spec{Wall: sandbox.WallDocker, Image: "glovebox/tiny:" + Version}
	id := first.open(httpapi.OpenRequest{Workspace: "/work/p", Spec: spec})
	r := first.bash(id, "hostname; cat a; id -u; echo of the sandbox >b")
	v := first.show(id)
	if want := v.ShortID + "\nof the machine\n1000"; !strings.HasPrefix(r.Text, want) || strings.HasPrefix(first.id, v.ShortID) {
		t.Errorf("Bash says %q, want %q", r.Text, want)
	}
	var st syscall.Stat_t
	body, err := os.ReadFile(filepath.Join(work, "p", "b"))
	if err == nil {
		err = syscall.Stat(filepath.Join(work, "p", "b"), &st)
	}
	if err != nil || string(body) != "of the sandbox\n" || st.Uid != 1000 {
		t.Errorf("on the machine: %q of %d, %v", body, st.Uid, err)
	}
	if r := first.tool(id, "Read", map[string]any{"file_path": "a"}); !strings.Contains(r.Text, "of the machine") {
		t.Errorf("Read says %q", r.Text)
	}
	// What it sends out leaves by the server's container.
	first.bash(id, "timeout 10 wget -q -O- http://172.17.0.1:7333/")
	first.awaitRefusal(id, "172.17.0.1:7333")
	var card httpapi.Container
	if err := first.call(t.Context(), "GET", "/sessions/"+id+"/container", nil, &card); err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(card.Description.Notes, "; "); !strings.Contains(notes, "itself runs in the container "+first.id[:12]) || strings.Contains(notes, "gone when") {
		t.Errorf("the card says %q", notes)
	}
	if m := card.Description.Mounts; len(m) != 1 || m[0].Source != filepath.Join(work, "p") {
		t.Errorf("mounts: %+v", m)
	}

	t.Run("a workspace that the engine has not", func(t *testing.T) {
		err := first.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Workspace: "/usr/local", Spec: spec}, nil)
		if err == nil || !strings.Contains(err.Error(), "workspace: /usr/local is in none of the directories") {
			t.Errorf("open = %v", err)
		}
	})
	t.Run("the server's own files", func(t *testing.T) {
		for _, dir := range []string{"/data", "/data/guests"} {
			err := first.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Workspace: dir, Spec: spec}, nil)
			if err == nil || !strings.Contains(err.Error(), "deny list") {
				t.Errorf("open in %s = %v", dir, err)
			}
		}
	})
	t.Run("no workspace", func(t *testing.T) {
		s := first.in(t)
		id := s.open(httpapi.OpenRequest{Spec: spec})
		if r := s.bash(id, "echo made >f"); r.Status != task.CallOK {
			t.Errorf("Bash: %+v", r)
		}
		if body, err := os.ReadFile(filepath.Join(state, "workspaces", id, "f")); err != nil || string(body) != "made\n" {
			t.Errorf("on the machine: %q, %v", body, err)
		}
		s.post(id, "release", httpapi.ReleaseRequest{})
	})

	// Another container is the server now, of the same state.
	dockerDo(t, "rm", "--force", first.id)
	second := house(t, tag, state, port, mounts, nil)
	if r := second.bash(id, "hostname; cat b"); r.Text != v.ShortID+"\nof the sandbox" {
		t.Errorf("after the server's end: %q", r.Text)
	}
	second.post(id, "release", httpapi.ReleaseRequest{})
	second.closeAll()
	until(t, 30*time.Second, func() error {
		if left := ours(); left != "" {
			return fmt.Errorf("containers left: %s", left)
		}
		return nil
	})
	if left, _ := filepath.Glob(filepath.Join(state, "boxes", "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A server in a container without a socket works in the sandbox beside it, which
// it reaches by the URL of its configuration.
func testSidecar(t *testing.T, tag string) {
	state, _ := roofed(t)
	network := tag + "-inside"
	dockerDo(t, "network", "create", "--internal", network)
	t.Cleanup(func() { dockerDo(t, "network", "rm", network) })
	const key = "a-long-random-text-of-the-test-3141592653"
	sidecar := dockerDo(t, "run", "--detach", "--network", network, "--network-alias", "sandbox", "--env", "GLOVEBOX_GUEST_KEY="+key,
		"--cap-drop", "ALL", "--cap-add", "SETUID", "--cap-add", "SETGID", "--cap-add", "KILL", "--cap-add", "SETPCAP",
		"--security-opt", "no-new-privileges:true", "glovebox/guest:"+tag)
	t.Cleanup(func() { dockerDo(t, "rm", "--force", sidecar) })

	config, err := filepath.Abs("../build/docker/sidecar.toml")
	if err != nil {
		t.Fatal(err)
	}
	// The engine resolves names on networks of the user alone, and a container is on
	// one network when it starts: this one, and then the other by which it is reached.
	port := freePort(t)
	created := dockerDo(t, "create", "--publish", "127.0.0.1:"+port+":7333", "--volume", state+":/data", "--volume", config+":/etc/glovebox.toml:ro",
		"--env", "SANDBOX_API_KEY="+key, "glovebox/glovebox:"+tag,
		"serve", "--no-open", "--json", "--addr", "0.0.0.0:7333", "--expose", "http://127.0.0.1:"+port, "--config", "/etc/glovebox.toml")
	t.Cleanup(func() { dockerDo(t, "rm", "--force", created) })
	dockerDo(t, "network", "connect", network, created)
	dockerDo(t, "start", created)
	s := &server{t: t, data: state}
	until(t, 30*time.Second, func() (err error) {
		r, err := http.Get("http://127.0.0.1:" + port)
		if err != nil {
			return fmt.Errorf("%w: %s", err, dockerDo(t, "logs", created))
		}
		r.Body.Close()
		s.apiClient, err = newClient("http://127.0.0.1:"+port, state)
		return err
	})

	one, two := s.open(httpapi.OpenRequest{}), s.open(httpapi.OpenRequest{})
	r := s.bash(one, "hostname; id -u; pwd; echo from one >f; (echo $GLOVEBOX_GUEST_KEY; cat /proc/1/environ) 2>&1 | grep -c long-random")
	if want := sidecar[:12] + "\n1000\n/workspace\n0"; r.Text != want && !strings.HasPrefix(r.Text, want) {
		t.Errorf("Bash says %q, want %q", r.Text, want)
	}
	if r := s.bash(two, "cat f"); r.Text != "from one" {
		t.Errorf("the other session says %q", r.Text)
	}
	if v := s.show(one); v.Wall != sandbox.WallRemote || string(v.Ref) != "http://sandbox:8080#"+sidecar[:12] {
		t.Errorf("session: %+v", v)
	}
	s.post(one, "release", httpapi.ReleaseRequest{})
	if r := s.bash(two, "cat f"); r.Text != "from one" {
		t.Errorf("after the other's release: %q", r.Text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.call(ctx, "POST", "/sessions/"+two+"/close", nil, nil); err != nil {
		t.Errorf("close: %v", err)
	}
	if running := dockerDo(t, "inspect", "--format", "{{.State.Running}}", sidecar); running != "true" {
		t.Errorf("the sandbox beside it runs: %s", running)
	}
}

// What the compose files publish is for this machine alone.
func TestComposeFiles_loopbackOnly(t *testing.T) {
	for _, name := range []string{"compose.yaml", "compose.sidecar.yaml"} {
		body, err := os.ReadFile(filepath.Join("../build/docker", name))
		if err != nil {
			t.Fatal(err)
		}
		_, ports, ok := strings.Cut(string(body), "    ports:\n")
		if !ok || strings.Contains(ports, "ports:") || !strings.HasPrefix(ports, "      - \"127.0.0.1:7333:7333\"\n    ") {
			t.Errorf("%s publishes %.60q", name, ports)
		}
	}
}
