//go:build linux

package process

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// KillsAtOnce is how many kills a Table works at, each of which keeps a thread for
// itself; further ones wait.
const KillsAtOnce = 12

// MaxNamed is how many processes a report names at most, so that it fits into
// one frame after a fork bomb too.
const MaxNamed = 1000

const (
	grace     = 300 * time.Millisecond // between the request to end and the order
	killTime  = 5 * time.Second        // the longest that a kill may take
	pursuits  = 24                     // kills that follow one which was too short
	turns     = 3                      // rounds that a kill has, however long the machine stood still in one
	stuckTime = 250 * time.Millisecond // in state D after SIGKILL: not waited for

	// More members, or a slower first scan, are a crowd that takes the CPU away
	// from whoever counts it.
	crowd     = 100
	crowdScan = 100 * time.Millisecond
)

// Kill ends every process that carries mark and reports what a last scan of
// /proc still found. It asks with SIGTERM, waits 300 ms, then freezes what is
// left, so that nothing forks away while it is counted, and kills it, until a
// scan finds none but zombies or five seconds are over.
func (t *Table) Kill(mark *Mark, cause string) execenv.KillReport {
	start := time.Now()
	_, bestEffort := t.Tag()
	report := execenv.KillReport{Cause: cause, BestEffort: bestEffort}
	if t.marks.pin(mark) {
		t.strike(mark, &report)
		if len(report.Left) == 0 {
			t.marks.unpin(mark)
		} else {
			t.wg.Go(func() { t.pursue(mark) })
		}
	}
	report.Took = time.Since(start)
	return report
}

// pursue goes on after a report that named survivors: what outgrew one kill, as
// a fork bomb without a limit on a busy machine does, must not be left to grow.
func (t *Table) pursue(mark *Mark) {
	defer t.marks.unpin(mark)
	for range pursuits {
		select {
		case <-t.life:
			return
		default:
		}
		var report execenv.KillReport
		t.strike(mark, &report)
		if len(report.Left) == 0 {
			return
		}
	}
}

// strike does one kill, when it is its turn.
func (t *Table) strike(mark *Mark, report *execenv.KillReport) {
	t.kills <- struct{}{}
	defer func() { <-t.kills }()
	t.raise(func() { t.kill(mark, report, time.Now().Add(killTime)) })
}

func (t *Table) kill(mark *Mark, report *execenv.KillReport, end time.Time) {
	v := &victims{t: t, key: mark.key, report: report, seen: map[int]bool{}, frozen: map[int]bool{}}
	start := time.Now()
	ms, _ := v.living()
	if len(ms) > crowd || time.Since(start) > crowdScan && len(ms) > 0 {
		v.halt()
	} else {
		t.signal(ms, unix.SIGTERM)
		t.await(ms, time.Now().Add(grace))
	}

	var dying time.Time // since when nothing but state D is left
	for unsettled := 0; ; {
		ms, settled := v.living()
		if len(ms) == 0 {
			// Where others come and go all the time, no scan is ever quiet.
			if unsettled++; settled || unsettled > 4 {
				return
			}
			continue
		}
		unsettled = 0
		report.Rounds++
		if report.Rounds == 1 || !v.halt() {
			v.freeze(end)
			v.kill()
			t.await(ms, time.Now().Add(stuckTime))
		}

		ms, _ = v.living()
		stuck := len(ms) > 0
		for _, m := range ms {
			stuck = stuck && m.state == 'D'
		}
		switch {
		case !stuck:
			dying = time.Time{}
		case dying.IsZero():
			dying = time.Now()
		}
		if len(ms) > 0 && report.Rounds >= turns && time.Now().After(end) || stuck && time.Since(dying) >= stuckTime {
			v.giveUp(ms)
			return
		}
	}
}

// victims are the processes that one kill has met.
type victims struct {
	t      *Table
	key    uint64
	report *execenv.KillReport
	seen   map[int]bool
	frozen map[int]bool
}

