//go:build linux

package namespace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Provider makes sandboxes with bubblewrap. Its methods may be called from
// several goroutines at once.
type Provider struct {
	opts  Options
	log   *slog.Logger
	boxes string // <data>/boxes

	life    context.Context // ends with Close; the reapers live in it
	end     context.CancelFunc
	reapers sync.WaitGroup

	installing sync.Mutex // one at a time: bubblewrap refuses a file that is replaced meanwhile
	guest      string     // path of the installed binary, "" before

	mu      sync.Mutex
	reaping map[string]reaper // by id
}

var (
	_ sandbox.Provider  = (*Provider)(nil)
	_ sandbox.Progress  = (*Provider)(nil)
	_ sandbox.Lister    = (*Provider)(nil)
	_ sandbox.Inspector = (*Provider)(nil)
	_ sandbox.Starter   = (*Provider)(nil)
	_ sandbox.Stopper   = (*Provider)(nil)
	_ sandbox.Remover   = (*Provider)(nil)
	_ sandbox.Watcher   = (*Provider)(nil)
	_ sandbox.Describer = (*Provider)(nil)
	_ sandbox.Logger    = (*Provider)(nil)
)

// New returns a Provider that keeps its boxes in opts.DataDir. A machine that
// lacks bubblewrap is no error here but of Allocate and Probe.
func New(opts Options) (*Provider, error) {
	if opts.DataDir == "" || opts.Instance == "" || len(opts.Secret) == 0 {
		return nil, errors.New("namespace wall: the data directory, the instance and the secret have to be given")
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Ready == 0 {
		opts.Ready = 20 * time.Second
	}
	// bubblewrap resolves every path that it is given, so they are compared
	// and handed over resolved.
	if err := os.MkdirAll(opts.DataDir, 0o755); err != nil {
		return nil, fmt.Errorf("namespace wall: %w", err)
	}
	data, err := filepath.Abs(opts.DataDir)
	if err == nil {
		data, err = filepath.EvalSymlinks(data)
	}
	if err != nil {
		return nil, fmt.Errorf("namespace wall: data directory: %w", err)
	}
	opts.DataDir = data
	boxes := filepath.Join(data, "boxes")
	if err := makePassable(boxes); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("namespace wall: %w", err)
	}
	p := &Provider{opts: opts, log: opts.Log.With("component", "namespace"), boxes: boxes, reaping: map[string]reaper{}}
	if err := p.clearHalfMade(); err != nil {
		return nil, fmt.Errorf("namespace wall: %w", err)
	}
	p.life, p.end = context.WithCancel(context.Background())
	return p, nil
}

// Close stops watching what the Provider started. The sandboxes run on.
func (p *Provider) Close() error {
	p.end()
	p.reapers.Wait()
	return nil
}

// Allocate implements sandbox.Provider.
func (p *Provider) Allocate(ctx context.Context, rootTaskID string, spec sandbox.Spec) (sandbox.Handle, error) {
	return p.AllocateWithProgress(ctx, rootTaskID, spec, func(sandbox.Step) {})
}

// AllocateWithProgress implements sandbox.Progress.
func (p *Provider) AllocateWithProgress(ctx context.Context, rootTaskID string, spec sandbox.Spec, report func(sandbox.Step)) (_ sandbox.Handle, err error) {
	if rootTaskID == "" {
		return sandbox.Handle{}, errors.New("allocate: the root task has no id")
	}
	spec.Network.Mode = spec.NetworkOrDefault() // kept in the box, whatever the default becomes
	pl, err := p.plan(spec)
	if err != nil {
		return sandbox.Handle{}, err
	}
	step := func(name string) { report(sandbox.Step{Name: name, At: time.Now()}) }

	b, unlock, err := p.create(ctx, rootTaskID, spec, pl)
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("make a sandbox: %w", err)
	}
	defer unlock()
	defer func() {
		if err == nil {
			return
		}
		// What was made goes even when ctx is what ended.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, p.destroy(clean, b))
	}()
	step("create")
	h, err := p.launch(ctx, b, pl, step)
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("start sandbox %s: %w", b.short(), err)
	}
	p.log.InfoContext(ctx, "sandbox ready", "task", rootTaskID, "container", b.short())
	return h, nil
}

