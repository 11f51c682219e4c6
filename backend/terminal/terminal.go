//go:build unix

// Package terminal keeps pseudo-terminals: it drains each into a ring of its
// newest output, which any number of views read by offset, and hands it their
// input. It starts no process itself; who has one to start does:
//
//	var set terminal.Set
//	info, err := set.Open(request, func(tty *os.File) (terminal.Process, error) { ... })
//	view, err := set.View(info.ID, 0)
//
// A terminal belongs to its Set, not to a view. Output is drained whether or not
// anybody looks; a view that is behind by more than the ring loses what lies
// between and sees a jump of the offset. Nothing of what is typed is kept.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// Process is the first process of a terminal.
type Process interface {
	PID() int
	Done() <-chan struct{}      // closed when the process has been waited for
	Status() syscall.WaitStatus // valid after Done

	// Kill ends all processes that the terminal has started, those that live
	// on after the first one among them.
	Kill(cause string) execenv.KillReport
}

// readBytes is how much is read from a pseudo-terminal, or handed to a view, at
// once at most.
const readBytes = 64 << 10

// Terminal is one pseudo-terminal. Make it with Set.Open.
type Terminal struct {
	id        string
	argv      []string
	dir       string
	startedAt time.Time
	pty       *os.File // our end
	proc      Process
	typing    chan struct{} // a token, held while input is being taken
	over      chan struct{} // closed when the end is known and all output is kept

	mu         sync.Mutex
	kept       ring
	cols, rows int
	endedAt    *time.Time
	status     syscall.WaitStatus
	views      map[*View]struct{}
}

// open makes a pseudo-terminal and starts its first process.
func open(id string, r execenv.TerminalRequest, start func(tty *os.File) (Process, error)) (*Terminal, error) {
	ours, tty, err := pty.Open()
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return nil, fmt.Errorf("open a pseudo-terminal: the machine has no more of them (%v): %w", err, execenv.ErrBusy)
	case err != nil:
		return nil, fmt.Errorf("open a pseudo-terminal: this place has no usable /dev/ptmx and /dev/pts (%v): %w", err, execenv.ErrUnsupported)
	}
	if ours, err = polled(ours); err != nil {
		tty.Close()
		return nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	t := &Terminal{
		id: id, argv: shorten(r.Argv), dir: r.Dir, startedAt: time.Now(), pty: ours, cols: r.Cols, rows: r.Rows,
		typing: make(chan struct{}, 1), over: make(chan struct{}), views: map[*View]struct{}{},
	}
	_ = tty.Fd() // its reads wait from here on, as whoever inherits it expects
	if err = t.setSize(r.Cols, r.Rows); err == nil {
		t.proc, err = start(tty)
	}
	if err != nil {
		tty.Close()
		ours.Close()
		return nil, err
	}
	// Our hold on the process's end keeps ours readable as long as that lives,
	// even when it closes its own and opens /dev/tty later.
	go t.drain(tty)
	return t, nil
}

// polled returns f as a file whose reads and writes have deadlines, and closes f.
// One whose descriptor was ever asked for has none.
func polled(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// shorten cuts arguments to what a list of terminals shows of them.
func shorten(argv []string) []string {
	left := 4 << 10
	short := []string{}
	for _, a := range argv {
		if left -= len(a); left < 0 {
			return append(short, "…")
		}
		short = append(short, a)
	}
	return short
}

// drain keeps the output until the first process has ended and what it wrote
// has been read; then the terminal is over.
func (t *Terminal) drain(tty *os.File) {
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		<-t.proc.Done()
		tty.Close()
		_ = t.pty.SetReadDeadline(time.Unix(1, 0)) // closed by then, or not
	}()
	buf := make([]byte, readBytes)
	for {
		n, err := t.pty.Read(buf)
		t.write(buf[:n])
		if err != nil {
			break
		}
	}
	<-exited
	t.drainRest(buf)
	t.pty.Close()
	t.mu.Lock()
	now := time.Now()
	t.endedAt, t.status = &now, t.proc.Status()
	t.changed()
	t.mu.Unlock()
	close(t.over)
}

