package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// imageLabels are on every image that Glovebox makes. They are none of those that
// a provider knows its containers by: a container has its image's labels too.
func (p *Provider) imageLabels(title string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.vendor":  "Glovebox",
		"org.opencontainers.image.title":   title,
		"org.opencontainers.image.version": p.opts.Version,
	}
}

// labelled are imageLabels as instructions.
func (p *Provider) labelled(title string) (lines []string) {
	for name, value := range p.imageLabels(title) {
		lines = append(lines, fmt.Sprintf("LABEL %s=%q", name, value))
	}
	return lines
}

const (
	makeTime   = time.Hour        // for all of a recipe, on a slow line
	commitTime = 10 * time.Minute // to write an image of a gigabyte
)

// recipe is how an image is made that no registry has.
type recipe struct {
	name   string // for the label
	ref    string // what is made
	base   string // what it is made on, where a registry answers; without an entry point
	script string // run in the base by its sh, as root and with a network

	// bootstrap makes the whole root tree on this machine, where no registry
	// answers. Its reader fails where the tree is not complete.
	bootstrap func(ctx context.Context, report func(sandbox.Step)) (io.ReadCloser, error)

	env     []string
	command []string
	workdir string
}

// makeImage makes an image that is not there yet. report is told each step, and how
// far one has come. On an error, and when ctx ends first, nothing is left of it.
func (p *Provider) makeImage(ctx context.Context, r recipe, report func(sandbox.Step)) error {
	limited, cancel := context.WithTimeoutCause(ctx, makeTime, fmt.Errorf("it took more than %v", makeTime))
	defer cancel()
	pulled, err := p.ensureBase(limited, r.base, report)
	if pulled {
		// The name alone where the new image has its layers.
		defer p.detached(ctx, func(ctx context.Context) error { return p.removeImage(ctx, r.base) })
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("make %s: %w", r.ref, ctx.Err())
	case err != nil:
		report(sandbox.Step{Name: "making it of packages", Detail: err.Error()})
		err = p.makeFromPackages(limited, r, report)
	default:
		err = p.makeOnBase(limited, r, report)
	}
	if err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			err = context.Cause(limited)
		}
		return fmt.Errorf("make %s: %w", r.ref, err)
	}
	return nil
}

// ensureBase gets an image from its registry, if it is not there.
func (p *Provider) ensureBase(ctx context.Context, ref string, report func(sandbox.Step)) (pulled bool, err error) {
	there, err := p.ImageExists(ctx, ref)
	if err != nil || there {
		return false, err
	}
	err = p.Pull(ctx, ref, report)
	return err == nil, err
}

// makeOnBase runs the recipe's script in a container and keeps what that became.
func (p *Provider) makeOnBase(ctx context.Context, r recipe, report func(sandbox.Step)) error {
	name := p.buildName(r)
	if err := p.removeContainer(ctx, name); err != nil { // of a server that was killed
		return err
	}
	report(sandbox.Step{Name: "running the recipe on " + r.base})
	created, err := call(ctx, p, "create a container", createTimeout, func(ctx context.Context) (container.CreateResponse, error) {
		return p.engine.ContainerCreate(ctx,
			&container.Config{Image: r.base, User: "0", Cmd: []string{"sh", "-c", r.script}},
			&container.HostConfig{SecurityOpt: []string{"no-new-privileges"}}, nil, nil, name)
	})
	if err != nil {
		return err
	}
	defer p.detached(ctx, func(ctx context.Context) error { return p.removeContainer(ctx, created.ID) })
	if err := p.runScript(ctx, created.ID, report); err != nil {
		return err
	}
	report(sandbox.Step{Name: "writing " + r.ref})
	return p.keepUnless(ctx, r.ref, func(ctx context.Context) error {
		_, err := call(ctx, p, "write the image", commitTime, func(ctx context.Context) (container.CommitResponse, error) {
			return p.engine.ContainerCommit(ctx, created.ID, container.CommitOptions{
				Reference: r.ref, Comment: "glovebox " + r.name + " image",
				Config: &container.Config{
					Env: r.env, Cmd: r.command, WorkingDir: r.workdir, User: "0",
					Labels: p.imageLabels("glovebox " + r.name),
				},
			})
		})
		return err
	})
}

// buildName is the name of the one container that makes an image.
func (p *Provider) buildName(r recipe) string {
	return "glovebox-" + nameable(p.opts.Instance) + "-build-" + nameable(r.name)
}

