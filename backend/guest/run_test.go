//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// eventually waits for what another process is about to do. It polls, because
// nothing else tells; the deadline is the test's own.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it did not happen: %v", err)
		}
	}
}

func TestRun_isByteExact(t *testing.T) {
	c := newPlace(t).start()
	tests := []struct {
		name, script string
		want         string
		code         int
	}{
		{"first byte", "echo hi", "hi\n", 0},
		{"silent", "true", "", 0},
		{"false", "false", "", 1},
		{"code", "exit 42", "", 42},
		{"signal", "kill -9 $$", "", 137},
		{"wide characters", `i=0; while [ $i -lt 500 ]; do printf '%s' '` + strings.Repeat("你", 100) + `'; i=$((i+1)); done`, strings.Repeat("你", 50_000), 0},
		{"byte by byte", `for b in '\360' '\237' '\230' '\200'; do printf $b; sleep 0.02; done`, "😀", 0},
		{"long line", `head -c 70000 /dev/zero | tr '\0' a; echo END`, strings.Repeat("a", 70_000) + "END\n", 0},
		{"random bytes", `printf '\377\376\0\001\200'`, "\xff\xfe\x00\x01\x80", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var live bytes.Buffer
			o, err := c.Run(t.Context(), execenv.Caller{}, shell(tt.script), func(ch execenv.Chunk) {
				if ch.Stream == execenv.Stdout {
					live.Write(ch.Data)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if o.ExitCode != tt.code {
				t.Errorf("exit code %d, want %d", o.ExitCode, tt.code)
			}
			sum := sha256.Sum256([]byte(tt.want))
			if live.String() != tt.want || o.Stdout.Hash != hex.EncodeToString(sum[:]) {
				t.Errorf("%d live bytes, %d in all; want %d", live.Len(), o.Stdout.Total, len(tt.want))
			}
			if len(tt.want) <= 128<<10 && text(o.Stdout) != tt.want {
				t.Errorf("kept %q", text(o.Stdout))
			}
		})
	}
	t.Run("streams apart", func(t *testing.T) {
		o := sh(t, c, "for i in 1 2 3; do echo o$i; echo e$i >&2; done")
		if text(o.Stdout) != "o1\no2\no3\n" || text(o.Stderr) != "e1\ne2\ne3\n" {
			t.Errorf("stdout %q, stderr %q", text(o.Stdout), text(o.Stderr))
		}
	})
}

func TestRun_endsWithTheFirstProcess(t *testing.T) {
	c := newPlace(t).start()
	o := sh(t, c, "(while :; do echo tick; sleep 0.02; done) & sleep 60 & echo done")
	if o.ExitCode != 0 || !strings.Contains(text(o.Stdout), "done\n") {
		t.Errorf("outcome %+v", o)
	}
	if len(o.Background) < 2 || o.Duration > 10*time.Second {
		t.Errorf("background %v after %v", o.Background, o.Duration)
	}
	next := sh(t, c, "sleep 0.1; echo next")
	if got := text(next.Stdout); got != "next\n" || len(next.Background) != 0 {
		t.Errorf("the next call got %q and %v", got, next.Background)
	}
	calls, err := c.Calls(t.Context())
	if err != nil || len(calls) < 2 {
		t.Fatalf("calls %v, %v", calls, err)
	}
	if stats, err := c.Stats(t.Context()); err != nil || stats.Calls != 0 || stats.Processes < 2 {
		t.Errorf("Stats() = %+v, %v", stats, err)
	}
	report, err := c.Kill(t.Context(), calls[0].ID, "stop")
	if err != nil || len(report.Killed) < 2 || len(report.Left) != 0 {
		t.Errorf("kill of what lives on: %+v, %v", report, err)
	}
	if stats, err := c.Stats(t.Context()); err != nil || stats.Processes != 0 {
		t.Errorf("Stats() after that = %+v, %v", stats, err)
	}
	if o := sh(t, c, "sleep 0.3 & wait; echo waited"); o.Duration < 300*time.Millisecond {
		t.Errorf("wait took %v", o.Duration)
	}
}

func TestRun_workdirAndProgram(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	if o := sh(t, c, "pwd"); text(o.Stdout) != p.cfg.Workdir+"\n" {
		t.Errorf("pwd = %q", text(o.Stdout))
	}
	cmd := shell("pwd")
	cmd.Dir = filepath.Join(p.cfg.Workdir, "gone")
	if _, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil); !errors.Is(err, execenv.ErrWorkdirGone) {
		t.Errorf("missing directory: %v", err)
	}
	for name, code := range map[string]int{"no-such-program": 127, "./plain": 126, "./badscript": 126} {
		write := func(name, body string, mode os.FileMode) {
			if err := os.WriteFile(filepath.Join(p.cfg.Workdir, name), []byte(body), mode); err != nil {
				t.Fatal(err)
			}
		}
		write("plain", "x", 0o644)
		write("badscript", "#!/no/such/interpreter\n", 0o755)
		o, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{Argv: []string{name}}, nil)
		if err != nil || o.ExitCode != code || len(o.Stderr.Head) == 0 {
			t.Errorf("%s: %+v, %v; want %d", name, o, err, code)
		}
	}
	if _, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{}, nil); !errors.Is(err, execenv.ErrInvalid) {
		t.Errorf("no program: %v", err)
	}
}

