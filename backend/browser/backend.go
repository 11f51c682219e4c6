// Package browser is a browser as an agent uses it: it looks at pages as text
// with numbered elements, acts on those, and is told what its acts led to.
//
//	b := tabs.New(tabs.Options{Dial: endpoint.Dial})
//	agent := browser.NewAgent(browser.Options{Browser: b, Lease: lease})
//	look, err := agent.Navigate(ctx, "https://example.com")
//	look, err = agent.Click(ctx, browser.At{Number: 3})
//
// [Backend] is what tools call. An element has one number for as long as it
// lives, and no number is used twice: one that is not in the newest look is
// refused, never taken for something else. Nothing hangs: each call has a bound,
// and its error says what to do next. What a page did by itself meanwhile
// (dialogs, new tabs, downloads) is told in the result of the call.
//
// The agent and persons share the browser by way of a control.Lease: the agent's
// inputs and looks are refused while a person has it.
package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// Backend is a browser under the hands of an agent. Its methods are safe to call
// from several goroutines and run one after the other. They end with ctx, and
// within about a minute without it. Errors end with what to do next; those of a
// person's control are a *control.HeldError or wrap control.ErrLook, and where
// something of the call was done before that they are a *TakenError.
type Backend interface {
	Navigate(ctx context.Context, url string) (Look, error)
	Click(ctx context.Context, at At) (Look, error)
	Type(ctx context.Context, at At, text string, submit bool) (Look, error)
	Extract(ctx context.Context) (Look, error)
	Screenshot(ctx context.Context, shot Shot) (Picture, error)
	Do(ctx context.Context, a Action) (Look, error)
}

// At names an element: by its number in the newest look, or by a CSS selector,
// which is searched for in all frames and open shadow roots.
type At struct {
	Number   int
	Selector string
}

func (at At) String() string {
	if at.Selector != "" {
		return fmt.Sprintf("%q", at.Selector)
	}
	return fmt.Sprintf("element %d", at.Number)
}

// Look is what an agent sees after a call.
type Look struct {
	Text     string        // all of it, for a model
	Notices  []tabs.Notice // what happened during the call
	Tab      tabs.Info
	Elements []Element
	Acted    Acted

	// What the actions that list things have found.
	Tabs      []tabs.Info
	Downloads []tabs.Download
	Console   []tabs.Line
}

// Acted is the element that a call acted on.
type Acted struct {
	What   string // its tag and the beginning of its text; "" for none, or one that is not known
	Box    Box    // where it was, from the page's beginning; the zero Box where that is not known
	Secret bool   // it is a field for a password or a code
}

// Box is a place on a page, in CSS pixels.
type Box struct {
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}

// Element is something on a page that can be acted on.
type Element struct {
	Number   int      `json:"n"`
	Tag      string   `json:"tag"`
	Role     string   `json:"role"`
	Type     string   `json:"type"` // of an input
	Name     string   `json:"name"`
	Value    string   `json:"value"` // never of a secret
	Hint     string   `json:"hint"`
	Href     string   `json:"href"`
	Options  []string `json:"options"` // of a select, the first twenty
	More     int      `json:"more"`    // how many it has beyond them
	Secret   bool     `json:"secret"`  // a field for a password or a code, that is filled
	Editable bool     `json:"editable"`
	Checked  bool     `json:"checked"`
	Expanded bool     `json:"expanded"`
	Disabled bool     `json:"disabled"`
	Readonly bool     `json:"readonly"`
	Off      bool     `json:"off"` // outside of what is in view; acting on it scrolls
	Frame    string   `json:"-"`   // URL of the frame it is in, "" for the page itself
}

// Shot is what a screenshot is to show: the viewport, or more or less of it.
type Shot struct {
	Full    bool // the whole page, MaxPageHeight at most
	At      At   // one element
	Tab     int  // another tab than the active one; it is brought to the front
	JPEG    bool // PNG when false
	Quality int  // of JPEG, 80 when 0
	Longest int  // pixels of a picture's longer side at most, of more than the viewport; 0 for any
}

