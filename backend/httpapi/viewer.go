package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/session"
)

// The bounds of a viewer's socket.
const (
	maxViewed    = 2 << 20 // of one message from a viewer: relay.MaxText, in JSON
	frameWindow  = 2       // pictures on their way: one is drawn while the next one comes
	maxCommands  = 4       // of one viewer that are carried out at once
	commandLimit = 60 * time.Second
	faultEvery   = time.Second // between two equal errors of inputs, which come a hundred in a second
)

// viewerSocket is one view of a browser.
type viewerSocket struct {
	log      *slog.Logger
	conn     *websocket.Conn
	view     *session.BrowserView
	commands chan struct{}  // a token for each that is being carried out
	work     sync.WaitGroup // of those

	mu    sync.Mutex
	sent  []uint64 // seqs of the pictures that are on their way, oldest first
	roomy func()   // ends the wait for room among them; nil before the first

	fault   string // of the last input that was refused; take alone uses it
	faultAt time.Time
}

// serveBrowser serves one view of a browser on c until either ends.
func serveBrowser(ctx context.Context, log *slog.Logger, c *websocket.Conn, open func(context.Context) (*session.BrowserView, error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.SetReadLimit(maxViewed)
	v := &viewerSocket{log: log, conn: c, commands: make(chan struct{}, maxCommands)}
	var err error
	if v.view, err = open(ctx); err != nil {
		v.sendError(ctx, "", err) // a page cannot read the answer to a refused upgrade
		c.Close(websocket.StatusNormalClosure, "")
		return
	}
	defer v.view.Close()
	var helpers sync.WaitGroup
	helpers.Go(func() { defer cancel(); v.take(ctx) })
	helpers.Go(func() { defer cancel(); v.watch(ctx) })
	err = v.serve(ctx)
	switch {
	case errors.Is(err, relay.ErrEnded):
		c.Close(websocket.StatusNormalClosure, "")
	case errors.Is(err, relay.ErrLeft):
		c.Close(websocket.StatusTryAgainLater, "the view has ended, since it was not read or has nothing to show any more")
	default:
		c.Close(websocket.StatusGoingAway, "")
	}
	cancel()
	helpers.Wait()
	v.work.Wait()
}

// serve sends what there is to see until the view ends.
func (v *viewerSocket) serve(ctx context.Context) error {
	var message []byte
	for {
		m, err := v.next(ctx)
		if err != nil {
			return err
		}
		if m.State != nil {
			err = v.say(ctx, BrowserSocket{Type: "state", State: m.State})
		} else {
			if message, err = m.Frame.AppendBinary(message[:0]); err != nil {
				return err
			}
			v.sending(m.Frame.Seq)
			err = v.write(ctx, websocket.MessageBinary, message)
		}
		if err != nil {
			return err
		}
	}
}

// next waits for something to send: a picture only while fewer than the window
// holds are on their way. A viewer that says nothing of those it was sent is one
// that does not read, and is dropped by the relay.
func (v *viewerSocket) next(ctx context.Context) (relay.Message, error) {
	for {
		room, cancel := context.WithCancel(ctx)
		v.mu.Lock()
		full := len(v.sent) >= frameWindow
		v.roomy = cancel
		v.mu.Unlock()
		if !full {
			cancel()
			return v.view.Next(ctx)
		}
		s, err := v.view.NextState(room)
		cancel()
		switch {
		case err == nil:
			return relay.Message{State: &s}, nil
		case !errors.Is(err, context.Canceled) || ctx.Err() != nil:
			return relay.Message{}, err
		}
	}
}

func (v *viewerSocket) sending(seq uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sent = append(v.sent, seq)
}

// shown notes that a picture, and with it all before it, is on the screen.
func (v *viewerSocket) shown(seq uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for n < len(v.sent) && v.sent[n] <= seq {
		n++
	}
	if n == 0 {
		return
	}
	v.sent = append(v.sent[:0], v.sent[n:]...)
	if v.roomy != nil {
		v.roomy()
	}
}

// take does what the viewer asks for, in its order; what takes time goes on
// beside it. Nothing of it is logged: it may be a person's secret.
func (v *viewerSocket) take(ctx context.Context) {
	for {
		kind, data, err := v.conn.Read(ctx)
		if err != nil {
			return
		}
		var m BrowserSocket
		if kind != websocket.MessageText || json.Unmarshal(data, &m) != nil {
			v.sendError(ctx, "", errBody)
			continue
		}
		switch m.Type {
		case "got":
			v.shown(m.Seq)
		case "ping":
			now := time.Now().UTC()
			_ = v.say(ctx, BrowserSocket{Type: "pong", T: m.T, Server: &now}) // the viewer may have gone
		case "input":
			v.input(ctx, m)
		case "command", "copy":
			v.carryOut(ctx, m)
		default:
			v.answer(ctx, m.ID, v.obey(m))
		}
	}
}

// obey does what is done at once.
func (v *viewerSocket) obey(m BrowserSocket) error {
	lease, viewer := v.view.Pane.Lease(), v.view.ID()
	hold := time.Duration(m.Seconds) * time.Second
	var err error
	switch m.Type {
	case "view":
		if err = checkView(m.Width, m.Height, m.DPR); err == nil {
			v.view.Resize(m.Width, m.Height, m.DPR)
		}
	case "take":
		_, err = lease.Take(viewer, hold)
	case "extend":
		_, err = lease.Extend(viewer, hold)
	case "give_back":
		lease.GiveBack(viewer)
	default:
		err = fmt.Errorf("%w: unknown type %q", errBody, clip(m.Type, 40))
	}
	return err
}

// input hands an input to the page. Of those that are refused one after the other
// the viewer is told once in a while.
func (v *viewerSocket) input(ctx context.Context, m BrowserSocket) {
	err := errBody
	if m.Input != nil {
		err = v.view.Input(*m.Input)
	}
	if err == nil {
		return
	}
	if text := err.Error(); text != v.fault || time.Since(v.faultAt) > faultEvery {
		v.fault, v.faultAt = text, time.Now()
		v.sendError(ctx, m.ID, err)
	}
}

// carryOut does what waits for the browser.
func (v *viewerSocket) carryOut(ctx context.Context, m BrowserSocket) {
	if m.Type == "command" && m.Command == nil {
		v.sendError(ctx, m.ID, errBody)
		return
	}
	select {
	case v.commands <- struct{}{}:
	default:
		v.sendError(ctx, m.ID, fmt.Errorf("%w: wait for what the browser does now", execenv.ErrBusy))
		return
	}
	v.work.Go(func() {
		defer func() { <-v.commands }()
		limit, cancel := context.WithTimeout(ctx, commandLimit)
		defer cancel()
		if m.Type == "command" {
			v.answer(ctx, m.ID, v.view.Do(limit, *m.Command))
			return
		}
		text, err := v.view.Selection(limit)
		if err != nil {
			v.sendError(ctx, m.ID, err)
			return
		}
		_ = v.say(ctx, BrowserSocket{Type: "clipboard", ID: m.ID, Text: text}) // the viewer may have gone
	})
}

// answer tells a viewer what came of what it asked for under an id.
func (v *viewerSocket) answer(ctx context.Context, id string, err error) {
	switch {
	case err != nil:
		v.sendError(ctx, id, err)
	case id != "":
		_ = v.say(ctx, BrowserSocket{Type: "done", ID: id}) // the viewer may have gone
	}
}

// watch returns when the viewer has gone, or was dropped because it does not read:
// then a picture that is being sent to it is given up.
func (v *viewerSocket) watch(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			limit, cancel := context.WithTimeout(ctx, sendTime)
			err := v.conn.Ping(limit)
			cancel()
			if err != nil {
				return
			}
		case <-v.view.Done():
			// Whoever waits for something to send has the error, and a moment to say so.
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

func (v *viewerSocket) sendError(ctx context.Context, id string, err error) {
	if ctx.Err() != nil {
		return
	}
	status, body := describe(err)
	if status == http.StatusInternalServerError {
		v.log.ErrorContext(ctx, "view of a browser", "err", err)
	}
	_ = v.say(ctx, BrowserSocket{Type: "error", ID: id, Error: &body}) // the viewer may have gone
}

func (v *viewerSocket) say(ctx context.Context, m BrowserSocket) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return v.write(ctx, websocket.MessageText, body)
}

func (v *viewerSocket) write(ctx context.Context, kind websocket.MessageType, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return v.conn.Write(ctx, kind, body)
}
