package envtest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// screen is a view of a terminal with what it has shown.
type screen struct {
	*suite
	view execenv.TerminalView
	text strings.Builder
	seen int   // of text, by await
	at   int64 // the end of text in the terminal's output
	last execenv.Terminal
	gaps int
}

// terminals returns the Env's terminals; an Env without any skips the test.
func (s *suite) terminals() execenv.Terminals {
	s.Helper()
	t, ok := s.env.(execenv.Terminals)
	if !ok {
		s.Skip("this Env has no terminals")
	}
	return t
}

// terminal opens a terminal in the test's directory and closes it at the end.
func (s *suite) terminal(r execenv.TerminalRequest) execenv.Terminal {
	s.Helper()
	if r.Dir == "" {
		r.Dir = s.dir
	}
	ts := s.terminals()
	t, err := ts.OpenTerminal(s.ctx(), r)
	s.must(err)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := ts.CloseTerminal(ctx, t.ID); err != nil {
			s.Errorf("close a terminal: %v", err)
		}
	})
	return t
}

// look opens a view.
func (s *suite) look(t execenv.Terminal, after int64) *screen {
	s.Helper()
	v, err := s.terminals().ViewTerminal(s.ctx(), t.ID, after)
	s.must(err)
	s.Cleanup(func() { v.Close() })
	return &screen{suite: s, view: v, at: after}
}

// next takes one event.
func (c *screen) next() error {
	c.Helper()
	e, err := c.view.Next(c.ctx())
	switch {
	case err != nil:
		return err
	case e.Changed != nil:
		c.last = *e.Changed
		return nil
	case e.Offset < c.at || len(e.Data) == 0:
		c.Fatalf("%d bytes at %d after %d", len(e.Data), e.Offset, c.at)
	case e.Offset > c.at:
		c.gaps++
	}
	c.text.Write(e.Data)
	c.at = e.Offset + int64(len(e.Data))
	return nil
}

// await reads until the screen shows want after what was awaited before.
func (c *screen) await(want string) string {
	c.Helper()
	for {
		if i := strings.Index(c.text.String()[c.seen:], want); i >= 0 {
			shown := c.text.String()[c.seen : c.seen+i]
			c.seen += i + len(want)
			return shown
		}
		if err := c.next(); err != nil {
			c.Fatalf("waiting for %q: %v; the terminal showed %q", want, err, tail([]byte(c.text.String()), 2000))
		}
	}
}

func (c *screen) keys(keys string) {
	c.Helper()
	c.must(c.view.Input(c.ctx(), []byte(keys)))
}

// line types a command and returns what it printed. The marks are such that the
// echo of what was typed does not hold them.
func (c *screen) line(command string) string {
	c.Helper()
	c.keys("echo be''gin; " + command + "; echo e''nd\r")
	c.await("begin\r\n")
	return strings.TrimSuffix(c.await("end\r\n"), "\r\n")
}

func testTerminalShell(s *suite) {
	t := s.terminal(execenv.TerminalRequest{Env: []string{"ADDED=a b"}})
	if t.ID == "" || t.PID == 0 || len(t.Argv) == 0 || t.Dir != s.dir || t.Cols != 80 || t.Rows != 24 || t.StartedAt.IsZero() || t.EndedAt != nil {
		s.Errorf("OpenTerminal() = %+v", t)
	}
	c := s.look(t, 0)
	for command, want := range map[string]string{
		`pwd`:                             s.dir,
		`echo "$TERM $COLORTERM; $ADDED"`: "xterm-256color truecolor; a b",
		`stty size`:                       "24 80",
		`test -t 0 && test -t 1 && test -t 2 && echo all`: "all",
		`echo ok >/dev/tty`:  "ok",
		`printf 'a\tb\n'`:    "a\tb",
		`echo 你好 "$((6*7))"`: "你好 42",
	} {
		if got := c.line(command); got != want {
			s.Errorf("%s printed %q, want %q", command, got, want)
		}
	}
	if got := c.line("tty"); !strings.HasPrefix(got, "/dev/pts/") {
		s.Errorf("tty printed %q", got)
	}
	if c.last.ID != t.ID || c.last.Views != 1 {
		s.Errorf("the first event said %+v", c.last)
	}
	s.must(c.view.Resize(s.ctx(), 132, 50))
	for c.last.Cols != 132 || c.last.Rows != 50 {
		s.must(c.next())
	}
	if got := c.line("stty size"); got != "50 132" {
		s.Errorf("after a resize stty size printed %q", got)
	}
	c.keys(`sh -c 'trap "echo re""sized" WINCH; echo up""on; while :; do sleep 0.05; done'` + "\r")
	c.await("upon\r\n")
	s.must(c.view.Resize(s.ctx(), 100, 30))
	c.await("resized\r\n")
	c.keys("\x03")
}

