package app

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/registrytest"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// soon is how long it takes at most until a person sees that an image is being
// pulled, and until a cancel has worked.
const soon = 2 * time.Second

// withRegistry returns a registry and its images by name. Those that the engine
// gets from it go with the test.
func withRegistry(t *testing.T, names ...string) (*registrytest.Registry, []string) {
	t.Helper()
	have(t, sandbox.WallDocker)
	r := registrytest.Start(t)
	var refs []string
	for _, name := range names {
		ref := r.Image(name)
		refs = append(refs, ref)
		t.Cleanup(func() { exec.Command("docker", "rmi", "-f", ref).Run() }) // it may not be there
	}
	return r, refs
}

// awaitProgress waits until a session shows that much of its image.
func (s *server) awaitProgress(id, ref string, within time.Duration, bytes int64) *httpapi.StepProgress {
	s.t.Helper()
	p := s.awaitSession(id, within, "its image's progress", func(v httpapi.Session) bool {
		return v.Progress != nil && v.Progress.Bytes >= bytes
	}).Progress
	if p.Step != "pulling "+ref || time.Since(p.StartedAt) > time.Minute {
		s.t.Errorf("progress %+v of %s", p, ref)
	}
	return p
}

// awaitNoProgress waits until a session shows none: its frames end with that.
func (s *server) awaitNoProgress(id string) {
	s.t.Helper()
	s.awaitSession(id, soon, "the end of progress", func(v httpapi.Session) bool { return v.Progress == nil && v.Step == "" })
}

// Two sessions of an image that is not there show how it comes, by one pull. The
// one that is stopped takes it from nobody, and can be given it later.
func TestPull_twoSessions(t *testing.T) {
	registry, refs := withRegistry(t, "app:1")
	ref := refs[0]
	registry.Hold()
	s := start(t, dataDir(t))
	open := func(title string) string {
		return s.open(httpapi.OpenRequest{Title: title, Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: ref}})
	}
	one := open("one")
	s.awaitProgress(one, ref, soon, 0)
	two := open("two")
	s.awaitProgress(two, ref, soon, 0)
	p := s.awaitProgress(one, ref, 10*time.Second, registrytest.LayerSize/2)
	if p.Total < registrytest.LayerSize || p.Bytes > p.Total || p.BytesPerSecond == 0 || p.Detail == "" {
		t.Errorf("half-way it shows %+v", p)
	}
	if v := s.show(one); v.Step != p.Step || v.Sandbox == nil || v.Sandbox.Value != sandbox.StateAllocating {
		t.Errorf("meanwhile the session is %+v, with step %q", v.Sandbox, v.Step)
	}
	s.post(one, "reprovision", nil) // asked for again while it is made: nothing that a stop leaves to do
	s.post(one, "interrupt", nil)
	if v := s.awaitState(one, soon, sandbox.StateFailed); v.Sandbox.Cause != "stopped before it was ready" || v.Progress != nil {
		t.Errorf("once stopped it is %+v, %+v", v.Sandbox, v.Progress)
	}
	if v := s.awaitSession(one, soon, "a stopped session", func(v httpapi.Session) bool { return v.Suspended != "" }); v.Suspended != task.Interrupted || v.Detail != "stopped before the sandbox was ready" {
		t.Errorf("once stopped it is suspended for %s: %s", v.Suspended, v.Detail)
	}
	logs, err := glovebox("logs", "--json", "--data", s.data, one).CombinedOutput()
	if err != nil || strings.Contains(string(logs), "cancel") || strings.Contains(string(logs), "TurnInterrupted") {
		t.Errorf("the log of a stop before there was a turn, %v:\n%s", err, logs)
	}
	registry.Go()
	s.awaitState(two, moments, sandbox.StateReady)
	s.awaitNoProgress(two)
	if _, layers := registry.Asked(); layers != 1 {
		t.Errorf("the layer was asked for %d times", layers)
	}
	if v := s.show(one); v.Sandbox == nil || v.Sandbox.Value != sandbox.StateFailed {
		t.Errorf("the one that was stopped is %+v in the end", v.Sandbox)
	}
	registry.Refuse(503) // the image is there: nobody is asked
	s.post(one, "reprovision", nil)
	s.awaitState(one, moments, sandbox.StateReady)
}

