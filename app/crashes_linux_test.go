package app

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// crashes are the servers of one data directory, each but the last of which is
// killed.
type crashes struct {
	t      *testing.T
	wall   sandbox.Wall
	image  string // whose containers have a volume each
	data   string
	engine *engineProxy
	s      *server
	trap   *trap
	kills  int

	seen      map[string]bool // ids of boxes that there ever were
	volumes   map[string]bool // of our containers, that there ever were
	gone      map[string]bool // sandboxes that were kept, and then removed by hand
	strangers []string        // containers that nobody should touch
	looked    []string        // how those looked
	other     *server         // of another data directory, with a session
	otherID   string
	otherPID  int
}

func newCrashes(t *testing.T, wall sandbox.Wall) *crashes {
	c := &crashes{t: t, wall: wall, data: dataDir(t), engine: newEngineProxy(t),
		seen: map[string]bool{}, volumes: map[string]bool{}, gone: map[string]bool{}}
	c.other = start(t, dataDir(t))
	c.otherID = c.other.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
	c.otherPID = guestOf(t, c.other.show(c.otherID))
	c.begin()
	if wall != sandbox.WallDocker {
		return c
	}
	about := c.s.about()
	if _, err := glovebox("image", "build", "--tiny", "--data", c.data).Output(); err != nil {
		t.Fatalf("tiny image: %v", err)
	}
	made := engine(t, "create", about.DefaultImage, "/bin/true")[0]
	c.image = "glovebox-crash-" + about.Instance
	engine(t, "commit", "--change", "VOLUME /scratch", made, c.image)
	engine(t, "rm", made)
	t.Cleanup(func() { engine(t, "rmi", c.image) })
	instance := "glovebox.instance="
	for _, args := range [][]string{
		{"--name", "glovebox-" + about.Instance + "-stranger-1"},                                // our prefix, no label
		{"--label", instance + "another", "--label", "glovebox.session=s-other"},                // of an instance that is gone
		{"--label", instance + about.Instance, "--label", "glovebox.session=s-neverheardof"},    // of a ledger that is not ours
		{"--label", instance + about.Instance},                                                  // that does not say of which session
		{"--label", instance + c.other.about().Instance, "--label", "glovebox.session=s-other"}, // of one that lives, whose ledger has it not
	} {
		id := engine(t, append(append([]string{"create"}, args...), about.DefaultImage, "/bin/true")...)[0]
		t.Cleanup(func() { engine(t, "rm", "-f", id) })
		c.strangers = append(c.strangers, id)
	}
	c.looked = c.look()
	return c
}

// look is what the engine says of the containers that nobody should touch.
func (c *crashes) look() []string {
	if len(c.strangers) == 0 {
		return nil
	}
	return engine(c.t, append([]string{"inspect", "--format", "{{.Id}} {{.Name}} {{.State.Status}} {{.State.StartedAt}}"}, c.strangers...)...)
}

// begin starts the next server, in a trap of its own, and returns when it has
// looked at what the last one left.
func (c *crashes) begin() {
	c.t.Helper()
	cmd := glovebox("serve", "--json", "--no-open", "--verbose", "--addr", "127.0.0.1:0", "--data", c.data)
	cmd.Env = append(cmd.Env, "DOCKER_HOST="+c.engine.host)
	entered := trapCommand(c.t, cmd)
	c.s = startCommand(c.t, c.data, cmd)
	c.trap = entered()
	late := time.After(30 * time.Second)
	for !strings.Contains(c.s.log.String(), "sandboxes reconciled") {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			c.t.Fatalf("no reconciliation:\n%s", c.s.log)
		}
	}
}

