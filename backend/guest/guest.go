//go:build linux

package guest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/journal"
	"github.com/glovebox-dev/glovebox/backend/guest/process"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// FileService is what the guest serves under /v1/files. Its methods are called
// with the rights of the commands' user, on any thread.
type FileService interface {
	execenv.Files
	execenv.Search
}

// Options are what a guest is built with.
type Options struct {
	// Files makes the file service. It must ask refuse about every path, after
	// links have been resolved, before it opens it.
	Files func(refuse func(path string, write bool) error) FileService
	Build string // version of the binary, for Hello
	Log   *slog.Logger
}

// Guest is the daemon. Make it with New.
type Guest struct {
	cfg   wire.GuestConfig
	log   *slog.Logger
	hello wire.Hello

	listener *listener
	lock     *os.File
	slot     net.Listener // claims the groups of an adopted guest
	keeper   *keeper
	journal  *journal.Journal
	table    *process.Table
	calls    *calls
	terms    *terminals
	files    FileService
	effects  effects
	memory   *memory
	working  slots // operations on files
	searches slots
	watches  chan struct{} // a token per open watch
	relay    *relay        // nil when nothing leaves the sandbox
	browser  *browser

	stop     chan struct{} // closed by a request to shut down
	stopOnce sync.Once
}

// New takes over this process: it locks, listens, opens the journal, takes on
// the user's rights on every thread, and begins to reap.
func New(cfg wire.GuestConfig, o Options) (_ *Guest, err error) {
	g := &Guest{
		cfg: cfg, log: o.Log, memory: newMemory(),
		working: make(slots, filesAtOnce), searches: make(slots, searchesAtOnce), watches: make(chan struct{}, maxWatches),
		stop: make(chan struct{}),
	}
	if g.log == nil {
		g.log = slog.Default()
	}
	var undo []func()
	defer func() {
		if err != nil {
			for _, f := range slices.Backward(undo) {
				f()
			}
		}
	}()
	switch cfg.Tag {
	case wire.TagGroup, wire.TagUTS:
	default:
		return nil, fmt.Errorf("tag %q: want %s or %s", cfg.Tag, wire.TagGroup, wire.TagUTS)
	}
	u, err := resolveUser(cfg) // first: it may have to give the user a name, which root can
	if err != nil {
		return nil, err
	}
	alone, err := become(cfg)
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("hide the guest's memory: %w", err)
	}
	if g.lock, err = takeLock(cfg.LockFile); err != nil {
		return nil, err
	}
	undo = append(undo, func() { g.lock.Close() })
	if g.journal, err = journal.Open(cfg.StateDir, g.asGuest); err != nil {
		return nil, err
	}
	undo = append(undo, func() { g.journal.Close() })

	socket, err := listen(cfg)
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { socket.Close() })
	if cfg.Relay != "" {
		if g.relay, err = newRelay(cfg.Relay); err != nil {
			return nil, err
		}
		undo = append(undo, g.relay.close)
	}

	first, last := 0, 0
	if cfg.Adopted && cfg.Tag == wire.TagGroup {
		if g.slot, first, last, err = claimTags(); err != nil {
			return nil, err
		}
		undo = append(undo, func() { g.slot.Close() })
	}
	rootByChoice := cfg.User == "root" && cfg.Tag == wire.TagGroup && u.uid == 0
	warning, err := lower(u, rootByChoice)
	if err != nil {
		return nil, err
	}
	short := g.memory.reserve() // threads that are like those which have been lowered
	if g.keeper, err = newKeeper(); err != nil {
		return nil, err
	}
	undo = append(undo, g.keeper.close)
	if alone {
		// The files of a process that is not dumpable belong to uid 0, and so to the
		// commands of a workspace of root; those of a user of its own are the guest's.
		// Each change of ids would undo it: from here on there is none.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("keep the guest's files in /proc: %w", err)
		}
	}
	if !cfg.Adopted {
		g.makeHome(u.home)
	}

	g.table, err = process.New(process.Options{
		Tag: cfg.Tag, FirstTag: first, LastTag: last, UID: u.uid, GID: u.gid, Groups: u.groups,
		KeepFileCaps: rootByChoice, Raise: empower,
	})
	if err != nil {
		return nil, err
	}
	if o.Files != nil {
		g.files = o.Files(refuse)
	}
	g.effects = effects{journal: g.journal, running: map[string]chan struct{}{}}
	env := commandEnv(os.Environ(), u, cfg)
	g.greet(o.Build, u, env, warning, short)
	g.hello.FirstTag, g.hello.LastTag = first, last
	g.effects.boot = g.hello.BootID
	g.calls = &calls{
		cfg: cfg, boot: g.hello.BootID, env: env, table: g.table, journal: g.journal, memory: g.memory,
		byID: map[string]*call{}, lingering: map[*process.Mark]*call{},
	}
	left := &remains{table: g.table}
	g.terms = &terminals{workdir: cfg.Workdir, user: u.name, host: g.hello.Hostname, env: env, table: g.table, remains: left}
	g.browser = g.newBrowser(u, env, left)
	g.listener = newListener(socket, wire.Greeting{
		Version: wire.Version, GuestID: cfg.GuestID, BootID: g.hello.BootID,
	}, cfg.PublicKey)
	return g, nil
}