// drainRest reads what lies in the terminal now. The kernel has hung it up for
// all that still have it open, so there is an end to it.
func (t *Terminal) drainRest(buf []byte) {
	raw, err := t.pty.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < ringBytes; {
		n := 0
		err := raw.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), buf) })
		if err != nil || n <= 0 {
			return
		}
		t.write(buf[:n])
		total += n
	}
}

// write keeps output and wakes the views.
func (t *Terminal) write(b []byte) {
	if len(b) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept.write(b)
	for v := range t.views {
		v.ring()
	}
}

// changed tells the views that the terminal has changed. mu is held.
func (t *Terminal) changed() {
	for v := range t.views {
		v.changed = true
		v.ring()
	}
}

// info says what the terminal is now. mu is held.
func (t *Terminal) info() execenv.Terminal {
	i := execenv.Terminal{
		ID: t.id, Argv: t.argv, Dir: t.dir, PID: t.proc.PID(), Cols: t.cols, Rows: t.rows,
		StartedAt: t.startedAt, EndedAt: t.endedAt, Start: t.kept.start(), End: t.kept.end, Views: len(t.views),
	}
	if t.endedAt == nil {
		return i
	}
	i.ExitCode = t.status.ExitStatus()
	if t.status.Signaled() {
		i.ExitCode = 128 + int(t.status.Signal())
		i.Signal = t.status.Signal().String()
	}
	return i
}

// Info says what the terminal is now.
func (t *Terminal) Info() execenv.Terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.info()
}

func (t *Terminal) running() bool {
	select {
	case <-t.over:
		return false
	default:
		return true
	}
}

// input hands bytes to the terminal. It blocks while that takes none.
func (t *Terminal) input(ctx context.Context, data []byte) error {
	select {
	case t.typing <- struct{}{}:
		defer func() { <-t.typing }()
	case <-t.over:
		return errOver
	case <-ctx.Done():
		return ctx.Err()
	}
	given := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = t.pty.SetWriteDeadline(time.Unix(1, 0))
		close(given)
	})
	_, err := t.pty.Write(data)
	if !stop() {
		<-given
		_ = t.pty.SetWriteDeadline(time.Time{}) // the next one's input is not ours to end
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EIO), errors.Is(err, io.ErrClosedPipe):
		return errOver
	}
	return fmt.Errorf("type into terminal %s: %w", t.id, err)
}

var errOver = fmt.Errorf("the terminal has ended: %w", execenv.ErrInvalid)

// resize sets the size for all views.
func (t *Terminal) resize(cols, rows int) error {
	if err := CheckSize(cols, rows); err != nil {
		return err
	}
	if !t.running() {
		return errOver
	}
	if err := t.setSize(cols, rows); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cols, t.rows = cols, rows
	t.changed()
	return nil
}

func (t *Terminal) setSize(cols, rows int) error {
	raw, err := t.pty.SyscallConn() // Fd would make its reads and writes block beyond recall
	if err == nil {
		var set error
		err = raw.Control(func(fd uintptr) {
			set = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
		})
		err = errors.Join(err, set)
	}
	if err != nil {
		return fmt.Errorf("set the size of a terminal: %w", err)
	}
	return nil
}

// closeTime is how long a close waits for the last output after the kill.
const closeTime = 2 * time.Second

// close hangs up, which is what shells end on in good order, and kills what is
// left. A process that even that does not end keeps its goroutines.
func (t *Terminal) close(cause string) execenv.KillReport {
	t.pty.Close()
	report := t.proc.Kill(cause)
	limit := time.NewTimer(closeTime)
	defer limit.Stop()
	select {
	case <-t.over:
	case <-limit.C:
	}
	return report
}
