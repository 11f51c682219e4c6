package pane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// watched is a way to a browser on which each command is shown to see before it is
// passed on: at once, or past others when the channel that see returned is closed.
func watched(t *testing.T, see func(command []byte) (late <-chan struct{})) func(devtools.DialFunc) devtools.DialFunc {
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
			var both sync.WaitGroup
			pass := func(from, to *websocket.Conn, see func([]byte) <-chan struct{}) {
				defer end()
				for {
					kind, data, err := from.Read(ctx)
					if err != nil {
						return
					}
					if late := see(data); late != nil {
						both.Go(func() {
							select {
							case <-late:
								to.Write(ctx, kind, data) // whose end is told below
							case <-ctx.Done():
							}
						})
						continue
					}
					if to.Write(ctx, kind, data) != nil {
						return
					}
				}
			}
			both.Go(func() { pass(client, there, see) })
			both.Go(func() { pass(there, client, func([]byte) <-chan struct{} { return nil }) })
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
	p := openBy(t, form, watched(t, func(command []byte) <-chan struct{} {
		if l := lease.Load(); l != nil && bytes.Contains(command, []byte(`"Target.createTarget"`)) {
			if _, err := l.Take("ann", time.Minute); err != nil {
				t.Error(err)
			}
		}
		return nil
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
	acts := map[string]func(b browser.Backend) error{
		"guard": func(b browser.Backend) error { _, err := b.Click(t.Context(), at); return err },
		"fill":  func(b browser.Backend) error { _, err := b.Type(t.Context(), at, "of the agent", false); return err },
	}
	for _, c := range []struct {
		script  string
		goes    bool // control goes back at once
		refused error
	}{
		{"guard", false, control.ErrHeld},
		{"fill", false, control.ErrHeld},
		{"guard", true, control.ErrLook},
		{"fill", true, control.ErrLook},
	} {
		t.Run(fmt.Sprint(c.script, " goes ", c.goes), func(t *testing.T) {
			var taken, clicked sync.Once
			take := func() {}
			// The browser takes scripts and inputs by different ways: the script comes
			// between a click that was sent after it and the text.
			late, later := make(chan struct{}), make(chan struct{})
			p := openBy(t, page, watched(t, func(command []byte) (hold <-chan struct{}) {
				if bytes.Contains(command, []byte(`"value":["`+c.script+`"`)) {
					taken.Do(func() {
						take()
						hold = late
						time.AfterFunc(300*time.Millisecond, func() { clicked.Do(func() { close(late) }) })
					})
				}
				if bytes.Contains(command, []byte(`"mouseReleased"`)) {
					clicked.Do(func() { close(late) })
				}
				if bytes.Contains(command, []byte(`of the person`)) {
					time.AfterFunc(300*time.Millisecond, func() { close(later) })
					hold = later
				}
				return hold
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
				if c.goes {
					p.Lease().GiveBack("ann")
				}
			}
			err := acts[c.script](p.Agent())
			if taken, ok := errors.AsType[*browser.TakenError](err); !ok || taken.Done || !errors.Is(err, c.refused) {
				t.Errorf("the agent's act: %v, want one broken off by %v", err, c.refused)
			}
			taken.Do(func() { t.Errorf("no command of the agent is %s", c.script) })
			deadline := time.Now().Add(time.Minute)
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

// What is copied is what the keys before it have selected, however long they take to the
// page.
func TestPane_copiesWhatWasJustSelected(t *testing.T) {
	t.Parallel()
	late := make(chan struct{})
	p := openBy(t, `<input id=i value="of the field">`, watched(t, func(command []byte) <-chan struct{} {
		if !bytes.Contains(command, []byte(`"selectAll"`)) {
			return nil
		}
		time.AfterFunc(100*time.Millisecond, func() { close(late) })
		return late
	}))
	ann := join(t, p, "ann")
	ann.until("a picture", func() bool { return ann.frame != nil })
	if _, err := p.Lease().Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	eval(t, p, `() => i.focus()`, nil)
	if err := ann.v.Input(relay.Input{Kind: relay.Key, Type: "down", Frame: ann.frame.Seq, Key: "a", Code: "KeyA", KeyCode: 65, Modifiers: 2}); err != nil {
		t.Fatal(err)
	}
	if got, err := ann.v.Selection(t.Context()); err != nil || got != "of the field" {
		t.Errorf("copied: %q, %v", got, err)
	}
}

// An act that went through before a person took control is told as done: what came
// of it is not told while they have the page, and is once they gave it back.
func TestPane_takenBeforeTheLook(t *testing.T) {
	const page = `<title>before</title><button onclick="document.title = 'after'">Go</button>`
	for _, goes := range []bool{false, true} {
		t.Run(fmt.Sprint("goes ", goes), func(t *testing.T) {
			t.Parallel()
			var lease atomic.Pointer[control.Lease]
			p := openBy(t, page, watched(t, func(command []byte) <-chan struct{} {
				if l := lease.Load(); l != nil && bytes.Contains(command, []byte(`"value":["met"`)) { // it asks whether the click has hit
					if _, err := l.Take("ann", time.Minute); err != nil {
						t.Error(err)
					}
					if goes {
						l.GiveBack("ann")
					}
				}
				return nil
			}))
			lease.Store(p.Lease())
			look, err := p.Agent().Click(t.Context(), browser.At{Selector: "button"})
			if len(p.Lease().Changes(0)) == 0 {
				t.Fatal("no command of the agent asks whether its click has hit")
			}
			var title string
			if eval(t, p, `() => document.title`, &title); title != "after" {
				t.Fatalf("the page's title is %q: the click did not go through", title)
			}
			if goes {
				if err != nil || !strings.Contains(look.Text, "after") {
					t.Errorf("the click: %v\n%s", err, look.Text)
				}
				return
			}
			taken, ok := errors.AsType[*browser.TakenError](err)
			if !ok || !taken.Done || !errors.Is(err, control.ErrHeld) || !strings.Contains(taken.Told, "Clicked <button>") {
				t.Errorf("the click: %v (%+v)", err, taken)
			}
			if look.Acted.What == "" || look.Tab != (tabs.Info{}) || look.Text != "" {
				t.Errorf("it tells of the page that is the person's: %+v", look)
			}
		})
	}
}
