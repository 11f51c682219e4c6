package local

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const (
	grace     = 300 * time.Millisecond // between TERM and the rounds of KILL
	killLimit = 3 * time.Second        // for all rounds
	turns     = 3                      // rounds that a kill has, however long the machine stood still in one
	pollEvery = 10 * time.Millisecond
)

// tree finds the processes of one command: those in its session, those with its
// marker, and their descendants, now or when they were last seen. It is safe for
// concurrent use: every command that leaves something running looks at the trees
// of those before it.
type tree struct {
	leader member
	mark   []byte

	mu   sync.Mutex
	seen map[member]bool
}

// member is a process, told from a later one with its pid by its start.
type member struct {
	pid   int
	start uint64 // in clock ticks since boot
}

// proc is what /proc says of a process.
type proc struct {
	member
	name    string
	state   byte
	ppid    int
	session int
}

// newTree returns the tree of a first process that nobody has waited for yet.
func newTree(pid int, mark string) *tree {
	p, _ := process(pid)
	return &tree{
		leader: member{pid, p.start},
		mark:   []byte("\x00" + marker + "=" + mark + "\x00"),
		seen:   make(map[member]bool),
	}
}

// ended reports whether the first process has ended, also where nobody has heard of
// it yet.
func (t *tree) ended() bool {
	if t.leader.start == 0 {
		return false // this system has no /proc
	}
	p, ok := process(t.leader.pid)
	return !ok || p.member != t.leader || p.state == 'Z' || p.state == 'X'
}

// scan returns the members of the tree that are no zombies.
func (t *tree) scan() []proc {
	// What began before the first process did is none of its children.
	all := slices.DeleteFunc(processes(), func(p proc) bool { return p.start < t.leader.start })
	in := make(map[int]bool)
	t.mu.Lock()
	seen := maps.Clone(t.seen)
	t.mu.Unlock()
	// A pid is not given away while a session has its number; once it is,
	// that session is another one.
	ours := !slices.ContainsFunc(all, func(p proc) bool { return p.pid == t.leader.pid && p.start != t.leader.start })
	for _, p := range all {
		if ours && p.session == t.leader.pid || seen[p.member] || t.marked(p.pid) {
			in[p.pid] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if !in[p.pid] && in[p.ppid] {
				in[p.pid], grew = true, true
			}
		}
	}
	var members []proc
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range all {
		if in[p.pid] && p.pid != os.Getpid() {
			t.seen[p.member] = true
			if p.state != 'Z' && p.state != 'X' {
				members = append(members, p)
			}
		}
	}
	return members
}

// marked reports whether a process has the marker in its environment.
func (t *tree) marked(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(append([]byte{0}, env...), t.mark)
}

// living names the members that are alive.
func (t *tree) living() []execenv.Process { return named(t.scan()) }

func named(members []proc) []execenv.Process {
	var out []execenv.Process
	for _, p := range members {
		out = append(out, execenv.Process{PID: p.pid, Name: p.name})
	}
	return out
}

// kill ends the tree: TERM, a moment's grace, then rounds of STOP, so that no
// member forks while the others are looked for, and KILL. exited, when not nil,
// is closed when the first process has been waited for.
func (t *tree) kill(cause string, exited <-chan struct{}) execenv.KillReport {
	return t.killBy(time.Now().Add(grace+killLimit), cause, exited)
}

func (t *tree) killBy(deadline time.Time, cause string, exited <-chan struct{}) execenv.KillReport {
	start := time.Now()
	report := execenv.KillReport{Cause: cause, BestEffort: true}
	killed := make(map[member]bool)
	note := func(members []proc) {
		for _, p := range members {
			if !killed[p.member] {
				killed[p.member] = true
				report.Killed = append(report.Killed, execenv.Process{PID: p.pid, Name: p.name})
			}
		}
	}
	members := t.scan()
	note(members)
	signal(members, syscall.SIGTERM)
	signal(members, syscall.SIGCONT) // a stopped process would not see the TERM
	t.await(members, exited, start.Add(grace))

	for ; ; report.Rounds++ {
		members = t.scan()
		report.Left, report.Stuck = nil, nil
		for _, p := range members {
			if p.state == 'D' {
				report.Stuck = append(report.Stuck, execenv.Process{PID: p.pid, Name: p.name})
			} else {
				report.Left = append(report.Left, execenv.Process{PID: p.pid, Name: p.name})
			}
		}
		if len(report.Left) == 0 || report.Rounds >= turns && time.Now().After(deadline) {
			break
		}
		for stopped := 0; len(members) > stopped && (stopped == 0 || time.Now().Before(deadline)); members = t.scan() {
			stopped = len(members)
			note(members)
			signal(members, syscall.SIGSTOP)
		}
		note(members)
		signal(members, syscall.SIGKILL)
		t.await(members, exited, time.Now().Add(grace))
	}
	report.Took = time.Since(start)
	return report
}

// await waits until none of members is left, at most until end.
func (t *tree) await(members []proc, exited <-chan struct{}, end time.Time) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for time.Now().Before(end) {
		if !slices.ContainsFunc(members, alive) {
			return
		}
		select {
		case <-tick.C:
		case <-exited:
			exited = nil // look again at once, then by the clock
		}
	}
}

// alive reports whether p still runs.
func alive(p proc) bool {
	now, ok := process(p.pid)
	return ok && now.start == p.start && now.state != 'Z' && now.state != 'X'
}

// signal signals those of members that are still the processes they were.
func signal(members []proc, s syscall.Signal) {
	for _, p := range members {
		if now, ok := process(p.pid); ok && now.start == p.start {
			_ = syscall.Kill(p.pid, s) // gone, or another user's: the next scan tells
		}
	}
}

// processes lists all processes.
func processes() []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var out []proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := process(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

// process reads /proc/PID/stat, see proc_pid_stat(5).
func process(pid int) (proc, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, false
	}
	// The name is in parentheses and may hold anything, parentheses too.
	head, tail, ok := cutLast(string(stat), ") ")
	_, name, ok2 := strings.Cut(head, "(")
	fields := strings.Fields(tail)
	if !ok || !ok2 || len(fields) < 20 {
		return proc{}, false
	}
	p := proc{member: member{pid: pid}, name: name, state: fields[0][0]}
	p.start, _ = strconv.ParseUint(fields[19], 10, 64)
	p.ppid, _ = strconv.Atoi(fields[1])
	p.session, _ = strconv.Atoi(fields[3])
	return p, true
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
