package chromium

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxQueue is how much may wait for a client that does not take it, in bytes.
const maxQueue = 32 << 20

// ErrSlow ends a client that leaves too much waiting.
var ErrSlow = errors.New("the client does not read what the browser sends it")

// ErrMessage refuses a message that is none.
var ErrMessage = errors.New("no CDP message")

// Client is one view of the browser. Its methods may be called from several
// goroutines at once.
type Client struct {
	m    *mux
	root string // its session to the browser as a whole
	once sync.Once
	wake chan struct{} // of capacity one: something has changed
	done chan struct{} // closed when err is set

	mu sync.Mutex

	queue [][]byte
	size  int // bytes in queue
	err   error
}

func newClient(m *mux, root string) *Client {
	return &Client{m: m, root: root, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Send hands the browser a command. A message that is no command is ErrMessage;
// one for a session that is not this client's gets an answer that says so. The
// browser that has ended is io.EOF.
func (c *Client) Send(ctx context.Context, text []byte) error {
	msg, err := parse(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return fmt.Errorf("%w: a NUL byte in it", ErrMessage)
	}
	if _, ok := msg.number(); !ok {
		return fmt.Errorf("%w: an id that is not a whole number", ErrMessage)
	}
	session := msg.session
	if session == "" {
		session = c.root
	}
	select {
	case <-c.m.ended:
		return io.EOF
	default:
	}
	switch {
	case !c.m.owns(c, session, msg.method):
		c.push(message{rest: [][]byte{[]byte(`"error":{"code":-32001,"message":"Session with given id not found."}`)}}.with(msg.id, msg.session))
		return nil
	case msg.method == "Browser.close":
		// Not the browser alone: what it leaves behind is to end as well.
		c.push(message{rest: [][]byte{[]byte(`"result":{}`)}}.with(msg.id, msg.session))
		c.m.asked()
		return nil
	}
	id, err := c.m.expect(pending{client: c, id: msg.id, session: msg.session})
	if err != nil {
		return err
	}
	if err := c.m.send(ctx, msg.with(id, session)); err != nil {
		c.m.unexpect(id)
		return err
	}
	return nil
}

// Next returns the next message for the client, and waits for it. The error is
// ErrSlow when the client was dropped, io.EOF when the browser has ended or the
// client was closed.
func (c *Client) Next(ctx context.Context) ([]byte, error) {
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			text := c.queue[0]
			c.queue[0] = nil
			c.queue = c.queue[1:]
			c.size -= len(text)
			c.mu.Unlock()
			return text, nil
		}
		err := c.err
		c.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-c.wake:
		case <-c.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Done is closed when the client has ended, with what was sent to it before still
// to be had.
func (c *Client) Done() <-chan struct{} { return c.done }

// push queues a message, and drops the client when too much waits already. It
// never waits. One message is taken whatever its size.
func (c *Client) push(text []byte) {
	c.mu.Lock()
	slow := c.size > 0 && c.size+len(text) > maxQueue
	if c.err == nil && !slow {
		c.queue = append(c.queue, text)
		c.size += len(text)
	}
	c.mu.Unlock()
	if slow {
		c.fail(ErrSlow, false)
		c.m.drop(c)
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// fail ends the client. What waits for it is kept or not.
func (c *Client) fail(err error, keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if !keep {
		c.queue, c.size = nil, 0
	}
	close(c.done)
}

// Close ends the client's sessions, and returns when the browser knows.
func (c *Client) Close() {
	c.once.Do(func() {
		c.fail(io.EOF, false)
		c.m.detach(c)
	})
}
