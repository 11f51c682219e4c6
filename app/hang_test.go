package app

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// hangingEngine returns the address of an engine that takes connections and never
// answers.
func hangingEngine(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "glovebox-hang-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "d.sock"))
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-taken
		os.RemoveAll(dir)
	})
	return "unix://" + l.Addr().String()
}

// An engine that never answers is said not to, in time, and nothing else waits for
// it: not the list, the history, another wall or the end.
func TestEngine_neverAnswers(t *testing.T) {
	t.Parallel()
	s := startWith(t, dataDir(t), []string{"DOCKER_HOST=" + hangingEngine(t)})
	begun := time.Now()
	if w := s.dockerWall(); w.Available || !strings.Contains(w.Detail, "did not answer in time") || !strings.Contains(w.Detail, "(DOCKER_HOST)") || since(begun) > 5*time.Second {
		t.Errorf("after %v the wall is shown as %+v", since(begun), w)
	}
	begun = time.Now()
	refused := make(chan error, 1)
	go func() {
		refused <- s.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Title: "x", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: "debian:12"}}, nil)
	}()
	meanwhile := time.Now()
	id := s.open(httpapi.OpenRequest{Title: "local", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallLocal}})
	if r := s.bash(id, "echo works"); !strings.Contains(r.Text, "works") {
		t.Errorf("another wall: %+v", r)
	}
	var all []httpapi.Session
	if err := s.call(t.Context(), "GET", "/sessions", nil, &all); err != nil || len(all) == 0 {
		t.Errorf("the list: %+v, %v", all, err)
	}
	if len(s.payloads(id)) == 0 {
		t.Error("there is no history")
	}
	if took := since(meanwhile); took > 3*time.Second {
		t.Errorf("the rest took %v", took)
	}
	err := <-refused
	if api := wantCode(t, err, "no_wall"); !strings.Contains(api.Message, "did not answer in time") || since(begun) > 30*time.Second {
		t.Errorf("a session is refused after %v: %q", since(begun), api.Message)
	}
	s.post(id, "close", nil)
	begun = time.Now()
	s.stop()
	if took := since(begun); took > 10*time.Second {
		t.Errorf("its end took %v", took)
	}
}

// states are those that a session's log tells, one after the other, with causes.
func (s *server) states(id string) (all []string) {
	s.t.Helper()
	for _, p := range s.payloads(id) {
		if c, ok := p.(*task.SandboxStateChanged); ok {
			all = append(all, strings.TrimSpace(string(c.Condition.Value)+" "+c.Condition.Cause))
		}
	}
	return all
}

// An engine hangs and restarts, and meanwhile one container is removed, one is
// stopped and one left alone: its return shows each as it is, once.
func TestEngine_restartsWithChanges(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	e := newOwnEngine(t)
	proxy := newEngineProxyTo(t, strings.TrimPrefix(e.host, "unix://"))
	s := startWith(t, dataDir(t), []string{"DOCKER_HOST=" + proxy.host})
	t.Cleanup(proxy.speak) // so that the sessions can be closed
	var ids [3]string
	for i, title := range []string{"removed", "stopped", "running"} {
		ids[i] = s.open(httpapi.OpenRequest{Title: title, Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallDocker}})
	}
	for _, id := range ids {
		s.awaitState(id, time.Minute, sandbox.StateReady)
	}
	removed, stopped, running := ids[0], ids[1], ids[2]
	awaitEvent(s, running, moments, func(*task.TaskHostBound) bool { return true })
	s.mark(running)

	proxy.mute()
	for _, id := range ids {
		if v := s.awaitState(id, 2*moments, sandbox.StateUnreachable); v.Sandbox.Cause != sandbox.CauseEngine || since(v.Sandbox.ObservedAt) > moments {
			t.Errorf("while the engine hangs: %+v", v.Sandbox)
		}
	}
	begun := time.Now()
	if v := s.show(running); v.ShortID == "" || since(begun) > time.Second {
		t.Errorf("while the engine hangs a session is shown after %v: %+v", since(begun), v)
	}
	e.stop()
	e.start()
	for _, line := range [][]string{{"rm", "-f", s.show(removed).ShortID}, {"stop", "-t", "1", s.show(stopped).ShortID}} {
		if err := e.docker(line...); err != nil {
			t.Fatalf("docker %q: %v", line, err)
		}
	}

	proxy.speak()
	back := time.Now()
	for id, want := range map[string]sandbox.State{removed: sandbox.StateLost, stopped: sandbox.StateStopped, running: sandbox.StateReady} {
		s.awaitState(id, 10*time.Second, want)
	}
	if took := since(back); took > 10*time.Second {
		t.Errorf("it took %v until all was known", took)
	}
	s.marked(running)
	for id, want := range map[string]string{
		removed: "unreachable engine not answering, lost removed",
		stopped: "unreachable engine not answering, stopped by hand",
		running: "unreachable engine not answering, ready",
	} {
		if got := strings.Join(s.states(id), ", "); !strings.HasSuffix(got, "ready, "+want) {
			t.Errorf("the log of %q tells %s; want its end to be %s", s.show(id).Title, got, want)
		}
	}
}
