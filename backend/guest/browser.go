//go:build linux

package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/chromium"
	"github.com/glovebox-dev/glovebox/backend/guest/process"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// lastTime is how long a client that has been dropped has to take what is on its
// way, and then the reason.
const lastTime = 20 * time.Second

// browser is the sandbox's browser and its open connections.
type browser struct {
	*chromium.Browser
	conns sync.WaitGroup

	mu   sync.Mutex
	runs map[*process.Mark]bool
}

// marks are those of the browser's processes. A browser that nobody uses is no use
// of the sandbox.
func (b *browser) marks() []*process.Mark {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.runs))
}

func (g *Guest) newBrowser(u user, env environment, left *remains) *browser {
	path := env.get("PATH")
	b := &browser{runs: map[*process.Mark]bool{}}
	b.Browser = chromium.New(chromium.Options{
		Home: u.home, Env: env, Hostname: g.hello.Hostname, Proxy: g.cfg.Relay, Passing: g.cfg.Adopted,
		Unsandboxed: unsandboxed(g.cfg, u),
		Look: func(name string) string {
			file, _ := lookPath(name, path, "/")
			return file
		},
		Start: func(c chromium.Command) (chromium.Process, error) {
			p, err := g.table.Start(process.Spec{Path: c.Path, Argv: c.Argv, Env: c.Env, Dir: c.Dir, Files: c.Files, More: c.More})
			if err != nil {
				return nil, err
			}
			b.mu.Lock()
			b.runs[p.Mark] = true
			b.mu.Unlock()
			return &browserProcess{b, p, left}, nil
		},
		Log: g.log,
	})
	return b
}

// unsandboxed says why Chromium cannot have its own sandbox, as far as that is
// known without trying.
func unsandboxed(cfg wire.GuestConfig, u user) string {
	switch {
	case cfg.Tag == wire.TagUTS:
		return "the namespace wall lets nothing inside make namespaces of its own"
	case u.uid == 0:
		return "Chromium has none for the user root"
	}
	return ""
}

// browserProcess is the first process of a browser.
type browserProcess struct {
	b    *browser
	p    *process.Process
	left *remains
}

func (r *browserProcess) PID() int                   { return r.p.PID }
func (r *browserProcess) Done() <-chan struct{}      { return r.p.Done() }
func (r *browserProcess) Status() syscall.WaitStatus { return r.p.Status() }

func (r *browserProcess) Kill(cause string) execenv.KillReport {
	report := r.left.kill(r.p.Mark, cause)
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	delete(r.b.runs, r.p.Mark)
	return report
}

// shutdown ends the browser and waits until its clients have seen it.
func (b *browser) shutdown(ctx context.Context) {
	b.Shutdown(ctx)
	seen := make(chan struct{})
	go func() {
		b.conns.Wait()
		close(seen)
	}()
	select {
	case <-seen:
	case <-ctx.Done(): // a client that does not read is cut by our end
	case <-time.After(time.Second):
	}
}

func (g *Guest) sayBrowser(w http.ResponseWriter, _ *http.Request) { answer(w, g.browser.Status()) }

func (g *Guest) startBrowser(w http.ResponseWriter, r *http.Request) {
	if err := g.browser.Start(r.Context()); err != nil {
		fail(w, err)
		return
	}
	answer(w, g.browser.Status())
}

func (g *Guest) stopBrowser(w http.ResponseWriter, r *http.Request) {
	if err := g.browser.Stop(r.Context()); err != nil {
		fail(w, err)
		return
	}
	answer(w, g.browser.Status())
}

// openCDP makes the connection a client of the browser.
func (g *Guest) openCDP(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		fail(w, fmt.Errorf("%s is a WebSocket: %w", wire.PathCDP, execenv.ErrInvalid))
		return
	}
	client, err := g.browser.Attach(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	defer client.Close()
	g.browser.conns.Add(1)
	defer g.browser.conns.Done()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // it has been answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(wire.MaxCDP)

	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	var reading sync.WaitGroup
	reading.Go(func() { cancel(takeCommands(ctx, conn, client)) })
	err = sendEvents(ctx, conn, client)
	status, reason := g.farewell(ctx, err)
	conn.Close(status, reason)
	cancel(nil)
	reading.Wait()
}

// takeCommands hands the browser what a client sends, until that leaves.
func takeCommands(ctx context.Context, conn *websocket.Conn, client *chromium.Client) error {
	for {
		kind, text, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageText {
			return fmt.Errorf("%w: it is binary", chromium.ErrMessage)
		}
		if err := client.Send(ctx, text); errors.Is(err, io.EOF) {
			<-client.Done() // who sends the events tells of the end
			return err
		} else if err != nil {
			return err
		}
	}
}

// sendEvents sends what the browser has for a client. A client that takes nothing
// any more is cut, a moment after it was dropped.
func sendEvents(ctx context.Context, conn *websocket.Conn, client *chromium.Client) error {
	writing, cut := context.WithCancel(ctx)
	defer cut()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		select {
		case <-client.Done():
			select {
			case <-time.After(lastTime):
				cut()
			case <-writing.Done():
			}
		case <-writing.Done():
		}
	})
	defer cut()
	for {
		text, err := client.Next(ctx)
		if err != nil {
			return err
		}
		if err := conn.Write(writing, websocket.MessageText, text); err != nil {
			return err
		}
	}
}

// farewell says why a connection is over, in the 123 bytes that there are.
func (g *Guest) farewell(ctx context.Context, err error) (websocket.StatusCode, string) {
	switch {
	case errors.Is(err, chromium.ErrSlow):
		return websocket.StatusPolicyViolation, err.Error()
	case errors.Is(err, io.EOF):
		reason := "the browser has ended"
		if end := g.browser.Status().LastEnd; end != nil {
			reason = strings.TrimSuffix("the browser has ended: "+end.Cause+", "+end.Detail, ", ")
		}
		return websocket.StatusGoingAway, strings.ToValidUTF8(reason[:min(len(reason), 120)], "")
	case errors.Is(context.Cause(ctx), chromium.ErrMessage):
		reason := context.Cause(ctx).Error()
		return websocket.StatusInvalidFramePayloadData, reason[:min(len(reason), 120)]
	}
	return websocket.StatusNormalClosure, ""
}
