package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

const sessionPrefix = "s-"

// Open is what a session is opened with. What is empty takes its default.
type Open struct {
	Title     string
	Goal      string // the first message; without one the sandbox starts and waits
	Workspace string // absolute host directory
	Model     string
	Agent     string // a preset; "" is the default
	Spec      sandbox.Spec
	Approvals task.Approvals
	OneShot   bool     // the first turn's end completes the session and releases its sandbox
	Plugins   []string // of agent.Plugins; nil is the default, and an empty list none
}

// Open records a new session and returns its id; its sandbox and first turn
// follow by themselves. A fault of the input is a *sandbox.FieldError and
// nothing has been made then.
func (s *Service) Open(ctx context.Context, o Open) (string, error) {
	id := newID(sessionPrefix)
	created, err := s.prepare(ctx, id, o)
	if err != nil {
		return "", err
	}
	payloads := []task.Payload{created}
	if o.Goal != "" {
		payloads = append(payloads,
			&task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, o.Goal)}},
			&task.TaskWoken{Cause: "message"})
	}
	if err := s.append(ctx, id, 0, payloads...); err != nil {
		return "", fmt.Errorf("open a session: %w", err)
	}
	s.wake(id)
	return id, nil
}

// prepare fills in defaults and checks everything that can be checked. What it
// makes is an empty workspace for a session that names none, and after a fault
// not even that.
func (s *Service) prepare(ctx context.Context, id string, o Open) (*task.TaskCreated, error) {
	if o.Spec.Share != "" {
		return nil, &sandbox.FieldError{Field: "share", Reason: "a sandbox is shared by forking the session that has it"}
	}
	workspace, err := resolveWorkspace(o.Workspace)
	if err != nil {
		return nil, err
	}
	spec, byPolicy, err := s.specOf(ctx, id, workspace, o.Spec)
	if err != nil {
		return nil, err
	}
	model := o.Model
	if model == "" {
		model = s.o.Default.Model
	}
	served, err := s.o.Model(model)
	if err != nil {
		return nil, &sandbox.FieldError{Field: "model", Reason: err.Error()}
	}
	if _, err := agent.PresetOf(o.Agent); err != nil {
		return nil, &sandbox.FieldError{Field: "agent", Reason: err.Error()}
	}
	plugins := o.Plugins
	if plugins == nil {
		plugins = served.Plugins
	}
	if plugins == nil {
		plugins = s.o.Default.Plugins
	}
	if plugins, err = agent.CheckPlugins(plugins); err != nil {
		return nil, &sandbox.FieldError{Field: "plugins", Reason: err.Error()}
	}
	approvals := o.Approvals
	switch approvals {
	case "":
		approvals = task.ApproveAuto
		if spec.Wall == sandbox.WallLocal || spec.Adopt != "" { // whose walls are not ours
			approvals = task.ApproveAsk
		}
	case task.ApproveAsk, task.ApproveAuto:
	default:
		return nil, &sandbox.FieldError{Field: "approvals", Reason: fmt.Sprintf("unknown mode %q; choose ask or auto", approvals)}
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.Wall == sandbox.WallDocker && spec.Image == "" {
		if spec.Image, err = s.o.Default.Image(ctx); err != nil {
			return nil, s.o.Lifetime.Instead(ctx, spec.Wall, fmt.Errorf("find the default image: %w", err))
		}
	}
	// Where nothing of this machine can be mounted, the sandbox has a place of its own.
	made := workspace == "" && spec.Adopt == "" && (spec.Wall == sandbox.WallLocal || s.o.Lifetime.MountsHost(spec.Wall))
	if made {
		if workspace, err = s.o.Workspace(id); err != nil {
			return nil, fmt.Errorf("make a workspace: %w", err)
		}
	}
	spec.Workspace = workspace
	if spec.Wall != sandbox.WallLocal {
		err = s.o.Lifetime.Check(ctx, spec)
	}
	if err != nil && made {
		removed := os.Remove(workspace) // empty as it was made
		if spec.Wall != sandbox.WallLocal && !s.o.Lifetime.MountsHost(spec.Wall) {
			// The check has found that out just now.
			workspace, spec.Workspace = "", ""
			err = s.o.Lifetime.Check(ctx, spec)
		}
		err = errors.Join(err, removed)
	}
	if err != nil {
		return nil, err
	}
	return &task.TaskCreated{
		Title: title(o), Goal: o.Goal, Model: model, Agent: cmp.Or(o.Agent, agent.MainPreset), Workspace: workspace,
		Spec: spec, Approvals: approvals, OneShot: o.OneShot, Plugins: plugins, ByPolicy: byPolicy,
	}, nil
}

// specOf fills in what a spec leaves out. byPolicy says that the host's policy
// has the session run on the host itself.
func (s *Service) specOf(ctx context.Context, id, workspace string, spec sandbox.Spec) (_ sandbox.Spec, byPolicy bool, err error) {
	if spec.Adopt != "" {
		if err := s.adoptSpec(ctx, &spec, workspace); err != nil {
			return spec, false, err
		}
	}
	named := spec.Wall
	if spec.Wall == "" && spec.BaseURL != "" {
		spec.Wall = sandbox.WallRemote
	}
	sandboxed := true
	if spec.Wall != sandbox.WallLocal {
		if sandboxed, err = s.o.HostConfig.sandboxed(id, workspace); err != nil {
			return spec, false, err
		}
	}
	switch {
	case !sandboxed && (named != "" || spec.BaseURL != ""):
		return spec, false, &sandbox.FieldError{Field: "wall", Reason: fmt.Sprintf("this host's policy runs sessions of %s on the host itself; leave the wall out, or ask for local by name", cmp.Or(workspace, "an empty workspace"))}
	case !sandboxed:
		spec.Wall, byPolicy = sandbox.WallLocal, true
	case spec.Wall == "":
		if spec.Wall, err = s.o.Default.Wall(ctx); err != nil {
			return spec, false, err
		}
	}
	if own := s.o.HostConfig; own.SandboxProvider != nil && spec.Wall == own.SandboxSpec.Wall {
		return fill(spec, own.SandboxSpec), byPolicy, nil
	}
	switch spec.Wall {
	case sandbox.WallRemote: // it is there already, and has what it has
		if spec.Network.Mode == "" {
			spec.Network.Mode = sandbox.NetworkOpen
		}
		if spec.BaseURL == "" {
			spec.BaseURL = s.o.Default.Spec.BaseURL
		}
		return spec, byPolicy, nil
	default:
		if spec.BaseURL != "" {
			return spec, false, &sandbox.FieldError{Field: "base_url", Reason: "is of the remote wall alone"}
		}
	}
	if spec.User == "" {
		spec.User = s.o.Default.Spec.User
	}
	if spec.Wire == "" && spec.Image == "" && spec.Wall == sandbox.WallDocker && spec.Adopt == "" {
		spec.Wire = s.o.Default.Spec.Wire // it goes with the configured image
	}
	if spec.Wall != sandbox.WallLocal {
		configured := s.o.Default.Spec.Network
		if spec.Network.Mode == "" {
			spec.Network.Mode = configured.Mode
		}
		// Named, so that the log means the same when the default is another.
		spec.Network.Mode = spec.NetworkOrDefault()
		if spec.Network.Mode == sandbox.NetworkProxy && spec.Network.Allow == nil {
			spec.Network.Allow = configured.Allow
		}
	}
	if spec.Adopt == "" {
		spec.Resources = limits(s.o.Default.Spec.Resources, spec.Resources)
	}
	return spec, byPolicy, nil
}

// limits are those that are configured, but for what a session names: to lower one is
// not to lift the others.
func limits(configured, named map[string]string) map[string]string {
	all := maps.Clone(configured)
	if all == nil {
		return named
	}
	maps.Copy(all, named)
	return all
}

// fill takes from a template what a spec leaves out.
func fill(spec, from sandbox.Spec) sandbox.Spec {
	spec.Image = cmp.Or(spec.Image, from.Image)
	spec.Wire = cmp.Or(spec.Wire, from.Wire)
	spec.BaseURL = cmp.Or(spec.BaseURL, from.BaseURL)
	spec.User = cmp.Or(spec.User, from.User)
	spec.Workdir = cmp.Or(spec.Workdir, from.Workdir)
	if spec.Mounts == nil {
		spec.Mounts = from.Mounts
	}
	if spec.Resources == nil {
		spec.Resources = from.Resources
	}
	if spec.Env == nil {
		spec.Env = from.Env
	}
	if spec.Network.Mode == "" {
		spec.Network = from.Network
	}
	return spec
}

// adoptSpec fills a spec in from the container that it is to be a guest in, which
// may be named in any way that its engine takes.
func (s *Service) adoptSpec(ctx context.Context, spec *sandbox.Spec, workspace string) error {
	if workspace != "" {
		return &sandbox.FieldError{Field: "workspace", Reason: "a container that is there already has its own files; leave the workspace out"}
	}
	spec.Wall = cmp.Or(spec.Wall, sandbox.WallDocker)
	place, err := s.o.Lifetime.Resolve(ctx, spec.Wall, spec.Adopt)
	if err != nil {
		return err
	}
	if err := s.notKept(ctx, place); err != nil {
		return err
	}
	spec.Adopt, spec.Image, spec.Network.Mode = place.ID, place.Image, place.Network
	spec.Workdir = cmp.Or(spec.Workdir, place.Workdir)
	return nil
}

// notKept refuses a container that a session made and left to its user: that one
// can have it back, with all that is in it.
func (s *Service) notKept(ctx context.Context, place sandbox.Place) error {
	if place.RootTaskID == "" {
		return nil
	}
	v, err := s.View(ctx, place.RootTaskID)
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := v.Condition != nil && v.Condition.Value == sandbox.StateDetached
	if kept && v.Status != task.StatusEnded && v.Bound != nil && v.Bound.ExecEnvRef.ID() == place.ID {
		return &sandbox.FieldError{Field: "adopt", Reason: fmt.Sprintf("the container %s was kept by session %s, which can have it back; attach that (glovebox attach %[2]s)", place.Name, v.ID)}
	}
	return nil
}

// resolveWorkspace makes a given workspace absolute and real. It never makes one.
func resolveWorkspace(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	bad := func(reason string) error { return &sandbox.FieldError{Field: "workspace", Reason: reason} }
	if !filepath.IsAbs(dir) {
		return "", bad(fmt.Sprintf("%q is not absolute", dir))
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", bad(dir + " does not exist; make it first")
	}
	if err != nil {
		return "", bad(err.Error())
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", bad(dir + " is not a directory")
	}
	return real, nil
}

// title returns the title of a new session: one line, shortened to what a list
// can show.
func title(o Open) string {
	t := strings.TrimSpace(o.Title)
	if t == "" {
		t, _, _ = strings.Cut(strings.TrimSpace(o.Goal), "\n")
	}
	t = strings.Join(strings.FieldsFunc(t, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }), " ")
	if t == "" {
		t = "New session"
	}
	const limit = 80
	if r := []rune(t); len(r) > limit {
		t = string(r[:limit-1]) + "…"
	}
	return t
}