// everywhere cuts an operation off at its steps, one after the other, until it
// has no more.
func (c *crashes) everywhere(op operation) {
	c.t.Helper()
	calls := op.calls
	if *everyCrash {
		const apart, most = 3, 400
		calls = nil
		for n := 1; n < most; n += apart {
			calls = append(calls, n)
		}
	}
	for _, n := range calls {
		if !c.cutOff(op, fmt.Sprintf("call %d", n), c.atCall(n)) {
			break
		}
	}
	if c.wall != sandbox.WallDocker {
		return
	}
	for _, m := range []moment{before, after, midway} {
		for n := 1; *everyCrash || n <= op.steps; n++ {
			// In a short run each request is cut off at one of the moments, and the
			// first, which may carry much, also midway.
			if !*everyCrash && n%3 != int(m) && !(n == 1 && m == midway) {
				continue
			}
			if !c.cutOff(op, fmt.Sprintf("%s request %d", m, n), c.atRequest(n, m)) {
				break
			}
		}
	}
}

// cutOff does an operation and kills the server where arm says, and reports
// whether it came to that. Either way all is accounted for afterwards.
func (c *crashes) cutOff(op operation, point string, arm func(kill func(what string)) (disarm func())) bool {
	c.t.Helper()
	session := op.prepare()
	s := c.s
	var once sync.Once
	var what string
	disarm := arm(func(w string) {
		once.Do(func() {
			what = w
			s.cmd.Process.Kill()
			<-s.gone
		})
	})
	err := op.do(s, session)
	disarm()
	cut := true
	once.Do(func() { cut = false }) // waits for a kill under way
	if !cut {
		if err != nil {
			c.t.Fatalf("%s, %s: nothing was cut off, and: %v\n%s", op.name, point, err, s.log)
		}
		op.check(session)
		c.settle()
		return false
	}
	c.kills++
	c.t.Logf("kill %d: %s, %s: %s", c.kills, op.name, point, what)
	c.note()
	c.begin()
	op.check(session)
	c.settle()
	if c.t.Failed() {
		c.t.Fatalf("after kill %d: %s, %s: %s\nthe killed server's log:\n%s", c.kills, op.name, point, what, s.log)
	}
	return true
}

// atCall cuts before the n-th system call.
func (c *crashes) atCall(n int) func(kill func(string)) func() {
	return func(kill func(string)) func() {
		tr := c.trap
		tr.arm(n, kill)
		return tr.disarm
	}
}

// moment is when a request of the engine is cut off.
type moment int

const (
	before moment = iota // the engine never hears of it
	after                // it is done, and nobody hears the answer
	midway               // half of it is done, or half of the answer heard
)

func (m moment) String() string { return [...]string{"before", "after", "midway in"}[m] }

// atRequest cuts at the n-th request that does something, or looks for what a
// session has.
func (c *crashes) atRequest(n int, m moment) func(kill func(string)) func() {
	return func(kill func(string)) func() {
		var mu sync.Mutex
		left := n
		between := func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
			mine := false
			if steps(r) {
				mu.Lock()
				left--
				mine = left == 0
				mu.Unlock()
			}
			if !mine {
				forward.ServeHTTP(w, r)
				return
			}
			what := r.Method + " " + r.URL.Path
			// The engine goes on with what it has begun, whoever has asked.
			r = r.WithContext(context.WithoutCancel(r.Context()))
			switch {
			case m == before:
				kill(what)
			case r.Header.Get("Upgrade") != "":
				forward.ServeHTTP(&hijacked{w, func() { kill(what) }}, r)
			case m == midway && r.Method == http.MethodPut:
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), broken{}))
				forward.ServeHTTP(httptest.NewRecorder(), r)
				kill(what)
			default:
				answer := httptest.NewRecorder()
				forward.ServeHTTP(answer, r)
				if m == midway {
					for name, values := range answer.Header() {
						w.Header()[name] = values
					}
					w.WriteHeader(answer.Code)
					w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
					http.NewResponseController(w).Flush()
				}
				kill(what)
			}
		}
		c.engine.between.Store(&between)
		return func() { c.engine.between.Store(nil) }
	}
}

