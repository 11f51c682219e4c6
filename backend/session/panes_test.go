package session

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser/pane"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
)

func newPanes(t *testing.T) *panes {
	ps := &panes{byRoot: map[string]*hold{}}
	t.Cleanup(func() { ps.close("over") })
	return ps
}

// unreachable is a browser that can be looked for and is not there.
func unreachable(context.Context) (pane.Options, error) {
	return pane.Options{Dial: func(context.Context) (*websocket.Conn, error) { return nil, errors.New("no browser here") }}, nil
}

func untilDone(_ string, p *pane.Pane) { <-p.Done() }

func get(t *testing.T, ps *panes, root string, others ...string) *hold {
	t.Helper()
	h, err := ps.get(t.Context(), root, others, unreachable, untilDone)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// lastState is what a viewer is told last.
func lastState(t *testing.T, v *relay.Viewer) (s relay.State, err error) {
	t.Helper()
	for {
		m, err := v.Next(t.Context())
		if err != nil {
			return s, err
		}
		if m.State != nil {
			s = *m.State
		}
	}
}

// Those who share a sandbox share its browser, until the last has let go of it.
func TestPanes_shared(t *testing.T) {
	ps := newPanes(t)
	a, alone := get(t, ps, "a"), get(t, ps, "alone")
	b := get(t, ps, "b", "a", "none")
	if a.p != b.p || a.p == alone.p || get(t, ps, "a", "b") != a {
		t.Fatal("who shares a sandbox does not share its browser, or others do")
	}
	ann, err := ps.join(a, relay.View{ID: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	bob, err := ps.join(b, relay.View{ID: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	if p, viewers := ps.now("a"); p != a.p || viewers != 1 || !ps.seen("b") || ps.seen("alone") {
		t.Errorf("%d look on at a's", viewers)
	}
	roots := ps.users(a.p)
	slices.Sort(roots)
	if !slices.Equal(roots, []string{"a", "b"}) {
		t.Errorf("used by %q", roots)
	}

	ps.end("a", "a's was released")
	<-ann.Done()
	if _, err := ps.join(a, relay.View{ID: "late"}); !errors.Is(err, pane.ErrEnded) {
		t.Errorf("a view of what a has let go of: %v", err)
	}
	select {
	case <-b.p.Done():
		t.Fatal("the other's has ended too")
	case <-bob.Done():
		t.Fatal("the other's viewer has been sent away")
	default:
	}
	ps.end("b", "b's was released")
	if s, err := lastState(t, bob); !errors.Is(err, relay.ErrEnded) || s.Ended != "b's was released" {
		t.Errorf("the last one is told %q, %v", s.Ended, err)
	}
	<-b.p.Done()
	if p, _ := ps.now("b"); p != nil {
		t.Error("what has ended is still there")
	}
	if again := get(t, ps, "b"); again.p == b.p {
		t.Error("what has ended is handed out")
	}
}

func TestPanes_endAll(t *testing.T) {
	ps := newPanes(t)
	a, b := get(t, ps, "a"), get(t, ps, "b", "a")
	ps.endAll("b", "stopped")
	<-a.p.Done()
	for _, root := range []string{"a", "b"} {
		if p, _ := ps.now(root); p != nil {
			t.Errorf("%s still has it", root)
		}
	}
	if _, err := ps.join(b, relay.View{ID: "late"}); !errors.Is(err, pane.ErrEnded) {
		t.Errorf("a view of what has ended: %v", err)
	}
	ps.endAll("none", "stopped")
}

// What ends while it is being opened is not handed out, and who asks for it next
// opens another.
func TestPanes_endsWhileItOpens(t *testing.T) {
	ps := newPanes(t)
	_, err := ps.get(t.Context(), "a", nil, func(ctx context.Context) (pane.Options, error) {
		ps.end("a", "stopped meanwhile")
		return unreachable(ctx)
	}, untilDone)
	if !errors.Is(err, pane.ErrEnded) {
		t.Errorf("get() = %v", err)
	}
	get(t, ps, "a")
}

// Who waits for another's opening does not get the end of that one's patience.
func TestPanes_opensForWhoWaits(t *testing.T) {
	ps := newPanes(t)
	hasty, leave := context.WithCancel(t.Context())
	opening := make(chan struct{})
	failed := make(chan error, 1) // the one who sends never waits
	go func() {
		_, err := ps.get(hasty, "a", nil, func(ctx context.Context) (pane.Options, error) {
			close(opening)
			<-ctx.Done()
			return pane.Options{}, ctx.Err()
		}, untilDone)
		failed <- err
	}()
	<-opening
	waits := make(chan *hold, 1) // as above
	go func() {
		h, err := ps.get(t.Context(), "a", nil, unreachable, untilDone)
		if err != nil {
			t.Error(err)
		}
		waits <- h
	}()
	leave()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v", err)
	}
	if h := <-waits; h == nil || h.p == nil {
		t.Error("who waited has none")
	}
	fault := errors.New("no way in")
	if _, err := ps.get(t.Context(), "b", nil, func(context.Context) (pane.Options, error) { return pane.Options{}, fault }, untilDone); !errors.Is(err, fault) {
		t.Errorf("get() = %v", err)
	}
}

func TestPanes_close(t *testing.T) {
	ps := newPanes(t)
	h := get(t, ps, "a")
	ps.close("Glovebox is ending.")
	select {
	case <-h.p.Done():
	default:
		t.Error("close does not wait")
	}
	if _, err := ps.get(t.Context(), "a", nil, unreachable, untilDone); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// Two who share a sandbox and open its browser at once have one.
func TestPanes_openedAtOnce(t *testing.T) {
	ps := newPanes(t)
	opening, goOn := make(chan struct{}), make(chan struct{})
	first := make(chan *hold, 1) // the one who sends never waits
	go func() {
		h, err := ps.get(t.Context(), "a", []string{"b"}, func(ctx context.Context) (pane.Options, error) {
			close(opening)
			<-goOn
			return unreachable(ctx)
		}, untilDone)
		if err != nil {
			t.Error(err)
		}
		first <- h
	}()
	<-opening
	second := make(chan *hold, 1) // as above
	go func() {
		h, err := ps.get(t.Context(), "b", []string{"a"}, unreachable, untilDone)
		if err != nil {
			t.Error(err)
		}
		second <- h
	}()
	close(goOn)
	if a, b := <-first, <-second; a == nil || b == nil || a.p != b.p {
		t.Error("they have one each")
	}
}
