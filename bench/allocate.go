package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// allocate measures from the request for a session until its sandbox is ready,
// against the same isolation without a guest in it.
func (b *bench) allocate(ctx context.Context) {
	medians := map[sandbox.Wall]*Stat{}
	b.eachWall(ctx, "allocate to ready", func(wall sandbox.Wall) error {
		n, floor, g := b.many(10, 2), b.dockerRun, ratioAtMost(1.15)
		floorIs := "docker run to its first output"
		if wall == sandbox.WallNamespace {
			n, floor, g = b.many(20, 3), bubblewrap, ratioAtMost(2)
			floorIs = "bwrap … true"
		} else if !b.engine.hasCommand() {
			floor, floorIs = nil, "missing: no docker program"
		}
		var values, floors []time.Duration
		for i := range n + 1 {
			took, err := b.openAndClose(ctx, wall)
			if err != nil {
				return err
			}
			var least time.Duration
			if floor != nil {
				if least, err = floor(ctx); err != nil {
					return fmt.Errorf("%s: %w", floorIs, err)
				}
			}
			if i == 0 {
				continue // it installs the guest, and fills caches
			}
			values = append(values, took)
			if floor != nil {
				floors = append(floors, least)
			}
		}
		medians[wall] = millis(values)
		b.report(Row{What: fmt.Sprintf("allocate to ready, %s", wall), Unit: "ms", Value: medians[wall], Floor: millis(floors), FloorIs: floorIs}, g)
		return nil
	})
	if ns, docker := medians[sandbox.WallNamespace], medians[sandbox.WallDocker]; ns != nil && docker != nil {
		b.report(Row{What: "allocate to ready, namespace against docker", Unit: "ms", Value: ns, Floor: docker, FloorIs: "allocate to ready, docker"}, ratioAtMost(0.1))
	}
}

func (b *bench) openAndClose(ctx context.Context, wall sandbox.Wall) (time.Duration, error) {
	id, took, err := openSession(ctx, b.o.API, wall)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	return took, errors.Join(err, closeSession(clean, b.o.API, id))
}

// dockerRun returns the time until a container of the same image, with the
// limits that a sandbox has by default, has printed something.
func (b *bench) dockerRun(ctx context.Context) (took time.Duration, err error) {
	cmd := b.engine.command(ctx, "run", "--rm", "--network", "none", "--memory", "2g", "--pids-limit", "512", "--shm-size", "1g",
		"--cpus", strconv.Itoa(min(2, runtime.NumCPU())), b.image, "echo", "ready")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(out, make([]byte, 1))
	took = time.Since(began)
	_, _ = io.Copy(io.Discard, out)
	return took, errors.Join(err, cmd.Wait())
}

// bubblewrap returns what the smallest sandbox of that program takes.
func bubblewrap(ctx context.Context) (time.Duration, error) {
	return timed(exec.CommandContext(ctx, "bwrap", "--ro-bind", "/", "/", "--unshare-all", "true").Run)
}
