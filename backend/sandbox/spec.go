package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Wall says how a sandbox is kept apart from its host.
type Wall string

// The walls. An empty Wall lets the application choose one that is safe: it
// never chooses WallLocal.
const (
	WallDocker    Wall = "docker"
	WallNamespace Wall = "namespace"
	WallRemote    Wall = "remote"
	WallLocal     Wall = "local"
)

// DefaultWorkdir is where the workspace appears inside a sandbox.
const DefaultWorkdir = "/workspace"

// Spec asks for a sandbox. The zero value asks for the provider's defaults.
type Spec struct {
	Wall      Wall                `json:"wall,omitempty"`
	Image     string              `json:"image,omitempty"`
	Wire      string              `json:"wire,omitempty"`      // "" for a guest, "aio" for an image that serves the AIO API
	BaseURL   string              `json:"base_url,omitempty"`  // of the remote wall: http(s)://HOST[:PORT][/PREFIX], without a key
	User      string              `json:"user,omitempty"`      // "host" (default), "image", "root"
	Workdir   string              `json:"workdir,omitempty"`   // DefaultWorkdir when empty
	Workspace string              `json:"workspace,omitempty"` // host directory mounted read-write at Workdir
	Mounts    []Mount             `json:"mounts,omitempty"`
	Resources map[string]string   `json:"resources,omitempty"` // passed on untouched; each provider validates its own keys
	Env       map[string]EnvValue `json:"env,omitempty"`
	Network   Network             `json:"network"`
	Adopt     string              `json:"adopt,omitempty"` // full id of the container to be a guest in; nothing is made then
	Share     string              `json:"share,omitempty"` // root task whose sandbox it is to be too; nothing is made then
}

// EnvValue is a literal, or the name of a host variable that is read when a
// command is started, so that a secret is never stored.
type EnvValue struct {
	Literal  string `json:"literal,omitempty"`
	FromHost string `json:"from_host,omitempty"`
}

// Mode says whether a mount can be written.
type Mode string

// The mount modes; an empty Mode is ReadWrite.
const (
	ReadWrite Mode = "rw"
	ReadOnly  Mode = "ro"
)

// MountKind says what a mount's Source names.
type MountKind string

// The mount kinds; an empty MountKind is LocalPath.
const (
	LocalPath MountKind = "local-path"
	Volume    MountKind = "volume"
	NAS       MountKind = "nas"
	PVC       MountKind = "pvc"
)

// Mount puts a host directory, file or volume into a sandbox.
type Mount struct {
	Source  string    `json:"source"`
	Target  string    `json:"target"`
	Mode    Mode      `json:"mode,omitempty"`
	Kind    MountKind `json:"kind,omitempty"`
	SELinux SELinux   `json:"selinux,omitempty"`
}

// SELinux says that the files of a mount are given a label by which sandboxes may
// use them, on a machine that has SELinux. The files keep it: it changes the
// machine's own. Without one they stay as they are.
type SELinux string

// The labels: of every sandbox, and of this one alone.
const (
	SELinuxShared  SELinux = "shared"
	SELinuxPrivate SELinux = "private"
)

// FieldError names the field of a Spec (or of a configuration) that is wrong,
// in the spelling of its JSON, and says what to do about it.
type FieldError struct {
	Field  string // for example mounts[1].mode
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap makes every FieldError match ErrSpec.
func (e *FieldError) Unwrap() error { return ErrSpec }

// Validate checks what is the same behind every wall and touches nothing: the
// wall, user, network and mode words, absolute and unique targets, kinds. It
// returns a *FieldError for the first fault.
func (s Spec) Validate() error {
	switch s.Wall {
	case "", WallDocker, WallNamespace, WallRemote, WallLocal:
	default:
		return &FieldError{"wall", fmt.Sprintf("unknown wall %q; choose docker, namespace, remote or local", s.Wall)}
	}
	switch s.User {
	case "", "host", "image", "root":
	default:
		return &FieldError{"user", fmt.Sprintf("unknown user %q; choose host, image or root", s.User)}
	}
	switch s.Wire {
	case "", WireAIO:
	default:
		return &FieldError{"wire", fmt.Sprintf("unknown wire %q; choose aio, or leave it out", s.Wire)}
	}
	if s.Wire != "" && s.Adopt != "" {
		return &FieldError{"wire", "a guest is put into a container that is there already; leave it out"}
	}
	if err := s.validateNetwork(); err != nil {
		return err
	}
	if s.Adopt != "" {
		if s.Wall != WallDocker {
			return &FieldError{"adopt", "containers are behind the docker wall; choose it, or leave the wall out"}
		}
		if s.Workdir != "" && !path.IsAbs(s.Workdir) {
			return &FieldError{"workdir", fmt.Sprintf("%q is not absolute", s.Workdir)}
		}
	} else if s.Workdir != "" {
		if reason := targetFault(s.Workdir); reason != "" {
			return &FieldError{"workdir", reason}
		}
	}
	if s.Share != "" && s.Wall != WallDocker && s.Wall != WallNamespace {
		return &FieldError{"share", "only a sandbox that Glovebox has made can be shared"}
	}
	for name, v := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return &FieldError{"env." + name, "a variable name has no '=' and is not empty"}
		}
		if v.Literal != "" && v.FromHost != "" {
			return &FieldError{"env." + name, "give literal or from_host, not both"}
		}
		if strings.Contains(v.Literal, "\x00") {
			return &FieldError{"env." + name, "a value holds no NUL byte"}
		}
		if strings.ContainsAny(v.FromHost, "=\x00") {
			return &FieldError{"env." + name, "from_host is the name of a variable, and has no '='"}
		}
	}
	return s.validateMounts()
}

