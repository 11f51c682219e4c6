//go:build unix

package terminal

import (
	"context"
	"io"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// newest is where a view goes on that has lost the end out of sight: who watches
// a flood wants to see its end, not all that could be kept of it.
const newest = 64 << 10

// View is one open view of a terminal.
type View struct {
	t    *Terminal
	wake chan struct{} // capacity 1: a wake finds all that is new
	life context.Context
	end  context.CancelFunc
	buf  []byte

	// Guarded by t.mu.
	at      int64
	caught  bool // it has once seen all there was
	changed bool
}

var _ execenv.TerminalView = (*View)(nil)

func (t *Terminal) view(after int64) *View {
	v := &View{t: t, wake: make(chan struct{}, 1), buf: make([]byte, 4<<10), changed: true}
	v.life, v.end = context.WithCancel(context.Background())
	t.mu.Lock()
	defer t.mu.Unlock()
	v.at = after
	if after < 0 || after > t.kept.end { // of another terminal, or made up
		v.at = 0
	}
	t.views[v] = struct{}{}
	return v
}

func (v *View) ring() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// Next implements execenv.TerminalView. Data is valid until the next call.
func (v *View) Next(ctx context.Context) (execenv.TerminalEvent, error) {
	for {
		if e, ok, err := v.take(); ok || err != nil {
			return e, err
		}
		select {
		case <-v.wake:
		case <-ctx.Done():
			return execenv.TerminalEvent{}, ctx.Err()
		case <-v.life.Done():
			return execenv.TerminalEvent{}, io.ErrClosedPipe
		}
	}
}

// take returns what there is for the view now. A change is told at once, but for
// the end: that comes after all output.
func (v *View) take() (e execenv.TerminalEvent, ok bool, err error) {
	t := v.t
	t.mu.Lock()
	defer t.mu.Unlock()
	over, behind := t.endedAt != nil, v.at < t.kept.end
	switch {
	case v.changed && !(over && behind):
		v.changed = false
		info := t.info()
		return execenv.TerminalEvent{Offset: v.at, Changed: &info}, true, nil
	case behind:
		if start := t.kept.start(); v.at < start {
			if v.caught {
				start = max(start, t.kept.end-newest)
			}
			v.at = t.kept.lineAfter(start)
		}
		if t.kept.end-v.at > int64(len(v.buf)) && len(v.buf) < readBytes {
			v.buf = make([]byte, readBytes) // there is much to tell
		}
		n := t.kept.read(v.buf, v.at)
		e = execenv.TerminalEvent{Offset: v.at, Data: v.buf[:n]}
		v.at += int64(n)
		v.caught = v.caught || v.at == t.kept.end
		return e, true, nil
	case over:
		return e, false, io.EOF
	}
	return e, false, nil
}

// Input implements execenv.TerminalView.
func (v *View) Input(ctx context.Context, data []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.life, cancel)()
	return v.t.input(ctx, data)
}

// Resize implements execenv.TerminalView.
func (v *View) Resize(_ context.Context, cols, rows int) error { return v.t.resize(cols, rows) }

// Close implements execenv.TerminalView.
func (v *View) Close() error {
	v.end()
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	delete(v.t.views, v)
	return nil
}
