package bench

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
)

// The picture that is looked at, by viewers and by the bare client alike.
const (
	viewWidth, viewHeight = 1280, 900
	viewQuality           = 60
)

// viewer looks at a session's browser by the socket that screens have. What comes
// is read by a goroutine of its own, as a screen does, and acknowledged when next
// takes it.
type viewer struct {
	conn *websocket.Conn
	life context.CancelFunc
	gone chan struct{} // closed when nothing is read any more

	messages chan message // 4: two frames that may be on their way, and what is said beside them

	seq   uint64 // of the newest frame
	bytes int64  // that came
	asks  int
	ended string
}

// message is one that came, and when.
type message struct {
	kind websocket.MessageType
	data []byte
	at   time.Time
	err  error
}

func openViewer(ctx context.Context, api API, session, id string) (*viewer, error) {
	path := fmt.Sprintf("/sessions/%s/browser/socket?viewer=%s&width=%d&height=%d&dpr=1&quality=%d", session, id, viewWidth, viewHeight, viewQuality)
	conn, err := api.Socket(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open a view of the browser: %w", err)
	}
	conn.SetReadLimit(32 << 20)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	v := &viewer{conn: conn, life: end, gone: make(chan struct{}), messages: make(chan message, 4)}
	go v.read(life)
	return v, nil
}

func (v *viewer) read(ctx context.Context) {
	defer close(v.gone)
	for {
		kind, data, err := v.conn.Read(ctx)
		select {
		case v.messages <- message{kind, data, time.Now(), err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// close ends the view; it may be called more than once.
func (v *viewer) close() {
	if v == nil {
		return
	}
	v.life()
	v.conn.CloseNow()
	<-v.gone
}

// next waits for a frame, says that it is on the screen, and returns how old it
// was when it came.
func (v *viewer) next(ctx context.Context) (time.Duration, error) {
	for {
		age, m, err := v.take(ctx)
		if err != nil {
			return 0, err
		}
		if m == nil {
			return age, nil
		}
		if m.Error != nil {
			return 0, errors.New(m.Error.Message)
		}
	}
}

// ask asks for something and waits until it is done. Frames that come meanwhile
// are passed over.
func (v *viewer) ask(ctx context.Context, m httpapi.BrowserSocket) error {
	v.asks++
	m.ID = fmt.Sprint(v.asks)
	if err := v.say(ctx, m); err != nil {
		return err
	}
	for {
		_, got, err := v.take(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", m.Type, err)
		case got == nil || got.ID != m.ID:
		case got.Error != nil:
			return fmt.Errorf("%s: %s", m.Type, got.Error.Message)
		default:
			return nil
		}
	}
}

// press sends a button of the mouse down or up, in the middle of the picture.
func (v *viewer) press(ctx context.Context, how string) error {
	in := relay.Input{
		Kind: relay.Mouse, Type: how, Frame: v.seq, Width: viewWidth, Height: viewHeight, X: viewWidth / 2, Y: viewHeight / 2,
		Button: "left", Clicks: 1,
	}
	if how == "down" {
		in.Buttons = 1
	}
	return v.say(ctx, httpapi.BrowserSocket{Type: "input", Input: &in})
}

// untilEnd waits until the view is told that it has ended.
func (v *viewer) untilEnd(ctx context.Context) error {
	for v.ended == "" {
		if _, _, err := v.take(ctx); err != nil {
			return fmt.Errorf("wait for the end of the view: %w", err)
		}
	}
	return nil
}

// take takes one message: a frame, of which it returns the age, or what was said.
func (v *viewer) take(ctx context.Context) (age time.Duration, said *httpapi.BrowserSocket, err error) {
	var m message
	select {
	case m = <-v.messages:
	case <-ctx.Done():
		return 0, nil, context.Cause(ctx)
	}
	if m.err != nil {
		v.messages <- m // for whoever asks next: nothing else comes
		return 0, nil, fmt.Errorf("read a view of the browser: %w", m.err)
	}
	v.bytes += int64(len(m.data))
	if m.kind == websocket.MessageText {
		said = &httpapi.BrowserSocket{}
		if err := json.Unmarshal(m.data, said); err != nil {
			return 0, nil, fmt.Errorf("read a view of the browser: %w", err)
		}
		if said.State != nil && said.State.Ended != "" {
			v.ended = said.State.Ended
		}
		return 0, said, nil
	}
	var head relay.Frame
	if len(m.data) < 4 || len(m.data)-4 < int(binary.BigEndian.Uint32(m.data)) {
		return 0, nil, errors.New("read a view of the browser: a frame is too short")
	}
	if err := json.Unmarshal(m.data[4:4+binary.BigEndian.Uint32(m.data)], &head); err != nil {
		return 0, nil, fmt.Errorf("read a view of the browser: %w", err)
	}
	v.seq = head.Seq
	_ = v.say(ctx, httpapi.BrowserSocket{Type: "got", Seq: head.Seq}) // that the view has ended is what is read next
	return m.at.Sub(head.Shown), nil, nil
}

func (v *viewer) say(ctx context.Context, m httpapi.BrowserSocket) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return v.conn.Write(context.WithoutCancel(ctx), websocket.MessageText, body) // a write that is given up ends the socket
}

// crowd are viewers that take a frame every two seconds.
type crowd struct {
	viewers []*viewer
	end     context.CancelFunc
	work    sync.WaitGroup

	mu   sync.Mutex
	gone int
}

const slowPace = 2 * time.Second

func openCrowd(ctx context.Context, api API, session string, n int) (*crowd, error) {
	life, end := context.WithCancel(ctx)
	c := &crowd{end: end}
	for i := range n {
		v, err := openViewer(ctx, api, session, fmt.Sprintf("slow-%d", i))
		if err != nil {
			_, _ = c.close() // the first fault is the one to tell
			return nil, err
		}
		c.viewers = append(c.viewers, v)
		c.work.Go(func() {
			for {
				_, err := v.next(life)
				if life.Err() != nil {
					return
				}
				if err != nil {
					c.mu.Lock()
					c.gone++
					c.mu.Unlock()
					return
				}
				if pause(life, slowPace) != nil {
					return
				}
			}
		})
	}
	return c, nil
}

// close ends the views and tells how many had lasted.
func (c *crowd) close() (left int, err error) {
	c.end()
	c.work.Wait()
	for _, v := range c.viewers {
		v.close()
	}
	return len(c.viewers) - c.gone, nil
}
