package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/guest/embedded"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/frontend"
)

// The names of the checks of which one has to hold.
const (
	checkDocker    = "docker engine"
	checkNamespace = "bubblewrap"
	checkRemote    = "remote sandbox"
)

// probeTime bounds a look at an engine that may hang.
const probeTime = 3 * time.Second

// wallCache keeps the last look at the walls for a moment: a page asks often.
type wallCache struct {
	mu    sync.Mutex
	at    time.Time
	walls []httpapi.WallInfo
}

const wallsFresh = 5 * time.Second

// probeWalls looks which walls this machine has, by using them.
func (a *App) probeWalls(ctx context.Context) []httpapi.WallInfo {
	a.walls.mu.Lock()
	if time.Since(a.walls.at) < wallsFresh {
		defer a.walls.mu.Unlock()
		return a.walls.walls
	}
	a.walls.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	walls := []httpapi.WallInfo{
		{Wall: sandbox.WallDocker, Worth: "A container: own files and processes, no network interface. The kernel is shared with this machine."},
		{Wall: sandbox.WallNamespace, Worth: "Linux namespaces over a root of their own, no network interface. No images; the kernel is shared with this machine."},
		{Wall: sandbox.WallLocal, Available: true, Detail: "always there, never chosen by itself",
			Worth: "No isolation: commands run on this machine as you. Writes are fenced to the workspace and calls ask first."},
	}
	var both sync.WaitGroup
	both.Go(func() {
		info, err := a.docker.Ping(ctx)
		if err != nil {
			walls[0].Detail = err.Error()
			var missing bool
			if walls[0].Fix, missing = a.docker.Remedy(err); missing {
				walls[0].Fix, walls[0].Command = fixDocker, engineLine()
			}
			return
		}
		walls[0].Available = true
		walls[0].Detail = fmt.Sprintf("%s engine %s, API %s, at %s (%s)", info.Engine, info.Version, info.APIVersion, info.Endpoint, info.Why)
		if info.Channel == "exec" {
			walls[0].Detail += ", guests are reached through it"
		}
		if info.Container != "" {
			walls[0].Detail += ", Glovebox itself runs in its container " + info.Container
		}
		switch {
		case info.Mounts:
		case info.Shared != "":
			walls[0].Detail += ", of this program's files it sees and mounts " + info.Shared
		default:
			walls[0].Detail += ", nothing of this machine can be mounted"
		}
	})
	both.Go(func() {
		if err := a.bwrap.Probe(ctx); err != nil {
			walls[1].Detail, walls[1].Fix, walls[1].Command = err.Error(), fixNamespace, bubblewrapLine()
			return
		}
		walls[1].Available, walls[1].Detail = true, "bubblewrap works"
	})
	var shared httpapi.WallInfo
	var configured bool
	both.Go(func() { shared, configured = a.remoteWall(ctx) })
	both.Wait()
	if configured {
		walls = append(walls, shared)
	}
	a.walls.mu.Lock()
	defer a.walls.mu.Unlock()
	a.walls.at, a.walls.walls = time.Now(), walls
	return walls
}

// noWallError says what to install. It is never answered by going without.
func noWallError(walls []httpapi.WallInfo) error {
	var why []string
	for _, w := range walls {
		if w.Wall != sandbox.WallLocal && w.Wall != sandbox.WallRemote && !w.Available {
			why = append(why, fmt.Sprintf("  %s: %s\n    to have it: %s", w.Wall, w.Detail, withLine(w.Fix, w.Command)))
		}
	}
	return fmt.Errorf("%w:\n%s\nCommands are not run on this machine itself unless you choose --wall local", sandbox.ErrNoWall, strings.Join(why, "\n"))
}

// withLine writes what is to be done with the line that does it.
func withLine(fix, command string) string {
	if command == "" {
		return fix
	}
	return fix + ": " + command
}

// defaultWall chooses docker where an engine answers, else namespace, else
// nothing. It never chooses local.
func (a *App) defaultWall(ctx context.Context) (sandbox.Wall, error) {
	if a.hosts.SandboxProvider != nil {
		return a.hosts.SandboxSpec.Wall, nil
	}
	if a.sharedByDefault() {
		return sandbox.WallRemote, nil
	}
	if w := a.o.Config.Sandbox.Wall; w != "" {
		return sandbox.Wall(w), nil
	}
	walls := a.probeWalls(ctx)
	for _, w := range walls {
		if w.Available && w.Wall != sandbox.WallLocal && w.Wall != sandbox.WallRemote {
			return w.Wall, nil
		}
	}
	return "", noWallError(walls)
}

// configuredSpec is what a session takes where it names nothing itself.
func (a *App) configuredSpec() sandbox.Spec {
	if a.hosts.SandboxProvider != nil {
		return a.hosts.SandboxSpec
	}
	spec := a.o.Config.Spec()
	if a.hosts.ExecEnv != nil {
		spec.BaseURL = a.hosts.ExecEnv.BaseURL
	}
	return spec
}

// defaultImage returns the image of a session that names none: the configured
// one, the standard one where it was built, else the tiny one, which a session
// makes when it is not there.
func (a *App) defaultImage(ctx context.Context) (string, error) {
	if image := a.o.Config.Sandbox.Image; image != "" {
		return image, nil
	}
	if err := a.docker.Probe(ctx); err != nil {
		return "", err
	}
	standard := a.docker.StandardImage()
	if ok, err := a.docker.ImageExists(ctx, standard); err != nil || ok {
		return standard, err
	}
	return a.docker.TinyImage(), nil
}

