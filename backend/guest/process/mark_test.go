//go:build linux

package process

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// A process that becomes another program has no environment for a moment. It
// carries its tag all the same: one that is missed then outlives its call.
func TestLook_duringExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script)
	cmd.Env = []string{tagVariable + "50007"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	table, buf := &Table{marks: newMarks(tagEnv, 0, 0)}, make([]byte, 4096)
	// Until its first program there is the test's own environment.
	for end := time.Now().Add(10 * time.Second); ; {
		if _, carries, _ := table.look(cmd.Process.Pid, buf); carries {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the process never carries its tag")
		}
	}
	missed, unsure := 0, 0
	const looks = 5_000
	for range looks {
		switch m, carries, err := table.look(cmd.Process.Pid, buf); {
		case errors.Is(err, errBecoming): // on a machine that stood still; a scan with one is not settled
			unsure++
		case err != nil || !carries || m.key != 50007:
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d of %d looks miss the tag", missed, looks)
	}
	if unsure > looks/100 {
		t.Errorf("%d of %d looks cannot tell", unsure, looks)
	}
}

// An environment that is empty for good is waited for at no length.
func TestLook_emptyEnvironment(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.Env = []string{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; {
		if exe, _ := os.ReadFile(procPath(cmd.Process.Pid, "comm")); string(exe) == "sleep\n" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the process never becomes sleep")
		}
	}
	table, buf := &Table{marks: newMarks(tagEnv, 0, 0)}, make([]byte, 4096)
	waited := 0
	const looks = 100
	for range looks {
		begun := time.Now()
		if _, carries, err := table.look(cmd.Process.Pid, buf); carries || err != nil {
			t.Fatalf("look = carries %t, %v", carries, err)
		}
		if time.Since(begun) >= execTime/2 {
			waited++
		}
	}
	if waited > looks/2 {
		t.Errorf("%d of %d looks wait", waited, looks)
	}
}

// A machine can stand still for longer than a kill may take. What is to end ends all
// the same, and is not named as left.
func TestKill_afterItsTime(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 600; done")
	cmd.Env = []string{tagVariable + "50008", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(ended); cmd.Wait() }()
	table := &Table{marks: newMarks(tagEnv, 0, 0)}
	var report execenv.KillReport
	table.kill(&Mark{key: 50008}, &report, time.Now().Add(-time.Minute))
	if len(report.Left)+len(report.Stuck) > 0 || len(report.Killed) == 0 {
		t.Errorf("report %+v", report)
	}
}
