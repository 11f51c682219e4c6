//go:build linux

package container_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/envtest"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestEnv_where(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		w := p.env.Where()
		if w.Wall != string(p.wall.name) || w.SandboxID != p.binding.ShortID || w.Workdir != "/workspace" || w.Boot != p.binding.Hello.BootID || w.Boot == "" {
			t.Errorf("Where() = %+v, want it as in %+v", w, p.binding)
		}
		out, _ := sh(t, p.env, "hostname; pwd")
		if want := w.SandboxID + "\n/workspace\n"; out != want {
			t.Errorf("hostname; pwd = %q, want %q", out, want)
		}
	})
}

func TestEnv_relativePaths(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		ctx := t.Context()
		within := []string{"."}
		if _, err := p.env.WriteFile(ctx, execenv.WriteRequest{Path: "a/one.txt", Data: []byte("uno\n"), Mode: execenv.WriteExclusive, Within: within}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.env.EditFile(ctx, execenv.EditRequest{Path: "a/one.txt", Old: "uno", New: "one", Within: within}); err != nil {
			t.Fatal(err)
		}
		if err := p.env.Change(ctx, execenv.ChangeRequest{Kind: execenv.ChangeRename, Path: "a/one.txt", To: "a/two.txt", Within: within}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(p.workspace, "a/two.txt")); err != nil || string(got) != "one\n" {
			t.Errorf("on the host the file is %q, %v", got, err)
		}
		if r, err := p.env.ReadFile(ctx, execenv.ReadRequest{Path: "a/two.txt"}); err != nil || string(r.Data) != "one\n" || r.Info.Path != "/workspace/a/two.txt" {
			t.Errorf("ReadFile() = %q of %s, %v", r.Data, r.Info.Path, err)
		}
		if i, err := p.env.Stat(ctx, "a"); err != nil || i.Kind != execenv.KindDir {
			t.Errorf("Stat() = %+v, %v", i, err)
		}
		if l, err := p.env.List(ctx, "a"); err != nil || len(l.Entries) != 1 {
			t.Errorf("List() = %+v, %v", l, err)
		}
		if g, err := p.env.Glob(ctx, execenv.GlobRequest{Pattern: "**/*.txt"}); err != nil || g.Total != 1 || g.Files[0].Path != "/workspace/a/two.txt" {
			t.Errorf("Glob() = %+v, %v", g, err)
		}
		if g, err := p.env.Grep(ctx, execenv.GrepRequest{Pattern: "on.", Mode: execenv.GrepFiles}); err != nil || len(g.Rows) != 1 {
			t.Errorf("Grep() = %+v, %v", g, err)
		}
		if s, err := p.env.Snapshot(ctx, execenv.SnapshotRequest{Roots: []string{"a"}, ContentName: "two.txt"}); err != nil || string(s.Contents["/workspace/a/two.txt"]) != "one\n" {
			t.Errorf("Snapshot() = %+v, %v", s, err)
		}
		if _, err := p.env.ReadFile(ctx, execenv.ReadRequest{Path: "none"}); !errors.Is(err, execenv.ErrNotFound) {
			t.Errorf("ReadFile() of nothing = %v", err)
		}
		if _, err := p.env.WriteFile(ctx, execenv.WriteRequest{Path: "../etc/x", Mode: execenv.WriteOverwrite, Within: within}); !errors.Is(err, execenv.ErrEscape) {
			t.Errorf("WriteFile() outside = %v", err)
		}
		o, err := p.env.Run(ctx, execenv.Command{Argv: []string{"cat", "two.txt"}, Dir: "a"}, nil)
		if err != nil || string(o.Stdout.Head) != "one\n" {
			t.Errorf("Run() in a relative directory = %+v, %v", o, err)
		}
	})
}