// steps reports whether a request belongs to an operation rather than to the
// server's looking around. To wait for a container's end is only to look.
func steps(r *http.Request) bool {
	if strings.HasSuffix(r.URL.Path, "/wait") {
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return true
	}
	return strings.HasSuffix(r.URL.Path, "/containers/json") && strings.Contains(r.URL.RawQuery, "glovebox.session")
}

// broken is a body that ends too soon.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// hijacked tells when the engine has agreed to a stream.
type hijacked struct {
	http.ResponseWriter
	agreed func()
}

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.agreed()
	return http.NewResponseController(h.ResponseWriter).Hijack()
}

// sessions are those that the server knows.
func (c *crashes) sessions() (all []httpapi.Session) {
	c.t.Helper()
	if err := c.s.call(c.t.Context(), "GET", "/sessions", nil, &all); err != nil {
		c.t.Fatal(err)
	}
	return all
}

// rests waits until a session's sandbox is in one of some states. It asks: the log
// of a session that has seen many crashes is long to follow.
func (c *crashes) rests(id string, states ...sandbox.State) httpapi.Session {
	c.t.Helper()
	late := time.After(time.Minute)
	for {
		v := c.s.show(id)
		if v.Sandbox != nil && slices.Contains(states, v.Sandbox.Value) {
			return v
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			c.t.Fatalf("session %s is %+v, want one of %s", id, v.Sandbox, states)
		}
	}
}

// goesOn expects a session to have the sandbox that it had, in one of some states,
// and to work in it.
func (c *crashes) goesOn(id string, states ...sandbox.State) {
	c.t.Helper()
	c.rests(id, states...)
	c.s.post(id, "attach", nil)
	c.rests(id, sandbox.StateReady)
	c.s.marked(id)
	c.bound(id)
}

// bound expects a session's log to name, soon, the sandbox that it has.
func (c *crashes) bound(id string) {
	c.t.Helper()
	card := c.s.card(id)
	if card.Description == nil {
		c.t.Errorf("the card of session %s says nothing: %s", id, card.Error)
		return
	}
	late := time.After(30 * time.Second)
	for {
		var last sandbox.Ref
		for _, p := range c.s.payloads(id) {
			if b, ok := p.(*task.TaskHostBound); ok {
				last = b.ExecEnvRef
			}
		}
		if strings.HasPrefix(last.ID(), card.Description.ID) {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-late:
			c.t.Errorf("session %s is bound to %s, and its card shows %s", id, last, card.Description.ID)
			return
		}
	}
}

// untilBound waits for a session's sandbox.
func (s *server) untilBound(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.follow(ctx, id, 0, func(f httpapi.Frame) error {
		if f.Type != "event" {
			return nil
		}
		payload, err := task.Decode(*f.Event)
		if _, ok := payload.(*task.TaskHostBound); ok {
			return errDone
		}
		return err
	})
}

// note remembers what there is, while no server runs.
func (c *crashes) note() {
	c.t.Helper()
	for _, id := range boxes(c.t, c.data) {
		c.seen[id] = true
	}
	if c.wall == sandbox.WallDocker {
		c.volumesOf(c.containers())
	}
}

// forget clears away what was kept and is nobody's any more.
func (c *crashes) forget(id string) {
	c.t.Helper()
	c.gone[id] = true
	for _, box := range boxes(c.t, c.data) {
		note, _ := os.ReadFile(filepath.Join(c.data, "boxes", box, "owner.json"))
		if box == id || bytes.Contains(note, []byte(id)) {
			if err := os.RemoveAll(filepath.Join(c.data, "boxes", box)); err != nil {
				c.t.Error(err)
			}
		}
	}
}

