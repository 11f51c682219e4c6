// Package mountcheck turns the mounts that a [sandbox.Spec] asks for into the
// ones that a provider on this machine makes: sources absolute and with every
// symlink resolved, there already, and none of them a way out of the sandbox.
// A provider calls [ResolveMounts] at every start, because a link can have
// changed since the last one.
//
// It never creates a source. Targets, modes and kinds as words are checked by
// [sandbox.Spec.Validate].
package mountcheck

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// ResolveMounts returns the workspace, merged with a mount that lists it by
// hand, and the other mounts of spec; parents come before what is nested in
// them. Mode and Kind are never empty in the result. A volume is passed on as
// it is; kinds that live on other machines are refused by name.
//
// Refused are the sources of the built-in deny list (the root, home
// directories, keys, engine sockets, …), those that denied adds (the
// application's own directories), what lies below one, and what holds one. A
// fault is a *sandbox.FieldError.
func ResolveMounts(spec sandbox.Spec, denied []string) ([]sandbox.Mount, error) {
	deny := newDenyList(denied)
	workdir := path.Clean(spec.WorkdirOrDefault())
	var mounts []sandbox.Mount
	if spec.Workspace != "" {
		m, err := deny.resolve(sandbox.Mount{Source: spec.Workspace, Target: workdir}, "workspace")
		if err != nil {
			return nil, err
		}
		for _, byHand := range spec.Mounts {
			if path.Clean(byHand.Target) == workdir {
				m.SELinux = byHand.SELinux
			}
		}
		mounts = append(mounts, m)
	}
	for i, m := range spec.Mounts {
		m.Target = path.Clean(m.Target)
		if m.Target == workdir && spec.Workspace != "" {
			continue // the workspace listed by hand; Validate refused any other
		}
		field := fmt.Sprintf("mounts[%d]", i)
		switch m.Kind {
		case "", sandbox.LocalPath:
		case sandbox.Volume:
			m.Mode = cmp.Or(m.Mode, sandbox.ReadWrite)
			mounts = append(mounts, m)
			continue
		default:
			return nil, &sandbox.FieldError{Field: field + ".kind",
				Reason: fmt.Sprintf("%s storage cannot be mounted on this machine; choose local-path", m.Kind)}
		}
		m, err := deny.resolve(m, field+".source")
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, m)
	}
	for i, m := range mounts {
		if m.Target != workdir || m.Kind != sandbox.LocalPath {
			continue
		}
		if info, err := os.Stat(m.Source); err != nil || !info.IsDir() {
			field := "workspace"
			if spec.Workspace == "" {
				field = fmt.Sprintf("mounts[%d].source", i)
			}
			return nil, &sandbox.FieldError{Field: field,
				Reason: fmt.Sprintf("%s is not a directory; the workspace has to be one", m.Source)}
		}
	}
	slices.SortStableFunc(mounts, func(a, b sandbox.Mount) int {
		return cmp.Compare(strings.Count(a.Target, "/"), strings.Count(b.Target, "/"))
	})
	return mounts, nil
}

// CheckWorkspace returns why dir cannot be a session's workspace: a
// *sandbox.FieldError, by the same lists as ResolveMounts. dir is absolute; one
// that is not there yet is judged by where it would be.
func CheckWorkspace(dir string, denied []string) error {
	refuse := func(format string, a ...any) error {
		return &sandbox.FieldError{Field: "workspace", Reason: fmt.Sprintf(format, a...)}
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if real, err = filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
			real = filepath.Join(real, filepath.Base(dir))
		}
	}
	if err != nil {
		return refuse("%v", err)
	}
	if info, err := os.Stat(real); err == nil && !info.IsDir() {
		return refuse("%s is not a directory", describe(dir, real))
	}
	if why := newDenyList(denied).reason(real); why != "" {
		return refuse("%s %s; choose a directory that holds only what the sandbox needs", describe(dir, real), why)
	}
	return nil
}

// Elsewhere says why a directory of another machine cannot be mounted there, or
// nothing. It is judged by its name alone, by the lists of ResolveMounts: what
// they name counts as there, for every user's home. denied are paths of that
// machine, too.
func Elsewhere(source string, denied []string) string {
	const refused = "is on the deny list of mounts"
	for _, p := range append(slices.Clone(denied), deniedTrees...) {
		switch {
		case source == p:
			return refused
		case below(source, p):
			return fmt.Sprintf("lies in %s, which is on the deny list of mounts", p)
		case below(p, source):
			return fmt.Sprintf("holds %s, which is on the deny list of mounts", p)
		}
	}
	if slices.Contains(deniedExact, source) || source == "/root" || source == "/home" || path.Dir(source) == "/home" {
		return refused
	}
	for _, key := range keys {
		if strings.Contains(source+"/", "/"+key+"/") {
			return fmt.Sprintf("lies in %s, which is on the deny list of mounts", key)
		}
	}
	return ""
}

