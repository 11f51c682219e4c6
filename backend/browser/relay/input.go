package relay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/input"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// The kinds of an Input.
const (
	Mouse   = "mouse"   // Type move|down|up, X, Y, Button, Buttons, Clicks
	Wheel   = "wheel"   // X, Y, DX, DY
	Touch   = "touch"   // Type start|move|end|cancel, Points
	Key     = "key"     // Type down|up, Key, Code, KeyCode, Location, Repeat, Text
	Text    = "text"    // Text: typed or pasted
	Compose = "compose" // Text, From, To: what an input method shows so far
)

// Input is something that a person did on the picture of a page. Coordinates are
// CSS pixels of the person's screen, from the corner of a box of Width × Height in
// which the picture is shown, whole and centred.
type Input struct {
	Kind      string  `json:"kind"`
	Type      string  `json:"type"`
	Frame     uint64  `json:"frame"` // seq of the frame that was on the screen
	Width     float64 `json:"width"`
	Height    float64 `json:"height"`
	X         float64 `json:"x"`
	Y         float64 `json:"y"`
	DX        float64 `json:"dx"`
	DY        float64 `json:"dy"`
	Button    string  `json:"button"` // left, middle, right, back, forward
	Buttons   int64   `json:"buttons"`
	Clicks    int64   `json:"clicks"`
	Modifiers int64   `json:"modifiers"` // Alt 1, Control 2, Meta 4, Shift 8
	Points    []Point `json:"points"`
	Key       string  `json:"key"`
	Code      string  `json:"code"`
	KeyCode   int64   `json:"key_code"`
	Location  int64   `json:"location"`
	Repeat    bool    `json:"repeat"`
	Text      string  `json:"text"`
	From      int64   `json:"from"`
	To        int64   `json:"to"`
}

// Point is a finger.
type Point struct {
	ID int64   `json:"id"`
	X  float64 `json:"x"`
	Y  float64 `json:"y"`
}

// MaxText bounds what is typed or pasted at once, in bytes.
const MaxText = 512 << 10

var (
	// ErrNoFrame refuses an input of a viewer that has not seen the page yet.
	ErrNoFrame = errors.New("no picture of this page has been shown yet: nothing was sent")

	// ErrInput refuses what is no input.
	ErrInput = errors.New("not an input")
)

// Map maps a point of a box in which a frame is shown, whole and centred, to the
// page's viewport in CSS pixels. Inside is false on the bars beside the picture,
// where the point is the nearest one of the page.
func (m Metadata) Map(width, height, x, y float64) (px, py float64, inside bool) {
	scale := m.scale(width, height)
	if scale <= 0 {
		return 0, 0, false
	}
	dx := (x - (width-m.DeviceWidth*scale)/2) / scale
	dy := (y-(height-m.DeviceHeight*scale)/2)/scale - m.OffsetTop
	high := m.DeviceHeight - m.OffsetTop
	inside = dx >= 0 && dy >= 0 && dx < m.DeviceWidth && dy < high
	dx, dy = min(max(dx, 0), m.DeviceWidth-1), min(max(dy, 0), high-1)
	pinch := m.PageScaleFactor
	if pinch <= 0 {
		pinch = 1
	}
	return dx / pinch, dy / pinch, inside
}

// scale is the person's CSS pixels per device independent pixel of the page.
func (m Metadata) scale(width, height float64) float64 {
	if m.DeviceWidth <= 0 || m.DeviceHeight <= 0 || !(width > 0) || !(height > 0) || math.IsInf(width, 0) || math.IsInf(height, 0) {
		return 0
	}
	return min(width/m.DeviceWidth, height/m.DeviceHeight)
}

// press is a mouse button that is held down.
type press struct {
	viewer *Viewer
	tab    *tabs.Tab
	button input.MouseButton
}

// by reports whether it is a viewer's.
func (p *press) by(v *Viewer) bool { return p != nil && p.viewer == v }

// drag is a drag and drop that the page began.
type drag struct {
	data  *input.DragData
	enter bool
}

// Input carries what a person did to the page, if they have control. What they
// did on the bars beside the picture is ignored. It waits for nothing.
func (v *Viewer) Input(in Input) error {
	r := v.r
	r.mu.Lock()
	meta, ok := v.meta(in.Frame)
	c := r.cast
	held := r.pressed.by(v)
	r.mu.Unlock()
	if !ok || c == nil {
		return ErrNoFrame
	}
	if len(in.Text) > MaxText {
		return fmt.Errorf("%d bytes of text, at most %d at once: %w", len(in.Text), MaxText, ErrInput)
	}
	commands, err := r.commands(v, c, meta, held, in)
	if err != nil || len(commands) == 0 {
		return err
	}
	answered := r.o.Lease.Sent()
	var left atomic.Int64 // commands that are not answered
	left.Store(int64(len(commands)))
	err = r.o.Lease.Person(v.view.ID, func() {
		if in.Kind != Mouse || in.Type != "move" {
			c.tab.Acted()
		}
		for _, cmd := range commands {
			c.tab.Session().Go(cmd.method, cmd.params, func(_ jsonv2.Value, err error) {
				if err != nil {
					r.log.Debug("input not taken", "method", cmd.method, "err", err)
				}
				if left.Add(-1) == 0 {
					answered()
				}
			})
		}
	})
	if err != nil {
		answered() // it was not sent
	}
	return err
}

