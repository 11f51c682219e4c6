package envtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func testExit(s *suite) {
	for _, tt := range []struct {
		script       string
		code, signal int
	}{
		{"true", 0, 0},
		{"false", 1, 0},
		{"exit 42", 42, 0},
		{"kill -9 $$", 137, 9},
		{"kill -TERM $$", 143, 15},
		{"cd /nonexistent-directory 2>/dev/null; true", 0, 0},
	} {
		o := s.sh(tt.script)
		if o.ExitCode != tt.code || o.Signal != tt.signal || o.TimedOut || o.Interrupted || o.Kill != nil {
			s.Errorf("%s: %+v, want exit code %d and signal %d", tt.script, o, tt.code, tt.signal)
		}
		if text(o.Stdout) != "" || o.Stdout.Total != 0 {
			s.Errorf("%s printed %q", tt.script, text(o.Stdout))
		}
	}
	o := s.run(execenv.Command{Argv: []string{"no-such-program-anywhere"}}, nil)
	if said := s.errors(o); o.ExitCode != 127 || !strings.Contains(said, "no-such-program-anywhere") {
		s.Errorf("a program that is not there: exit code %d, %q", o.ExitCode, said)
	}
	s.put("plain", "not a program")
	if o := s.run(execenv.Command{Argv: []string{s.path("plain")}}, nil); o.ExitCode != 126 {
		s.Errorf("a file that is no program: exit code %d", o.ExitCode)
	}
	_, err := s.env.Run(s.ctx(), execenv.Command{Dir: s.dir}, nil)
	s.is("no arguments", err, execenv.ErrInvalid)
}

// errors returns what a command printed as an error.
func (s *suite) errors(o execenv.Outcome) string {
	if s.merged() {
		return text(o.Stdout)
	}
	return text(o.Stderr)
}

// testText: text comes whole and in order, with its length and hash.
func testText(s *suite) {
	o := s.sh(`echo out; echo err >&2; echo out2`)
	want, wantErr := "out\nout2\n", "err\n"
	if s.merged() {
		want, wantErr = "out\nerr\nout2\n", ""
	}
	if text(o.Stdout) != want || text(o.Stderr) != wantErr {
		s.Errorf("streams: %q, %q", text(o.Stdout), text(o.Stderr))
	}
	if o.Stdout.Hash != hash(want) || o.Stdout.Total != int64(len(want)) {
		s.Errorf("hash %s of %d bytes", o.Stdout.Hash, o.Stdout.Total)
	}
	wide := strings.Repeat("你", 20_000) + "😀"
	s.put("wide", wide)
	if got := s.do("cat wide"); got != wide {
		s.Errorf("%d bytes of wide characters came out as %d", len(wide), len(got))
	}
	line := strings.Repeat("x", 5<<20)
	s.put("line", line)
	o = s.sh("cat line; echo END")
	if o.Stdout.Total != int64(len(line)+4) || !strings.HasSuffix(string(o.Stdout.Tail), "xEND\n") || o.Stdout.Hash != hash(line+"END\n") {
		s.Errorf("a long line: %d bytes, tail ends in %q", o.Stdout.Total, tail(o.Stdout.Tail, 10))
	}
}

// timesOut runs a script that its time ends, after it has begun as far as that is asked.
// Where the machine stood still from the start on, it is given more.
func (s *suite) timesOut(script string, begun func(execenv.Outcome) bool) (o execenv.Outcome, took time.Duration) {
	s.Helper()
	for timeout := 300 * time.Millisecond; ; timeout *= 3 {
		start := time.Now()
		o = s.run(execenv.Command{Argv: []string{"sh", "-c", script}, Timeout: timeout}, nil)
		if took = time.Since(start); begun(o) || timeout > limit/6 {
			return o, took
		}
	}
}

