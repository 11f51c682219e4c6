//go:build linux

package namespace

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/guest/embedded"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/mountcheck"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// plan is a Spec with every question answered: what is left is to make it. It
// is made anew at each start, because links and owners can have changed.
type plan struct {
	uid, gid int // of the workspace, of every process, and of every new file
	workdir  string
	mounts   []sandbox.Mount // parents first
	limits   sandbox.Resources
	env      []string
	relay    string // where the guest listens for what goes out by the host; "" for nowhere
	bwrap    string // path of bubblewrap
	guest    string // path of the guest's binary on the host
}

// plan finds every fault of a Spec and makes nothing.
func (p *Provider) plan(spec sandbox.Spec) (plan, error) {
	if err := spec.Validate(); err != nil {
		return plan{}, err
	}
	if err := refuse(spec); err != nil {
		return plan{}, err
	}
	pl := plan{workdir: path.Clean(spec.WorkdirOrDefault())}
	var err error
	if pl.limits, err = limits(spec.Resources); err != nil {
		return plan{}, err
	}
	if pl.mounts, err = mountcheck.ResolveMounts(spec, mountcheck.Private(p.opts.DataDir)); err != nil {
		return plan{}, err
	}
	if pl.uid, pl.gid, err = workspaceOwner(pl); err != nil {
		return plan{}, err
	}
	if err := checkTargets(spec, pl.mounts); err != nil {
		return plan{}, err
	}
	if spec.Network.Mode == sandbox.NetworkProxy {
		pl.relay = wire.RelayAddr
	}
	for name, v := range spec.Env {
		if v.FromHost == "" { // host variables are read at each command's start, not kept here
			pl.env = append(pl.env, name+"="+v.Literal)
		}
	}
	slices.Sort(pl.env)
	if pl.bwrap = findBubblewrap(); pl.bwrap == "" {
		return plan{}, &sandbox.WallError{Wall: sandbox.WallNamespace, Err: errMissing}
	}
	if pl.guest, err = p.install(); err != nil {
		return plan{}, err
	}
	return pl, p.checkReach(pl)
}

// install returns the path of the guest's binary. Comparing what is there with
// what should be reads both, so it is done once.
func (p *Provider) install() (string, error) {
	p.installing.Lock()
	defer p.installing.Unlock()
	if _, err := os.Stat(p.guest); err == nil {
		return p.guest, nil
	}
	path, err := embedded.Install(filepath.Join(p.opts.DataDir, "guest"), runtime.GOARCH)
	p.guest = path
	return path, err
}

// refuse names what this wall cannot do, and what to choose instead.
func refuse(spec sandbox.Spec) error {
	fault := func(field, reason string) error { return &sandbox.FieldError{Field: field, Reason: reason} }
	switch {
	case spec.Wall != "" && spec.Wall != sandbox.WallNamespace:
		return fault("wall", fmt.Sprintf("%s is not the namespace wall", spec.Wall))
	case spec.Image != "":
		return fault("image", "the namespace wall has no images, it uses the programs of this machine; leave it empty or choose the docker wall")
	case spec.Wire != "":
		return fault("wire", fmt.Sprintf("%q is not available behind the namespace wall; leave it empty", spec.Wire))
	case spec.User == "image":
		return fault("user", "the namespace wall has no image to take a user from; choose host")
	case spec.User == "root":
		return fault("user", "the namespace wall runs commands as the owner of the workspace, without capabilities; choose host, or the docker wall")
	case spec.NetworkOrDefault() == sandbox.NetworkOpen:
		return fault("network.mode", "open would give the sandbox this machine's own network, loopback included; choose proxy or none, or the docker wall")
	}
	for i, m := range spec.Mounts {
		if m.Kind == sandbox.Volume {
			return fault(fmt.Sprintf("mounts[%d].kind", i), "the namespace wall has no volumes; choose local-path")
		}
		if m.SELinux != "" {
			return fault(fmt.Sprintf("mounts[%d].selinux", i), "the namespace wall gives files no labels, its processes keep the user's own; leave it out, or choose the docker wall")
		}
	}
	return nil
}

