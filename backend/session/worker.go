package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// driver is the one worker of a root task. Its fields are guarded by Service.mu.
type driver struct {
	root       string
	generation int64 // 0 until this process has taken the task up
	running    bool
	again      bool                    // woken while running
	nudge      chan struct{}           // the same, for a turn that waits to ask its model again; of capacity one: a nudge that is on its way covers the next
	cancel     context.CancelCauseFunc // of the step under way
	uproot     context.CancelCauseFunc // of the re-provision under way
	stop       error                   // asked for between two steps
	browsing   chan struct{}           // of capacity one: held by the subtask whose turn it is with the browser
	parked     bool                    // its sandbox could not be made, and nobody has asked for it since
	step       *sandbox.Step           // of an allocation under way, else nil; never written to
}

// driverOf returns the driver of a root task. s.mu is held.
func (s *Service) driverOf(root string) *driver {
	d, ok := s.drivers[root]
	if !ok {
		d = &driver{root: root, nudge: make(chan struct{}, 1), browsing: make(chan struct{}, 1)}
		s.drivers[root] = d
	}
	return d
}

// wake has the root task's worker look at the log.
func (s *Service) wake(root string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil || s.closing {
		return // Run wakes whatever has work once it starts
	}
	d := s.driverOf(root)
	if d.running {
		d.again = true
		select {
		case d.nudge <- struct{}{}:
		default:
		}
		return
	}
	d.running = true
	s.work.Go(func() { s.drive(d) })
}

func (s *Service) drive(d *driver) {
	for {
		ctx, done := s.begin(d)
		err := s.advance(ctx, d)
		done()
		if err != nil && !errors.Is(err, context.Canceled) {
			s.o.Log.Warn("session step", "session", d.root, "err", err)
		}
		busy := errors.Is(err, store.ErrBusy) && s.pause(storeRetry)
		s.mu.Lock()
		d.again = d.again || busy
		if !d.again || s.closing {
			d.running = false
			s.mu.Unlock()
			return
		}
		d.again = false
		s.mu.Unlock()
	}
}

// storeRetry is how long a worker whose log could not be written waits before it
// takes its task up again. What it had started is found by call id.
const storeRetry = time.Second

// pause waits, and reports whether there is still something to do afterwards.
func (s *Service) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.life.Done():
		return false
	}
}

// begin returns the context of one step, which Interrupt can cancel.
func (s *Service) begin(d *driver) (context.Context, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	life := s.life
	if d.stop != nil { // which counts, also when the service ends meanwhile
		life = context.WithoutCancel(life)
	}
	ctx, cancel := context.WithCancelCause(life)
	d.cancel = cancel
	if d.stop != nil {
		cancel(d.stop)
		d.stop = nil
	}
	return ctx, func() {
		s.mu.Lock()
		d.cancel = nil
		s.mu.Unlock()
		cancel(nil)
		s.live.drop(d.root)
	}
}

// advance does what the log asks for: take the task up, bind it, finish calls
// that a person made before a crash, run a turn.
func (s *Service) advance(ctx context.Context, d *driver) error {
	j, err := s.takeUp(ctx, d)
	if err != nil {
		return err
	}
	if j.State().Status == task.StatusEnded {
		return s.release(context.WithoutCancel(ctx), d.root, lifetimeRemove)
	}
	if err := s.bind(ctx, d, j); err != nil || j.State().Bound == nil {
		return err
	}
	if err := s.finishPersonCalls(ctx, j); err != nil {
		return err
	}
	if goesOn(j.State()) && ctx.Err() == nil {
		if err := j.Append(ctx, &task.TaskWoken{Cause: "take-up"}); err != nil {
			return err
		}
	}
	if j.State().Status != task.StatusRunning {
		return nil
	}
	if err := s.rouse(ctx, d.root); err != nil {
		s.o.Log.Warn("idle sandbox not started", "session", d.root, "err", err) // its calls say why
	}
	return s.turn(ctx, d, j)
}

// goesOn reports whether a turn that has ended has more to do after all: a call
// whose sandbox did not answer, or a message that came while the turn ended. One
// that was stopped has not.
func goesOn(st *task.State) bool {
	switch {
	case st.Status != task.StatusIdle:
		return false
	case st.Suspended == task.TurnFailed:
		return len(st.Unsettled()) > 0
	case st.Suspended == task.WaitingHuman:
		return st.NeedsModel()
	}
	return false
}

