package lifetime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// world is an engine with its sandboxes, and the disk with the ledger: what
// survives a Manager. A process that works on it is a host.
type world struct {
	mu sync.Mutex

	rows    []sandbox.Record
	boxes   map[string]*box
	made    int // sandboxes ever made
	silent  bool
	changes map[chan sandbox.Change]bool
	asked   map[string]int // requests to the engine, by verb
}

// box is one sandbox. Its guest is a real server on real connections.
type box struct {
	id, root, instance string
	state              sandbox.State
	cause              string
	boots              int
	deaf               bool // the guest takes connections and says nothing
	running            atomic.Int64
	relayed            atomic.Int64 // relays that were opened
	conns              map[net.Conn]bool
}

func newWorld() *world {
	return &world{boxes: make(map[string]*box), changes: make(map[chan sandbox.Change]bool), asked: make(map[string]int)}
}

var errCrash = errors.New("the process has died")

// host is one process: a Ledger and a Provider over a world, which both stop
// having effects after a number of steps, as a killed process does.
type host struct {
	*world
	mu sync.Mutex

	steps int // until the crash; negative for never
	dead  bool

	elsewhere bool // it looks at another engine than the sandboxes' own

	meanwhile func() // befalls during the next Inspect
}

func (w *world) host(steps int) *host { return &host{world: w, steps: steps} }

// step is called before each effect and reports whether the process still lives.
func (h *host) step() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.steps == 0 {
		h.dead = true
	}
	if h.dead {
		return errCrash
	}
	h.steps--
	return nil
}

func (h *host) alive() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return errCrash
	}
	return nil
}

// ask is a request to the engine.
func (h *host) ask(ctx context.Context, verb string) error {
	if err := h.alive(); err != nil {
		return err
	}
	h.world.mu.Lock()
	h.asked[verb]++
	silent := h.silent
	h.world.mu.Unlock()
	if silent {
		return fmt.Errorf("%s: %w", verb, sandbox.ErrUnreachable)
	}
	return ctx.Err()
}

func (h *host) InsertRecord(_ context.Context, r sandbox.Record) (int64, error) {
	if err := h.step(); err != nil {
		return 0, err
	}
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	r.ID = int64(len(h.rows) + 1)
	h.rows = append(h.rows, r)
	return r.ID, nil
}

func (h *host) UpdateRecord(_ context.Context, r sandbox.Record) error {
	if err := h.step(); err != nil {
		return err
	}
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if r.ID < 1 || int(r.ID) > len(h.rows) {
		return fmt.Errorf("no row %d", r.ID)
	}
	h.rows[r.ID-1] = r
	return nil
}

func (h *host) LiveRecord(_ context.Context, rootTaskID string) (sandbox.Record, bool, error) {
	if err := h.alive(); err != nil {
		return sandbox.Record{}, false, err
	}
	for _, r := range h.records() {
		if r.RootTaskID == rootTaskID && r.State != sandbox.StateReleased && r.State != sandbox.StateFailed {
			return r, true, nil
		}
	}
	return sandbox.Record{}, false, nil
}

func (h *host) Records(context.Context) ([]sandbox.Record, error) {
	if err := h.alive(); err != nil {
		return nil, err
	}
	return h.records(), nil
}

// records returns the rows newest first.
func (w *world) records() []sandbox.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := slices.Clone(w.rows)
	slices.Reverse(rows)
	return rows
}

func (h *host) Allocate(ctx context.Context, rootTaskID string, spec sandbox.Spec) (sandbox.Handle, error) {
	if err := h.ask(ctx, "allocate"); err != nil {
		return sandbox.Handle{}, err
	}
	if spec.Image == "bad" {
		return sandbox.Handle{}, &sandbox.FieldError{Field: "image", Reason: "is bad"}
	}
	if spec.Image == "verbose" {
		return sandbox.Handle{}, errors.New("a long tale " + strings.Repeat("é", 200) + "\nand the last word")
	}
	if spec.Image == "slow" {
		<-ctx.Done()
		return sandbox.Handle{}, ctx.Err()
	}
	if err := h.step(); err != nil {
		return sandbox.Handle{}, err
	}
	b := h.add(rootTaskID, "us")
	b.deaf = spec.Image == "deaf"
	if err := h.step(); err != nil { // made, and nobody was told
		return sandbox.Handle{}, err
	}
	return h.handle(b), nil
}

func (w *world) add(rootTaskID, instance string) *box {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	b := &box{
		id: fmt.Sprintf("box%04d", w.made), root: rootTaskID, instance: instance,
		state: sandbox.StateReady, boots: 1, conns: make(map[net.Conn]bool),
	}
	w.boxes[b.id] = b
	return b
}

