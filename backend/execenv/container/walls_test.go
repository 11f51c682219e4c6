//go:build linux

package container_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/container"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/docker"
	"github.com/glovebox-dev/glovebox/backend/sandbox/namespace"
)

var _ container.Channels = (*lifetime.Manager)(nil)

const engineSocket = "/var/run/docker.sock"

var secret = []byte("the secret of a test")

// wall is a real provider and what a stranger can do to its sandboxes.
type wall struct {
	name sandbox.Wall
	new  func(t *testing.T, dataDir, instance string) sandbox.Provider
	kill func(t *testing.T, ref sandbox.Ref) // the guest, by SIGKILL
}

var walls = []wall{
	{sandbox.WallDocker, newDocker, killContainer},
	{sandbox.WallNamespace, newNamespace, killNamespace},
}

func required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv("GLOVEBOX_TEST_REQUIRE"), ","), name)
}

func newDocker(t *testing.T, dataDir, instance string) sandbox.Provider {
	t.Helper()
	p, err := docker.New(docker.Options{
		DataDir: dataDir, Instance: instance, Secret: secret, Version: "test",
		DefaultImage: "glovebox/tiny:test", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if _, err := p.Ping(t.Context()); err != nil {
		if required("docker") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if _, err := p.ImportTiny(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// engineClient speaks with the engine as a stranger does.
func engineClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", engineSocket)
	}}}
}

func killContainer(t *testing.T, ref sandbox.Ref) {
	t.Helper()
	engine := engineClient()
	defer engine.CloseIdleConnections()
	answer, err := engine.Post("http://engine/containers/"+ref.ID()+"/kill", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		t.Fatalf("kill: %s", answer.Status)
	}
}

func newNamespace(t *testing.T, dataDir, instance string) sandbox.Provider {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if required("bwrap") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	p, err := namespace.New(namespace.Options{DataDir: dataDir, Instance: instance, Secret: secret, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// killNamespace kills the guest of a box, which is the first process in it and
// has the box's id among its arguments.
func killNamespace(t *testing.T, ref sandbox.Ref) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	killed := false
	for _, f := range files {
		args, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(args, []byte(ref.ID())) || !bytes.Contains(args, []byte("\x00serve\x00")) || bytes.Contains(args, []byte("--unshare-all")) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(f, "/")[2])
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed = true
		}
	}
	if !killed {
		t.Fatalf("no guest of %s is running", ref.ID())
	}
}

// place is a root task's sandbox behind a real wall.
type place struct {
	wall      wall
	manager   *lifetime.Manager
	ledger    *ledger
	stranger  sandbox.Provider // another process on the same engine
	dataDir   string
	instance  string
	workspace string
	binding   lifetime.Binding
	env       execenv.Env
	egress    lifetime.Egress // nil for no way out
	states    chan string     // "state cause", of every change that was observed
}

const root = "root"

// everyWall runs a test in a sandbox behind each wall.
func everyWall(t *testing.T, spec sandbox.Spec, test func(t *testing.T, p *place)) {
	for _, w := range walls {
		t.Run(string(w.name), func(t *testing.T) { onWall(t, w, nil, spec, test) })
	}
}

// onWall runs a test in a sandbox behind one wall.
func onWall(t *testing.T, w wall, egress lifetime.Egress, spec sandbox.Spec, test func(t *testing.T, p *place)) {
	t.Helper()
	p := &place{wall: w, ledger: &ledger{}, egress: egress, instance: "test-" + strings.ToLower(rand.Text()[:10])}
	p.states = make(chan string, 100) // more than a test causes
	p.dataDir, p.workspace = directory(t), directory(t)
	if os.Getuid() == 0 { // else commands would be root, and the kill best effort
		if err := os.Chown(p.workspace, 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
	p.stranger = w.new(t, p.dataDir, p.instance)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := p.stranger.Release(ctx, root); err != nil {
			t.Errorf("release: %v", err)
		}
		found, err := p.stranger.(sandbox.Lister).List(ctx)
		if err != nil || len(found) > 0 {
			t.Errorf("left behind: %v, %v", found, err)
		}
	})
	p.manage(t, w.new(t, p.dataDir, p.instance))
	spec.Wall, spec.Workspace = w.name, p.workspace
	var err error
	if p.binding, err = p.manager.Allocate(t.Context(), root, spec, nil); err != nil {
		t.Fatal(err)
	}
	p.env = p.bind(t, execenv.Caller{RootTaskID: root, Generation: 1})
	test(t, p)
}

// directory is a short path, for the sake of sockets, that others may pass.
func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gbx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// manage makes provider's Manager the one of the place, and runs it.
func (p *place) manage(t *testing.T, provider sandbox.Provider) {
	t.Helper()
	m := lifetime.New(lifetime.Options{
		Providers: map[sandbox.Wall]sandbox.Provider{p.wall.name: provider},
		Ledger:    p.ledger, Egress: p.egress, Secret: secret, Log: slog.New(slog.DiscardHandler),
		Observe: func(_ string, _ sandbox.Record, c sandbox.Condition, _ string) {
			p.states <- string(c.Value) + " " + c.Cause
		},
	})
	p.manager = m
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		m.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	select {
	case <-m.Ready():
	case <-time.After(30 * time.Second):
		t.Fatal("the Manager never became ready")
	}
}

// await waits until a state was observed, and returns how long that took.
func (p *place) await(t *testing.T, state string) time.Duration {
	t.Helper()
	began := time.Now()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case s := <-p.states:
			if s == state {
				return time.Since(began)
			}
		case <-timeout:
			t.Fatalf("%q was never observed", state)
		}
	}
}

