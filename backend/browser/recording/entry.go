package recording

import (
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
)

// The kinds of an Entry.
const (
	KindFrame  = "frame"  // the page looked like that, until the next entry that is a frame or a gap
	KindAction = "action" // the agent did something
	KindGap    = "gap"    // from here to the next frame nothing was recorded
)

// The reasons of a gap.
const (
	GapHeld   = "held"   // a person had control
	GapIdle   = "idle"   // the agent did not use the browser
	GapBegun  = "begun"  // the agent uses the browser again, and there is no picture yet
	GapEnded  = "ended"  // the browser, or this program, ended
	GapErased = "erased" // a person erased what was before
)

// Entry is one thing that a recording holds.
type Entry struct {
	N     int64     `json:"n"`  // rises by one, also over Erase
	At    time.Time `json:"at"` // by the session's clock, as its events have it; of an action, when it began
	Kind  string    `json:"kind"`
	Tab   int       `json:"tab"`
	URL   string    `json:"url"`
	Title string    `json:"title"`

	// Of a frame: what it shows, in CSS pixels, with the page OffsetTop below its
	// upper edge and scrolled by ScrollX and ScrollY, and the number of the entry that
	// has the picture: its own, or an earlier one's that looked the same.
	Width     float64 `json:"width"`
	Height    float64 `json:"height"`
	OffsetTop float64 `json:"offset_top"`
	ScrollX   float64 `json:"scroll_x"`
	ScrollY   float64 `json:"scroll_y"`
	Picture   int64   `json:"picture"`

	// Of an action: what it was, in words, and where, in CSS pixels of the page
	// (nil where that is not known); of a gap, Label says why.
	Label  string       `json:"label"`
	Box    *browser.Box `json:"box"`
	CallID string       `json:"call_id"`
	Failed bool         `json:"failed"`

	Reason string `json:"reason"` // of a gap
}

// Info is what a recording holds, in sum.
type Info struct {
	On     bool      `json:"on"`    // whether what happens from now on is recorded
	Bytes  int64     `json:"bytes"` // on the disk
	Limit  int64     `json:"limit"` // of Bytes; what is oldest goes
	From   time.Time `json:"from"`  // of its entries; zero where there are none
	To     time.Time `json:"to"`
	Frames int       `json:"frames"`
	First  int64     `json:"first"` // number of the oldest entry that is there; what was before is gone
}

// Page is a part of a recording's entries, in their order.
type Page struct {
	Entries []Entry `json:"entries"`
	More    bool    `json:"more"` // there are entries behind the last of these
	Info    Info    `json:"info"`
}
