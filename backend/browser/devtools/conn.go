// Package devtools is a connection to a browser over the Chrome DevTools
// Protocol: one WebSocket at the browser's level, with a session for each target
// on it.
//
//	conn, err := devtools.Connect(ctx, devtools.Options{Dial: endpoint.Dial, Event: handle})
//	info, err := cdp.Call(ctx, conn, browser.GetVersion, cdp.Empty{})
//	page := conn.Session(attached.SessionID)
//	_, err = cdp.Call(ctx, page, page.Reload, page.ReloadParams{})
//
// The types of commands and events are those of cdproto; [Conn] and [Session]
// are its cdp.Session. Answers may come in any order and in any size: one that is
// too large fails the call that asked for it, and the connection lives. A
// connection that has broken stays broken: its pending calls fail at once with
// [ErrClosed], and a new one is a new Conn with sessions of its own, so that an
// answer to the old one is never taken for an answer to the new.
package devtools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/coder/websocket"
)

// The limits of one message, in bytes. Chromium takes 100 MB and more in one
// piece, but relays on the way do not; what we send is small.
const (
	MaxIncoming = 64 << 20
	MaxOutgoing = 1 << 20
)

var (
	// ErrClosed says that the connection has ended; a new one may be made.
	ErrClosed = errors.New("the connection to the browser has ended")

	// ErrTooLarge says that one message was over its limit. The connection lives.
	ErrTooLarge = errors.New("the message is too large for the browser's connection")
)

// Error is what the browser answered to a command that it could not do.
type Error struct {
	Method  string
	Code    int64
	Message string
}

func (e *Error) Error() string { return e.Method + ": " + e.Message }

// DialFunc opens a WebSocket to a browser.
type DialFunc func(ctx context.Context) (*websocket.Conn, error)

// Event is something that the browser said without being asked.
type Event struct {
	Session string // "" for the browser's own
	Method  string
	Params  jsonv2.Value
}

// Options are what a connection is made of; Dial is needed.
type Options struct {
	Dial DialFunc

	// Event is called for each event, one after the other in the order in which
	// they came, by the goroutine that reads: it must not block and must not Call.
	// It may Post and Go.
	Event func(*Conn, Event)

	MaxIncoming int // 64 MiB when 0
	MaxOutgoing int // 1 MiB when 0

	Log *slog.Logger
}

// Conn is one connection. Its methods may be called from several goroutines.
type Conn struct {
	o    Options
	ws   *websocket.Conn
	log  *slog.Logger
	life context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup
	done chan struct{} // closed when both loops have returned

	wake chan struct{} // one: there is something to write

	mu      sync.Mutex
	last    int64
	pending map[int64]*pending
	out     [][]byte
	subs    map[subscription]struct{}
	err     error
}

// pending is a call that waits for its answer. answer is called once, by the
// reader or by the end of the connection.
type pending struct {
	method string
	answer func(result jsonv2.Value, err error)
}

type message struct {
	ID      int64        `json:"id,omitzero"`
	Session string       `json:"sessionId,omitzero"`
	Method  string       `json:"method,omitzero"`
	Params  jsonv2.Value `json:"params,omitzero"`
	Result  jsonv2.Value `json:"result,omitzero"`
	Error   *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
		Data    string `json:"data,omitzero"`
	} `json:"error,omitzero"`
}

var (
	_ cdp.Session = (*Conn)(nil)
	_ cdp.Session = (*Session)(nil)
)

// Connect dials and returns a connection that lives until Close, or until the
// other side ends it. ctx bounds the dialling alone.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	if o.MaxIncoming == 0 {
		o.MaxIncoming = MaxIncoming
	}
	if o.MaxOutgoing == 0 {
		o.MaxOutgoing = MaxOutgoing
	}
	ws, err := o.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the browser: %w", err)
	}
	// Our own limit fails one call; the library's closes the connection.
	ws.SetReadLimit(-1)
	c := &Conn{
		o: o, ws: ws, log: o.Log,
		done:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
		pending: map[int64]*pending{},
		subs:    map[subscription]struct{}{},
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.work.Go(c.read)
	c.work.Go(c.write)
	go func() {
		c.work.Wait()
		close(c.done)
	}()
	return c, nil
}

