package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/creack/pty"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// echo is a program that answers each key with the same, as a shell does that
// edits its line.
var echo = []string{shell, "-c", "stty raw -echo; echo ready; exec cat"}

// terminal measures how long a key takes from the window to the sandbox and back.
func (b *bench) terminal(ctx context.Context) {
	b.eachWall(ctx, "terminal echo", func(wall sandbox.Wall) (err error) {
		s, err := b.session(ctx, wall)
		if err != nil {
			return err
		}
		here, err := openHere(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, here.close()) }()
		there, err := b.openThere(ctx, s)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, there.close()) }()

		var keys, floors []time.Duration
		for range b.many(20, 2) { // in turns, so that other load slows both
			if floors, err = repeat(floors, b.many(25, 5), here.key); err != nil {
				return err
			}
			if keys, err = repeat(keys, b.many(25, 5), there.key); err != nil {
				return err
			}
		}
		b.report(Row{
			What: fmt.Sprintf("terminal echo, %s", wall), Unit: "ms", Value: millis(keys),
			Floor: millis(floors), FloorIs: "a terminal of this machine",
		}, atMost(20, "ms"))
		return nil
	})
}

// keyboard is a terminal in which echo runs.
type keyboard struct {
	key   func() error // one key there and back
	close func() error
}

// openHere opens a terminal without Glovebox.
func openHere(ctx context.Context) (*keyboard, error) {
	cmd := exec.CommandContext(ctx, echo[0], echo[1:]...)
	f, err := pty.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	k := &keyboard{close: func() error {
		err := f.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		return err
	}}
	buf := make([]byte, 100)
	for seen := ""; !strings.Contains(seen, "ready\n"); {
		n, err := f.Read(buf)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read a terminal: %w", err), k.close())
		}
		seen += string(buf[:n])
	}
	k.key = func() error {
		if _, err := f.Write([]byte("x")); err != nil {
			return err
		}
		_, err := f.Read(buf)
		return err
	}
	return k, nil
}

// openThere opens a terminal in a session, and a view of it.
func (b *bench) openThere(ctx context.Context, s *session) (*keyboard, error) {
	var t execenv.Terminal
	route := "/sessions/" + s.id + "/terminals"
	if err := b.o.API.Call(ctx, "POST", route, execenv.TerminalRequest{Argv: echo}, &t); err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	var conn *websocket.Conn
	k := &keyboard{close: func() error {
		if conn != nil {
			conn.CloseNow()
		}
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		return b.o.API.Call(clean, "DELETE", route+"/"+t.ID, nil, nil)
	}}
	conn, err := b.o.API.Socket(ctx, route+"/"+t.ID+"/socket")
	if err != nil {
		return nil, errors.Join(err, k.close())
	}
	read := func() (string, error) {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			return "", fmt.Errorf("read a terminal: %w", err)
		}
		if kind == websocket.MessageBinary {
			return string(data[min(8, len(data)):]), nil
		}
		var m httpapi.TerminalSocket
		if err := json.Unmarshal(data, &m); err == nil && m.Error != nil {
			return "", errors.New(m.Error.Message)
		}
		return "", nil
	}
	for seen := ""; !strings.Contains(seen, "ready\n"); {
		text, err := read()
		if err != nil {
			return nil, errors.Join(err, k.close())
		}
		seen += text
	}
	k.key = func() error {
		if err := conn.Write(ctx, websocket.MessageBinary, []byte("x")); err != nil {
			return err
		}
		for {
			if text, err := read(); err != nil || text != "" {
				return err
			}
		}
	}
	return k, nil
}