// Picture is a screenshot. Scale is its one factor: a point (x, y) of the picture
// is at (x/Scale, y/Scale) CSS pixels from the corner of what it shows.
type Picture struct {
	Data          []byte
	Type          string  // image/png or image/jpeg
	Width, Height int     // in pixels of the picture
	Scale         float64 // pixels of the picture per CSS pixel
	CSSWidth      float64 // of what it shows
	CSSHeight     float64
	Text          string // what a model is told beside it
	Notices       []tabs.Notice
	Tab           tabs.Info
}

// The kinds of an Action, and which of its fields each reads.
const (
	Scroll    = "scroll"    // Direction up|down|left|right|top|bottom, Amount in CSS pixels; At: that element into view, or its own scrolling part
	Press     = "press"     // Keys: "Enter", "Control+A", "ArrowDown"; At is focused first when given
	Select    = "select"    // At, Values: options by value or label
	Hover     = "hover"     // At
	Back      = "back"      //
	Forward   = "forward"   //
	Reload    = "reload"    //
	Wait      = "wait"      // At.Selector, Text or URL to appear, or just Timeout to pass
	Tabs      = "tabs"      // Op list|switch|close|new, Tab, URL
	Upload    = "upload"    // At (or the field that the page asked with), Files
	Downloads = "downloads" //
	Console   = "console"   //
	Dialog    = "dialog"    // Accept, Text for a prompt
)

// Action is one of the things to do beside the five that have a method.
type Action struct {
	Kind      string
	At        At
	Direction string
	Amount    int
	Keys      string
	Values    []string
	Op        string
	Tab       int
	URL       string
	Text      string
	Files     []string // as the browser sees them
	Accept    bool
	Timeout   time.Duration // 10 s when 0, MaxWait at most
}

// The bounds of what is looked at, and of waits that the agent chooses.
const (
	MaxElements   = 1000
	MaxMarkdown   = 4 << 20 // bytes of HTML that are made Markdown
	MaxPageHeight = 16384   // CSS pixels of a full screenshot
	MaxWait       = 60 * time.Second
	callTime      = 75 * time.Second
)

var (
	// ErrStale refuses a number that is not of the newest look at the active tab.
	ErrStale = errors.New("that number is not in the newest look at the page: take a fresh look (browser_extract) and use a number from it")

	// ErrNotFound says that a selector matches nothing.
	ErrNotFound = errors.New("nothing on the page matches; look at the page again (browser_extract)")

	// ErrHidden says that an element is there and not shown.
	ErrHidden = errors.New("it is on the page and not visible; something else (a menu, a tab, a dialog) has to be opened first")

	// ErrMoving says that an element does not stand still.
	ErrMoving = errors.New("it keeps moving; wait for the page to come to rest and try again")

	// ErrDisabled says that an element takes no input now.
	ErrDisabled = errors.New("it is disabled; something else on the page has to be filled in or chosen first")

	// ErrWrongKind says that an element is not one for that action.
	ErrWrongKind = errors.New("that action does not fit the element")

	// ErrTimeout says that what was waited for did not come.
	ErrTimeout = errors.New("it did not come about in time; look at the page and decide")
)

// CoveredError says that something lies over an element.
type CoveredError struct{ What, By string }

func (e *CoveredError) Error() string {
	return fmt.Sprintf("%s is covered by %s: close or move that first; nothing was clicked", e.What, e.By)
}

// TakenError says that a person took control of the browser after something of a
// call had been let to it. It wraps why the rest was refused: a *control.HeldError
// or control.ErrLook.
type TakenError struct {
	Done  bool   // all of it was done: what is missing is the look at what came of it
	Told  string // what the call has to tell of what it did
	Cause error
}

func (e *TakenError) Unwrap() error { return e.Cause }

func (e *TakenError) Error() string {
	const look = "look at the page afresh (browser_extract or browser_screenshot) once the browser is yours again"
	if e.Done {
		return cmp.Or(e.Told, "It was done.") + " Then a person took control of the browser, so what came of it was not seen; " + look
	}
	return "a person took control of the browser in the middle of this call: some of it may have been done, the rest was not; " + look
}
