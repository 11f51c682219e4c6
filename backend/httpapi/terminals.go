package httpapi

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/terminal"
)

// maxTyped bounds one message of a terminal's socket: what is pasted at once.
const maxTyped = 1 << 20

func (s *Server) listTerminals(w http.ResponseWriter, r *http.Request) {
	all, err := s.o.Sessions.Terminals(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, all)
}

// openTerminal answers with the terminal: the screen shows it at once.
func (s *Server) openTerminal(w http.ResponseWriter, r *http.Request) {
	req, err := decode[execenv.TerminalRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	t, err := s.o.Sessions.OpenTerminal(r.Context(), r.PathValue("id"), req)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, t)
}

func (s *Server) closeTerminal(w http.ResponseWriter, r *http.Request) {
	s.carryOut(w, r, func(ctx context.Context, id string) error {
		return s.o.Sessions.CloseTerminal(ctx, id, r.PathValue("terminal"))
	})
}

// viewTerminal serves one view of a terminal: see TerminalSocket. What is typed
// goes to the terminal and nowhere else.
func (s *Server) viewTerminal(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil && r.URL.Query().Has("after") {
		s.fail(w, r, fmt.Errorf("%w: after is not a number", errBody))
		return
	}
	c, release, err := s.accept(w, r)
	if err != nil {
		return
	}
	defer release()
	c.SetReadLimit(maxTyped)
	ctx, cancel := s.o.Token.until(r.Context())
	defer cancel()
	t := &terminalSocket{conn: c}
	t.view, err = s.o.Sessions.ViewTerminal(ctx, r.PathValue("id"), r.PathValue("terminal"), after)
	if err != nil {
		t.sendError(ctx, err) // a page cannot read the answer to a refused upgrade
		c.Close(websocket.StatusNormalClosure, "")
		return
	}
	var helpers sync.WaitGroup
	helpers.Go(func() { defer cancel(); t.take(ctx) })
	helpers.Go(func() { defer cancel(); t.watch(ctx) })
	if err := t.serve(ctx); err != nil && ctx.Err() == nil {
		t.sendError(ctx, err)
	}
	t.view.Close()
	c.Close(websocket.StatusNormalClosure, "")
	cancel()
	helpers.Wait()
}

// terminalSocket is one view of a terminal.
type terminalSocket struct {
	conn   *websocket.Conn
	view   execenv.TerminalView
	typing atomic.Bool  // input waits for the terminal, and the connection is not read
	at     atomic.Int64 // the end of what was sent
}

// serve sends what there is to see until the terminal's end, which is no error.
func (t *terminalSocket) serve(ctx context.Context) error {
	var pace terminal.Pace
	var message []byte
	for {
		e, err := t.view.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case e.Changed != nil:
			if err := t.say(ctx, TerminalSocket{Type: "terminal", Terminal: e.Changed}); err != nil {
				return err
			}
			continue
		}
		message = append(binary.BigEndian.AppendUint64(message[:0], uint64(e.Offset)), e.Data...)
		if err := t.write(ctx, websocket.MessageBinary, message); err != nil {
			return err
		}
		t.at.Store(e.Offset + int64(len(e.Data)))
		if err := pace.Spend(ctx, len(e.Data)); err != nil {
			return err
		}
	}
}

// take hands the terminal what the client sends, in its order. While the
// terminal takes nothing, nothing more is read, so that input piles up with the
// client and not here.
func (t *terminalSocket) take(ctx context.Context) {
	for {
		kind, data, err := t.conn.Read(ctx)
		if err != nil {
			return
		}
		t.typing.Store(true)
		if kind == websocket.MessageBinary {
			err = t.view.Input(ctx, data)
		} else {
			err = t.obey(ctx, data)
		}
		t.typing.Store(false)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.sendError(ctx, err)
		}
	}
}

func (t *terminalSocket) obey(ctx context.Context, data []byte) error {
	var m TerminalSocket
	if err := json.Unmarshal(data, &m); err != nil || m.Type != "resize" {
		return errBody
	}
	if err := terminal.CheckSize(m.Cols, m.Rows); err != nil {
		return err
	}
	return t.view.Resize(ctx, m.Cols, m.Rows)
}

// watch returns when the client has gone. One whose input waits is not read, so
// only a message that says nothing tells; any other answers a ping.
func (t *terminalSocket) watch(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for asked := time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var err error
		switch {
		case t.typing.Load():
			err = t.write(ctx, websocket.MessageBinary, binary.BigEndian.AppendUint64(nil, uint64(t.at.Load())))
		case time.Since(asked) >= pingEvery:
			err = t.ping(ctx)
			if t.typing.Load() {
				err = nil // the answer may be among what is not read
			}
			asked = time.Now()
		}
		if err != nil {
			return
		}
	}
}

func (t *terminalSocket) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return t.conn.Ping(ctx)
}

func (t *terminalSocket) sendError(ctx context.Context, err error) {
	_, body := describe(err)
	_ = t.say(ctx, TerminalSocket{Type: "error", Error: &body}) // the client may have gone
}

func (t *terminalSocket) say(ctx context.Context, m TerminalSocket) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return t.write(ctx, websocket.MessageText, body)
}

func (t *terminalSocket) write(ctx context.Context, kind websocket.MessageType, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return t.conn.Write(ctx, kind, body)
}
