package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/glovebox-dev/glovebox/backend/guest/embedded"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/mountcheck"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Paths inside a container. The tmpfs at insideDir is root's alone, so that no
// command gets to the binary or the socket in it.
const (
	insideDir   = "/run/glovebox"
	insideGuest = "/run/glovebox/guest"
	insideBox   = "/run/glovebox/box"
	insideHome  = "/home/glovebox"
	socketName  = "guest.sock"
)

// plan is a Spec with every question answered: what is left is to make it.
type plan struct {
	root    string
	image   string // as asked for
	arch    string
	imageID string
	workdir string
	user    string // for the guest: "host", "root" or "UID:GID"
	uid     int    // of the commands, as the host sees it
	gid     int
	limits  sandbox.Resources
	mounts  []sandbox.Mount
	placed  []sandbox.Mount // the same by the engine's names
	network container.NetworkMode
	relay   string // where the guest listens for what goes out by the host; "" for nowhere
	env     []string
	home    home
	asRoot  bool
	facts   *facts

	wire   string
	server *served // how it would be spoken to; nil where the Spec rules that out
	serves *served // nil for a guest of ours as the first process
	maybe  bool    // the image may serve the API: it exposes the port

	byExec   bool // the guest is copied in, and reached through the engine
	ownPlace bool // the workdir is the container's own
}

// home says where the HOME of commands lies. It survives a stop in any case.
type home int

const (
	homeOutside home = iota // in the box, on the host
	homeInside              // in the container
	homeMounted             // one of the Spec's own mounts
)

// outline checks all of a Spec but what its image says, and makes nothing.
func (p *Provider) outline(ctx context.Context, root string, spec sandbox.Spec) (plan, error) {
	if root == "" {
		return plan{}, errors.New("allocate: the root task has no id")
	}
	if err := p.check(spec); err != nil {
		return plan{}, err
	}
	f, err := p.connect(ctx)
	if err != nil {
		return plan{}, err
	}
	if err := p.checkAPI(); err != nil {
		return plan{}, err
	}
	if err := p.checkMounts(spec); err != nil {
		return plan{}, err
	}
	// Once more, now that it is known where the engine keeps its own files.
	mounts, err := mountcheck.ResolveMounts(spec, p.denied(f))
	if err != nil {
		return plan{}, err
	}
	placed, err := p.place(spec, mounts, f)
	if err == nil {
		err = p.checkLabels(spec, placed, f)
	}
	if err != nil {
		return plan{}, err
	}
	pl := plan{
		root:    root,
		image:   cmp.Or(spec.Image, p.opts.DefaultImage),
		workdir: path.Clean(spec.WorkdirOrDefault()),
		user:    cmp.Or(spec.User, "host"),
		mounts:  mounts,
		placed:  placed,
		network: "none",
		asRoot:  spec.User == "root",
		facts:   f,
		byExec:  p.byExec(f),
	}
	pl.ownPlace = !slices.ContainsFunc(mounts, func(m sandbox.Mount) bool { return m.Target == pl.workdir })
	switch spec.NetworkOrDefault() {
	case sandbox.NetworkOpen:
		pl.network = "bridge"
	case sandbox.NetworkProxy:
		pl.relay = wire.RelayAddr
	}
	for name, v := range spec.Env {
		if v.FromHost == "" { // host variables are read at each command's start, not kept here
			pl.env = append(pl.env, name+"="+v.Literal)
		}
	}
	slices.Sort(pl.env)
	if pl.wire = spec.Wire; checkServed(spec) == nil {
		pl.server = planServed(pl, spec)
	}
	if pl.limits, err = limits(spec.Resources, f.NCPU, f.MemTotal); err != nil {
		return plan{}, err
	}
	return pl, nil
}