// about answers what the new-session dialog asks.
func (a *App) about(ctx context.Context) httpapi.About {
	walls := a.probeWalls(ctx)
	out := httpapi.About{
		Version: Version, Commit: Commit(), Instance: a.identity.instance, DataDir: a.o.DataDir, PID: os.Getpid(),
		StartedAt: a.started, Home: home(), Models: a.models(), DefaultModel: a.defaultModel(), Window: a.o.Window != nil, Walls: walls, Images: []string{},
	}
	for _, p := range agent.Presets() {
		out.Agents = append(out.Agents, httpapi.AgentInfo{Name: p.Name, Description: p.Description, Tools: p.Tools(a.tools).Names()})
	}
	for _, p := range agent.Plugins() {
		out.Plugins = append(out.Plugins, httpapi.PluginInfo{Name: p.Name, Description: p.Description, Default: slices.Contains(a.o.Config.Agent.Plugins, p.Name)})
	}
	if w, err := a.defaultWall(ctx); err == nil {
		out.DefaultWall = w
	}
	out.DefaultSpec = a.defaultSpec(out.DefaultWall)
	if !walls[0].Available {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if image, err := a.defaultImage(ctx); err == nil {
		out.DefaultImage = image
		if out.DefaultWall == sandbox.WallDocker {
			out.DefaultSpec.Image = image
		}
	}
	if images, err := a.docker.Images(ctx); err == nil {
		for _, img := range images {
			out.Images = append(out.Images, img.Ref)
		}
	}
	return out
}

// defaultSpec is configuredSpec as it is shown, with what is built in for the
// rest.
func (a *App) defaultSpec(wall sandbox.Wall) sandbox.Spec {
	spec := a.configuredSpec()
	spec.Wall = wall
	spec.User = cmp.Or(spec.User, "host")
	spec.Workdir = spec.WorkdirOrDefault()
	spec.Network.Mode = spec.NetworkOrDefault()
	limits := sandbox.DefaultResources.Named()
	maps.Copy(limits, spec.Resources)
	spec.Resources = limits
	return spec
}

// home returns where the one who runs this has their files, or "" where nobody
// knows.
func home() string {
	dir, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return dir
}

// doctor looks at everything that a session needs, by using it.
func (a *App) doctor(ctx context.Context) httpapi.Doctor {
	walls := a.probeWalls(ctx)
	out := httpapi.Doctor{OK: true, Checks: []httpapi.Check{}}
	add := func(ok bool, otherwise string, c httpapi.Check) {
		if ok {
			c.Status, c.Fix, c.Command, c.Recipe = "ok", "", "", ""
		} else {
			c.Status = otherwise
			out.OK = out.OK && otherwise != "fail"
		}
		out.Checks = append(out.Checks, c)
	}
	missing := "fail"
	if walls[0].Available || walls[1].Available || a.sharedByDefault() {
		missing = "info" // the other wall does
	}
	for i, name := range []string{checkDocker, checkNamespace} {
		add(walls[i].Available, missing, httpapi.Check{Name: name, Detail: walls[i].Detail, Fix: walls[i].Fix, Command: walls[i].Command})
	}
	for _, w := range walls {
		if w.Wall == sandbox.WallRemote {
			add(w.Available, map[bool]string{true: "fail", false: "info"}[a.sharedByDefault()], httpapi.Check{Name: checkRemote, Detail: w.Detail, Fix: w.Fix})
		}
	}
	if walls[0].Available {
		for _, img := range []httpapi.Check{
			{Name: "tiny image", Detail: a.docker.TinyImage(), Fix: "the first session that needs it makes it", Command: "glovebox image build --tiny", Recipe: tinyRecipe},
			{Name: "standard image", Detail: a.docker.StandardImage(), Fix: "build it for sandboxes with a browser", Command: "glovebox image build", Recipe: standardRecipe},
		} {
			ok, err := a.docker.ImageExists(ctx, img.Detail)
			if err != nil {
				img.Detail = err.Error()
				add(false, "warn", img)
			} else {
				add(ok, "info", img)
			}
		}
	}
	err := embedded.Built("amd64")
	add(err == nil, "fail", httpapi.Check{Name: "guest", Detail: describe(err, "embedded"), Fix: "build Glovebox whole", Command: "make build"})
	_, built := frontend.Assets()
	add(built, "warn", httpapi.Check{Name: "user interface", Detail: map[bool]string{true: "embedded", false: "not built"}[built], Fix: "build Glovebox whole", Command: "make build"})
	key, otherwise := a.checkModelKey()
	add(otherwise == "", otherwise, key)
	if proxy := proxyVariable(); proxy != "" && a.o.Config.Egress.Upstream == "" {
		add(false, "warn", httpapi.Check{Name: "way out", Detail: proxy + " is set, and what sandboxes send out does not go by it: public addresses are dialled straight from this machine",
			Fix: "where this machine reaches the internet by that proxy alone, name it in egress.upstream of the configuration"})
	}
	_, err = a.store.LastSeq(ctx)
	add(err == nil, "fail", httpapi.Check{Name: "store", Detail: describe(err, a.o.DataDir), Fix: "see the error; a backup can be put in place of glovebox.db"})
	return out
}

// proxyVariable names the variable by which this program's own requests take a
// proxy, "" for none.
func proxyVariable() string {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

func describe(err error, otherwise string) string {
	if err != nil {
		return err.Error()
	}
	return otherwise
}

// isNoWall reports whether an error means that no wall is available.
func isNoWall(err error) bool { return errors.Is(err, sandbox.ErrNoWall) }
