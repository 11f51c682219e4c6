package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	rejoinTime = 3 * time.Second        // how long a cut stream is taken up again
	rejoinWait = 100 * time.Millisecond // before the second try; doubled after
	killWait   = 6 * time.Second        // for the outcome of a call that was killed
	endTime    = 100 * time.Millisecond // for the end of a stream after its outcome
)

// Run runs a command and returns when its first process has ended. When ctx
// ends, the command is killed with the text of its cause and the outcome says
// so; with the cause execenv.ErrLeave it is left to run on, and that is the error. A cut connection changes nothing for the command: Run takes its stream up
// again for about three seconds and then returns execenv.ErrUnreachable; the
// call lives on in the guest, and Follow finds it.
func (c *Client) Run(ctx context.Context, caller execenv.Caller, cmd execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	if cmd.Call.ID == "" {
		cmd.Call.ID = "host-" + rand.Text() // so that it can be rejoined and killed
	}
	body, err := json.Marshal(cmd)
	if err != nil {
		return execenv.Outcome{}, fmt.Errorf("encode a command: %w", err)
	}
	path := wire.PathRun
	if cmd.Stdin != nil {
		path += "?stdin=1"
	}
	if ctx.Err() != nil {
		return execenv.Outcome{}, fmt.Errorf("run a command: %w", context.Cause(ctx))
	}
	f := &following{c: c, id: cmd.Call.ID, live: live, began: make(chan struct{})}
	f.open = func(ctx context.Context) (*http.Response, error) {
		return c.send(ctx, http.MethodPost, path, caller, bytes.NewReader(body))
	}
	f.stdin = cmd.Stdin
	return f.run(ctx)
}

// Follow hands out a call's output from two offsets on, and returns its outcome
// once it has ended, also when that was before. When ctx ends it kills nothing
// and returns the cause.
func (c *Client) Follow(ctx context.Context, callID string, stdout, stderr int64, live func(execenv.Chunk)) (execenv.Outcome, error) {
	f := &following{c: c, id: callID, live: live, stdout: stdout, stderr: stderr, joined: true}
	return f.follow(ctx)
}

// following is one stream of frames, across connections.
type following struct {
	c    *Client
	id   string
	live func(execenv.Chunk)
	open func(ctx context.Context) (*http.Response, error) // the first time

	stdin io.Reader

	stdout, stderr int64         // offsets that were handed out
	joined         bool          // the guest is known to have the call
	began          chan struct{} // closed when joined is set by Run; nil in Follow
}

// run is follow for the one who started the call: the end of ctx ends it.
func (f *following) run(ctx context.Context) (execenv.Outcome, error) {
	// The stream outlives ctx, by the time that a kill takes.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	type result struct {
		o   execenv.Outcome
		err error
	}
	done := make(chan result, 1) // the one result
	go func() {
		o, err := f.follow(life)
		done <- result{o, err}
	}()
	select {
	case r := <-done:
		return r.o, r.err
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), execenv.ErrLeave) {
		cancel()
		<-done
		return execenv.Outcome{}, fmt.Errorf("follow a command: %w", execenv.ErrLeave)
	}
	limit := time.AfterFunc(killWait, cancel)
	defer limit.Stop()
	cause := "stop"
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		cause = err.Error()
	}
	report, err := f.c.Kill(life, f.id, cause)
	var r result
	if errors.Is(err, errUnknownCall) {
		// The command's own request may still be on its way.
		select {
		case <-f.began:
			report, err = f.c.Kill(life, f.id, cause)
			r = <-done
		case r = <-done:
		}
	} else {
		r = <-done
	}
	switch {
	case r.err == nil:
		r.o.Interrupted = true
		if r.o.Kill == nil && err == nil {
			r.o.Kill = &report
		}
		return r.o, nil
	case life.Err() != nil && err == nil:
		// Killed, and silent about it: what the kill proved is the outcome.
		return execenv.Outcome{ExitCode: 137, Signal: 9, Interrupted: true, Kill: &report}, nil
	case life.Err() != nil:
		return execenv.Outcome{}, fmt.Errorf("stop the command: %w", err)
	}
	return execenv.Outcome{}, r.err
}

