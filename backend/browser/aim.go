package browser

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/input"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// ref is an element as page.js takes it.
type ref struct {
	Number   int    `json:"number,omitzero"`
	Selector string `json:"selector,omitzero"`
}

// wrong is what page.js says of an element that cannot be acted on.
type wrong struct {
	Error   string   `json:"error"`
	By      string   `json:"by"`
	What    string   `json:"what"`
	Type    string   `json:"type"`
	Want    string   `json:"want"`
	Options []string `json:"options"`
}

func (w wrong) err() error {
	what := w.What
	if what == "" {
		what = "the element"
	}
	switch w.Error {
	case "":
		return nil
	case "stale":
		return ErrStale
	case "none":
		return ErrNotFound
	case "hidden":
		return ErrHidden
	case "moving":
		return ErrMoving
	case "disabled":
		return ErrDisabled
	case "covered":
		return &CoveredError{What: what, By: w.By}
	case "readonly":
		return fmt.Errorf("it is read-only: %w", ErrWrongKind)
	case "field":
		return fmt.Errorf("%s is no field to type into: %w", what, ErrWrongKind)
	case "select":
		return fmt.Errorf("it is a list: choose one of its options with browser_select: %w", ErrWrongKind)
	case "noselect":
		return fmt.Errorf("%s is no list of options; click it instead: %w", what, ErrWrongKind)
	case "single":
		return fmt.Errorf("only one of its options can be chosen: %w", ErrWrongKind)
	case "nofile":
		return fmt.Errorf("%s takes no file: %w", what, ErrWrongKind)
	case "value":
		return fmt.Errorf("a field of type %s does not take that value (a date is 2026-12-31, a time 23:59): %w", w.Type, ErrWrongKind)
	case "option":
		return fmt.Errorf("it has no option %q, only %q: %w", w.Want, w.Options, ErrNotFound)
	}
	return fmt.Errorf("%s: %w", w.Error, ErrWrongKind)
}

// target is an element that was found, in its frame.
type target struct {
	frame  *tabs.Frame
	frames []*tabs.Frame
	ref    ref
}

// find finds the frame of an element. A number is one of the newest look's at the
// active tab; a selector is searched for in all frames.
func (c *act) find(ctx context.Context, at At) (target, error) {
	var t target
	if at == (At{}) {
		return t, fmt.Errorf("no element named: %w", ErrStale)
	}
	frames, err := c.tab.Frames(ctx)
	if err != nil {
		return t, err
	}
	t.frames = frames
	if at.Selector != "" {
		t.ref.Selector = at.Selector
		for _, f := range frames {
			var found bool
			if err := f.Eval(ctx, script, &found, "exists", t.ref); err != nil {
				if f.Parent != nil && gone(err) {
					continue
				}
				return t, fmt.Errorf("selector %q: %w", at.Selector, err)
			}
			if found {
				t.frame = f
				return t, nil
			}
		}
		return t, ErrNotFound
	}
	p, ok := c.known[at.Number]
	if !ok || c.looked != c.tab {
		return t, ErrStale
	}
	t.ref.Number = at.Number
	for _, f := range frames {
		if f.ID == p.frame {
			t.frame = f
			return t, nil
		}
	}
	return t, ErrStale
}

type point struct{ x, y float64 }

// aimed is a point of an element that a pointer reaches: x and y in the page's
// viewport, inner and box in that of the element's frame.
type aimed struct {
	target
	x, y  float64
	inner point
	box   Box
	what  string
}

// place maps the box of an element to the page's viewport.
func (a aimed) place() Box {
	return Box{X: a.x - (a.inner.x - a.box.X), Y: a.y - (a.inner.y - a.box.Y), Width: a.box.Width, Height: a.box.Height}
}

// inPage is place for who looks on: from the beginning of the page, however far it has
// scrolled. Where it does not tell that, it is the zero Box: not to know it is no fault.
func (a aimed) inPage(ctx context.Context) Box {
	var scrolled struct{ X, Y float64 }
	if a.frames[0].Eval(ctx, `() => ({x: scrollX, y: scrollY})`, &scrolled) != nil {
		return Box{}
	}
	box := a.place()
	box.X, box.Y = box.X+scrolled.X, box.Y+scrolled.Y
	return box
}

// aim brings an element into view, through all frames around it, and finds a
// point of it that nothing covers.
func (c *act) aim(ctx context.Context, at At) (aimed, error) {
	var a aimed
	t, err := c.find(ctx, at)
	if err != nil {
		return a, err
	}
	a.target = t
	var got struct {
		wrong
		X, Y float64
		Hits int
		Box  Box
	}
	if err := c.eval(ctx, t.frame, &got, "aim", t.ref); err != nil {
		return a, err
	}
	if err := got.err(); err != nil {
		return a, err
	}
	if got.Hits > 1 {
		c.say("%d elements match %s; the first that is visible was taken.", got.Hits, at)
	}
	a.inner, a.box, a.what = point{got.X, got.Y}, got.Box, got.What
	out, err := c.outward(ctx, t.frame, a.inner)
	a.x, a.y = out.x, out.y
	if err == nil {
		c.acted = Acted{What: a.what, Box: a.inPage(ctx)}
	}
	return a, err
}

// mark notes which element a call acts on that no pointer has to reach. What it is
// and where is for persons who look on: not to know it is no fault.
func (c *act) mark(ctx context.Context, t target) {
	var got struct {
		What   string
		Secret bool
		Box    *Box
	}
	if t.frame.Eval(ctx, script, &got, "mark", t.ref) != nil {
		return
	}
	c.acted = Acted{What: got.What, Secret: got.Secret}
	if got.Box == nil {
		return
	}
	middle := point{got.Box.X + got.Box.Width/2, got.Box.Y + got.Box.Height/2}
	if out, err := c.outward(ctx, t.frame, middle); err == nil {
		c.acted.Box = aimed{target: t, x: out.x, y: out.y, inner: middle, box: *got.Box}.inPage(ctx)
	}
}

// outward maps a point of a frame to the page's viewport.
func (c *act) outward(ctx context.Context, f *tabs.Frame, p point) (point, error) {
	defer c.lease.Begin()()
	for ; f.Parent != nil; f = f.Parent {
		owner, err := f.Owner(ctx)
		if err != nil {
			return p, err
		}
		var got struct {
			wrong
			X, Y float64
		}
		if err := f.Parent.By(c.gate).EvalOn(ctx, owner, `function(x, y) { return (globalThis.glovebox ??= `+library+`).through(this, x, y) }`, &got, p.x, p.y); err != nil {
			return p, err
		}
		if err := got.err(); err != nil {
			return p, err
		}
		p = point{got.X, got.Y}
	}
	return p, nil
}

// over moves the pointer onto an element and makes sure that it is still there:
// pages open and shift things under a pointer.
func (c *act) over(ctx context.Context, at At) (aimed, error) {
	for range 3 {
		a, err := c.aim(ctx, at)
		if err != nil {
			return a, err
		}
		if err := c.post(ctx, command{"Input.dispatchMouseEvent", input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: a.x, Y: a.y}}); err != nil {
			return a, err
		}
		var still bool
		if err := c.eval(ctx, a.frame, &still, "still", a.ref, a.inner.x, a.inner.y); err != nil {
			return a, err
		}
		if still {
			return a, nil
		}
	}
	return aimed{}, ErrMoving
}
