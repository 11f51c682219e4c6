//go:build linux

package guest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

var walls = map[string][]func(*place){
	"group":                  nil,
	"uts":                    {uts},
	"group as in docker":     {withNamespace, asInDocker},
	"uts in a pid namespace": {uts, withNamespace},
}

func TestKill_hostileTrees(t *testing.T) {
	trees := map[string]string{
		"deaf":             `trap '' TERM; sleep %[1]d; sleep %[1]d`,
		"escapees":         `trap '' TERM; setsid sleep %[1]d & (sleep %[1]d &); sleep %[1]d & wait`,
		"late writer":      `(sleep 6; echo late > late) & wait; sleep %[1]d`,
		"double fork":      `(setsid sh -c '(trap "" TERM; env -i sleep %[1]d & sleep %[1]d) &' &) ; sleep %[1]d`,
		"stopped":          `sh -c 'kill -STOP $$; sleep %[1]d' & sleep %[1]d`,
		"two hundred":      `i=0; while [ $i -lt 200 ]; do (sleep %[1]d &); i=$((i+1)); done; sleep %[1]d`,
		"always new":       `f() { sleep 0.01; (f &); sleep 0.01; }; f; f; f; sleep %[1]d`,
		"dies and respawn": `trap '(setsid sleep %[1]d &) ; exit 0' TERM; while :; do sleep 0.05; done`,
	}
	n := 70_000 + os.Getpid()%1000*10
	for wall, change := range walls {
		t.Run(wall, func(t *testing.T) {
			c := newPlace(t, change...).start()
			bystander, stop := context.WithCancel(t.Context())
			defer stop()
			other := make(chan execenv.Outcome, 1)
			begun := make(chan struct{}, 1)
			go func() {
				o, _ := c.Run(bystander, execenv.Caller{}, shell(fmt.Sprintf("sleep %d & echo begun; wait", n+9)), func(execenv.Chunk) {
					begun <- struct{}{}
				})
				other <- o
			}()
			<-begun
			for name, script := range trees {
				t.Run(name, func(t *testing.T) {
					cmd := shell(fmt.Sprintf(script, n))
					cmd.Timeout = time.Second
					start := time.Now()
					o, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil)
					if err != nil {
						t.Fatal(err)
					}
					if !o.TimedOut || o.Interrupted || o.Kill == nil || o.Kill.Cause != "timeout" || len(o.Kill.Left)+len(o.Kill.Stuck) > 0 || len(o.Background) > 0 {
						t.Errorf("outcome %+v, kill %+v", o, o.Kill)
					}
					if left := tagged(fmt.Sprint(n)); len(left) > 0 {
						t.Errorf("alive: %v", left)
					}
					if took := time.Since(start); took > 4*time.Second {
						t.Errorf("it took %v, kill %v in %d rounds", took, o.Kill.Took, o.Kill.Rounds)
					}
				})
			}
			if alive := tagged(fmt.Sprint(n + 9)); len(alive) == 0 {
				t.Error("a parallel call lost its process")
			}
			stop()
			if o := <-other; !o.Interrupted || len(o.Kill.Killed) < 2 {
				t.Errorf("the parallel call: %+v", o)
			}
		})
	}
}

func TestKill_growingTree(t *testing.T) {
	for wall, change := range walls {
		t.Run(wall, func(t *testing.T) {
			p := newPlace(t, change...)
			c := p.start()
			// It branches six times and no more: a real one, if the kill were
			// to fail, would take the machine down with the test.
			cmd := shell("b() { [ $1 -gt 0 ] && { b $(($1-1)) & b $(($1-1)) & }; sleep 30; }; b 6")
			cmd.Timeout = 500 * time.Millisecond
			o, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil)
			if err != nil || !o.TimedOut || len(o.Kill.Left) > 0 || len(o.Kill.Killed) < 50 {
				t.Errorf("%d killed, left %v in %d rounds and %v, %v", len(o.Kill.Killed), o.Kill.Left, o.Kill.Rounds, o.Kill.Took, err)
			}
			if o := sh(t, c, "echo next"); text(o.Stdout) != "next\n" {
				t.Errorf("the next call: %+v", o)
			}
		})
	}
}

