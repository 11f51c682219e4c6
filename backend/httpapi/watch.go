package httpapi

import (
	"context"
	"fmt"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// filesWatch is what one window watches: directories of one session at a time.
type filesWatch struct {
	server *Server
	frames chan Frame // of the present watch; nil for none. Unbuffered: what is not taken holds the watch back.
	cancel context.CancelFunc
	all    sync.WaitGroup // of watches, those that were replaced and are ending among them
}

// set replaces what is watched; no directories end it.
func (f *filesWatch) set(ctx context.Context, id string, dirs []string) error {
	if len(dirs) > execenv.MaxWatched {
		return fmt.Errorf("%w: at most %d directories can be watched", errBody, execenv.MaxWatched)
	}
	f.stop()
	if len(dirs) == 0 {
		return nil
	}
	ctx, f.cancel = context.WithCancel(ctx)
	frames := make(chan Frame)
	f.frames = frames
	tell := func(frame Frame) {
		frame.SessionID = id
		select {
		case frames <- frame:
		case <-ctx.Done():
		}
	}
	trouble := func(err error) {
		_, body := describe(err)
		tell(Frame{Type: "error", Error: &body})
	}
	f.all.Go(func() {
		err := f.server.o.Sessions.WatchFiles(ctx, id, dirs, func(dirs []string) {
			tell(Frame{Type: "files", Dirs: dirs})
		}, trouble)
		if err != nil {
			trouble(err)
		}
	})
	return nil
}

// stop ends what is watched; it does not wait for that.
func (f *filesWatch) stop() {
	if f.cancel != nil {
		f.cancel()
	}
	f.frames, f.cancel = nil, nil
}

// close ends what is watched and waits until all of it has ended.
func (f *filesWatch) close() {
	f.stop()
	f.all.Wait()
}
