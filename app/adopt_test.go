package app

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// strangersContainer starts a container that no glovebox has made.
func strangersContainer(t *testing.T, args ...string) (id string) {
	t.Helper()
	have(t, sandbox.WallDocker)
	out, err := glovebox("image", "build", "--tiny", "--data", dataDir(t)).CombinedOutput()
	if err != nil {
		t.Fatalf("image build: %v\n%s", err, out)
	}
	image := engine(t, "images", "-q", "glovebox/tiny")[0]
	id = engine(t, append(append([]string{"run", "-d", "--network", "none", "-w", "/tmp"}, args...), image, "sleep", "7200")...)[0]
	t.Cleanup(func() { engine(t, "rm", "-f", "-v", id) })
	return id
}

// A container that has no room for a guest is told as what could not be attached:
// there was no turn that could have failed.
func TestAdopt_noRoom(t *testing.T) {
	t.Parallel()
	id := strangersContainer(t, "--read-only")
	s := start(t, dataDir(t))
	out, err := glovebox("attach", "--data", s.data, id).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "glovebox: attach the container: ") || strings.Contains(string(out), "turn") {
		t.Errorf("attach: %v, printed %q", err, out)
	}
	var sessions []httpapi.Session
	if err := s.call(t.Context(), "GET", "/sessions", nil, &sessions); err != nil || len(sessions) != 1 {
		t.Fatalf("sessions: %+v, %v", sessions, err)
	}
	if v := sessions[0]; v.Suspended != task.NoSandbox || v.Sandbox == nil || v.Sandbox.Value != sandbox.StateFailed {
		t.Errorf("the session is suspended for %q, its sandbox is %+v", v.Suspended, v.Sandbox)
	}
	if err := s.call(t.Context(), "POST", "/sessions/"+sessions[0].ID+"/retry", nil, nil); err == nil {
		t.Error("a turn that never was is retried")
	}
}

// One click binds a session to a container that was there, and one takes it out.
func TestAdopt(t *testing.T) {
	t.Parallel()
	id := strangersContainer(t)
	before := engine(t, "diff", id)
	s := start(t, dataDir(t))
	attach := func() string {
		t.Helper()
		var a httpapi.Accepted
		if err := s.call(t.Context(), "POST", "/containers/"+id[:12]+"/attach", httpapi.AttachRequest{Approvals: task.ApproveAuto}, &a); err != nil {
			t.Fatal(err)
		}
		s.awaitState(a.SessionID, moments, sandbox.StateReady)
		return a.SessionID
	}
	one, two := attach(), attach()
	for _, session := range []string{one, two} {
		if r := s.bash(session, "hostname; pwd"); r.Status != task.CallOK || !strings.Contains(r.Text, id[:12]+"\n/tmp") {
			t.Errorf("in the container: %s %q", r.Status, r.Text)
		}
	}
	if v := s.show(one); !v.Adopted || v.ShortID != id[:12] || v.Workspace != "" || v.Approvals != task.ApproveAuto {
		t.Errorf("shown as %+v", v)
	}
	for _, p := range s.payloads(one) {
		if b, ok := p.(*task.TaskHostBound); ok && b.Owner != task.OwnerAdopted {
			t.Errorf("bound as %+v", b)
		}
	}
	if card := s.card(one); card.Description == nil || card.Hello == nil || !strings.Contains(strings.Join(card.Description.Notes, "\n"), "shared") {
		t.Errorf("card: %+v, %q", card.Description, card.Error)
	}
	for _, verb := range []string{"stop", "restart"} {
		wantCode(t, s.call(t.Context(), "POST", "/sessions/"+one+"/"+verb, nil, nil), "sandbox_foreign")
	}
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+one+"/release", httpapi.ReleaseRequest{How: "stop"}, nil), "sandbox_foreign")
	wantCode(t, s.call(t.Context(), "POST", "/containers/"+id+"/release", httpapi.ReleaseRequest{How: "stop"}, nil), "sandbox_foreign")
	s.bash(one, "echo one >/tmp/shared")
	s.post(two, "release", nil)
	if r := s.bash(one, "cat /tmp/shared; rm /tmp/shared"); !strings.Contains(r.Text, "one") {
		t.Errorf("after the other's release: %s %q", r.Status, r.Text)
	}

	// What is done by hand is seen, and another process finds the guest again.
	engine(t, "pause", id)
	s.awaitState(one, moments, sandbox.StatePaused)
	engine(t, "unpause", id)
	s.awaitState(one, moments, sandbox.StateReady)
	s.kill()
	s = start(t, s.data)
	s.awaitState(one, moments, sandbox.StateReady)
	if r := s.bash(one, "echo on"); r.Status != task.CallOK {
		t.Errorf("after a restart of the server: %s %q", r.Status, r.Text)
	}
	engine(t, "restart", "-t", "1", id)
	s.awaitState(one, moments, sandbox.StateReady)
	s.post(one, "attach", nil)
	if r := s.bash(one, "echo on"); r.Status != task.CallOK {
		t.Errorf("after a restart of the container: %s %q", r.Status, r.Text)
	}

	s.post(one, "release", nil)
	if after := engine(t, "diff", id); !slices.Equal(after, before) {
		t.Errorf("docker diff was %q and is %q", before, after)
	}
	if out := engine(t, "top", id, "-eo", "pid,comm"); !slices.Equal(out[len(out)-1:], []string{"sleep"}) || len(out) != 4 {
		t.Errorf("what runs in it after the release: %q", out)
	}
	s.post(one, "reprovision", nil) // the way back
	if r := s.bash(one, "hostname"); !strings.Contains(r.Text, id[:12]) {
		t.Errorf("back in: %s %q", r.Status, r.Text)
	}
	s.post(one, "close", nil)
	if after := engine(t, "diff", id); !slices.Equal(after, before) {
		t.Errorf("docker diff was %q and is %q", before, after)
	}

	out, err := glovebox("attach", "--data", s.data, id[:12]).CombinedOutput()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) != 2 || fields[1] != "attached" {
		t.Fatalf("glovebox attach: %v\n%s", err, out)
	}
	if out, err := glovebox("exec", "--data", s.data, fields[0], "--", "hostname").CombinedOutput(); err != nil || !strings.Contains(string(out), id[:12]) {
		t.Errorf("glovebox exec: %v\n%s", err, out)
	}
	s.post(fields[0], "close", nil)
	if out, err := glovebox("attach", "--data", s.data, "glovebox-nothing-of-that-name").CombinedOutput(); err == nil || !strings.Contains(string(out), "no container") {
		t.Errorf("glovebox attach of nothing: %v\n%s", err, out)
	}
}

