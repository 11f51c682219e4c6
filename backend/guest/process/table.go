//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Options say how commands run.
type Options struct {
	Tag    wire.Tag
	UID    int
	GID    int
	Groups []int // the user's own, without GID

	// FirstTag and LastTag are the groups that mark calls, where Tag is
	// wire.TagGroup; 0 are those of a guest that has a container to itself.
	FirstTag, LastTag int

	// KeepFileCaps leaves CHOWN, DAC_OVERRIDE, FOWNER and FSETID to commands of
	// uid 0, so that a package manager works. Everything else is always dropped.
	KeepFileCaps bool

	// Raise runs a function with all capabilities that the guest holds; nil
	// calls it plainly, for a guest whose threads are never lowered.
	Raise func(func())
}

// Table is the guest's children. Make it with New.
type Table struct {
	o        Options
	self     int
	raise    func(func())
	marks    *marks
	spawns   chan spawn
	kills    chan struct{} // a token per kill that is at work
	warnings []string

	life chan struct{} // closed by Close
	wg   sync.WaitGroup

	forking sync.Mutex // a child is not reaped before it is in children

	mu       sync.Mutex
	children map[int]*Process
}

// Process is the first process of a command.
type Process struct {
	PID  int
	Mark *Mark

	done   chan struct{}
	status syscall.WaitStatus
}

// Done is closed when the process has been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status is how the process ended. It is valid after Done.
func (p *Process) Status() syscall.WaitStatus { return p.status }

// New starts a Table: from here on it reaps every child of this process.
func New(o Options) (*Table, error) {
	t := &Table{
		o:        o,
		self:     os.Getpid(),
		raise:    o.Raise,
		spawns:   make(chan spawn),
		kills:    make(chan struct{}, KillsAtOnce),
		life:     make(chan struct{}),
		children: map[int]*Process{},
	}
	if t.raise == nil {
		t.raise = func(f func()) { f() }
	}
	if t.self != 1 {
		// Orphans of commands come to us, as they would to an init.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("become a subreaper: %w", err)
		}
	}
	child := make(chan os.Signal, 1) // one wake is enough: a wake reaps all
	signal.Notify(child, unix.SIGCHLD)
	ready := make(chan spawnerState)
	t.wg.Go(func() { t.spawner(ready) })
	state := <-ready
	t.warnings = state.warnings
	t.marks = newMarks(state.tag, uint64(o.FirstTag), uint64(o.LastTag))
	t.wg.Go(func() {
		defer signal.Stop(child)
		for {
			t.reap()
			select {
			case <-child:
			case <-t.life:
				return
			}
		}
	})
	return t, state.err
}

// Tag is how commands are known here, and BestEffort that one can shed it.
func (t *Table) Tag() (tag wire.Tag, bestEffort bool) {
	switch t.marks.tag {
	case wire.TagUTS:
		return t.marks.tag, false
	case wire.TagGroup:
		return t.marks.tag, t.o.KeepFileCaps // without capabilities nobody changes groups, uid 0 neither
	}
	return t.marks.tag, true
}

// Warnings are the protections that the kernel refused to set up.
func (t *Table) Warnings() []string { return t.warnings }

// Close stops forking and reaping. Commands that run are left alone.
func (t *Table) Close() {
	close(t.life)
	t.wg.Wait()
}

