//go:build linux

package namespace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestServerDeath_leavesItRunning(t *testing.T) {
	requireWall(t)
	for _, uid := range owners() {
		t.Run(fmt.Sprintf("server of %d", uid), func(t *testing.T) {
			f := &fixture{workspace: workspace(t, uid)}
			data := t.TempDir()
			f.Provider = newProvider(t, data, "test")
			if err := errors.Join(os.Chown(data, uid, uid), os.Chown(f.boxes, uid, uid)); err != nil {
				t.Fatal(err)
			}
			s := startServer(t, uid, data, "root", f.workspace, "")
			t.Cleanup(func() {
				if err := f.Release(context.Background(), "root"); err != nil {
					t.Error(err)
				}
				if names := left(t, data, ""); len(names) > 0 {
					t.Errorf("left behind: %q", names)
				}
			})
			ref := sandbox.Ref(s.said)
			if len(inside(t, data)) == 0 {
				t.Error("nothing is seen in a sandbox that runs")
			}
			attach := func() string {
				t.Helper()
				var err error
				if f.handle, err = f.Attach(t.Context(), ref); err != nil {
					t.Fatalf("Attach(%q) = %v", ref, err)
				}
				f.box = &box{meta: meta{ID: f.handle.SandboxID}, dir: filepath.Join(f.boxes, f.handle.SandboxID)}
				hello, err := f.guest(t).Hello(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return hello.BootID
			}
			before := attach()
			s.kill()
			if after := attach(); after != before {
				t.Errorf("boot %s became %s", before, after)
			}
			f.must(t, "echo mine > f")
			info, err := os.Stat(filepath.Join(f.workspace, "f"))
			if err != nil {
				t.Fatal(err)
			}
			if got := int(info.Sys().(*syscall.Stat_t).Uid); got != uid {
				t.Errorf("the file belongs to %d, want %d", got, uid)
			}
		})
	}
}

// A server that dies at any step of an allocate leaves nothing that the next
// one does not find by its root task.
func TestServerDeath_duringAllocate(t *testing.T) {
	requireWall(t)
	for _, step := range []string{"create", "start", "guest ready"} {
		t.Run(step, func(t *testing.T) {
			data := t.TempDir()
			p := newProvider(t, data, "test")
			s := startServer(t, os.Getuid(), data, "root", workspace(t, os.Getuid()), step)
			if s.said != "reached" {
				t.Fatalf("the server said %q", s.said)
			}
			s.kill()
			found, err := p.List(t.Context())
			if err != nil || len(found) != 1 || found[0].RootTaskID != "root" {
				t.Errorf("List = %+v, %v; want the one of the dead server", found, err)
			}
			if err := p.Release(t.Context(), "root"); err != nil {
				t.Fatal(err)
			}
			if names := left(t, data, ""); len(names) > 0 {
				t.Errorf("left behind: %q", names)
			}
		})
	}
}

// An init that was never written down is found by its arguments.
func TestAttach_unwrittenProcess(t *testing.T) {
	f := allocate(t, os.Getuid(), nil)
	before, err := f.guest(t).Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.box.dir, processFile)); err != nil {
		t.Fatal(err)
	}
	c, err := f.condition(t.Context(), f.box.ID)
	if err != nil || c.Value != sandbox.StateReady {
		t.Errorf("condition = %+v, %v, want ready", c, err)
	}
	if f.handle, err = f.Attach(t.Context(), f.ref()); err != nil {
		t.Fatal(err)
	}
	after, err := f.guest(t).Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.BootID == before.BootID {
		t.Error("a sandbox that was never put under its limits was kept")
	}
}

