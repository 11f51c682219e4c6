//go:build linux

package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// box is the directory of one sandbox, locked by its holder.
type box struct {
	meta
	dir string
}

// meta is box.json: what never changes about a sandbox.
type meta struct {
	ID         string       `json:"id"`
	Instance   string       `json:"instance"`
	RootTaskID string       `json:"root_task_id"`
	Spec       sandbox.Spec `json:"spec"`
	UID        int          `json:"uid"`
	GID        int          `json:"gid"`
	CreatedAt  time.Time    `json:"created_at"`
	Version    string       `json:"version"` // of the Glovebox that made it
}

// run is run/process.json: what is true of the sandbox's present start.
type run struct {
	identity
	Namespace   uint64          `json:"pid_namespace"` // inode of the one whose init it is
	Outer       int             `json:"outer"`         // pid of the bubblewrap outside
	StartedAt   time.Time       `json:"started_at"`
	Mounts      []sandbox.Mount `json:"mounts"`
	Cgroups     []string        `json:"cgroups"` // directories that are ours to remove
	NotEnforced []string        `json:"not_enforced"`
}

// stopped is run/stopped.json: why the last start ended, where that is known.
type stopped struct {
	Cause string    `json:"cause"`
	At    time.Time `json:"at"`
}

const (
	metaFile    = "box.json"
	lockFile    = "lock"
	processFile = "run/process.json"
	stoppedFile = "run/stopped.json"
	socketFile  = "guest.sock" // in run
)

func (m meta) short() string { return short(m.ID) }

// ref is the durable address of the sandbox. Its parts were made here and are
// always valid.
func (m meta) ref() sandbox.Ref { return sandbox.Ref(BaseURL + "#" + m.ID) }

// ids lists the boxes on the disk, of every instance.
func (p *Provider) ids() ([]string, error) {
	entries, err := os.ReadDir(p.boxes)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && validID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// read returns what a box says of itself. The error wraps sandbox.ErrGone when
// there is no such box.
func (p *Provider) read(id string) (meta, error) {
	var m meta
	err := readJSON(filepath.Join(p.boxes, id, metaFile), &m)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(filepath.Join(p.boxes, id)); errors.Is(err, fs.ErrNotExist) {
			return meta{}, sandbox.ErrGone
		}
	}
	if err != nil {
		return meta{}, fmt.Errorf("read the box: %w", err)
	}
	if m.ID != id {
		return meta{}, fmt.Errorf("box %s says that it is %s", id, m.ID)
	}
	return m, nil
}

// create makes a box and returns it locked.
func (p *Provider) create(ctx context.Context, rootTaskID string, spec sandbox.Spec, pl plan) (_ *box, unlock func(), err error) {
	b := &box{meta: meta{
		ID: newID(), Instance: p.opts.Instance, RootTaskID: rootTaskID, Spec: spec,
		UID: pl.uid, GID: pl.gid, CreatedAt: time.Now().UTC(), Version: p.opts.Version,
	}}
	b.dir = filepath.Join(p.boxes, b.ID)
	if err := makePassable(b.dir); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.delete())
			if unlock != nil {
				unlock()
			}
		}
	}()
	if unlock, err = b.lock(ctx); err != nil {
		return nil, nil, err
	}
	if err := writeJSON(filepath.Join(b.dir, metaFile), b.meta); err != nil {
		return nil, unlock, err
	}
	for _, d := range []struct {
		name  string
		perm  os.FileMode
		yours bool
	}{
		{"run", 0o700, false}, {"state", 0o700, true}, {"home", 0o700, true},
	} {
		name := filepath.Join(b.dir, d.name)
		if err := os.Mkdir(name, d.perm); err != nil {
			return nil, unlock, err
		}
		if d.yours {
			if err := os.Lchown(name, b.UID, b.GID); err != nil {
				return nil, unlock, err
			}
		}
	}
	return b, unlock, nil
}

// makePassable makes a directory in which others get to what is theirs, and
// cannot look around, whatever the umask.
func makePassable(dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	return os.Chmod(dir, 0o711)
}

