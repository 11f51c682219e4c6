package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// fork forks a session and waits for its sandbox.
func (s *server) fork(id string, req httpapi.ForkRequest) string {
	s.t.Helper()
	var a httpapi.Accepted
	if err := s.call(s.t.Context(), "POST", "/sessions/"+id+"/fork", req, &a); err != nil {
		s.t.Fatalf("fork %s: %v", id, err)
	}
	awaitEvent(s, a.SessionID, time.Minute, func(*task.TaskHostBound) bool { return true })
	return a.SessionID
}

// snapshots are the names of the snapshots that the engine has.
func snapshots(t testing.TB) []string {
	t.Helper()
	return engine(t, "images", "--format", "{{.Repository}}:{{.Tag}}", "glovebox/snapshot")
}

// withoutImages removes at the end the snapshots of a server's sessions.
func (s *server) withoutImages() {
	s.t.Cleanup(func() {
		ctx := context.WithoutCancel(s.t.Context())
		var images httpapi.Images
		if err := s.call(ctx, "GET", "/images", nil, &images); err != nil {
			s.t.Error(err)
			return
		}
		var sessions []httpapi.Session
		if err := s.call(ctx, "GET", "/sessions", nil, &sessions); err != nil {
			s.t.Error(err)
			return
		}
		s.closeAll()
		for _, img := range images.Images {
			if slices.ContainsFunc(sessions, func(v httpapi.Session) bool { return v.ID == img.SessionID }) {
				if err := s.call(ctx, "POST", "/images/remove", httpapi.RemoveImageRequest{Image: img.Ref}, nil); err != nil {
					s.t.Error(err)
				}
			}
		}
	})
}

// A fork goes on from the conversation in a sandbox of its own, and the two do
// not touch each other from then on. Both logs say where it comes from.
func TestFork_ownSandbox(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := start(t, dataDir(t))
		s.withoutImages()
		ws := workspace(t, 1000)
		model := scripted(t,
			call("Bash", map[string]any{"command": "echo before > file; mkdir -p sub; ln -s ../file sub/link; chmod 751 sub; echo mine > $HOME/m; echo first-done"}), say("the first answer"),
			call("Bash", map[string]any{"command": "cat file sub/link; cat $HOME/m; echo second-done"}), say("the second answer"))
		id := s.open(httpapi.OpenRequest{Title: "source", Goal: "begin", Workspace: ws, Spec: sandbox.Spec{Wall: wall}, Model: model})
		s.awaitTurns(id, 1)
		ways := []string{"fresh", "share"}
		if wall == sandbox.WallDocker {
			ways = append(ways, "snapshot")
		} else {
			e := wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/fork", httpapi.ForkRequest{Sandbox: "snapshot"}, nil), "invalid_field")
			if !strings.Contains(e.Message, "namespace") {
				t.Errorf("refused by %q", e.Message)
			}
			wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/snapshot", nil, nil), "unsupported")
		}
		source := s.show(id)
		for _, way := range ways {
			for _, work := range []string{"share", "copy"} {
				if way == "share" && work == "copy" {
					wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/fork", httpapi.ForkRequest{Sandbox: way, Workspace: work}, nil), "invalid_field")
					continue
				}
				t.Run(way+" with workspace "+work, func(t *testing.T) {
					s := s.in(t)
					s.forked(source, way, work)
				})
			}
		}
		// The source is as it was.
		s.post(id, "messages", httpapi.MessageRequest{Text: "go on"})
		r := s.awaitResult(id, "second-done", task.CallOK)
		if !strings.HasPrefix(r.Text, "before\nbefore\nmine\n") {
			t.Errorf("the source has %q", r.Text)
		}
	})
}

