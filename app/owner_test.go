package app

import (
	"errors"
	"fmt"
	"io/fs"
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

// After a release and after a close nothing of a sandbox is left: no container,
// process, directory, cgroup or row that holds something.
func TestRelease_leavesNothing(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		instance := s.about().Instance
		for _, verb := range []string{"release", "close"} {
			id := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
			s.bash(id, "(sleep 600 &); (setsid sleep 600 &); true")
			traces := tracesOf(t, data, s.show(id))
			s.post(id, verb, nil)
			if left := leftovers(t, data, instance, traces); len(left) > 0 {
				t.Errorf("after %s: %v", verb, left)
			}
		}
		s.stop()
		for _, r := range ledger(t, data) {
			if r.State != sandbox.StateReleased {
				t.Errorf("row of %s is %s", r.RootTaskID, r.State)
			}
		}
	})
}

// A sandbox that its user keeps is the user's: it runs on, and no restart reaps
// it.
func TestRelease_keep(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		id := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		v := s.show(id)
		guest, traces := guestOf(t, v), tracesOf(t, data, v)
		t.Cleanup(func() { discard(t, wall, v.ShortID, guest, traces) })
		s.post(id, "release", httpapi.ReleaseRequest{How: "keep"})
		s.awaitState(id, moments, sandbox.StateDetached)
		if wall == sandbox.WallDocker {
			wantKept(t, s, v.ShortID, id)
		}
		s.kill()

		s = start(t, data)
		// Another session gets its sandbox after the first reaping.
		other := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		if got := guestOf(t, v); got != guest {
			t.Errorf("the kept sandbox has guest %d, want %d", got, guest)
		}
		s.awaitState(id, moments, sandbox.StateDetached)
		// Its session gets a second one, whose release leaves the first alone.
		s.post(id, "reprovision", nil)
		s.awaitState(id, moments, sandbox.StateReady)
		s.post(id, "release", nil)
		s.post(other, "close", nil)
		if got := guestOf(t, v); got != guest {
			t.Errorf("the kept sandbox has guest %d, want %d", got, guest)
		}
	})
}

// wantKept checks that the list of containers says whose a kept one is.
func wantKept(t *testing.T, s *server, shortID, session string) {
	t.Helper()
	var list httpapi.EngineContainers
	if err := s.call(t.Context(), "GET", "/containers", nil, &list); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Containers, func(c httpapi.EngineContainer) bool { return c.ShortID == shortID })
	if i < 0 {
		t.Fatalf("the container %s is not in the list", shortID)
	}
	if c := list.Containers[i]; c.Owner != "session" || c.SessionID != session || !c.Kept {
		t.Errorf("the kept container is of %q, session %q, kept %v", c.Owner, c.SessionID, c.Kept)
	}
}

// A release that only stops keeps the binding and what is inside.
func TestRelease_stop(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		s := start(t, dataDir(t))
		id := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		s.mark(id)
		before := s.show(id)
		s.post(id, "release", httpapi.ReleaseRequest{How: "stop"})
		if v := s.awaitState(id, moments, sandbox.StateStopped); v.Sandbox.Cause != sandbox.CauseByHand {
			t.Errorf("stopped because %q", v.Sandbox.Cause)
		}
		s.post(id, "attach", nil)
		s.marked(id)
		if after := s.show(id); after.Ref != before.Ref {
			t.Errorf("ref %q, want %q", after.Ref, before.Ref)
		}
	})
}

// A server that is asked to end does with the sandboxes what its configuration
// says, and the next one finds them so.
func TestQuit(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		for policy, want := range map[string]sandbox.State{
			"keep": sandbox.StateReady, "stop": sandbox.StateStopped, "release": sandbox.StateReleased,
		} {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				data := dataDir(t)
				config := filepath.Join(t.TempDir(), "config.toml")
				write(t, config, fmt.Sprintf("on_quit = %q\n", policy), 0)
				s := start(t, data, "--config", config)
				instance := s.about().Instance
				id := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
				s.mark(id)
				v := s.show(id)
				guest, traces := guestOf(t, v), tracesOf(t, data, v)
				s.terminate()
				switch policy {
				case "keep":
					if !runs(guest) {
						t.Error("the sandbox does not run")
					}
				case "stop":
					if runs(guest) {
						t.Error("the sandbox runs")
					}
					if len(boxes(t, data)) != 1 {
						t.Error("the sandbox's directory is gone")
					}
				case "release":
					if left := leftovers(t, data, instance, traces); len(left) > 0 {
						t.Errorf("left: %v", left)
					}
				}

				s = start(t, data)
				s.awaitState(id, moments, want)
				if policy == "release" {
					return
				}
				s.post(id, "attach", nil)
				s.marked(id)
			})
		}
	})
}

