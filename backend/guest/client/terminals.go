package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	openTime   = 15 * time.Second // to open a terminal
	closeTime  = 40 * time.Second // to close one, also of a fork bomb that has all of the sandbox's processor
	silentTime = 15 * time.Second // a guest that says nothing on a view for so long is not there
	frameHead  = 1 + 8 + 4
)

// OpenTerminal starts a terminal.
func (c *Client) OpenTerminal(ctx context.Context, r execenv.TerminalRequest) (t execenv.Terminal, err error) {
	return t, c.ask(ctx, openTime, http.MethodPost, wire.PathTerminals, execenv.Caller{}, r, &t)
}

// ListTerminals lists the terminals that were opened and not closed.
func (c *Client) ListTerminals(ctx context.Context) (ts []execenv.Terminal, err error) {
	return ts, c.ask(ctx, shortTime, http.MethodGet, wire.PathTerminals, execenv.Caller{}, nil, &ts)
}

// CloseTerminal ends a terminal's processes and forgets it.
func (c *Client) CloseTerminal(ctx context.Context, id string) error {
	return c.ask(ctx, closeTime, http.MethodDelete, callPath(wire.PathTerminal, id), execenv.Caller{}, nil, nil)
}

// ViewTerminal opens a view on a connection of its own.
func (c *Client) ViewTerminal(ctx context.Context, id string, after int64) (*TerminalView, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	v := newTerminalView(c, conn)
	if err := v.upgrade(ctx, id, after); err != nil {
		conn.Close()
		return nil, err
	}
	return v, nil
}

// TerminalView is one open view of a terminal in a guest.
type TerminalView struct {
	c    *Client
	conn net.Conn
	r    *bufio.Reader
	in   *io.LimitedReader // under r
	buf  []byte            // what Next returns
	at   int64             // the end of what was returned

	typing chan struct{} // a token, held while a frame is sent: half of one ends the view
	out    []byte        // guarded by typing
	once   sync.Once
}

var _ execenv.TerminalView = (*TerminalView)(nil)

func newTerminalView(c *Client, conn net.Conn) *TerminalView {
	in := &io.LimitedReader{R: conn, N: 64 << 10} // what the guest's answer may hold
	return &TerminalView{
		c: c, conn: conn, in: in, typing: make(chan struct{}, 1),
		// Room for the largest frame: one that is whole in it is taken in one piece,
		// and a wait that ends takes nothing of one that is not.
		r: bufio.NewReaderSize(in, frameHead+wire.MaxView),
	}
}