// Ended reports whether a process has ended, also where its end was not heard of yet.
func (t *Table) Ended(p *Process) bool {
	t.reap()
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (t *Table) reap() {
	for {
		t.forking.Lock()
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		t.forking.Unlock()
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		t.mu.Lock()
		p := t.children[pid]
		delete(t.children, pid)
		t.mu.Unlock()
		if p != nil {
			p.status = status
			close(p.done)
		}
	}
}

// Spec is one command to start. Path is the file to execute.
type Spec struct {
	Path  string
	Argv  []string
	Env   []string
	Dir   string
	Files [3]*os.File
	More  []*os.File // descriptors 3 and up

	Terminal bool // Files[0] becomes the controlling terminal
}

type spawn struct {
	Spec
	result chan spawned
}

type spawned struct {
	p   *Process
	err error
}

// ErrClosed means that the Table was closed.
var ErrClosed = errors.New("the process table is closed")

// A process that was killed counts against the limit of processes until it is
// reaped, which for hundreds of them takes a moment: a Start that finds no room
// asks again for forkTime.
const (
	forkTime  = time.Second
	forkAgain = 10 * time.Millisecond
)

// Start forks a command. The error is that of the system call that refused.
func (t *Table) Start(s Spec) (*Process, error) {
	r := t.spawn(s)
	for end := time.Now().Add(forkTime); errors.Is(r.err, unix.EAGAIN) && time.Now().Before(end); r = t.spawn(s) {
		select {
		case <-time.After(forkAgain):
		case <-t.life:
			return nil, ErrClosed
		}
	}
	if r.err == nil {
		// The command should die of memory before the guest does. Its files in
		// /proc belong to its user, whose rights this thread has.
		_ = os.WriteFile(procPath(r.p.PID, "oom_score_adj"), []byte("500"), 0)
	}
	return r.p, r.err
}

// spawn asks the spawner for one fork.
func (t *Table) spawn(s Spec) spawned {
	req := spawn{s, make(chan spawned, 1)}
	select {
	case t.spawns <- req:
		return <-req.result
	case <-t.life:
		return spawned{err: ErrClosed}
	}
}

// spawner serves Start from a thread that commands may inherit from. The
// thread ends with it.
func (t *Table) spawner(ready chan<- spawnerState) {
	runtime.LockOSThread()
	var state spawnerState
	t.raiseForGood(&state)
	prepareThread(t.o, &state)
	ready <- state
	for {
		select {
		case req := <-t.spawns:
			p, err := t.fork(req.Spec, state)
			req.result <- spawned{p, err}
		case <-t.life:
			return
		}
	}
}

func (t *Table) fork(s Spec, state spawnerState) (*Process, error) {
	attr := &syscall.ProcAttr{
		Dir:   s.Dir,
		Env:   s.Env,
		Files: []uintptr{s.Files[0].Fd(), s.Files[1].Fd(), s.Files[2].Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: s.Terminal},
	}
	for _, f := range s.More {
		attr.Files = append(attr.Files, f.Fd())
	}
	var mark *Mark
	var err error
	switch state.tag {
	case wire.TagUTS:
		// The thread moves to a new namespace, which the child inherits and
		// whose inode is known before the child can run.
		if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
			return nil, fmt.Errorf("make a UTS namespace: %w", err)
		}
		mark, err = t.marks.namespace()
	case wire.TagGroup:
		if mark, err = t.marks.group(t.used); err != nil {
			return nil, err
		}
		groups := make([]uint32, 0, len(t.o.Groups)+1)
		for _, g := range t.o.Groups {
			groups = append(groups, uint32(g))
		}
		attr.Sys.Credential = &syscall.Credential{
			Uid: uint32(t.o.UID), Gid: uint32(t.o.GID), Groups: append(groups, uint32(mark.key)),
		}
		if state.apart {
			attr.Sys.Unshareflags = apart
		}
	default:
		if mark, err = t.marks.group(t.used); err == nil {
			attr.Env = append(attr.Env[:len(attr.Env):len(attr.Env)], tagVariable+strconv.FormatUint(mark.key, 10))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("tag a command: %w", err)
	}
	t.forking.Lock()
	defer t.forking.Unlock()
	pid, err := syscall.ForkExec(s.Path, s.Argv, attr)
	if err != nil {
		t.marks.release(mark)
		return nil, err
	}
	p := &Process{PID: pid, Mark: mark, done: make(chan struct{})}
	t.mu.Lock()
	t.children[pid] = p
	t.mu.Unlock()
	return p, nil
}
