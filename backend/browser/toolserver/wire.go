package toolserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// A server is not trusted: its answers are bounded.
const (
	maxAnswer = 64 << 20 // bytes of one
	maxFault  = 64 << 10 // of one that is a fault
)

// graceTime is left to the library to hand over what a stream has brought before
// its end.
const graceTime = 2 * time.Second

// errSession says that the server does not know the session, and ran nothing.
var errSession = errors.New("the server has forgotten the session")

// errEnded is a stream that ended without the answer.
var errEnded = errors.New("its stream ended without an answer")

// watch is what the requests of one call met. The library tells it in words, and
// waits for an answer for as long as it may, even when none can come any more.
type watch struct {
	cancel context.CancelCauseFunc // of the call

	mu    sync.Mutex
	err   error // the first fault
	timer *time.Timer
}

// watchKey leads from a request to the watch of its call. A request that goes on
// behind a call, as the word that it was given up does, has that call's.
type watchKey struct{}

func (w *watch) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *watch) fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	return w.err
}

// ended gives the call up unless it ends by itself soon.
func (w *watch) ended() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		w.timer = time.AfterFunc(graceTime, func() { w.cancel(errEnded) })
	}
}

// watched runs a request to the server and says what its error is: one that was
// not sent, that was refused, or whose outcome nobody knows.
func (b *Browser) watched(ctx context.Context, what string, do func(ctx context.Context) error) error {
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{cancel: cancel}
	err := do(context.WithValue(call, watchKey{}, w))
	fault := w.fault()
	_, answered := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil:
		return nil
	case fault != nil:
		return fmt.Errorf("%s: %w", what, fault)
	case answered:
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer within %v, and whether it took effect is not known; look at the page again before you repeat it: %w", what, b.o.CallTime, context.Cause(ctx))
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case call.Err() != nil:
		err = context.Cause(call)
	}
	return fmt.Errorf("%s: %w (%v)", what, tabs.ErrBroken, err)
}

// wire sees the requests of a session: it bounds the answers, and notes the
// faults with their kinds.
type wire struct{ next http.RoundTripper }

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.next.RoundTrip(r)
	call, ok := r.Context().Value(watchKey{}).(*watch)
	if !ok || r.Method != http.MethodPost { // the end of a session, whose answer nobody needs
		return res, err
	}
	if err != nil {
		if r.Context().Err() == nil {
			call.note(unsent(err))
		}
		return nil, err
	}
	if res.StatusCode/100 == 2 {
		stream := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
		res.Body = &body{ReadCloser: res.Body, left: maxAnswer, call: call, stream: stream}
		return res, nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxFault))
	res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(text))
	call.note(refusal(res.StatusCode, text, r.Header.Get("Mcp-Session-Id") != ""))
	return res, nil
}

// unsent is the error of a request without an answer.
func unsent(err error) error {
	if errors.Is(err, sandbox.ErrUnauthorized) {
		return err
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return fmt.Errorf("%w: %v", execenv.ErrUnreachable, err)
	}
	return fmt.Errorf("%w (%v)", tabs.ErrBroken, err)
}

// refusal is the error of an answer with a status that is no success. A session
// that is not known is answered with 404, and by some with 400 and words; a fault
// in the protocol's own form is left to the library.
func refusal(status int, text []byte, inSession bool) error {
	words := strings.ToLower(string(text))
	switch {
	case inSession && status == http.StatusNotFound,
		inSession && status == http.StatusBadRequest && (strings.Contains(words, "session") || strings.Contains(words, "not initialized")):
		return errSession
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return fmt.Errorf("%w: the server answered %d", execenv.ErrNoBrowser, status)
	case status == http.StatusForbidden:
		return fmt.Errorf("%w: the server answered %d", execenv.ErrPermission, status)
	case status == http.StatusTooManyRequests:
		return fmt.Errorf("%w: the server answered %d", execenv.ErrBusy, status)
	case status >= http.StatusInternalServerError:
		return fmt.Errorf("%w: the server answered %d; try again when it is up", execenv.ErrUnreachable, status)
	}
	return fmt.Errorf("%w: the server answered %d: %s", execenv.ErrInvalid, status, clip(string(text[:min(len(text), 300)])))
}

// body is an answer that is bounded. The end of a stream gives the call up that
// still waits for it.
type body struct {
	io.ReadCloser
	left   int64
	call   *watch
	stream bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		err := fmt.Errorf("the server's answer is over %d bytes: %w", maxAnswer, execenv.ErrTooLarge)
		b.call.note(err)
		b.call.cancel(err)
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && b.stream {
		b.call.ended()
	}
	return n, err
}
