//go:build linux

package guest

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/capture"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/journal"
	"github.com/glovebox-dev/glovebox/backend/guest/process"
)

// pipeSize is what the pipes of a command are asked to hold.
const pipeSize = 1 << 20

// call is one command, from before its fork until its outcome is forgotten.
type call struct {
	id        string
	root      string
	argv      []string
	startedAt time.Time

	out, err *output
	proc     *process.Process
	table    *process.Table

	ready chan struct{} // closed when proc is set, or startErr is
	done  chan struct{} // closed when outcome is set

	startErr error // why it never ran

	killed chan struct{} // closed at the end of the first kill

	mu       sync.Mutex
	stdin    *os.File // nil when there is none, or it was closed
	killing  bool
	report   *execenv.KillReport
	timedOut bool
	stopped  bool
	outcome  execenv.Outcome
}

// output is one stream of a call: the pipe and what was captured of it.
type output struct {
	*capture.Stream
	r       *os.File
	settled chan struct{} // closed when the capture is complete
}

func newOutput(overflow execenv.Overflow) (o *output, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize) // a smaller one works too
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, err
	}
	return &output{
		Stream:  capture.New(overflow),
		r:       os.NewFile(uintptr(fds[0]), "output"),
		settled: make(chan struct{}),
	}, os.NewFile(uintptr(fds[1]), "output"), nil
}

// restored is the output of a call that is over.
func restored(c execenv.Captured) *output {
	return &output{Stream: capture.Restore(c)}
}

// overCall is a call of which only the journal knows.
func overCall(e journal.Entry, o execenv.Outcome) *call {
	c := &call{
		id: e.ID, root: e.Root, argv: e.Argv, startedAt: e.StartedAt,
		out: restored(o.Stdout), err: restored(o.Stderr),
		ready: make(chan struct{}), done: make(chan struct{}), outcome: o,
	}
	close(c.ready)
	close(c.done)
	return c
}

// pipes makes the command's ends of its streams, and keeps ours.
func (c *call) pipes(overflow execenv.Overflow, stdin bool) (files [3]*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close() // nil is fine
			}
			for _, o := range []*output{c.out, c.err} {
				if o != nil {
					o.r.Close()
				}
			}
			c.closeStdin()
		}
	}()
	if stdin {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return files, err
		}
		_ = unix.SetNonblock(fds[1], true) // so that closing it ends a write
		files[0], c.stdin = os.NewFile(uintptr(fds[0]), "input"), os.NewFile(uintptr(fds[1]), "input")
	} else if files[0], err = os.Open(os.DevNull); err != nil {
		return files, err
	}
	if c.out, files[1], err = newOutput(overflow); err != nil {
		return files, err
	}
	c.err, files[2], err = newOutput(overflow)
	return files, err
}

// drain captures the pipe until exited is closed and what lay in it then has
// been read; after that it keeps the pipe empty for background children, who
// must neither block nor get SIGPIPE, until the last of them has closed it.
func (o *output) drain() {
	defer o.r.Close()
	buf := make([]byte, 32<<10)
	eof := false
	var pace pacer
	for {
		n, err := o.r.Read(buf)
		o.Write(buf[:n])
		if n == len(buf) && n < maxRead {
			buf = make([]byte, 2*n)
		}
		if err != nil {
			eof = !errors.Is(err, os.ErrDeadlineExceeded)
			break
		}
		pace.after(n)
	}
	if !eof {
		o.drainRest(buf)
	}
	o.Close()
	close(o.settled)
	if eof {
		return
	}
	buf = buf[:4<<10]
	_ = o.r.SetReadDeadline(time.Time{})
	for {
		if _, err := o.r.Read(buf); err != nil {
			return
		}
	}
}

// maxRead is how much is read from a pipe at once at most.
const maxRead = 256 << 10

// pacer lets a busy stream of small pieces gather for a moment, so that each
// wake-up carries more. A stream that was quiet before is not delayed.
type pacer struct{ last time.Time }

const (
	smallPiece = 64 << 10
	gatherTime = 400 * time.Microsecond
)

func (p *pacer) after(n int) {
	now := time.Now()
	if n < smallPiece && now.Sub(p.last) < gatherTime {
		time.Sleep(gatherTime)
		now = time.Now()
	}
	p.last = now
}

// drainRest captures what lies in the pipe now, and no more: a background child
// may write without end.
func (o *output) drainRest(buf []byte) {
	raw, err := o.r.SyscallConn()
	if err != nil {
		return
	}
	left := 0
	_ = raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	for left > 0 {
		n := 0
		if err := raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf[:min(left, len(buf))]) }); err != nil || n <= 0 {
			return
		}
		o.Write(buf[:n])
		left -= n
	}
}

// exited tells drain that the first process is gone.
func (o *output) exited() { _ = o.r.SetReadDeadline(time.Unix(1, 0)) }

// finish waits for the first process and for a kill that is under way, and
// returns how the call ended. timeout 0 means none; background names the
// processes that are left.
func (c *call) finish(timeout time.Duration, background func() []execenv.Process) execenv.Outcome {
	var timer <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout - time.Since(c.startedAt))
		defer t.Stop()
		timer = t.C
	}
	var o execenv.Outcome
	for ended := false; !ended; {
		select {
		case <-c.proc.Done():
			ended = true
		case <-c.killed: // a first process that even SIGKILL did not end
			ended = true
		case <-timer:
			timer = nil
			if !c.table.Ended(c.proc) { // in time, where all stood still since
				c.kill("timeout", true)
			}
		}
	}
	select {
	case <-c.proc.Done():
		status := c.proc.Status()
		o.ExitCode = status.ExitStatus()
		if status.Signaled() {
			o.Signal = int(status.Signal())
			o.ExitCode = 128 + o.Signal
		}
	default:
		o.Signal = int(unix.SIGKILL)
		o.ExitCode = 128 + o.Signal
	}
	c.closeStdin()
	c.out.exited()
	c.err.exited()
	<-c.out.settled
	<-c.err.settled
	o.Stdout = c.out.Captured()
	o.Stderr = c.err.Captured()

	c.mu.Lock()
	killing := c.killing
	c.mu.Unlock()
	if killing {
		<-c.killed
	}
	o.Background = background()
	o.Duration = time.Since(c.startedAt)
	c.mu.Lock()
	defer c.mu.Unlock()
	o.Kill, o.TimedOut, o.Interrupted = c.report, c.timedOut, c.stopped
	return o
}

// kill ends all processes of the call, those in the background of a finished
// one too. A second kill waits for the first and returns its report.
func (c *call) kill(cause string, timeout bool) execenv.KillReport {
	<-c.ready
	if c.proc == nil {
		return execenv.KillReport{Cause: cause}
	}
	c.mu.Lock()
	select {
	case <-c.done: // what lives on in the background, each time anew
		c.mu.Unlock()
		return c.table.Kill(c.proc.Mark, cause)
	default:
	}
	if c.killing {
		c.mu.Unlock()
		<-c.killed
		c.mu.Lock()
		defer c.mu.Unlock()
		return *c.report
	}
	c.killing = true
	c.timedOut, c.stopped = timeout, !timeout
	c.mu.Unlock()

	c.out.Unblock()
	c.err.Unblock()
	report := c.table.Kill(c.proc.Mark, cause)
	c.mu.Lock()
	c.report = &report
	c.mu.Unlock()
	close(c.killed)
	return report
}

// closeStdin ends the command's input.
func (c *call) closeStdin() {
	c.mu.Lock()
	f := c.stdin
	c.stdin = nil
	c.mu.Unlock()
	if f != nil {
		f.Close()
	}
}

func (c *call) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}
