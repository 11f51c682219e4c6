package pane_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/pane"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
)

var (
	holds    = flag.Int("hands.holds", 15, "how often a person takes control in TestHands")
	handSeed = flag.Uint64("hands.seed", 1, "of TestHands")
)

// witness is a page that judges by itself: it knows from two keys of the person
// when they have control, and writes down what else comes then. What is the
// agent's and what the person's it tells by the place, and counts no event that a
// script made.
const witness = `<title>witness</title><body style="margin:0;height:4000px">
	<style>body > * {position: fixed; width: 200px; height: 60px}</style>
	<button id=agent style="left:0;top:0">Agent</button>
	<input id=agents aria-label="Agent's" style="left:0;top:100px">
	<button id=person style="left:400px;top:0">Person</button>
	<input id=persons aria-label="Person's" style="left:400px;top:100px">
	<script>
		let held = false
		const seen = {Born: Math.random(), Holds: 0, Agent: 0, Person: 0, Typed: 0, Bad: [], Strange: 0}
		const agentic = e => e instanceof MouseEvent ? e.clientX < 300 : e.target == agents
		for (const kind of ["mousedown", "mouseup", "mousemove", "click", "keydown", "keyup", "beforeinput", "wheel"])
			addEventListener(kind, e => {
				if (!e.isTrusted) return
				if (kind == "keydown" && e.key == "F2") { held = true; seen.Holds++; return }
				if (kind == "keydown" && e.key == "F4") { held = false; return }
				const theirs = agentic(e)
				if (theirs && held) seen.Bad.push(kind)
				if (!theirs && !held) seen.Strange++
				if (kind == "click") seen[theirs ? "Agent" : "Person"]++
				if (kind == "beforeinput" && !theirs) seen.Typed++
			}, {capture: true, passive: true})
	</script>`

// seen is what the witness has seen.
type seen struct {
	Born    float64  // which document it is
	Holds   int      // that the person began
	Agent   int      // clicks
	Person  int      // clicks
	Typed   int      // texts of the person
	Bad     []string // what came of the agent during a hold
	Strange int      // what came of the person outside of one
}

func ask(t testing.TB, p *pane.Pane, expression string, out any) {
	t.Helper()
	var res struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
	}
	params := map[string]any{"expression": expression, "returnByValue": true}
	if err := p.Tabs().Current().Session().Call(t.Context(), "Runtime.evaluate", params, &res); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(res.Result.Value, out); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
}

// TestHands has an agent and a person at one page, at random: the agent does
// whatever it can at any moment; the person takes control, works, and gives it
// back or lets the time run out. Nothing of the agent reaches the page during a
// hold, nothing of the person gets lost, and the page is the same all the time.
//
//	go test ./backend/browser/pane -run TestHands -hands.holds 10000 -timeout 1h
func TestHands(t *testing.T) {
	t.Parallel()
	p := open(t, witness)
	var begun seen
	ask(t, p, "seen", &begun)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	var frame atomic.Pointer[relay.Frame]
	shown := make(chan struct{})
	ann := p.Relay().Join(relay.View{ID: "ann", Width: 800, Height: 500})
	defer ann.Leave()
	wg.Go(func() {
		for first := true; ; {
			m, err := ann.Next(ctx)
			if err != nil {
				return
			}
			if m.Frame != nil {
				frame.Store(m.Frame)
				if first {
					close(shown)
					first = false
				}
			}
		}
	})
	select {
	case <-shown:
	case <-time.After(30 * time.Second):
		t.Fatal("no picture within half a minute")
	}
	looks := time.Now()
	if _, err := p.Agent().Extract(t.Context()); err != nil {
		t.Fatal(err)
	}
	agent := restless{
		p: p, r: rand.New(rand.NewPCG(*handSeed, 1)), begins: make(chan time.Duration, 1), typical: time.Since(looks),
		does: make(chan struct{}, 1),
	}
	wg.Go(func() { agent.run(ctx, t) })

	person := steady{t: t, p: p, v: ann, frame: &frame, r: rand.New(rand.NewPCG(*handSeed, 2))}
	began := time.Now()
	for range *holds {
		person.await(agent.begins)
		person.hold()
	}
	took := time.Since(began)
	// The agent has to look before it does more, and what it does comes behind all
	// that the person did.
	agent.again(t)
	stop()
	wg.Wait()

	var got seen
	ask(t, p, "seen", &got)
	want := seen{Born: begun.Born, Holds: person.holds, Person: person.clicks, Typed: person.typed, Bad: []string{}, Agent: got.Agent}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the page has seen (-want +got):\n%s", diff)
	}
	var value string
	if ask(t, p, "persons.value", &value); len(value) != person.typed {
		t.Errorf("the person's field holds %d characters of %d", len(value), person.typed)
	}
	if got.Agent < agent.clicked || got.Agent > agent.clicks {
		t.Errorf("the page has %d clicks of the agent, which made %d, %d of them well", got.Agent, agent.clicks, agent.clicked)
	}
	if agent.acts == 0 || agent.refused+agent.told == 0 {
		t.Error("the two did not come across each other")
	}
	t.Logf("%d holds in %v: the agent did %d acts, and was refused %d and told to look %d times; the person clicked %d times; the slowest take took %v",
		*holds, took.Round(time.Millisecond), agent.acts, agent.refused, agent.told, person.clicks, person.slowest)
}

