//go:build linux

package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

// memory reads the sandbox's own use and limits, from whichever cgroup version
// shows them, else from /proc. Its files may be missing; a reading is then 0.
type memory struct {
	v2 bool
}

const cgroupRoot = "/sys/fs/cgroup"

func newMemory() *memory {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return &memory{v2: err == nil}
}

// kills counts the processes that the kernel killed for want of memory.
func (m *memory) kills() int64 {
	if m.v2 {
		return readField("memory.events", "oom_kill")
	}
	return readField("memory/memory.oom_control", "oom_kill")
}

// limit is what the sandbox may use, 0 for as much as there is.
func (m *memory) limit() int64 {
	var s wire.Stats
	m.stats(&s)
	return s.MemoryLimit
}

// stats fills in what can be read now.
func (m *memory) stats(s *wire.Stats) {
	s.ObservedAt = time.Now()
	if m.v2 {
		s.CPU = time.Duration(readField("cpu.stat", "usage_usec")) * time.Microsecond
		s.Memory = readNumber("memory.current")
		s.MemoryLimit = readNumber("memory.max")
		s.PIDs = int(readNumber("pids.current"))
		s.PIDsLimit = int(readNumber("pids.max"))
	} else {
		s.CPU = time.Duration(readNumber("cpuacct/cpuacct.usage"))
		s.Memory = readNumber("memory/memory.usage_in_bytes")
		s.MemoryLimit = readNumber("memory/memory.limit_in_bytes")
		s.PIDs = int(readNumber("pids/pids.current"))
		s.PIDsLimit = int(readNumber("pids/pids.max"))
	}
	if s.MemoryLimit > 1<<50 {
		s.MemoryLimit = 0 // the kernel's word for none
	}
	if s.Memory == 0 || s.PIDs == 0 {
		procStats(s) // no cgroup is shown here, or the root one, which counts nothing
	}
	if f := strings.Fields(readText("/proc/self/statm")); len(f) > 1 {
		pages, _ := strconv.ParseInt(f[1], 10, 64)
		s.GuestMemory = pages * int64(os.Getpagesize())
	}
}

// procStats adds up the processes of the guest's own pid namespace. What a
// process that has ended used is counted by the one that reaped it, so that the
// sum of processor time only grows.
func procStats(s *wire.Stats) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	s.PIDs, s.CPU, s.Memory = 0, 0, 0
	for _, d := range dirs {
		if _, err := strconv.Atoi(d.Name()); err != nil {
			continue
		}
		stat := readText(filepath.Join("/proc", d.Name(), "stat"))
		// The name, in parentheses, may hold anything; fields count after it.
		f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		if len(f) < 22 {
			continue
		}
		const tick = time.Second / 100   // USER_HZ is 100 on every Linux that matters here
		for _, ticks := range f[11:15] { // in user and kernel mode, then the same of reaped children
			n, _ := strconv.ParseInt(ticks, 10, 64)
			s.CPU += time.Duration(n) * tick
		}
		pages, _ := strconv.ParseInt(f[21], 10, 64)
		s.Memory += pages * int64(os.Getpagesize())
		s.PIDs++
	}
}

func readText(path string) string {
	body, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(body)
}

func readNumber(name string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(readText(filepath.Join(cgroupRoot, name))), 10, 64)
	return n
}

func readField(name, key string) int64 {
	for line := range strings.Lines(readText(filepath.Join(cgroupRoot, name))) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return string(bytes.TrimRight(u.Release[:], "\x00"))
}