func testTerminalJobs(s *suite) {
	c := s.look(s.terminal(execenv.TerminalRequest{Argv: []string{"sh"}}), 0)
	number := sleepNumber()
	c.line("true")
	c.keys("sleep " + number + "\r")
	s.awaitAlive(number, 1)
	c.keys("\x03")
	if got := c.line("echo on"); got != "on" {
		s.Errorf("after Ctrl-C the shell printed %q", got)
	}
	s.awaitAlive(number, 0)

	c.keys("sleep " + number + "\r")
	s.awaitAlive(number, 1)
	c.keys("\x1a")
	if got := c.line("jobs"); !strings.Contains(got, "Stopped") {
		s.Errorf("after Ctrl-Z jobs printed %q", got)
	}
	c.keys("fg\r")
	c.await("sleep " + number)
	for deadline := time.Now().Add(limit / 2); s.alive(number) > 0; {
		c.keys("\x03") // a shell may name the job before it hands it the terminal
		if time.Now().After(deadline) {
			s.Fatal("Ctrl-C does not end what fg brought to the front")
		}
	}
	c.line("true")

	// The end of a call and the killing of one are none of a terminal's business.
	c.keys("sleep " + number + " &\r")
	s.awaitAlive(number, 1)
	o := s.run(execenv.Command{Argv: []string{"sh", "-c", "sleep 1000"}, Timeout: 100 * time.Millisecond}, nil)
	if !o.TimedOut {
		s.Errorf("the call beside: %+v", o)
	}
	if got := c.line("echo here"); got != "here" {
		s.Errorf("after the kill of a call the shell printed %q", got)
	}
	s.awaitAlive(number, 1)
}

func testTerminalViews(s *suite) {
	t := s.terminal(execenv.TerminalRequest{Argv: []string{"sh"}})
	one := s.look(t, 0)
	one.line("secret=plum; echo $secret")
	two := s.look(t, 0) // late, and yet it sees what was
	two.await("plum\r\n")
	two.await("end\r\n")
	if got := two.line("echo both-$secret"); got != "both-plum" {
		s.Errorf("the second view's command printed %q", got)
	}
	one.await("both-plum\r\n")
	one.await("end\r\n")
	if a, b := one.text.String(), two.text.String(); !strings.HasPrefix(a, b) && !strings.HasPrefix(b, a) {
		s.Errorf("two views of one terminal show %q and %q", a, b)
	}
	// One that leaves in the middle of a line takes nobody along.
	one.keys("echo half-")
	two.await("echo half-")
	s.must(one.view.Close())
	two.keys("done''\r")
	two.await("half-done\r\n")

	three := s.look(t, two.at)
	if got := three.line("echo $secret again"); got != "plum again" {
		s.Errorf("a view from an offset on: %q", got)
	}
	if strings.Contains(three.text.String(), "half-done\r\n") {
		s.Errorf("a view from offset %d shows what was before it: %q", two.at, three.text.String())
	}
	all, err := s.terminals().ListTerminals(s.ctx())
	s.must(err)
	if i := indexOf(all, t.ID); i < 0 || all[i].Start != 0 || all[i].End < three.at || all[i].EndedAt != nil {
		s.Errorf("ListTerminals() = %+v", all)
	}
}

func indexOf(all []execenv.Terminal, id string) int {
	for i, t := range all {
		if t.ID == id {
			return i
		}
	}
	return -1
}

// testTerminalFlood: who does not read slows nobody, and loses what lies between.
func testTerminalFlood(s *suite) {
	t := s.terminal(execenv.TerminalRequest{Argv: []string{"sh"}})
	idle, c := s.look(t, 0), s.look(t, 0)
	c.line("true")
	idle.await("end\r\n")
	c.keys("yes 0123456789; echo sto''pped\r")
	for c.at < 12<<20 {
		s.must(c.next())
	}
	c.keys("\x03")
	c.keys("\recho qui''et\r") // a shell may end its line with the interrupt
	c.await("quiet\r\n")
	if got := c.line("echo fine"); got != "fine" {
		s.Errorf("after a flood the shell printed %q", got)
	}
	all, err := s.terminals().ListTerminals(s.ctx())
	s.must(err)
	i := indexOf(all, t.ID)
	if kept := all[i].End - all[i].Start; all[i].End < 12<<20 || kept != 1<<20 {
		s.Errorf("%d bytes are kept of %d", kept, all[i].End)
	}
	idle.await("fine\r\n")
	if idle.gaps == 0 || idle.text.Len() > 8<<20 {
		s.Errorf("the view that did not read got %d bytes with %d gaps", idle.text.Len(), idle.gaps)
	}
	late := s.look(t, 0)
	late.await("fine\r\n")
	if n := late.text.Len(); n > 1<<20+64<<10 || n < 1<<19 {
		s.Errorf("a late view got %d bytes", n)
	}
}

