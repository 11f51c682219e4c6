package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/stream"
)

const (
	eventsPage = 1000
	pingEvery  = 10 * time.Second
	freshEvery = 4 * time.Second // how often ages are renewed
	sendTime   = 30 * time.Second

	// messageBytes is how much of events goes into one message, more or less.
	messageBytes = 256 << 10

	// liveRate is how many bytes of live frames a window is sent in a second.
	// More than anybody reads, and little enough that a command which prints
	// without end keeps neither the window nor this server busy: what is over it
	// is dropped, the oldest first.
	liveRate = 4 << 20
)

// accept upgrades a request that the guard has let through.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, func(), error) {
	select {
	case s.sockets <- struct{}{}:
	default:
		s.fail(w, r, errSockets)
		return nil, nil, errSockets
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{protocolName},
		InsecureSkipVerify: true, // the guard has checked Host, Origin and token
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		<-s.sockets
		return nil, nil, err
	}
	return c, func() { c.CloseNow(); <-s.sockets }, nil
}

// events serves one window: everything about all sessions, and the logs and
// live frames of those that it subscribes to.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	c, release, err := s.accept(w, r)
	if err != nil {
		return
	}
	defer release()
	c.SetReadLimit(1 << 20) // 256 long paths
	ctx, talk, end := s.during(r)
	defer end()

	wants := make(chan Frame) // unbuffered: a window that talks faster than it is served waits
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer end()
		for {
			_, data, err := c.Read(talk)
			if err != nil {
				return
			}
			var f Frame
			if err := json.Unmarshal(data, &f); err != nil {
				f = Frame{Type: "invalid"}
			}
			select {
			case wants <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	sock := &eventSocket{server: s, files: filesWatch{server: s}, conn: c, after: map[string]int64{}, sent: map[string][]byte{}, built: map[string][]byte{}}
	err = sock.serve(ctx, wants)
	if err != nil && !errors.Is(err, context.Canceled) && websocket.CloseStatus(err) == -1 {
		s.o.Log.Debug("events socket", "err", err)
	}
	status := websocket.StatusInternalError
	if errors.Is(context.Cause(ctx), errStopping) {
		status = websocket.StatusGoingAway // which says that the server does
	}
	c.Close(status, "")
	end()
	<-read
}

type eventSocket struct {
	server *Server
	conn   *websocket.Conn
	files  filesWatch
	after  map[string]int64  // by subscribed session: the last seq sent
	sent   map[string][]byte // by session: its last frame
	built  map[string][]byte // by image: the last frame of its build

	unwatch    func() // ends the watch of the containers, where there is one
	containers []byte // the last frame of them
}

func (e *eventSocket) serve(ctx context.Context, wants <-chan Frame) error {
	s := e.server
	bell, live := s.o.Hub.Subscribe(), s.o.Hub.Listen("")
	defer bell.Close()
	defer live.Close()
	defer e.files.close()
	defer func() { e.watchContainers(false) }()
	ping, fresh := time.NewTicker(pingEvery), time.NewTicker(freshEvery)
	defer ping.Stop()
	defer fresh.Stop()

	if err := e.send(ctx, Frame{Type: "hello", Version: s.o.Version, Instance: s.o.Instance}); err != nil {
		return err
	}
	sessions, err := s.sessions(ctx)
	if err != nil {
		return err
	}
	if err := e.send(ctx, Frame{Type: "sessions", Sessions: sessions}); err != nil {
		return err
	}
	for _, v := range sessions {
		e.changed(v)
	}
	if err := e.sendBuilds(ctx); err != nil {
		return err
	}
	frames := live.C()
	var resume <-chan time.Time // set while frames is nil: the last ones are to be paid for
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-wants:
			err = e.want(ctx, f)
		case <-bell.C():
			if err = e.sendSessions(ctx); err == nil {
				err = e.sendEvents(ctx)
			}
			if err == nil {
				err = e.sendBuilds(ctx)
			}
			if err == nil {
				err = e.sendContainers(ctx)
			}
		case <-frames:
			var sent int
			if sent, err = e.sendLive(ctx, live); sent > 0 {
				frames, resume = nil, time.After(time.Duration(sent)*time.Second/liveRate)
			}
		case f := <-e.files.frames:
			err = e.send(ctx, f)
		case <-resume:
			frames, resume = live.C(), nil
		case <-fresh.C:
			err = e.sendSessions(ctx)
		case now := <-ping.C:
			err = e.send(ctx, Frame{Type: "ping", At: &now})
		}
		if err != nil {
			return err
		}
	}
}