// runs reports whether a process does; one that has ended may yet have to be collected.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// A data directory has one server. A second one says who has it and changes
// nothing; one that was killed is in nobody's way.
func TestOneServerPerDataDirectory(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		id := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		s.mark(id)
		before := s.show(id)

		second := glovebox("serve", "--no-open", "--addr", "127.0.0.1:0", "--data", data)
		begun := time.Now()
		out, err := second.CombinedOutput()
		if took := since(begun); took > 3*time.Second {
			t.Errorf("the second server took %v to give up", took)
		}
		if err == nil || !strings.Contains(string(out), fmt.Sprint(s.cmd.Process.Pid)) || !strings.Contains(string(out), s.base) {
			t.Errorf("the second server says %q (%v), want pid %d and %s", out, err, s.cmd.Process.Pid, s.base)
		}
		if v := s.show(id); v.Ref != before.Ref || v.Seq != before.Seq {
			t.Errorf("session %+v after the second server, was %+v", v, before)
		}
		s.marked(id)

		s.kill()
		s = start(t, data)
		s.marked(id)
	})
}

// Servers of two data directories live side by side and leave each other's
// sandboxes alone.
func TestTwoDataDirectories(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		dataA, dataB := dataDir(t), dataDir(t)
		a, b := start(t, dataA), start(t, dataB)
		if a.base == b.base {
			t.Errorf("both listen at %s", a.base)
		}
		idA, idB := a.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000)), b.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		guestA, guestB := guestOf(t, a.show(idA)), guestOf(t, b.show(idB))
		a.kill()
		b.kill()
		a = start(t, dataA)
		// Another session gets its sandbox after the first reaping.
		a.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		b = start(t, dataB)
		b.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))
		if now := guestOf(t, a.show(idA)); now != guestA {
			t.Errorf("guest %d in the first sandbox, want %d", now, guestA)
		}
		if now := guestOf(t, b.show(idB)); now != guestB {
			t.Errorf("guest %d in the second sandbox, want %d", now, guestB)
		}
	})
}

// A server that is killed at any point of an allocation leaves nothing that the
// next one does not account for; what is not ours is never touched.
func TestKilledWhileAllocating(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		about := s.about()
		var strangers []string
		if wall == sandbox.WallDocker {
			if _, err := glovebox("image", "build", "--tiny", "--data", data).Output(); err != nil {
				t.Fatalf("tiny image: %v", err)
			}
			strangers = append(
				engine(t, "create", "--name", "glovebox-"+about.Instance+"-stranger-1", about.DefaultImage, "/bin/true"),
				engine(t, "create", "--label", "glovebox.instance=another", "--label", "glovebox.session=s-other", about.DefaultImage, "/bin/true")...)
			t.Cleanup(func() { engine(t, append([]string{"rm", "-f"}, strangers...)...) })
		}
		begun := time.Now()
		ids := []string{s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000))}
		took := time.Since(begun)
		const crashes = 8 // of each wall
		midway := 0
		for i := range crashes {
			id := s.open(httpapi.OpenRequest{Title: fmt.Sprint("crash ", i), Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: wall}})
			ids = append(ids, id)
			// The point of the crash is what varies, so time itself is the input; every
			// other time from the moment on at which the allocation is known to have begun.
			if i%2 == 1 {
				until(t, 30*time.Second, func() error {
					if !slices.ContainsFunc(ledger(t, data), func(r sandbox.Record) bool { return r.RootTaskID == id }) {
						return fmt.Errorf("no sandbox of %s in the ledger", id)
					}
					return nil
				})
			}
			<-time.After(time.Duration(i/2) * took / (crashes / 2))
			s.kill()
			for _, r := range ledger(t, data) {
				if r.State == sandbox.StateAllocating {
					midway++
				}
			}
			if i < crashes-1 {
				s = start(t, data)
			}
		}
		if midway == 0 {
			t.Error("no crash hit an allocation")
		}
		t.Logf("%d allocations were cut off", midway)

		halfMade(t, wall, data)
		orphans := unowned(t, wall, data, about.Instance)
		s = start(t, data)
		looks := time.Now()
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			there := sandboxes(t, wall, data, about.Instance)
			left := slices.DeleteFunc(slices.Clone(orphans), func(id string) bool { return !slices.Contains(there, id) })
			if len(left) == 0 {
				break
			}
			if since(looks) > 30*time.Second {
				t.Fatalf("%d of %d orphans are left: %v", len(left), len(orphans), left)
			}
			<-tick.C
		}
		t.Logf("%d orphans were removed", len(orphans))

		// Each session gets the one sandbox that it was opened for.
		var want []string
		for _, id := range ids {
			awaitEvent(s, id, time.Minute, func(*task.TaskHostBound) bool { return true })
			v := s.awaitState(id, time.Minute, sandbox.StateReady)
			want = append(want, s.show(v.ID).Ref.ID())
		}
		got := sandboxes(t, wall, data, about.Instance)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("sandboxes %v, want those of the sessions, %v", got, want)
		}
		if n := len(boxes(t, data)); n != len(ids) {
			t.Errorf("%d directories of sandboxes, want %d", n, len(ids))
		}
		for _, id := range strangers {
			if len(engine(t, "ps", "-aq", "--filter", "id="+id)) != 1 {
				t.Errorf("the stranger %s was removed", id)
			}
		}
	})
}

