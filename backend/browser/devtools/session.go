package devtools

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
)

// Session is one attached target of a connection.
type Session struct {
	conn *Conn
	id   string
	gate Gate
}

// A Gate decides whether a command may be sent: it runs send, which only
// enqueues, now or a moment later, or returns why not.
type Gate func(send func()) error

// Pass has send pass the gate; the nil Gate lets everything through.
func (g Gate) Pass(send func()) error {
	if g == nil {
		send()
		return nil
	}
	return g(send)
}

// Gated is the same session for somebody whose commands pass a gate. Those that
// it refuses are not sent, and fail with its error.
func (s *Session) Gated(g Gate) *Session { return &Session{conn: s.conn, id: s.id, gate: g} }

// ID is the browser's name for the session.
func (s *Session) ID() string { return s.id }

// Conn is the connection that the session is on.
func (s *Session) Conn() *Conn { return s.conn }

// Call runs a command and waits for its answer, the end of ctx or the end of the
// connection. The end of ctx does not take the command back.
func (s *Session) Call(ctx context.Context, method string, params, result any) error {
	return s.conn.call(ctx, s.gate, s.id, method, params, result)
}

// Post sends a command whose answer nobody needs. It never blocks, and keeps its
// place in the order of everything that is sent.
func (s *Session) Post(method string, params any) {
	s.gate.Pass(func() { s.conn.send(s.id, method, params, nil) })
}

// Go sends a command like Post and calls done once, with its answer or its fault.
// done must not block; on a connection that has ended it is called at once, by Go
// itself, with ErrClosed.
func (s *Session) Go(method string, params any, done func(result jsonv2.Value, err error)) {
	if err := s.gate.Pass(func() { s.conn.send(s.id, method, params, done) }); err != nil {
		done(nil, err)
	}
}

// Subscribe returns the events of a method on this session. A reader that falls
// 1,024 events behind finds the channel closed: it never misses some in silence.
func (s *Session) Subscribe(method string) (<-chan jsonv2.Value, func()) {
	return s.conn.subscribe(s.id, method)
}

// Post sends a typed command whose answer nobody needs.
func Post[P, R any](s interface{ Post(string, any) }, c cdp.Command[P, R], params P) {
	s.Post(c.Method, params)
}

// Decode reads the payload of an event; false when it is not of that event.
func Decode[E any](ev Event, kind cdp.Event[E]) (E, bool) {
	var e E
	if ev.Method != kind.Method {
		return e, false
	}
	if err := jsonv2.Unmarshal(ev.Params, &e); err != nil {
		return e, false
	}
	return e, true
}

type subscription struct {
	session, method string
	events          chan jsonv2.Value // 1,024: as far as a reader may fall behind
}

func (c *Conn) subscribe(session, method string) (<-chan jsonv2.Value, func()) {
	s := subscription{session, method, make(chan jsonv2.Value, 1024)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		close(s.events)
		return s.events, func() {}
	}
	c.subs[s] = struct{}{}
	return s.events, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subs, s)
	}
}

func (c *Conn) publish(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.subs {
		if s.session != m.Session || s.method != m.Method {
			continue
		}
		select {
		case s.events <- m.Params:
		default:
			close(s.events)
			delete(c.subs, s)
		}
	}
}

// mend makes a message one that a strict decoder takes: pages hold halves of
// surrogate pairs, which Chromium passes on as they are.
func mend(b []byte) []byte {
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	for i := 0; ; {
		at := bytes.IndexByte(b[i:], '\\')
		if at < 0 {
			return b
		}
		i += at
		half := surrogate(b[i:])
		switch {
		case half == 0:
			i += 2 // an escape of one character, or \uXXXX whose digits hold no backslash
		case half == 'h' && surrogate(b[min(i+6, len(b)):]) == 'l':
			i += 12
		default:
			copy(b[i:], `\ufffd`)
			i += 6
		}
		if i >= len(b) {
			return b
		}
	}
}

// surrogate tells whether b starts with the escape of a high ('h') or low ('l')
// half of a pair.
func surrogate(b []byte) byte {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return 0
	}
	switch b[3] | 0x20 {
	case '8', '9', 'a', 'b':
		return 'h'
	case 'c', 'd', 'e', 'f':
		return 'l'
	}
	return 0
}