func (w *world) handle(b *box) sandbox.Handle {
	return sandbox.Handle{
		BaseURL: "docker://fake", SandboxID: b.id, ShortID: b.id[:7], GuestID: "guest-" + b.id,
		Workdir: "/workspace", Dial: func(context.Context) (net.Conn, error) { return w.dial(b) },
	}
}

func (h *host) find(ref sandbox.Ref) *box {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.boxes[ref.ID()]
}

func (h *host) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Handle, error) {
	if err := h.ask(ctx, "attach"); err != nil {
		return sandbox.Handle{}, err
	}
	b := h.find(ref)
	if b == nil {
		return sandbox.Handle{}, fmt.Errorf("attach %s: %w", ref, sandbox.ErrGone)
	}
	if b.instance != "us" {
		return sandbox.Handle{}, sandbox.ErrForeign
	}
	h.world.mu.Lock()
	if b.state != sandbox.StateReady {
		b.state, b.cause = sandbox.StateReady, ""
		b.boots++
	}
	h.world.mu.Unlock()
	return h.handle(b), nil
}

func (h *host) Release(ctx context.Context, rootTaskID string) error {
	if err := h.ask(ctx, "release"); err != nil {
		return err
	}
	if h.elsewhere {
		return nil // nothing of this root task is here
	}
	for _, f := range h.list() {
		if f.RootTaskID == rootTaskID {
			if err := h.step(); err != nil {
				return err
			}
			h.remove(f.Ref.ID())
		}
	}
	return nil
}

func (h *host) Remove(ctx context.Context, ref sandbox.Ref) error {
	if err := h.ask(ctx, "remove"); err != nil {
		return err
	}
	h.remove(ref.ID())
	return nil
}

func (h *host) Stop(ctx context.Context, ref sandbox.Ref) error {
	if err := h.ask(ctx, "stop"); err != nil {
		return err
	}
	if h.find(ref) == nil {
		return sandbox.ErrGone
	}
	h.halt(ref.ID(), sandbox.StateStopped, sandbox.CauseExited)
	return nil
}

func (h *host) List(ctx context.Context) ([]sandbox.Found, error) {
	if err := h.ask(ctx, "list"); err != nil {
		return nil, err
	}
	return h.list(), nil
}

func (w *world) list() []sandbox.Found {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []sandbox.Found
	for _, b := range w.boxes {
		found = append(found, sandbox.Found{
			Ref: b.ref(), ShortID: b.id[:7], RootTaskID: b.root, Instance: b.instance, Condition: b.condition(),
		})
	}
	return found
}

func (b *box) ref() sandbox.Ref { return sandbox.Ref("docker://fake#" + b.id) }

func (b *box) condition() sandbox.Condition {
	return sandbox.Condition{Value: b.state, Cause: b.cause, ObservedAt: time.Now(), Source: "engine"}
}

func (h *host) Reaches(sandbox.Ref) error {
	if h.elsewhere {
		return fmt.Errorf("the sandbox lives on another engine: %w", sandbox.ErrUnreachable)
	}
	return nil
}

func (h *host) Inspect(ctx context.Context, ref sandbox.Ref) (sandbox.Condition, error) {
	if err := h.ask(ctx, "inspect"); err != nil {
		return sandbox.Condition{}, err
	}
	h.mu.Lock()
	meanwhile := h.meanwhile
	h.meanwhile = nil
	h.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
	}
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if b := h.boxes[ref.ID()]; b != nil {
		return b.condition(), nil
	}
	return sandbox.Condition{Value: sandbox.StateLost, ObservedAt: time.Now(), Source: "engine"}, nil
}

func (h *host) Watch(ctx context.Context, report func(sandbox.Change), relist func()) error {
	changes := make(chan sandbox.Change, 100)
	h.world.mu.Lock()
	h.changes[changes] = true
	h.world.mu.Unlock()
	defer func() {
		h.world.mu.Lock()
		delete(h.changes, changes)
		h.world.mu.Unlock()
	}()
	relist()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-changes:
			report(c)
		}
	}
}

// remove and halt are what befalls a sandbox, by our hand or behind our back.
func (w *world) remove(id string) {
	w.halt(id, sandbox.StateLost, sandbox.CauseRemoved)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.boxes, id)
}

func (w *world) halt(id string, s sandbox.State, cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.boxes[id]
	if b == nil {
		return
	}
	b.state, b.cause = s, cause
	for c := range b.conns {
		c.Close()
	}
	if s == sandbox.StateLost {
		delete(w.boxes, id)
	}
	for c := range w.changes {
		c <- sandbox.Change{Ref: b.ref(), Condition: b.condition()}
	}
}

