package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// zeros is a command that prints size bytes as fast as a pipe takes them; the
// head of a small image would print some bytes at a time.
func zeros(size int64) []string {
	const block = 256 << 10
	return []string{"dd", "if=/dev/zero", "bs=" + strconv.Itoa(block), "count=" + strconv.FormatInt(size/block, 10)}
}

// output measures how fast a command's output comes out.
func (b *bench) output(ctx context.Context) {
	size := int64(b.many(1<<30, 64<<20))
	short := size / 16 // for what is slow
	b.eachWall(ctx, "output", func(wall sandbox.Wall) error {
		s, err := b.session(ctx, wall)
		if err != nil {
			return err
		}
		read := func(overflow execenv.Overflow) error {
			var got int64
			o, err := s.run(ctx, execenv.Command{Argv: zeros(size), Overflow: overflow}, func(c execenv.Chunk) {
				if c.Stream == execenv.Stdout { // what dd says of itself is not counted
					got += int64(len(c.Data))
				}
			})
			switch {
			case err != nil:
				return err
			case o.Stdout.Total != size:
				return fmt.Errorf("%d bytes were printed and %d counted", size, o.Stdout.Total)
			case overflow == execenv.OverflowBlock && got != size:
				return fmt.Errorf("%d bytes were printed and %d came", size, got)
			}
			return nil
		}
		var inside, all, drained, byCLI []time.Duration
		for range b.many(3, 1) {
			inside, err = repeat(inside, 1, func() error {
				_, err := s.run(ctx, execenv.Command{Argv: []string{shell, "-c", strings.Join(zeros(size), " ") + " > /dev/null"}}, nil)
				return err
			})
			if err == nil {
				all, err = repeat(all, 1, func() error { return read(execenv.OverflowBlock) })
			}
			if err == nil {
				drained, err = repeat(drained, 1, func() error { return read(execenv.OverflowDrop) })
			}
			if err == nil && s.container != "" && b.engine.hasCommand() {
				byCLI, err = repeat(byCLI, 1, func() error {
					return drain(b.engine.command(ctx, append([]string{"exec", s.container}, zeros(short)...)...), short)
				})
			}
			if err != nil {
				return err
			}
		}
		row := Row{Unit: "MB/s", Floor: rates(inside, size), FloorIs: "the same command into /dev/null inside"}
		row.What, row.Value = fmt.Sprintf("output, all of it, %s", wall), rates(all, size)
		b.report(row, atLeast(200, "MB/s"))
		row.What, row.Value = fmt.Sprintf("output, drained, %s", wall), rates(drained, size)
		b.report(row, noGoal)
		if len(byCLI) > 0 {
			b.report(Row{What: "output, all of it, against docker exec", Unit: "MB/s", Value: rates(all, size), Floor: rates(byCLI, short), FloorIs: "docker exec by CLI"}, noGoal)
		}
		return nil
	})
}

// drain reads a command's whole output.
func drain(cmd *exec.Cmd, size int64) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{out}, make([]byte, 256<<10))
	if err = errors.Join(err, cmd.Wait()); err == nil && n != size {
		err = fmt.Errorf("%d bytes were printed and %d came", size, n)
	}
	return err
}

// pipeAges runs a program that prints the time in lines, and returns how old
// each line is when it is read from a pipe.
func pipeAges(ctx context.Context, program string, args ...string) (ages []time.Duration, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		now := time.Now()
		ns, perr := strconv.ParseInt(lines.Text(), 10, 64)
		err = errors.Join(err, perr)
		ages = append(ages, now.Sub(time.Unix(0, ns)))
	}
	return ages, errors.Join(err, lines.Err(), cmd.Wait())
}
