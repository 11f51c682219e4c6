//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// memory returns the guest's present and highest resident size in MiB.
func (p *place) memory() (now, peak int) {
	p.t.Helper()
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "VmRSS:":
			now, _ = strconv.Atoi(f[1])
		case "VmHWM:":
			peak, _ = strconv.Atoi(f[1])
		}
	}
	return now >> 10, peak >> 10
}

func TestOverflowDrop_floodIsBounded(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	sh(t, c, "true")
	idle, _ := p.memory()
	if idle > 15 {
		t.Errorf("the idle guest takes %d MiB", idle)
	}
	const size = 500_000_000
	t.Run("fast reader", func(t *testing.T) {
		var got, gaps int64
		start := time.Now()
		o, err := c.Run(t.Context(), execenv.Caller{}, shell("head -c 500000000 /dev/zero"), func(ch execenv.Chunk) {
			if ch.Offset != got+gaps {
				gaps = ch.Offset - got
			}
			got += int64(len(ch.Data))
		})
		if err != nil || o.Stdout.Total != size || o.ExitCode != 0 {
			t.Fatalf("total %d, %v", o.Stdout.Total, err)
		}
		t.Logf("%.0f MB/s, %d MB live", size/time.Since(start).Seconds()/1e6, got/1e6)
	})
	t.Run("no reader", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := shell("echo begun; head -c 500000000 /dev/zero | tr '\\0' a; echo; echo end")
		cmd.Call.ID = "unread"
		// Follow's connection ends; the command's output is still drained.
		block := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			_, err := c.Run(t.Context(), execenv.Caller{}, cmd, func(execenv.Chunk) { <-block })
			done <- err
		}()
		defer cancel()
		eventually(t, func() error {
			_, err := c.Follow(ctx, "unread", 0, 0, nil)
			return err
		})
		close(block)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		o, err := c.Follow(ctx, "unread", 0, 0, nil)
		if err != nil || o.Stdout.Total != int64(len("begun\n"))+size+int64(len("\nend\n")) || !strings.HasSuffix(text(o.Stdout), "aaa\nend\n") || !strings.HasPrefix(text(o.Stdout), "begun\naaa") {
			t.Errorf("total %d, %v", o.Stdout.Total, err)
		}
	})
	if _, peak := p.memory(); peak > idle+12 {
		t.Errorf("the guest grew from %d to %d MiB", idle, peak)
	}
}

func TestOverflowDrop_timeoutFiresInAFlood(t *testing.T) {
	c := newPlace(t).start()
	cmd := shell("yes")
	cmd.Timeout = time.Second
	o, err := c.Run(t.Context(), execenv.Caller{}, cmd, nil)
	if err != nil || !o.TimedOut || o.Duration > 20*time.Second {
		t.Errorf("%v after %v, %v", o.TimedOut, o.Duration, err)
	}
}

func TestOverflowBlock_losesNothingAndHolds(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	cmd := shell("i=0; while [ $i -lt 40 ]; do head -c 1000000 /dev/zero | tr '\\0' b; echo $i >> progress; i=$((i+1)); done")
	cmd.Overflow, cmd.Call.ID = execenv.OverflowBlock, "block"
	hold := make(chan struct{})
	sum := sha256.New()
	type result struct {
		o   execenv.Outcome
		err error
	}
	done := make(chan result, 1)
	go func() {
		o, err := c.Run(t.Context(), execenv.Caller{}, cmd, func(ch execenv.Chunk) {
			<-hold
			sum.Write(ch.Data)
		})
		done <- result{o, err}
	}()
	// It stops well before the end, because nobody reads.
	sh(t, c, "last=x; while now=$(wc -l < progress 2>/dev/null); [ \"$now\" != \"$last\" ] || [ -z \"$now\" ]; do last=$now; sleep 0.3; done")
	if n := count(t, p.cfg.Workdir+"/progress"); n > 10 {
		t.Errorf("%d MB were written while nobody read", n)
	}
	close(hold)
	r := <-done
	want := sha256.Sum256(bytes.Repeat([]byte("b"), 40_000_000))
	if r.err != nil || r.o.Stdout.Total != 40_000_000 || !bytes.Equal(sum.Sum(nil), want[:]) || r.o.Stdout.Hash != hex.EncodeToString(want[:]) {
		t.Errorf("total %d, %v", r.o.Stdout.Total, r.err)
	}
	t.Run("a kill ends a held command", func(t *testing.T) {
		cmd := shell("yes")
		cmd.Overflow, cmd.Timeout = execenv.OverflowBlock, 500*time.Millisecond
		begun := make(chan struct{})
		o, err := c.Run(t.Context(), execenv.Caller{}, cmd, func(execenv.Chunk) {
			select {
			case <-begun:
			default:
				close(begun)
			}
		})
		if err != nil || !o.TimedOut {
			t.Errorf("%+v, %v", o.TimedOut, err)
		}
	})
}

func TestStats(t *testing.T) {
	c := newPlace(t).start()
	s, err := c.Stats(t.Context())
	if err != nil || s.GuestMemory == 0 || s.Memory == 0 || s.PIDs == 0 || s.ObservedAt.IsZero() {
		t.Errorf("stats %+v, %v", s, err)
	}
}