// follow reads the stream to its outcome and takes it up again when it is cut.
func (f *following) follow(ctx context.Context) (execenv.Outcome, error) {
	var lost time.Time // since when nothing came
	wait := rejoinWait
	for {
		o, progress, err := f.attempt(ctx)
		if err == nil || !errors.Is(err, execenv.ErrUnreachable) {
			return o, err
		}
		if progress {
			lost, wait = time.Time{}, rejoinWait
		}
		if lost.IsZero() {
			lost = time.Now()
		}
		if time.Since(lost)+wait > rejoinTime {
			return execenv.Outcome{}, err
		}
		f.c.log.DebugContext(ctx, "take up a call's stream again", "call", f.id, "err", err)
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return execenv.Outcome{}, err
		}
	}
}

// attempt reads one connection's worth of the stream.
func (f *following) attempt(ctx context.Context) (o execenv.Outcome, progress bool, err error) {
	// A guest that is silent before the first frame is given up; after it,
	// silence is what a long command sounds like.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	setting := time.AfterFunc(settingTime, func() { cancel(execenv.ErrUnreachable) })
	defer setting.Stop()

	var answer *http.Response
	if f.open != nil && !f.joined {
		// A command whose request was cut may or may not run. The same request
		// again finds it by its id, so it never runs twice.
		answer, err = f.open(ctx)
	} else {
		path := fmt.Sprintf("%s?stdout=%d&stderr=%d", callPath(wire.PathCall, f.id), f.stdout, f.stderr)
		answer, err = f.c.send(ctx, http.MethodGet, path, execenv.Caller{}, nil)
	}
	if err != nil {
		return o, false, err
	}
	defer answer.Body.Close()

	var feeding chan struct{}
	defer func() {
		if feeding != nil {
			cancel(nil)
			<-feeding
		}
	}()
	r := bufio.NewReaderSize(answer.Body, 16<<10)
	buf := make([]byte, 4<<10)
	for {
		frame, err := wire.ReadFrame(r, buf)
		if err != nil {
			return o, progress, f.c.unreachable(ctx, fmt.Errorf("a call's stream was cut: %w", err))
		}
		if cap(frame.Payload) > len(buf) { // it was too large for buf, and the next one may be as large
			buf = frame.Payload[:cap(frame.Payload)]
		}
		setting.Stop()
		progress = true
		switch frame.Kind {
		case wire.FrameStarted:
			if !f.joined {
				f.joined = true
				close(f.began)
			}
			if f.stdin != nil {
				feeding = make(chan struct{})
				in := f.stdin
				f.stdin = nil // what was read of it cannot be sent twice
				go func() {
					defer close(feeding)
					f.feed(ctx, in)
				}()
			}
		case wire.FrameStdout:
			f.stdout, err = f.hand(execenv.Stdout, f.stdout, frame)
		case wire.FrameStderr:
			f.stderr, err = f.hand(execenv.Stderr, f.stderr, frame)
		case wire.FrameOutcome:
			if err := json.Unmarshal(frame.Payload, &o); err != nil {
				return o, progress, fmt.Errorf("read the outcome of call %s: %w", f.id, err)
			}
			// A body that is read to its end leaves its connection to the next
			// request. A guest that does not end it is not waited for.
			setting.Reset(endTime)
			_, _ = r.ReadByte()
			return o, progress, nil
		case wire.FrameError:
			var e wire.Error
			if err := json.Unmarshal(frame.Payload, &e); err != nil {
				return o, progress, fmt.Errorf("read the error of call %s: %w", f.id, err)
			}
			return o, progress, e.Err()
		}
		if err != nil {
			return o, progress, err
		}
	}
}

// hand passes one piece of output on and returns the offset after it.
func (f *following) hand(s execenv.Stream, at int64, frame wire.Frame) (int64, error) {
	if frame.Offset < at {
		return at, fmt.Errorf("the guest sent %s at %d after %d: %w", s, frame.Offset, at, execenv.ErrInvalid)
	}
	if f.live != nil && len(frame.Payload) > 0 {
		f.live(execenv.Chunk{Stream: s, Offset: frame.Offset, Data: frame.Payload})
	}
	return frame.Offset + int64(len(frame.Payload)), nil
}

// feed sends a command's input until ctx ends. The guest ends a call whose
// input was cut. A Read of in that blocks for ever outlives feed: only its
// owner can end it.
func (f *following) feed(ctx context.Context, in io.Reader) {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	defer context.AfterFunc(ctx, func() { r.CloseWithError(context.Canceled) })()
	answer, err := f.c.send(ctx, http.MethodPost, callPath(wire.PathStdin, f.id), execenv.Caller{}, r)
	if err != nil {
		f.c.log.DebugContext(ctx, "a command's input ended early", "call", f.id, "err", err)
		return
	}
	answer.Body.Close()
}
