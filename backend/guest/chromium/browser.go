//go:build linux

package chromium

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// startTime is the longest that a browser may take until it answers. On a busy
// machine with a cold disk that is many times the usual second.
const startTime = 90 * time.Second

// Command is a browser to start. More are its descriptors 3 and up.
type Command struct {
	Path  string
	Argv  []string
	Env   []string
	Dir   string
	Files [3]*os.File
	More  []*os.File
}

// Process is the first process of a browser.
type Process interface {
	PID() int
	Done() <-chan struct{}      // closed when the process has been waited for
	Status() syscall.WaitStatus // valid after Done

	// Kill ends all processes of the browser, those that outlived the first one
	// among them. It is called once.
	Kill(cause string) execenv.KillReport
}

// Options are what a browser is run with.
type Options struct {
	Home     string   // directory of the user that it runs as
	Env      []string // of the user's commands
	Hostname string   // of the sandbox, to know a lock of its own
	Proxy    string   // HOST:PORT that everything leaves by; "" when nothing has to

	// Passing keeps the profile and downloads out of Home, in a directory below
	// /tmp that goes with Shutdown.
	Passing bool

	// Unsandboxed is why Chromium's own sandbox cannot be had here, where that is
	// known; "" makes the first start try it.
	Unsandboxed string

	Look  func(name string) (file string) // finds a program on the commands' PATH
	Start func(Command) (Process, error)  // as the sandbox's user
	Log   *slog.Logger
}

// Browser is the one browser of a sandbox. Nothing of it runs before it is asked
// for. Its methods may be called from several goroutines at once.
type Browser struct {
	o    Options
	life context.Context // of starts
	kill context.CancelFunc
	work sync.WaitGroup

	mu sync.Mutex

	passing     string // the directory below /tmp; "" until it is made
	starting    *start
	now         *run // nil unless one runs
	unsandboxed string
	version     string
	fault       error // of the last start
	lastEnd     *wire.BrowserEnd
	closed      bool
}

// start is a start under way. Several may wait for it.
type start struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when r or err is set
	r      *run
	err    error
}

// New returns a browser that does not run.
func New(o Options) *Browser {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	b := &Browser{o: o, unsandboxed: o.Unsandboxed}
	b.life, b.kill = context.WithCancel(context.Background())
	return b
}

// dirs are where the profile and downloads lie; "" while that is not known.
// b.mu is held.
func (b *Browser) dirs() (profile, downloads string) {
	switch {
	case !b.o.Passing:
		return filepath.Join(b.o.Home, ".glovebox", "browser"), filepath.Join(b.o.Home, "Downloads")
	case b.passing == "":
		return "", ""
	}
	return filepath.Join(b.passing, "profile"), filepath.Join(b.passing, "downloads")
}

// makeDirs makes the directories of a browser, but for the profile.
func (b *Browser) makeDirs() (profile, downloads string, err error) {
	b.mu.Lock()
	if b.o.Passing && b.passing == "" {
		b.passing, err = os.MkdirTemp("", "glovebox-browser-")
	}
	profile, downloads = b.dirs()
	b.mu.Unlock()
	if err == nil {
		err = os.MkdirAll(downloads, 0o755)
	}
	if err != nil {
		err = fmt.Errorf("make the browser's directories: %w", err)
	}
	return profile, downloads, err
}

// env is the environment of a browser. What it writes beside its profile, such as
// an index of fonts, goes with the profile where nothing is to be left.
func (b *Browser) env(downloads string) []string {
	env := withoutProxies(b.o.Env)
	if !b.o.Passing {
		return env
	}
	env = slices.DeleteFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "HOME=") || strings.HasPrefix(kv, "TMPDIR=")
	})
	dir := filepath.Dir(downloads)
	return append(env, "HOME="+dir, "TMPDIR="+dir)
}

func (b *Browser) find() (string, error) {
	return find(b.o.Look, func(name string) string {
		for _, kv := range b.o.Env {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value
			}
		}
		return ""
	})
}

// Status says what the browser does now.
func (b *Browser) Status() wire.Browser {
	program, missing := b.find()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := wire.Browser{
		ObservedAt: time.Now(), State: wire.BrowserStopped, Program: program, Version: b.version,
		Unsandboxed: b.unsandboxed, LastEnd: b.lastEnd,
	}
	s.Profile, s.Downloads = b.dirs()
	switch r := b.now; {
	case r != nil:
		s.State, s.Program, s.PID = wire.BrowserRunning, r.program, r.proc.PID()
		since := r.since
		s.Since, s.Clients, s.Sandboxed = &since, max(0, r.mux.count()-1), r.sandboxed
		if r.isEnding() {
			s.State = wire.BrowserStopping
		}
	case b.starting != nil:
		s.State = wire.BrowserStarting
	case missing != nil:
		s.State, s.Error = wire.BrowserNone, missing.Error()
	case b.fault != nil:
		s.Error = b.fault.Error()
	}
	return s
}

