package local

import (
	"bufio"
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A machine can stand still for longer than a kill may take. What is to end ends all
// the same, and is not named as left.
func TestKill_afterItsTime(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 600; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
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
	report := newTree(cmd.Process.Pid, "GLOVEBOX_CALL=test").killBy(time.Now().Add(-time.Minute), "stop", nil)
	if len(report.Left)+len(report.Stuck) > 0 || len(report.Killed) == 0 {
		t.Errorf("report %+v", report)
	}
}

// A machine can stand still from before a command's end to after its time. What ended in
// time is not told as timed out.
func TestAwait_endedInTime(t *testing.T) {
	for range 20 {
		cmd := exec.Command("/bin/sh", "-c", "exit 3")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tree := newTree(cmd.Process.Pid, "GLOVEBOX_CALL=test")
		for end := time.Now().Add(30 * time.Second); !tree.ended(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("exit does not end the shell")
			}
		}
		o := new(Env).await(context.Background(), time.Nanosecond, cmd, tree)
		if o.TimedOut || o.ExitCode != 3 {
			t.Fatalf("outcome %+v", o)
		}
	}
}