// on completes an outline with the image that the engine has.
func (p *Provider) on(ctx context.Context, pl plan, img image.InspectResponse) (_ plan, err error) {
	pl.imageID, pl.arch = img.ID, img.Architecture
	says, maybe := imageServes(img)
	if pl.wire == sandbox.WireAIO || says {
		pl.serves = pl.server
	}
	pl.maybe = maybe && pl.serves == nil && pl.server != nil
	if pl.uid, pl.gid, err = workspaceOwner(pl); err != nil {
		return plan{}, err
	}
	switch pl.user {
	case "root":
		pl.uid, pl.gid = 0, 0
	case "image":
		if pl.serves != nil {
			break // its own server knows
		}
		user, err := p.imageUser(ctx, pl.root, img)
		if err != nil {
			return plan{}, err
		}
		pl.uid, pl.gid = user.uid, user.gid
		pl.user = fmt.Sprintf("%d:%d", user.uid, user.gid)
	}
	switch us := os.Getuid(); {
	case slices.ContainsFunc(pl.mounts, func(m sandbox.Mount) bool { return m.Target == insideHome }):
		pl.home = homeMounted
	case pl.byExec, us != 0 && us != pl.uid:
		pl.home = homeInside // what another user leaves in the box, we could not remove
	case img.Config != nil && img.Config.Labels[labelSnapshotHome] != "":
		pl.home = homeInside // it is in the image
	}
	return pl, nil
}

// check finds the faults of a Spec that show without asking the engine.
func (p *Provider) check(spec sandbox.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if spec.Wall != "" && spec.Wall != sandbox.WallDocker {
		return &sandbox.FieldError{Field: "wall", Reason: fmt.Sprintf("%s is not the docker wall", spec.Wall)}
	}
	if spec.Wire == sandbox.WireAIO {
		if err := checkServed(spec); err != nil {
			return err
		}
	}
	if cmp.Or(spec.Image, p.opts.DefaultImage) == "" {
		return &sandbox.FieldError{Field: "image", Reason: "is empty; name an image that the engine has (docker images)"}
	}
	for i, m := range spec.Mounts {
		if m.Kind == sandbox.Volume && !isVolumeName(m.Source) {
			return &sandbox.FieldError{Field: fmt.Sprintf("mounts[%d].source", i), Reason: fmt.Sprintf("%q is not the name of a volume: letters, digits and _ . - only", m.Source)}
		}
	}
	if _, err := limits(spec.Resources, 0, 0); err != nil {
		return err
	}
	if err := p.checkMounts(spec); err != nil {
		return err
	}
	mounts, err := mountcheck.ResolveMounts(spec, p.denied(nil))
	if err != nil {
		return err
	}
	placed, err := p.place(spec, mounts, nil)
	if err == nil {
		err = p.checkLabels(spec, placed, nil)
	}
	if err != nil || p.bindless() {
		return err // without a mount the workdir is the sandbox's own
	}
	workdir := path.Clean(spec.WorkdirOrDefault())
	if !slices.ContainsFunc(mounts, func(m sandbox.Mount) bool { return m.Target == workdir }) {
		return &sandbox.FieldError{Field: "workspace", Reason: "is empty; name the host directory to work in"}
	}
	return nil
}

// denied are the directories that no sandbox gets, beside those that none on
// this machine gets: what is ours, and what is the engine's.
func (p *Provider) denied(f *facts) []string {
	denied := mountcheck.Private(p.opts.DataDir)
	if socket := p.endpoint.socket(); socket != "" {
		denied = append(denied, socket)
	}
	if f != nil && f.DockerRootDir != "" {
		denied = append(denied, f.DockerRootDir)
	}
	return denied
}

// isVolumeName follows the engine's rule for names.
func isVolumeName(s string) bool {
	for i, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune("_.-", r)) {
			return false
		}
	}
	return len(s) >= 2
}

// ownImages is how the names of images begin that Glovebox makes. No registry has
// them.
const ownImages = "glovebox/"

// errNoImage is an image that the engine does not have.
var errNoImage = errors.New("the engine does not have the image")

// image inspects an image, after it was made or pulled where the engine does not
// have it. One that it has makes no contact with a registry.
func (p *Provider) image(ctx context.Context, ref string, report func(sandbox.Step)) (image.InspectResponse, error) {
	img, err := p.findImage(ctx, ref)
	if !errors.Is(err, errNoImage) {
		return img, err
	}
	if ref == p.TinyImage() {
		_, err = p.ImportTiny(ctx, func(step string) { report(sandbox.Step{Name: step, At: time.Now()}) })
	} else {
		err = p.Pull(ctx, ref, report)
	}
	if err != nil {
		return img, err
	}
	return p.findImage(ctx, ref)
}

