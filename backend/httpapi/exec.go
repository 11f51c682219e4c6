package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// exec runs one command of a person over a socket: see ExecRequest. A window
// that goes away stops its command, as does the end of the server, which tells so.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	c, release, err := s.accept(w, r)
	if err != nil {
		return
	}
	defer release()
	c.SetReadLimit(1 << 20)
	ctx, talk, end := s.during(r)
	defer end()

	_, data, err := c.Read(ctx)
	if err != nil {
		return
	}
	var req ExecRequest
	if err := json.Unmarshal(data, &req); err != nil || len(req.Argv) == 0 {
		s.endExec(talk, c, nil, errBody)
		return
	}
	cmd := execenv.Command{Argv: req.Argv, Dir: req.Dir, Env: req.Env}
	read := make(chan struct{})
	stdin, feed := io.Pipe()
	defer stdin.Close()
	if req.Stdin {
		cmd.Stdin = stdin
	}
	go func() {
		defer close(read)
		if !feedExec(talk, c, feed) {
			end() // the client has gone
		}
	}()
	out, err := s.o.Sessions.Exec(ctx, r.PathValue("id"), cmd, func(chunk execenv.Chunk) {
		frame := append([]byte{byte(chunk.Stream)}, chunk.Data...)
		if c.Write(talk, websocket.MessageBinary, frame) != nil {
			end()
		}
	})
	switch stopping := errors.Is(context.Cause(ctx), errStopping); {
	case err != nil:
		s.endExec(talk, c, nil, ended(ctx, err))
	case !stopping || !out.Interrupted:
		s.endExec(talk, c, &out, nil)
	case out.Kill != nil && len(out.Kill.Left) == 0:
		s.endExec(talk, c, &out, errStopped)
	default:
		s.endExec(talk, c, &out, errStopping)
	}
	stdin.Close()
	c.Close(websocket.StatusNormalClosure, "")
	end()
	<-read
}

// feedExec copies binary messages to the command's input until an empty one
// ends it, then watches the connection. It reports whether the client closed in
// good order.
func feedExec(ctx context.Context, c *websocket.Conn, feed *io.PipeWriter) bool {
	defer feed.Close()
	for {
		_, data, err := c.Read(ctx)
		if err != nil {
			return websocket.CloseStatus(err) == websocket.StatusNormalClosure
		}
		if len(data) == 0 {
			feed.Close()
			continue
		}
		if err := handOver(ctx, c, feed, data); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			return false
		}
	}
}

// probeEvery is how soon a client that has gone is missed while its input waits.
const probeEvery = time.Second

// handOver waits until the command takes data or its input ends. The connection
// is not read meanwhile, lest input pile up here, and so does not tell that the
// client has gone: writing to it does. An empty message says nothing to a client.
func handOver(ctx context.Context, c *websocket.Conn, feed *io.PipeWriter, data []byte) error {
	taken := make(chan error, 1) // the one end
	go func() {
		_, err := feed.Write(data)
		taken <- err
	}()
	probe := time.NewTicker(probeEvery)
	defer probe.Stop()
	for {
		select {
		case err := <-taken:
			return err
		case <-probe.C:
			if err := c.Write(ctx, websocket.MessageBinary, nil); err != nil {
				feed.Close()
				<-taken
				return err
			}
		}
	}
}

func (s *Server) endExec(ctx context.Context, c *websocket.Conn, out *execenv.Outcome, err error) {
	result := ExecResult{Outcome: out}
	if err != nil {
		_, body := describe(err)
		result.Error = &body
	}
	body, err := json.Marshal(result)
	if err != nil {
		return
	}
	_ = c.Write(ctx, websocket.MessageText, body) // the client may have gone
}
