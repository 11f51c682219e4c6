//go:build linux

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
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
	missed := 0
	const looks = 5_000
	for range looks {
		if m, carries, err := table.look(cmd.Process.Pid, buf); err != nil || !carries || m.key != 50007 {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d of %d looks miss the tag", missed, looks)
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
	begun := time.Now()
	const looks = 100
	for range looks {
		if _, carries, err := table.look(cmd.Process.Pid, buf); carries || err != nil {
			t.Fatalf("look = carries %t, %v", carries, err)
		}
	}
	if took := time.Since(begun); took > looks*execTime/2 {
		t.Errorf("%d looks took %v", looks, took)
	}
}