// takeUp opens the task's journal under this process's generation.
func (s *Service) takeUp(ctx context.Context, d *driver) (*journal, error) {
	ctx = context.WithoutCancel(ctx) // a stop does not undo a take-up
	s.mu.Lock()
	generation := d.generation
	s.mu.Unlock()
	if generation == 0 {
		n, err := s.o.Store.RaiseGeneration(ctx, d.root)
		if err != nil {
			return nil, fmt.Errorf("take up: %w", err)
		}
		generation = n
		s.mu.Lock()
		d.generation = n
		s.mu.Unlock()
		if v, err := s.View(ctx, d.root); err == nil && v.Status != task.StatusEnded {
			if err := s.append(ctx, d.root, n, &task.LeaseGranted{Generation: n, HostID: s.o.Host}); err != nil {
				return nil, fmt.Errorf("take up: %w", err)
			}
		}
	}
	st, err := s.o.Store.State(ctx, d.root)
	if err != nil {
		return nil, err
	}
	return &journal{service: s, root: d.root, task: d.root, generation: generation, state: st}, nil
}

// bind gives a task that has never had one its sandbox. A task that has had one
// is never given another without the user's word, nor is one whose making failed
// or was stopped: whoever had woken the worker before did not know of that.
func (s *Service) bind(ctx context.Context, d *driver, j *journal) error {
	st := j.State()
	if st.Bound != nil {
		return nil
	}
	spec := st.Created.Spec
	if spec.Wall == sandbox.WallLocal {
		return j.Append(ctx, &task.TaskHostBound{HostID: s.o.Host, WorkspaceDir: st.Created.Workspace, Wall: spec.Wall, ByPolicy: st.Created.ByPolicy})
	}
	s.mu.Lock()
	parked := d.parked
	s.mu.Unlock()
	if parked && st.Status != task.StatusRunning {
		return nil
	}
	b, err := s.o.Lifetime.Allocate(ctx, d.root, spec, s.stepReporter(d))
	s.endSteps(d)
	if err != nil {
		return s.parkUnbound(ctx, d, j, err)
	}
	return j.Append(context.WithoutCancel(ctx), s.bound(st, b, false))
}

// parkUnbound records that a task could not get its sandbox.
func (s *Service) parkUnbound(ctx context.Context, d *driver, j *journal, cause error) error {
	if end := context.Cause(ctx); errors.Is(end, agent.ErrShutdown) || errors.Is(end, execenv.ErrLeave) {
		return cause // the next start goes on with it
	}
	stopped := errors.Is(context.Cause(ctx), agent.ErrStop)
	ctx = context.WithoutCancel(ctx)
	hasTurn := j.State().Status == task.StatusRunning
	suspended := &task.TaskSuspended{Reason: task.NoSandbox, WakeOn: task.WakeNextGoal, Detail: cause.Error()}
	payloads := []task.Payload{suspended}
	switch {
	case stopped:
		suspended.Reason, suspended.Detail = task.Interrupted, lifetime.ErrCalledOff.Error()
		if hasTurn {
			payloads = []task.Payload{&task.TurnInterrupted{Cause: "stop"}, suspended}
		}
	case hasTurn:
		suspended.Reason = task.TurnFailed
	}
	s.park(d, true) // first: whoever reads that it failed may ask again
	if err := j.Append(ctx, payloads...); err != nil {
		s.park(d, false)
		return err
	}
	return cause
}

// park notes whether a task waits for somebody to ask for its sandbox.
func (s *Service) park(d *driver, parked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.parked = parked
}

// turn is what the tasks of one turn of a session are driven with: its own, and
// those that this hands work to.
type turn struct {
	service *Service
	driver  *driver
	created task.TaskCreated // of the session
	model   llm.Served
	place   agent.Place
	browser bool // the sandbox has one, and one of the tasks may use it
	caller  execenv.Caller
}

func (s *Service) turn(ctx context.Context, d *driver, j *journal) error {
	st := j.State()
	park := func(err error) error {
		return j.Append(context.WithoutCancel(ctx), &task.TaskSuspended{
			Reason: task.TurnFailed, WakeOn: task.WakeNextGoal, Detail: err.Error() + "; retry, or send a message, to go on from here",
		})
	}
	model, err := s.o.Model(st.Created.Model)
	if err != nil {
		return park(err)
	}
	preset, err := agent.PresetOf(st.Created.Agent)
	if err != nil {
		return park(err)
	}
	t := &turn{
		service: s, driver: d, created: st.Created, model: model, place: placeOf(st),
		caller: execenv.Caller{RootTaskID: d.root, Generation: j.generation},
	}
	_, noPages := preset.Subagent(agent.WebPreset)
	t.browser = (noPages == nil || preset.Browses(t.plugged(st))) && s.HasBrowser(ctx, d.root)
	outcome, err := agent.Run(ctx, j, t.options(j, preset))
	if err != nil {
		return fmt.Errorf("turn: %w", err)
	}
	s.o.Log.Debug("turn ended", "session", d.root, "outcome", outcome)
	if goesOn(j.State()) && outcome == agent.Done {
		s.wake(d.root)
	}
	if j.State().Status == task.StatusEnded {
		return s.release(context.WithoutCancel(ctx), d.root, lifetimeRemove)
	}
	return nil
}

