package browser

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// Click clicks an element. What it opened, asked or loaded is in the result.
func (a *Agent) Click(ctx context.Context, at At) (Look, error) {
	return a.input(ctx, func(ctx context.Context, c *act) error {
		to, err := c.over(ctx, at)
		if err != nil {
			return fmt.Errorf("click %v: %w", at, err)
		}
		mouse := input.DispatchMouseEventParams{X: to.x, Y: to.y, Button: input.MouseButtonLeft, ClickCount: 1}
		down, up := mouse, mouse
		down.Type, down.Buttons = input.DispatchMouseEventTypeMousePressed, 1
		up.Type = input.DispatchMouseEventTypeMouseReleased
		guarded := c.lease.Begin() // whoever takes control has no guard in their way
		defer guarded()
		if err := c.eval(ctx, to.frame, nil, "guard", to.ref); err != nil {
			return fmt.Errorf("click %v: %w", at, err)
		}
		if err := c.post(ctx, command{"Input.dispatchMouseEvent", down}, command{"Input.dispatchMouseEvent", up}); err != nil {
			c.unguard(ctx, to)
			return fmt.Errorf("click %v: %w", at, err)
		}
		// A page that the click led away from, or to a dialog, does not say.
		var met string
		if c.tab.Dialog() == nil && to.frame.Eval(ctx, script, &met, "met") == nil && met == "miss" {
			return fmt.Errorf("click %v: it moved away from under the pointer, and nothing was clicked: %w", at, ErrMoving)
		}
		guarded()
		c.say("Clicked %s.", to.what)
		c.settle(ctx)
		return nil
	})
}

// unguard lets a page take clicks again after one that was not made.
func (c *act) unguard(ctx context.Context, to aimed) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := to.frame.Eval(ctx, script, nil, "met"); err != nil {
		c.log.Debug("guard of a click left to end by itself", "err", err)
	}
}

// Type fills a field with text in place of what it holds, and presses Enter when
// submit is set.
func (a *Agent) Type(ctx context.Context, at At, text string, submit bool) (Look, error) {
	return a.input(ctx, func(ctx context.Context, c *act) error {
		if err := c.fill(ctx, at, text); err != nil {
			return fmt.Errorf("type into %v: %w", at, err)
		}
		if !submit {
			return nil
		}
		if err := c.press(ctx, "Enter"); err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		c.settle(ctx)
		return nil
	})
}

