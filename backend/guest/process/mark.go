//go:build linux

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// tagEnv is an environment variable: the tag of last resort, where the guest
// may neither set groups nor make namespaces. A command can shed it.
const tagEnv wire.Tag = "env"

const tagVariable = "GLOVEBOX_CALL_TAG="

// Mark is what the processes of one command have in common.
type Mark struct {
	key  uint64   // the gid, the inode of the namespace, or a counter
	file *os.File // keeps the namespace, so that its inode is not used again
	pins int      // kills under way; guarded by marks.mu
}

// marks hands out marks that no living process carries.
type marks struct {
	tag         wire.Tag
	first, last uint64 // of the groups

	mu    sync.Mutex
	next  uint64
	fresh int // groups that were never used in this boot
	held  map[uint64]*Mark
}

func newMarks(tag wire.Tag, first, last uint64) *marks {
	if first == 0 {
		first, last = wire.FirstTagGroup, wire.LastOwnTag
	}
	return &marks{tag: tag, first: first, last: last, next: first, held: map[uint64]*Mark{}}
}

// group reserves a group or number that is neither held nor carried by one of
// the processes that used, called at most once, returns.
func (m *marks) group(used func() (map[uint64][]execenv.Process, bool)) (*Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A guest before this one, or a call long ago, may have left processes
	// behind; what they carry shows only in a scan.
	if m.fresh == 0 {
		m.fresh = 1000
		carried, _ := used()
		for key := range carried {
			if _, ok := m.held[key]; !ok {
				m.held[key] = &Mark{key: key}
			}
		}
	}
	m.fresh--
	count := m.last - m.first + 1
	for range count {
		key := m.next
		m.next++
		if m.next > m.last {
			m.next = m.first
		}
		if _, ok := m.held[key]; !ok {
			mark := &Mark{key: key}
			m.held[key] = mark
			return mark, nil
		}
	}
	return nil, fmt.Errorf("all %d tags are in use: %w", count, execenv.ErrBusy)
}

// namespace adopts the UTS namespace of the calling thread.
func (m *marks) namespace() (*Mark, error) {
	f, err := os.Open("/proc/thread-self/ns/uts")
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, err
	}
	mark := &Mark{key: st.Ino, file: f}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[mark.key] = mark
	return mark, nil
}

// release makes a mark free for another command and says whether it did: one
// that is pinned stays.
func (m *marks) release(mark *Mark) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mark.pins > 0 {
		return false
	}
	if m.held[mark.key] == mark {
		delete(m.held, mark.key)
		if mark.file != nil {
			mark.file.Close()
		}
	}
	return true
}

// pin keeps a mark from being released; ok is false when it was already.
func (m *marks) pin(mark *Mark) (ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[mark.key] != mark {
		return false
	}
	mark.pins++
	return true
}

func (m *marks) unpin(mark *Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark.pins--
}

// keyOf returns the mark that process pid carries, from its status text. The error
// says that it cannot be told yet.
func (m *marks) keyOf(pid int, status []byte) (key uint64, carries bool, err error) {
	switch m.tag {
	case wire.TagUTS:
		var st unix.Stat_t
		if err := unix.Stat(procPath(pid, "ns/uts"), &st); err != nil {
			return 0, false, nil
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		_, carries = m.held[st.Ino]
		return st.Ino, carries, nil
	case wire.TagGroup:
		key, carries = groupOf(status)
		return key, carries, nil
	}
	env, err := environ(pid)
	if err != nil {
		return 0, false, err
	}
	_, value, ok := bytes.Cut(append([]byte{0}, env...), []byte("\x00"+tagVariable))
	if !ok {
		return 0, false, nil
	}
	value, _, _ = bytes.Cut(value, []byte{0})
	key, err = strconv.ParseUint(string(value), 10, 64)
	return key, err == nil, nil
}

// A process that becomes another program has no environment until the kernel has
// made the new one's, which takes longer where that comes from a disk.
const (
	execTime  = 100 * time.Millisecond // the longest wait for that
	execAgain = time.Millisecond
)

var errBecoming = errors.New("the process is just becoming another program")

// environ is the environment that a process was started with; there is none of one
// that has ended.
func environ(pid int) ([]byte, error) {
	for end := time.Now().Add(execTime); ; time.Sleep(execAgain) {
		env, err := os.ReadFile(procPath(pid, "environ"))
		switch {
		case err != nil || len(env) > 0 || hasNone(pid):
			return env, nil
		case time.Now().After(end):
			return nil, errBecoming
		}
	}
}

// hasNone says that the environment of a process is an empty one, and not one that
// is still to come or has come just now.
func hasNone(pid int) bool {
	const afterName, flags, code, start, end = 3, 9, 26, 50, 51 // as proc(5) counts the fields
	const kernelThread = 0x00200000                             // PF_KTHREAD, which has no memory of its own
	stat, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return true
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= end-afterName {
		return true
	}
	field := func(n int) string { return fields[n-afterName] }
	set, _ := strconv.ParseUint(field(flags), 10, 64)
	// The kernel notes where the code is after it has made the environment.
	return set&kernelThread != 0 || field(code) != "0" && field(start) == field(end)
}

// groupOf finds the tag group in the text of /proc/PID/status.
func groupOf(status []byte) (uint64, bool) {
	_, rest, ok := bytes.Cut(status, []byte("\nGroups:"))
	if !ok {
		return 0, false
	}
	rest, _, _ = bytes.Cut(rest, []byte{'\n'})
	for f := range bytes.FieldsSeq(rest) {
		gid, err := strconv.ParseUint(string(f), 10, 32)
		if err == nil && gid >= wire.FirstTagGroup && gid <= wire.LastTagGroup {
			return gid, true
		}
	}
	return 0, false
}

// Carries reports whether a living process carries one of a range of groups.
func Carries(pid, first, last int) bool {
	status, err := os.ReadFile(procPath(pid, "status"))
	if err != nil || first == 0 {
		return false
	}
	switch field(status, "\nState:") {
	case 'Z', 'X', 0:
		return false
	}
	group, ok := groupOf(status)
	return ok && group >= uint64(first) && group <= uint64(last)
}
