package pane_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/pane"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// open makes a Pane over a browser context of its own, with a page in it.
func open(t *testing.T, page string) *pane.Pane {
	t.Helper()
	return openBy(t, page, func(dial devtools.DialFunc) devtools.DialFunc { return dial })
}

// openBy is open by another way to the browser.
func openBy(t *testing.T, page string, way func(devtools.DialFunc) devtools.DialFunc) *pane.Pane {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	}))
	t.Cleanup(srv.Close)
	place := browsertest.Context(t)
	p := pane.New(pane.Options{
		Dial: way(place.Dial), Context: place.ID,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() { p.Close("") })
	if _, err := p.Agent().Navigate(t.Context(), srv.URL); err != nil {
		t.Fatal(err)
	}
	return p
}

// person is somebody who looks on.
type person struct {
	t     testing.TB
	v     *relay.Viewer
	state relay.State
	frame *relay.Frame
}

func join(t testing.TB, p *pane.Pane, id string) *person {
	o := &person{t: t, v: p.Relay().Join(relay.View{ID: id, Width: 800, Height: 500})}
	t.Cleanup(o.v.Leave)
	return o
}

// until reads until ok.
func (o *person) until(what string, ok func() bool) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for !ok() {
		m, err := o.v.Next(ctx)
		if err != nil {
			o.t.Fatalf("%s: %v; last state %+v", what, err, o.state)
		}
		if m.State != nil {
			o.state = *m.State
		} else {
			o.frame = m.Frame
		}
	}
}

// click clicks a point of the page, in its CSS pixels.
func (o *person) click(x, y float64) {
	o.t.Helper()
	in := relay.Input{
		Kind: relay.Mouse, Type: "down", Frame: o.frame.Seq, Width: o.frame.Meta.DeviceWidth, Height: o.frame.Meta.DeviceHeight,
		X: x, Y: y, Button: "left", Buttons: 1, Clicks: 1,
	}
	up := in
	up.Type, up.Buttons = "up", 0
	if err := errors.Join(o.v.Input(in), o.v.Input(up)); err != nil {
		o.t.Error(err)
	}
}

// eval calls a function in the page.
func eval(t testing.TB, p *pane.Pane, function string, out any) {
	t.Helper()
	tab := p.Tabs().Current()
	if tab == nil {
		t.Fatal("no page is open")
	}
	frames, err := tab.Frames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := frames[0].Eval(t.Context(), function, out); err != nil {
		t.Fatal(err)
	}
}

const form = `<title>The form</title><body style="margin:0">
	<input aria-label="Name" style="position:absolute;left:0;top:0;width:200px;height:40px">
	<input aria-label="Secret" type="password" style="position:absolute;left:300px;top:0;width:200px;height:40px">
	<p style="position:absolute;top:60px">What is written here</p>`

