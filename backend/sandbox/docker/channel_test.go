package docker

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// connecting returns the pids, on this machine, of what carries a channel into a
// container.
func connecting(t *testing.T, p *Provider, id string) (pids []int) {
	t.Helper()
	top, err := p.engine.ContainerTop(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(top.Titles, "PID")
	for _, row := range top.Processes {
		if pid, err := strconv.Atoi(row[at]); err == nil && strings.Contains(strings.Join(row, " "), " connect --socket") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// The end of what carries the channel ends no call: the next connection finds it
// as it is.
func TestExecChannel_crash(t *testing.T) {
	needEngine(t, ownProvider(t))
	p := newProviderOn(t, Options{ByExec: true}, t.TempDir(), "test-"+newGuestID()[:10])
	t.Cleanup(func() {
		if left := leftOf(t, p); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	workspace := t.TempDir()
	h := mustAllocate(t, p, sandbox.Spec{Workspace: workspace})
	defer p.Release(t.Context(), "root")
	c := p.guestClient(h)
	defer c.Close()
	call := execenv.Call{ID: rand.Text()}
	begun := make(chan struct{}, 64) // one for each piece of output, of which there are few
	type end struct {
		execenv.Outcome
		error
	}
	ended := make(chan end, 1)
	go func() {
		o, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{
			Call: call, Argv: []string{"/bin/sh", "-c", "echo begun; until [ -e go ]; do sleep 0.05; done; echo done"}, Timeout: 30 * time.Second,
		}, func(execenv.Chunk) { begun <- struct{}{} })
		ended <- end{o, err}
	}()
	<-begun
	pids := connecting(t, p, h.SandboxID)
	if len(pids) == 0 {
		t.Fatal("nothing carries the channel")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Skip("the engine's processes cannot be killed from here: ", err)
		}
	}
	if err := os.WriteFile(filepath.Join(workspace, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got := <-ended
	if got.error != nil { // the caller takes its call up again
		got.Outcome, got.error = c.Follow(t.Context(), call.ID, 0, 0, nil)
	}
	if got.error != nil || got.ExitCode != 0 || string(got.Stdout.Head) != "begun\ndone\n" {
		t.Errorf("the call that ran: %+v, %v", got.Outcome, got.error)
	}
	if out, code := run(t, p, h, "echo again"); out != "again" || code != 0 {
		t.Errorf("the next call: %q, %d", out, code)
	}
}
