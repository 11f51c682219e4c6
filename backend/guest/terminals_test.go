//go:build linux

package guest_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
)

// opened opens a terminal and a view of it, which is closed at the test's end.
func opened(t *testing.T, c *client.Client, r execenv.TerminalRequest) (execenv.Terminal, *client.TerminalView) {
	t.Helper()
	term, err := c.OpenTerminal(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.ViewTerminal(t.Context(), term.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return term, v
}

// show reads a view until it has shown want.
func show(t *testing.T, v *client.TerminalView, want string) {
	t.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), want) {
		e, err := v.Next(t.Context())
		if err != nil {
			t.Fatalf("waiting for %q: %v after %q", want, err, seen.String())
		}
		seen.Write(e.Data)
	}
}

// A terminal's programs have a command's rights, whatever marks them, and a call
// that is killed beside them does not touch them.
func TestTerminal_rights(t *testing.T) {
	for name, change := range map[string][]func(*place){
		"group": {withNamespace, asInDocker}, "uts": {uts},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, change...)
			c := p.start()
			_, v := opened(t, c, execenv.TerminalRequest{Argv: []string{"/bin/sh"}, Cols: 80, Rows: 24})
			if err := v.Input(t.Context(), []byte("echo eff''ective $(grep CapEff /proc/self/status) $(grep NoNewPrivs /proc/self/status)\r")); err != nil {
				t.Fatal(err)
			}
			show(t, v, "effective CapEff: 0000000000000000 NoNewPrivs: 1")
			stats, err := c.Stats(t.Context())
			if err != nil || stats.Terminals != 1 || stats.Calls != 0 {
				t.Errorf("Stats() = %+v, %v", stats, err)
			}
			o, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{Argv: []string{"/bin/sleep", "100"}, Timeout: 50 * time.Millisecond}, nil)
			if err != nil || !o.TimedOut || len(o.Kill.Killed) != 1 {
				t.Errorf("the call beside: %+v, %v", o, err)
			}
			if err := v.Input(t.Context(), []byte("echo st''ill\r")); err != nil {
				t.Fatal(err)
			}
			show(t, v, "still")
		})
	}
}

// The end of the guest ends its terminals, and their views see it.
func TestTerminal_shutdown(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	nap := naptime()
	_, v := opened(t, c, execenv.TerminalRequest{Argv: []string{"/bin/sh", "-c", "trap '' TERM HUP; echo up; exec sleep " + nap}})
	show(t, v, "up")
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = v.Next(t.Context())
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, execenv.ErrUnreachable) {
		t.Errorf("the view ended with %v", err)
	}
	_ = p.cmd.Wait()
	if left := tagged("sleep", nap); len(left) > 0 {
		t.Errorf("processes %v outlive the guest", left)
	}
}

// A close ends what has left the terminal in every way there is.
func TestTerminal_closeKillsAll(t *testing.T) {
	p := newPlace(t, withNamespace)
	c := p.start()
	nap := naptime()
	term, v := opened(t, c, execenv.TerminalRequest{Argv: []string{"/bin/sh", "-c",
		"trap '' HUP TERM; for i in 1 2 3 4 5 6 7 8; do setsid env -i /bin/sleep " + nap + " </dev/null >/dev/null 2>&1 & done; echo up; while :; do /bin/sleep " + nap + " & sleep 0.01; done"}})
	show(t, v, "up")
	if err := c.CloseTerminal(t.Context(), term.ID); err != nil {
		t.Errorf("CloseTerminal() = %v", err)
	}
	if left := tagged("sleep " + nap); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
}
