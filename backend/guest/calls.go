//go:build linux

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/capture"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/journal"
	"github.com/glovebox-dev/glovebox/backend/guest/process"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	maxRunning  = 256     // commands at once
	maxRings    = 8 << 20 // bytes of output that finished calls keep for readers
	maxID       = 256     // bytes of a call id
	maxFinished = 64      // finished calls that stay in memory
	kindRun     = "run"
)

// calls are the commands that the guest knows.
type calls struct {
	cfg     wire.GuestConfig
	boot    string
	env     environment
	table   *process.Table
	journal *journal.Journal
	memory  *memory

	wg sync.WaitGroup // one per running call, and one per stream

	mu        sync.Mutex
	byID      map[string]*call
	finished  []*call // oldest first
	running   int
	lingering map[*process.Mark]*call // finished, with processes that live on
	closed    bool
}

var errUnknownCall = errors.New("the guest does not know this call")

// ended is the journalled outcome of an effect.
type ended struct {
	Outcome *execenv.Outcome `json:"outcome,omitempty"` // of a command
	Body    json.RawMessage  `json:"body,omitempty"`    // of a file operation
	Error   *wire.Error      `json:"error,omitempty"`
	Status  int              `json:"status,omitempty"` // that Error was answered with
}

// start runs a command, or finds it when its id is known: then nothing is run.
func (s *calls) start(caller execenv.Caller, cmd execenv.Command, stdin bool) (*call, error) {
	if err := s.check(&cmd); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if c, ok := s.byID[cmd.Call.ID]; ok {
		s.mu.Unlock()
		<-c.ready
		return c, c.startErr
	}
	if c, err := s.recall(cmd.Call.ID); c != nil || err != nil {
		s.mu.Unlock()
		return c, err
	}
	switch {
	case cmd.Call.Boot != "" && cmd.Call.Boot != s.boot:
		s.mu.Unlock()
		return nil, fmt.Errorf("call %s began in another boot of the sandbox: %w", cmd.Call.ID, execenv.ErrOutcomeUnknown)
	case s.closed:
		s.mu.Unlock()
		return nil, fmt.Errorf("the guest is shutting down: %w", execenv.ErrBusy)
	case s.running >= maxRunning:
		s.mu.Unlock()
		return nil, fmt.Errorf("%d commands run already: %w", s.running, execenv.ErrBusy)
	}
	c := &call{
		id: cmd.Call.ID, root: caller.RootTaskID, argv: shorten(cmd.Argv), startedAt: time.Now(),
		table: s.table, ready: make(chan struct{}), done: make(chan struct{}), killed: make(chan struct{}),
	}
	s.byID[c.id] = c
	s.running++
	s.wg.Add(1)
	s.mu.Unlock()

	if c.startErr = s.launch(c, caller, cmd, stdin); c.startErr != nil {
		s.mu.Lock()
		delete(s.byID, c.id)
		s.running--
		s.mu.Unlock()
		close(c.ready)
		s.wg.Done()
		return nil, c.startErr
	}
	close(c.ready)
	return c, nil
}

// check fills a command in and finds what is wrong with it.
func (s *calls) check(cmd *execenv.Command) error {
	if cmd.Call.ID == "" {
		cmd.Call.ID = newID()
	}
	if len(cmd.Call.ID) > maxID {
		return fmt.Errorf("a call id of %d bytes: %w", len(cmd.Call.ID), execenv.ErrInvalid)
	}
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return fmt.Errorf("a command needs a program: %w", execenv.ErrInvalid)
	}
	for _, a := range slices.Concat(cmd.Argv, cmd.Env, []string{cmd.Dir}) {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("a NUL byte in the command: %w", execenv.ErrInvalid)
		}
	}
	switch cmd.Overflow {
	case "", execenv.OverflowDrop, execenv.OverflowBlock:
	default:
		return fmt.Errorf("overflow %q: %w", cmd.Overflow, execenv.ErrInvalid)
	}
	if cmd.Dir == "" {
		cmd.Dir = s.cfg.Workdir
	}
	if !filepath.IsAbs(cmd.Dir) {
		return fmt.Errorf("directory %q is not absolute: %w", cmd.Dir, execenv.ErrInvalid)
	}
	return nil
}

// shorten cuts arguments to what a list of calls shows of them.
func shorten(argv []string) []string {
	left := 4 << 10
	var short []string
	for _, a := range argv {
		if left <= 0 {
			return append(short, "…")
		}
		if len(a) > left {
			a = strings.ToValidUTF8(a[:left], "") + "…"
		}
		short = append(short, a)
		left -= len(a) + 1
	}
	return short
}

