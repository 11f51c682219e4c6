package pane_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
)

// watched is a way to a browser on which each command is shown to see before it is
// passed on.
func watched(t *testing.T, see func(command []byte)) func(devtools.DialFunc) devtools.DialFunc {
	return func(dial devtools.DialFunc) devtools.DialFunc {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			client, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer client.CloseNow()
			client.SetReadLimit(-1)
			there, err := dial(r.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer there.CloseNow()
			there.SetReadLimit(-1)
			ctx, end := context.WithCancel(r.Context())
			defer end()
			pass := func(from, to *websocket.Conn, see func([]byte)) {
				defer end()
				for {
					kind, data, err := from.Read(ctx)
					if err != nil {
						return
					}
					see(data)
					if to.Write(ctx, kind, data) != nil {
						return
					}
				}
			}
			var both sync.WaitGroup
			both.Go(func() { pass(client, there, see) })
			both.Go(func() { pass(there, client, func([]byte) {}) })
			both.Wait()
		}))
		t.Cleanup(srv.Close)
		return func(ctx context.Context) (*websocket.Conn, error) {
			c, _, err := websocket.Dial(ctx, srv.URL, nil)
			return c, err
		}
	}
}

// A person who takes control while the agent opens a tab keeps the one that they see.
func TestPane_takenWhileATabOpens(t *testing.T) {
	t.Parallel()
	var lease atomic.Pointer[control.Lease]
	p := openBy(t, form, watched(t, func(command []byte) {
		if l := lease.Load(); l != nil && bytes.Contains(command, []byte(`"Target.createTarget"`)) {
			if _, err := l.Take("ann", time.Minute); err != nil {
				t.Error(err)
			}
		}
	}))
	lease.Store(p.Lease())
	shown := p.Tabs().Current()
	if _, err := p.Agent().Do(t.Context(), browser.Action{Kind: browser.Tabs, Op: "new"}); !errors.Is(err, control.ErrHeld) {
		t.Errorf("the agent's new tab: %v", err)
	}
	if !p.Lease().State().Held() {
		t.Fatal("no command of the agent opens a tab")
	}
	if p.Tabs().Current() != shown {
		t.Error("the agent's tab took the place of the person's")
	}
	if _, err := p.Agent().Do(t.Context(), browser.Action{Kind: browser.Tabs, Op: "close"}); !errors.Is(err, control.ErrHeld) || p.Tabs().Current() != shown {
		t.Errorf("the agent closes a tab: %v", err)
	}
}

// A person who takes control in the middle of an act of the agent has a page that
// nothing of that act changes any more: no trap for a click that swallows theirs,
// no script that gives another field the keyboard.
func TestPane_takenMidway(t *testing.T) {
	const page = `<body style="margin:0">
		<input id=agent style="position:absolute;left:0;top:0;width:200px;height:40px">
		<input id=person style="position:absolute;left:400px;top:0;width:200px;height:40px">`
	at := browser.At{Selector: "#agent"}
	for script, act := range map[string]func(b browser.Backend) error{
		"guard": func(b browser.Backend) error { _, err := b.Click(t.Context(), at); return err },
		"fill":  func(b browser.Backend) error { _, err := b.Type(t.Context(), at, "of the agent", false); return err },
	} {
		t.Run(script, func(t *testing.T) {
			var taken sync.Once
			take := func() {}
			p := openBy(t, page, watched(t, func(command []byte) {
				if bytes.Contains(command, []byte(`"value":["`+script+`"`)) {
					taken.Do(func() { take() })
				}
			}))
			ann := join(t, p, "ann")
			ann.until("a picture", func() bool { return ann.frame != nil })
			take = func() {
				if _, err := p.Lease().Take("ann", time.Minute); err != nil {
					t.Error(err)
				}
				ann.click(500, 20)
				if err := ann.v.Input(relay.Input{Kind: relay.Text, Text: "of the person", Frame: ann.frame.Seq}); err != nil {
					t.Error(err)
				}
			}
			if err := act(p.Agent()); !errors.Is(err, control.ErrHeld) {
				t.Errorf("the agent's act: %v", err)
			}
			taken.Do(func() { t.Errorf("no command of the agent is %s", script) })
			deadline := time.Now().Add(10 * time.Second)
			var got [2]string
			for got[1] == "" && time.Now().Before(deadline) {
				eval(t, p, `() => [document.querySelector("#agent").value, document.querySelector("#person").value]`, &got)
			}
			if got != [2]string{"", "of the person"} {
				t.Errorf("the fields hold %q", got)
			}
		})
	}
}
