//go:build linux

package guest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/process"
	"github.com/glovebox-dev/glovebox/backend/terminal"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// terminals are a person's terminals. Their processes are started as those of
// calls are, with the same rights and a mark of their own, and are no call's.
type terminals struct {
	workdir    string
	user, host string // for the prompt
	env        environment
	table      *process.Table
	set        terminal.Set

	remains *remains

	views sync.WaitGroup
}

// open starts a terminal.
func (s *terminals) open(r execenv.TerminalRequest) (execenv.Terminal, error) {
	if err := terminal.Check(&r); err != nil {
		return execenv.Terminal{}, err
	}
	if r.Dir == "" {
		r.Dir = s.workdir
	}
	if !isDir(r.Dir) {
		return execenv.Terminal{}, fmt.Errorf("%s: %w", r.Dir, execenv.ErrWorkdirGone)
	}
	search := s.env.get("PATH")
	if len(r.Argv) == 0 {
		r.Argv = []string{terminal.FindShell(s.env.get("SHELL"), func(name string) string {
			file, _ := lookPath(name, search, "/")
			return file
		})}
	}
	path, denied := lookPath(r.Argv[0], search, r.Dir)
	switch {
	case path == "" && denied:
		return execenv.Terminal{}, &execenv.PathError{Path: r.Argv[0], Err: execenv.ErrPermission, Detail: "it is no program"}
	case path == "":
		return execenv.Terminal{}, &execenv.PathError{Path: r.Argv[0], Err: execenv.ErrNotFound}
	}
	env := slices.Clone(s.env)
	for _, kv := range slices.Concat(terminal.Variables(path, s.user, s.host), r.Env) {
		env.set(kv)
	}
	return s.set.Open(r, func(tty *os.File) (terminal.Process, error) {
		p, err := s.table.Start(process.Spec{
			Path: path, Argv: r.Argv, Env: env, Dir: r.Dir, Files: [3]*os.File{tty, tty, tty}, Terminal: true,
		})
		switch {
		case err == nil:
			return &terminalProcess{s, p}, nil
		case errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("start %s: no more processes: %w", r.Argv[0], execenv.ErrBusy)
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENOEXEC):
			return nil, &execenv.PathError{Path: path, Err: execenv.ErrNotFound, Detail: "it cannot be executed: " + err.Error()}
		}
		return nil, fmt.Errorf("start %s: %w", r.Argv[0], err)
	})
}

// terminalProcess is the first process of a terminal.
type terminalProcess struct {
	s *terminals
	p *process.Process
}

func (t *terminalProcess) PID() int                   { return t.p.PID }
func (t *terminalProcess) Done() <-chan struct{}      { return t.p.Done() }
func (t *terminalProcess) Status() syscall.WaitStatus { return t.p.Status() }

// Kill implements terminal.Process.
func (t *terminalProcess) Kill(cause string) execenv.KillReport {
	return t.s.remains.kill(t.p.Mark, cause)
}

// shutdown ends all terminals and waits until their views have seen it.
func (s *terminals) shutdown(ctx context.Context) {
	s.set.Shutdown(ctx)
	seen := make(chan struct{})
	go func() {
		s.views.Wait()
		close(seen)
	}()
	select {
	case <-seen:
	case <-ctx.Done(): // a view that nobody reads is cut by our end
	case <-time.After(time.Second):
	}
}

func (g *Guest) listTerminals(w http.ResponseWriter, _ *http.Request) { answer(w, g.terms.set.List()) }

func (g *Guest) openTerminal(w http.ResponseWriter, r *http.Request) {
	var req execenv.TerminalRequest
	err := decode(w, r, &req)
	var t execenv.Terminal
	if err == nil {
		t, err = g.terms.open(req)
	}
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, t)
}

func (g *Guest) closeTerminal(w http.ResponseWriter, r *http.Request) {
	if err := g.terms.set.Close(r.PathValue("id")); err != nil {
		fail(w, err)
		return
	}
	answer(w, struct{}{})
}

// alive is how often a view is told that the guest is there. It is also how a
// view that has gone is missed while its input waits and is not read.
const alive = 3 * time.Second

// viewTerminal turns the connection into a view of a terminal.
func (g *Guest) viewTerminal(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != wire.ProtocolView {
		fail(w, fmt.Errorf("a view is an upgrade to %s: %w", wire.ProtocolView, execenv.ErrInvalid))
		return
	}
	after, err := offset(r, "after")
	if err != nil {
		fail(w, err)
		return
	}
	v, err := g.terms.set.View(r.PathValue("id"), after)
	if err != nil {
		fail(w, err)
		return
	}
	defer v.Close()
	g.terms.views.Add(1)
	defer g.terms.views.Done()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.ProtocolView+"\r\n\r\n"); err != nil {
		return
	}

	ctx, cancel := context.WithCancel(r.Context())
	f := &viewFrames{w: conn}
	var helpers sync.WaitGroup
	helpers.Go(func() {
		defer cancel()
		takeInput(ctx, v, rw.Reader)
	})
	helpers.Go(func() {
		defer cancel()
		tick := time.NewTicker(alive)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if f.send(wire.FramePing, 0, nil) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	sendView(ctx, v, f)
	cancel()
	conn.Close()
	helpers.Wait()
}

// takeInput hands the terminal what a view sends, in the order it is sent, until
// the view goes. A resize that the terminal does not take is not answered.
func takeInput(ctx context.Context, v *terminal.View, r *bufio.Reader) {
	buf := make([]byte, 4<<10)
	for {
		frame, err := wire.ReadFrame(r, buf)
		if err != nil {
			return
		}
		switch frame.Kind {
		case wire.FrameInput:
			err = v.Input(ctx, frame.Payload)
		case wire.FrameResize:
			var size wire.TerminalSize
			if err = json.Unmarshal(frame.Payload, &size); err == nil {
				_ = v.Resize(ctx, size.Cols, size.Rows)
			}
		}
		if err != nil && !errors.Is(err, execenv.ErrInvalid) {
			return
		}
	}
}

// sendView sends what there is to see until the terminal's end.
func sendView(ctx context.Context, v *terminal.View, f *viewFrames) {
	var pace terminal.Pace
	for {
		e, err := v.Next(ctx)
		switch {
		case err == io.EOF:
			_ = f.send(wire.FrameEnd, 0, nil)
			return
		case err != nil:
			return
		case e.Changed != nil:
			body, _ := json.Marshal(e.Changed)
			err = f.send(wire.FrameTerminal, 0, body)
		default:
			if err = f.send(wire.FrameStdout, e.Offset, e.Data); err == nil {
				err = pace.Spend(ctx, len(e.Data))
			}
		}
		if err != nil {
			return
		}
	}
}

// viewFrames writes the frames of one view, each in one piece.
type viewFrames struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

func (f *viewFrames) send(kind wire.FrameKind, at int64, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = wire.AppendFrame(f.buf[:0], wire.Frame{Kind: kind, Offset: at, Payload: payload})
	_, err := f.w.Write(f.buf)
	return err
}
