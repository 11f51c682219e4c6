package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// hostile starts processes that do not want to be ended: deaf to the polite
// signals, in sessions of their own, orphaned, without an environment, and one
// that is another process every few milliseconds but never more than two. MARK
// is in the arguments of all of them.
const hostile = `: MARK
trap '' TERM INT HUP
deaf='trap "" TERM INT HUP; : MARK; while :; do sleep 1; done'
(setsid sh -c "$deaf" &)
(setsid env -i PATH="$PATH" sh -c "$deaf" &)
(setsid sh -c "(sh -c '$deaf' &); $deaf" &)
export hare=': MARK; sleep 0.01; setsid sh -c "$hare" &'
(setsid sh -c "$hare" &)
echo running
while :; do sleep 1; done`

// stop measures how long a stop takes from the wish to the proof, and looks for
// survivors from outside, by what the kernel lists.
func (b *bench) stop(ctx context.Context) {
	n := b.o.Trees
	if b.o.Quick {
		n = min(n, 3)
	}
	b.eachWall(ctx, "stop of a hostile tree", func(wall sandbox.Wall) error {
		s, err := b.session(ctx, wall)
		if err != nil {
			return err
		}
		mark := "bench-" + rand.Text()
		var took []time.Duration
		named := 0
		for range n {
			d, left, err := s.stopTree(ctx, mark)
			if err != nil {
				return err
			}
			took = append(took, d)
			named += left
		}
		alive, err := withArgument(mark)
		if err != nil {
			return err
		}
		b.report(Row{What: fmt.Sprintf("stop of a hostile tree, %s", wall), Unit: "ms", Value: millis(took)}, p99AtMost(1000, "ms"))
		b.report(Row{What: fmt.Sprintf("survivors of %d hostile trees, %s", n, wall), Unit: "left", Value: single(float64(max(alive, named)))}, atMost(0, "left"))
		return nil
	})
}

// stopTree runs a hostile tree and stops it. left are the survivors that the
// guest itself names.
func (s *session) stopTree(ctx context.Context, mark string) (took time.Duration, left int, err error) {
	run, stop := context.WithCancel(ctx)
	defer stop()
	var wish time.Time
	argv := []string{shell, "-c", strings.ReplaceAll(hostile, "MARK", mark)}
	o, err := s.env.Run(run, execenv.Command{Argv: argv}, func(c execenv.Chunk) {
		if c.Stream == execenv.Stdout && wish.IsZero() { // all of it runs
			wish = time.Now()
			stop()
		}
	})
	switch {
	case ctx.Err() != nil:
		return 0, 0, ctx.Err()
	case err != nil:
		return 0, 0, err
	case wish.IsZero(), o.Kill == nil:
		return 0, 0, fmt.Errorf("the tree ended by itself with code %d: %s", o.ExitCode, o.Stderr.Head)
	case len(o.Stderr.Head) > 0:
		return 0, 0, fmt.Errorf("the tree is not what it should be: %s", o.Stderr.Head)
	}
	return time.Since(wish), len(o.Kill.Left), nil
}

// withArgument counts the processes of this machine, those in sandboxes among
// them, that have a text in their arguments.
func withArgument(text string) (n int, err error) {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, line := range lines {
		// One that cannot be read has ended meanwhile.
		if body, err := os.ReadFile(line); err == nil && bytes.Contains(body, []byte(text)) {
			n++
		}
	}
	return n, nil
}