// recall finds an effect of the journal: its call, over and in memory again, or
// the error that answers for it. Both are nil when the id is unknown.
func (s *calls) recall(id string) (*call, error) {
	e, ok := s.journal.Lookup(id)
	if !ok {
		return nil, nil
	}
	if e.Kind != kindRun {
		return nil, fmt.Errorf("call %s was a %s: %w", id, e.Kind, execenv.ErrInvalid)
	}
	if !e.Finished {
		return nil, fmt.Errorf("call %s began at %s: %w", id, e.StartedAt.Format(time.RFC3339), execenv.ErrOutcomeUnknown)
	}
	body, err := s.journal.Outcome(id)
	if err != nil {
		return nil, err
	}
	var end ended
	if err := json.Unmarshal(body, &end); err != nil {
		return nil, fmt.Errorf("read the outcome of call %s: %w", id, err)
	}
	if end.Error != nil {
		return nil, end.Error.Err()
	}
	return overCall(e, *end.Outcome), nil
}

// launch notes the call in the journal and forks it.
func (s *calls) launch(c *call, caller execenv.Caller, cmd execenv.Command, stdin bool) error {
	err := s.journal.Start(journal.Entry{
		ID: c.id, Kind: kindRun, Root: caller.RootTaskID, Generation: caller.Generation,
		Boot: s.boot, Argv: c.argv, StartedAt: c.startedAt,
	})
	if err != nil {
		return err
	}
	before := s.memory.kills()
	failed, err := s.fork(c, cmd, stdin)
	if err != nil {
		e, _ := wire.EncodeError(err)
		return errors.Join(err, s.keep(c.id, ended{Error: &e}))
	}
	if failed != nil {
		failed.Duration = time.Since(c.startedAt)
		s.end(c, *failed)
		s.wg.Done()
		return nil
	}
	go func() {
		defer s.wg.Done()
		o := c.finish(cmd.Timeout, func() []execenv.Process { return s.settle(c) })
		o.OutOfMemory = o.ExitCode == 128+int(unix.SIGKILL) && o.Kill == nil && s.memory.kills() > before
		if o.OutOfMemory {
			o.MemoryLimit = s.memory.limit()
		}
		s.end(c, o)
	}()
	return nil
}

// end makes o the outcome of c, kept in the journal first.
func (s *calls) end(c *call, o execenv.Outcome) {
	c.outcome = o
	_ = s.keep(c.id, ended{Outcome: &o}) // a full disk does not hold the answer back
	s.mu.Lock()
	s.running--
	if s.byID[c.id] == c {
		s.finished = append(s.finished, c)
	}
	s.mu.Unlock()
	close(c.done)
	s.trim()
}

func (s *calls) keep(id string, end ended) error {
	body, err := json.Marshal(end)
	if err != nil {
		return fmt.Errorf("encode the outcome of call %s: %w", id, err)
	}
	return s.journal.Finish(id, body)
}

// fork starts the command with its pipes. A program that cannot be executed is
// no error: the outcome says it as a shell would, with 127 or 126.
func (s *calls) fork(c *call, cmd execenv.Command, stdin bool) (failed *execenv.Outcome, err error) {
	env := slices.Clone(s.env)
	for _, kv := range cmd.Env {
		env.set(kv)
	}
	if !isDir(cmd.Dir) {
		return nil, fmt.Errorf("%s: %w", cmd.Dir, execenv.ErrWorkdirGone)
	}
	path, denied := lookPath(cmd.Argv[0], env.get("PATH"), cmd.Dir)
	switch {
	case path == "" && denied:
		return complain(c, 126, cmd.Argv[0]+": Permission denied\n"), nil
	case path == "":
		return complain(c, 127, cmd.Argv[0]+": not found\n"), nil
	}
	files, err := c.pipes(cmd.Overflow, stdin)
	if err != nil {
		return nil, fmt.Errorf("make the pipes of a command: %w", err)
	}
	c.proc, err = s.table.Start(process.Spec{Path: path, Argv: cmd.Argv, Env: env, Dir: cmd.Dir, Files: files})
	for _, f := range files {
		f.Close() // the command has them now
	}
	if err == nil {
		s.wg.Go(c.out.drain)
		s.wg.Go(c.err.drain)
		return nil, nil
	}
	c.out.r.Close()
	c.err.r.Close()
	c.closeStdin()
	switch {
	case !isDir(cmd.Dir):
		return nil, fmt.Errorf("%s: %w", cmd.Dir, execenv.ErrWorkdirGone)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC):
		// Such as a script whose interpreter is not there.
		return complain(c, 126, fmt.Sprintf("%s: cannot execute: %v\n", path, err)), nil
	case errors.Is(err, unix.EAGAIN):
		return nil, fmt.Errorf("start %s: no more processes: %w", cmd.Argv[0], execenv.ErrBusy)
	case errors.Is(err, unix.E2BIG):
		return nil, fmt.Errorf("start %s: arguments and environment: %w", cmd.Argv[0], execenv.ErrTooLarge)
	}
	return nil, fmt.Errorf("start %s: %w", cmd.Argv[0], err)
}