// Attach implements sandbox.Provider.
func (p *Provider) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Handle, error) {
	id, err := p.id(ref)
	if err != nil {
		return sandbox.Handle{}, err
	}
	b, unlock, err := p.open(ctx, id)
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("attach to sandbox %s: %w", short(id), err)
	}
	defer unlock()
	h, err := p.attach(ctx, b)
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("attach to sandbox %s: %w", short(id), err)
	}
	return h, nil
}

// attach connects to a box that the caller has locked, or starts it.
func (p *Provider) attach(ctx context.Context, b *box) (sandbox.Handle, error) {
	proc, err := b.process()
	if err != nil {
		return sandbox.Handle{}, err
	}
	if _, err := b.run(); proc != nil && errors.Is(err, fs.ErrNotExist) {
		// Whoever started it died before it was under its limits.
		defer proc.Close()
		if err := proc.kill(ctx); err != nil {
			return sandbox.Handle{}, err
		}
		proc = nil
	}
	if proc != nil {
		defer proc.Close()
		h := p.handle(b)
		if err := p.greet(ctx, b, h.Dial, proc); err != nil {
			return sandbox.Handle{}, fmt.Errorf("%w: %w", sandbox.ErrUnreachable, err)
		}
		return h, nil
	}
	pl, err := p.plan(b.Spec)
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("%w: %w", sandbox.ErrStopped, err)
	}
	if pl.uid != b.UID || pl.gid != b.GID {
		return sandbox.Handle{}, fmt.Errorf("%w: the workspace belongs to %d:%d now and to %d:%d when the sandbox was made; give it back with chown",
			sandbox.ErrStopped, pl.uid, pl.gid, b.UID, b.GID)
	}
	h, err := p.launch(ctx, b, pl, func(string) {})
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("%w: %w", sandbox.ErrStopped, err)
	}
	return h, nil
}

// Release implements sandbox.Provider.
func (p *Provider) Release(ctx context.Context, rootTaskID string) error {
	ids, err := p.ids()
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	var errs []error
	for _, id := range ids {
		m, err := p.read(id)
		if err != nil || m.Instance != p.opts.Instance || m.RootTaskID != rootTaskID {
			continue
		}
		errs = append(errs, p.remove(ctx, id))
	}
	return errors.Join(errs...)
}

// Remove implements sandbox.Remover.
func (p *Provider) Remove(ctx context.Context, ref sandbox.Ref) error {
	id, err := p.id(ref)
	if err != nil {
		return err
	}
	return p.remove(ctx, id)
}

func (p *Provider) remove(ctx context.Context, id string) error {
	b, unlock, err := p.open(ctx, id)
	if errors.Is(err, sandbox.ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove sandbox %s: %w", short(id), err)
	}
	defer unlock()
	if err := p.destroy(ctx, b); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", short(id), err)
	}
	return nil
}

// destroy ends the processes of a locked box and removes all that is its.
func (p *Provider) destroy(ctx context.Context, b *box) error {
	if err := b.kill(ctx); err != nil {
		return err
	}
	if r, err := b.run(); err == nil {
		if err := p.collected(ctx, b.ID, r.Outer); err != nil {
			return err
		}
	}
	return errors.Join(b.removeCgroups(ctx), b.delete())
}

// id returns the box that ref names. It is checked, because it becomes a path.
func (p *Provider) id(ref sandbox.Ref) (string, error) {
	base, id, err := sandbox.DecodeRef(ref)
	if err != nil {
		return "", err
	}
	if base != BaseURL || !validID(id) {
		return "", fmt.Errorf("%w: %q is not of the form %s#ID", sandbox.ErrRef, ref, BaseURL)
	}
	return id, nil
}

func newID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func validID(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && len(b) == 12
}

// short is what people are shown of an id, and the hostname inside.
func short(id string) string { return id[:min(12, len(id))] }
