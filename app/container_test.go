package app

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

func (s *server) card(id string) httpapi.Container {
	s.t.Helper()
	var c httpapi.Container
	if err := s.call(s.t.Context(), "GET", "/sessions/"+id+"/container", nil, &c); err != nil {
		s.t.Fatalf("container of %s: %v", id, err)
	}
	return c
}

func (s *server) logs(id string) string {
	s.t.Helper()
	var l httpapi.Logs
	if err := s.call(s.t.Context(), "GET", "/sessions/"+id+"/logs?tail=50", nil, &l); err != nil {
		s.t.Fatalf("logs of %s: %v", id, err)
	}
	if !utf8.ValidString(l.Text) || time.Since(l.At).Abs() > time.Minute {
		s.t.Errorf("logs of %v: %q", l.At, l.Text)
	}
	return l.Text
}

// A restart keeps the container and what is in it, ends what ran, and is shown as
// it happens. The log speaks before, between and after.
func TestRestart(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := start(t, dataDir(t))
		id := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		s.mark(id)
		before, booted := s.show(id), s.card(id).Hello
		guest := booted.GuestID
		if !strings.Contains(s.logs(id), guest) {
			t.Errorf("the log does not speak of guest %s", guest)
		}
		n := nap()
		s.bash(id, "sleep "+n+" &")
		awaitSleeps(t, n)
		s.post(id, "restart", nil)
		s.awaitState(id, moments, sandbox.StateReady)
		s.marked(id)
		after := s.card(id)
		if after.Hello == nil || after.Hello.BootID == booted.BootID || s.show(id).Ref != before.Ref {
			t.Errorf("after the restart: %+v at %s, before %+v at %s", after.Hello, s.show(id).Ref, booted, before.Ref)
		}
		if sleeping(n) {
			t.Error("what ran before runs after a restart")
		}
		var seen []sandbox.State
		for _, p := range s.payloads(id) {
			if c, ok := p.(*task.SandboxStateChanged); ok {
				seen = append(seen, c.Condition.Value)
			}
		}
		if i := slices.Index(seen, sandbox.StateStopped); i < 0 || !slices.Contains(seen[i:], sandbox.StateReady) {
			t.Errorf("states on the way: %q", seen)
		}

		s.post(id, "stop", nil)
		if !strings.Contains(s.logs(id), guest) {
			t.Error("a stopped sandbox has no log")
		}
		if out, err := glovebox("logs", "--data", s.data, "--sandbox", id).CombinedOutput(); err != nil || !strings.Contains(string(out), guest) {
			t.Errorf("glovebox logs --sandbox: %v\n%s", err, out)
		}
		if out, err := glovebox("restart", "--data", s.data, id).CombinedOutput(); err != nil || !strings.Contains(string(out), "restarted") {
			t.Errorf("glovebox restart of a stopped one: %v\n%s", err, out)
		}
		s.awaitState(id, moments, sandbox.StateReady)

		s.post(id, "release", nil)
		wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/restart", nil, nil), "sandbox_lost")
		wantCode(t, s.call(t.Context(), "GET", "/sessions/"+id+"/logs", nil, nil), "sandbox_lost")
		wantCode(t, s.call(t.Context(), "GET", "/sessions/"+id+"/logs?tail=0", nil, nil), "invalid_field")
	})
}

func TestRestart_nothingToRestart(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: sandbox.WallLocal}, workspace(t, 0))
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/restart", nil, nil), "unsupported")
	wantCode(t, s.call(t.Context(), "GET", "/sessions/"+id+"/logs", nil, nil), "unsupported")
}

// The card says all that there is to say, and two readings give the load of the
// processor.
func TestCard(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := start(t, dataDir(t))
		id := s.opened(sandbox.Spec{Wall: wall, Resources: map[string]string{"memory": "200m", "pids": "100"}}, workspace(t, 1000))
		one := s.card(id)
		s.bash(id, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
		two := s.card(id)
		if one.Description == nil || one.Hello == nil || one.Stats == nil || two.Stats == nil || one.Error != "" {
			body, _ := json.Marshal(one)
			t.Fatalf("the card lacks parts: %s", body)
		}
		d := one.Description
		if d.ID == "" || d.StartedAt.IsZero() || d.Network == "" || len(d.Mounts) == 0 || one.Condition.ObservedAt.IsZero() {
			t.Errorf("described as %+v", d)
		}
		if one.Hello.UID != 1000 || one.Hello.User == "" {
			t.Errorf("commands run as %d:%d %q", one.Hello.UID, one.Hello.GID, one.Hello.User)
		}
		spent, passed := two.Stats.CPU-one.Stats.CPU, two.Stats.ObservedAt.Sub(one.Stats.ObservedAt)
		if spent <= 0 || passed <= 0 {
			t.Errorf("a busy loop that has ended took %v in %v", spent, passed)
		}
		if one.Stats.Memory == 0 || one.Stats.PIDs == 0 {
			t.Errorf("use: %+v", one.Stats)
		}
		if wall == sandbox.WallDocker && (d.ImageDigest == "" || d.Image == "" || len(d.Commands) != 5 || d.Limits["memory"] == "") {
			t.Errorf("described as %+v", d)
		}
	})
}

