package docker

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/mountcheck"
)

// elsewhere is what a Provider knows of an engine that sees other files than
// this program, because this program runs in a container of it.
type elsewhere struct {
	container string   // the id of our own container; "" where only the configuration says so
	paths     []shared // the longest name here first
}

// shared is a directory that this program and its engine both see.
type shared struct {
	engine string // its name on the engine's machine
	here   string // and ours
}

// configured returns what Options say about the engine's files.
func (o Options) configured() (*elsewhere, error) {
	e := &elsewhere{}
	for engine, here := range o.PathMap {
		for _, name := range []string{engine, here} {
			if !filepath.IsAbs(name) || filepath.Clean(name) != name {
				return nil, &sandbox.FieldError{Field: "docker.path_map", Reason: fmt.Sprintf("%q is not an absolute path without dots and doubled slashes", name)}
			}
		}
		e.paths = append(e.paths, shared{engine, here})
	}
	e.sort()
	return e, nil
}

func (e *elsewhere) sort() {
	slices.SortFunc(e.paths, func(a, b shared) int {
		return cmp.Or(cmp.Compare(len(b.here), len(a.here)), cmp.Compare(a.here, b.here), cmp.Compare(a.engine, b.engine))
	})
}

// shortID is an id as people see it.
func shortID(id string) string { return id[:min(len(id), 12)] }

// known lists the directories here that the engine sees, for people.
func (e *elsewhere) known() string {
	var names []string
	for _, s := range e.paths {
		names = append(names, fmt.Sprintf("%s (%s there)", s.here, s.engine))
	}
	return strings.Join(names, ", ")
}

// there returns the engine's name of a path of ours.
func (e *elsewhere) there(path string) (string, bool) {
	for _, s := range e.paths {
		if rest, ok := within(path, s.here); ok {
			return filepath.Join(s.engine, rest), true
		}
	}
	return "", false
}

// here returns our name of a path of the engine's.
func (e *elsewhere) here(path string) (string, bool) {
	for _, s := range e.paths {
		if rest, ok := within(path, s.engine); ok {
			return filepath.Join(s.here, rest), true
		}
	}
	return "", false
}

// within returns what is left of path below dir.
func within(path, dir string) (rest string, ok bool) {
	if path == dir || dir == "/" {
		return strings.TrimPrefix(path, dir), true
	}
	return strings.CutPrefix(path, dir+"/")
}

// mountedDirs matches the files that an engine gives each container, in the list
// of that container's mounts. The place matters: while an engine copies files in
// or out, it has those of that container mounted below its own directory, where
// everybody outside sees them.
var mountedDirs = regexp.MustCompile(`/(?:containers|overlay-containers)/([0-9a-f]{64})/(?:userdata/)?(?:hostname|hosts|resolv\.conf) /etc/(?:hostname|hosts|resolv\.conf) `)

// ownContainer returns the id of the container that this program runs in, "" for
// none.
func ownContainer() string {
	body, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return containerOf(body)
}

// containerOf returns the id of the container that a list of mounts is of.
func containerOf(mountinfo []byte) string {
	if m := mountedDirs.FindSubmatch(mountinfo); m != nil {
		return string(m[1])
	}
	return ""
}

// lookAround finds out whether this program runs in a container of the engine
// that it talks to. Then the engine sees other files than we do, but for those
// that our own container has mounted, which the engine knows by both names.
func (p *Provider) lookAround(ctx context.Context) error {
	id := ownContainer()
	if id == "" {
		return nil
	}
	c, err := call(ctx, p, "look for this program's own container", readTimeout, func(ctx context.Context) (container.InspectResponse, error) {
		return p.engine.ContainerInspect(ctx, id)
	})
	if cerrdefs.IsNotFound(err) {
		return nil // a container of another engine
	}
	if err != nil {
		return err
	}
	e, err := p.opts.configured() // whose word goes first
	if err != nil {
		return err
	}
	e.container = id
	for _, m := range c.Mounts {
		named := slices.ContainsFunc(e.paths, func(s shared) bool { return s.here == m.Destination })
		if m.Type == mount.TypeBind && !named && filepath.IsAbs(m.Source) && m.Destination != p.endpoint.socket() {
			e.paths = append(e.paths, shared{m.Source, m.Destination})
		}
	}
	e.sort()
	p.elsewhere.Store(e)
	p.unseen.Store(true)
	return nil
}