// The bubblewrap outside is not needed once the sandbox runs; without it nobody
// sees why that ends.
func TestOuterDeath_leavesItRunning(t *testing.T) {
	f := allocate(t, os.Getuid(), nil)
	r, err := f.box.run()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(r.Outer, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := f.collected(t.Context(), f.box.ID, r.Outer); err != nil {
		t.Fatal(err)
	}
	if c, err := f.Inspect(t.Context(), f.ref()); err != nil || c.Value != sandbox.StateReady {
		t.Errorf("Inspect = %+v, %v, want ready", c, err)
	}
	f.must(t, "true")
	if err := f.box.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := f.Inspect(t.Context(), f.ref()); err != nil || c.Value != sandbox.StateStopped || c.Cause != sandbox.CauseUnseen {
		t.Errorf("Inspect = %+v, %v, want stopped, %s", c, err, sandbox.CauseUnseen)
	}
}

// Where nothing can be written, as on a full disk, a sandbox is stopped all the same.
func TestStop_unnoted(t *testing.T) {
	f := allocate(t, os.Getuid(), nil)
	if err := os.Mkdir(filepath.Join(f.box.dir, stoppedFile+newSuffix), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Stop(t.Context(), f.ref()); err != nil {
		t.Errorf("Stop = %v", err)
	}
	if c, err := f.Inspect(t.Context(), f.ref()); err != nil || c.Value != sandbox.StateStopped {
		t.Errorf("Inspect = %+v, %v, want stopped", c, err)
	}
}

// Who looks while a sandbox ends and is started again sees one of its states, whatever
// is written between two reads of that look.
func TestCondition_duringAStart(t *testing.T) {
	p := newProvider(t, t.TempDir(), "test")
	b, unlock, err := p.create(t.Context(), "root", sandbox.Spec{}, plan{uid: os.Getuid(), gid: os.Getgid()})
	if err != nil {
		t.Fatal(err)
	}
	// start is what launch and reap write of one start and its end.
	start := func(unlock func()) error {
		defer unlock()
		if err := b.forget(t.Context()); err != nil {
			return err
		}
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			return err
		}
		who, err := identify(cmd.Process.Pid)
		done := make(chan struct{})
		defer close(done)
		p.mu.Lock()
		p.reaping[b.ID] = reaper{cmd.Process.Pid, done}
		p.mu.Unlock()
		err = errors.Join(err, writeJSON(filepath.Join(b.dir, processFile), run{identity: who, Outer: cmd.Process.Pid}))
		cmd.Process.Kill()
		cmd.Wait()
		return errors.Join(err, writeJSON(filepath.Join(b.dir, stoppedFile), stopped{Cause: sandbox.CauseKilled}))
	}
	if err := start(unlock); err != nil {
		t.Fatal(err)
	}
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-over:
				ended <- nil
				return
			default:
			}
			unlock, err := b.lock(t.Context())
			if err == nil {
				err = start(unlock)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	seen := map[string]int{}
	for range 1000 {
		c, err := p.condition(t.Context(), b.ID)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(c.Value)+" "+c.Cause]++
	}
	close(over)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{"ready ", "allocating ", "stopped " + sandbox.CauseKilled} {
		delete(seen, known)
	}
	if len(seen) > 0 {
		t.Errorf("it was seen as %v", seen)
	}
}

// A bubblewrap that was killed says nothing of a sandbox that ended with it.
func TestNoteEnd_ofAKilledBubblewrap(t *testing.T) {
	for _, test := range []struct {
		status syscall.WaitStatus
		cause  string
	}{
		{0, sandbox.CauseExited},
		{(128 + 9) << 8, sandbox.CauseKilled},
		{9, sandbox.CauseUnseen}, // of a signal
	} {
		dir := t.TempDir()
		const outer = 4711
		if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := writeJSON(filepath.Join(dir, processFile), run{identity: identity{PID: 1}, Outer: outer}); err != nil {
			t.Fatal(err)
		}
		if got, err := noteEnd(dir, outer, test.status); err != nil || got != test.cause {
			t.Errorf("noteEnd of status %#x = %q, %v, want %q", uint32(test.status), got, err, test.cause)
		}
	}
}

func (f *fixture) ref() sandbox.Ref { return f.box.ref() }

func TestInstances_ofOneDirectory(t *testing.T) {
	f := allocate(t, os.Getuid(), nil)
	other := newProvider(t, f.opts.DataDir, "other")
	if _, err := other.Attach(t.Context(), f.ref()); !errors.Is(err, sandbox.ErrForeign) {
		t.Errorf("Attach = %v, want %v", err, sandbox.ErrForeign)
	}
	if err := other.Stop(t.Context(), f.ref()); !errors.Is(err, sandbox.ErrForeign) {
		t.Errorf("Stop = %v, want %v", err, sandbox.ErrForeign)
	}
	if err := other.Remove(t.Context(), f.ref()); !errors.Is(err, sandbox.ErrForeign) {
		t.Errorf("Remove = %v, want %v", err, sandbox.ErrForeign)
	}
	if err := other.Release(t.Context(), "root"); err != nil {
		t.Errorf("Release = %v", err)
	}
	if found, err := other.List(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("List = %v, %v, want nothing", found, err)
	}
	f.must(t, "true")
}