// runScript starts a container and waits for its end, which has to be a good one.
func (p *Provider) runScript(ctx context.Context, id string, report func(sandbox.Step)) error {
	if err := p.start(ctx, id); err != nil {
		return err
	}
	said, err := p.engine.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
	if err != nil {
		return p.engineError(ctx, "follow the recipe", err)
	}
	defer said.Close()
	lines := &packageLines{name: "installing packages", report: report}
	if _, err := stdcopy.StdCopy(lines, lines, said); err != nil {
		return p.engineError(ctx, "follow the recipe", err)
	}
	ended, failed := p.engine.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case err := <-failed:
		return p.engineError(ctx, "wait for the recipe", err)
	case end := <-ended:
		if end.StatusCode != 0 {
			return fmt.Errorf("the recipe ended with exit status %d: %s", end.StatusCode, lines.last())
		}
	}
	return nil
}

// makeFromPackages imports a root tree that is made on this machine.
func (p *Provider) makeFromPackages(ctx context.Context, r recipe, report func(sandbox.Step)) error {
	tree, err := r.bootstrap(ctx, report)
	if err != nil {
		return err
	}
	defer tree.Close()
	changes := append(p.labelled("glovebox "+r.name), "WORKDIR "+r.workdir)
	for _, kv := range r.env {
		changes = append(changes, "ENV "+kv)
	}
	if len(r.command) > 0 {
		body, err := json.Marshal(r.command)
		if err != nil {
			return err
		}
		changes = append(changes, "CMD "+string(body))
	}
	return p.importTree(ctx, r.ref, tree, makeTime, "glovebox "+r.name+" image", changes)
}

// keepUnless writes an image to its end, since a write cannot be broken off, and
// removes it again when ctx has ended meanwhile.
func (p *Provider) keepUnless(ctx context.Context, ref string, write func(context.Context) error) error {
	err := write(context.WithoutCancel(ctx))
	if ctx.Err() == nil {
		return err
	}
	if err == nil {
		p.detached(ctx, func(ctx context.Context) error { return p.removeImage(ctx, ref) })
	}
	return context.Cause(ctx)
}

// packageLines turns what a package manager prints into steps that a person can
// follow. It implements io.Writer.
type packageLines struct {
	name   string // of the step
	report func(sandbox.Step)

	rest                         string // of a line that is not over
	kept                         []string
	all                          int // packages to install
	fetched, unpacked, installed int
}

// Write implements io.Writer.
func (l *packageLines) Write(text []byte) (int, error) {
	l.rest += string(text)
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok {
			break
		}
		l.rest = rest
		l.line(strings.TrimSpace(strings.ToValidUTF8(line, "\ufffd")))
	}
	if len(l.rest) > 64<<10 {
		l.rest = ""
	}
	return len(text), nil
}

func (l *packageLines) line(line string) {
	if line == "" {
		return
	}
	const most = 5
	l.kept = append(l.kept, line)
	l.kept = l.kept[max(0, len(l.kept)-most):]
	tell := func(detail string) { l.report(sandbox.Step{Name: l.name, Detail: detail}) }
	count := func(n *int, verb string) {
		if *n++; *n%20 == 0 || *n == l.all {
			tell(fmt.Sprintf("%s %d of %d", verb, *n, l.all))
		}
	}
	switch {
	case strings.Contains(line, " newly installed, "):
		// "0 upgraded, 210 newly installed, 0 to remove and 0 not upgraded."
		var upgraded int
		l.all, l.fetched, l.unpacked, l.installed = 0, 0, 0, 0
		_, _ = fmt.Sscanf(line, "%d upgraded, %d newly installed", &upgraded, &l.all)
		tell(line)
	case l.all > 0 && strings.HasPrefix(line, "Get:"):
		count(&l.fetched, "fetched")
	case l.all > 0 && strings.HasPrefix(line, "Unpacking "):
		count(&l.unpacked, "unpacked")
	case l.all > 0 && strings.HasPrefix(line, "Setting up "):
		count(&l.installed, "set up")
	case strings.HasPrefix(line, "E: "), strings.HasPrefix(line, "I: "), strings.HasPrefix(line, "Need to get "):
		tell(strings.TrimPrefix(line, "I: "))
	}
}

// last is what was printed last.
func (l *packageLines) last() string { return strings.Join(l.kept, "; ") }
