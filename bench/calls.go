package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// shell is what the Bash tool runs its commands with.
const shell = "/bin/sh"

// bash measures a command that does nothing, so that all of it is overhead.
func (b *bench) bash(ctx context.Context) {
	b.eachWall(ctx, "Bash true", func(wall sandbox.Wall) error {
		s, err := b.session(ctx, wall)
		if err != nil {
			return err
		}
		argv := []string{shell, "-c", "true"}
		api, cli := s.container != "" && b.engine.client != nil, s.container != "" && b.engine.hasCommand()
		each := b.many(20, 2)
		var byRun, byCall, floors, byAPI, byCLI []time.Duration
		for range b.many(10, 2) { // in turns, so that other load slows all of them
			inside, err := s.inside(ctx, "spawn", strconv.Itoa(each), shell)
			floors = append(floors, inside...)
			if err == nil {
				byRun, err = repeat(byRun, each, func() error { _, err := s.run(ctx, execenv.Command{Argv: argv}, nil); return err })
			}
			if err == nil {
				byCall, err = repeat(byCall, each, func() error { return b.callBash(ctx, s, "true") })
			}
			if err == nil && api {
				byAPI, err = repeat(byAPI, max(1, each/10), func() error { return b.engine.exec(ctx, s.container, argv...) })
			}
			if err == nil && cli {
				byCLI, err = repeat(byCLI, max(1, each/10), func() error {
					return b.engine.command(ctx, append([]string{"exec", s.container}, argv...)...).Run()
				})
			}
			if err != nil {
				return err
			}
		}
		row := Row{Unit: "ms", Floor: millis(floors), FloorIs: "fork+exec of the shell inside"}
		row.What, row.Value = fmt.Sprintf("true, by the guest's client, %s", wall), millis(byRun)
		b.report(row, ratioAtMost(1.5))
		row.What, row.Value = fmt.Sprintf("Bash true, by HTTP and recorded, %s", wall), millis(byCall)
		b.report(row, ratioAtMost(1.5))
		if wall != sandbox.WallDocker {
			return nil
		}
		for _, other := range []struct {
			is      string
			took    []time.Duration
			there   bool
			without string
		}{
			{"docker exec by API", byAPI, api, "the engine is not at a unix socket"},
			{"docker exec by CLI", byCLI, cli, "there is no docker program"},
		} {
			row := Row{What: "Bash true, against " + other.is, Unit: "ms", Value: millis(byCall), Floor: millis(other.took), FloorIs: other.is}
			if !other.there {
				b.missing(row.What, other.without)
				continue
			}
			b.report(row, ratioAtMost(1.0/15))
		}
		return nil
	})
}

// firstByte measures the age of a line when the events socket delivers it.
func (b *bench) firstByte(ctx context.Context) {
	n, pause := strconv.Itoa(b.many(200, 10)), "20"
	b.eachWall(ctx, "printed to events socket", func(wall sandbox.Wall) error {
		s, err := b.session(ctx, wall)
		if err != nil {
			return err
		}
		ages, err := b.ages(ctx, s, strings.Join([]string{s.helper, "bench", "inside", "stamp", n, pause}, " "))
		if err != nil {
			return err
		}
		floors, err := pipeAges(ctx, b.o.Program, "bench", "inside", "stamp", n, pause)
		if err != nil {
			return err
		}
		b.report(Row{
			What: fmt.Sprintf("printed to events socket, %s", wall), Unit: "ms", Value: millis(ages),
			Floor: millis(floors), FloorIs: "the same program, read from a pipe",
		}, atMost(5, "ms"))
		return nil
	})
}

// ages runs a command that prints the time in lines, and returns how old each
// line is when a window gets it.
func (b *bench) ages(ctx context.Context, s *session, command string) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var ages []time.Duration
	var called chan struct{} // closed at the end of the call; nil before it was made
	rest := ""
	err := b.o.API.Follow(ctx, s.id, func(f httpapi.Frame) error {
		now := time.Now()
		switch {
		case f.Type == "caught_up":
			called = make(chan struct{})
			go func() {
				defer close(called)
				if err := b.callBash(ctx, s, command); err != nil {
					cancel(err)
				}
			}()
		case f.Type == "live" && f.Live.Kind == stream.LiveOutput && f.Live.Stream == "stdout":
			lines := strings.Split(rest+f.Live.Data, "\n")
			rest = lines[len(lines)-1]
			for _, line := range lines[:len(lines)-1] {
				ns, err := strconv.ParseInt(line, 10, 64)
				if err != nil {
					return fmt.Errorf("read a time: %w", err)
				}
				ages = append(ages, now.Sub(time.Unix(0, ns)))
			}
		case f.Type == "event" && called != nil && f.Event.Kind == task.KindToolCallFinished:
			return errSeen
		}
		return nil
	})
	if called != nil {
		if !errors.Is(err, errSeen) {
			cancel(err)
		}
		<-called // its own error is in the context's cause
	}
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return nil, cause
	case !errors.Is(err, errSeen):
		return nil, err
	case len(ages) == 0:
		return nil, errors.New("no line came while the command ran")
	}
	return ages, nil
}