// A container that is gone is not made again: that is said, and the session stays
// what it is.
func TestAdopt_gone(t *testing.T) {
	t.Parallel()
	there := strangersContainer(t)
	image := engine(t, "inspect", "-f", "{{.Image}}", there)[0]
	id := engine(t, "run", "-d", "--network", "none", image, "sleep", "7200")[0]
	t.Cleanup(func() { exec.Command("docker", "rm", "-f", "-v", id).Run() }) // it may be gone
	s := start(t, dataDir(t))
	var a httpapi.Accepted
	if err := s.call(t.Context(), "POST", "/containers/"+id+"/attach", httpapi.AttachRequest{}, &a); err != nil {
		t.Fatal(err)
	}
	s.awaitState(a.SessionID, moments, sandbox.StateReady)
	engine(t, "rm", "-f", "-v", id)
	s.awaitState(a.SessionID, moments, sandbox.StateLost)
	api := wantCode(t, s.call(t.Context(), "POST", "/sessions/"+a.SessionID+"/reprovision", nil, nil), "sandbox_lost")
	if !strings.Contains(api.Message, id[:12]) || !strings.Contains(api.Message, "open a new session") || strings.Contains(api.Message, "re-provision") {
		t.Errorf("a re-provision says %q", api.Message)
	}
	if v := s.show(a.SessionID); !v.Adopted || v.Sandbox == nil || v.Sandbox.Value != sandbox.StateLost {
		t.Errorf("shown as %+v", v)
	}
}

// The containers of the engine are shown with whose they are, live.
func TestContainers(t *testing.T) {
	t.Parallel()
	id := strangersContainer(t, "-p", "127.0.0.1::7777")
	s := start(t, dataDir(t))
	own := s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000))
	find := func(list httpapi.EngineContainers, id string) *httpapi.EngineContainer {
		for i, c := range list.Containers {
			if c.ID == id || c.ShortID == id {
				return &list.Containers[i]
			}
		}
		return nil
	}
	var list httpapi.EngineContainers
	if err := s.call(t.Context(), "GET", "/containers", nil, &list); err != nil || list.Error != "" || list.Why == "" || since(list.ObservedAt) > moments {
		t.Fatalf("containers: %+v, %v", list, err)
	}
	mine, other := find(list, s.show(own).ShortID), find(list, id)
	if mine == nil || mine.Owner != "session" || mine.SessionID != own || mine.Condition.ObservedAt.IsZero() {
		t.Errorf("ours is shown as %+v", mine)
	}
	if other == nil || other.Owner != "stranger" || other.SessionID != "" || len(other.Sessions) != 0 {
		t.Errorf("a stranger's is shown as %+v", other)
	}
	wantCode(t, s.call(t.Context(), "POST", "/containers/"+id+"/release", nil, nil), "sandbox_foreign")
	wantCode(t, s.call(t.Context(), "POST", "/containers/glovebox-nothing/stop", nil, nil), "sandbox_lost")

	conn, err := s.dial(t.Context(), "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"watch_containers"}`)); err != nil {
		t.Fatal(err)
	}
	until := func(state sandbox.State) {
		t.Helper()
		ctx, cancel := patient(t.Context(), moments)
		defer cancel()
		for {
			_, data, err := conn.Read(ctx)
			if err != nil {
				t.Fatalf("no frame with the container %s: %v", state, err)
			}
			frames, err := framesOf(data)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				if f.Containers == nil {
					continue
				}
				if c := find(*f.Containers, id); c != nil && c.Condition.Value == state {
					return
				}
			}
		}
	}
	until(sandbox.StateReady)
	if err := s.call(t.Context(), "POST", "/containers/"+id+"/stop", nil, nil); err != nil {
		t.Fatal(err)
	}
	until(sandbox.StateStopped)
	wantCode(t, s.call(t.Context(), "POST", "/containers/"+id+"/attach", httpapi.AttachRequest{}, nil), "sandbox_stopped")
	if err := s.call(t.Context(), "POST", "/containers/"+id+"/start", nil, nil); err != nil {
		t.Fatal(err)
	}
	until(sandbox.StateReady)
	var logs httpapi.Logs
	if err := s.call(t.Context(), "GET", "/containers/"+id+"/logs", nil, &logs); err != nil || logs.At.IsZero() {
		t.Errorf("logs: %+v, %v", logs, err)
	}
	if err := s.call(t.Context(), "POST", "/containers/"+mine.ID+"/release", nil, nil); err != nil {
		t.Fatal(err)
	}
	s.awaitState(own, moments, sandbox.StateReleased)
}