// meta is the metadata of the frame that an input was made on: the viewer must
// have it. One that is too old to be known stands for the newest it has. The lock
// is held.
func (v *Viewer) meta(seq uint64) (Metadata, bool) {
	if v.taken == 0 || seq == 0 || seq > v.taken {
		return Metadata{}, false
	}
	var newest *seen
	for i := range v.r.metas {
		m := &v.r.metas[i]
		if m.cast == nil || v.r.cast == nil || m.cast.tab != v.r.cast.tab {
			continue
		}
		if m.seq == seq {
			return m.meta, true
		}
		if m.seq <= v.taken {
			newest = m
		}
	}
	if newest == nil || v.r.metas[0].seq <= seq {
		return Metadata{}, false // it was a frame of another tab
	}
	return newest.meta, true
}

// wheel is a turn of the wheel: the browser wants both deltas, zero or not.
type wheel struct {
	Type      string  `json:"type"`
	X         float64 `json:"x"`
	Y         float64 `json:"y"`
	DeltaX    float64 `json:"deltaX"`
	DeltaY    float64 `json:"deltaY"`
	Modifiers int64   `json:"modifiers"`
}

type command struct {
	method string
	params any
}

func (r *Relay) commands(v *Viewer, c *cast, m Metadata, held bool, in Input) ([]command, error) {
	switch in.Kind {
	case Mouse:
		return r.mouse(v, c, m, held, in)
	case Wheel:
		x, y, inside := m.Map(in.Width, in.Height, in.X, in.Y)
		if !inside {
			return nil, nil
		}
		scale := m.scale(in.Width, in.Height)
		return []command{{"Input.dispatchMouseEvent", wheel{"mouseWheel", x, y, in.DX / scale, in.DY / scale, in.Modifiers}}}, nil
	case Touch:
		kind, ok := map[string]input.DispatchTouchEventType{
			"start": input.DispatchTouchEventTypeTouchStart, "move": input.DispatchTouchEventTypeTouchMove,
			"end": input.DispatchTouchEventTypeTouchEnd, "cancel": input.DispatchTouchEventTypeTouchCancel,
		}[in.Type]
		if !ok || len(in.Points) > 16 {
			return nil, fmt.Errorf("touch %q: %w", in.Type, ErrInput)
		}
		points := []*input.TouchPoint{}
		if in.Type == "start" || in.Type == "move" {
			for _, p := range in.Points {
				x, y, inside := m.Map(in.Width, in.Height, p.X, p.Y)
				if !inside && in.Type == "start" {
					return nil, nil
				}
				id := float64(p.ID)
				points = append(points, &input.TouchPoint{X: x, Y: y, ID: &id})
			}
		}
		return []command{{"Input.dispatchTouchEvent", input.DispatchTouchEventParams{Type: kind, TouchPoints: points, Modifiers: in.Modifiers}}}, nil
	case Key:
		return keys(in)
	case Text:
		return []command{{"Input.insertText", input.InsertTextParams{Text: in.Text}}}, nil
	case Compose:
		return []command{{"Input.imeSetComposition", input.ImeSetCompositionParams{Text: in.Text, SelectionStart: in.From, SelectionEnd: in.To}}}, nil
	}
	return nil, fmt.Errorf("%q: %w", in.Kind, ErrInput)
}