// A new sandbox of an image that is gone pulls it again; a stop calls that off.
func TestPull_reprovision(t *testing.T) {
	registry, refs := withRegistry(t, "app:1")
	s := start(t, dataDir(t))
	id := s.opened(sandbox.Spec{Wall: sandbox.WallDocker, Image: refs[0]}, workspace(t, 1000))
	s.post(id, "release", nil)
	engine(t, "rmi", refs[0])
	registry.Hold()
	answered := make(chan error, 1)
	again := func() { answered <- s.call(t.Context(), "POST", "/sessions/"+id+"/reprovision", nil, nil) }
	go again()
	s.awaitProgress(id, refs[0], soon, 0)
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/reprovision", nil, nil), "session_busy")
	s.post(id, "interrupt", nil)
	s.awaitState(id, soon, sandbox.StateFailed)
	if err := <-answered; err == nil {
		t.Error("a re-provision that was stopped says that it was done")
	}
	go again()
	s.awaitProgress(id, refs[0], soon, 0)
	registry.Go()
	s.awaitState(id, moments, sandbox.StateReady)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	s.awaitNoProgress(id)
}

// What a registry refuses is the cause that a session shows.
func TestPull_failure(t *testing.T) {
	registry, refs := withRegistry(t, "app:1")
	host, _, _ := strings.Cut(refs[0], "/")
	s := start(t, dataDir(t))
	for _, test := range []struct {
		image  string
		refuse int
		says   []string
	}{
		{host + "/app:none", 0, []string{"manifest unknown", "check its name and tag"}},
		{refs[0], 401, []string{"refused by the test", "docker login " + host}},
		{"127.0.0.1:1/app:1", 0, []string{"connection refused", "does not reach the registry"}},
	} {
		registry.Refuse(test.refuse)
		id := s.open(httpapi.OpenRequest{Title: "x", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: test.image}})
		v := s.awaitState(id, moments, sandbox.StateFailed)
		if !strings.Contains(v.Sandbox.Cause, test.image) {
			t.Errorf("the cause is %q, and the image %s", v.Sandbox.Cause, test.image)
		}
		s.await(id, moments, "the reason", func(httpapi.Frame) bool { return s.show(id).Detail != "" })
		for _, want := range test.says {
			if v := s.show(id); !strings.Contains(v.Detail, want) {
				t.Errorf("detail %q does not say %q", v.Detail, want)
			}
		}
	}
}

// An image is pulled by hand too: with its progress, by one pull, and with a
// cancel that leaves nothing.
func TestPull_byHand(t *testing.T) {
	registry, refs := withRegistry(t, "app:1")
	ref := refs[0]
	s := start(t, dataDir(t))
	window := s.open(httpapi.OpenRequest{Title: "window", Workspace: workspace(t, 0), Spec: sandbox.Spec{Wall: sandbox.WallLocal}})
	pull := func(image string) error {
		return s.call(t.Context(), "POST", "/images/pull", httpapi.BuildRequest{Image: image}, nil)
	}
	cancel := func() error {
		return s.call(t.Context(), "POST", "/images/pull/cancel", httpapi.BuildRequest{Image: ref}, nil)
	}
	state := func(want string, within time.Duration) (b httpapi.Build) {
		t.Helper()
		s.await(window, within, "a pull that is "+want, func(f httpapi.Frame) bool {
			if f.Build == nil || f.Build.Kind != httpapi.KindPull || f.Build.State != want {
				return false
			}
			b = *f.Build
			return want != httpapi.BuildRunning || b.Bytes > registrytest.LayerSize/4
		})
		return b
	}
	there := func() bool {
		var list httpapi.Images
		if err := s.call(t.Context(), "GET", "/images", nil, &list); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Images, func(i httpapi.ImageInfo) bool { return i.Ref == ref })
	}
	wantCode(t, pull("Not A Name"), "invalid_field")
	wantCode(t, cancel(), "no_build")

	registry.Hold()
	for range 2 { // the second joins
		if err := pull(ref); err != nil {
			t.Fatal(err)
		}
	}
	if b := state(httpapi.BuildRunning, 10*time.Second); b.Step != "pulling "+ref || b.Total < b.Bytes || b.Ref != ref {
		t.Errorf("it runs as %+v", b)
	}
	if err := cancel(); err != nil {
		t.Fatal(err)
	}
	state(httpapi.BuildCancelled, soon)
	registry.Go()
	if there() {
		t.Error("a pull that was cancelled left an image")
	}

	out, err := glovebox("image", "pull", ref, "--data", s.data).CombinedOutput()
	if err != nil || !strings.Contains(string(out), ref) || !there() {
		t.Errorf("glovebox image pull: %v\n%s", err, out)
	}
	out, err = glovebox("image", "pull", ref+"9", "--data", s.data).CombinedOutput()
	if exitOf(err) != 1 || !strings.Contains(string(out), ref+"9") || !strings.Contains(string(out), "check its name and tag") {
		t.Errorf("glovebox image pull of what is not there: %v\n%s", err, out)
	}
}
