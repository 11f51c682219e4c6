// Package session is the service behind every screen and verb: it opens
// sessions, drives their turns, and binds them to sandboxes.
//
// A command is an append to the store: [Service.Send], [Service.Answer] and the
// rest record an intent and return; a worker, at most one per root task, folds
// the log and acts. What a worker does is recorded under a generation, so that
// after a crash the next process takes up exactly where the log stops.
package session

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/browser/recording"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// Errors of the service. Callers match them with errors.Is.
var (
	ErrUnknown    = errors.New("there is no such session")
	ErrEnded      = errors.New("the session has ended")
	ErrNotRunning = errors.New("nothing is running in this session")
	ErrBusy       = errors.New("a turn is running; stop it first")
	ErrNoApproval = errors.New("no call of that id waits for a decision")
	ErrNoQuestion = errors.New("no question waits for an answer")
	ErrNotBound   = errors.New("the session has no sandbox")
	ErrNoWork     = errors.New("no snapshot and no fork of this session is being made")
	ErrWorking    = errors.New("a snapshot or a fork of this session is being made; wait for it, or cancel it")
	ErrNoRetry    = errors.New("nothing has failed in this session that could be tried again; send a message to go on")
)

// Options are what a Service is made of. All but Log are needed.
type Options struct {
	Store     *store.Store
	Lifetime  *lifetime.Manager
	Router    *execenv.Router
	Hub       *stream.Hub
	Tools     *tools.Set
	Model     func(name string) (llm.Served, error) // by its configured name
	Default   Defaults
	Host      string                                         // this instance's id
	Workspace func(sessionID string) (dir string, err error) // makes an empty workspace
	// ReleaseLocal ends what a session's commands have left running on the host
	// itself. For a session that never ran there it does nothing.
	ReleaseLocal func(rootTaskID string) error
	HostRunner   execenv.Runner // of this machine, for what a sandbox is compared with
	// RemoveImage removes a snapshot that a fork was to be made of.
	RemoveImage func(ctx context.Context, image string) error
	Recordings  *recording.Library // of browsers; nil keeps none
	HostConfig  HostConfig         // of which a Service asks the policy
	Browsers    Browsers           // nil where no session has one
	LookOnly    bool               // sessions are shown and none is driven
	LeaveTurns  bool               // at its end what runs is left to run on, for the next process to take up
	Log         *slog.Logger
}

// Defaults fill what an Open leaves out.
type Defaults struct {
	Wall  func(ctx context.Context) (sandbox.Wall, error) // sandbox.ErrNoWall says what to install
	Image func(ctx context.Context) (string, error)       // of the docker wall
	Model string
	Spec  sandbox.Spec // user, network and resources

	Plugins []string // what agents are given beside their tools
}

// Service is described at the package. It is made by New, started by Run and
// ended by the end of Run's context.
type Service struct {
	o      Options
	views  *views
	live   *liveBuffers
	egress *egressLog
	panes  panes

	settling chan struct{} // capacity one: whoever holds the token answers a call that waits

	mu      sync.Mutex
	drivers map[string]*driver
	works   map[string]*work    // snapshots and forks that are being made, by root task
	hands   map[string]int      // commands that persons run, by root task
	own     map[string]struct{} // calls that a person made and waits for in this process
	life    context.Context     // of the workers; nil before Run
	closing bool
	work    sync.WaitGroup
}

// New returns a Service that does nothing until Run.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Log = o.Log.With("component", "session")
	s := &Service{o: o, views: newViews(o.Store), live: newLiveBuffers(), settling: make(chan struct{}, 1), drivers: map[string]*driver{}, works: map[string]*work{}, hands: map[string]int{}, own: map[string]struct{}{}}
	s.settling <- struct{}{}
	s.egress = newEgressLog(s.recordEgress)
	s.panes.byRoot = map[string]*hold{}
	return s
}