// upgrade asks the guest to make the connection a view.
func (v *TerminalView) upgrade(ctx context.Context, id string, after int64) error {
	path := callPath(wire.PathView, id) + "?" + url.Values{"after": {strconv.FormatInt(after, 10)}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://guest"+path, nil)
	if err != nil {
		return fmt.Errorf("make a request to the guest: %w", err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", wire.ProtocolView)
	var answer *http.Response
	err = v.within(ctx, v.conn.SetDeadline, time.Now().Add(shortTime), func() error {
		if err := req.Write(v.conn); err != nil {
			return err
		}
		answer, err = http.ReadResponse(v.r, req)
		return err
	})
	if err != nil {
		return v.c.unreachable(ctx, err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		defer answer.Body.Close()
		return refusal(answer)
	}
	v.in.N = math.MaxInt64
	return nil
}

// within does I/O under a deadline that ctx brings forward. It leaves none behind.
func (v *TerminalView) within(ctx context.Context, set func(time.Time) error, limit time.Time, do func() error) error {
	_ = set(limit)
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = set(time.Unix(1, 0))
		close(fired)
	})
	err := do()
	if !stop() {
		<-fired
	}
	_ = set(time.Time{})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Next implements execenv.TerminalView.
func (v *TerminalView) Next(ctx context.Context) (execenv.TerminalEvent, error) {
	for {
		var e execenv.TerminalEvent
		told := false
		err := v.within(ctx, v.conn.SetReadDeadline, time.Now().Add(silentTime), func() (err error) {
			told, err = v.read(&e)
			return err
		})
		switch {
		case err == nil && told:
			return e, nil
		case err == nil: // a sign of life
		case err == errOver:
			return e, io.EOF
		case ctx.Err() != nil:
			return e, err
		default:
			v.Close()
			return e, v.c.unreachable(ctx, fmt.Errorf("the view of a terminal was cut: %w", err))
		}
	}
}

// errOver is the guest's word for the end of a terminal; an end of the
// connection is none.
var errOver = errors.New("the terminal has ended")

// read takes one frame, and with output all that follows it without a gap and
// is here already. told is false for a frame that says nothing.
func (v *TerminalView) read(e *execenv.TerminalEvent) (told bool, err error) {
	kind, at, payload, err := v.peek()
	if err != nil {
		return false, err
	}
	switch kind {
	case wire.FrameStdout:
		if at < v.at {
			return false, fmt.Errorf("output at %d after %d", at, v.at)
		}
		e.Offset = at
		v.buf = v.buf[:0]
		for {
			v.buf = append(v.buf, payload...)
			v.at = at + int64(len(payload))
			v.drop(payload)
			if !v.whole(v.at, wire.MaxView-len(v.buf)) {
				break
			}
			if _, at, payload, err = v.peek(); err != nil {
				return false, err
			}
		}
		e.Data = v.buf
		return len(e.Data) > 0, nil
	case wire.FrameTerminal:
		var t execenv.Terminal
		if err := json.Unmarshal(payload, &t); err != nil {
			return false, fmt.Errorf("read how the terminal is: %w", err)
		}
		e.Offset, e.Changed = v.at, &t
		v.drop(payload)
		return true, nil
	case wire.FrameEnd:
		v.drop(payload)
		return false, errOver
	}
	v.drop(payload)
	return false, nil
}

// peek waits until a whole frame is here and leaves it there.
func (v *TerminalView) peek() (kind wire.FrameKind, at int64, payload []byte, err error) {
	head, err := v.r.Peek(frameHead)
	if err != nil {
		return 0, 0, nil, err
	}
	kind, at = wire.FrameKind(head[0]), int64(binary.BigEndian.Uint64(head[1:]))
	n := binary.BigEndian.Uint32(head[9:])
	if n > wire.MaxView {
		return 0, 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame, err := v.r.Peek(frameHead + int(n))
	if err != nil {
		return 0, 0, nil, err
	}
	return kind, at, frame[frameHead:], nil
}

func (v *TerminalView) drop(payload []byte) { _, _ = v.r.Discard(frameHead + len(payload)) }

// whole reports whether a frame of output at an offset, of at most room bytes,
// can be taken without a wait.
func (v *TerminalView) whole(at int64, room int) bool {
	if v.r.Buffered() < frameHead {
		return false
	}
	head, _ := v.r.Peek(frameHead)
	n := int64(binary.BigEndian.Uint32(head[9:]))
	return wire.FrameKind(head[0]) == wire.FrameStdout && int64(binary.BigEndian.Uint64(head[1:])) == at &&
		n <= int64(room) && int64(v.r.Buffered()) >= frameHead+n
}

// Input implements execenv.TerminalView.
func (v *TerminalView) Input(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), wire.MaxView/2)
		if err := v.send(ctx, wire.FrameInput, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Resize implements execenv.TerminalView.
func (v *TerminalView) Resize(ctx context.Context, cols, rows int) error {
	body, err := json.Marshal(wire.TerminalSize{Cols: cols, Rows: rows})
	if err != nil {
		return err
	}
	return v.send(ctx, wire.FrameResize, body)
}

func (v *TerminalView) send(ctx context.Context, kind wire.FrameKind, payload []byte) error {
	select {
	case v.typing <- struct{}{}:
		defer func() { <-v.typing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	v.out = wire.AppendFrame(v.out[:0], wire.Frame{Kind: kind, Payload: payload})
	err := v.within(ctx, v.conn.SetWriteDeadline, time.Time{}, func() error {
		_, err := v.conn.Write(v.out)
		return err
	})
	if err != nil {
		v.Close() // the guest may have half of a frame
		return v.c.unreachable(ctx, fmt.Errorf("type into a terminal: %w", err))
	}
	return nil
}

// Close implements execenv.TerminalView.
func (v *TerminalView) Close() error {
	v.once.Do(func() { v.conn.Close() })
	return nil
}
