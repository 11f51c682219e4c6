package app

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// sandboxes returns the ids of what an instance has behind a wall.
func sandboxes(t testing.TB, wall sandbox.Wall, data, instance string) []string {
	t.Helper()
	if wall == sandbox.WallDocker {
		return containersOf(t, instance)
	}
	return boxes(t, data)
}

// unowned returns the sandboxes that no row of the ledger names.
func unowned(t testing.TB, wall sandbox.Wall, data, instance string) []string {
	t.Helper()
	owned := map[string]bool{}
	for _, r := range ledger(t, data) {
		owned[r.Ref.ID()] = r.State.Owned()
	}
	return slices.DeleteFunc(sandboxes(t, wall, data, instance), func(id string) bool { return owned[id] })
}

// tracesOf returns the words by which what a session's sandbox has on this
// machine is found: the ids of its container and of its guest.
func tracesOf(t testing.TB, data string, v httpapi.Session) []string {
	t.Helper()
	traces := append(boxes(t, data), v.Ref.ID())
	if len(traces) < 2 || v.Ref.ID() == "" {
		t.Fatalf("session %s has no sandbox: %v", v.ID, traces)
	}
	return traces
}

// leftovers returns what is left of an instance's sandboxes.
func leftovers(t testing.TB, data, instance string, traces []string) (left []string) {
	t.Helper()
	if exec.Command("docker", "version").Run() == nil {
		for _, id := range containersOf(t, instance) {
			left = append(left, "container "+id)
		}
	}
	for _, id := range boxes(t, data) {
		left = append(left, "directory "+id)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range processes {
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended
		for _, id := range traces {
			if bytes.Contains(cmdline, []byte(id)) {
				left = append(left, "process "+filepath.Base(dir)+" of "+id)
			}
		}
	}
	for _, dir := range cgroupsOf(traces) {
		left = append(left, "cgroup "+dir)
	}
	return left
}

// cgroupsOf returns the cgroups whose names hold one of the traces.
func cgroupsOf(traces []string) (dirs []string) {
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.ContainsFunc(traces, func(id string) bool { return strings.Contains(d.Name(), id) }) {
			dirs = append(dirs, path)
		}
		return nil // one that goes away meanwhile is none
	})
	return dirs
}

// discard removes a kept sandbox as its user would, by the engine or by a kill.
func discard(t testing.TB, wall sandbox.Wall, shortID string, guest int, traces []string) {
	if wall == sandbox.WallDocker {
		engine(t, "rm", "-f", "-v", shortID)
		return
	}
	if err := syscall.Kill(guest, syscall.SIGKILL); err != nil {
		t.Errorf("end the kept sandbox: %v", err)
	}
	deadline := time.Now().Add(moments)
	for _, dir := range cgroupsOf(traces) {
		for os.Remove(dir) != nil && time.Now().Before(deadline) { // busy until the dead are collected
			<-time.After(10 * time.Millisecond)
		}
	}
}