// Start starts the browser, or finds it running, and returns when it answers.
//
// Errors: execenv.ErrNoBrowser, execenv.ErrBusy for a profile that another one
// uses, else execenv.ErrBrowser. When ctx ends the start goes on.
func (b *Browser) Start(ctx context.Context) error {
	_, err := b.demand(ctx)
	return err
}

// Attach opens a client, and starts the browser for it when it does not run.
// Errors are those of Start.
func (b *Browser) Attach(ctx context.Context) (*Client, error) {
	for tries := 1; ; tries++ {
		r, err := b.demand(ctx)
		if err != nil {
			return nil, err
		}
		c, err := r.mux.attach(ctx)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, err
		case errors.Is(err, io.EOF) && tries < 3: // it ended at this very moment
		default:
			return nil, fmt.Errorf("attach to the browser: %w: %w", execenv.ErrBrowser, err)
		}
	}
}

// demand returns the browser that runs. One that is ending is waited for, so that
// two never share a profile.
func (b *Browser) demand(ctx context.Context) (*run, error) {
	for {
		b.mu.Lock()
		r, s := b.now, b.starting
		switch {
		case b.closed:
			b.mu.Unlock()
			return nil, fmt.Errorf("the sandbox is ending: %w", execenv.ErrBrowser)
		case r != nil && !r.isEnding():
			b.mu.Unlock()
			return r, nil
		case r == nil && s == nil:
			s = b.begin()
		}
		b.mu.Unlock()
		if r != nil {
			select {
			case <-r.done:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		select {
		case <-s.done:
			return s.r, s.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// begin starts a browser in the background. b.mu is held.
func (b *Browser) begin() *start {
	ctx, cancel := context.WithTimeout(b.life, startTime)
	s := &start{cancel: cancel, done: make(chan struct{})}
	b.starting = s
	b.work.Go(func() {
		defer cancel()
		r, err := b.launch(ctx)
		b.mu.Lock()
		s.r, s.err = r, err
		b.starting, b.now, b.fault = nil, r, err
		if r != nil {
			b.version = r.version
		}
		b.mu.Unlock()
		close(s.done)
		if r != nil {
			b.watch(r)
		}
	})
	return s
}

// launch starts a browser and returns when it answers. On an error nothing of it
// is left.
func (b *Browser) launch(ctx context.Context) (*run, error) {
	program, err := b.find()
	if err != nil {
		return nil, err
	}
	dir, downloads, err := b.makeDirs()
	if err != nil {
		return nil, asFault(err)
	}
	p, err := takeProfile(dir, b.o.Hostname)
	if err != nil {
		return nil, asFault(err)
	}
	b.mu.Lock()
	sandboxed := b.unsandboxed == ""
	b.mu.Unlock()
	r, err := b.spawn(ctx, program, p, downloads, sandboxed)
	if refused := (*refusal)(nil); sandboxed && errors.As(err, &refused) {
		b.mu.Lock()
		b.unsandboxed = refused.why
		b.mu.Unlock()
		r, err = b.spawn(ctx, program, p, downloads, false)
	}
	if err != nil {
		p.close()
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			err = errors.New("it was stopped while it started")
		}
		return nil, asFault(err)
	}
	b.o.Log.Info("browser started", "program", program, "pid", r.proc.PID(), "version", r.version, "sandboxed", r.sandboxed, "took", time.Since(r.since))
	return r, nil
}

// asFault makes an error of a start one that says so.
func asFault(err error) error {
	if errors.Is(err, execenv.ErrBusy) || errors.Is(err, execenv.ErrBrowser) {
		return err
	}
	return fmt.Errorf("start the browser: %w: %w", execenv.ErrBrowser, err)
}

// watch waits for the end of a run and writes it down.
func (b *Browser) watch(r *run) {
	end := r.wait()
	if end.Cause == wire.BrowserEndCrash {
		b.o.Log.Warn("browser ended by itself", "pid", r.proc.PID(), "detail", end.Detail, "killed", len(end.Kill.Killed))
	} else {
		b.o.Log.Info("browser ended", "cause", end.Cause, "killed", len(end.Kill.Killed), "left", len(end.Kill.Left))
	}
	r.profile.close()
	b.mu.Lock()
	b.now, b.lastEnd = nil, &end
	b.mu.Unlock()
	close(r.done)
	r.close() // only now: who is told of the end finds it written down
}

// Stop ends the browser, also one that is starting, and returns when nothing of it
// is left. None that runs is no error.
func (b *Browser) Stop(ctx context.Context) error { return b.end(ctx, wire.BrowserEndStop) }

func (b *Browser) end(ctx context.Context, cause string) error {
	b.mu.Lock()
	r, s := b.now, b.starting
	b.mu.Unlock()
	if s != nil {
		s.cancel()
		select {
		case <-s.done:
			r = s.r
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if r == nil {
		return nil
	}
	r.ask(cause)
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Shutdown ends the browser for good.
func (b *Browser) Shutdown(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	if b.end(ctx, wire.BrowserEndShutdown) != nil {
		return
	}
	b.kill()
	b.work.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.passing != "" {
		_ = os.RemoveAll(b.passing) // the sandbox is somebody else's, who has a broom too
	}
}