// forked forks a session whose first turn has ended and looks at everything.
func (s *server) forked(source httpapi.Session, way, work string) {
	t := s.t
	t.Helper()
	id := s.fork(source.ID, httpapi.ForkRequest{Sandbox: way, Workspace: work})
	v := s.show(id)
	if v.Fork == nil || v.Fork.SessionID != source.ID || v.Fork.Sandbox != way || v.Fork.Workspace != work || v.Status != task.StatusIdle || v.Title != "Fork of source" {
		t.Errorf("shown as %+v of %+v", v, v.Fork)
	}
	if (v.Ref == source.Ref) != (way == "share") || slices.Contains(v.Shares, source.ID) != (way == "share") {
		t.Errorf("%s: at %s, shared with %q; the source is at %s", way, v.Ref, v.Shares, source.Ref)
	}
	if (v.Workspace == source.Workspace) != (work == "share") {
		t.Errorf("%s: works in %s", work, v.Workspace)
	}
	if v.Usage != (llm.Usage{}) && v.Usage == source.Usage {
		t.Errorf("the fork has spent what its source has: %+v", v.Usage)
	}
	var said, notices string
	calls, forks := 0, 0
	for _, p := range s.payloads(id) {
		switch p := p.(type) {
		case *task.MessagesAppended:
			if p.Notice {
				notices += fmt.Sprint(p.Messages)
			} else {
				said += fmt.Sprint(p.Messages)
			}
		case *task.ToolResultRecorded:
			if strings.Contains(p.Text, "first-done") {
				calls++
			}
		case *task.TaskForked:
			forks++
		}
	}
	if !strings.Contains(said, "begin") || !strings.Contains(said, "the first answer") || calls != 1 || forks != 1 {
		t.Errorf("the fork's log has %q, %d results and %d origins", said, calls, forks)
	}
	word := map[string]string{"fresh": "new one from the same image", "share": "share its sandbox", "snapshot": "snapshot"}[way]
	place := map[string]string{"share": "the very same directory", "copy": "a copy of your own"}[work]
	if !strings.Contains(notices, word) || !strings.Contains(notices, place) {
		t.Errorf("the model was told %q", notices)
	}
	told := awaitEvent(s, source.ID, moments, func(f *task.TaskForked) bool { return f.ForkID == id })
	if told.Seq == 0 || told.Seq != v.Fork.Seq {
		t.Errorf("forked at %d and at %d", told.Seq, v.Fork.Seq)
	}

	// It goes on where the conversation stands, in its own place.
	s.post(id, "messages", httpapi.MessageRequest{Text: "go on"})
	r := awaitEvent(s, id, 30*time.Second, func(r *task.ToolResultRecorded) bool { return strings.Contains(r.Text, "second-done") })
	home := way != "fresh"
	if !strings.HasPrefix(r.Text, "before\nbefore\n") || strings.Contains(r.Text, "mine\n") != home {
		t.Errorf("the fork's turn has found %q", r.Text)
	}
	s.bash(id, "echo after > file; echo theirs > $HOME/m")
	body, err := os.ReadFile(filepath.Join(source.Workspace, "file"))
	if want := map[string]string{"share": "after\n", "copy": "before\n"}[work]; err != nil || string(body) != want {
		t.Errorf("the source's file is %q, %v, want %q", body, err, want)
	}
	if work == "copy" {
		info, err := os.Stat(filepath.Join(v.Workspace, "sub"))
		if err != nil || info.Mode().Perm() != 0o751 {
			t.Errorf("the copy's directory: %v, %v", info.Mode(), err)
		}
		if to, err := os.Readlink(filepath.Join(v.Workspace, "sub/link")); err != nil || to != "../file" {
			t.Errorf("the copy's link: %q, %v", to, err)
		}
	}
	// The release of one leaves the other untouched.
	s.post(id, "release", nil)
	s.awaitState(id, moments, sandbox.StateReleased)
	if r := s.bash(source.ID, "echo before > file; cat $HOME/m; echo mine > $HOME/m"); r.Status != task.CallOK || (strings.TrimSpace(r.Text) == "theirs") != (way == "share") {
		t.Errorf("the source's sandbox after that of its fork was released: %s %q", r.Status, r.Text)
	}
	if v := s.show(source.ID); v.Sandbox.Value != sandbox.StateReady || v.Ref != source.Ref {
		t.Errorf("the source is %+v at %s", v.Sandbox, v.Ref)
	}
}