// testTerminalDeaf: a program that does not read holds its input back, and the
// view can be closed all the same.
func testTerminalDeaf(s *suite) {
	t := s.terminal(execenv.TerminalRequest{Argv: []string{"sh", "-c", "stty raw -echo; echo ready; until [ -e go ]; do sleep 0.05; done; cat >got"}})
	c := s.look(t, 0)
	c.await("ready")
	typed := strings.Repeat("0123456789abcdef", 1<<19) // 8 MiB
	ctx, cancel := context.WithCancel(s.ctx())
	blocked := make(chan error, 1) // the one end
	go func() { blocked <- c.view.Input(ctx, []byte(typed)) }()
	select {
	case err := <-blocked:
		s.Errorf("a program that does not read took %d bytes: %v", len(typed), err)
	case <-time.After(300 * time.Millisecond):
	}
	cancel()
	if err := <-blocked; err == nil {
		s.Error("the end of its context did not end an input")
	}
	s.must(c.view.Close())
	other := s.look(t, 0)
	s.put("go", "")
	// What the first view's input left is taken, and that of another one.
	other.keys("THE END")
	s.do("until grep -q 'THE END' got; do sleep 0.05; done")
}

func testTerminalClose(s *suite) {
	t := s.terminal(execenv.TerminalRequest{Argv: []string{"sh"}})
	c := s.look(t, 0)
	number := sleepNumber()
	c.keys(fmt.Sprintf("setsid sleep %s & (trap '' TERM HUP; sleep %[1]s) & sleep %[1]s & sleep %[1]s\r", number))
	s.awaitAlive(number, 4)
	s.must(s.terminals().CloseTerminal(s.ctx(), t.ID))
	if n := s.alive(number); n != 0 {
		s.Errorf("%d processes outlive their terminal", n)
	}
	for {
		if err := c.next(); err == io.EOF {
			break
		} else if err != nil {
			s.Fatalf("a view of a terminal that was closed: %v", err)
		}
	}
	if c.last.EndedAt == nil {
		s.Errorf("the last word of a terminal that was closed: %+v", c.last)
	}
	all, err := s.terminals().ListTerminals(s.ctx())
	s.must(err)
	if indexOf(all, t.ID) >= 0 {
		s.Error("a terminal that was closed is listed")
	}
	_, err = s.terminals().ViewTerminal(s.ctx(), t.ID, 0)
	s.is("a view of a terminal that was closed", err, execenv.ErrNotFound)
	s.must(s.terminals().CloseTerminal(s.ctx(), t.ID))
}

func testTerminalEnd(s *suite) {
	number := sleepNumber()
	t := s.terminal(execenv.TerminalRequest{Argv: []string{"sh", "-c", "setsid sh -c 'touch up; exec sleep " + number + "' & until [ -e up ]; do sleep 0.05; done; echo bye; exit 3"}})
	c := s.look(t, 0)
	for {
		if err := c.next(); err == io.EOF {
			break
		} else if err != nil {
			s.Fatal(err)
		}
	}
	if c.text.String() != "bye\r\n" || c.last.EndedAt == nil || c.last.ExitCode != 3 || c.last.Signal != "" {
		s.Errorf("the terminal showed %q and ended as %+v", c.text.String(), c.last)
	}
	again := s.look(t, 0)
	again.await("bye\r\n")
	s.awaitAlive(number, 1) // it left its session, as a daemon does
	s.must(s.terminals().CloseTerminal(s.ctx(), t.ID))
	if n := s.alive(number); n != 0 {
		s.Error("a daemon outlives the terminal that started it")
	}
	killed := s.look(s.terminal(execenv.TerminalRequest{Argv: []string{"sh", "-c", "kill -9 $$"}}), 0)
	for killed.last.EndedAt == nil {
		s.must(killed.next())
	}
	if killed.last.ExitCode != 137 || killed.last.Signal != "killed" {
		s.Errorf("a shell that was killed: %+v", killed.last)
	}
}

func testTerminalLimits(s *suite) {
	ts := s.terminals()
	for name, tt := range map[string]struct {
		r    execenv.TerminalRequest
		want error
	}{
		"too wide":      {execenv.TerminalRequest{Cols: 1001}, execenv.ErrInvalid},
		"negative":      {execenv.TerminalRequest{Rows: -1}, execenv.ErrInvalid},
		"no program":    {execenv.TerminalRequest{Argv: []string{"no-such-program-anywhere"}}, execenv.ErrNotFound},
		"no directory":  {execenv.TerminalRequest{Dir: s.path("gone")}, execenv.ErrWorkdirGone},
		"a NUL byte":    {execenv.TerminalRequest{Env: []string{"A=\x00"}}, execenv.ErrInvalid},
		"no path there": {execenv.TerminalRequest{Argv: []string{s.path("none")}}, execenv.ErrNotFound},
	} {
		_, err := ts.OpenTerminal(s.ctx(), tt.r)
		s.is(name, err, tt.want)
	}
	_, err := ts.ViewTerminal(s.ctx(), "t-unknown", 0)
	s.is("a view of nothing", err, execenv.ErrNotFound)

	before, err := ts.ListTerminals(s.ctx())
	s.must(err)
	for range 16 - len(before) {
		s.terminal(execenv.TerminalRequest{Argv: []string{"sh"}})
	}
	_, err = ts.OpenTerminal(s.ctx(), execenv.TerminalRequest{})
	s.is("one more than 16", err, execenv.ErrBusy)
}
