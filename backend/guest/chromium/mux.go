package chromium

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// detachTime is how long the end of a client waits for the browser to know.
const detachTime = 5 * time.Second

// mux shares one debugging pipe among clients. Each has a session of its own to
// the browser as a whole, and those that it attached from there; what arrives is
// handed out by its session, or, an answer, by an id that is given anew to every
// command.
type mux struct {
	in   io.ReadCloser  // what the browser says
	pipe io.WriteCloser // what it is told

	out   chan []byte   // to the writer, whole messages
	ended chan struct{} // closed when the pipe has ended
	once  sync.Once
	left  chan struct{} // of capacity one: a client has left
	limit int           // bytes of one answer or event
	asked func()        // a client wants the browser to close; must not block
	work  sync.WaitGroup

	mu sync.Mutex

	lastID   int64
	pending  map[int64]pending
	sessions map[string]*view
	clients  map[*Client]struct{}
}

// view is one session of a client.
type view struct {
	client *Client
	target string // "" for the browser as a whole
	told   bool   // it is told of dialogs
}

// pending is a command that waits for its answer: a client's, or the mux's own.
type pending struct {
	client  *Client
	id      []byte          // as the client gave it
	session string          // of the client's; "" for its root
	done    func(m message) // of the mux's own; called by the reader, must not block
}

func newMux(in io.ReadCloser, pipe io.WriteCloser, limit int, asked func()) *mux {
	m := &mux{
		in: in, pipe: pipe, limit: limit, asked: asked,
		out: make(chan []byte), ended: make(chan struct{}), left: make(chan struct{}, 1),
		pending: map[int64]pending{}, sessions: map[string]*view{}, clients: map[*Client]struct{}{},
	}
	m.work.Go(m.read)
	m.work.Go(m.write)
	return m
}

// end notes that the pipe is over. The clients are told by close.
func (m *mux) end() {
	m.once.Do(func() {
		close(m.ended)
		m.in.Close()
		m.pipe.Close()
	})
}

// close ends the pipe and every client, and waits for all that runs for it.
func (m *mux) close() {
	m.end()
	m.work.Wait()
	m.mu.Lock()
	clients := m.clients
	m.clients, m.pending, m.sessions = nil, nil, nil
	m.mu.Unlock()
	for c := range clients {
		c.fail(io.EOF, true)
	}
}

func (m *mux) read() {
	defer m.end()
	for r := newPipeReader(m.in, m.limit); ; {
		text, whole, err := r.next()
		if err != nil {
			return
		}
		if !whole {
			m.tooLarge(text)
			continue
		}
		if msg, err := parse(text); err == nil {
			m.route(msg, text)
		}
	}
}

func (m *mux) write() {
	defer m.end()
	for {
		select {
		case text := <-m.out:
			if _, err := m.pipe.Write(append(text, 0)); err != nil {
				return
			}
		case <-m.ended:
			return
		}
	}
}

// route hands one message of the browser to the one it is for.
func (m *mux) route(msg message, text []byte) {
	if msg.id != nil {
		m.answer(msg)
		return
	}
	m.mu.Lock()
	v := m.sessions[msg.session]
	if v != nil && msg.method == "Target.attachedToTarget" {
		if session, target := attachedIn(msg.params); session != "" {
			m.sessions[session] = &view{client: v.client, target: target}
		}
	}
	m.mu.Unlock()
	if v == nil {
		return
	}
	c := v.client
	if msg.session == c.root {
		text = msg.with(nil, "")
	}
	c.push(text)
	if msg.method == "Target.detachedFromTarget" {
		m.forget(sessionIn(msg.params))
	}
}

func sessionIn(params []byte) string {
	session, _ := attachedIn(params)
	return session
}

func attachedIn(params []byte) (session, target string) {
	var p struct {
		SessionID string `json:"sessionId"`
		Target    struct {
			ID string `json:"targetId"`
		} `json:"targetInfo"`
	}
	_ = json.Unmarshal(params, &p) // what is not there is no session
	return p.SessionID, p.Target.ID
}

func (m *mux) answer(msg message) {
	n, ok := msg.number()
	if !ok {
		return
	}
	m.mu.Lock()
	p, ok := m.pending[n]
	delete(m.pending, n)
	m.mu.Unlock()
	switch {
	case !ok: // its client has left
	case p.done != nil:
		p.done(msg)
	default:
		p.client.push(msg.with(p.id, p.session))
	}
}

// tooLarge answers the command whose answer was over the limit, of which head is
// the beginning: the browser puts the id first.
func (m *mux) tooLarge(head []byte) {
	var id int64
	if _, err := fmt.Sscanf(string(head), `{"id":%d`, &id); err != nil {
		return // an event: as good as dropped
	}
	m.answer(message{
		id:   strconv.AppendInt(nil, id, 10),
		rest: [][]byte{fmt.Appendf(nil, `"error":{"code":-32000,"message":"the answer is over %d MB, ask for less"}`, m.limit>>20)},
	})
}