// halfMade leaves what a crash does that hits between the making of a sandbox's
// directory and the note of whose it is.
func halfMade(t testing.TB, wall sandbox.Wall, data string) {
	t.Helper()
	digits, file := 24, "lock"
	if wall == sandbox.WallDocker {
		digits, file = 32, "owner.json.new"
	}
	dir := filepath.Join(data, "boxes", strings.Repeat("0", digits))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, file), "", 0)
}

// Twenty sessions that are opened at once get a sandbox each, and nothing is left
// of them when they have been closed: on the machine, or in the server.
func TestManySessionsAtOnce(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		instance := s.about().Instance
		s.post(s.opened(sandbox.Spec{Wall: wall}, ""), "close", nil) // it installs the guest
		before := descriptors(t, s.cmd.Process.Pid)
		const many = 20
		opened := make(chan string, many)
		for i := range many {
			go func() {
				var a httpapi.Accepted
				err := s.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Title: fmt.Sprint(i), Spec: sandbox.Spec{Wall: wall}}, &a)
				if err != nil {
					t.Errorf("open: %v", err)
				}
				opened <- a.SessionID
			}()
		}
		var ids, traces []string
		for range many {
			ids = append(ids, <-opened)
		}
		refs := map[sandbox.Ref]bool{}
		for _, id := range ids {
			awaitEvent(s, id, 2*time.Minute, func(*task.TaskHostBound) bool { return true })
			v := s.awaitState(id, moments, sandbox.StateReady)
			if r := s.bash(id, "hostname"); !strings.Contains(r.Text, v.ShortID) || v.ShortID == "" {
				t.Errorf("hostname %q in %s", r.Text, v.ShortID)
			}
			refs[s.show(id).Ref] = true
			traces = append(traces, tracesOf(t, data, v)...)
		}
		if len(refs) != many {
			t.Errorf("%d sandboxes for %d sessions", len(refs), many)
		}
		var closed sync.WaitGroup
		for _, id := range ids {
			closed.Go(func() {
				if err := s.call(t.Context(), "POST", "/sessions/"+id+"/close", nil, nil); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		closed.Wait()
		if left := leftovers(t, data, instance, traces); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		// Connections that wait for another request end by themselves, so the
		// number need not be the same, but no sandbox has left one.
		if after := descriptors(t, s.cmd.Process.Pid); after >= before+many {
			t.Errorf("the server has %d descriptors, and had %d before %d sandboxes", after, before, many)
		}
		if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil { // its last words are its goroutines
			t.Fatal(err)
		}
		<-s.gone
		all := strings.Split(s.log.String(), "\ngoroutine ")[1:]
		if len(all) == 0 {
			t.Errorf("the server does not say what its goroutines are:\n%s", s.log)
		}
		for _, g := range all {
			for _, of := range []string{"backend/guest/client.", "hashicorp/yamux.", "(*Manager).relay(", "session.(*driver)"} {
				if strings.Contains(g, of) {
					t.Errorf("a goroutine is left of a sandbox: %s", g)
				}
			}
		}
	})
}

