package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/pkg/stdcopy"
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
	registrySilence = 30 * time.Second // a registry that says nothing for so long is not there
	makeTime        = time.Hour        // for all of a recipe, on a slow line
	commitTime      = 10 * time.Minute // to write an image of a gigabyte
)

// recipe is how an image is made that no registry has.
type recipe struct {
	name   string // for the label
	ref    string // what is made
	base   string // what it is made on, where a registry answers
	script string // run in the base by its sh, as root and with a network

	// bootstrap makes the whole root tree on this machine, where no registry
	// answers. Its reader fails where the tree is not complete.
	bootstrap func(ctx context.Context, progress func(step string)) (io.ReadCloser, error)

	env     []string
	command []string
	workdir string
}

// make makes an image that is not there yet. progress is told each step, and now
// and then how far one has come. On an error, and when ctx ends first, nothing
// is left of it.
func (p *Provider) make(ctx context.Context, r recipe, progress func(step string)) error {
	limited, cancel := context.WithTimeoutCause(ctx, makeTime, fmt.Errorf("it took more than %v", makeTime))
	defer cancel()
	pulled, err := p.ensureBase(limited, r.base, progress)
	if pulled {
		// The name alone where the new image has its layers.
		defer p.detached(ctx, func(ctx context.Context) error {
			_, err := p.engine.ImageRemove(ctx, r.base, image.RemoveOptions{PruneChildren: true})
			return err
		})
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("make %s: %w", r.ref, ctx.Err())
	case err != nil:
		progress(fmt.Sprintf("no registry has %s for us (%v); make it of packages", r.base, err))
		err = p.makeFromPackages(limited, r, progress)
	default:
		err = p.makeOnBase(limited, r, progress)
	}
	if err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			err = context.Cause(limited)
		}
		return fmt.Errorf("make %s: %w", r.ref, err)
	}
	return nil
}

// ensureBase gets an image from a registry, if it is not there.
func (p *Provider) ensureBase(ctx context.Context, ref string, progress func(step string)) (pulled bool, err error) {
	there, err := p.ImageExists(ctx, ref)
	if err != nil || there {
		return false, err
	}
	progress("pull " + ref)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(registrySilence, func() {
		cancel(fmt.Errorf("the registry was silent for %v", registrySilence))
	})
	defer silent.Stop()
	answer, err := p.engine.ImagePull(ctx, ref, image.PullOptions{})
	if err == nil {
		err = pullResult(answer, func(done, all int64) {
			silent.Reset(registrySilence)
			if all > 0 {
				progress(fmt.Sprintf("pull %s: %d of %d MB", ref, done>>20, all>>20))
			}
		})
		answer.Close()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err == nil, err
}

// pullResult reads the engine's stream to its end. told is called for every line,
// with what there is of all layers.
func pullResult(r io.Reader, told func(done, all int64)) error {
	type layer struct{ done, all int64 }
	layers := map[string]layer{}
	var last int64 = -1
	for lines := json.NewDecoder(r); ; {
		var line struct {
			ID     string `json:"id"`
			Status string `json:"status"`
			Detail struct {
				Current int64 `json:"current"`
				Total   int64 `json:"total"`
			} `json:"progressDetail"`
			Error string `json:"error"`
		}
		err := lines.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return errors.New(line.Error)
		}
		if line.Status == "Downloading" && line.Detail.Total > 0 {
			layers[line.ID] = layer{line.Detail.Current, line.Detail.Total}
		}
		var sum layer
		for _, l := range layers {
			sum.done, sum.all = sum.done+l.done, sum.all+l.all
		}
		if sum.done>>22 == last { // every four megabytes
			told(0, 0)
			continue
		}
		last = sum.done >> 22
		told(sum.done, sum.all)
	}
}

// makeOnBase runs the recipe's script in a container and keeps what that became.
func (p *Provider) makeOnBase(ctx context.Context, r recipe, progress func(step string)) error {
	name := p.buildName(r)
	if err := p.removeContainer(ctx, name); err != nil { // of a server that was killed
		return err
	}
	progress("run the recipe on " + r.base)
	created, err := call(ctx, p, "create a container", createTimeout, func(ctx context.Context) (container.CreateResponse, error) {
		return p.engine.ContainerCreate(ctx,
			&container.Config{Image: r.base, User: "0", Entrypoint: []string{"sh", "-c", r.script}, Cmd: []string{}},
			&container.HostConfig{SecurityOpt: []string{"no-new-privileges"}}, nil, nil, name)
	})
	if err != nil {
		return err
	}
	defer p.detached(ctx, func(ctx context.Context) error { return p.removeContainer(ctx, created.ID) })
	if err := p.runScript(ctx, created.ID, progress); err != nil {
		return err
	}
	progress("write " + r.ref)
	return p.keepUnless(ctx, r.ref, func(ctx context.Context) error {
		_, err := call(ctx, p, "write the image", commitTime, func(ctx context.Context) (container.CommitResponse, error) {
			return p.engine.ContainerCommit(ctx, created.ID, container.CommitOptions{
				Reference: r.ref, Comment: "glovebox " + r.name + " image",
				Config: &container.Config{
					Env: r.env, Cmd: r.command, WorkingDir: r.workdir, User: "0",
					Labels: p.imageLabels("glovebox " + r.name),
				},
				// What ran the script is not what runs in a sandbox.
				Changes: []string{"ENTRYPOINT []"},
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
func (p *Provider) runScript(ctx context.Context, id string, progress func(step string)) error {
	if err := p.start(ctx, id); err != nil {
		return err
	}
	said, err := p.engine.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
	if err != nil {
		return p.engineError(ctx, "follow the recipe", err)
	}
	defer said.Close()
	lines := &packageLines{tell: progress}
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
func (p *Provider) makeFromPackages(ctx context.Context, r recipe, progress func(step string)) error {
	tree, err := r.bootstrap(ctx, progress)
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
		p.detached(ctx, func(ctx context.Context) error {
			_, err := p.engine.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
			return err
		})
	}
	return context.Cause(ctx)
}

// packageLines turns what a package manager prints into steps that a person can
// follow. It implements io.Writer.
type packageLines struct {
	tell func(step string)

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
	count := func(n *int, verb string) {
		if *n++; *n%20 == 0 || *n == l.all {
			l.tell(fmt.Sprintf("%s packages: %d of %d", verb, *n, l.all))
		}
	}
	switch {
	case strings.Contains(line, " newly installed, "):
		// "0 upgraded, 210 newly installed, 0 to remove and 0 not upgraded."
		var upgraded int
		l.all, l.fetched, l.unpacked, l.installed = 0, 0, 0, 0
		_, _ = fmt.Sscanf(line, "%d upgraded, %d newly installed", &upgraded, &l.all)
		l.tell(line)
	case l.all > 0 && strings.HasPrefix(line, "Get:"):
		count(&l.fetched, "fetch")
	case l.all > 0 && strings.HasPrefix(line, "Unpacking "):
		count(&l.unpacked, "unpack")
	case l.all > 0 && strings.HasPrefix(line, "Setting up "):
		count(&l.installed, "set up")
	case strings.HasPrefix(line, "E: "), strings.HasPrefix(line, "I: "), strings.HasPrefix(line, "Need to get "):
		l.tell(strings.TrimPrefix(line, "I: "))
	}
}

// last is what was printed last.
func (l *packageLines) last() string { return strings.Join(l.kept, "; ") }