// settle expects that what is there is what the sessions hold, as soon as the
// server has had the time to see to it.
func (c *crashes) settle() {
	c.t.Helper()
	late := time.Now().Add(30 * time.Second)
	for {
		wrong := c.unaccounted()
		if len(wrong) == 0 {
			break
		}
		if time.Now().After(late) {
			c.t.Errorf("not accounted for: %s\nserver's log:\n%s", strings.Join(wrong, "\n"), c.s.log)
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	if now := c.look(); !slices.Equal(now, c.looked) {
		c.t.Errorf("containers that nobody should touch were %q and are %q", c.looked, now)
	}
}

// unaccounted compares what the machine has with what the sessions hold.
func (c *crashes) unaccounted() (wrong []string) {
	c.t.Helper()
	var want []string
	guests := 0
	for _, v := range c.sessions() {
		if v.Sandbox == nil {
			wrong = append(wrong, "session "+v.ID+" without a state")
			continue
		}
		switch v.Sandbox.Value {
		case sandbox.StateReady, sandbox.StateStopped, sandbox.StatePaused, sandbox.StateDetached:
			if c.gone[v.Ref.ID()] {
				continue
			}
			guests++
			if !v.Adopted {
				want = append(want, v.Ref.ID())
			}
		case sandbox.StateReleased, sandbox.StateFailed:
		default:
			wrong = append(wrong, fmt.Sprintf("session %s is %s", v.ID, v.Sandbox.Value))
		}
	}
	there := boxes(c.t, c.data)
	for _, id := range there {
		c.seen[id] = true
	}
	if len(there) != guests {
		wrong = append(wrong, fmt.Sprintf("%d directories of sandboxes for %d", len(there), guests))
	}
	if c.wall == sandbox.WallDocker {
		there = c.containers()
		held := c.volumesOf(there)
		for _, volume := range engine(c.t, "volume", "ls", "-q") {
			if c.volumes[volume] && !slices.Contains(held, volume) {
				wrong = append(wrong, "volume "+volume)
			}
		}
	}
	slices.Sort(there)
	slices.Sort(want)
	if !slices.Equal(there, want) {
		wrong = append(wrong, fmt.Sprintf("sandboxes %v for the sessions' %v", there, want))
	}
	return append(wrong, c.strays()...)
}

// containers are those of this instance, but for strangers that say they are.
func (c *crashes) containers() []string {
	return slices.DeleteFunc(containersOf(c.t, c.instance()), func(id string) bool { return slices.Contains(c.strangers, id) })
}

// volumesOf returns the volumes of containers, and remembers that there were.
func (c *crashes) volumesOf(containers []string) []string {
	if len(containers) == 0 {
		return nil
	}
	// One that is just being removed is an error, and no answer for the rest.
	out, _ := exec.Command("docker", append([]string{"inspect", "--format", `{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}} {{end}}{{end}}`}, containers...)...).Output()
	names := strings.Fields(string(out))
	for _, name := range names {
		c.volumes[name] = true
	}
	return names
}

// strays are the processes of sandboxes whose directory is gone.
func (c *crashes) strays() (found []string) {
	there := boxes(c.t, c.data)
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, dir := range processes {
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended
		_, rest, ok := bytes.Cut(cmdline, []byte(`"guest_id":"`))
		if !ok {
			continue
		}
		id, _, _ := strings.Cut(string(rest), `"`)
		if c.seen[id] && !slices.Contains(there, id) {
			found = append(found, fmt.Sprintf("process %s of %s", filepath.Base(dir), id))
		}
	}
	return found
}

func (c *crashes) instance() string {
	body, err := os.ReadFile(filepath.Join(c.data, "instance"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(bytes.TrimSpace(body))
}

// unharmed expects another server on the same machine to have what it had.
func (c *crashes) unharmed() {
	c.t.Helper()
	if syscall.Kill(c.otherPID, 0) != nil || guestOf(c.t, c.other.show(c.otherID)) != c.otherPID {
		c.t.Error("another server's sandbox was ended")
	}
	if v := c.other.show(c.otherID); v.Sandbox.Value != sandbox.StateReady {
		c.t.Errorf("another server's sandbox is %s", v.Sandbox.Value)
	}
}