func (e *eventSocket) want(ctx context.Context, f Frame) error {
	switch f.Type {
	case "subscribe":
		v, err := e.server.o.Sessions.View(ctx, f.SessionID)
		if err != nil {
			return e.sendError(ctx, f.SessionID, err)
		}
		e.after[v.ID] = f.After
		if err := e.sendEventsOf(ctx, v.ID); err != nil {
			return err
		}
		if err := e.send(ctx, Frame{Type: "caught_up", SessionID: v.ID, Seq: e.after[v.ID]}); err != nil {
			return err
		}
		for _, l := range e.server.o.Sessions.Live(v.ID) {
			if err := e.send(ctx, Frame{Type: "live", SessionID: v.ID, Live: &l}); err != nil {
				return err
			}
		}
		return nil
	case "unsubscribe":
		delete(e.after, f.SessionID)
		return nil
	case "watch_files":
		v, err := e.server.o.Sessions.View(ctx, f.SessionID)
		if err == nil || len(f.Dirs) == 0 { // an end needs no session
			err = e.files.set(ctx, v.ID, f.Dirs)
		}
		if err != nil {
			return e.sendError(ctx, f.SessionID, err)
		}
		return nil
	}
	switch f.Type {
	case "watch_containers", "unwatch_containers":
		e.watchContainers(f.Type == "watch_containers")
		return e.sendContainers(ctx)
	}
	return e.sendError(ctx, f.SessionID, errBody)
}

// sendSessions sends every session whose frame differs from the last one sent.
func (e *eventSocket) sendSessions(ctx context.Context) error {
	sessions, err := e.server.sessions(ctx)
	if err != nil {
		return e.sendError(ctx, "", err)
	}
	for _, v := range sessions {
		if !e.changed(v) {
			continue
		}
		if err := e.send(ctx, Frame{Type: "session", SessionID: v.ID, Session: &v}); err != nil {
			return err
		}
	}
	return nil
}

func (e *eventSocket) changed(v Session) bool { return differs(e.sent, v.ID, v) }

// differs reports whether v is not what was sent last under a key, and keeps it.
func differs(last map[string][]byte, key string, v any) bool {
	body, err := json.Marshal(v)
	if err != nil || bytes.Equal(body, last[key]) {
		return false
	}
	last[key] = body
	return true
}

// sendBuilds sends every build that differs from its last frame: as it stands
// now, so that a window that missed a step has its end all the same.
func (e *eventSocket) sendBuilds(ctx context.Context) error {
	for _, b := range e.server.o.Images.Builds() {
		if !differs(e.built, b.Kind+" "+b.Image, b) {
			continue
		}
		if err := e.send(ctx, Frame{Type: "build", Build: &b}); err != nil {
			return err
		}
	}
	return nil
}

func (e *eventSocket) sendEvents(ctx context.Context) error {
	for id := range e.after {
		if err := e.sendEventsOf(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (e *eventSocket) sendEventsOf(ctx context.Context, id string) error {
	for {
		events, err := e.server.o.Sessions.Events(ctx, id, e.after[id], eventsPage)
		if err != nil {
			return e.sendError(ctx, id, err)
		}
		var frames []Frame
		size := 0
		for i := range events {
			frames = append(frames, Frame{Type: "event", SessionID: id, Seq: events[i].Seq, Event: &events[i]})
			if size += len(events[i].Body); size < messageBytes && i+1 < len(events) {
				continue
			}
			if err := e.send(ctx, frames...); err != nil {
				return err
			}
			e.after[id] = events[i].Seq
			frames, size = frames[:0], 0
		}
		if len(events) < eventsPage {
			return nil
		}
	}
}

// sendLive sends the frames that have come and returns how many bytes they hold.
func (e *eventSocket) sendLive(ctx context.Context, l *stream.Listener) (sent int, err error) {
	frames, dropped := l.Take()
	if dropped {
		for id := range e.after {
			if err := e.send(ctx, Frame{Type: "dropped", SessionID: id}); err != nil {
				return 0, err
			}
		}
	}
	frames = slices.DeleteFunc(frames, func(f stream.Live) bool {
		_, wanted := e.after[f.RootTaskID]
		return !wanted || f.Data == ""
	})
	for i := range frames {
		if err := e.send(ctx, Frame{Type: "live", SessionID: frames[i].RootTaskID, Live: &frames[i]}); err != nil {
			return sent, err
		}
		sent += len(frames[i].Data)
	}
	return sent, nil
}

func (e *eventSocket) sendError(ctx context.Context, id string, err error) error {
	_, body := describe(err)
	return e.send(ctx, Frame{Type: "error", SessionID: id, Error: &body})
}

// send sends frames in one message: a long log is many of them, and what a message
// costs a browser is most of what it takes to show one.
func (e *eventSocket) send(ctx context.Context, frames ...Frame) error {
	if ctx.Err() != nil {
		return ctx.Err() // writing under it would close the connection before its last word
	}
	var message any = frames
	if len(frames) == 1 {
		message = frames[0]
	}
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return e.conn.Write(ctx, websocket.MessageText, body)
}
