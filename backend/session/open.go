package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	OneShot   bool // the first turn's end completes the session and releases its sandbox
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
	spec := o.Spec
	if spec.Adopt != "" {
		if err := s.adoptSpec(ctx, &spec, o.Workspace); err != nil {
			return nil, err
		}
	}
	if spec.Wall == "" {
		wall, err := s.o.Default.Wall(ctx)
		if err != nil {
			return nil, err
		}
		spec.Wall = wall
	}
	if spec.User == "" {
		spec.User = s.o.Default.Spec.User
	}
	if spec.Wall != sandbox.WallLocal && spec.Wall != sandbox.WallRemote {
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
	if spec.Resources == nil && spec.Adopt == "" {
		spec.Resources = s.o.Default.Spec.Resources
	}
	model := o.Model
	if model == "" {
		model = s.o.Default.Model
	}
	if _, err := s.o.Model(model); err != nil {
		return nil, &sandbox.FieldError{Field: "model", Reason: err.Error()}
	}
	if _, err := agent.PresetOf(o.Agent); err != nil {
		return nil, &sandbox.FieldError{Field: "agent", Reason: err.Error()}
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
	workspace, err := resolveWorkspace(o.Workspace)
	if err != nil {
		return nil, err
	}
	if spec.Wall == sandbox.WallDocker && spec.Image == "" {
		if spec.Image, err = s.o.Default.Image(ctx); err != nil {
			return nil, fmt.Errorf("find the default image: %w", err)
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
		Spec: spec, Approvals: approvals, OneShot: o.OneShot,
	}, nil
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
	spec.Adopt, spec.Image, spec.Network.Mode = place.ID, place.Image, place.Network
	spec.Workdir = cmp.Or(spec.Workdir, place.Workdir)
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
