//go:build linux

package namespace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// enforce puts the waiting init of a sandbox under its limits: by cgroup where
// one can be made, else by what a process's own limits can do. It returns the
// cgroups that were made, also with an error, and what is not enforced.
func enforce(id string, pid int, uid int, r sandbox.Resources) (made, lacking []string, err error) {
	groups := controllers()
	settings := map[string][]setting{
		"memory": {
			{"memory.max", strconv.FormatInt(r.Memory, 10), true}, {"memory.swap.max", "0", false},
			{"memory.limit_in_bytes", strconv.FormatInt(r.Memory, 10), true}, {"memory.memsw.limit_in_bytes", strconv.FormatInt(r.Memory, 10), false},
		},
		"pids": {{"pids.max", strconv.FormatInt(r.PIDs, 10), true}},
		"cpu": {
			{"cpu.max", fmt.Sprintf("%d 100000", int64(r.CPUs*100000)), true},
			{"cpu.cfs_period_us", "100000", true}, {"cpu.cfs_quota_us", strconv.FormatInt(int64(r.CPUs*100000), 10), true},
		},
	}
	for _, name := range []string{"memory", "pids", "cpu"} {
		if dir, ok := makeCgroup(groups[name], name, cgroupName(id)); ok {
			err := apply(dir, settings[name], pid)
			if err == nil {
				if !slices.Contains(made, dir) {
					made = append(made, dir)
				}
				continue
			}
			// A group that can be made but not used is as good as none.
			if !errors.Is(err, fs.ErrPermission) {
				return append(made, dir), nil, fmt.Errorf("limit %s by %s: %w", name, dir, err)
			}
			if !slices.Contains(made, dir) {
				os.Remove(dir)
			}
		}
		if why := enforceAlone(name, pid, uid, r); why != "" {
			lacking = append(lacking, name+": "+why)
		}
	}
	return made, lacking, nil
}

// enforceAlone limits what a process's own limits can, and says what is lacking.
func enforceAlone(controller string, pid, uid int, r sandbox.Resources) (lacking string) {
	set := func(resource int, n int64) error {
		return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}, nil)
	}
	const noGroup = "not enforced, no cgroup can be made here"
	switch controller {
	case "memory":
		if set(unix.RLIMIT_DATA, r.Memory) != nil {
			return noGroup
		}
		return "held for each process by itself, not for all together, since no cgroup can be made here"
	case "pids":
		// Counted per user namespace, so for this sandbox alone; but the kernel
		// never holds uid 0 to it.
		if uid == 0 || set(unix.RLIMIT_NPROC, r.PIDs) != nil {
			return noGroup
		}
		return ""
	}
	return noGroup
}

// setting is a value for a file of a cgroup. The files of both versions are
// listed together; one that is not there belongs to the other.
type setting struct {
	file, value string
	required    bool // false: of a kernel option (swap accounting) that may be off
}

func apply(dir string, settings []setting, pid int) error {
	for _, s := range settings {
		// Without O_CREATE: the file of the other version is not there.
		f, err := os.OpenFile(filepath.Join(dir, s.file), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = f.WriteString(s.value)
			err = errors.Join(err, f.Close())
		}
		if err != nil && s.required {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// makeCgroup makes a group called name below the first of parents where the
// controller can be had. One that is there already is another controller's.
func makeCgroup(parents []string, controller, name string) (string, bool) {
	for _, parent := range parents {
		if enabled, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control")); err == nil {
			// Version 2: a controller counts where the parent hands it down.
			if !slices.Contains(strings.Fields(string(enabled)), controller) {
				continue
			}
		}
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
			return dir, true
		}
	}
	return "", false
}

// controllers returns, for each controller, the groups below which one for a
// sandbox may go: our own first, so that what limits us limits the sandbox too.
// In version 2 a group with processes has no limited children, so those above
// ours follow; where a part of the tree is delegated to us, one of them is ours.
func controllers() map[string][]string {
	groups := map[string][]string{}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return groups
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return groups
	}
	// hierarchy "" is version 2
	roots := map[string]string{}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch f[2] {
		case "cgroup2":
			roots[""] = f[1]
		case "cgroup":
			for _, option := range strings.Split(f[3], ",") {
				roots[option] = f[1]
			}
		}
	}
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, controller := range strings.Split(f[1], ",") {
			root, ok := roots[controller]
			if !ok {
				continue
			}
			dirs := []string{filepath.Join(root, f[2])}
			if controller != "" {
				groups[controller] = append(groups[controller], append(dirs, root)...)
				continue
			}
			for dir := dirs[0]; within(dir, root) && dir != root; {
				dir = filepath.Dir(dir)
				dirs = append(dirs, dir)
			}
			for _, c := range []string{"memory", "pids", "cpu"} {
				if groups[c] == nil {
					groups[c] = dirs
				}
			}
		}
	}
	return groups
}

// removeCgroups removes the groups of the last start: those that were written
// down, and, should that have failed, those that this process would make.
func (b *box) removeCgroups(ctx context.Context) error {
	var dirs []string
	if r, err := b.run(); err == nil {
		dirs = r.Cgroups
	}
	for _, parents := range controllers() {
		for _, parent := range parents {
			dirs = append(dirs, filepath.Join(parent, cgroupName(b.ID)))
		}
	}
	return removeCgroups(ctx, dirs)
}

func cgroupName(id string) string { return "glovebox-" + id }

// removeCgroups waits for groups without living processes to be free: one is
// busy until its dead have been collected.
func removeCgroups(ctx context.Context, dirs []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(contention)
	defer tick.Stop()
	for _, dir := range dirs {
		for {
			err := os.Remove(dir)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !errors.Is(err, unix.EBUSY) {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return err
			}
		}
	}
	return nil
}

// limitFiles are where the kernel says what it enforces, in both versions.
var limitFiles = []struct{ file, key string }{
	{"memory.max", "memory"}, {"memory.limit_in_bytes", "memory"},
	{"pids.max", "pids"},
	{"cpu.max", "cpus"}, {"cpu.cfs_quota_us", "cpus"},
}

// limitsOf reads the limits of cgroups back.
func limitsOf(dirs []string) map[string]string {
	limits := map[string]string{}
	for _, dir := range dirs {
		for _, l := range limitFiles {
			body, err := os.ReadFile(filepath.Join(dir, l.file))
			f := strings.Fields(string(body))
			if err != nil || len(f) == 0 {
				continue
			}
			value := f[0]
			if n, err := strconv.ParseInt(value, 10, 64); err == nil { // else "max"
				switch l.key {
				case "memory":
					value = sandbox.FormatSize(n)
				case "cpus":
					value = strconv.FormatFloat(float64(n)/100000, 'f', -1, 64)
				}
			}
			limits[l.key] = value
		}
	}
	return limits
}

// outOfMemory reports whether the kernel has killed in a cgroup for memory.
func outOfMemory(dirs []string) bool {
	for _, dir := range dirs {
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			body, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(body)) {
				if n, ok := strings.CutPrefix(line, "oom_kill "); ok && strings.TrimSpace(n) != "0" {
					return true
				}
			}
		}
	}
	return false
}