// descriptors counts the open files of a process.
func descriptors(t testing.TB, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Without any wall nothing is run: the user is told what to install.
func TestNoWall(t *testing.T) {
	t.Parallel()
	ws := workspace(t, 1000)
	model := scripted(t, call("Bash", map[string]any{"command": "touch ran"}), say("done"))
	for _, args := range [][]string{
		{"run", "--workspace", ws, "--model", model, "go"},
		{"serve", "--no-open", "--addr", "127.0.0.1:0"},
	} {
		code, out := without(t, []string{"PATH=" + t.TempDir()}, append(args, "--data", dataDir(t))...)
		if code != exitNoWall || !strings.Contains(out, "install bubblewrap") || !strings.Contains(out, "unset DOCKER_HOST") {
			t.Errorf("%s: exit code %d, %q, want %d and what to install", args[0], code, out, exitNoWall)
		}
	}
	if _, err := os.Lstat(filepath.Join(ws, "ran")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the command ran: %v", err)
	}
}

// Without an engine the namespace wall is used where none was named, and said
// so; a wall that was named is never replaced.
func TestNoEngine(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	ws := workspace(t, 1000)
	model := scripted(t, call("Bash", map[string]any{"command": "touch ran"}), say("done"))
	code, out := without(t, nil, "run", "--workspace", ws, "--model", model, "--data", dataDir(t), "go")
	if code != exitDone || !strings.Contains(out, "namespace wall") {
		t.Errorf("exit code %d, %q, want a session behind the namespace wall", code, out)
	}
	ran := filepath.Join(ws, "ran")
	if err := os.Remove(ran); err != nil {
		t.Errorf("the command's file: %v", err)
	}
	code, out = without(t, nil, "run", "--wall", "docker", "--workspace", ws, "--model", model, "--data", dataDir(t), "go")
	if code == exitDone || !strings.Contains(out, "engine") {
		t.Errorf("exit code %d, %q, want a failure that names the engine", code, out)
	}
	if _, err := os.Lstat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the command ran: %v", err)
	}
}

// without runs the program where no engine answers.
func without(t *testing.T, env []string, args ...string) (code int, out string) {
	t.Helper()
	cmd := glovebox(args...)
	cmd.Env = append(append(cmd.Env, "DOCKER_HOST=unix://"+filepath.Join(t.TempDir(), "none.sock")), env...)
	body, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(body)
}

// terminate asks the server to end and leaves the sessions as they are.
func (s *server) terminate() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.gone:
	case <-time.After(10 * time.Second):
		s.t.Fatalf("the server does not end\n%s", s.log)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != exitDone {
		s.t.Errorf("exit code %d\n%s", code, s.log)
	}
}

// A session that was closed by a server that died over it lets go of its sandbox.
func TestKilledWhileClosing(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data := dataDir(t)
		s := start(t, data)
		id, instance := s.opened(sandbox.Spec{Wall: wall}, workspace(t, 1000)), s.about().Instance
		traces := tracesOf(t, data, s.show(id))
		s.kill()
		appendTo(t, data, id, &task.TaskCancelled{Reason: "closed by hand"})
		s = start(t, data)
		s.awaitState(id, moments, sandbox.StateReleased)
		if left := leftovers(t, data, instance, traces); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// A session that was given a new sandbox by a server that died before it said so
// has that one, and its model is told.
func TestKilledWhileReprovisioning(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	data := dataDir(t)
	s := start(t, data)
	id := s.opened(sandbox.Spec{Wall: sandbox.WallNamespace}, workspace(t, 1000))
	want := s.show(id).Ref
	s.kill()
	before := &task.TaskHostBound{HostID: "test", ExecEnvRef: "namespace://local#000000000000000000000000", Wall: sandbox.WallNamespace}
	appendTo(t, data, id, before)
	s = start(t, data)
	bound := awaitEvent(s, id, moments, func(b *task.TaskHostBound) bool { return b.Reprovision })
	if bound.ExecEnvRef != want {
		t.Errorf("bound to %s, want %s", bound.ExecEnvRef, want)
	}
	awaitEvent(s, id, moments, func(m *task.MessagesAppended) bool { return m.Notice })
	if r := s.bash(id, "echo on"); r.Status != task.CallOK {
		t.Errorf("in the sandbox: %s %q", r.Status, r.Text)
	}
}

// appendTo writes to the log of a session whose server does not run.
func appendTo(t testing.TB, data, id string, p task.Payload) {
	t.Helper()
	st := openStore(t, data)
	defer st.Close()
	event, err := task.Encode(id, id, 0, time.Now(), p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(t.Context(), event); err != nil {
		t.Fatal(err)
	}
}
