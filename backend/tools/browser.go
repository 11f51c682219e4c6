package tools

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// browserTime bounds a call: a browser that has to be started first, and then the
// longest of what a browser.Backend does.
const browserTime = 120 * time.Second

// BrowserDisplay shows a call of one of the browser's tools. Whatever the call
// was, it has the tab that was looked at and what happened meanwhile.
type BrowserDisplay struct {
	Action   string        `json:"action"` // the tool's name without its prefix
	Target   string        `json:"target"` // what it was done to: an element in words, an address, a file
	URL      string        `json:"url"`
	Title    string        `json:"title"`
	Tab      int           `json:"tab"` // its number; 0 when none was reached
	Notices  []tabs.Notice `json:"notices"`
	Elements int           `json:"elements"` // that can be acted on now
	Snapshot string        `json:"snapshot"` // the beginning of what the model got

	// Secret says that what the call's input has typed must not be shown: it went
	// into a field for a password or a code, or nobody knows into what. As long as
	// there is no result the same holds of every browser_type.
	Secret bool `json:"secret"`

	// Refused is why the call was not let to the page, for the sake of a person:
	// RefusedHeld, RefusedLook, or "" when it was let.
	Refused string `json:"refused"`

	Picture   *BrowserPicture `json:"picture"` // it is the result's image
	Box       *browser.Box    `json:"box"`     // of the element, in CSS pixels of the page; nil when it is not known
	Tabs      []tabs.Info     `json:"tabs"`
	Downloads []tabs.Download `json:"downloads"`
	Console   []tabs.Line     `json:"console"`
}

// Why a call was refused for the sake of a person.
const (
	RefusedHeld = "held" // the person has control
	RefusedLook = "look" // the person had control, and the agent has not looked since
)

// BrowserPicture says how large a screenshot is.
type BrowserPicture struct {
	Width  int     `json:"width"` // pixels
	Height int     `json:"height"`
	Scale  float64 `json:"scale"` // pixels of the picture per CSS pixel
}

// Browser returns the tools of an agent that has the sandbox's browser, in a fixed
// order. They act on [Call.Browser], which is one browser with tabs, and not on
// Env, so no guest keeps an account of their calls: see [Kept]. All of them but
// the one that asks a person are of high risk, those that only look too: a page
// may be one that a person has signed in to, and what it says goes to the model.
func Browser() []Tool { return slices.Clone(browserTools()) }

// browserTools makes the tools when they are first asked for: their schemas take
// half a millisecond, which is much beside a call.
var browserTools = sync.OnceValue(func() []Tool {
	return []Tool{
		newBrowserNavigate(), newBrowserClick(), newBrowserType(), newBrowserExtract(), newBrowserScreenshot(),
		newBrowserScroll(), newBrowserPress(), newBrowserSelect(), newBrowserHover(),
		newBrowserBack(), newBrowserForward(), newBrowserReload(), newBrowserWait(),
		newBrowserTabs(), newBrowserUpload(), newBrowserDownloads(), newBrowserConsole(), newBrowserDialog(),
		NewAskPerson(),
	}
})

// browserTool is a tool that acts on the browser.
type browserTool[P any] struct {
	params[P]

	action   string
	looks    bool
	defaults P

	// plan checks the parameters. Its error is one of the input.
	plan func(ctx context.Context, c Call, p P) (browserAct, error)
}

// browserAct is one call that was found sound.
type browserAct struct {
	target string
	typed  bool // it holds a text that may be a secret
	window window
	do     func(ctx context.Context, b browser.Backend) (browser.Look, error)

	// also puts what do has found beside its look into the result; nil for nothing.
	also func(*Result, *BrowserDisplay)
}

// Risk implements Tool.
func (t *browserTool[P]) Risk() Risk { return RiskHigh }

// Danger implements what [Danger] asks for.
func (t *browserTool[P]) Danger() string { return "uses the sandbox's browser" }

// ReadOnly marks the tools that only look for [ReadOnly].
func (t *browserTool[P]) ReadOnly() bool { return t.looks }

// Kept marks the tools for [Kept].
func (t *browserTool[P]) Kept() bool { return false }

// Run implements Tool.
func (t *browserTool[P]) Run(ctx context.Context, c Call) (Result, error) {
	if c.Boot != "" && !t.looks {
		return Result{Status: task.CallUnknown, Text: "Outcome unknown: the host stopped while this call ran, so it may or may not have had its effect. It was not repeated; look at the page (browser_extract) before you try again."}, nil
	}
	p, err := t.decode(c.Input, t.defaults)
	if err != nil {
		return invalid(err), nil
	}
	act, err := t.plan(ctx, c, p)
	if err != nil {
		return invalid(err), nil
	}
	display := BrowserDisplay{Action: t.action, Target: clean(act.target), Secret: act.typed}
	limited, cancel := context.WithTimeout(ctx, browserTime)
	defer cancel()
	if c.Browser == nil {
		return noBrowser(), nil
	}
	b, err := c.Browser(limited)
	if err != nil {
		return unopened(ctx, err)
	}
	look, err := act.do(limited, b)
	display.see(look, act)
	if err != nil {
		display.Refused = refusedBy(err)
		r, err := browserFault(ctx, err)
		r.Display = display
		r.NotMade = r.NotMade || display.Refused != ""
		return r, err
	}
	text := act.window.of(look.Text)
	display.Snapshot = firstPart(text, maxBrowserDisplay)
	r := Result{Status: task.CallOK, Text: text}
	if act.also != nil {
		act.also(&r, &display)
	}
	r.Display = display
	return r, nil
}

// see takes over what a look tells.
func (d *BrowserDisplay) see(l browser.Look, act browserAct) {
	d.URL, d.Title, d.Tab = clean(l.Tab.URL), clean(l.Tab.Title), l.Tab.Number
	d.Notices, d.Elements = l.Notices, len(l.Elements)
	d.Tabs, d.Downloads, d.Console = l.Tabs, l.Downloads, l.Console
	if l.Acted.What == "" {
		return
	}
	d.Target = clean(l.Acted.What)
	d.Secret = act.typed && l.Acted.Secret
	if l.Acted.Box != (browser.Box{}) {
		d.Box = &l.Acted.Box
	}
}

// element are the parameters by which an element is named.
type element struct {
	Index    *int   `json:"index,omitempty" jsonschema:"the element's number in the newest look at the page"`
	Selector string `json:"selector,omitempty" jsonschema:"a CSS selector in the place of index; the first visible match counts, in frames and open shadow roots too"`
}

var errNoElement = errors.New("index: required, the element's number in the newest look at the page; or selector in its place")

// at returns the element that is named. Not to name one is no error where it is
// optional.
func (e element) at(optional bool) (browser.At, error) {
	switch {
	case e.Index != nil && e.Selector != "":
		return browser.At{}, errors.New("selector: not beside index; give one of them")
	case e.Selector != "":
		return browser.At{Selector: e.Selector}, nil
	case e.Index != nil:
		return browser.At{Number: *e.Index}, nil
	case optional:
		return browser.At{}, nil
	}
	return browser.At{}, errNoElement
}

func (e element) String() string {
	if at, err := e.at(false); err == nil {
		return at.String()
	}
	return ""
}

// refineElement says of an element's parameters what struct tags cannot.
func refineElement(s *jsonschema.Schema) {
	index := s.Properties["index"]
	index.Type, index.Types, index.Minimum = "integer", nil, new(0.0)
}
