//go:build linux

package process

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// MaxNamed is how many processes a report names at most, so that it fits into
// one frame after a fork bomb too.
const MaxNamed = 1000

const (
	grace     = 300 * time.Millisecond // between the request to end and the order
	killTime  = 5 * time.Second        // the longest that a kill may take
	stuckTime = 250 * time.Millisecond // in state D after SIGKILL: not waited for
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
		t.raise(func() { t.kill(mark, &report, start.Add(killTime)) })
		t.marks.unpin(mark)
	}
	report.Took = time.Since(start)
	return report
}

func (t *Table) kill(mark *Mark, report *execenv.KillReport, end time.Time) {
	seen := map[int]bool{}
	note := func(ms []member) {
		for _, m := range ms {
			if !seen[m.PID] {
				seen[m.PID] = true
				if len(report.Killed) < MaxNamed {
					report.Killed = append(report.Killed, m.Process)
				}
			}
		}
	}
	of := func() (ms []member, settled bool) {
		all, settled := t.scan()
		for _, m := range all {
			if m.key == mark.key {
				ms = append(ms, m)
			}
		}
		return ms, settled
	}

	ms, settled := of()
	note(ms)
	t.signal(ms, unix.SIGTERM)
	t.await(ms, time.Now().Add(grace))

	var dying time.Time // since when nothing but state D is left
	for unsettled := 0; ; {
		ms, settled = of()
		note(ms)
		if len(ms) == 0 {
			// Where others come and go all the time, no scan is ever quiet.
			if unsettled++; settled || unsettled > 4 {
				return
			}
			continue
		}
		unsettled = 0
		report.Rounds++
		frozen := map[int]bool{}
		for range 50 {
			var running []member
			for _, m := range ms {
				if !frozen[m.PID] {
					frozen[m.PID] = true
					running = append(running, m)
				}
			}
			if len(running) == 0 {
				break
			}
			t.signal(running, unix.SIGSTOP)
			ms, _ = of()
			note(ms)
		}
		t.signal(ms, unix.SIGKILL)
		t.await(ms, minTime(end, time.Now().Add(stuckTime)))

		ms, _ = of()
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
		if time.Now().After(end) || stuck && time.Since(dying) >= stuckTime {
			for _, m := range ms {
				switch {
				case len(report.Stuck)+len(report.Left) == MaxNamed:
				case m.state == 'D':
					report.Stuck = append(report.Stuck, m.Process)
				default:
					report.Left = append(report.Left, m.Process)
				}
			}
			return
		}
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
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
