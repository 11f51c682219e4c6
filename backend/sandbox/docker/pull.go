package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// How a pull is followed. It has no deadline of its own, since an image may be
// large and a line slow: an engine that is not there any more ends it, or one
// that has nothing new for pullSilence.
const (
	pullNews    = time.Second / 4 // between two looks at how far it is
	pullBeat    = time.Second     // a waiter is told at least this often
	pullCheck   = 5 * time.Second // of silence, before the engine is asked for a sign of life
	pullSilence = 30 * time.Minute
	pullLost    = 3 // signs of life that fail one after the other: an engine that unpacks may be slow
)

// pulls are the pulls under way. Whoever wants an image that is on its way waits
// for the same pull.
type pulls struct {
	mu sync.Mutex

	byName map[string]*pull
}

// pull is one pull. All but name and begun is guarded by pulls.mu.
type pull struct {
	name  string // in full, with tag or digest
	begun time.Time
	end   context.CancelCauseFunc
	done  chan struct{} // closed when it has ended and nothing of it is left

	waiters int
	layers  layers
	heard   time.Time // of the last message
	err     error     // once done
}

// errCalledOff ends a pull that nobody waits for any more.
var errCalledOff = errors.New("nobody waits for it any more")

// FullRef returns the name that a registry knows an image by: "debian" is
// docker.io/library/debian:latest. The error is a *sandbox.FieldError.
func FullRef(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil || strings.HasPrefix(ref, "sha256:") {
		return "", &sandbox.FieldError{Field: "image", Reason: fmt.Sprintf("%q is not the name of an image that a registry could have", ref)}
	}
	return reference.TagNameOnly(named).String(), nil
}

// Pull gets an image from its registry, unless the engine has it: then no registry
// is asked. Callers at the same time wait for one pull, and it is called off when
// the ctx of the last of them has ended: Pull returns when it is. report, which
// may be nil, is told how far it has come, at least once a second.
//
// The error names the image, what the registry or the engine said, and what to do.
func (p *Provider) Pull(ctx context.Context, ref string, report func(sandbox.Step)) error {
	name, err := FullRef(ref)
	if err != nil {
		return err
	}
	if strings.HasPrefix(ref, ownImages) {
		return notBuilt(ref)
	}
	there, err := p.ImageExists(ctx, ref)
	if err != nil || there {
		return err
	}
	pl := p.joinPull(ctx, name)
	defer p.leavePull(pl)
	news := time.NewTicker(pullNews)
	defer news.Stop()
	var last sandbox.Step
	var told time.Time
	for {
		if step := p.pullStep(pl, ref); report != nil && (step != last || time.Since(told) >= pullBeat) {
			last, told = step, time.Now()
			report(step)
		}
		select {
		case <-pl.done:
			return pl.err
		case <-ctx.Done():
			return fmt.Errorf("pull %s: %w", ref, ctx.Err())
		case <-news.C:
		}
	}
}