// What is done to an engine is shown with its age, and passes by itself.
func TestEngineStopped(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	e := newOwnEngine(t)
	s := startWith(t, dataDir(t), []string{"DOCKER_HOST=" + e.host})

	// The engine is new and has no image: the first session makes one, and says so.
	id := s.open(httpapi.OpenRequest{Title: "first", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallDocker}})
	var steps []string
	s.await(id, time.Minute, "its sandbox", func(f httpapi.Frame) bool {
		if v := f.Session; v != nil && v.ID == id && v.Step != "" {
			steps = append(steps, v.Step)
		}
		return f.Type == "event" && f.Event.Kind == "TaskHostBound"
	})
	if !slices.ContainsFunc(steps, func(step string) bool { return strings.HasPrefix(step, "import glovebox/tiny:") }) {
		t.Errorf("steps %q, without the image's", steps)
	}
	s.mark(id)

	e.stop()
	v := s.awaitState(id, moments, sandbox.StateUnreachable)
	if v.Sandbox.Cause != sandbox.CauseEngine || since(v.Sandbox.ObservedAt) > moments {
		t.Errorf("shown as %+v", v.Sandbox)
	}
	e.start()
	s.awaitState(id, 2*moments, sandbox.StateReady)
	s.marked(id)
	var images httpapi.Images
	if err := s.call(t.Context(), "GET", "/images", nil, &images); err != nil || len(images.Images) != 1 || !images.Images[0].Ours {
		t.Errorf("images %+v, %v", images, err)
	}
}

// What is done to a container by hand is undone by hand as well.
func TestContainerStates_byHand(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000))
	for _, c := range []struct {
		verb  []string
		state sandbox.State
		cause string
	}{
		{[]string{"pause"}, sandbox.StatePaused, sandbox.CauseByHand},
		{[]string{"unpause"}, sandbox.StateReady, ""},
		{[]string{"stop", "-t", "1"}, sandbox.StateStopped, sandbox.CauseByHand},
		{[]string{"start"}, sandbox.StateReady, ""},
		{[]string{"restart", "-t", "1"}, sandbox.StateReady, ""},
		{[]string{"kill"}, sandbox.StateStopped, sandbox.CauseKilled},
		{[]string{"rm", "-f"}, sandbox.StateLost, sandbox.CauseRemoved},
	} {
		engine(t, append(c.verb, s.show(id).ShortID)...)
		if v := s.awaitState(id, moments, c.state); v.Sandbox.Cause != c.cause {
			t.Errorf("after docker %s: %s because of %q, want %q", c.verb[0], v.Sandbox.Value, v.Sandbox.Cause, c.cause)
		}
		if c.state == sandbox.StateReady {
			if r := s.bash(id, "echo on"); r.Status != task.CallOK {
				t.Errorf("after docker %s: %s %q", c.verb[0], r.Status, r.Text)
			}
		}
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	proxy := newEngineProxy(t)
	s := startWith(t, dataDir(t), []string{"DOCKER_HOST=" + proxy.host})
	build := func(image string) error {
		return s.call(t.Context(), "POST", "/images/build", httpapi.BuildRequest{Image: image}, nil)
	}
	cancel := func() error {
		return s.call(t.Context(), "POST", "/images/build/cancel", httpapi.BuildRequest{Image: "tiny"}, nil)
	}
	wantCode(t, build("huge"), "invalid_field")
	wantCode(t, cancel(), "no_build")

	out, err := glovebox("image", "build", "--tiny", "--data", s.data).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "glovebox/tiny:") {
		t.Fatalf("glovebox image build --tiny: %v\n%s", err, out)
	}
	var list httpapi.Images
	if err := s.call(t.Context(), "GET", "/images", nil, &list); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Images, func(img httpapi.ImageInfo) bool { return img.Ref == list.Default })
	if i < 0 || !list.Images[i].Ours || list.Images[i].Size == 0 || list.Error != "" {
		t.Errorf("images %+v", list)
	}
	if len(list.Builds) != 1 || list.Builds[0].State != httpapi.BuildDone || list.Builds[0].EndedAt == nil {
		t.Errorf("builds %+v", list.Builds)
	}

	// An engine that hangs: the build runs until it is cancelled, for every window.
	proxy.mute()
	id := s.open(httpapi.OpenRequest{Title: "window", Workspace: workspace(t, 0), Spec: sandbox.Spec{Wall: sandbox.WallLocal}})
	if err := build("tiny"); err != nil {
		t.Fatal(err)
	}
	if err := build("tiny"); err != nil { // joins
		t.Fatal(err)
	}
	state := func(want string) {
		t.Helper()
		s.await(id, moments, "a build that is "+want, func(f httpapi.Frame) bool { return f.Build != nil && f.Build.State == want })
	}
	state(httpapi.BuildRunning)
	if err := cancel(); err != nil {
		t.Fatal(err)
	}
	state(httpapi.BuildCancelled)

	cmd := glovebox("image", "build", "--tiny", "--data", s.data)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	state(httpapi.BuildRunning)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); exitOf(err) != exitInterrupted {
		t.Errorf("interrupted: %v", err)
	}
	state(httpapi.BuildCancelled)

	if err := build("tiny"); err != nil {
		t.Fatal(err)
	}
	state(httpapi.BuildFailed) // an engine is not waited for without end
	proxy.speak()
}

func exitOf(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return -1
}