// limits reads the resources of a Spec over the defaults.
func limits(named map[string]string) (sandbox.Resources, error) {
	r, err := sandbox.ParseResources(named)
	if err != nil {
		return r, err
	}
	processors := float64(runtime.NumCPU())
	if r.CPUs > processors {
		return r, &sandbox.FieldError{Field: "resources.cpus", Reason: fmt.Sprintf("%q is more than the %v processors of this machine", named["cpus"], processors)}
	}
	var machine syscall.Sysinfo_t
	if err := syscall.Sysinfo(&machine); err != nil {
		return r, fmt.Errorf("read how much memory this machine has: %w", err)
	}
	memory := int64(uint64(machine.Totalram) * uint64(machine.Unit))
	if r.Memory > memory {
		return r, &sandbox.FieldError{Field: "resources.memory", Reason: fmt.Sprintf("%q is more than the %dm of this machine", named["memory"], memory>>20)}
	}
	r.Memory = cmp.Or(r.Memory, min(sandbox.DefaultResources.Memory, memory))
	r.Shm = cmp.Or(r.Shm, sandbox.DefaultResources.Shm)
	r.PIDs = cmp.Or(r.PIDs, sandbox.DefaultResources.PIDs)
	r.CPUs = cmp.Or(r.CPUs, min(sandbox.DefaultResources.CPUs, processors))
	return r, nil
}

// workspaceOwner returns whose processes the sandbox's will be.
func workspaceOwner(pl plan) (uid, gid int, err error) {
	i := slices.IndexFunc(pl.mounts, func(m sandbox.Mount) bool { return m.Target == pl.workdir })
	if i < 0 {
		return 0, 0, &sandbox.FieldError{Field: "workspace", Reason: "is empty; name the host directory to work in"}
	}
	info, err := os.Stat(pl.mounts[i].Source)
	if err != nil {
		return 0, 0, &sandbox.FieldError{Field: "workspace", Reason: err.Error()}
	}
	st := info.Sys().(*syscall.Stat_t)
	uid, gid = int(st.Uid), int(st.Gid)
	if self := os.Geteuid(); self != 0 && self != uid {
		return 0, 0, &sandbox.FieldError{Field: "workspace", Reason: fmt.Sprintf(
			"%s belongs to user %d and Glovebox runs as user %d; choose a directory of your own, or start Glovebox as that user or as root",
			pl.mounts[i].Source, uid, self)}
	}
	// A process may take its own groups alone without privilege.
	if os.Geteuid() != 0 {
		gid = os.Getegid()
	}
	return uid, gid, nil
}

// reserved are the targets that the root tree needs for itself, with what lies
// below them.
var reserved = []string{"/proc", "/sys", "/dev", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"}

// checkTargets refuses mounts that would cover the root tree, and nested ones
// whose place is reached over a symlink. Making the place of a mount follows
// links, and those inside a workspace are written by whoever worked there: one
// that points out of the new root would have directories made on the host.
func checkTargets(spec sandbox.Spec, mounts []sandbox.Mount) error {
	field := func(m sandbox.Mount) string {
		for i, asked := range spec.Mounts {
			if path.Clean(asked.Target) == m.Target {
				return fmt.Sprintf("mounts[%d].target", i)
			}
		}
		return "workdir"
	}
	for i, m := range mounts {
		for _, r := range reserved {
			if within(m.Target, r) {
				return &sandbox.FieldError{Field: field(m), Reason: fmt.Sprintf("%s belongs to the sandbox itself", r)}
			}
		}
		if within("/run/glovebox", m.Target) || within(insideHome, m.Target) {
			return &sandbox.FieldError{Field: field(m), Reason: fmt.Sprintf("%s would cover what belongs to the guest", m.Target)}
		}
		parent := ""
		source := ""
		for _, outer := range mounts[:i] {
			if within(m.Target, outer.Target) && len(outer.Target) > len(parent) {
				parent, source = outer.Target, outer.Source
			}
		}
		if parent == "" {
			continue
		}
		for _, name := range strings.Split(strings.TrimPrefix(m.Target, parent+"/"), "/") {
			source = filepath.Join(source, name)
			info, err := os.Lstat(source)
			if err != nil {
				break // made at the start, as a plain directory
			}
			if info.Mode()&os.ModeSymlink != 0 {
				return &sandbox.FieldError{Field: field(m), Reason: fmt.Sprintf("%s is a symlink; mount at a plain path", source)}
			}
		}
	}
	return nil
}

// within reports whether p is dir or lies below it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