func TestKill_leavesEarlierCallsAlone(t *testing.T) {
	c := newPlace(t).start()
	first := sh(t, c, "sleep 88001 & echo")
	if len(first.Background) != 1 {
		t.Fatalf("background %v", first.Background)
	}
	cmd := shell("sleep 88002")
	cmd.Timeout = 50 * time.Millisecond
	if _, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil); err != nil {
		t.Fatal(err)
	}
	if len(tagged("sleep 88001")) != 1 || len(tagged("sleep 88002")) != 0 {
		t.Errorf("alive: %v and %v", tagged("sleep 88001"), tagged("sleep 88002"))
	}
}

func TestOrphansAreReaped(t *testing.T) {
	p := newPlace(t, withNamespace)
	c := p.start()
	for range 200 {
		if o := sh(t, c, "(sleep .05 &)"); o.ExitCode != 0 {
			t.Fatalf("%+v", o)
		}
	}
	eventually(t, func() error {
		o := sh(t, c, `cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | cut -c1 | grep -c Z; ls -d /proc/[0-9]* | wc -l`)
		f := strings.Fields(text(o.Stdout))
		if len(f) != 2 || f[0] != "0" || len(f[1]) > 1 {
			return fmt.Errorf("zombies and processes: %v", f)
		}
		return nil
	})
}

func TestSignalsFromInsideDoNotEndTheGuest(t *testing.T) {
	p := newPlace(t, uts, withNamespace)
	p.cfg.User = "root"
	c := p.start()
	before, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sh(t, c, `for s in TERM INT HUP QUIT SEGV USR1 PIPE ABRT ALRM CHLD TSTP; do kill -$s 1; done`)
	after, err := c.Hello(t.Context())
	if err != nil || after.BootID != before.BootID {
		t.Errorf("%v; %s became %s", err, before.BootID, after.BootID)
	}
}

func TestCommandHasNoCapability(t *testing.T) {
	for wall, change := range walls {
		t.Run(wall, func(t *testing.T) {
			p := newPlace(t, change...)
			p.own(0)
			c := p.start()
			o := sh(t, c, "id -u; grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status")
			for _, want := range []string{"0\n", "CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
				if !strings.Contains(text(o.Stdout), want) {
					t.Errorf("no %q in %s", want, text(o.Stdout))
				}
			}
			if h, err := c.Hello(t.Context()); err != nil || len(h.Warnings) > 0 {
				t.Errorf("warnings %q, %v", h.Warnings, err)
			}
			if p.shadow {
				o := sh(t, c, "prlimit --pid 1 --nofile=10:10; prlimit --pid $$ --nofile=100:100 && ulimit -n 99 && echo own; cat /proc/1/environ; ls -l /proc/1/fd/")
				if strings.Count(text(o.Stderr), "ermi") < 3 {
					t.Errorf("prlimit of process 1: %q, %q", text(o.Stdout), text(o.Stderr))
				}
			}
			if p.cfg.Tag != wire.TagUTS {
				return // an engine brings its own filter
			}
			if o := sh(t, c, "unshare -u true || unshare -U true || mount -t tmpfs x /mnt"); o.ExitCode == 0 {
				t.Errorf("a namespace or mount was made: %q", text(o.Stderr))
			}
		})
	}
}

func TestCommandDiesOfMemoryFirst(t *testing.T) {
	p := newPlace(t)
	o := sh(t, p.start(), "sleep 0.1; cat /proc/self/oom_score_adj")
	if text(o.Stdout) != "500\n" {
		t.Errorf("oom_score_adj = %q", text(o.Stdout))
	}
}

func TestLateWriterNeverWrites(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	cmd := shell("(sleep 0.4; echo late > late) & wait")
	cmd.Timeout = 100 * time.Millisecond
	if _, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil); err != nil {
		t.Fatal(err)
	}
	sh(t, c, "sleep 0.6")
	if _, err := os.Stat(filepath.Join(p.cfg.Workdir, "late")); err == nil {
		t.Error("a killed process wrote")
	}
}
