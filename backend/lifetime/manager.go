package lifetime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Every call to a provider, a guest or the ledger ends by itself.
const (
	ledgerTimeout   = 10 * time.Second
	inspectTimeout  = 5 * time.Second // "not answering" is shown within it
	attachTimeout   = 25 * time.Second
	helloTimeout    = 5 * time.Second
	stopTimeout     = 30 * time.Second
	releaseTimeout  = 60 * time.Second
	allocateTimeout = 5 * time.Minute // between two steps: a pull takes as long as it goes on
)

// ErrClosed is what a closed Manager answers.
var ErrClosed = errors.New("the sandbox manager is closed")

// Options are what a Manager is made of.
type Options struct {
	Providers map[sandbox.Wall]sandbox.Provider
	Ledger    Ledger
	Secret    []byte // guests' keys are derived from it
	Egress    Egress // of sandboxes in mode proxy; nil leaves them without a way out

	// IdleStop is how long nothing has to run in a sandbox, and nobody to use it,
	// before it is stopped; it is never removed for that. 0 means never.
	IdleStop time.Duration
	// Busy reports whether somebody uses a root task's sandbox right now in a way
	// that the guest does not see. It may be nil.
	Busy func(rootTaskID string) bool

	// LookOnly has Run look at the sandboxes and change nothing: it ends, removes,
	// stops and attaches to none, and leaves the ledger as it is.
	LookOnly bool

	Log *slog.Logger

	// Observe is told of every change of an observed condition's value or
	// cause, in order and from one goroutine at a time per root task. It must
	// not block for long, nor call an operation of the Manager.
	Observe func(rootTaskID string, r sandbox.Record, c sandbox.Condition, detail string)
}

// Binding is a root task's sandbox with its channel open.
type Binding struct {
	Record  sandbox.Record
	Ref     sandbox.Ref
	ShortID string
	Workdir string
	Hello   wire.Hello
}

// Manager owns the life of every sandbox. Its methods may be called from several
// goroutines at once, Run among them.
type Manager struct {
	providers map[sandbox.Wall]sandbox.Provider
	ledger    Ledger
	secret    []byte
	egress    Egress
	idleStop  time.Duration
	busy      func(string) bool
	lookOnly  bool
	log       *slog.Logger
	observe   func(string, sandbox.Record, sandbox.Condition, string)

	ready chan struct{}
	life  context.Context
	end   context.CancelFunc
	work  sync.WaitGroup // operations and looks under way

	bindings flights[Binding]
	looks    flights[sandbox.Condition]

	mu sync.Mutex

	roots     map[string]*root
	reopening map[sandbox.Wall]bool // relays of a wall are being opened again
	running   bool
	closed    bool
}

// New returns a Manager that knows nothing until Run has read the ledger, but
// whose operations work at once.
func New(o Options) *Manager {
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	life, end := context.WithCancel(context.Background())
	return &Manager{
		providers: o.Providers,
		ledger:    o.Ledger,
		secret:    o.Secret,
		egress:    o.Egress,
		idleStop:  o.IdleStop,
		busy:      o.Busy,
		lookOnly:  o.LookOnly,
		log:       log.With("component", "lifetime"),
		observe:   o.Observe,
		ready:     make(chan struct{}),
		life:      life,
		end:       end,
		roots:     make(map[string]*root),
		reopening: make(map[sandbox.Wall]bool),
	}
}

// Ready is closed when Run has reconciled the ledger with the engines.
func (m *Manager) Ready() <-chan struct{} { return m.ready }

// Close ends what is under way and closes every channel. Sandboxes stay as they
// are. It is idempotent.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.work.Wait()

	m.mu.Lock()
	var open []*client.Client
	for _, r := range m.roots {
		if r.client != nil {
			open = append(open, r.client)
			r.client = nil
		}
	}
	m.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	return nil
}

// begin counts an operation in; ctx also ends when the Manager is closed.
func (m *Manager) begin(ctx context.Context) (context.Context, func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, ErrClosed
	}
	m.work.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.life, cancel)
	return ctx, func() {
		stop()
		cancel()
		m.work.Done()
	}, nil
}

// provider returns the provider of a wall.
func (m *Manager) provider(w sandbox.Wall) (sandbox.Provider, error) {
	if p, ok := m.providers[w]; ok {
		return p, nil
	}
	if w == sandbox.WallLocal {
		return nil, fmt.Errorf("the local wall has no sandbox: %w", sandbox.ErrUnsupported)
	}
	return nil, fmt.Errorf("wall %q: %w; see glovebox doctor", w, sandbox.ErrNoWall)
}

// Condition returns what was last observed of a root task's sandbox, and when.
func (m *Manager) Condition(rootTaskID string) (sandbox.Condition, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.roots[rootTaskID]
	if !ok || r.cond.Value == "" {
		return sandbox.Condition{}, false
	}
	return r.cond, true
}

// Held returns the sandbox that a root task has, as the ledger and the last look
// at it say; its channel need not be open.
func (m *Manager) Held(rootTaskID string) (Binding, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.roots[rootTaskID]
	if !ok || !r.rec.State.Held() || r.rec.Ref == "" {
		return Binding{}, false
	}
	return r.bindingLocked(), true
}

// Describe reads back from the engine what a root task's sandbox is.
func (m *Manager) Describe(ctx context.Context, rootTaskID string) (sandbox.Description, error) {
	rec, ok, err := m.live(ctx, rootTaskID)
	if err != nil {
		return sandbox.Description{}, err
	}
	if !ok || rec.Ref == "" {
		return sandbox.Description{}, errNone(rootTaskID)
	}
	p, err := m.provider(rec.Wall)
	if err != nil {
		return sandbox.Description{}, err
	}
	d, ok := p.(sandbox.Describer)
	if !ok {
		return sandbox.Description{}, fmt.Errorf("describe a %s sandbox: %w", rec.Wall, sandbox.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	desc, err := d.Describe(ctx, rec.Ref)
	if err != nil {
		return sandbox.Description{}, fmt.Errorf("describe the sandbox: %w", err)
	}
	return desc, nil
}

// Stats reads the use of a root task's sandbox from its guest.
func (m *Manager) Stats(ctx context.Context, rootTaskID string) (wire.Stats, error) {
	c, _, err := m.Client(ctx, rootTaskID)
	if err != nil {
		return wire.Stats{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return c.Stats(ctx)
}

func errLedger(verb, rootTaskID string, err error) error {
	return fmt.Errorf("%s the sandbox ledger of task %s: %w", verb, rootTaskID, err)
}

func errNone(rootTaskID string) error {
	return fmt.Errorf("session %s has no sandbox; re-provision the session: %w", rootTaskID, sandbox.ErrGone)
}

// clip makes one short line of a cause that came out of an error, cut on a rune's
// border. The whole error goes where details go.
func clip(s string) string {
	const most = 160
	line, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	line = strings.TrimSpace(line)
	if len(line) > most {
		line, more = strings.ToValidUTF8(line[:most], ""), true
	}
	if more {
		line += "…"
	}
	return line
}