func TestAttach_silentGuest(t *testing.T) {
	f := allocate(t, os.Getuid(), nil)
	f.opts.Ready = 200 * time.Millisecond
	r, err := f.box.run()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(r.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for !isFrozen(t, r.PID) {
		runtime.Gosched()
	}
	if _, err := f.Attach(t.Context(), f.ref()); !errors.Is(err, sandbox.ErrUnreachable) {
		t.Errorf("Attach = %v, want %v", err, sandbox.ErrUnreachable)
	}
	if err := syscall.Kill(r.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	f.opts.Ready = 20 * time.Second
	if _, err := f.Attach(t.Context(), f.ref()); err != nil {
		t.Errorf("Attach of a guest that speaks again = %v", err)
	}
}

// isFrozen reports whether every thread of a process that was sent SIGSTOP has
// stopped: they do one after the other.
func isFrozen(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads of %d: %v, %v", pid, threads, err)
	}
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return false // it ended after it was listed; others may have begun
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, state, _ := bytes.Cut(stat, []byte(") ")); !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}

// A pid that went to another process is not taken for the sandbox, nor killed.
func TestProcess_usedAgain(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p, err := find(self)
	if err != nil || p == nil {
		t.Fatalf("find(self) = %v, %v", p, err)
	}
	p.Close()
	for _, id := range []identity{
		{PID: self.PID, Start: self.Start + 1, Boot: self.Boot},
		{PID: self.PID, Start: self.Start, Boot: "another boot"},
		{PID: 1 << 30, Start: self.Start, Boot: self.Boot},
	} {
		if p, err := find(id); p != nil || err != nil {
			t.Errorf("find(%+v) = %v, %v, want nothing", id, p, err)
		}
	}
}

func TestLimits(t *testing.T) {
	f := allocate(t, os.Getuid(), func(s *sandbox.Spec) {
		s.Resources = map[string]string{"memory": "256m", "pids": "64", "cpus": "0.5", "shm": "1m"}
	})
	d, err := f.Describe(t.Context(), f.ref())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.NotEnforced) > 0 {
		t.Skipf("no cgroup can be made here; not enforced: %q", d.NotEnforced)
	}
	for key, want := range map[string]string{"memory": "256m", "pids": "64", "cpus": "0.5"} {
		if d.Limits[key] != want {
			t.Errorf("the kernel holds it to %s %q, want %q", key, d.Limits[key], want)
		}
	}
	if output, code := f.sh(t, "head -c 2m /dev/zero > /dev/shm/x"); code == 0 {
		t.Errorf("2 MB in a /dev/shm of 1: %s", output)
	}
	if output, code := f.sh(t, "head -c 400m /dev/zero | tail -c 400m | wc -c"); code == 0 && output == "419430400" {
		t.Error("400 MB in a sandbox of 256")
	}
	if output, code := f.sh(t, "i=0; while [ $i -lt 100 ]; do sleep 20 & i=$((i+1)); done"); code == 0 {
		t.Errorf("100 processes at once of 64: %s", output)
	}
	r, err := f.box.run()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cgroups) == 0 || !outOfMemory(r.Cgroups) {
		t.Errorf("cgroups %q saw no shortage", r.Cgroups)
	}
	if err := f.Release(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range r.Cgroups {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

func TestDescribe_andLogs(t *testing.T) {
	f := allocate(t, os.Getuid(), nil)
	d, err := f.Describe(t.Context(), f.ref())
	if err != nil {
		t.Fatal(err)
	}
	if d.ID != f.box.ID || d.ShortID != f.handle.ShortID || d.Network != "proxy" || d.StartedAt.IsZero() {
		t.Errorf("Describe = %+v", d)
	}
	if len(d.Mounts) != 1 || d.Mounts[0].Source != f.workspace {
		t.Errorf("mounts = %+v, want the workspace", d.Mounts)
	}
	if root := os.Getuid() == 0; root != strings.Contains(strings.Join(d.Notes, "\n"), "uid 0") {
		t.Errorf("notes = %q", d.Notes)
	}
	if len(d.Commands) != 1 || d.Commands[0].Does != "logs" {
		t.Fatalf("commands = %+v", d.Commands)
	}
	if out, err := exec.Command("/bin/sh", "-c", d.Commands[0].Text).CombinedOutput(); err != nil || !strings.Contains(string(out), f.box.ID) {
		t.Errorf("%s: %v\n%s", d.Commands[0].Text, err, out)
	}
	r, err := f.Logs(t.Context(), f.ref(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if body, err := io.ReadAll(r); err != nil || strings.Count(string(body), "\n") != 1 {
		t.Errorf("the last line of the log is %q, %v", body, err)
	}
}

// A start that finds its workspace gone says so and leaves the box as it was.
func TestAttach_workspaceGone(t *testing.T) {
	f := allocate(t, os.Getuid(), nil)
	if err := f.Stop(t.Context(), f.ref()); err != nil {
		t.Fatal(err)
	}
	away := f.workspace + ".away"
	if err := os.Rename(f.workspace, away); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(away) })
	if _, err := f.Attach(t.Context(), f.ref()); !errors.Is(err, sandbox.ErrStopped) || !strings.Contains(err.Error(), f.workspace) {
		t.Errorf("Attach = %v, want %v and the path", err, sandbox.ErrStopped)
	}
	if _, err := os.Stat(f.workspace); err == nil {
		t.Error("the workspace was made")
	}
	if err := os.Rename(away, f.workspace); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Attach(t.Context(), f.ref()); err != nil {
		t.Errorf("Attach with the workspace back = %v", err)
	}
}
