package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/envtest"
	"github.com/glovebox-dev/glovebox/backend/execenv/local"
)

func open(t *testing.T) (*local.Env, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env, err := local.New(local.Options{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return env, dir
}

func TestEnv(t *testing.T) {
	envtest.Test(t, func(t *testing.T) (execenv.Env, string) { return open(t) }, envtest.Abilities{ExactlyOnce: true})
}

func TestRun_givesAwayNoOtherVariable(t *testing.T) {
	t.Setenv("SECRET_API_KEY", "zz-secret")
	env, _ := open(t)
	o, err := env.Run(t.Context(), execenv.Command{Argv: []string{"env"}, Call: execenv.Call{ID: "call-1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := string(o.Stdout.Head)
	if strings.Contains(got, "zz-secret") || !strings.Contains(got, "GLOVEBOX_CALL=call-1\n") || !strings.Contains(got, "PATH=") {
		t.Errorf("environment:\n%s", got)
	}
}

func TestRun_saysThatItsKillIsBestEffort(t *testing.T) {
	env, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	o, err := env.Run(ctx, execenv.Command{Argv: []string{"sh", "-c", "echo on; sleep 1000"}}, func(execenv.Chunk) { cancel() })
	if err != nil || o.Kill == nil || !o.Kill.BestEffort {
		t.Errorf("Run() = %+v, %v", o, err)
	}
	if _, err := env.Run(ctx, execenv.Command{Argv: []string{"true"}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended: %v", err)
	}
}

func TestClose_endsWhatIsLeft(t *testing.T) {
	env, _ := open(t)
	o, err := env.Run(t.Context(), execenv.Command{Argv: []string{"sh", "-c", "sleep 1000 & echo $!"}}, nil)
	if err != nil || len(o.Background) != 1 {
		t.Fatalf("Run() = %+v, %v", o, err)
	}
	pid := o.Background[0].PID
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the child is not there: %v", err)
	}
	if err := env.Close(); err != nil {
		t.Fatal(err)
	}
	if stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(o.Stdout.Head)) + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("the child is alive: %s", stat)
	}
}

// Every command that leaves something running looks at what those before it
// have left; commands at the same time look at the same.
func TestRun_sideBySideWithBackgroundProcesses(t *testing.T) {
	env, _ := open(t)
	leave := func() {
		o, err := env.Run(t.Context(), execenv.Command{Argv: []string{"sh", "-c", "sleep 1000 >/dev/null 2>&1 &"}}, nil)
		if err != nil || len(o.Background) != 1 {
			t.Errorf("Run() = %+v, %v; want one process left", o, err)
		}
	}
	leave()
	var all sync.WaitGroup
	for range 4 {
		all.Go(leave)
	}
	all.Wait()
}

func TestClose_endsWhatRuns(t *testing.T) {
	env, _ := open(t)
	begun, ended := make(chan struct{}), make(chan execenv.Outcome, 1)
	go func() {
		o, err := env.Run(t.Context(), execenv.Command{Argv: []string{"sh", "-c", "echo on; sleep 1000"}}, func(execenv.Chunk) { close(begun) })
		if err != nil {
			t.Errorf("Run() = %v", err)
		}
		ended <- o
	}()
	<-begun
	if err := env.Close(); err != nil {
		t.Fatal(err)
	}
	if o := <-ended; !o.Interrupted || o.Kill == nil || len(o.Kill.Left) > 0 {
		t.Errorf("Run() = %+v, want it interrupted and nothing left", o)
	}
	if _, err := env.Run(t.Context(), execenv.Command{Argv: []string{"true"}}, nil); !errors.Is(err, execenv.ErrLost) {
		t.Errorf("a call after Close: %v, want ErrLost", err)
	}
}

func TestNew_refusesAWorkspaceThatIsNotThere(t *testing.T) {
	if _, err := local.New(local.Options{Workspace: t.TempDir() + "/gone"}); !errors.Is(err, execenv.ErrWorkdirGone) {
		t.Errorf("New() = %v", err)
	}
}