func TestRun_environment(t *testing.T) {
	p := newPlace(t)
	p.cfg.Env = []string{"FROM_CONFIG=1", "TERM=from-config"}
	c := p.start()
	cmd := shell(`echo "$HOME $USER $TERM $FROM_CONFIG $FROM_COMMAND"; id -u; git config safe.directory 2>/dev/null || echo '*'`)
	cmd.Env = []string{"FROM_COMMAND=2"}
	o, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s %s from-config 1 2\n1234\n*\n", p.cfg.Home, h.User)
	if text(o.Stdout) != want {
		t.Errorf("got %q, want %q", text(o.Stdout), want)
	}
}

func TestRun_stdin(t *testing.T) {
	c := newPlace(t).start()
	input := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	cmd := execenv.Command{Argv: []string{"sha256sum"}, Stdin: bytes.NewReader(input)}
	o, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil)
	sum := sha256.Sum256(input)
	if err != nil || !strings.HasPrefix(text(o.Stdout), hex.EncodeToString(sum[:])) {
		t.Errorf("%q, %v", text(o.Stdout), err)
	}
	// A command that does not want it all ends at once.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fmt.Fprintln(w, "one")
	o, err = c.Run(t.Context(), execenv.Caller{}, execenv.Command{Argv: []string{"head", "-n1"}, Stdin: r}, nil)
	if err != nil || text(o.Stdout) != "one\n" {
		t.Errorf("head: %q, %v", text(o.Stdout), err)
	}
}

func TestRun_interrupt(t *testing.T) {
	c := newPlace(t).start()
	ctx, cancel := context.WithCancelCause(t.Context())
	nap := naptime()
	cmd := shell("echo begun; sleep " + nap)
	o, err := c.Run(ctx, execenv.Caller{}, cmd, func(execenv.Chunk) { cancel(errors.New("the user said stop")) })
	if err != nil || !o.Interrupted || o.Kill == nil || len(o.Kill.Left) != 0 || o.Kill.Cause != "the user said stop" || text(o.Stdout) != "begun\n" {
		t.Errorf("%+v, kill %+v, %v", o, o.Kill, err)
	}
	if left := tagged("sleep " + nap); len(left) > 0 {
		t.Errorf("alive: %v", left)
	}
}

// A machine can stand still from before a command's end to after its time. What ended in
// time is not told as timed out.
func TestRun_endedInTime(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	for range 4 {
		begun, done := make(chan struct{}), make(chan execenv.Outcome, 1)
		cmd := shell("echo; while [ ! -e go ]; do :; done; rm go; exit 3")
		cmd.Timeout = time.Second
		go func() {
			o, err := c.Run(t.Context(), execenv.Caller{}, cmd, func(ch execenv.Chunk) {
				if ch.Offset == 0 {
					close(begun)
				}
			})
			if err != nil {
				t.Error(err)
			}
			done <- o
		}()
		<-begun
		if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		over := time.After(cmd.Timeout)
		if err := os.WriteFile(filepath.Join(p.cfg.Workdir, "go"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error { return hasZombie(p.cmd.Process.Pid) })
		<-over
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if o := <-done; o.TimedOut || o.ExitCode != 3 {
			t.Errorf("outcome %+v", o)
		}
	}
}

// hasZombie is nil when a child of a process has ended and was not waited for.
func hasZombie(pid int) error {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return err
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // of a thread that may have ended
		for _, child := range strings.Fields(string(children)) {
			stat, _ := os.ReadFile("/proc/" + child + "/stat")
			if bytes.Contains(stat, []byte(") Z ")) {
				return nil
			}
		}
	}
	return fmt.Errorf("no child of %d is a zombie", pid)
}