// restless is an agent that never waits to be asked.
type restless struct {
	p *pane.Pane
	r *rand.Rand

	// begins gets how long acts take, when one begins that may be; one that nobody has seen by
	// then is replaced by the next.
	begins  chan time.Duration
	typical time.Duration

	// does gets what it can when an act went well.
	does chan struct{}

	acts, refused, told, clicks, clicked int
}

func (a *restless) run(ctx context.Context, t *testing.T) {
	b := a.p.Agent()
	button, field := browser.At{Selector: "#agent"}, browser.At{Selector: "#agents"}
	for ctx.Err() == nil {
		if a.p.Lease().May() == nil {
			select {
			case <-a.begins:
			default:
			}
			a.begins <- a.typical
		}
		began := time.Now()
		var err error
		switch a.r.IntN(8) {
		case 0:
			a.clicks++
			if _, err = b.Click(ctx, button); err == nil {
				a.clicked++
			}
		case 1:
			_, err = b.Type(ctx, field, "of the agent", false)
		case 2, 3:
			_, err = b.Do(ctx, browser.Action{Kind: browser.Press, Keys: "ArrowRight", At: field})
		case 4:
			_, err = b.Do(ctx, browser.Action{Kind: browser.Hover, At: button})
		case 5:
			_, err = b.Do(ctx, browser.Action{Kind: browser.Scroll, Direction: []string{"up", "down"}[a.r.IntN(2)], Amount: 100})
		case 6:
			_, err = b.Screenshot(ctx, browser.Shot{JPEG: true})
		case 7:
			_, err = b.Extract(ctx)
		}
		switch {
		case err == nil:
			a.acts++
			select {
			case a.does <- struct{}{}:
			default:
			}
			a.typical = (3*a.typical + time.Since(began)) / 4
		case ctx.Err() != nil:
		case errors.Is(err, control.ErrHeld):
			a.refused++
			<-time.After(time.Duration(a.r.IntN(4)) * time.Millisecond) // a model takes longer to try again
		case errors.Is(err, control.ErrLook):
			a.told++
			if _, err := b.Extract(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, control.ErrHeld) && !errors.Is(err, control.ErrLook) {
				t.Errorf("a look: %v", err)
			}
		default:
			t.Errorf("an act: %v", err)
		}
	}
}

// again returns when an act went well that ended after the call.
func (a *restless) again(t *testing.T) {
	t.Helper()
	select {
	case <-a.does: // an old one
	default:
	}
	select {
	case <-a.does:
	case <-time.After(30 * time.Second):
		t.Fatal("the agent did nothing for half a minute")
	}
}

// steady is a person who has control now and then.
type steady struct {
	t     *testing.T
	p     *pane.Pane
	v     *relay.Viewer
	frame *atomic.Pointer[relay.Frame]
	r     *rand.Rand

	holds, clicks, typed int // that the page has to know of
	slowest              time.Duration
}

// await waits for a moment at random, most often for one in an act of the agent.
func (o *steady) await(begins <-chan time.Duration) {
	if o.r.IntN(4) == 0 {
		o.pause(30)
		return
	}
	select {
	case <-begins: // an old one
	default:
	}
	typical := <-begins
	<-time.After(time.Duration(o.r.Float64() * 1.2 * float64(typical)))
}

// pause waits, for fewer than so many milliseconds.
func (o *steady) pause(ms int) { <-time.After(time.Duration(o.r.IntN(ms)) * time.Millisecond) }

func (o *steady) hold() {
	lease := o.p.Lease()
	if o.r.IntN(10) == 0 { // time that runs out before anything is done
		if _, err := lease.Take("ann", time.Duration(1+o.r.IntN(10))*time.Millisecond); err != nil {
			o.t.Error(err)
		}
		o.pause(20)
		lease.GiveBack("ann")
		return
	}
	began := time.Now()
	if _, err := lease.Take("ann", time.Minute); err != nil {
		o.t.Error(err)
	}
	o.slowest = max(o.slowest, time.Since(began))
	o.holds++
	o.key("F2")
	o.click(500, 130) // into the field
	for range o.r.IntN(4) {
		switch o.r.IntN(4) {
		case 0:
			o.click(500, 30)
			o.click(500, 130)
		case 1:
			o.send(relay.Input{Kind: relay.Text, Text: "x"})
			o.typed++
		case 2:
			o.pause(15)
		case 3:
			if _, err := lease.Take("bob", time.Minute); !errors.Is(err, control.ErrHeld) {
				o.t.Errorf("another takes what ann has: %v", err)
			}
		}
	}
	o.key("F4")
	lease.GiveBack("ann")
}

func (o *steady) key(name string) {
	o.send(relay.Input{Kind: relay.Key, Type: "down", Key: name, Code: name})
}

func (o *steady) click(x, y float64) {
	o.clicks++
	down := relay.Input{Kind: relay.Mouse, Type: "down", X: x, Y: y, Button: "left", Buttons: 1, Clicks: 1}
	up := down
	up.Type, up.Buttons = "up", 0
	o.send(down)
	o.send(up)
}

func (o *steady) send(in relay.Input) {
	f := o.frame.Load()
	in.Frame, in.Width, in.Height = f.Seq, f.Meta.DeviceWidth, f.Meta.DeviceHeight
	if err := o.v.Input(in); err != nil {
		o.t.Errorf("an input of the person: %v", err)
	}
}
