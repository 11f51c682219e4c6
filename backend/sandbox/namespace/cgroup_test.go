//go:build linux

package namespace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Where no cgroup can be made, a process's own limits hold what they can, and
// the rest is named.
func TestEnforceAlone(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	r := sandbox.Resources{Memory: 64 << 20, PIDs: 99, CPUs: 1}
	uid := 1000 // as for a sandbox of a plain user
	for controller, want := range map[string]string{"memory": "for each process", "pids": "", "cpu": "not enforced"} {
		if got := enforceAlone(controller, cmd.Process.Pid, uid, r); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", controller, got, want)
		}
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Max data size 67108864 67108864", "Max processes 99 99"} {
		if !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), want) {
			t.Errorf("the kernel does not have %q:\n%s", want, limits)
		}
	}
	if got := enforceAlone("pids", cmd.Process.Pid, 0, r); got == "" {
		t.Error("root is said to be held to a number of processes, which it is not")
	}
}

// In version 2 a group gets the controllers that the one above hands down.
func TestMakeCgroup_delegated(t *testing.T) {
	ours, above := t.TempDir(), t.TempDir()
	for dir, enabled := range map[string]string{ours: "", above: "cpuset memory pids\n"} {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(enabled), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second controller finds the group of the first
		if dir, ok := makeCgroup([]string{ours, above}, "memory", "x"); !ok || dir != filepath.Join(above, "x") {
			t.Errorf("memory: %q, %v", dir, ok)
		}
	}
	if dir, ok := makeCgroup([]string{ours, above}, "cpu", "x"); ok {
		t.Errorf("cpu is not handed down, and %q was made for it", dir)
	}
}