func (s Spec) validateMounts() error {
	seen := map[string]int{path.Clean(s.WorkdirOrDefault()): -1}
	for i, m := range s.Mounts {
		at := func(field string) string { return fmt.Sprintf("mounts[%d].%s", i, field) }
		switch m.Mode {
		case "", ReadWrite, ReadOnly:
		default:
			return &FieldError{at("mode"), fmt.Sprintf("unknown mode %q; choose rw or ro", m.Mode)}
		}
		switch m.Kind {
		case "", LocalPath, Volume, NAS, PVC:
		default:
			return &FieldError{at("kind"), fmt.Sprintf("unknown kind %q; choose local-path or volume", m.Kind)}
		}
		switch m.SELinux {
		case "":
		case SELinuxShared, SELinuxPrivate:
			if m.Kind != "" && m.Kind != LocalPath {
				return &FieldError{at("selinux"), "is for directories of this machine; leave it out"}
			}
		default:
			return &FieldError{at("selinux"), fmt.Sprintf("unknown label %q; choose shared or private", m.SELinux)}
		}
		if m.Source == "" {
			return &FieldError{at("source"), "is empty"}
		}
		if reason := targetFault(m.Target); reason != "" {
			return &FieldError{at("target"), reason}
		}
		target := path.Clean(m.Target)
		if j, ok := seen[target]; ok {
			if j == -1 && s.Workspace != "" && m.Source == s.Workspace && m.Mode != ReadOnly {
				continue // the workspace listed by hand: one mount, not two
			}
			if j == -1 && s.Workspace == "" {
				continue
			}
			return &FieldError{at("target"), fmt.Sprintf("%s is mounted twice", target)}
		}
		seen[target] = i
	}
	return nil
}

// systemDirs must not be covered: engine and guest have files of their own in them.
// What is below them may be mounted, a single file of /etc for example; and a
// sandbox may be lent its programs and libraries, which the guest does not need.
var systemDirs = []string{"/etc", "/run", "/var", "/var/run"}

// targetFault says why nothing can be mounted at target, or "".
func targetFault(target string) string {
	switch {
	case target == "":
		return "is empty"
	case !path.IsAbs(target):
		return fmt.Sprintf("%q is not absolute", target)
	case strings.Contains(target, "\x00"):
		return fmt.Sprintf("%q holds a NUL byte", target)
	}
	target = path.Clean(target)
	if target == "/" {
		return "a mount cannot cover the whole root"
	}
	for dir, owner := range map[string]string{"/run/glovebox": "guest", "/proc": "kernel", "/sys": "kernel", "/dev": "kernel"} {
		if target == dir || strings.HasPrefix(target, dir+"/") {
			return fmt.Sprintf("%s belongs to the %s", dir, owner)
		}
	}
	if slices.Contains(systemDirs, target) {
		return fmt.Sprintf("%s holds what the sandbox itself runs with; choose a directory below it or elsewhere", target)
	}
	return ""
}

// WorkdirOrDefault returns Workdir, or DefaultWorkdir when it is empty.
func (s Spec) WorkdirOrDefault() string {
	if s.Workdir == "" {
		return DefaultWorkdir
	}
	return s.Workdir
}