func (w *world) silence(silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = silent
}

func (w *world) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for verb, k := range w.asked {
		if verb != "list" { // the refresh's, whoever asks
			n += k
		}
	}
	return n
}

func (w *world) times(verb string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[verb]
}

// dial connects to a box's guest, which greets and then speaks HTTP.
func (w *world) dial(b *box) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.state != sandbox.StateReady {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	b.conns[theirs] = true
	boot := fmt.Sprintf("%s-boot%d", b.id, b.boots)
	if b.deaf {
		ours.Close()
		return ours, nil
	}
	hello := wire.Hello{Version: wire.Version, GuestID: "guest-" + b.id, BootID: boot, Hostname: b.id[:7], Workdir: "/workspace"}
	go serveGuest(theirs, hello, &b.running, &b.relayed)
	return ours, nil
}

func serveGuest(c net.Conn, hello wire.Hello, running, relayed *atomic.Int64) {
	defer c.Close()
	greeting, _ := json.Marshal(wire.Greeting{Version: wire.Version, GuestID: hello.GuestID, BootID: hello.BootID, Trusted: true})
	if _, err := c.Write(append(greeting, '\n')); err != nil {
		return
	}
	l := &oneListener{conn: c, closed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathHello, func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(hello) })
	mux.HandleFunc("GET "+wire.PathStats, func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(wire.Stats{PIDs: 7, Processes: int(running.Load())})
	})
	mux.HandleFunc("GET "+wire.PathRelay, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer l.Close() // nothing else comes by this connection
		relayed.Add(1)
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.ProtocolRelay+"\r\n\r\n")
		if session, err := yamux.Client(conn, wire.RelayConfig()); err == nil {
			<-session.CloseChan()
			session.Close()
		}
	})
	s := &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			l.Close()
		}
	}}
	s.Serve(l)
}

// oneListener accepts one connection that is there already.
type oneListener struct {
	mu sync.Mutex

	conn   net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *oneListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	c := l.conn
	l.conn = nil
	l.mu.Unlock()
	if c != nil {
		return c, nil
	}
	<-l.closed
	return nil, io.EOF
}

func (l *oneListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *oneListener) Addr() net.Addr { return &net.UnixAddr{Name: "guest"} }

// told is what Options.Observe was told, for tests to wait on.
type told struct {
	mu sync.Mutex

	seen []string
	wake chan struct{}
}

func (o *told) observe(root string, r sandbox.Record, c sandbox.Condition, _ string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, root+" "+string(c.Value)+" "+c.Cause)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *told) count(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, s := range o.seen {
		if s == what {
			n++
		}
	}
	return n
}

// await waits until Observe has been told what, "root state cause".
func (o *told) await(t *testing.T, what string) {
	t.Helper()
	o.awaitMore(t, what, 0)
}

// awaitMore waits until Observe has been told what more often than before.
func (o *told) awaitMore(t *testing.T, what string, before int) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for o.count(what) <= before {
		select {
		case <-o.wake:
		case <-deadline:
			o.mu.Lock()
			defer o.mu.Unlock()
			t.Fatalf("never observed %q; observed %q", what, o.seen)
		}
	}
}

// newManager returns a Manager over h that is closed with the test. With run it
// also runs, and has reconciled.
func newManager(t *testing.T, h *host, run bool) (*lifetime.Manager, *told) {
	t.Helper()
	o := &told{wake: make(chan struct{}, 1)}
	m := lifetime.New(lifetime.Options{
		Providers: map[sandbox.Wall]sandbox.Provider{sandbox.WallDocker: h},
		Ledger:    h, Secret: []byte("secret"), Log: slog.New(slog.DiscardHandler), Observe: o.observe,
	})
	t.Cleanup(func() { m.Close() })
	if run {
		runManager(t, m)
	}
	return m, o
}

func runManager(t *testing.T, m *lifetime.Manager) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	select {
	case <-m.Ready():
	case <-time.After(10 * time.Second):
		t.Fatal("the Manager never became ready")
	}
}

func docker() sandbox.Spec { return sandbox.Spec{Wall: sandbox.WallDocker, Image: "tiny"} }

func (w *world) states(root string) []sandbox.State {
	var states []sandbox.State
	for _, r := range slices.Backward(w.records()) {
		if r.RootTaskID == root {
			states = append(states, r.State)
		}
	}
	return states
}

func (w *world) there() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for id := range w.boxes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// deafen makes a box's guest break every connection, and reboot restarts it.
func (w *world) deafen(b *box) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.deaf = true
	for c := range b.conns {
		c.Close()
	}
}

func (w *world) reboot(b *box) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.boots++
	for c := range b.conns {
		c.Close()
	}
}
