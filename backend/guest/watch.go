//go:build linux

package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// maxWatches bounds the watches that are open at once: each is one of the few
// inotify instances that a user of this machine has, sandboxes included.
const maxWatches = 16

// leaveTime is how long a new watch waits for one that has just ended, whose
// connection is closed a moment after its reader has gone.
const leaveTime = 2 * time.Second

// watch tells of directories that change until its connection ends.
func (g *Guest) watch(w http.ResponseWriter, r *http.Request) {
	watcher, ok := g.files.(execenv.Watcher)
	if !ok {
		fail(w, fmt.Errorf("watch directories: %w", execenv.ErrUnsupported))
		return
	}
	var req wire.WatchDirs
	if err := decode(w, r, &req); err != nil {
		fail(w, err)
		return
	}
	select {
	case g.watches <- struct{}{}:
		defer func() { <-g.watches }()
	case <-r.Context().Done():
		return
	case <-time.After(leaveTime):
		fail(w, fmt.Errorf("watch directories: %d watches are open in this sandbox: close a view: %w", maxWatches, execenv.ErrBusy))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	changed := make(chan []string)
	ended := make(chan error, 1) // the one result
	go func() {
		ended <- watcher.Watch(ctx, req.Dirs, func(dirs []string) {
			select {
			case changed <- dirs:
			case <-ctx.Done():
			}
		})
	}()
	f := &follower{w: w, flush: http.NewResponseController(w).Flush}
	beat := time.NewTicker(wire.WatchBeat / 2)
	defer beat.Stop()
	begun := false
	for {
		var err error
		select {
		case dirs := <-changed:
			if !begun {
				begun = true
				w.Header().Set("Content-Type", "application/octet-stream")
			}
			body, _ := json.Marshal(wire.WatchDirs{Dirs: dirs}) // strings alone: cannot fail
			err = f.frame(wire.FrameChanged, 0, body)
		case <-beat.C:
			if !begun {
				continue
			}
			err = f.frame(wire.FrameBeat, 0, nil)
		case <-g.stop:
			cancel() // a shutdown does not wait for those who watch
			<-ended
			return
		case err := <-ended:
			if err == nil {
				return
			}
			if !begun {
				fail(w, g.missing(err))
				return
			}
			e, _ := encodeError(g.missing(err))
			body, _ := json.Marshal(e) // strings alone: cannot fail
			if f.frame(wire.FrameError, 0, body) == nil {
				_ = f.flush()
			}
			return
		}
		if err == nil {
			err = f.flush()
		}
		if err != nil {
			cancel()
			<-ended
			return
		}
	}
}
