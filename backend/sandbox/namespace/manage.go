//go:build linux

package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// List implements sandbox.Lister. A box that cannot be read is listed without a
// root task, so that nobody takes it for garbage.
func (p *Provider) List(ctx context.Context) ([]sandbox.Found, error) {
	ids, err := p.ids()
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	var found []sandbox.Found
	for _, id := range ids {
		m, err := p.read(id)
		switch {
		case errors.Is(err, sandbox.ErrGone):
			continue
		case err != nil:
			p.log.WarnContext(ctx, "unreadable box", "container", short(id), "err", err)
			m = meta{ID: id}
		case m.Instance != p.opts.Instance:
			continue
		}
		condition, err := p.condition(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("list sandboxes: %w", err)
		}
		found = append(found, sandbox.Found{
			Ref: m.ref(), ShortID: m.short(), RootTaskID: m.RootTaskID, Instance: m.Instance,
			Condition: condition, CreatedAt: m.CreatedAt,
		})
	}
	return found, nil
}

// Inspect implements sandbox.Inspector.
func (p *Provider) Inspect(ctx context.Context, ref sandbox.Ref) (sandbox.Condition, error) {
	id, err := p.id(ref)
	if err != nil {
		return sandbox.Condition{}, err
	}
	m, err := p.read(id)
	if err == nil && m.Instance != p.opts.Instance {
		return sandbox.Condition{}, fmt.Errorf("inspect sandbox %s: %w", short(id), sandbox.ErrForeign)
	}
	return p.condition(ctx, id)
}

// condition reads the state of a box back from the kernel.
func (p *Provider) condition(ctx context.Context, id string) (sandbox.Condition, error) {
	is := func(value sandbox.State, cause string) (sandbox.Condition, error) {
		return sandbox.Condition{Value: value, Cause: cause, ObservedAt: time.Now().UTC(), Source: "kernel"}, nil
	}
	b := &box{meta: meta{ID: id}, dir: filepath.Join(p.boxes, id)}
	for {
		if _, err := os.Stat(b.dir); errors.Is(err, fs.ErrNotExist) {
			return is(sandbox.StateLost, sandbox.CauseRemoved)
		}
		r, written := b.run()
		proc, err := b.processOf(r, written)
		if err != nil {
			return sandbox.Condition{}, fmt.Errorf("inspect sandbox %s: %w", short(id), err)
		}
		if proc != nil {
			proc.Close()
			return is(sandbox.StateReady, "")
		}
		if written == nil {
			if err := p.collected(ctx, id, r.Outer); err != nil {
				return sandbox.Condition{}, err
			}
		}
		var s stopped
		noted := readJSON(filepath.Join(b.dir, stoppedFile), &s)
		starting := written != nil && b.busy()
		// Whoever has started it meanwhile has taken away what was written of its
		// last end, or has written of another one.
		if now, err := b.run(); (err == nil) != (written == nil) || now.identity != r.identity {
			continue
		}
		switch {
		case noted == nil:
			return is(sandbox.StateStopped, s.Cause)
		case starting:
			return is(sandbox.StateAllocating, "")
		}
		// No bubblewrap has told of the end: it was killed before, or nobody waited for
		// it. The kernel's count of a full memory may be that of a command long ago.
		return is(sandbox.StateStopped, sandbox.CauseUnseen)
	}
}

// Start implements sandbox.Starter. It is Attach: a sandbox that runs stays as
// it is.
func (p *Provider) Start(ctx context.Context, ref sandbox.Ref) (sandbox.Handle, error) {
	return p.Attach(ctx, ref)
}

// How long a guest may take to say that it goes, and then to have gone, before it is
// killed.
const (
	shutdown = 3 * time.Second
	going    = wire.ShutdownTime + 2*time.Second
)

// Stop implements sandbox.Stopper. The box, with HOME and the guest's journal,
// stays.
func (p *Provider) Stop(ctx context.Context, ref sandbox.Ref) error {
	id, err := p.id(ref)
	if err != nil {
		return err
	}
	if err := p.stop(ctx, id); err != nil {
		return fmt.Errorf("stop sandbox %s: %w", short(id), err)
	}
	return nil
}