// killGuest kills what runs a verb of the guest in a container.
func killGuest(t *testing.T, id, verb string) {
	t.Helper()
	words := engine(t, "top", id, "-eo", "pid,args")
	killed := false
	for i, word := range words {
		if word != verb || i < 2 || !strings.HasSuffix(words[i-1], "/guest") {
			continue
		}
		pid, err := strconv.Atoi(words[i-2])
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed = true
	}
	if !killed {
		t.Fatalf("no guest %s among %q", verb, words)
	}
}

// A channel that is lost under a call ends no call, and a guest that is killed is
// taken out with what it had started.
func TestAdopt_killed(t *testing.T) {
	t.Parallel()
	id := strangersContainer(t)
	before := engine(t, "diff", id)
	s := start(t, dataDir(t))
	var a httpapi.Accepted
	if err := s.call(t.Context(), "POST", "/containers/"+id+"/attach", httpapi.AttachRequest{Approvals: task.ApproveAuto}, &a); err != nil {
		t.Fatal(err)
	}
	s.awaitState(a.SessionID, moments, sandbox.StateReady)
	call := s.toolAside(a.SessionID, "Bash", map[string]any{"command": "echo begun; while [ ! -e /tmp/go ]; do sleep .1; done; rm /tmp/go; echo ended"})
	s.awaitOutput(a.SessionID, "begun")
	killGuest(t, id, "connect")
	engine(t, "exec", id, "touch", "/tmp/go")
	if e := <-call; e.err != nil || e.Status != task.CallOK || !strings.Contains(e.Text, "ended") {
		t.Errorf("the call: %v, %s %q", e.err, e.Status, e.Text)
	}

	n := nap()
	s.bash(a.SessionID, "setsid sleep "+n+" & true")
	awaitSleeps(t, n)
	killGuest(t, id, "serve")
	s.post(a.SessionID, "release", nil)
	awaitGone(t, n)
	if after := engine(t, "diff", id); !slices.Equal(after, before) {
		t.Errorf("docker diff was %q and is %q", before, after)
	}
}

// What is on the engine and held by no session says whose it is. One of this
// instance that the ledger has never heard of is kept and can be removed by hand;
// those of others cannot, dead or alive.
func TestContainers_ofNoSession(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	data := dataDir(t)
	s := start(t, data)
	s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000)) // which makes the image
	about := s.about()
	create := func(args ...string) string {
		id := engine(t, append(append([]string{"create"}, args...), about.DefaultImage, "/bin/true")...)[0]
		t.Cleanup(func() { exec.Command("docker", "rm", "-f", id).Run() })
		return id
	}
	unknown := create("--label", "glovebox.instance="+about.Instance, "--label", "glovebox.session=s-neverheardof")
	another := create("--label", "glovebox.instance=another", "--label", "glovebox.session=s-other")
	prefixed := create("--name", "glovebox-"+about.Instance+"-stranger-9")
	s.kill()
	s = start(t, data)
	s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000)) // after the first reaping
	var list httpapi.EngineContainers
	if err := s.call(t.Context(), "GET", "/containers", nil, &list); err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for _, c := range list.Containers {
		owners[c.ID] = c.Owner
	}
	if owners[unknown] != "orphan" || owners[another] != "instance" || owners[prefixed] != "stranger" {
		t.Errorf("shown as %q, %q and %q, want an orphan, another instance's and a stranger", owners[unknown], owners[another], owners[prefixed])
	}
	for _, id := range []string{another, prefixed} {
		wantCode(t, s.call(t.Context(), "POST", "/containers/"+id+"/release", nil, nil), "sandbox_foreign")
	}
	if err := s.call(t.Context(), "POST", "/containers/"+unknown+"/release", nil, nil); err != nil {
		t.Errorf("remove the orphan: %v", err)
	}
	left := engine(t, "ps", "-aq", "--no-trunc", "--filter", "id="+unknown, "--filter", "id="+another, "--filter", "id="+prefixed)
	slices.Sort(left)
	want := []string{another, prefixed}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}