func (p *place) bind(t *testing.T, c execenv.Caller) execenv.Env {
	t.Helper()
	env, err := container.New(container.Options{Channels: p.manager}).Bind(t.Context(), root, c)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// sh runs a command line to its end.
func sh(t *testing.T, env execenv.Env, line string) (stdout string, o execenv.Outcome) {
	t.Helper()
	o, err := env.Run(t.Context(), execenv.Command{Argv: []string{"sh", "-c", line}, Timeout: time.Minute}, nil)
	if err != nil {
		t.Fatalf("run %q: %v", line, err)
	}
	return string(o.Stdout.Head) + string(o.Stdout.Tail), o
}

// running is a command under way that has printed its first output.
type running struct {
	ended chan struct{}
	o     execenv.Outcome
	err   error
}

func start(ctx context.Context, t *testing.T, env execenv.Env, cmd execenv.Command) *running {
	t.Helper()
	r := &running{ended: make(chan struct{})}
	spoke := make(chan struct{})
	var once sync.Once
	go func() {
		defer close(r.ended)
		r.o, r.err = env.Run(ctx, cmd, func(execenv.Chunk) { once.Do(func() { close(spoke) }) })
	}()
	select {
	case <-spoke:
	case <-r.ended:
		t.Fatalf("the command ended before it spoke: %+v, %v", r.o, r.err)
	case <-time.After(30 * time.Second):
		t.Fatal("the command never spoke")
	}
	return r
}

// wait returns how the command ended and how long that took.
func (r *running) wait(t *testing.T) (execenv.Outcome, time.Duration, error) {
	t.Helper()
	began := time.Now()
	select {
	case <-r.ended:
		return r.o, time.Since(began), r.err
	case <-time.After(20 * time.Second):
		t.Fatal("the command never ended")
		return execenv.Outcome{}, 0, nil
	}
}

// ledger is a lifetime.Ledger in memory.
type ledger struct {
	mu sync.Mutex

	rows []sandbox.Record
}

func (l *ledger) InsertRecord(_ context.Context, r sandbox.Record) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.ID = int64(len(l.rows) + 1)
	l.rows = append(l.rows, r)
	return r.ID, nil
}

func (l *ledger) UpdateRecord(_ context.Context, r sandbox.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.ID < 1 || r.ID > int64(len(l.rows)) {
		return io.ErrUnexpectedEOF
	}
	l.rows[r.ID-1] = r
	return nil
}

func (l *ledger) LiveRecord(ctx context.Context, rootTaskID string) (sandbox.Record, bool, error) {
	rows, _ := l.Records(ctx)
	for _, r := range slices.Backward(rows) {
		if r.RootTaskID == rootTaskID && r.State.Owned() {
			return r, true, nil
		}
	}
	return sandbox.Record{}, false, nil
}

func (l *ledger) Records(context.Context) ([]sandbox.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rows), nil
}