// Workspaces is the one directory of a data directory that holds nothing of the
// application's own: the workspaces of sessions that named none.
const Workspaces = "workspaces"

// Private returns what is denied of a data directory: all that it holds but
// its Workspaces, so that no sandbox reaches another's files, the store or the
// keys.
func Private(dataDir string) []string {
	denied := []string{filepath.Join(dataDir, "boxes"), filepath.Join(dataDir, "guests")} // once they are made
	entries, err := os.ReadDir(dataDir)
	if err != nil {
		return append(denied, dataDir) // unknown: all of it
	}
	for _, e := range entries {
		if p := filepath.Join(dataDir, e.Name()); e.Name() != Workspaces && !slices.Contains(denied, p) {
			denied = append(denied, p)
		}
	}
	return denied
}

// denyList is what a mount must not reach.
type denyList struct {
	exact []string // refused itself, and what holds it
	trees []string // also what lies below
	given []string // those of trees that are denied before they exist, too
}

// What every machine's list has.
var (
	deniedExact = []string{"/", "/etc", "/tmp", "/var/tmp"}
	deniedTrees = []string{
		"/proc", "/sys", "/dev", "/run", "/boot",
		"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private",
		"/var/run", "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers",
	}
)

// keys are the directories of a home that hold credentials or engine sockets.
var keys = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".colima", ".orbstack",
	".config/gcloud", ".config/containers", ".local/share/containers", ".local/share/keyrings",
	".netrc", ".git-credentials", ".npmrc", ".pypirc",
}

func newDenyList(extra []string) denyList {
	d := denyList{exact: slices.Clone(deniedExact), trees: slices.Clone(deniedTrees)}
	homes := []string{"/root"}
	if home, err := os.UserHomeDir(); err == nil {
		homes = append(homes, home)
	}
	if others, err := filepath.Glob("/home/*"); err == nil {
		homes = append(homes, others...)
	}
	for _, home := range homes {
		d.exact = append(d.exact, home)
		for _, key := range keys {
			d.trees = append(d.trees, filepath.Join(home, key))
		}
	}
	d.given = resolved(extra)
	d.exact, d.trees = resolved(d.exact), append(resolved(d.trees), d.given...)
	return d
}

// resolved adds what the links among paths point to.
func resolved(paths []string) []string {
	for _, p := range paths[:len(paths):len(paths)] {
		if real, err := filepath.EvalSymlinks(p); err == nil && real != p {
			paths = append(paths, real)
		}
	}
	return paths
}

// resolve checks one local mount; field names it in an error.
func (d denyList) resolve(m sandbox.Mount, field string) (sandbox.Mount, error) {
	refuse := func(format string, a ...any) (sandbox.Mount, error) {
		return sandbox.Mount{}, &sandbox.FieldError{Field: field, Reason: fmt.Sprintf(format, a...)}
	}
	if !filepath.IsAbs(m.Source) {
		return refuse("%q is not an absolute path", m.Source)
	}
	source, err := filepath.EvalSymlinks(m.Source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("%s does not exist; create it first", m.Source)
	case err != nil:
		return refuse("%v", err)
	}
	info, err := os.Stat(source)
	if err != nil {
		return refuse("%v", err)
	}
	if why := d.reason(source); why != "" {
		return refuse("%s %s; mount a directory that holds only what the sandbox needs", describe(m.Source, source), why)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return refuse("%s is neither a directory nor a plain file", describe(m.Source, source))
	}
	m.Source = source
	m.Mode = cmp.Or(m.Mode, sandbox.ReadWrite)
	m.Kind = sandbox.LocalPath
	return m, nil
}

// reason says why a resolved source is refused, or nothing.
func (d denyList) reason(source string) string {
	for _, p := range d.trees {
		switch {
		case source == p:
			return "is on the deny list of mounts"
		case below(source, p):
			return fmt.Sprintf("lies in %s, which is on the deny list of mounts", p)
		case below(p, source) && (exists(p) || slices.Contains(d.given, p)):
			return fmt.Sprintf("holds %s, which is on the deny list of mounts", p)
		}
	}
	for _, p := range d.exact {
		switch {
		case source == p:
			return "is on the deny list of mounts"
		case below(p, source) && exists(p):
			return fmt.Sprintf("holds %s, which is on the deny list of mounts", p)
		}
	}
	return ""
}

func below(p, dir string) bool {
	return dir == "/" && p != "/" || strings.HasPrefix(p, dir+"/")
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

func describe(asked, real string) string {
	if filepath.Clean(asked) == real {
		return real
	}
	return fmt.Sprintf("%s (which is %s)", asked, real)
}
