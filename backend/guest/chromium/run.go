//go:build linux

package chromium

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	closeTime = 3 * time.Second // for a browser to write down what it has to and end
	deadTime  = time.Second     // for the end of a process that was killed to be seen
)

// run is one browser, from its start to its end.
type run struct {
	program   string
	version   string
	sandboxed bool
	since     time.Time
	profile   *profile
	proc      Process
	mux       *mux
	words     *lastWords
	keeping   sync.WaitGroup
	done      chan struct{} // closed when nothing of it is left

	asked chan struct{} // closed when somebody wants its end

	mu sync.Mutex

	cause string // of the one who asked
	fault string // what the browser did that it had to be ended for
}

// refusal is a browser that does not start with its own sandbox.
type refusal struct{ why string }

func (e *refusal) Error() string { return "it has no sandbox of its own: " + e.why }

// spawn starts the browser's process and returns when it answers. It is a
// refusal when it would without its own sandbox.
func (b *Browser) spawn(ctx context.Context, program string, p *profile, downloads string, sandboxed bool) (_ *run, err error) {
	f, err := openFiles()
	if err != nil {
		return nil, fmt.Errorf("make the browser's pipes: %w", err)
	}
	r := &run{
		program: program, sandboxed: sandboxed, since: time.Now(), profile: p,
		done: make(chan struct{}), asked: make(chan struct{}),
	}
	r.proc, err = b.o.Start(Command{
		Path: program, Argv: arguments(program, p.dir, b.o.Proxy, sandboxed, isSmallShm()), Env: b.env(downloads),
		Dir: p.dir, Files: [3]*os.File{f.null, f.said, f.said}, More: []*os.File{f.commands, f.answers},
	})
	f.closeTheirs()
	if err != nil {
		f.closeOurs()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	r.words = listen(f.saying)
	r.mux = newMux(f.answering, f.commanding, wire.MaxCDP, func() { r.ask(wire.BrowserEndStop) })

	// What it leaves in the background may hold the pipe open.
	greeting, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer stop()
		select {
		case <-r.proc.Done():
		case <-greeting.Done():
		}
	})
	err = r.greet(greeting, downloads, b.o.Proxy != "")
	stop()
	watching.Wait()
	if err == nil {
		return r, nil
	}
	gone := false
	select {
	case <-r.proc.Done():
		gone = true
	case <-time.After(deadTime):
	}
	r.proc.Kill("start")
	r.collect()
	r.close()
	words := r.words.String()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it did not answer in %v%s: %w", time.Since(r.since).Round(time.Second), after(words), context.Cause(ctx))
	case gone && sandboxed && r.words.sentence("sandbox") != "":
		return nil, &refusal{"Chromium cannot have one in this sandbox: " + r.words.sentence("sandbox")}
	case gone:
		return nil, fmt.Errorf("%s ended with %s%s", program, describe(r.proc), after(words))
	}
	return nil, fmt.Errorf("%s does not speak over its pipe%s: %w", program, after(words), err)
}

// greet attaches the keeper and lets it work.
func (r *run) greet(ctx context.Context, downloads string, online bool) error {
	c, err := r.mux.attach(ctx)
	if err != nil {
		return err
	}
	k := newKeeper(c, downloads, online)
	if r.version, err = k.begin(ctx); err != nil {
		return err
	}
	r.keeping.Go(func() {
		if err := k.run(context.Background()); !errors.Is(err, io.EOF) {
			r.mu.Lock()
			r.fault = "it does not answer: " + err.Error()
			r.mu.Unlock()
			r.ask(wire.BrowserEndCrash)
		}
	})
	return nil
}

// ask asks for the end. The first cause counts.
func (r *run) ask(cause string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause == "" {
		r.cause = cause
		close(r.asked)
	}
}

func (r *run) isEnding() bool {
	select {
	case <-r.asked:
		return true
	case <-r.proc.Done():
		return true
	case <-r.mux.ended:
		return true
	default:
		return false
	}
}

// wait returns when the browser has ended, by itself or because it was asked to,
// and no process of it is left.
func (r *run) wait() wire.BrowserEnd {
	select {
	case <-r.proc.Done():
	case <-r.mux.ended:
	case <-r.asked:
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		_ = r.mux.command(ctx, "Browser.close", "{}", nil) // else it is killed
		cancel()
	}
	select {
	case <-r.proc.Done():
	case <-time.After(closeTime):
	}
	r.mu.Lock()
	cause, fault := r.cause, r.fault
	r.mu.Unlock()
	end := wire.BrowserEnd{Cause: cause, Detail: fault}
	if cause == "" {
		end.Cause, end.Detail = wire.BrowserEndCrash, "it closed its pipe and went on"
		select {
		case <-r.proc.Done():
			end.Detail = ""
			if s := r.proc.Status(); s.Exited() && s.ExitStatus() == 0 {
				end.Cause = wire.BrowserEndExit
			}
		default:
		}
	}
	end.Kill = r.proc.Kill(end.Cause)
	r.collect()
	end.At = time.Now()
	if end.Cause == wire.BrowserEndCrash && end.Detail == "" {
		end.Detail = describe(r.proc) + after(r.words.String())
	}
	return end
}

// collect waits for what runs for the process, which was killed.
func (r *run) collect() {
	select {
	case <-r.proc.Done():
	case <-time.After(deadTime): // one that hangs in the kernel is in the report
	}
	r.words.close()
}

// close lets go of everything, and tells the clients of the end.
func (r *run) close() {
	r.mux.close()
	r.keeping.Wait()
}

// describe says how a process ended.
func describe(p Process) string {
	select {
	case <-p.Done():
	default:
		return "no end"
	}
	s := p.Status()
	if s.Signaled() {
		return "signal: " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}

func after(words string) string {
	if words == "" {
		return ""
	}
	return ": " + words
}

// files are both ends of a browser's pipes.
type files struct {
	null, said, commands, answers *os.File // the browser's
	saying, answering, commanding *os.File // ours
}

func openFiles() (f files, err error) {
	defer func() {
		if err != nil {
			f.closeTheirs()
			f.closeOurs()
		}
	}()
	if f.null, err = os.Open(os.DevNull); err != nil {
		return f, err
	}
	if f.saying, f.said, err = os.Pipe(); err != nil {
		return f, err
	}
	if f.commands, f.commanding, err = os.Pipe(); err != nil {
		return f, err
	}
	f.answering, f.answers, err = os.Pipe()
	return f, err
}

func (f *files) closeTheirs() { closeAll(f.null, f.said, f.commands, f.answers) }
func (f *files) closeOurs()   { closeAll(f.saying, f.answering, f.commanding) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
