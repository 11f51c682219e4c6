package bench

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Spawn starts shells that do nothing, one after the other, and prints what each
// took in nanoseconds. Run inside a sandbox it is the floor of a command there.
func Spawn(ctx context.Context, out io.Writer, n int, shell string) error {
	for range n {
		began := time.Now()
		if err := exec.CommandContext(ctx, shell, "-c", "true").Run(); err != nil {
			return fmt.Errorf("start %s: %w", shell, err)
		}
		if _, err := fmt.Fprintln(out, time.Since(began).Nanoseconds()); err != nil {
			return err
		}
	}
	return nil
}

// Stamp prints the time, in nanoseconds since 1970, n times with a pause after
// each. A sandbox shares the machine's clock, so the reader knows how old a line
// is.
func Stamp(ctx context.Context, out io.Writer, n int, pause time.Duration) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := io.WriteString(out, strconv.FormatInt(time.Now().UnixNano(), 10)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// nanoseconds reads lines of one number each.
func nanoseconds(text string) ([]time.Duration, error) {
	var ds []time.Duration
	for _, line := range strings.Fields(text) {
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read a duration: %w", err)
		}
		ds = append(ds, time.Duration(n))
	}
	return ds, nil
}