// open returns a box of this instance, locked. The error wraps ErrGone or
// ErrForeign.
func (p *Provider) open(ctx context.Context, id string) (*box, func(), error) {
	m, err := p.read(id)
	if err != nil {
		return nil, nil, err
	}
	if m.Instance != p.opts.Instance {
		return nil, nil, sandbox.ErrForeign
	}
	b := &box{meta: m, dir: filepath.Join(p.boxes, id)}
	unlock, err := b.lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	if _, err := p.read(id); err != nil { // removed while we waited
		unlock()
		return nil, nil, err
	}
	return b, unlock, nil
}

// contention is how long a locked box is left alone before the next try.
// Starts and stops of one box at once are rare, and take tens of milliseconds.
const contention = 10 * time.Millisecond

// lock takes the box for one holder among all processes and goroutines. The
// kernel frees it when the holder dies.
func (b *box) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(b.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sandbox.ErrGone
	}
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(contention)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock the box: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("the box is busy: %w", ctx.Err())
		}
	}
}

// busy reports whether somebody holds the box: it is being started or stopped.
func (b *box) busy() bool {
	f, err := os.Open(filepath.Join(b.dir, lockFile))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// process returns the sandbox's init, or nil when it does not run.
func (b *box) process() (*process, error) {
	r, err := b.run()
	return b.processOf(r, err)
}

// processOf is process for what run has returned.
func (b *box) processOf(r run, err error) (*process, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return search(b.ID)
	}
	if err != nil {
		return nil, err
	}
	return find(r.identity)
}

func (b *box) run() (r run, err error) {
	return r, readJSON(filepath.Join(b.dir, processFile), &r)
}

// kill ends every process of the sandbox.
func (b *box) kill(ctx context.Context) error {
	proc, err := b.process()
	if proc == nil || err != nil {
		return err
	}
	defer proc.Close()
	return proc.kill(ctx)
}

// delete removes the box, and last what says whose it is: a process that dies
// over it leaves a box that is found again. The sandbox's user can have left
// directories in its home that even it cannot read; an unprivileged Glovebox
// opens those first.
func (b *box) delete() error {
	err := b.empty()
	if errors.Is(err, fs.ErrPermission) {
		err = filepath.WalkDir(b.dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				return os.Chmod(name, 0o700)
			}
			return nil
		})
		err = errors.Join(err, b.empty())
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(b.dir)
}

// empty removes all but what makes a directory a box.
func (b *box) empty() error {
	entries, err := os.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != metaFile && e.Name() != lockFile {
			err = errors.Join(err, removeAll(filepath.Join(b.dir, e.Name())))
		}
	}
	return err
}

// removeAll removes a tree to which somebody may still add, as one who is just
// about to see that the sandbox has ended.
func removeAll(dir string) (err error) {
	for range 10 {
		if err = os.RemoveAll(dir); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return err
}

// clearHalfMade removes the boxes that a process died over before they said
// whose they are, or after. They hold nothing else, or stay.
func (p *Provider) clearHalfMade() error {
	ids, err := p.ids()
	if err != nil {
		return err
	}
	for _, id := range ids {
		b := &box{meta: meta{ID: id}, dir: filepath.Join(p.boxes, id)}
		if _, err := os.Lstat(filepath.Join(b.dir, metaFile)); !errors.Is(err, fs.ErrNotExist) || b.busy() {
			continue
		}
		os.Remove(filepath.Join(b.dir, metaFile+newSuffix))
		os.Remove(filepath.Join(b.dir, lockFile))
		if err := os.Remove(b.dir); err != nil {
			p.log.Warn("a box does not say whose it is", "path", b.dir, "err", err)
		}
	}
	return nil
}

func readJSON(name string, v any) error {
	body, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// newSuffix ends the name of a file that is being written.
const newSuffix = ".new"

// writeJSON writes a file that a reader sees whole or not at all.
func writeJSON(name string, v any) error {
	body, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	tmp := name + newSuffix
	if err := os.WriteFile(tmp, append(body, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}