// Close ends the connection and waits until nothing of it is left.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	<-c.done
	return nil
}

// Done is closed when the connection has ended and its goroutines are gone.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the connection ended; nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Session is the target that the browser attached under that id.
func (c *Conn) Session(id string) *Session { return &Session{conn: c, id: id} }

// Call runs a command of the browser's own session.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	return c.call(ctx, nil, "", method, params, result)
}

// Post sends a command of the browser's own session whose answer nobody needs.
func (c *Conn) Post(method string, params any) { c.send("", method, params, nil) }

// Subscribe is described at [Session.Subscribe].
func (c *Conn) Subscribe(method string) (<-chan jsonv2.Value, func()) {
	return c.subscribe("", method)
}

func (c *Conn) call(ctx context.Context, gate Gate, session, method string, params, result any) error {
	type answer struct {
		result jsonv2.Value
		err    error
	}
	got := make(chan answer, 1) // the answer never waits for who asked
	var id atomic.Int64
	send := func() { // which a gate may put off until nobody waits any more
		if ctx.Err() == nil {
			id.Store(c.send(session, method, params, func(r jsonv2.Value, err error) { got <- answer{r, err} }))
		}
	}
	if err := gate.Pass(send); err != nil {
		return err
	}
	select {
	case a := <-got:
		if a.err != nil {
			return a.err
		}
		if result == nil || len(a.result) == 0 {
			return nil
		}
		if err := jsonv2.Unmarshal(a.result, result); err != nil {
			return fmt.Errorf("%s: read the answer: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pending, id.Load())
		c.mu.Unlock()
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

// send puts a command into the queue of what is written, in the order of calls,
// and never waits for the network. answer, if any, is called exactly once.
func (c *Conn) send(session, method string, params any, answer func(jsonv2.Value, error)) int64 {
	fail := func(err error) int64 {
		if answer != nil {
			answer(nil, fmt.Errorf("%s: %w", method, err))
		}
		return 0
	}
	m := message{Session: session, Method: method}
	if params != nil {
		raw, err := jsonv2.Marshal(params)
		if err != nil {
			return fail(err)
		}
		if !bytes.Equal(raw, []byte("{}")) {
			m.Params = raw
		}
	}
	if len(m.Params) > c.o.MaxOutgoing {
		return fail(fmt.Errorf("%w: %d bytes, at most %d; send it in smaller parts", ErrTooLarge, len(m.Params), c.o.MaxOutgoing))
	}

	c.mu.Lock()
	if c.err != nil {
		err := c.err
		c.mu.Unlock()
		return fail(err)
	}
	c.last++
	m.ID = c.last
	b, err := jsonv2.Marshal(m)
	if err != nil {
		c.mu.Unlock()
		return fail(err)
	}
	if answer != nil {
		c.pending[m.ID] = &pending{method, answer}
	}
	c.out = append(c.out, b)
	c.mu.Unlock()

	select {
	case c.wake <- struct{}{}:
	default:
	}
	return m.ID
}

func (c *Conn) write() {
	for {
		select {
		case <-c.wake:
		case <-c.life.Done():
			return
		}
		for {
			c.mu.Lock()
			if len(c.out) == 0 {
				c.out = nil
				c.mu.Unlock()
				break
			}
			b := c.out[0]
			c.out = c.out[1:]
			c.mu.Unlock()
			// A write that a context ends closes the WebSocket: only the end of
			// the connection may do that, never the end of one call.
			if err := c.ws.Write(c.life, websocket.MessageText, b); err != nil {
				c.fail(fmt.Errorf("%w: %v", ErrClosed, err))
				return
			}
		}
	}
}

func (c *Conn) read() {
	var buf bytes.Buffer
	for {
		_, r, err := c.ws.Reader(c.life)
		if err != nil {
			c.fail(fmt.Errorf("%w: %v", ErrClosed, err))
			return
		}
		buf.Reset()
		if buf.Cap() > 4<<20 {
			buf = bytes.Buffer{} // one giant answer is not kept for ever
		}
		_, err = io.CopyN(&buf, r, int64(c.o.MaxIncoming)+1)
		switch {
		case errors.Is(err, io.EOF) && buf.Len() > 0:
			c.receive(buf.Bytes())
		case err == nil: // more than the limit
			if err := c.skip(buf.Bytes(), r); err != nil {
				c.fail(fmt.Errorf("%w: %v", ErrClosed, err))
				return
			}
		default:
			c.fail(fmt.Errorf("%w: %v", ErrClosed, err))
			return
		}
	}
}

func (c *Conn) receive(b []byte) {
	var m message
	if err := jsonv2.Unmarshal(mend(b), &m); err != nil {
		c.log.Warn("message from the browser not understood", "bytes", len(b), "err", err)
		return
	}
	if m.ID != 0 {
		p := c.take(m.ID)
		if p == nil {
			return // nobody waits any more
		}
		if m.Error != nil {
			text := m.Error.Message
			if m.Error.Data != "" {
				text += ": " + m.Error.Data
			}
			p.answer(nil, &Error{Method: p.method, Code: m.Error.Code, Message: text})
			return
		}
		p.answer(m.Result, nil)
		return
	}
	c.publish(m)
	if c.o.Event != nil {
		c.o.Event(c, Event{Session: m.Session, Method: m.Method, Params: m.Params})
	}
}

func (c *Conn) take(id int64) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[id]
	delete(c.pending, id)
	return p
}

// Where the id of an answer stands: Chromium writes it first, others may write
// it last.
var (
	headID = regexp.MustCompile(`^\s*\{\s*"id"\s*:\s*(\d+)`)
	tailID = regexp.MustCompile(`"id"\s*:\s*(\d+)(?:\s*,\s*"sessionId"\s*:\s*"[^"]*")?\s*\}\s*$`)
)

// skip reads past the rest of a message that is over the limit and fails the
// call that it answers.
func (c *Conn) skip(head []byte, rest io.Reader) error {
	size := int64(len(head))
	tail := make([]byte, 0, 512)
	block := make([]byte, 64<<10)
	for {
		n, err := rest.Read(block)
		size += int64(n)
		tail = append(tail, block[:n]...)
		if len(tail) > 256 {
			tail = append(tail[:0], tail[len(tail)-256:]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	at := headID.FindSubmatch(head[:min(len(head), 256)])
	if at == nil {
		at = tailID.FindSubmatch(tail)
	}
	if at != nil {
		if id, err := strconv.ParseInt(string(at[1]), 10, 64); err == nil {
			if p := c.take(id); p != nil {
				p.answer(nil, fmt.Errorf("%s: %w: the answer has %d bytes, at most %d are taken; ask for less at once",
					p.method, ErrTooLarge, size, c.o.MaxIncoming))
				return nil
			}
		}
	}
	c.log.Warn("message from the browser dropped", "bytes", size, "limit", c.o.MaxIncoming)
	return nil
}

// fail ends the connection: every pending call fails now, whatever the network
// does.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	waiting := c.pending
	c.pending = map[int64]*pending{}
	c.out = nil
	for s := range c.subs {
		close(s.events)
	}
	c.subs = map[subscription]struct{}{}
	c.mu.Unlock()

	c.end(err)
	for _, p := range waiting {
		p.answer(nil, fmt.Errorf("%s: %w", p.method, err))
	}
	c.ws.CloseNow()
}