// living returns the members that a scan finds.
func (v *victims) living() (ms []member, settled bool) {
	all, settled := v.t.scan(nil)
	for _, m := range all {
		if m.key == v.key {
			v.note(m)
			ms = append(ms, m)
		}
	}
	return ms, settled
}

func (v *victims) note(m member) {
	if !v.seen[m.PID] {
		v.seen[m.PID] = true
		if len(v.report.Killed) < MaxNamed {
			v.report.Killed = append(v.report.Killed, m.Process)
		}
	}
}

// freeze stops members as it meets them, until two scans in a row meet no new
// one. A member is stopped before the scan goes on, and children have higher
// numbers than their parents, so one scan runs after a tree that grows.
func (v *victims) freeze(end time.Time) {
	for quiet, first := 0, true; quiet < 2 && (first || time.Now().Before(end)); quiet, first = quiet+1, false {
		_, _ = v.t.scan(func(pid int, look func() (member, bool)) {
			if v.frozen[pid] {
				return // it can neither end nor fork by itself
			}
			if m, ok := look(); ok && m.key == v.key {
				_ = unix.Kill(pid, unix.SIGSTOP)
				v.frozen[pid] = true
				v.note(m)
				quiet = -1
			}
		})
	}
}

// halt ends all members while everything in the sandbox stands still, and
// reports whether it could. It is for what outruns a scan, such as a fork bomb
// with all of the sandbox's processes: one system call stops them, none forks
// any more, and the CPU is ours. Other calls go on a moment later; a process
// that had been stopped before goes on with them.
func (v *victims) halt() bool {
	if v.t.self != 1 {
		return false // "everything" would be more than the sandbox
	}
	if err := unix.Kill(-1, unix.SIGSTOP); err != nil {
		return false
	}
	defer func() { _ = unix.Kill(-1, unix.SIGCONT) }()
	for range 3 { // one is enough, unless something entered from outside meanwhile
		ms, _ := v.living()
		if len(ms) == 0 {
			break
		}
		for _, m := range ms {
			_ = unix.Kill(m.PID, unix.SIGKILL)
		}
		v.t.await(ms, time.Now().Add(stuckTime))
	}
	return true
}

// kill ends what is frozen. Nothing else does, so the numbers are still theirs.
func (v *victims) kill() {
	for pid := range v.frozen {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	clear(v.frozen)
}

// giveUp names what is left when the time is over.
func (v *victims) giveUp(ms []member) {
	r := v.report
	for _, m := range ms {
		switch {
		case len(r.Stuck)+len(r.Left) == MaxNamed:
			return
		case m.state == 'D':
			r.Stuck = append(r.Stuck, m.Process)
		default:
			r.Left = append(r.Left, m.Process)
		}
	}
}

// signal sends sig to each member that still carries its mark.
func (t *Table) signal(ms []member, sig unix.Signal) {
	buf := make([]byte, 4096)
	for _, m := range ms {
		fd, err := unix.PidfdOpen(m.PID, 0)
		if err != nil {
			if err == unix.ENOSYS {
				_ = unix.Kill(m.PID, sig)
			}
			continue
		}
		// The number may have gone to another process since the scan; the
		// descriptor cannot.
		if now, ok, _ := t.look(m.PID, buf); ok && now.key == m.key {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
		}
		unix.Close(fd)
	}
}

// await returns when all of ms have ended, or at end.
func (t *Table) await(ms []member, end time.Time) {
	for _, m := range ms {
		fd, err := unix.PidfdOpen(m.PID, 0)
		if err != nil {
			continue
		}
		for {
			left := time.Until(end)
			if left <= 0 {
				unix.Close(fd)
				return
			}
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(poll, int(left.Milliseconds())+1)
			if err != unix.EINTR || n > 0 {
				break
			}
		}
		unix.Close(fd)
	}
}