func TestPane_handsShareOnePage(t *testing.T) {
	t.Parallel()
	p := open(t, form)
	agent := p.Agent()
	look, err := agent.Type(t.Context(), browser.At{Selector: "[aria-label=Name]"}, "by the agent", false)
	if err != nil || !strings.Contains(look.Text, "by the agent") {
		t.Fatalf("%v\n%s", err, look.Text)
	}
	ann := join(t, p, "ann")
	ann.until("a picture and the page's tab", func() bool { return ann.frame != nil && len(ann.state.Tabs) == 1 })
	if got := ann.state.Tabs[0].Title; got != "The form" {
		t.Errorf("ann sees the tab %q", got)
	}

	if _, err := p.Lease().Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	ann.until("that she has control", func() bool { return ann.state.Control.Viewer == "ann" })
	if _, err := agent.Click(t.Context(), browser.At{Selector: "input"}); !errors.Is(err, control.ErrHeld) {
		t.Errorf("an agent's click while ann has control: %v", err)
	}
	if _, err := agent.Extract(t.Context()); !errors.Is(err, control.ErrHeld) {
		t.Errorf("an agent's look while ann has control: %v", err)
	}
	ann.click(400, 20)
	if err := ann.v.Input(relay.Input{Kind: relay.Text, Text: "hunter2", Frame: ann.frame.Seq}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for secret := ""; secret != "hunter2"; eval(t, p, `() => document.querySelector("[type=password]").value`, &secret) {
		if time.Now().After(deadline) {
			t.Fatalf("the field holds %q", secret)
		}
	}
	p.Lease().GiveBack("ann")

	if _, err := agent.Click(t.Context(), browser.At{Selector: "input"}); !errors.Is(err, control.ErrLook) {
		t.Errorf("an agent's click before it has looked: %v", err)
	}
	look, err = agent.Extract(t.Context())
	if err != nil || !strings.Contains(look.Text, "by the agent") || strings.Contains(look.Text, "hunter2") {
		t.Errorf("the page that the agent has back: %v\n%s", err, look.Text)
	}
	if _, err := agent.Click(t.Context(), browser.At{Selector: "input"}); err != nil {
		t.Errorf("an agent's click after it has looked: %v", err)
	}
	o, err := p.Outline(t.Context())
	if err != nil || !strings.Contains(o.Text(), "What is written here") || strings.Contains(o.Text(), "hunter2") {
		t.Errorf("outline: %v\n%s", err, o.Text())
	}
}

// What is selected is given to the one who has control, from whatever frame the
// keyboard is in, and a password to nobody.
func TestPane_selection(t *testing.T) {
	t.Parallel()
	p := open(t, `<body style="margin:0"><input id=i value="of the field"><input id=p type=password value="hunter2">
		<p id=t>of the page</p><iframe srcdoc="<p id=t>of the frame</p>"></iframe>`)
	ann, bob := join(t, p, "ann"), join(t, p, "bob")
	if _, err := ann.v.Selection(t.Context()); !errors.Is(err, control.ErrNotHolder) {
		t.Errorf("without control: %v", err)
	}
	if _, err := p.Lease().Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.v.Selection(t.Context()); !errors.Is(err, control.ErrHeld) {
		t.Errorf("while another has control: %v", err)
	}
	for do, want := range map[string]string{
		`() => { i.focus(); i.select() }`:                                                                                      "of the field",
		`() => { document.activeElement.blur(); getSelection().selectAllChildren(t) }`:                                         "of the page",
		`() => { getSelection().empty(); p.focus(); p.select() }`:                                                              "",
		`() => { const d = frames[0].document; frames[0].focus(); d.getSelection().selectAllChildren(d.getElementById("t")) }`: "of the frame",
	} {
		eval(t, p, `() => { for (const f of [window, frames[0]]) f.getSelection().empty() }`, nil)
		eval(t, p, do, nil)
		if got, err := ann.v.Selection(t.Context()); err != nil || got != want {
			t.Errorf("after %s: %q, %v, want %q", do, got, err, want)
		}
	}
}

func TestPane_close(t *testing.T) {
	t.Parallel()
	p := open(t, form)
	ann := join(t, p, "ann")
	ann.until("a picture", func() bool { return ann.frame != nil })
	if _, err := p.Lease().Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	p.Close("The sandbox was stopped.")
	p.Close("It was not.")
	select {
	case <-p.Done():
	default:
		t.Error("it is not done")
	}
	ann.until("the end", func() bool { return ann.state.Ended != "" })
	if ann.state.Ended != "The sandbox was stopped." {
		t.Errorf("ann is told %q", ann.state.Ended)
	}
	if _, err := ann.v.Next(t.Context()); !errors.Is(err, relay.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := p.Agent().Extract(t.Context()); !errors.Is(err, tabs.ErrClosed) {
		t.Errorf("a look of the agent: %v", err)
	}
	if _, err := p.Lease().Take("ann", time.Minute); !errors.Is(err, control.ErrClosed) {
		t.Errorf("control of what has ended: %v", err)
	}
	changes := p.Lease().Changes(0)
	if last := changes[len(changes)-1]; p.Lease().State().Held() || last.Cause != control.Ended || last.Viewer != "ann" {
		t.Errorf("control: %+v", changes)
	}
}

// A pane that nobody used has asked nothing of its browser, and its outline does
// not start one.
func TestPane_asksNothingByItself(t *testing.T) {
	t.Parallel()
	dialled := 0
	p := pane.New(pane.Options{Dial: func(context.Context) (*websocket.Conn, error) {
		dialled++
		return nil, errors.New("no browser here")
	}})
	if _, err := p.Outline(t.Context()); !errors.Is(err, tabs.ErrUnreachable) {
		t.Errorf("outline: %v", err)
	}
	p.Close("")
	if dialled != 0 {
		t.Errorf("dialled %d times", dialled)
	}
}

// hands are a browser that only acts.
type hands struct {
	browser.Backend
	closed int
}

func (h *hands) Close() error { h.closed++; return nil }

func TestPane_ofABrowserThatOnlyActs(t *testing.T) {
	h := &hands{}
	p := pane.New(pane.Options{Backend: h})
	if p.Agent() != browser.Backend(h) || p.Tabs() != nil || p.Relay() != nil {
		t.Errorf("%+v", p)
	}
	if _, err := p.Outline(t.Context()); !errors.Is(err, pane.ErrNoView) {
		t.Errorf("outline: %v", err)
	}
	p.Close("over")
	p.Close("over")
	if h.closed != 1 {
		t.Errorf("closed %d times", h.closed)
	}
}

// A person who has control sees what they show themselves; the agent never does.
func TestPane_secretsAreShownToWhoHasControl(t *testing.T) {
	p := open(t, `<input id=f type=password aria-label=Password>`)
	join(t, p, "me")
	shown := func() (got string) {
		eval(t, p, `() => getComputedStyle(f).webkitTextSecurity`, &got)
		return got
	}
	// It is asked for: a page that is covered and shown between two of its pictures
	// paints none.
	inTheClear := func() {
		t.Helper()
		for limit := time.Now().Add(30 * time.Second); shown() != "none"; <-time.After(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("what was typed is shown as %s", shown())
			}
		}
	}
	if _, err := p.Lease().Take("me", time.Minute); err != nil {
		t.Fatal(err)
	}
	eval(t, p, `() => { f.value = "GazelleFour"; f.type = "text" }`, nil)
	inTheClear()
	p.Lease().GiveBack("me")
	l, err := p.Agent().Extract(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(l.Text, "GazelleFour") || !strings.Contains(l.Text, "(a password)") {
		t.Errorf("the agent reads %s", l.Text)
	}
	if shown() != "disc" {
		t.Error("the agent's pictures show it")
	}
	if _, err := p.Lease().Take("me", time.Minute); err != nil {
		t.Fatal(err)
	}
	inTheClear()
}