// testUnproven: a command ends in its time or by a stop, and what that left is
// not claimed to be known.
func testUnproven(s *suite) {
	for _, script := range []string{"sleep %s", "trap '' TERM; sleep %s; sleep %[1]s", "sleep %s & sleep %[1]s"} {
		number := sleepNumber()
		script = fmt.Sprintf(script, number)
		start := time.Now()
		o := s.run(execenv.Command{Argv: []string{"sh", "-c", script}, Timeout: 300 * time.Millisecond}, nil)
		if !o.TimedOut || o.Interrupted || o.Kill != nil || o.ExitCode == 0 || time.Since(start) > limit/3 {
			s.Errorf("%s: %+v after %v", script, o, time.Since(start))
		}
		if n := s.alive(number); n != 0 && !s.can.Remote.MayLinger {
			s.Errorf("%s: %d processes are left", script, n)
		}

		ctx, cancel := context.WithCancel(s.ctx())
		stop := time.AfterFunc(time.Second, cancel) // where nothing tells that it runs
		o, err := s.env.Run(ctx, execenv.Command{Argv: []string{"sh", "-c", "echo ready; " + script}, Dir: s.dir}, func(execenv.Chunk) { cancel() })
		stop.Stop()
		cancel()
		s.must(err)
		if !o.Interrupted || o.TimedOut || o.Kill != nil || o.ExitCode == 0 {
			s.Errorf("%s: stopped: %+v", script, o)
		}
		if n := s.alive(number); n != 0 && !s.can.Remote.MayLinger {
			s.Errorf("%s: stopped: %d processes are left", script, n)
		}
	}
	if got := s.do("echo next"); got != "next\n" {
		s.Errorf("the next command printed %q", got)
	}
}

func testBytes(s *suite) {
	o := s.sh(`echo out; echo err >&2; echo out2`)
	if text(o.Stdout) != "out\nout2\n" || text(o.Stderr) != "err\n" {
		s.Errorf("streams: %q, %q", text(o.Stdout), text(o.Stderr))
	}
	if o.Stdout.Hash != hash("out\nout2\n") || o.Stdout.Total != 9 {
		s.Errorf("hash %s of %d bytes", o.Stdout.Hash, o.Stdout.Total)
	}
	// Every byte there is, by way of a file.
	var all strings.Builder
	for i := range 256 {
		all.WriteByte(byte(i))
	}
	s.put("all", all.String())
	if got := s.do("cat all"); got != all.String() {
		s.Errorf("all bytes came out as %q", got)
	}
	wide := strings.Repeat("你", 20_000) + "😀"
	s.put("wide", wide)
	if got := s.do("cat wide"); got != wide {
		s.Errorf("%d bytes of wide characters came out as %d", len(wide), len(got))
	}
	line := strings.Repeat("x", 5<<20)
	s.put("line", line)
	o = s.sh("cat line; echo END")
	if o.Stdout.Total != int64(len(line)+4) || !strings.HasSuffix(string(o.Stdout.Tail), "xEND\n") || o.Stdout.Hash != hash(line+"END\n") {
		s.Errorf("a long line: %d bytes, tail ends in %q", o.Stdout.Total, tail(o.Stdout.Tail, 10))
	}
}

func tail(b []byte, n int) string { return string(b[max(0, len(b)-n):]) }

func testLive(s *suite) {
	var got [3]strings.Builder
	s.run(execenv.Command{Argv: []string{"sh", "-c", "i=0; while [ $i -lt 500 ]; do echo line $i; echo err $i >&2; i=$((i+1)); done"}}, func(c execenv.Chunk) {
		b := &got[c.Stream]
		if c.Offset != int64(b.Len()) {
			s.Errorf("%s: a chunk at %d follows %d bytes", c.Stream, c.Offset, b.Len())
		}
		b.Write(c.Data)
	})
	var want, wantErr strings.Builder
	for i := range 500 {
		fmt.Fprintf(&want, "line %d\n", i)
		fmt.Fprintf(&wantErr, "err %d\n", i)
	}
	if got[execenv.Stdout].String() != want.String() || got[execenv.Stderr].String() != wantErr.String() {
		s.Errorf("live output differs: %d and %d bytes", got[execenv.Stdout].Len(), got[execenv.Stderr].Len())
	}
	// A command waits for an answer to what it printed: output is not held back.
	_, err := s.env.Stat(s.ctx(), s.path("answer"))
	s.is("before", err, execenv.ErrNotFound)
	var once sync.Once
	o := s.run(execenv.Command{Argv: []string{"sh", "-c", "printf ask; until [ -e answer ]; do sleep 0.05; done; echo ok"}, Timeout: limit / 2}, func(c execenv.Chunk) {
		once.Do(func() { s.put("answer", "") })
	})
	if text(o.Stdout) != "askok\n" {
		s.Errorf("the command got no answer: %q, %+v", text(o.Stdout), o)
	}
}

func testInput(s *suite) {
	if got := s.do("cat; echo end"); got != "end\n" {
		s.Errorf("without input: %q", got)
	}
	in := strings.Repeat("some input\n", 50_000)
	o := s.run(execenv.Command{Argv: []string{"cat"}, Stdin: strings.NewReader(in), Overflow: execenv.OverflowBlock}, func(execenv.Chunk) {})
	if o.Stdout.Total != int64(len(in)) || o.Stdout.Hash != hash(in) {
		s.Errorf("%d bytes of input came out as %d", len(in), o.Stdout.Total)
	}
}