func (p *Provider) stop(ctx context.Context, id string) error {
	b, unlock, err := p.open(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	proc, err := b.process()
	if proc == nil || err != nil {
		return err
	}
	defer proc.Close()
	// Written first, so that whoever sees the end sees the cause. A full disk is no
	// reason to let it run on.
	if err := writeJSON(filepath.Join(b.dir, stoppedFile), stopped{Cause: sandbox.CauseByHand, At: time.Now().UTC()}); err != nil {
		p.log.WarnContext(ctx, "note the stop of a sandbox", "container", b.short(), "err", err)
	}
	patient, cancel := context.WithTimeout(ctx, shutdown)
	defer cancel()
	c := p.client(b, b.dial)
	defer c.Close()
	if c.Shutdown(patient) == nil {
		patient, cancel := context.WithTimeout(ctx, going)
		defer cancel()
		if proc.wait(patient) == nil {
			return nil
		}
	}
	return proc.kill(ctx)
}

// Describe implements sandbox.Describer.
func (p *Provider) Describe(_ context.Context, ref sandbox.Ref) (sandbox.Description, error) {
	id, err := p.id(ref)
	if err != nil {
		return sandbox.Description{}, err
	}
	m, err := p.read(id)
	if err == nil && m.Instance != p.opts.Instance {
		err = sandbox.ErrForeign
	}
	if err != nil {
		return sandbox.Description{}, fmt.Errorf("describe sandbox %s: %w", short(id), err)
	}
	d := sandbox.Description{
		ID: m.ID, ShortID: m.short(), Name: "glovebox-" + m.short(),
		Network: network(m.Spec),
		User:    fmt.Sprintf("%d:%d", m.UID, m.GID),
		Limits:  map[string]string{},
		Notes:   []string{"programs are this machine's own, read-only"},
		// A sandbox like this one is handed open files when it is made, and nobody
		// outside can enter it with the rights of a command: neither is a line
		// that could be typed.
		Commands: []sandbox.HandCommand{{Does: "logs", Text: sandbox.ShellLine([]string{"tail", "-n", "200", filepath.Join(p.boxes, id, "log")})}},
	}
	if m.UID == 0 {
		d.Notes = append(d.Notes, "the workspace belongs to root, so commands run as this machine's uid 0, without capabilities; chown it to another user to avoid that")
	}
	b := &box{meta: m, dir: filepath.Join(p.boxes, id)}
	proc, err := b.process()
	if err != nil {
		return sandbox.Description{}, fmt.Errorf("describe sandbox %s: %w", short(id), err)
	}
	if proc == nil {
		return d, nil
	}
	proc.Close()
	if r, err := b.run(); err == nil {
		d.StartedAt, d.Mounts, d.NotEnforced = r.StartedAt, r.Mounts, r.NotEnforced
		d.Limits = limitsOf(r.Cgroups)
	}
	return d, nil
}

// network says what a sandbox of this wall can reach. A box of a time when a Spec
// without a mode meant none has no relay.
func network(spec sandbox.Spec) string {
	if spec.Network.Mode == sandbox.NetworkProxy {
		return string(sandbox.NetworkProxy)
	}
	return string(sandbox.NetworkNone)
}

// Logs implements sandbox.Logger.
func (p *Provider) Logs(_ context.Context, ref sandbox.Ref, lines int) (io.ReadCloser, error) {
	id, err := p.id(ref)
	if err != nil {
		return nil, err
	}
	m, err := p.read(id)
	if err == nil && m.Instance != p.opts.Instance {
		err = sandbox.ErrForeign
	}
	var text string
	if err == nil {
		text, err = tail(filepath.Join(p.boxes, id, "log"), lines)
	}
	if err != nil {
		return nil, fmt.Errorf("logs of sandbox %s: %w", short(id), err)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}