// checkImage finds the faults of an image's name and of the image, if the engine
// has it: it is not known yet what a registry would say.
func (p *Provider) checkImage(ctx context.Context, ref string) (img image.InspectResponse, there bool, err error) {
	img, err = p.findImage(ctx, ref)
	switch {
	case !errors.Is(err, errNoImage):
		return img, err == nil, err
	case ref == p.TinyImage():
		if _, err := staticBusybox(); err != nil {
			return img, false, &sandbox.FieldError{Field: "image", Reason: fmt.Sprintf("%s cannot be made: %v", ref, err)}
		}
		return img, false, nil
	case strings.HasPrefix(ref, ownImages):
		return img, false, notBuilt(ref)
	}
	_, err = FullRef(ref)
	return img, false, err
}

// notBuilt refuses an image that Glovebox makes and has not made.
func notBuilt(ref string) error {
	return &sandbox.FieldError{Field: "image", Reason: fmt.Sprintf("%s is not on this engine; make it with glovebox image build", ref)}
}

// findImage inspects an image that the engine has. It pulls nothing: the error
// wraps errNoImage where there is none.
func (p *Provider) findImage(ctx context.Context, ref string) (image.InspectResponse, error) {
	fault := func(format string, args ...any) error {
		return &sandbox.FieldError{Field: "image", Reason: fmt.Sprintf(format, args...)}
	}
	img, err := call(ctx, p, "inspect image "+ref, readTimeout, func(ctx context.Context) (image.InspectResponse, error) {
		return p.engine.ImageInspect(ctx, ref)
	})
	switch {
	case cerrdefs.IsNotFound(err):
		return img, fmt.Errorf("%s: %w", ref, errNoImage)
	case cerrdefs.IsInvalidArgument(err):
		return img, fault("%q is not the name of an image", ref)
	case err != nil:
		return img, err
	case img.Os != "linux":
		return img, fault("%s is made for %s; choose an image for linux", ref, img.Os)
	}
	if err := embedded.Built(img.Architecture); err != nil {
		return img, fault("%s is made for linux/%s, and there is no guest for that: %v", ref, img.Architecture, err)
	}
	return img, nil
}

// workspaceOwner returns who owns the workspace on the host. A volume at the
// workdir is root's until the guest has looked.
func workspaceOwner(pl plan) (uid, gid int, err error) {
	for _, m := range pl.mounts {
		if m.Target != pl.workdir || m.Kind != sandbox.LocalPath {
			continue
		}
		var st syscall.Stat_t
		if err := syscall.Stat(m.Source, &st); err != nil {
			return 0, 0, fmt.Errorf("read the owner of the workspace %s: %w", m.Source, err)
		}
		return int(st.Uid), int(st.Gid), nil
	}
	if pl.ownPlace {
		return ordinary, ordinary, nil
	}
	return 0, 0, nil
}

// guestUID is the user that the guest becomes: one that its commands are not.
func (pl plan) guestUID() int {
	const usual = 59989
	if pl.uid == usual {
		return usual - 1
	}
	return usual
}

// ownDirectory are the options of the guest's directory. It belongs to the
// guest's user, who closes it after the engine has started the guest in it.
func (pl plan) ownDirectory() string {
	return fmt.Sprintf("nosuid,nodev,size=1m,mode=0711,uid=%d,gid=%[1]d", pl.guestUID())
}

// engineMounts are the mounts of a container in the engine's structs: never
// "source:target" strings, which a colon in a path breaks.
func (pl plan) engineMounts(guest string, b box) (mounts []mount.Mount, binds []string) {
	mounts = []mount.Mount{
		{Type: mount.TypeBind, Source: guest, Target: insideGuest, ReadOnly: true},
		{Type: mount.TypeBind, Source: b.shared(), Target: insideBox},
	}
	if pl.byExec {
		mounts = nil
	}
	if pl.home == homeOutside {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: b.home(), Target: insideHome})
	}
	if needsLabels(pl.facts) { // or a guest could not be started there
		for _, m := range mounts {
			binds = append(binds, bindText(m, "z"))
		}
		mounts = nil
	}
	plain, labelled := split(pl.placed)
	return append(mounts, plain...), append(binds, labelled...)
}
