package docker

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// helloTimeout bounds the question who a container's commands are: a card does
// not wait for a guest that hangs.
const helloTimeout = time.Second

// commands are what a person types to do by hand what a Provider does, rebuilt
// from what the engine says that the container is. A verb that would fail in its
// present state is left out.
func (p *Provider) commands(ctx context.Context, c container.InspectResponse) []sandbox.HandCommand {
	docker := []string{"docker"}
	if p.endpoint.host != "unix://"+defaultSocket {
		docker = append(docker, "-H", p.endpoint.host)
	}
	line := func(does string, args ...string) sandbox.HandCommand {
		return sandbox.HandCommand{Does: does, Text: sandbox.ShellLine(append(slices.Clone(docker), args...))}
	}
	id := c.ID[:12]
	list := []sandbox.HandCommand{line("make", p.makeArguments(ctx, c)...)}
	if c.State.Running && !c.State.Paused {
		if serves(c) {
			list = append(list, line("shell", "exec", "-it", id, "sh"))
		} else if hello, err := p.hello(ctx, c); err == nil {
			list = append(list, line("shell", "exec", "-it",
				"--user", fmt.Sprintf("%d:%d", hello.UID, hello.GID), "--env", "HOME="+hello.Home,
				"-w", c.Config.WorkingDir, id, cmp.Or(hello.Shell, "sh")))
		}
	}
	list = append(list, line("logs", "logs", "--tail", "200", id))
	if c.State.Running && !c.State.Paused {
		list = append(list, line("stop", "stop", id))
	}
	return append(list, line("remove", "rm", "--force", "--volumes", id))
}

// hello asks a container's guest what it is.
func (p *Provider) hello(ctx context.Context, c container.InspectResponse) (wire.Hello, error) {
	b, err := p.box(c.Config.Labels[labelSandbox])
	if err != nil {
		return wire.Hello{}, err
	}
	h, err := p.handle(c.ID, b, c.Config.WorkingDir, p.guestDial(c, b))
	if err != nil {
		return wire.Hello{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	guest := p.guestClient(h)
	defer guest.Close()
	return guest.Hello(ctx)
}

// makeArguments are those of "docker run" for a container like c: the same
// image, walls, mounts and guest. It has none of our labels, or it would be
// taken for an orphan and removed; and a socket, a journal and a home of its own,
// since those of c are in use.
func (p *Provider) makeArguments(ctx context.Context, c container.InspectResponse) []string {
	h := c.HostConfig
	args := []string{"run", "--detach", "--name", "by-hand-" + c.ID[:12]}
	flag := func(name, value string) {
		if value != "" {
			args = append(args, name, value)
		}
	}
	flag("--user", c.Config.User)
	flag("--workdir", c.Config.WorkingDir)
	flag("--network", string(h.NetworkMode))
	for _, name := range h.CapDrop {
		flag("--cap-drop", name)
	}
	for _, name := range h.CapAdd {
		flag("--cap-add", name)
	}
	for _, option := range h.SecurityOpt {
		flag("--security-opt", option)
	}
	number := func(name string, n int64) {
		if n > 0 {
			flag(name, strconv.FormatInt(n, 10))
		}
	}
	number("--memory", h.Memory)
	number("--memory-swap", h.MemorySwap)
	number("--shm-size", h.ShmSize)
	if h.NanoCPUs > 0 {
		flag("--cpus", strconv.FormatFloat(float64(h.NanoCPUs)/1e9, 'f', -1, 64))
	}
	if h.PidsLimit != nil {
		number("--pids-limit", *h.PidsLimit)
	}
	if h.Init != nil {
		args = append(args, fmt.Sprintf("--init=%t", *h.Init))
	}
	flag("--stop-signal", c.Config.StopSignal)
	if c.Config.StopTimeout != nil {
		flag("--stop-timeout", strconv.Itoa(*c.Config.StopTimeout))
	}
	if health := c.Config.Healthcheck; health != nil && slices.Equal(health.Test, []string{"NONE"}) {
		args = append(args, "--no-healthcheck")
	}
	for _, target := range slices.Sorted(maps.Keys(h.Tmpfs)) {
		flag("--tmpfs", target+":"+h.Tmpfs[target])
	}
	home := []string{"--tmpfs", insideHome + ":exec,mode=1777"}
	for _, m := range mountsOf(h) {
		switch {
		case m.Target == insideBox:
			flag("--tmpfs", insideBox+":mode=1777")
		case m.Target == insideHome && strings.HasPrefix(m.Source, p.boxes()):
		default:
			if m.Target == insideHome {
				home = nil
			}
			if m.label != "" {
				flag("--volume", bindText(m.Mount, m.label))
			} else {
				flag("--mount", mountArgument(m.Mount))
			}
		}
	}
	if serves(c) { // it finds a home in its image, and its key in the person's own shell
		home = []string{"--env", keyVariable}
		if len(h.PortBindings) > 0 {
			home = append(home, "--publish", "127.0.0.1::"+strconv.Itoa(servedPort))
		}
		return slices.Concat(args, home, []string{p.imageNow(ctx, c)})
	}
	args = append(args, home...)
	entrypoint, env := byHand(c.Config.Entrypoint)
	for _, kv := range env {
		flag("--env", kv)
	}
	if len(entrypoint) > 0 {
		flag("--entrypoint", entrypoint[0])
		entrypoint = entrypoint[1:]
	}
	args = append(args, p.imageNow(ctx, c))
	return slices.Concat(args, entrypoint, c.Config.Cmd)
}

// imageNow returns the name that a container's image was asked for by, or its id
// where that name stands for another image by now.
func (p *Provider) imageNow(ctx context.Context, c container.InspectResponse) string {
	if img, err := p.findImage(ctx, c.Config.Image); err == nil && img.ID == c.Image {
		return c.Config.Image
	}
	return c.Image
}

// mountArgument is a mount as --mount takes it: fields of CSV, so that a path may
// hold commas and quotes.
func mountArgument(m mount.Mount) string {
	fields := []string{"type=" + string(m.Type)}
	if m.Source != "" {
		fields = append(fields, "source="+m.Source)
	}
	fields = append(fields, "target="+m.Target)
	if m.ReadOnly {
		fields = append(fields, "readonly")
	}
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write(fields) // into memory
	w.Flush()
	return strings.TrimSuffix(text.String(), "\n")
}

// byHand takes the variables of commands out of a guest's configuration, for the
// engine to set: there one that looks like a secret goes by its name alone, and
// has the value that the person's own shell knows.
func byHand(entrypoint []string) (argv, env []string) {
	argv = slices.Clone(entrypoint)
	var config wire.GuestConfig
	if len(argv) == 0 || json.Unmarshal([]byte(argv[len(argv)-1]), &config) != nil {
		return argv, nil
	}
	for _, kv := range config.Env {
		name, value, _ := strings.Cut(kv, "=")
		if secretName.MatchString(name) || secretValue.MatchString(value) {
			kv = name
		}
		env = append(env, kv)
	}
	config.Env = nil
	if body, err := json.Marshal(config); err == nil {
		argv[len(argv)-1] = string(body)
	}
	return argv, env
}

// What is taken for a secret: variables named like one, and values that look
// like one whatever they are called, such as an address with a password in it.
var (
	secretName  = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|cred|auth|cookie|session|private|dsn|_pat$|^pat$`)
	secretValue = regexp.MustCompile(`://[^/\s]*:[^/\s]*@|(?i)bearer |-----BEGIN|^(sk|pk|gh[pousr]|xox[a-z])[-_]|^eyJ[\w-]+\.`)
)