// forget lets go of a session that is over, and of what waits for it.
func (m *mux) forget(session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.sessions[session]
	if v == nil || session == v.client.root {
		return
	}
	delete(m.sessions, session)
	for n, p := range m.pending {
		if p.client == v.client && p.session == session {
			delete(m.pending, n)
		}
	}
}

// send puts a message on the pipe. It waits while the browser takes nothing.
func (m *mux) send(ctx context.Context, text []byte) error {
	select {
	case m.out <- text:
		return nil
	case <-m.ended:
		return io.EOF
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// expect gives a command an id, under which its answer goes to p.
func (m *mux) expect(p pending) (id []byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending == nil {
		return nil, io.EOF
	}
	m.lastID++
	m.pending[m.lastID] = p
	return strconv.AppendInt(nil, m.lastID, 10), nil
}

// unexpect takes expect back for a command that was not sent, or not waited for.
// It reports whether that was in time: else its answer is being handed over.
func (m *mux) unexpect(id []byte) bool {
	n, _ := strconv.ParseInt(string(id), 10, 64)
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.pending[n]
	delete(m.pending, n)
	return ok
}

// command sends one command of the mux's own, to the browser as a whole, and
// returns when got has had its result. got is called by the reader.
func (m *mux) command(ctx context.Context, method, params string, got func(result json.RawMessage)) error {
	done := make(chan error, 1)
	id, err := m.expect(pending{done: func(msg message) {
		result, err := resultOf(msg)
		if err == nil && got != nil {
			got(result)
		}
		done <- err
	}})
	if err != nil {
		return err
	}
	if err := m.send(ctx, fmt.Appendf(nil, `{"id":%s,"method":%q,"params":%s}`, id, method, params)); err != nil {
		m.unexpect(id)
		return err
	}
	select {
	case err := <-done:
		return err
	case <-m.ended:
		err = io.EOF
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if m.unexpect(id) {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-m.ended: // which let go of all that was expected
		return io.EOF
	}
}

// resultOf returns what an answer holds.
func resultOf(m message) (json.RawMessage, error) {
	var a struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.with(nil, ""), &a); err != nil {
		return nil, fmt.Errorf("read an answer of the browser: %w", err)
	}
	if a.Error != nil {
		return nil, errors.New(a.Error.Message)
	}
	return a.Result, nil
}

// attach opens a client.
func (m *mux) attach(ctx context.Context) (*Client, error) {
	var c *Client
	err := m.command(ctx, "Target.attachToBrowserTarget", "{}", func(result json.RawMessage) {
		// Here, so that no event of the session is read before it is known.
		m.mu.Lock()
		defer m.mu.Unlock()
		if root := sessionIn(result); root != "" && m.sessions != nil {
			c = newClient(m, root)
			m.sessions[root] = &view{client: c}
			m.clients[c] = struct{}{}
		}
	})
	if err == nil && c == nil {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// detach closes a client's sessions.
func (m *mux) detach(c *Client) {
	m.mu.Lock()
	delete(m.clients, c)
	for session, v := range m.sessions {
		if v.client == c {
			delete(m.sessions, session)
		}
	}
	for n, p := range m.pending {
		if p.client == c {
			delete(m.pending, n)
		}
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), detachTime)
	defer cancel()
	// Those that it attached from there end with it.
	_ = m.command(ctx, "Target.detachFromTarget", fmt.Sprintf(`{"sessionId":%q}`, c.root), nil)
	select {
	case m.left <- struct{}{}:
	default:
	}
}

// owns says whether a session is a client's. A method that makes the browser tell
// it of dialogs is noted.
func (m *mux) owns(c *Client, session, method string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.sessions[session]
	if v == nil || v.client != c {
		return false
	}
	switch method {
	case "Page.enable":
		v.told = true
	case "Page.disable":
		v.told = false
	}
	return true
}

// watchers are the clients other than c that are told of the dialogs of what the
// session is attached to.
func (m *mux) watchers(c *Client, session string) (all []*Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.sessions[session]
	if own == nil {
		return nil // it has closed
	}
	for _, v := range m.sessions {
		if v.client != c && v.told && v.target == own.target {
			all = append(all, v.client)
		}
	}
	return all
}

// has says whether a client is still there.
func (m *mux) has(c *Client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.clients[c]
	return ok
}

// drop takes a client out of the count that has been ended.
func (m *mux) drop(c *Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clients, c)
}

// count returns how many clients there are.
func (m *mux) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.clients)
}