// joinPull returns the pull of an image, and begins it where none runs. The caller
// leaves it.
func (p *Provider) joinPull(ctx context.Context, name string) *pull {
	p.pulls.mu.Lock()
	defer p.pulls.mu.Unlock()
	if pl := p.pulls.byName[name]; pl != nil {
		pl.waiters++
		return pl
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	pl := &pull{name: name, begun: time.Now(), end: end, done: make(chan struct{}), waiters: 1, heard: time.Now()}
	if p.pulls.byName == nil {
		p.pulls.byName = map[string]*pull{}
	}
	p.pulls.byName[name] = pl
	go func() {
		err := p.pull(life, pl)
		p.pulls.mu.Lock()
		pl.err = err
		p.forgetLocked(pl)
		p.pulls.mu.Unlock()
		end(nil)
		close(pl.done)
	}()
	return pl
}

// leavePull ends a pull with its last waiter, and waits for that end.
func (p *Provider) leavePull(pl *pull) {
	p.pulls.mu.Lock()
	pl.waiters--
	last := pl.waiters == 0
	if last {
		p.forgetLocked(pl) // whoever comes now begins another
	}
	p.pulls.mu.Unlock()
	if last {
		pl.end(errCalledOff)
		<-pl.done
	}
}

func (p *Provider) forgetLocked(pl *pull) {
	if p.pulls.byName[pl.name] == pl {
		delete(p.pulls.byName, pl.name)
	}
}

// pullStep is how far a pull has come.
func (p *Provider) pullStep(pl *pull, ref string) sandbox.Step {
	p.pulls.mu.Lock()
	defer p.pulls.mu.Unlock()
	s := sandbox.Step{Name: "pulling " + ref, At: pl.begun}
	s.Bytes, s.Total, s.Detail = pl.layers.sum()
	s.BytesPerSecond = pl.layers.rate(time.Now(), s.Bytes)
	return s
}

// pull asks the engine for an image and reads what it says until the end.
func (p *Provider) pull(ctx context.Context, pl *pull) error {
	ctx, end := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		p.watchPull(ctx, pl, end)
	}()
	begun := time.Now()
	err := func() error {
		stream, err := p.engine.ImagePull(ctx, pl.name, image.PullOptions{})
		if err != nil {
			return err
		}
		defer stream.Close()
		return readPull(stream, func(m pullLine) {
			p.pulls.mu.Lock()
			defer p.pulls.mu.Unlock()
			pl.heard = time.Now()
			pl.layers.take(m)
		})
	}()
	why := context.Cause(ctx)
	end(nil)
	<-watched
	switch {
	case why != nil:
		err = fmt.Errorf("pull %s: %w", pl.name, why)
	case err != nil:
		err = p.pullError(context.WithoutCancel(ctx), pl.name, err)
	default:
		// A stream says what went on, the engine what is there.
		there, lookErr := p.ImageExists(context.WithoutCancel(ctx), pl.name)
		if err = lookErr; err == nil && !there {
			err = fmt.Errorf("pull %s: the engine ended it without a word of why, and has no such image; try again, or look at the engine's log", pl.name)
		}
	}
	p.log.InfoContext(ctx, "image pulled", "image", pl.name, "took", time.Since(begun), "err", err)
	return err
}

// watchPull ends a pull whose engine is not there any more, or has had no news of
// it for too long.
func (p *Provider) watchPull(ctx context.Context, pl *pull, end context.CancelCauseFunc) {
	tick := time.NewTicker(pullCheck)
	defer tick.Stop()
	failed := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.pulls.mu.Lock()
		silence := time.Since(pl.heard)
		p.pulls.mu.Unlock()
		switch {
		case silence < pullCheck:
			failed = 0
			continue
		case silence >= pullSilence:
			end(fmt.Errorf("the engine has had no news of it for %v; try again", pullSilence))
			return
		}
		_, err := p.connect(ctx)
		if err == nil {
			failed = 0
		} else if failed++; failed == pullLost {
			end(err)
			return
		}
	}
}

// pullError says what a registry's or an engine's refusal of a pull means, and
// what to do.
func (p *Provider) pullError(ctx context.Context, name string, err error) error {
	if silent(err) {
		return p.engineError(ctx, "pull "+name, err)
	}
	registry := name
	if named, perr := reference.ParseNormalizedNamed(name); perr == nil {
		registry = reference.Domain(named)
	}
	text := strings.ToLower(err.Error())
	says := func(any ...string) bool {
		for _, s := range any {
			if strings.Contains(text, s) {
				return true
			}
		}
		return false
	}
	advice := ""
	switch {
	case says("toomanyrequests", "too many requests", "rate limit"):
		advice = "wait, or log in and get it by hand: docker login " + registry + ", then docker pull " + name
	case cerrdefs.IsUnauthorized(err), says("unauthorized", "authentication required", "access denied", "no basic auth", "denied:", "may require"):
		advice = "check its name; where its registry wants a login, get it by hand: docker login " + registry + ", then docker pull " + name
	case says("no matching manifest", "does not match the specified platform"):
		advice = "choose a tag that is made for this engine's machine"
	case says("no space left"):
		advice = "make room where the engine keeps its images (docker system df)"
	case says("dial tcp", "no such host", "connection refused", "i/o timeout", "tls handshake", "network is unreachable", "client.timeout", "server gave http response to https client", "x509", "proxyconnect"):
		advice = "the engine does not reach the registry " + registry + ": check its network and its proxy (docker info), name an image that it has (docker images), or bring this one with docker load"
	case cerrdefs.IsNotFound(err), says("manifest unknown", "not found", "name unknown"):
		advice = "check its name and tag; the registry " + registry + " has none of it"
	default:
		return fmt.Errorf("pull %s: %w", name, err)
	}
	return fmt.Errorf("pull %s: %w; %s", name, err, advice)
}
