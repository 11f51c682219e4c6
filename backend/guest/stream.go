//go:build linux

package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/glovebox-dev/glovebox/backend/capture"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// frameBytes is how much output goes into one frame at most.
const frameBytes = 256 << 10

func (g *Guest) run(w http.ResponseWriter, r *http.Request) {
	var cmd execenv.Command
	if err := decode(w, r, &cmd); err != nil {
		fail(w, err)
		return
	}
	caller, _ := callerOf(r) // the fence has read it before
	c, err := g.calls.start(caller, cmd, r.URL.Query().Get("stdin") == "1")
	if err != nil {
		fail(w, err)
		return
	}
	follow(w, r, c, 0, 0)
}

func (g *Guest) followCall(w http.ResponseWriter, r *http.Request) {
	c, err := g.calls.find(r.PathValue("id"))
	if err != nil {
		fail(w, err)
		return
	}
	out, err1 := offset(r, "stdout")
	errs, err2 := offset(r, "stderr")
	if err := errors.Join(err1, err2); err != nil {
		fail(w, err)
		return
	}
	follow(w, r, c, out, errs)
}

func offset(r *http.Request, name string) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("offset %s=%q: %w", name, text, execenv.ErrInvalid)
	}
	return n, nil
}

// follow sends a call's output from two offsets on, while it runs and until its
// outcome. It ends with the connection and never touches the call.
func follow(w http.ResponseWriter, r *http.Request, c *call, stdout, stderr int64) {
	w.Header().Set("Content-Type", "application/octet-stream")
	f := &follower{w: w, flush: http.NewResponseController(w).Flush, buf: make([]byte, 16<<10)}
	out, errs := c.out.Reader(stdout), c.err.Reader(stderr)
	defer out.Close()
	defer errs.Close()
	info, _ := json.Marshal(wire.CallInfo{ID: c.id, Root: c.root, Argv: c.argv, StartedAt: c.startedAt, Running: c.running()})
	if f.frame(wire.FrameStarted, 0, info) != nil || f.flush() != nil {
		return
	}
	var pace pacer
	for {
		n1, wait1, err1 := f.piece(wire.FrameStdout, out)
		n2, wait2, err2 := f.piece(wire.FrameStderr, errs)
		if f.err != nil {
			return
		}
		if err1 == io.EOF && err2 == io.EOF {
			break
		}
		if n1+n2 > 0 {
			if n1+n2 < smallPiece && f.flush() != nil {
				return
			}
			pace.after(n1 + n2)
			continue
		}
		if f.flush() != nil {
			return
		}
		select {
		case <-wait1:
		case <-wait2:
		case <-r.Context().Done():
			return
		}
	}
	select {
	case <-c.done:
	case <-r.Context().Done():
		return
	}
	outcome, _ := json.Marshal(c.outcome)
	if f.frame(wire.FrameOutcome, 0, outcome) == nil {
		_ = f.flush()
	}
}

// follower writes the frames of one answer.
type follower struct {
	w     io.Writer
	flush func() error
	buf   []byte
	head  []byte
	err   error
}

// piece sends the next bytes of one stream, if there are any.
func (f *follower) piece(kind wire.FrameKind, r *capture.Reader) (n int, wait <-chan struct{}, err error) {
	n, at, wait, err := r.Read(f.buf)
	if n > 0 {
		f.frame(kind, at, f.buf[:n])
	}
	if n == len(f.buf) && n < frameBytes {
		f.buf = make([]byte, 4*n) // there is much to send
	}
	return n, wait, err
}

func (f *follower) frame(kind wire.FrameKind, at int64, payload []byte) error {
	if f.err != nil {
		return f.err
	}
	f.head = wire.AppendFrame(f.head[:0], wire.Frame{Kind: kind, Offset: at, Payload: nil})
	// The header's length field is its last four bytes.
	n := len(payload)
	copy(f.head[len(f.head)-4:], []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	if _, f.err = f.w.Write(f.head); f.err == nil {
		_, f.err = f.w.Write(payload)
	}
	return f.err
}

// feedCall copies the request's body to the command's input. The end of the
// body is the end of the input; a body that was cut ends the call, because a
// command must not take half of its input for the whole.
func (g *Guest) feedCall(w http.ResponseWriter, r *http.Request) {
	c, err := g.calls.find(r.PathValue("id"))
	if err != nil {
		fail(w, err)
		return
	}
	c.mu.Lock()
	in := c.stdin
	c.mu.Unlock()
	if in == nil {
		fail(w, fmt.Errorf("call %s takes no input: %w", c.id, execenv.ErrInvalid))
		return
	}
	buf := make([]byte, 64<<10)
	for {
		n, rerr := r.Body.Read(buf)
		if _, werr := in.Write(buf[:n]); werr != nil {
			break // the command has closed its input, as head does
		}
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			if c.running() {
				c.kill("its input was cut", false)
			}
			return
		}
	}
	c.closeStdin()
	answer(w, struct{}{})
}