func (r *Relay) mouse(v *Viewer, c *cast, m Metadata, held bool, in Input) ([]command, error) {
	x, y, inside := m.Map(in.Width, in.Height, in.X, in.Y)
	if !inside && !held {
		return nil, nil // the bars are nobody's; a drag that began on the page goes on at its edge
	}
	e := input.DispatchMouseEventParams{X: x, Y: y, Modifiers: in.Modifiers, Buttons: in.Buttons, ClickCount: in.Clicks, Button: input.MouseButton(in.Button)}
	if in.Button == "" {
		e.Button = input.MouseButtonNone
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch in.Type {
	case "move":
		e.Type = input.DispatchMouseEventTypeMouseMoved
		if d := r.drag; d != nil && held {
			kind := input.DispatchDragEventTypeDragOver
			if !d.enter {
				kind, d.enter = input.DispatchDragEventTypeDragEnter, true
			}
			return []command{{"Input.dispatchDragEvent", input.DispatchDragEventParams{Type: kind, X: x, Y: y, Data: d.data, Modifiers: in.Modifiers}}}, nil
		}
	case "down":
		e.Type = input.DispatchMouseEventTypeMousePressed
		if r.o.Lease.State().Viewer == v.view.ID {
			r.pressed, r.drag = &press{v, c.tab, e.Button}, nil
		}
	case "up":
		e.Type = input.DispatchMouseEventTypeMouseReleased
		d := r.drag
		if r.pressed.by(v) {
			r.pressed, r.drag = nil, nil
		}
		if d != nil && held {
			return []command{
				{"Input.dispatchDragEvent", input.DispatchDragEventParams{Type: input.DispatchDragEventTypeDrop, X: x, Y: y, Data: d.data, Modifiers: in.Modifiers}},
				{"Input.dispatchMouseEvent", e},
			}, nil
		}
	default:
		return nil, fmt.Errorf("mouse %q: %w", in.Type, ErrInput)
	}
	return []command{{"Input.dispatchMouseEvent", e}}, nil
}

// chords are the editor's commands that key chords stand for: a key event from
// outside does not trigger them by itself.
var chords = map[string]string{"a": "selectAll", "c": "copy", "x": "cut", "v": "paste", "z": "undo", "y": "redo"}

func keys(in Input) ([]command, error) {
	e := input.DispatchKeyEventParams{
		Key: in.Key, Code: in.Code, WindowsVirtualKeyCode: in.KeyCode, NativeVirtualKeyCode: in.KeyCode,
		Location: in.Location, Modifiers: in.Modifiers, AutoRepeat: &in.Repeat,
	}
	switch in.Type {
	case "down":
		e.Type = input.DispatchKeyEventTypeRawKeyDown
		if in.Text != "" && in.Modifiers&^8 == 0 {
			e.Type, e.Text, e.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, in.Text, in.Text
		} else if in.Key == "Enter" {
			e.Type, e.Text, e.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, "\r", "\r"
		}
		if in.Modifiers&6 != 0 && in.Modifiers&1 == 0 {
			if c := chords[strings.ToLower(in.Key)]; c != "" {
				if c == "undo" && in.Modifiers&8 != 0 {
					c = "redo"
				}
				e.Commands = []string{c}
			}
		}
	case "up":
		e.Type = input.DispatchKeyEventTypeKeyUp
	default:
		return nil, fmt.Errorf("key %q: %w", in.Type, ErrInput)
	}
	return []command{{"Input.dispatchKeyEvent", e}}, nil
}

// letGo releases a mouse button that somebody held down who has control no more, and
// ends what they dragged.
func (r *Relay) letGo() {
	r.mu.Lock()
	p, d := r.pressed, r.drag
	if p == nil || r.o.Lease.State().Viewer == p.viewer.view.ID {
		r.mu.Unlock()
		return
	}
	r.pressed, r.drag = nil, nil
	r.mu.Unlock()
	r.o.Lease.After(func() {
		if d != nil {
			devtools.Post(p.tab.Session(), input.DispatchDragEvent, input.DispatchDragEventParams{Type: input.DispatchDragEventTypeDragCancel, Data: d.data})
		}
		devtools.Post(p.tab.Session(), input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: input.DispatchMouseEventTypeMouseReleased, Button: p.button,
		})
	})
}

// The kinds of a Command.
const (
	Navigate = "navigate" // URL
	Back     = "back"
	Forward  = "forward"
	Reload   = "reload"
	Switch   = "switch" // Tab
	Close    = "close"  // Tab
	Open     = "open"
	Answer   = "answer" // Accept, Text: the dialog that is open
)

// Command is what a person does to the browser beside its page.
type Command struct {
	Kind   string `json:"kind"`
	URL    string `json:"url"`
	Tab    int    `json:"tab"`
	Accept bool   `json:"accept"`
	Text   string `json:"text"`
}

// Do does a command of the person who has control, and waits for what it leads
// to.
func (v *Viewer) Do(ctx context.Context, cmd Command) error {
	b := v.r.o.Browser
	gate := func(send func()) error { return v.r.o.Lease.Person(v.view.ID, send) }
	if err := gate(func() {}); err != nil {
		return err
	}
	tab, err := b.Active(ctx)
	if err != nil {
		return err
	}
	if cmd.Tab != 0 {
		if tab, err = b.Find(cmd.Tab); err != nil {
			return err
		}
	}
	switch cmd.Kind {
	case Navigate:
		_, err = tab.Navigate(ctx, gate, cmd.URL)
	case Back:
		_, err = tab.History(ctx, gate, -1)
	case Forward:
		_, err = tab.History(ctx, gate, 1)
	case Reload:
		_, err = tab.Reload(ctx, gate)
	case Switch:
		err = b.Activate(gate, tab)
	case Close:
		err = b.CloseTab(ctx, gate, tab)
	case Open:
		_, err = b.Open(ctx, gate)
	case Answer:
		err = tab.Answer(cmd.Accept, cmd.Text)
	default:
		err = fmt.Errorf("command %q: %w", cmd.Kind, ErrInput)
	}
	return err
}
