package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// TestHands has an agent and a person at one page, at random. The page writes
// down whose clicks it gets: between a person's first and last click of a hold
// there is none of the agent.
func TestHands(t *testing.T) {
	o := newRoom(t, map[string]string{"/": `<title>0</title><body style="margin:0">
		<button style="position:absolute;left:0;top:0;width:200px;height:100px" onclick="log.push('agent')">Agent</button>
		<button style="position:absolute;left:400px;top:0;width:200px;height:100px" onclick="log.push('person')">Person</button>
		<script>let log = []; addEventListener('keydown', e => log.push('key ' + e.key))</script>`})
	tab := o.visit(o.url + "/")
	agent := browser.NewAgent(browser.Options{Browser: o.tabs, Lease: o.lease})
	w := watch(t, o.relay, relay.View{ID: "ann", Width: 640, Height: 320})
	w.until("a picture", func() bool { return w.frame != nil })
	width, height := w.frame.Meta.DeviceWidth, w.frame.Meta.DeviceHeight

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var clicks, refused int
	did := make(chan struct{})
	first := sync.OnceFunc(func() { close(did) })
	wg.Go(func() {
		for ctx.Err() == nil {
			_, err := agent.Click(ctx, browser.At{Selector: "button"})
			held, isHeld := errors.AsType[*control.HeldError](err)
			switch {
			case err == nil:
				clicks++
				first()
			case isHeld:
				refused++
				first()
				if held.Viewer != "ann" {
					t.Errorf("held by %q", held.Viewer)
				}
				<-time.After(time.Millisecond) // a model takes longer to try again
			case errors.Is(err, control.ErrLook):
				agent.Screenshot(ctx, browser.Shot{JPEG: true})
			}
		}
	})
	click := func() {
		in := relay.Input{Kind: relay.Mouse, Type: "down", Frame: w.frame.Seq, Width: width, Height: height, X: 500, Y: 50, Button: "left", Buttons: 1, Clicks: 1}
		up := in
		up.Type, up.Buttons = "up", 0
		if err := errors.Join(w.v.Input(in), w.v.Input(up)); err != nil {
			t.Error(err)
		}
	}
	key := func(name string) {
		if err := w.v.Input(relay.Input{Kind: relay.Key, Type: "down", Frame: w.frame.Seq, Key: name, Code: name}); err != nil {
			t.Error(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	var slowest time.Duration
	const holds = 12
	for range holds {
		<-time.After(time.Duration(r.IntN(700)) * time.Millisecond)
		began := time.Now()
		if _, err := o.lease.Take("ann", time.Minute); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(began))
		key("Home")
		click()
		<-time.After(time.Duration(r.IntN(200)) * time.Millisecond)
		click()
		key("End")
		o.lease.GiveBack("ann")
	}
	select {
	case <-did:
	case <-time.After(time.Minute):
		t.Error("the agent did nothing")
	}
	stop()
	wg.Wait()
	// The last keys of the person may be on their way: a script goes past them.
	var log []string
	ends := func() (n int) {
		for _, e := range log {
			if e == "key End" {
				n++
			}
		}
		return n
	}
	for limit := time.Now().Add(30 * time.Second); ends() < holds && time.Now().Before(limit); <-time.After(10 * time.Millisecond) {
		var res struct {
			Result struct {
				Value string `json:"value"`
			} `json:"result"`
		}
		if err := tab.Session().Call(t.Context(), "Runtime.evaluate", map[string]any{"expression": "JSON.stringify(log)"}, &res); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(res.Result.Value), &log); err != nil {
			t.Fatal(err)
		}
	}
	held, persons := false, 0
	for _, e := range log {
		switch e {
		case "key Home":
			held = true
		case "key End":
			held = false
		case "person":
			persons++
		case "agent":
			if held {
				t.Errorf("the agent clicked while a person had control: %s", strings.Join(log, " "))
			}
		}
	}
	t.Logf("agent: %d clicks, %d refused; person: %d clicks; the slowest take took %v", clicks, refused, persons, slowest)
	if persons != 2*holds || ends() != holds {
		t.Errorf("the person's clicks: %d of %d, in %d holds of %d", persons, 2*holds, ends(), holds)
	}
}

// A button that a person holds down is let go of with control, also when nobody
// looks on any more.
func TestRelay_heldButtonIsReleased(t *testing.T) {
	o := newRoom(t, map[string]string{"/": `<title>0</title><body style="margin:0;height:600px">
		<script>for (const k of ["mousedown", "mouseup"]) addEventListener(k, e => document.title += " " + k + e.button)</script>`})
	tab := o.visit(o.url + "/")
	w := watch(t, o.relay, relay.View{ID: "ann", Width: 640, Height: 320})
	w.until("a picture", func() bool { return w.frame != nil })
	if _, err := o.lease.Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := w.v.Input(relay.Input{Kind: relay.Mouse, Type: "down", Frame: w.frame.Seq, Width: w.frame.Meta.DeviceWidth, Height: w.frame.Meta.DeviceHeight, X: 50, Y: 50, Button: "middle", Buttons: 4, Clicks: 1}); err != nil {
		t.Fatal(err)
	}
	w.until("the press", func() bool {
		return w.state != nil && len(w.state.Tabs) == 1 && w.state.Tabs[0].Title == "0 mousedown1"
	})
	w.v.Leave()
	o.lease.Leave("ann")
	limit := time.After(20 * time.Second)
	for {
		bell := o.tabs.Watch()
		if tab.Info().Title == "0 mousedown1 mouseup1" {
			return
		}
		select {
		case <-bell:
		case <-limit:
			t.Fatalf("the page has seen %q", tab.Info().Title)
		}
	}
}

// What a viewer is told first is what there is, also long after the last one left.
func TestRelay_firstState(t *testing.T) {
	b := tabs.New(tabs.Options{Dial: func(ctx context.Context) (*websocket.Conn, error) {
		<-ctx.Done() // it takes long
		return nil, ctx.Err()
	}})
	defer b.Close()
	lease := control.New()
	r := relay.New(relay.Options{Browser: b, Lease: lease})
	defer r.End("")
	for _, holder := range []string{"ann", "bob"} {
		if _, err := lease.Take(holder, time.Minute); err != nil {
			t.Fatal(err)
		}
		v := r.Join(relay.View{ID: "eve", Quiet: true})
		s, err := v.NextState(t.Context())
		if err != nil || s.Tabs == nil || s.Lost == "" || s.Control.Viewer != holder {
			t.Errorf("while %s has control a viewer is told first: %+v, %v", holder, s, err)
		}
		v.Leave()
		lease.GiveBack(holder)
	}
}

// TestRelay_deadViewer holds that a viewer who takes nothing is dropped within a
// minute, and that control does not stay with somebody who is gone.
func TestRelay_deadViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tabs.New(tabs.Options{Dial: func(context.Context) (*websocket.Conn, error) { return nil, errors.New("no browser here") }})
		defer b.Close()
		lease := control.New()
		r := relay.New(relay.Options{Browser: b, Lease: lease})
		defer r.End("")
		joined := time.Now()
		dead := r.Join(relay.View{ID: "dead"})
		live := r.Join(relay.View{ID: "live"})
		defer live.Leave()
		if _, err := lease.Take("dead", time.Hour); err != nil {
			t.Fatal(err)
		}
		m, err := live.Next(t.Context())
		for err == nil && (m.State == nil || !strings.Contains(m.State.Lost, "no browser here")) {
			m, err = live.Next(t.Context())
		}
		if err != nil {
			t.Fatalf("the browser that cannot be reached is not told: %v", err)
		}
		// The live one waits for something that does not come: it is not dead.
		waiting, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		go func() {
			for {
				if _, err := live.Next(waiting); err != nil {
					return
				}
			}
		}()
		select {
		case <-dead.Done():
		case <-time.After(time.Until(joined.Add(time.Minute))):
			t.Fatal("a viewer that takes nothing is there after a minute")
		}
		t.Logf("dropped after %v", time.Since(joined))
		if _, err := dead.Next(t.Context()); !errors.Is(err, relay.ErrLeft) {
			t.Errorf("Next() of who was dropped: %v", err)
		}
		time.Sleep(30 * time.Second)
		if lease.State().Held() {
			t.Error("control is with a viewer who is gone")
		}
		select {
		case <-live.Done():
			t.Error("the live one was dropped")
		default:
		}
		cancel()
	})
}
