package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// proc is a process of this machine. A number that is used again has another start.
type proc struct {
	pid   int
	start string
}

// only names one process.
func only(pid int) func() ([]proc, error) {
	return func() ([]proc, error) {
		_, start, err := parentOf(pid)
		return []proc{{pid, start}}, err
	}
}

// below finds the processes that a process has started, and those that these have.
// Sandboxes behind the namespace wall are among those of their server.
func below(root int) func() ([]proc, error) {
	return func() ([]proc, error) {
		names, err := os.ReadDir("/proc")
		if err != nil {
			return nil, err
		}
		children := map[int][]proc{}
		for _, n := range names {
			pid, err := strconv.Atoi(n.Name())
			if err != nil {
				continue
			}
			if parent, start, err := parentOf(pid); err == nil { // else it has ended meanwhile
				children[parent] = append(children[parent], proc{pid, start})
			}
		}
		var all []proc
		for next := children[root]; len(next) > 0; next = next[1:] {
			all = append(all, next[0])
			next = append(next, children[next[0].pid]...)
		}
		return all, nil
	}
}

// tree finds a process and all below it.
func tree(root int) func() ([]proc, error) {
	return func() ([]proc, error) {
		self, err := only(root)()
		if err != nil {
			return nil, err
		}
		rest, err := below(root)()
		return append(self, rest...), err
	}
}

// lives reports whether a process has not ended yet.
func (p proc) lives() bool {
	_, start, err := parentOf(p.pid)
	return err == nil && start == p.start
}

// parentOf reads a process's parent and when it was started, in the kernel's words.
func parentOf(pid int) (parent int, start string, err error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", err
	}
	// As at processorTime: proc(5) counts these fields as 4 and 22.
	fields := strings.Fields(string(body[bytes.LastIndexByte(body, ')')+1:]))
	const ppid, starttime = 1, 19
	if len(fields) <= starttime {
		return 0, "", fmt.Errorf("read a process's parent: %q", body)
	}
	parent, err = strconv.Atoi(fields[ppid])
	return parent, fields[starttime], err
}

// times reads what processes have used of processors so far.
func times(all []proc) map[proc]time.Duration {
	used := map[proc]time.Duration{}
	for _, p := range all {
		if t, err := processorTime(p.pid); err == nil { // else it has ended meanwhile
			used[p] = t
		}
	}
	return used
}

// proportional reads how much memory processes hold: what several share is counted
// for each of them in part.
func proportional(all []proc, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, p := range all {
		body, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.pid))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read a process's memory: %w", err)
		}
		for line := range strings.Lines(string(body)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				if err != nil {
					return 0, fmt.Errorf("read a process's memory: %w", err)
				}
				sum += n << 10
			}
		}
	}
	return sum, nil
}
