package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/guest/embedded"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// size tells how large the binaries are.
func (b *bench) size(ctx context.Context) {
	const server = "size of the server's binary"
	if info, err := os.Stat(b.o.Program); err != nil {
		b.fault(ctx, server, err)
	} else {
		b.report(Row{What: server, Unit: "MB", Value: megabytes(info.Size())}, noGoal)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		what := "size of the guest's binary, " + arch
		body, err := embedded.Binary(arch)
		switch {
		case err != nil && arch != runtime.GOARCH:
			b.missing(what, err.Error())
		case err != nil:
			b.fault(ctx, what, err)
		default:
			b.report(Row{What: what, Unit: "MB", Value: megabytes(int64(len(body)))}, atMost(12, "MB"))
		}
	}
}

// start measures from the exec of a server to its ready line.
func (b *bench) start(ctx context.Context) {
	const what = "start of the server to its ready line"
	var values, floors []time.Duration
	for i := range b.many(10, 1) + 1 {
		s, err := b.serve(ctx, filepath.Join(b.o.Dir, "start"))
		if err == nil {
			err = s.stop()
		}
		var least time.Duration
		if err == nil {
			least, err = timed(exec.CommandContext(ctx, b.o.Program, "version").Run)
		}
		if err != nil {
			b.fault(ctx, what, err)
			return
		}
		if i > 0 { // the first makes the data directory
			values, floors = append(values, s.ready), append(floors, least)
		}
	}
	b.report(Row{What: what, Unit: "ms", Value: millis(values), Floor: millis(floors), FloorIs: "glovebox version"}, atMost(200, "ms"))
}

// idle tells what a server and a guest use that have nothing to do.
func (b *bench) idle(ctx context.Context) {
	if err := b.idleServer(ctx); err != nil {
		b.fault(ctx, "idle server", err)
	}
	b.eachWall(ctx, "memory of an idle guest", func(wall sandbox.Wall) (err error) {
		id, _, err := openSession(ctx, b.o.API, wall)
		defer func() {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
			defer cancel()
			err = errors.Join(err, closeSession(clean, b.o.API, id))
		}()
		if err != nil {
			return err
		}
		var c httpapi.Container
		if err := b.o.API.Call(ctx, "GET", "/sessions/"+id+"/container", nil, &c); err != nil {
			return err
		}
		if c.Stats == nil {
			return fmt.Errorf("the guest says nothing of itself: %s", c.Error)
		}
		b.report(Row{What: fmt.Sprintf("memory of an idle guest, %s", wall), Unit: "MB", Value: megabytes(c.Stats.GuestMemory)}, atMost(15, "MB"))
		return nil
	})
}

// idleServer looks at a server without sessions and with some.
func (b *bench) idleServer(ctx context.Context) (err error) {
	s, err := b.serve(ctx, filepath.Join(b.o.Dir, "idle"))
	if err != nil {
		return err
	}
	var ids []string
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		for _, id := range ids {
			err = errors.Join(err, closeSession(clean, s.api, id))
		}
		err = errors.Join(err, s.stop())
	}()
	memory, err := residentSize(s.pid())
	if err != nil {
		return err
	}
	b.report(Row{What: "memory of an idle server", Unit: "MB", Value: megabytes(memory)}, noGoal)

	var wall sandbox.Wall
	for _, w := range b.walls {
		if w.Available && (wall == "" || w.Wall == sandbox.WallNamespace) { // the quickest to make
			wall = w.Wall
		}
	}
	if wall == "" {
		b.missing("idle server with sessions", "there is no wall for them")
		return nil
	}
	n := b.many(20, 2)
	for range n {
		id, _, err := openSession(ctx, s.api, wall)
		ids = append(ids, id)
		if err != nil {
			return err
		}
	}
	before, err := processorTime(s.pid())
	if err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-time.After(time.Duration(b.many(30, 1)) * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := processorTime(s.pid())
	if err != nil {
		return err
	}
	share := 100 * float64(after-before) / float64(time.Since(began))
	if memory, err = residentSize(s.pid()); err != nil {
		return err
	}
	b.report(Row{What: fmt.Sprintf("memory of a server with %d idle sessions", n), Unit: "MB", Value: megabytes(memory)}, atMost(80, "MB"))
	b.report(Row{What: fmt.Sprintf("processor use with %d idle sessions", n), Unit: "%", Value: single(share)}, atMost(0.5, "%"))
	return nil
}

// server is a glovebox process of our own.
type server struct {
	cmd   *exec.Cmd
	log   bytes.Buffer
	gone  chan error // receives the end of the process
	api   API
	ready time.Duration // until its ready line
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// serve starts a server over a data directory and returns when it is ready.
func (b *bench) serve(ctx context.Context, data string, flags ...string) (*server, error) {
	config := filepath.Join(b.o.Dir, "empty.toml") // nobody's configuration
	if err := os.WriteFile(config, nil, 0o644); err != nil {
		return nil, err
	}
	s := &server{gone: make(chan error, 1)} // its one sender never blocks
	s.cmd = exec.Command(b.o.Program, "serve", "--json", "--no-open", "--addr", "127.0.0.1:0", "--data", data, "--config", config)
	s.cmd.Args = append(s.cmd.Args, flags...)
	s.cmd.Stderr = &s.log
	if b.engine.host != "" {
		s.cmd.Env = append(os.Environ(), "DOCKER_HOST="+b.engine.host)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	// An interrupt while it comes up ends it, and with it the wait for its line.
	interrupted := context.AfterFunc(ctx, func() { _ = s.cmd.Process.Signal(syscall.SIGTERM) })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	s.ready = time.Since(began)
	interrupted()
	go func() { s.gone <- s.cmd.Wait() }()
	var ready struct{ Type, URL string }
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err == nil {
		s.api, err = b.o.Connect(ready.URL, data)
	}
	if err != nil {
		err = errors.Join(err, s.stop())
		return nil, fmt.Errorf("start a server: %w: %s", err, bytes.TrimSpace(s.log.Bytes()))
	}
	return s, nil
}

// stopTime is how long a server may take to stop in good order.
const stopTime = 20 * time.Second

func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-s.gone:
		return err
	case <-time.After(stopTime):
		return errors.Join(errors.New("a server did not stop in time"), s.cmd.Process.Kill(), <-s.gone)
	}
}

// residentSize reads how much memory a process holds.
func residentSize(pid int) (int64, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("read a process's memory: %w", err)
	}
	fields := strings.Fields(string(body))
	if len(fields) < 2 {
		return 0, fmt.Errorf("read a process's memory: %q", body)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// processorTime reads what a process has used of processors.
func processorTime(pid int) (time.Duration, error) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read a process's times: %w", err)
	}
	// The name before it, in parentheses, may hold anything. proc(5) counts these
	// fields from its beginning as 14 and 15.
	fields := strings.Fields(string(body[bytes.LastIndexByte(body, ')')+1:]))
	const user, system, tick = 11, 12, time.Second / 100
	if len(fields) <= system {
		return 0, fmt.Errorf("read a process's times: %q", body)
	}
	u, err1 := strconv.ParseInt(fields[user], 10, 64)
	k, err2 := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+k) * tick, errors.Join(err1, err2)
}