// place translates the sources of a plan's mounts into the engine's names. A
// source that the engine does not have, or that may not be given away by its name
// there, is refused by the field that names it.
func (p *Provider) place(spec sandbox.Spec, mounts []sandbox.Mount, f *facts) ([]sandbox.Mount, error) {
	if !p.bindless() {
		return mounts, nil
	}
	e := p.elsewhere.Load()
	var denied []string
	for _, d := range p.denied(f) {
		if name, ok := e.there(d); ok {
			denied = append(denied, name)
		}
	}
	if f != nil && f.DockerRootDir != "" {
		denied = append(denied, f.DockerRootDir)
	}
	placed := slices.Clone(mounts)
	for i, m := range placed {
		if m.Kind != sandbox.LocalPath {
			continue
		}
		field := fieldOf(spec, m)
		name, ok := e.there(m.Source)
		if !ok {
			return nil, p.noMounts(field, m.Source)
		}
		if err := covered(m, e); err != nil {
			return nil, &sandbox.FieldError{Field: field, Reason: err.Error()}
		}
		if why := mountcheck.Elsewhere(name, denied); why != "" {
			return nil, &sandbox.FieldError{Field: field, Reason: fmt.Sprintf("%s, on the engine's machine %s, %s; mount a directory that holds only what the sandbox needs", m.Source, name, why)}
		}
		placed[i].Source = name
	}
	return placed, nil
}

// fieldOf names the part of a spec that a resolved mount comes from.
func fieldOf(spec sandbox.Spec, m sandbox.Mount) string {
	for i, asked := range spec.Mounts {
		if filepath.Clean(asked.Target) == m.Target {
			return fmt.Sprintf("mounts[%d].source", i)
		}
	}
	return "workspace"
}

// covered refuses a source whose files here are not those that the engine has by
// its name: another file system is mounted over them in this program's container.
// One that is read-only here stays so in a sandbox.
func covered(m sandbox.Mount, e *elsewhere) error {
	at, readOnly, err := mountPoint(m.Source)
	if err != nil {
		return fmt.Errorf("cannot tell what is mounted at %s: %w", m.Source, err)
	}
	for _, s := range e.paths {
		if _, ok := within(m.Source, s.here); !ok {
			continue
		}
		if rest, ok := within(at, s.here); ok && rest != "" {
			return fmt.Errorf("%s lies in %s, which only this program's container has mounted; the engine has other files there", m.Source, at)
		}
		break
	}
	if readOnly && m.Mode != sandbox.ReadOnly {
		return fmt.Errorf("%s is read-only for this program, and a sandbox gets no more: mount it into this program's container for writing, or into the sandbox as ro", m.Source)
	}
	return nil
}

// mountPoint returns the place of the mount that a path lies in.
func mountPoint(path string) (at string, readOnly bool, err error) {
	list, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", false, err
	}
	defer list.Close()
	return mountPointIn(list, path)
}

// mountPointIn reads a list of mounts as proc(5) has it: the fifth field is the
// place, the sixth its options. Of two mounts at one place the later is on top.
func mountPointIn(list io.Reader, path string) (at string, readOnly bool, err error) {
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			continue
		}
		point := unescape(fields[4])
		if _, ok := within(path, point); ok && len(point) >= len(at) {
			at, readOnly = point, slices.Contains(strings.Split(fields[5], ","), "ro")
		}
	}
	if err = lines.Err(); err == nil && at == "" {
		err = errors.New("no mount holds it")
	}
	return at, readOnly, err
}

// unescape turns the octal forms of that list, such as \040, into bytes.
func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