func testPlace(s *suite) {
	s.must(s.env.Change(s.ctx(), execenv.ChangeRequest{Kind: execenv.ChangeMkdir, Path: s.path("sub dir")}))
	o := s.run(execenv.Command{Argv: []string{"sh", "-c", `pwd; echo "$ADDED|$HOME"`}, Dir: s.path("sub dir"), Env: []string{"ADDED=a b$c"}}, nil)
	lines := strings.Split(text(o.Stdout), "\n")
	if !strings.HasSuffix(lines[0], "/sub dir") || !strings.HasPrefix(lines[1], "a b$c|/") {
		s.Errorf("directory and environment: %q", text(o.Stdout))
	}
	_, err := s.env.Run(s.ctx(), execenv.Command{Argv: []string{"true"}, Dir: s.path("gone")}, nil)
	s.is("a directory that is gone", err, execenv.ErrWorkdirGone)
	if w := s.env.Where(); w.Wall == "" || w.Workdir == "" {
		s.Errorf("Where() = %+v", w)
	}
}

// testBackground: a command ends with its first process, not with its pipes.
func testBackground(s *suite) {
	number := sleepNumber()
	for _, script := range []string{
		"sleep " + number + " & echo done",
		"sleep " + number + " </dev/null >/dev/null & echo done", // holds stderr
	} {
		start := time.Now()
		o := s.sh(script)
		if o.ExitCode != 0 || text(o.Stdout) != "done\n" || time.Since(start) > limit/2 {
			s.Errorf("%s: %+v after %v", script, o, time.Since(start))
		}
		if len(o.Background) != 1 || o.Background[0].Name == "" || o.Background[0].PID == 0 {
			s.Errorf("%s left %v", script, o.Background)
		}
	}
	s.awaitAlive(number, 2)
	// A child that prints on is neither held up nor heard by later commands.
	o := s.sh(`(while [ ! -e stop ]; do echo tick; sleep 0.05; done; echo survived >end) & echo fg`)
	if !strings.HasPrefix(text(o.Stdout), "fg\n") && !strings.Contains(text(o.Stdout), "\nfg\n") {
		s.Errorf("foreground printed %q", text(o.Stdout))
	}
	if got := s.do("echo next; touch stop; until [ -s end ]; do sleep 0.05; done"); got != "next\n" {
		s.Errorf("the next command printed %q", got)
	}
	s.has("end", "survived\n")
	if o := s.sh("sleep 0.2 & wait; echo waited"); text(o.Stdout) != "waited\n" || len(o.Background) != 0 {
		s.Errorf("a child that was waited for: %+v", o)
	}
	s.do(fmt.Sprintf(`for f in /proc/[0-9]*/cmdline; do if tr '\0' ' ' <$f 2>/dev/null | grep -q '^slee[p] %s'; then p=${f#/proc/}; kill ${p%%/cmdline}; fi; done 2>/dev/null; true`, number))
	s.awaitAlive(number, 0)
}

// testTimeout: the whole tree dies, and nothing of a call beside it.
func testTimeout(s *suite) {
	bystander := sleepNumber()
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	beside := make(chan execenv.Outcome, 1) // one outcome
	go func() {
		o, err := s.env.Run(ctx, execenv.Command{Argv: []string{"sh", "-c", "sleep " + bystander + " & wait"}, Dir: s.dir}, nil)
		if err != nil {
			s.Errorf("the call beside: %v", err)
		}
		beside <- o
	}()
	s.awaitAlive(bystander, 1)

	for _, script := range []string{
		"sleep %s & sleep %[1]s & wait",
		"trap '' TERM; sleep %s; sleep %[1]s",
		"setsid sleep %s & wait",
		"(sleep 0.1; setsid sleep %s) & (trap '' TERM; sleep %[1]s; echo late >late) & sleep %[1]s",
		"while :; do sleep %s & sleep 0.02; done",
	} {
		number := sleepNumber()
		script = "echo started; " + fmt.Sprintf(script, number)
		o, took := s.timesOut(script, func(o execenv.Outcome) bool { return o.Stdout.Total > 0 })
		if !o.TimedOut || o.Interrupted || text(o.Stdout) != "started\n" || took > limit/3 {
			s.Errorf("%s: %+v after %v", script, o, took)
		}
		if o.Kill == nil || o.Kill.Cause != "timeout" || len(o.Kill.Killed) == 0 || len(o.Kill.Left) != 0 {
			s.Errorf("%s: report %+v", script, o.Kill)
		}
		if n := s.alive(number); n != 0 {
			s.Errorf("%s: %d processes are left", script, n)
		}
	}
	_, err := s.env.Stat(s.ctx(), s.path("late"))
	s.is("a late effect", err, execenv.ErrNotFound)
	if n := s.alive(bystander); n != 1 {
		s.Errorf("the call beside has %d processes", n)
	}
	cancel()
	if o := <-beside; !o.Interrupted || o.TimedOut {
		s.Errorf("the call beside: %+v", o)
	}
	s.awaitAlive(bystander, 0)
	if got := s.do("echo next"); got != "next\n" {
		s.Errorf("the next command printed %q", got)
	}
}

