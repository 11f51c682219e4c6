package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// typed runs a line as a person's shell does.
func typed(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/bin/sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

// handCommands returns the lines of a container by what they do.
func handCommands(t *testing.T, p *Provider, h sandbox.Handle) map[string]string {
	t.Helper()
	d, err := p.Describe(t.Context(), refOf(t, h))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for _, c := range d.Commands {
		lines[c.Does] = c.Text
	}
	return lines
}

func TestCommands_doWhatTheySay(t *testing.T) {
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip("no docker command on this machine")
	}
	p := ownProvider(t)
	workspace := filepath.Join(t.TempDir(), `it's "a, b" $(touch x);c`)
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(workspace, 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
	h := mustAllocate(t, p, sandbox.Spec{
		Workspace: workspace,
		Resources: map[string]string{"memory": "300m", "pids": "77", "cpus": "0.5"},
		Env:       map[string]sandbox.EnvValue{"COLOUR": {Literal: "dark 'red'"}, "API_TOKEN": {Literal: "hidden-value"}},
	})
	var lines map[string]string
	await(t, "the guest to say who its commands are", func() bool {
		lines = handCommands(t, p, h)
		return lines["shell"] != ""
	})
	for does, line := range lines {
		if strings.Contains(line, "hidden-value") {
			t.Errorf("%s holds a secret: %s", does, line)
		}
	}

	made := typed(t, "API_TOKEN=mine; export API_TOKEN; "+lines["make"])
	t.Cleanup(func() {
		exec.Command("docker", "rm", "--force", "--volumes", made).Run()
	})
	ours := mustInspect(t, p, h)
	theirs, err := p.engine.ContainerInspect(t.Context(), made)
	if err != nil {
		t.Fatal(err)
	}
	wall := func(c container.InspectResponse) string {
		slices.Sort(c.HostConfig.CapAdd)
		body, err := json.Marshal([]any{
			c.Image, c.Config.User, c.Config.WorkingDir, c.Config.StopSignal, c.Config.StopTimeout, c.Config.Healthcheck,
			c.HostConfig.NetworkMode, c.HostConfig.CapAdd, c.HostConfig.CapDrop, c.HostConfig.SecurityOpt, c.HostConfig.Memory,
			c.HostConfig.MemorySwap, c.HostConfig.NanoCPUs, c.HostConfig.PidsLimit, c.HostConfig.ShmSize, c.HostConfig.Init, describeMounts(c)[1:],
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if len(describeMounts(ours)) != 2 { // home comes first
		t.Fatalf("mounts %+v", describeMounts(ours))
	}
	theirs.Mounts = append(theirs.Mounts, container.MountPoint{Destination: insideHome})
	if got, want := wall(theirs), wall(ours); got != want {
		t.Errorf("made by hand\n%s\nwant\n%s", got, want)
	}
	for label := range theirs.Config.Labels {
		if strings.HasPrefix(label, "glovebox.") {
			t.Errorf("it has our label %s", label)
		}
	}
	if !slices.Contains(theirs.Config.Env, "COLOUR=dark 'red'") || !slices.Contains(theirs.Config.Env, "API_TOKEN=mine") {
		t.Errorf("its variables: %q", theirs.Config.Env)
	}
	await(t, "the guest of the container made by hand", func() bool {
		out, _ := exec.Command("docker", "logs", made).CombinedOutput()
		return strings.Contains(string(out), h.GuestID)
	})

	shell := strings.Replace(lines["shell"], " -it ", " -i ", 1)
	if got := typed(t, shell+" -c 'id -u; pwd; echo $HOME; touch made-by-hand'"); got != "1000\n/workspace\n/home/glovebox" && os.Getuid() == 0 {
		t.Errorf("the shell says %q", got)
	}
	if _, err := os.Stat(filepath.Join(workspace, "made-by-hand")); err != nil {
		t.Error(err)
	}
	if !strings.Contains(typed(t, lines["logs"]), h.GuestID) {
		t.Error("the log does not speak of the guest")
	}
	typed(t, lines["stop"])
	if mustInspect(t, p, h).State.Running {
		t.Error("it runs after a stop")
	}
	stopped := handCommands(t, p, h)
	if stopped["shell"] != "" || stopped["stop"] != "" {
		t.Errorf("a stopped one offers %q and %q", stopped["shell"], stopped["stop"])
	}
	typed(t, stopped["remove"])
	if c, err := p.Inspect(t.Context(), refOf(t, h)); err != nil || c.Value != sandbox.StateLost {
		t.Errorf("after the removal: %+v, %v", c, err)
	}
}

// await polls what nobody tells.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			t.Fatalf("waiting for %s", what)
		}
	}
}

func TestByHand_keepsSecretsToThemselves(t *testing.T) {
	for kv, want := range map[string]string{
		"COLOUR=red":                      "COLOUR=red",
		"EMPTY=":                          "EMPTY=",
		"ANTHROPIC_API_KEY=x":             "ANTHROPIC_API_KEY",
		"db_password=x":                   "db_password",
		"GITHUB_PAT=x":                    "GITHUB_PAT",
		"URL=postgres://u:p@h/db":         "URL",
		"URL=https://example.org/a":       "URL=https://example.org/a",
		"H=Bearer abc":                    "H",
		"X=sk-ant-123":                    "X",
		"J=eyJhbGciOi.eyJ":                "J",
		"PEM=-----BEGIN RSA PRIVATE KEY-": "PEM",
	} {
		body, err := json.Marshal(wire.GuestConfig{GuestID: "g", Env: []string{kv}})
		if err != nil {
			t.Fatal(err)
		}
		argv, env := byHand([]string{insideGuest, "serve", "--config", string(body)})
		if fmt.Sprint(env) != fmt.Sprint([]string{want}) {
			t.Errorf("%s: variables %q, want %q", kv, env, want)
		}
		_, value, _ := strings.Cut(kv, "=")
		if value != "" && strings.Contains(argv[3], value) {
			t.Errorf("%s: still in %s", kv, argv[3])
		}
	}
}

func TestCommands_nameAnEngineThatIsNotTheUsualOne(t *testing.T) {
	stub := &stubEngine{newest: "1.41", oldest: "1.12"}
	p := stubProvider(t, stub.start(t))
	list := p.commands(t.Context(), container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			ID: someID, Image: "sha256:" + someID, State: &container.State{}, HostConfig: &container.HostConfig{NetworkMode: "none"},
		},
		Config: &container.Config{Image: "stub:1"},
	})
	if len(list) != 3 {
		t.Fatalf("a stopped container offers %+v", list)
	}
	for _, c := range list {
		if !strings.HasPrefix(c.Text, sandbox.ShellLine([]string{"docker", "-H", p.endpoint.host})+" ") {
			t.Errorf("%s: %s", c.Does, c.Text)
		}
	}
	if !strings.Contains(list[0].Text, "sha256:"+someID) {
		t.Errorf("the image has lost its name, and %s does not use its id", list[0].Text)
	}
}

func TestLogs(t *testing.T) {
	p := ownProvider(t)
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir()})
	read := func(when string) {
		t.Helper()
		body, err := p.Logs(t.Context(), refOf(t, h), 10)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer body.Close()
		if text, err := io.ReadAll(body); err != nil || !strings.Contains(string(text), h.GuestID) {
			t.Errorf("Logs of one that %s = %q, %v", when, text, err)
		}
	}
	read("runs")
	if err := p.Stop(t.Context(), refOf(t, h)); err != nil {
		t.Fatal(err)
	}
	read("has stopped")
}

func TestNewest_keepsTheEnd(t *testing.T) {
	var n newest
	for i := range 400_000 {
		fmt.Fprintf(&n, "%08d\n", i)
	}
	text := n.String()
	if len(text) != maxLogs || !strings.HasSuffix(text, "\n00399999\n") || cap(n.buf) > 4*maxLogs {
		t.Errorf("%d bytes of %d, ending in %q", len(text), cap(n.buf), text[len(text)-20:])
	}
}