// isDir reports whether path is a directory. One that was removed on the host
// while it was mounted here can still be entered, but no name leads to it any
// more and nothing can be made in it: that is none.
func isDir(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Nlink > 0
}

// complain makes c one that ended with code before it began.
func complain(c *call, code int, text string) *execenv.Outcome {
	o := &execenv.Outcome{ExitCode: code, Background: []execenv.Process{}}
	o.Stdout, o.Stderr = captured(""), captured(text)
	c.out, c.err = restored(o.Stdout), restored(o.Stderr)
	return o
}

func captured(text string) execenv.Captured {
	s := capture.New(execenv.OverflowDrop)
	_, _ = s.Write([]byte(text))
	s.Close()
	return s.Captured()
}

// settle notes that the first process of c is gone, returns what lives on, and
// frees the marks of all calls that nothing lives on of.
func (s *calls) settle(c *call) []execenv.Process {
	s.mu.Lock()
	s.lingering[c.proc.Mark] = c
	marks := slices.Collect(maps.Keys(s.lingering))
	s.mu.Unlock()
	carried := s.table.Sweep(marks)
	s.mu.Lock()
	for _, m := range marks {
		if _, ok := carried[m]; !ok {
			delete(s.lingering, m)
		}
	}
	s.mu.Unlock()
	if ps := carried[c.proc.Mark]; ps != nil {
		return ps[:min(len(ps), process.MaxNamed)]
	}
	return []execenv.Process{}
}

// trim lets go of output that finished calls keep for readers, and of all but
// the last finished calls: the journal has their outcomes.
func (s *calls) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := 0
	for i, c := range slices.Backward(s.finished) {
		held += c.out.Held() + c.err.Held()
		if held > maxRings {
			c.out.Release()
			c.err.Release()
		}
		if len(s.finished)-i > maxFinished {
			delete(s.byID, c.id)
		}
	}
	if n := len(s.finished) - maxFinished; n > 0 {
		s.finished = slices.Delete(s.finished, 0, n)
	}
}

// find returns a call that was started before.
func (s *calls) find(id string) (*call, error) {
	s.mu.Lock()
	c, ok := s.byID[id]
	s.mu.Unlock()
	if ok {
		<-c.ready
		return c, c.startErr
	}
	c, err := s.recall(id)
	if c == nil && err == nil {
		err = errUnknownCall
	}
	return c, err
}

// kill ends a call's processes, also those in the background of a finished one.
func (s *calls) kill(id, cause string) (execenv.KillReport, error) {
	s.mu.Lock()
	for _, c := range s.lingering {
		if c.id == id {
			s.mu.Unlock()
			return c.kill(cause, false), nil
		}
	}
	s.mu.Unlock()
	c, err := s.find(id)
	if err != nil {
		return execenv.KillReport{}, err
	}
	return c.kill(cause, false), nil
}

// ack forgets a finished call. One that runs is kept, and so is a started one
// of another boot until the host says that it knows.
func (s *calls) ack(id string) error {
	s.mu.Lock()
	c, ok := s.byID[id]
	if ok && c.running() {
		s.mu.Unlock()
		return fmt.Errorf("call %s is running: %w", id, execenv.ErrInvalid)
	}
	delete(s.byID, id)
	s.finished = slices.DeleteFunc(s.finished, func(f *call) bool { return f == c })
	s.mu.Unlock()
	return s.journal.Forget(id)
}

// list returns every command that is known, oldest first.
func (s *calls) list() []wire.CallInfo {
	infos := []wire.CallInfo{}
	for _, e := range s.journal.Entries() {
		if e.Kind != kindRun {
			continue
		}
		s.mu.Lock()
		c := s.byID[e.ID]
		s.mu.Unlock()
		infos = append(infos, wire.CallInfo{
			ID: e.ID, Root: e.Root, Argv: e.Argv, StartedAt: e.StartedAt,
			Running: c != nil && c.running(),
		})
	}
	slices.SortFunc(infos, func(a, b wire.CallInfo) int { return a.StartedAt.Compare(b.StartedAt) })
	return infos
}

func (s *calls) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// shutdown kills every call, refuses new ones and waits for the outcomes.
func (s *calls) shutdown(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.byID))
	for _, c := range s.lingering {
		all = append(all, c)
	}
	s.mu.Unlock()
	var kills sync.WaitGroup
	for _, c := range all {
		kills.Go(func() { c.kill("shutdown", false) })
	}
	done := make(chan struct{})
	go func() {
		kills.Wait()
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done(): // a process that does not die keeps its goroutines
	}
}