// testInterrupt: the end of ctx kills, and is no error.
func testInterrupt(s *suite) {
	number := sleepNumber()
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	o, err := s.env.Run(ctx, execenv.Command{Argv: []string{"sh", "-c", "trap '' TERM; echo ready; sleep " + number + "; sleep " + number}, Dir: s.dir}, func(execenv.Chunk) { cancel() })
	s.must(err)
	if !o.Interrupted || o.TimedOut || text(o.Stdout) != "ready\n" || o.Signal == 0 {
		s.Errorf("outcome %+v", o)
	}
	if o.Kill == nil || o.Kill.Cause != "stop" || len(o.Kill.Killed) == 0 || len(o.Kill.Left) != 0 {
		s.Errorf("report %+v", o.Kill)
	}
	if n := s.alive(number); n != 0 {
		s.Errorf("%d processes are left", n)
	}
}

// testHidden: what sheds its session, parents and environment is found.
func testHidden(s *suite) {
	number := sleepNumber()
	o := s.run(execenv.Command{
		Argv:    []string{"sh", "-c", `env -i setsid sh -c 'env -i setsid sleep ` + number + ` & exit' & sleep ` + number},
		Env:     []string{"EXTRA=1"},
		Timeout: 500 * time.Millisecond,
	}, nil)
	if o.Kill == nil || o.Kill.BestEffort || len(o.Kill.Left) != 0 {
		s.Errorf("report %+v", o.Kill)
	}
	if n := s.alive(number); n != 0 {
		s.Errorf("%d processes are left", n)
	}
}

func testLarge(s *suite) {
	const size = 20_000_000
	sum := strings.Fields(s.do(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a | sha256sum", size)))[0]
	for _, redirect := range []string{"", " >&2"} {
		o := s.sh(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a%s; exit 3", size, redirect))
		c := o.Stdout
		if redirect != "" && !s.merged() {
			c = o.Stderr
		}
		if o.ExitCode != 3 || c.Total != size || c.Hash != sum {
			s.Errorf("exit code %d, %d bytes, hash %s, want %s", o.ExitCode, c.Total, c.Hash, sum)
		}
		if len(c.Head) != execenv.HeadBytes || len(c.Tail) != execenv.TailBytes || c.Dropped() != size-execenv.HeadBytes-execenv.TailBytes {
			s.Errorf("kept %d and %d bytes, dropped %d", len(c.Head), len(c.Tail), c.Dropped())
		}
	}
	if s.can.Remote != nil {
		return // NUL bytes are no text
	}
	// Nothing is lost where the reader sets the pace.
	var got int64
	o := s.run(execenv.Command{Argv: []string{"sh", "-c", fmt.Sprintf("head -c %d /dev/zero", size)}, Overflow: execenv.OverflowBlock}, func(c execenv.Chunk) {
		if c.Offset != got {
			s.Errorf("a chunk at %d follows %d bytes", c.Offset, got)
		}
		got += int64(len(c.Data))
	})
	if got != size || o.ExitCode != 0 {
		s.Errorf("got %d bytes, exit code %d", got, o.ExitCode)
	}
}

func testEndless(s *suite) {
	o, _ := s.timesOut("yes", func(o execenv.Outcome) bool { return o.Stdout.Total >= 1<<20 })
	if !o.TimedOut || o.Stdout.Total < 1<<20 || len(text(o.Stdout)) > execenv.HeadBytes+execenv.TailBytes || o.Duration > limit/3 {
		s.Errorf("timed out %v after %v, %d bytes, %d kept", o.TimedOut, o.Duration, o.Stdout.Total, len(text(o.Stdout)))
	}
}