// options say how a task of the turn is driven. Its agent has the browser when
// that is its to use and the sandbox has one.
func (t *turn) options(j *journal, preset agent.Preset) agent.Options {
	s, root := t.service, t.driver.root
	own, place := preset.Tools(s.o.Tools), t.place
	if t.browser && preset.Browses(t.plugged(j.State())) {
		own, place.Browser = own.With(tools.Browser()...), true
	}
	return agent.Options{
		Model:     t.model,
		ModelName: t.created.Model,
		System:    preset.System(place, own),
		Tools:     own,
		Env:       t.env,
		Browser:   s.agentBrowser(root),
		Subtasks:  &subtasks{turn: t, journal: j, preset: preset},
		Approvals: t.created.Approvals,
		Live:      s.publish,
		Ack:       func(ctx context.Context, callID string) error { return s.ack(ctx, root, callID) },
		OneShot:   j.State().Created.OneShot,
		Wake:      t.driver.nudge,
		NewCallID: newCallID,
		Log:       s.o.Log.With("session", root),
	}
}

// plugged reports whether a task is to have the browser.
func (t *turn) plugged(st *task.State) bool {
	return slices.Contains(st.Created.Plugins, task.PluginBrowser)
}

// env opens the place that the session is bound to now, for any of its tasks.
func (t *turn) env(ctx context.Context) (execenv.Env, error) {
	v, err := t.service.View(ctx, t.driver.root)
	if err != nil {
		return nil, err
	}
	return t.service.env(ctx, v.Bound, t.driver.root, t.caller)
}

// env opens the place a task is bound to.
func (s *Service) env(ctx context.Context, bound *task.TaskHostBound, root string, c execenv.Caller) (execenv.Env, error) {
	if bound == nil {
		return nil, ErrNotBound
	}
	return s.o.Router.Env(ctx, string(bound.Wall), root, c)
}

// ack tells the guest that a call's result is stored. A guest that cannot be
// told keeps the result a little longer; nothing is lost.
func (s *Service) ack(ctx context.Context, root, callID string) error {
	c, _, err := s.o.Lifetime.Client(ctx, root)
	if err != nil {
		return err
	}
	return c.Ack(ctx, callID)
}

// placeOf says where a session's tools run, as its agent is told.
func placeOf(st *task.State) agent.Place {
	spec := st.Created.Spec
	at := agent.Place{
		Name: "a sealed container", Workdir: spec.WorkdirOrDefault(),
		Network: sandbox.Network{Mode: sandbox.NetworkNone, Allow: spec.Network.Allow},
	}
	if st.Bound != nil {
		at.Network.Mode = sandbox.NetworkMode(st.Bound.Network)
	}
	if spec.Adopt != "" {
		at.Name = "a container that was there before you, and is not yours: what you change in it stays"
	}
	switch spec.Wall {
	case sandbox.WallNamespace:
		at.Name = "a sealed sandbox of Linux namespaces"
	case sandbox.WallRemote:
		at.Name = "a remote machine that others may be using at the same time"
		at.Workdir = remoteWorkdir(st)
	case sandbox.WallLocal:
		at = agent.Place{Name: "the person's own machine", Workdir: st.Created.Workspace, Host: true}
	}
	return at
}

// remoteWorkdir is where a remote sandbox works: it says so itself when it is
// bound.
func remoteWorkdir(st *task.State) string {
	if st.Bound != nil && st.Bound.Workdir != "" {
		return st.Bound.Workdir
	}
	return st.Created.Spec.WorkdirOrDefault()
}

func newCallID() string { return newID("c-") }

// notice is a message of the host to the model.
func notice(text string) *task.MessagesAppended {
	return &task.MessagesAppended{Notice: true, Messages: []llm.Message{llm.Text(llm.RoleUser, text)}}
}
