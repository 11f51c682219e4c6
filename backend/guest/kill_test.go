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
		"deaf":             `trap '' TERM; sleep %[1]s; sleep %[1]s`,
		"escapees":         `trap '' TERM; setsid sleep %[1]s & (sleep %[1]s &); sleep %[1]s & wait`,
		"late writer":      `(sleep 6; echo late > late) & wait; sleep %[1]s`,
		"double fork":      `(setsid sh -c '(trap "" TERM; env -i sleep %[1]s & sleep %[1]s) &' &) ; sleep %[1]s`,
		"stopped":          `sh -c 'kill -STOP $$; sleep %[1]s' & sleep %[1]s`,
		"two hundred":      `i=0; while [ $i -lt 200 ]; do (sleep %[1]s &); i=$((i+1)); done; sleep %[1]s`,
		"always new":       `f() { sleep 0.01; (f &); sleep 0.01; }; f; f; f; sleep %[1]s`,
		"dies and respawn": `trap '(setsid sleep %[1]s &) ; exit 0' TERM; while :; do sleep 0.05; done`,
	}
	for wall, change := range walls {
		t.Run(wall, func(t *testing.T) {
			c := newPlace(t, change...).start()
			beside := naptime()
			bystander, stop := context.WithCancel(t.Context())
			defer stop()
			other := make(chan execenv.Outcome, 1)
			begun := make(chan struct{}, 1)
			go func() {
				o, _ := c.Run(bystander, execenv.Caller{}, shell("sleep "+beside+" & echo begun; wait"), func(execenv.Chunk) {
					begun <- struct{}{}
				})
				other <- o
			}()
			<-begun
			for name, script := range trees {
				t.Run(name, func(t *testing.T) {
					nap := naptime()
					cmd := shell(fmt.Sprintf(script, nap))
					cmd.Timeout = time.Second
					start := time.Now()
					o, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil)
					if err != nil {
						t.Fatal(err)
					}
					if !o.TimedOut || o.Interrupted || o.Kill == nil || o.Kill.Cause != "timeout" || len(o.Kill.Left)+len(o.Kill.Stuck) > 0 || len(o.Background) > 0 {
						t.Errorf("outcome %+v, kill %+v", o, o.Kill)
					}
					if left := tagged(nap); len(left) > 0 {
						t.Errorf("alive: %v", left)
					}
					if took := time.Since(start); took > 20*time.Second {
						t.Errorf("it took %v, kill %v in %d rounds", took, o.Kill.Took, o.Kill.Rounds)
					}
				})
			}
			if alive := tagged(beside); len(alive) == 0 {
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
			cmd := shell("b() { echo; [ $1 -gt 0 ] && { b $(($1-1)) & b $(($1-1)) & }; sleep 30; }; b 6")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			branches := 0
			o, err := c.Run(ctx, execenv.Caller{}, cmd, func(ch execenv.Chunk) {
				if branches += len(ch.Data); branches >= 50 {
					stop()
				}
			})
			if err != nil || !o.Interrupted || len(o.Kill.Left) > 0 || len(o.Kill.Killed) < 50 {
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
	nap, other := naptime(), naptime()
	first := sh(t, c, "sleep "+nap+" & echo")
	if len(first.Background) != 1 {
		t.Fatalf("background %v", first.Background)
	}
	cmd := shell("sleep " + other)
	cmd.Timeout = 50 * time.Millisecond
	if _, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil); err != nil {
		t.Fatal(err)
	}
	if len(tagged("sleep "+nap)) != 1 || len(tagged("sleep "+other)) != 0 {
		t.Errorf("alive: %v and %v", tagged("sleep "+nap), tagged("sleep "+other))
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
	// It is told of the command once that has begun.
	o := sh(t, p.start(), `i=0; until [ "$(cat /proc/$$/oom_score_adj)" = 500 ] || [ $i = 400 ]; do i=$((i+1)); sleep 0.05; done; cat /proc/self/oom_score_adj`)
	if text(o.Stdout) != "500\n" {
		t.Errorf("oom_score_adj = %q", text(o.Stdout))
	}
}

func TestLateWriterNeverWrites(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	cmd := shell("(until [ -e killed ]; do sleep 0.05; done; echo late > late) & wait")
	cmd.Timeout = 100 * time.Millisecond
	if _, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil); err != nil {
		t.Fatal(err)
	}
	sh(t, c, "touch killed; sleep 0.6")
	if _, err := os.Stat(filepath.Join(p.cfg.Workdir, "late")); err == nil {
		t.Error("a killed process wrote")
	}
}
