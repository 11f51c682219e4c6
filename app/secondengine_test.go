package app

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// ownEngine is a Docker engine of a test's own, which can be stopped and started
// without harm to anybody. It lives in its own mount and network namespaces, or
// it would take the machine's bridge away from the other one.
type ownEngine struct {
	t    *testing.T
	dir  string
	host string // for DOCKER_HOST
	cmd  *exec.Cmd
	log  transcript
}

func newOwnEngine(t *testing.T) *ownEngine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("an engine of its own needs root")
	}
	for _, program := range []string{"dockerd", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			if required("docker") {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	dir, err := os.MkdirTemp("", "glovebox-engine-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	e := &ownEngine{t: t, dir: dir, host: "unix://" + filepath.Join(dir, "d.sock")}
	t.Cleanup(func() {
		e.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the engine's directory: %v", err)
		}
	})
	e.start()
	return e
}

// start starts the engine and waits until it answers.
func (e *ownEngine) start() {
	e.t.Helper()
	e.cmd = exec.Command("unshare", "-m", "-n", "--propagation", "private", "dockerd",
		"--data-root", filepath.Join(e.dir, "data"), "--exec-root", filepath.Join(e.dir, "exec"),
		"-p", filepath.Join(e.dir, "pid"), "-H", e.host, "--iptables=false", "--live-restore")
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	late := time.After(30 * time.Second)
	for e.docker("version") != nil {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-late:
			e.t.Fatalf("the engine does not answer:\n%s", &e.log)
		}
	}
}

// stop ends the engine in good order. Its containers run on.
func (e *ownEngine) stop() {
	if e.cmd == nil {
		return
	}
	e.cmd.Process.Signal(syscall.SIGTERM)
	killed := time.AfterFunc(20*time.Second, func() { e.cmd.Process.Kill() })
	e.cmd.Wait()
	killed.Stop()
	e.cmd = nil
}

// docker runs the docker command against the engine.
func (e *ownEngine) docker(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "docker", append([]string{"-H", e.host}, args...)...).Run()
}