func (c *act) fill(ctx context.Context, at At, text string) error {
	t, err := c.find(ctx, at)
	if err != nil {
		return err
	}
	var got struct {
		wrong
		Done, Secret, Filled bool
	}
	if err := c.eval(ctx, t.frame, nil, "scroll", t.ref, 0, 0, ""); err != nil {
		return err
	}
	c.mark(ctx, t)
	if err := c.eval(ctx, t.frame, &got, "fill", t.ref, text); err != nil {
		return err
	}
	if err := got.err(); err != nil {
		return err
	}
	switch {
	case got.Done:
	case text != "":
		if err := c.post(ctx, command{"Input.insertText", input.InsertTextParams{Text: text}}); err != nil {
			return err
		}
	case got.Filled:
		if err := c.press(ctx, "Delete"); err != nil {
			return err
		}
	}
	if c.tab.Dialog() != nil {
		return nil
	}
	c.say("Typed into %v.", at)
	if got.Secret {
		return nil
	}
	var now struct{ Value *string }
	if err := t.frame.Eval(ctx, script, &now, "valueOf", t.ref); err == nil && now.Value != nil && strings.TrimSpace(*now.Value) != strings.TrimSpace(text) {
		c.say("The field holds %q now, which is not what was typed.", clip(*now.Value, 200))
	}
	return nil
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

func (c *act) press(ctx context.Context, keys string) error {
	events, err := keyEvents(keys)
	if err != nil {
		return err
	}
	inputs := make([]command, 0, len(events))
	for _, e := range events {
		inputs = append(inputs, command{"Input.dispatchKeyEvent", e})
	}
	return c.post(ctx, inputs...)
}

// Do does one of the other actions.
func (a *Agent) Do(ctx context.Context, action Action) (Look, error) {
	switch action.Kind {
	case Dialog:
		return a.answer(ctx, action)
	case Downloads, Console:
		return a.list(ctx, action)
	case Tabs:
		if action.Op == "" || action.Op == "list" {
			return a.list(ctx, action)
		}
	case Wait:
		return a.wait(ctx, action)
	case Upload:
		if a.o.File != nil {
			inside := make([]string, 0, len(action.Files))
			for _, f := range action.Files {
				p, err := a.o.File(f)
				if err != nil {
					return Look{}, fmt.Errorf("upload %s: %w", f, err)
				}
				inside = append(inside, p)
			}
			action.Files = inside
		}
	}
	do, ok := actions[action.Kind]
	if !ok {
		return Look{}, fmt.Errorf("no action %q: %w", action.Kind, ErrWrongKind)
	}
	return a.input(ctx, func(ctx context.Context, c *act) error {
		if err := do(c, ctx, action); err != nil {
			return fmt.Errorf("%s: %w", action.Kind, err)
		}
		return nil
	})
}

// actions are those that change the page.
var actions = map[string]func(*act, context.Context, Action) error{
	Scroll:  (*act).scroll,
	Press:   (*act).pressed,
	Select:  (*act).choose,
	Hover:   (*act).hover,
	Back:    func(c *act, ctx context.Context, _ Action) error { return c.history(ctx, -1) },
	Forward: func(c *act, ctx context.Context, _ Action) error { return c.history(ctx, 1) },
	Reload:  (*act).reload,
	Tabs:    (*act).switchTab,
	Upload:  (*act).upload,
}

func (c *act) scroll(ctx context.Context, a Action) error {
	frames, err := c.tab.Frames(ctx)
	if err != nil {
		return err
	}
	frame, to := frames[0], any(nil)
	if a.At != (At{}) {
		t, err := c.find(ctx, a.At)
		if err != nil {
			return err
		}
		frame, to = t.frame, t.ref
	}
	amount := a.Amount
	if amount == 0 {
		amount = 600
	}
	var dx, dy int
	edge := ""
	switch a.Direction {
	case "", "down":
		dy = amount
		if a.Direction == "" && to != nil {
			dy = 0 // that element into view
		}
	case "up":
		dy = -amount
	case "right":
		dx = amount
	case "left":
		dx = -amount
	case "top", "bottom":
		edge = a.Direction
	default:
		return fmt.Errorf("no direction %q, only up, down, left, right, top and bottom: %w", a.Direction, ErrWrongKind)
	}
	var got wrong
	if err := c.eval(ctx, frame, &got, "scroll", to, dx, dy, edge); err != nil {
		return err
	}
	return got.err()
}

func (c *act) pressed(ctx context.Context, a Action) error {
	if a.At != (At{}) {
		to, err := c.over(ctx, a.At)
		if err != nil {
			return err
		}
		var focused bool
		if err := c.eval(ctx, to.frame, &focused, "focus", to.ref); err != nil {
			return err
		}
	}
	if err := c.press(ctx, a.Keys); err != nil {
		return err
	}
	c.say("Pressed %s.", a.Keys)
	c.settle(ctx)
	return nil
}

func (c *act) choose(ctx context.Context, a Action) error {
	t, err := c.find(ctx, a.At)
	if err != nil {
		return err
	}
	c.mark(ctx, t)
	var got struct {
		wrong
		Chosen []string
	}
	values := a.Values
	if values == nil {
		values = []string{}
	}
	if err := c.eval(ctx, t.frame, &got, "select", t.ref, values); err != nil {
		return err
	}
	if err := got.err(); err != nil {
		return err
	}
	c.tab.Acted()
	c.say("Chose %q.", got.Chosen)
	c.settle(ctx)
	return nil
}

func (c *act) hover(ctx context.Context, a Action) error {
	to, err := c.over(ctx, a.At)
	if err != nil {
		return err
	}
	c.say("The pointer is over %s.", to.what)
	c.settle(ctx)
	return nil
}

func (c *act) history(ctx context.Context, steps int) error {
	l, err := c.tab.History(ctx, c.gate, steps)
	return c.loaded(ctx, l, err)
}

func (c *act) reload(ctx context.Context, _ Action) error {
	l, err := c.tab.Reload(ctx, c.gate)
	return c.loaded(ctx, l, err)
}

func (c *act) switchTab(ctx context.Context, a Action) error {
	var t *tabs.Tab
	var err error
	if a.Op == "new" {
		if a.URL != "" {
			if _, err := tabs.Address(a.URL); err != nil {
				return err
			}
		}
		if t, err = c.tabs.Open(ctx, c.gate); err != nil {
			return err
		}
		c.tab = t
		if a.URL == "" {
			return nil
		}
		return c.navigate(ctx, a.URL)
	}
	if a.Tab == 0 && a.Op == "close" {
		t = c.tab
	} else if t, err = c.tabs.Find(a.Tab); err != nil {
		return err
	}
	switch a.Op {
	case "switch":
		return c.tabs.Activate(c.gate, t)
	case "close":
		return c.tabs.CloseTab(ctx, c.gate, t)
	}
	return fmt.Errorf("no operation %q on tabs, only list, switch, close and new: %w", a.Op, ErrWrongKind)
}

func (c *act) upload(ctx context.Context, a Action) error {
	if len(a.Files) == 0 {
		return fmt.Errorf("no files named: %w", ErrWrongKind)
	}
	if a.At == (At{}) {
		node := c.tab.Chooser()
		if node == 0 {
			return fmt.Errorf("no element named, and the page asked for no file: %w", ErrNotFound)
		}
		defer c.lease.Begin()()
		_, err := tabs.Call(ctx, c.tab, c.tab.Session().Gated(c.gate), dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: a.Files, BackendNodeID: node})
		if err != nil {
			return err
		}
		c.say("Gave the page %s.", files(len(a.Files)))
		c.settle(ctx)
		return nil
	}
	t, err := c.find(ctx, a.At)
	if err != nil {
		return err
	}
	c.mark(ctx, t)
	var got struct {
		wrong
		Multiple bool
	}
	if err := t.frame.Eval(ctx, script, &got, "upload", t.ref); err != nil {
		return err
	}
	if err := got.err(); err != nil {
		return err
	}
	if len(a.Files) > 1 && !got.Multiple {
		return fmt.Errorf("it takes one file, not %d: %w", len(a.Files), ErrWrongKind)
	}
	object, err := t.frame.Object(ctx, script, "pick", t.ref)
	if err != nil {
		return err
	}
	if object == "" {
		return ErrStale
	}
	defer c.lease.Begin()()
	_, err = tabs.Call(ctx, c.tab, t.frame.By(c.gate).Session(), dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: a.Files, ObjectID: object})
	if err != nil {
		return err
	}
	c.tab.Acted()
	c.say("Gave %v %s.", a.At, files(len(a.Files)))
	c.settle(ctx)
	return nil
}

func files(n int) string {
	if n == 1 {
		return "one file"
	}
	return fmt.Sprintf("%d files", n)
}