// makeHome makes the directory of HOME when it is not there: by the user, or,
// where the user may not, by the guest for everybody, since it cannot give it
// away. Programs cope with none, so a failure is no reason to stop.
func (g *Guest) makeHome(home string) {
	if home == "" || isDir(home) || os.MkdirAll(home, 0o700) == nil {
		return
	}
	g.asGuest(func() {
		if os.MkdirAll(home, 0o755) == nil {
			_ = os.Chmod(home, 0o777|os.ModeSticky)
		}
	})
}

// greet fills in what Hello says.
func (g *Guest) greet(build string, u user, env environment, warnings ...string) {
	tag, bestEffort := g.table.Tag()
	hostname, _ := os.Hostname()
	g.hello = wire.Hello{
		Version: wire.Version, Build: build, GuestID: g.cfg.GuestID, BootID: newID(), StartedAt: time.Now(),
		Hostname: hostname, Workdir: g.cfg.Workdir, UID: u.uid, GID: u.gid, User: u.name, Home: u.home,
		Tag: string(tag), BestEffort: bestEffort, Kernel: kernel(), Shell: findShell(env.get("PATH")),
		Warnings: slices.Clone(g.table.Warnings()),
	}
	for _, w := range warnings {
		if w != "" {
			g.hello.Warnings = append(g.hello.Warnings, w)
		}
	}
	if g.hello.Warnings == nil {
		g.hello.Warnings = []string{}
	}
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// takeLock holds a lock until the process ends, so that others can tell a dead
// guest from a silent one.
func takeLock(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: another guest of this sandbox runs: %w", path, err)
	}
	return f, nil
}

// Serve answers until ctx ends or a request asks for the end; then it kills
// every call, terminal and browser and returns.
func (g *Guest) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           g.routes(),
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       10 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1) // the one result
	go func() { served <- server.Serve(g.listener) }()
	g.log.InfoContext(ctx, "guest serves", "guest", g.cfg.GuestID, "boot", g.hello.BootID, "uid", g.hello.UID, "warnings", g.hello.Warnings)
	var err error
	select {
	case err = <-served:
	case <-g.stop:
	case <-ctx.Done():
	}
	return errors.Join(err, g.close(ctx, server))
}

// close ends everything in the order in which it depends on each other.
func (g *Guest) close(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.ShutdownTime)
	defer cancel()
	var ending sync.WaitGroup
	ending.Go(func() { g.terms.shutdown(ctx) })
	ending.Go(func() { g.browser.shutdown(ctx) })
	g.calls.shutdown(ctx)
	ending.Wait()
	// Answers that are being written are finished, for a moment.
	last, done := context.WithTimeout(ctx, time.Second)
	defer done()
	if err := server.Shutdown(last); err != nil {
		server.Close()
	}
	if g.relay != nil {
		g.relay.close()
	}
	g.listener.Close()
	g.table.Close()
	if g.cfg.Socket != "" {
		g.asGuest(func() { os.Remove(g.cfg.Socket) })
	}
	if g.slot != nil {
		g.slot.Close()
	}
	err := g.journal.Close()
	g.keeper.close()
	if g.lock != nil {
		err = errors.Join(err, g.lock.Close())
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
