package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// The engine's structs for mounts have no word for a label of SELinux: it takes
// one in the texts of Binds alone, SOURCE:TARGET:OPTIONS. Those make a source that
// is not there, which ours always is by then, and cannot hold a colon in a path,
// so that only what asks for a label is written so.

// labelOptions are the words of Binds for a label.
var labelOptions = map[sandbox.SELinux]string{sandbox.SELinuxShared: "z", sandbox.SELinuxPrivate: "Z"}

// needsLabels reports whether an engine's processes get to nothing of this machine
// without a label.
func needsLabels(f *facts) bool { return f != nil && hasOption(f.Info, "selinux") }

// checkLabels refuses what cannot be labelled, by the field that asks for it.
func (p *Provider) checkLabels(spec sandbox.Spec, mounts []sandbox.Mount, f *facts) error {
	if needsLabels(f) && !p.byExec(f) && strings.Contains(p.opts.DataDir, ":") {
		return &sandbox.FieldError{Field: "data", Reason: fmt.Sprintf("the engine has SELinux, and labels no path with a colon, such as that of the data directory %s; choose another", p.opts.DataDir)}
	}
	for _, m := range mounts {
		if m.SELinux == "" || !strings.Contains(m.Source+m.Target, ":") {
			continue
		}
		field := "mounts[0].selinux"
		for i, asked := range spec.Mounts {
			if strings.TrimRight(asked.Target, "/") == m.Target {
				field = fmt.Sprintf("mounts[%d].selinux", i)
			}
		}
		return &sandbox.FieldError{Field: field, Reason: fmt.Sprintf("the engine takes a label only with a path that has no colon in it, and %s at %s has one; rename the directory, or label it by hand (chcon -R -t container_file_t)", m.Source, m.Target)}
	}
	return nil
}

// bindText is a labelled mount as Binds has it.
func bindText(m mount.Mount, label string) string {
	options := []string{label}
	if m.ReadOnly {
		options = []string{"ro", label}
	}
	return m.Source + ":" + m.Target + ":" + strings.Join(options, ",")
}

// split returns mounts as the engine's structs, and as Binds where they ask for a
// label.
func split(mounts []sandbox.Mount) (plain []mount.Mount, binds []string) {
	for _, m := range mounts {
		if option := labelOptions[m.SELinux]; option != "" {
			binds = append(binds, bindText(engineMount(m), option))
		} else {
			plain = append(plain, engineMount(m))
		}
	}
	return plain, binds
}

// labelled is a mount with what labels it, "" for nothing.
type labelled struct {
	mount.Mount
	label string
}

// mountsOf returns all mounts of a container that we made, in whichever form the
// engine was given them.
func mountsOf(h *container.HostConfig) []labelled {
	var all []labelled
	for _, m := range h.Mounts {
		all = append(all, labelled{Mount: m})
	}
	for _, text := range h.Binds {
		parts := strings.Split(text, ":")
		if len(parts) != 3 {
			continue // nobody of ours
		}
		options := strings.Split(parts[2], ",")
		l := labelled{Mount: mount.Mount{Type: mount.TypeBind, Source: parts[0], Target: parts[1], ReadOnly: slices.Contains(options, "ro")}}
		for _, o := range options {
			if o == "z" || o == "Z" {
				l.label = o
			}
		}
		all = append(all, l)
	}
	return all
}