func TestEnv_variables(t *testing.T) {
	t.Setenv("GLOVEBOX_TEST_TOKEN", "first")
	spec := sandbox.Spec{Env: map[string]sandbox.EnvValue{
		"LITERAL": {Literal: "as given"},
		"TOKEN":   {FromHost: "GLOVEBOX_TEST_TOKEN"},
		"UNSET":   {FromHost: "GLOVEBOX_TEST_NEVER_SET"},
	}}
	everyWall(t, spec, func(t *testing.T, p *place) {
		const show = `echo "$LITERAL/$TOKEN/${UNSET-not set}"`
		t.Setenv("GLOVEBOX_TEST_TOKEN", "second") // read for each command
		if out, _ := sh(t, p.env, show); out != "as given/second/not set\n" {
			t.Errorf("the variables are %q", out)
		}
		o, err := p.env.Run(t.Context(), execenv.Command{Argv: []string{"sh", "-c", show}, Env: []string{"LITERAL=the call's own"}}, nil)
		if err != nil || string(o.Stdout.Head) != "the call's own/second/not set\n" {
			t.Errorf("with one of the call's own they are %q, %v", o.Stdout.Head, err)
		}
		rows, _ := p.ledger.Records(t.Context())
		if v := rows[0].Spec.Env["TOKEN"]; v.Literal != "" {
			t.Errorf("the ledger holds the value %q", v.Literal)
		}
	})
}

// What strangers do to a sandbox is seen without anybody asking, and the next
// call knows it.
func TestEnv_watched(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		if err := p.stranger.(sandbox.Stopper).Stop(t.Context(), p.binding.Ref); err != nil {
			t.Fatal(err)
		}
		if took := p.await(t, "stopped by hand"); took > 5*time.Second {
			t.Errorf("a stop was seen after %v", took)
		}
		if _, err := p.env.Stat(t.Context(), "."); !errors.Is(err, sandbox.ErrStopped) {
			t.Errorf("Stat() = %v, want stopped", err)
		}
		if _, err := p.stranger.Attach(t.Context(), p.binding.Ref); err != nil {
			t.Fatal(err)
		}
		if took := p.await(t, "ready "); took > 5*time.Second {
			t.Errorf("a start was seen after %v", took)
		}
		if _, err := p.env.Stat(t.Context(), "."); err != nil {
			t.Errorf("Stat() = %v, want it to attach", err)
		}
		if err := p.stranger.(sandbox.Remover).Remove(t.Context(), p.binding.Ref); err != nil {
			t.Fatal(err)
		}
		if took := p.await(t, "lost removed"); took > 5*time.Second {
			t.Errorf("a removal was seen after %v", took)
		}
		if _, err := p.env.Stat(t.Context(), "."); !errors.Is(err, execenv.ErrLost) {
			t.Errorf("Stat() = %v, want lost", err)
		}
	})
}

// The suite that every Env passes.
func TestEnv(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		envtest.Test(t, func(*testing.T) (execenv.Env, string) { return p.env, "/workspace" },
			envtest.Abilities{ExactKill: true, ExactlyOnce: true})
	})
}

var sleeper = []string{"sh", "-c", "echo up; sleep 100"}

func TestRun_cancelled(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		ctx, cancel := context.WithCancel(t.Context())
		r := start(ctx, t, p.env, execenv.Command{Argv: sleeper})
		cancel()
		o, took, err := r.wait(t)
		if err != nil || !o.Interrupted || o.Kill == nil || len(o.Kill.Left) > 0 {
			t.Errorf("Run() = %+v, %v, want it interrupted with proof", o, err)
		}
		if took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A sandbox that is removed behind our back ends the call under way as lost,
// not as an exit code, and the next ones at once. A new one is the user's word.
func TestRun_removedUnderneath(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		sh(t, p.env, "echo kept > file")
		r := start(t.Context(), t, p.env, execenv.Command{Argv: sleeper})
		if err := p.stranger.(sandbox.Remover).Remove(t.Context(), p.binding.Ref); err != nil {
			t.Fatal(err)
		}
		o, took, err := r.wait(t)
		const text = "the sandbox is lost: removed; re-provision the session"
		if !errors.Is(err, execenv.ErrLost) || !errors.Is(err, sandbox.ErrGone) || err.Error() != text {
			t.Errorf("Run() = %+v, %v, want %q", o, err, text)
		}
		if took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		quickest := time.Hour // of a few, since a machine may stand still in one
		for range 3 {
			began := time.Now()
			if _, err := p.env.Stat(t.Context(), "."); !errors.Is(err, execenv.ErrLost) {
				t.Errorf("Stat() = %v, want lost", err)
			}
			quickest = min(quickest, time.Since(began))
		}
		if quickest > time.Second {
			t.Errorf("the next call took %v to say so", quickest)
		}
		b, err := p.manager.Reprovision(t.Context(), root, nil)
		if err != nil || b.Ref == p.binding.Ref {
			t.Fatalf("Reprovision() = %s, %v, want another sandbox", b.Ref, err)
		}
		if out, _ := sh(t, p.env, "cat file"); out != "kept\n" || p.env.Where().SandboxID != b.ShortID {
			t.Errorf("in the new sandbox %s the file is %q", p.env.Where().SandboxID, out)
		}
	})
}