// Run takes up every session whose log stops in the middle of something, and
// drives sessions until ctx ends. Then it stops the running turns, records them
// as interrupted, and returns; or leaves them, as the Options say.
func (s *Service) Run(ctx context.Context) error {
	defer s.panes.close(whyShutdown)
	if s.o.LookOnly {
		<-ctx.Done()
		return nil
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	s.mu.Lock()
	s.life = life
	s.mu.Unlock()

	err := s.takeUpAll(ctx)
	if err == nil {
		<-ctx.Done()
	}

	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	if s.o.LeaveTurns {
		cancel(execenv.ErrLeave)
	} else {
		cancel(agent.ErrShutdown)
	}
	s.work.Wait()
	return err
}

// takeUpAll wakes every session that has something to go on with, once the
// states of sandboxes are known and what was half made is gone.
func (s *Service) takeUpAll(ctx context.Context) error {
	select {
	case <-s.o.Lifetime.Ready():
	case <-ctx.Done():
		return nil
	}
	views, err := s.views.all(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("read the sessions: %w", err)
	}
	for _, v := range views {
		if err := s.catchUp(ctx, v); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("session not caught up with its sandbox", "session", v.ID, "err", err)
		}
		if v.Status == task.StatusRunning || len(v.Open) > 0 || (v.Bound == nil && v.Detail == "" && v.Status != task.StatusEnded) {
			s.wake(v.ID)
		}
	}
	return nil
}

// catchUp ends what a process that died had begun with a session's sandbox: one
// that the session was given is written down, and one that an ended session still
// has is let go of.
func (s *Service) catchUp(ctx context.Context, v task.Summary) error {
	if v.Status == task.StatusEnded {
		if c, ok := s.o.Lifetime.Condition(v.ID); ok && c.Value.Owned() {
			s.wake(v.ID)
		}
		return nil
	}
	b, ok := s.o.Lifetime.Held(v.ID)
	if !ok || v.Bound == nil || v.Bound.ExecEnvRef == b.Ref {
		return nil
	}
	st, err := s.o.Store.State(ctx, v.ID)
	if err != nil {
		return err
	}
	return s.recordReplaced(ctx, st, "", b)
}

// append writes payloads to a root task's log: the host's own word when
// generation is 0, else that of a take-up, which the store fences.
func (s *Service) append(ctx context.Context, root string, generation int64, payloads ...task.Payload) error {
	return s.appendTo(ctx, root, root, generation, payloads...)
}

// appendTo is append for any task under a root.
func (s *Service) appendTo(ctx context.Context, root, taskID string, generation int64, payloads ...task.Payload) error {
	events, err := encode(root, taskID, generation, payloads)
	if err != nil {
		return err
	}
	if err := s.write(ctx, events); err != nil {
		return err
	}
	s.recordCalls(root, payloads)
	return nil
}

func encode(root, taskID string, generation int64, payloads []task.Payload) ([]task.Event, error) {
	events := make([]task.Event, len(payloads))
	now := time.Now()
	for i, p := range payloads {
		e, err := task.Encode(root, taskID, generation, now, p)
		if err != nil {
			return nil, err
		}
		events[i] = e
	}
	return events, nil
}

// write appends events, of one task or several, all or none.
func (s *Service) write(ctx context.Context, events []task.Event) error {
	_, err := s.o.Store.Append(ctx, events...)
	switch { // the store speaks of tasks
	case errors.Is(err, store.ErrUnknownTask):
		return ErrUnknown
	case errors.Is(err, store.ErrEnded):
		return ErrEnded
	}
	return err
}

// Observe records an observed change of a sandbox; it is what the lifetime
// manager reports to.
func (s *Service) Observe(root string, r sandbox.Record, c sandbox.Condition, detail string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.append(ctx, root, 0, &task.SandboxStateChanged{Condition: c, Ref: r.Ref, Detail: detail})
	if err != nil && !errors.Is(err, ErrUnknown) {
		s.o.Log.Warn("sandbox state not recorded", "session", root, "state", c.Value, "err", err)
	}
	if why := whyEnded(c.Value); why != "" {
		s.endBrowser(root, why)
	}
	if c.Value != sandbox.StateReady {
		return
	}
	// A turn that was parked because its sandbox did not answer goes on.
	if v, err := s.View(ctx, root); err == nil && (v.Status == task.StatusRunning || len(v.Open) > 0) {
		s.wake(root)
	}
}

// newID returns a fresh id: prefix and 10 characters that can be typed.
func newID(prefix string) string {
	b := make([]byte, 10)
	rand.Read(b)
	return prefix + strings.ToLower(base32.StdEncoding.EncodeToString(b))[:10]
}