// The source may be the first to let go, and a crash in between changes nothing:
// the last one out removes.
func TestFork_shareOutlivesTheSource(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		id := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		s.mark(id)
		n := nap()
		s.bash(id, "sleep "+n+" >/dev/null 2>&1 &")
		awaitSleeps(t, n)
		fork := s.fork(id, httpapi.ForkRequest{Sandbox: "share"})
		third := s.fork(fork, httpapi.ForkRequest{Sandbox: "share"})
		traces := tracesOf(t, data, s.show(id))
		s.post(id, "close", nil)
		s.marked(fork)
		s.post(fork, "release", nil)
		s.kill()

		s = start(t, data)
		// Another session gets its sandbox after the first reaping.
		other := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		s.marked(third)
		if !sleeping(n) {
			t.Error("what ran in the shared sandbox has ended")
		}
		if v := s.show(third); len(v.Shares) != 0 || v.Sandbox.Value != sandbox.StateReady {
			t.Errorf("the last one shares with %q, %+v", v.Shares, v.Sandbox)
		}
		s.post(other, "close", nil)
		s.post(third, "release", nil)
		if sleeping(n) {
			t.Error("the last one is out, and something runs on")
		}
		if left := leftovers(t, data, s.about().Instance, traces); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// A session can be forked in the middle of a turn: what is not finished stays the
// source's.
func TestFork_midTurn(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	n := nap()
	model := scripted(t, call("Bash", map[string]any{"command": "sleep " + n}), say("slept"))
	id := s.open(httpapi.OpenRequest{Title: "source", Goal: "begin", Workspace: workspace(t, 0), Approvals: task.ApproveAuto, Spec: sandbox.Spec{Wall: sandbox.WallLocal}, Model: model})
	awaitSleeps(t, n)
	fork := s.fork(id, httpapi.ForkRequest{Title: "another way", Workspace: "copy"})
	v := s.show(fork)
	if v.Title != "another way" || v.Status != task.StatusIdle || len(v.Running) > 0 || len(v.Waiting) > 0 {
		t.Errorf("shown as %+v", v)
	}
	r := awaitEvent(s, fork, moments, func(r *task.ToolResultRecorded) bool { return true })
	if r.Status != task.CallInterrupted || !strings.Contains(r.Text, "forked") {
		t.Errorf("the open call ended as %s %q", r.Status, r.Text)
	}
	s.post(fork, "messages", httpapi.MessageRequest{Text: "what now"})
	s.awaitTurns(fork, 1)
	if v := s.show(id); v.Status != task.StatusRunning || !sleeping(n) {
		t.Errorf("the source is %s", v.Status)
	}
	s.post(id, "interrupt", nil)
	awaitGone(t, n)
	for _, bad := range []httpapi.ForkRequest{{Sandbox: "snapshot"}, {Sandbox: "half"}, {Workspace: "move"}, {Title: "a\nb"}} {
		wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/fork", bad, nil), "invalid_field")
	}
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/snapshot", nil, nil), "unsupported")
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/unpause", nil, nil), "unsupported")
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/work/cancel", nil, nil), "no_work")
	s.post(fork, "close", nil)
	s.fork(fork, httpapi.ForkRequest{}) // an ended session can be gone on with
}

// A copy that is called off, or whose server dies, leaves nothing.
func TestFork_calledOff(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	s := start(t, data)
	ws := workspace(t, 0)
	// As much as takes this machine a second to write: it is not copied in a moment.
	big, err := os.Create(filepath.Join(ws, "big"))
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	size, piece := int64(0), make([]byte, 1<<20)
	for begun := time.Now(); size < 600<<20 || since(begun) < time.Second && size < 6<<30; size += int64(len(piece)) {
		if _, err := big.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3000 {
		write(t, filepath.Join(ws, fmt.Sprintf("small-%d", i)), "x", 0)
	}
	id := s.opened(sandbox.Spec{Wall: sandbox.WallLocal}, ws)
	begin := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			done <- s.call(t.Context(), "POST", "/sessions/"+id+"/fork", httpapi.ForkRequest{Workspace: "copy"}, nil)
		}()
		s.awaitSession(id, 20*time.Second, "a copy under way", func(v httpapi.Session) bool {
			return v.Work != nil && v.Work.Kind == "fork" && v.Work.Total > size && !v.Work.StartedAt.IsZero()
		})
		return done
	}
	nothing := func(after string) {
		t.Helper()
		left, err := filepath.Glob(filepath.Join(data, "workspaces", "*"))
		if err != nil || len(left) > 0 {
			t.Errorf("after %s there is %q, %v", after, left, err)
		}
		var sessions []httpapi.Session
		if err := s.call(t.Context(), "GET", "/sessions", nil, &sessions); err != nil || len(sessions) != 1 || sessions[0].Work != nil {
			t.Errorf("after %s the sessions are %+v, %v", after, sessions, err)
		}
	}
	done := begin()
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/fork", nil, nil), "session_busy")
	s.post(id, "work/cancel", nil)
	if err := <-done; err == nil {
		t.Error("a fork that was called off succeeds")
	}
	nothing("it was called off")

	cmd := glovebox("fork", "--data", data, "--workspace", "copy", id)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.await(id, 20*time.Second, "a copy under way", func(f httpapi.Frame) bool {
		return f.Session != nil && f.Session.ID == id && f.Session.Work != nil && f.Session.Work.Bytes > 0
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); exitOf(err) != exitInterrupted {
		t.Errorf("interrupted: %v", err)
	}
	nothing("the verb was interrupted")

	done = begin()
	s.kill()
	<-done
	s = start(t, data)
	until(t, 20*time.Second, func() error {
		if left, _ := filepath.Glob(filepath.Join(data, "workspaces", "*")); len(left) > 0 {
			return fmt.Errorf("the server's death leaves %q", left)
		}
		return nil
	})
	nothing("the server died")
}

// A snapshot is listed with its session, makes sandboxes, and is removed when
// nothing is made of it.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	s := start(t, dataDir(t))
	s.withoutImages()
	id := s.opened(sandbox.Spec{Wall: sandbox.WallDocker, User: "root"}, workspace(t, 1000))
	s.mark(id)
	s.bash(id, "mkdir -p /opt && echo installed > /opt/tool")
	sharer := s.fork(id, httpapi.ForkRequest{Sandbox: "share"})
	var snap httpapi.Snapshot
	if err := s.call(t.Context(), "POST", "/sessions/"+id+"/snapshot", httpapi.SnapshotRequest{}, &snap); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(snap.Image, "glovebox/snapshot:"+id) || snap.ID == "" || snap.Size == 0 {
		t.Errorf("snapshot %+v", snap)
	}
	// It was paused for a moment, by nobody's hand.
	s.marked(sharer)
	for _, holder := range []string{id, sharer} {
		if causes := s.causes(holder, sandbox.StatePaused); len(causes) > 0 || s.show(holder).Sandbox.Value != sandbox.StateReady {
			t.Errorf("%s was shown as paused (%q), and is %+v", holder, causes, s.show(holder).Sandbox)
		}
	}
	s.post(sharer, "release", nil)
	out, err := glovebox("snapshot", "--data", s.data, "--json", id, "by-hand-"+id).Output()
	var line struct{ Type, Image string }
	if err != nil || json.Unmarshal(out, &line) != nil || line.Type != "snapshot" || line.Image != "glovebox/snapshot:by-hand-"+id {
		t.Errorf("glovebox snapshot: %v %s", err, out)
	}
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/snapshot", httpapi.SnapshotRequest{Name: "a b"}, nil), "invalid_field")
	var images httpapi.Images
	if err := s.call(t.Context(), "GET", "/images", nil, &images); err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, img := range images.Images {
		if img.SessionID == id && img.Ours {
			listed++
		}
	}
	if listed != 2 {
		t.Errorf("%d snapshots of the session are listed: %+v", listed, images.Images)
	}
	other := s.opened(sandbox.Spec{Wall: sandbox.WallDocker, Image: snap.Image, User: "root"}, workspace(t, 1000))
	if r := s.bash(other, "cat /opt/tool"); strings.TrimSpace(r.Text) != "installed" {
		t.Errorf("a sandbox of the snapshot has %q", r.Text)
	}
	s.marked(other)
	remove := func() error {
		return s.call(t.Context(), "POST", "/images/remove", httpapi.RemoveImageRequest{Image: snap.Image}, nil)
	}
	wantCode(t, remove(), "image_in_use")
	s.post(other, "close", nil)
	if err := remove(); err != nil {
		t.Error(err)
	}
	if slices.Contains(snapshots(t), snap.Image) {
		t.Error("it is there after it was removed")
	}
	wantCode(t, remove(), "invalid_field")

	s.post(id, "release", nil)
	wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/snapshot", nil, nil), "sandbox_lost")
}