func TestRun_stoppedUnderneath(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		r := start(t.Context(), t, p.env, execenv.Command{Argv: sleeper})
		if err := p.manager.Stop(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		o, _, err := r.wait(t)
		const text = "the sandbox is stopped: by hand; start it to go on"
		if !errors.Is(err, execenv.ErrLost) || !errors.Is(err, sandbox.ErrStopped) || err.Error() != text {
			t.Errorf("Run() = %+v, %v, want %q", o, err, text)
		}
		if _, err := p.manager.Start(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		if out, _ := sh(t, p.env, "echo again"); out != "again\n" {
			t.Errorf("after the start it prints %q", out)
		}
	})
}

// A guest that is killed takes its calls with it. Taken up in the next boot,
// nobody knows what became of them, and they are not run again.
func TestRun_killedAndStartedAgain(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		cmd := execenv.Command{Call: execenv.Call{ID: "call-1"}, Argv: []string{"sh", "-c", "echo ran >> ran; echo up; sleep 100"}}
		r := start(t.Context(), t, p.env, cmd)
		boot := p.env.Where().Boot
		p.wall.kill(t, p.binding.Ref)
		o, took, err := r.wait(t)
		if !errors.Is(err, execenv.ErrOutcomeUnknown) || !errors.Is(err, sandbox.ErrStopped) {
			t.Errorf("Run() = %+v, %v, want an unknown outcome because it is stopped", o, err)
		}
		if took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		b, err := p.manager.Start(t.Context(), root)
		if err != nil || b.Ref != p.binding.Ref || b.Hello.BootID == boot {
			t.Fatalf("Start() = %s in boot %s, %v", b.Ref, b.Hello.BootID, err)
		}
		cmd.Call.Boot = boot
		if o, err := p.env.Run(t.Context(), cmd, nil); !errors.Is(err, execenv.ErrOutcomeUnknown) {
			t.Errorf("Run() again = %+v, %v, want outcome unknown", o, err)
		}
		if got, err := os.ReadFile(filepath.Join(p.workspace, "ran")); err != nil || string(got) != "ran\n" {
			t.Errorf("the command has written %q, %v, want that it ran once", got, err)
		}
	})
}

// The next process of the host finds the sandbox and the call in it.
func TestRun_takenUpByTheNextProcess(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		cmd := execenv.Command{Call: execenv.Call{ID: "call-1"}, Argv: []string{"sh", "-c", "echo ran >> ran; echo up; while [ ! -e go ]; do sleep 0.05; done; echo done"}}
		start(t.Context(), t, p.env, cmd)
		boot := p.env.Where().Boot

		p.manage(t, p.wall.new(t, p.dataDir, p.instance))
		if c, ok := p.manager.Condition(root); !ok || c.Value != sandbox.StateReady {
			t.Errorf("Condition() = %+v, want ready", c)
		}
		env := p.bind(t, execenv.Caller{RootTaskID: root, Generation: 2})
		if env.Where() != p.env.Where() {
			t.Errorf("Where() = %+v, want %+v", env.Where(), p.env.Where())
		}
		cmd.Call.Boot = boot
		r := start(t.Context(), t, env, cmd)
		if err := os.WriteFile(filepath.Join(p.workspace, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if o, _, err := r.wait(t); err != nil || string(o.Stdout.Head) != "up\ndone\n" {
			t.Errorf("Run() = %+v, %v, want the whole output", o, err)
		}
		if got, err := os.ReadFile(filepath.Join(p.workspace, "ran")); err != nil || string(got) != "ran\n" {
			t.Errorf("the command has written %q, %v, want that it ran once", got, err)
		}
		if _, err := p.env.Stat(t.Context(), "."); !errors.Is(err, execenv.ErrFenced) {
			t.Errorf("the process before, now fenced, got %v", err)
		}
		if _, err := p.bind(t, execenv.Caller{}).Stat(t.Context(), "."); err != nil {
			t.Errorf("a person is fenced: %v", err)
		}
	})
}
