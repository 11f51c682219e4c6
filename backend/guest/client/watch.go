package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	watchPause   = 100 * time.Millisecond // between two reports, whatever the guest sends
	watchSilence = 3 * wire.WatchBeat
)

// Watch hands out directories, of those in dirs, that change in the sandbox; see
// execenv.Watcher. A guest that has been silent for long is ErrUnreachable.
func (c *Client) Watch(ctx context.Context, caller execenv.Caller, dirs []string, changed func(dirs []string)) error {
	body, err := json.Marshal(wire.WatchDirs{Dirs: dirs})
	if err != nil {
		return fmt.Errorf("encode what to watch: %w", err)
	}
	life, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(watchSilence, func() { cancel(execenv.ErrUnreachable) })
	defer silent.Stop()
	err = c.follow(life, caller, dirs, body, silent, changed)
	switch {
	case ctx.Err() != nil:
		return nil
	case life.Err() != nil && !errors.Is(err, execenv.ErrUnreachable):
		return fmt.Errorf("watch directories: the guest has been silent for %v: %w", watchSilence, execenv.ErrUnreachable)
	}
	return err
}

// follow reads the frames of a watch.
func (c *Client) follow(ctx context.Context, caller execenv.Caller, dirs []string, body []byte, silent *time.Timer, changed func([]string)) error {
	answer, err := c.send(ctx, http.MethodPost, wire.PathWatch, caller, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	asked := make(map[string]bool, len(dirs))
	for _, d := range dirs {
		asked[d] = true
	}
	r := bufio.NewReader(answer.Body)
	buf := make([]byte, 4<<10)
	for {
		frame, err := wire.ReadFrame(r, buf)
		if err != nil {
			return c.unreachable(ctx, fmt.Errorf("a watch was cut: %w", err))
		}
		silent.Reset(watchSilence)
		switch frame.Kind {
		case wire.FrameBeat:
			continue
		case wire.FrameError:
			var e wire.Error
			if err := json.Unmarshal(frame.Payload, &e); err != nil {
				return fmt.Errorf("read the end of a watch: %w", err)
			}
			return e.Err()
		case wire.FrameChanged:
		default:
			return fmt.Errorf("the guest sent a frame %q into a watch: %w", frame.Kind, execenv.ErrInvalid)
		}
		var now wire.WatchDirs
		if err := json.Unmarshal(frame.Payload, &now); err != nil {
			return fmt.Errorf("read what has changed: %w", err)
		}
		known := now.Dirs[:0]
		for _, d := range now.Dirs {
			if asked[d] {
				known = append(known, d)
			}
		}
		if len(known) > 0 {
			changed(known)
		}
		// What comes faster than it may waits in the connection.
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
