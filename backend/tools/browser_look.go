package tools

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"image/jpeg"
	"image/png"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/llm"
)

// Limits of browser_screenshot. The vendors refuse larger pictures where a
// conversation holds many.
const (
	longestPicture = 2000    // pixels of the longer side of more than the viewport
	maxPNG         = 1 << 20 // bytes; larger ones become JPEG
	maxPicture     = 4 << 20 // bytes of a picture for the model
	maxPixels      = 32e6    // of a picture that is made another: a browser can say of a small one that it is huge
)

const (
	browserWait    = 10_000 // milliseconds, when none are given
	maxBrowserWait = int(browser.MaxWait / time.Millisecond)
)

//go:embed browser_extract.md
var browserExtractDescription string

//go:embed browser_screenshot.md
var browserScreenshotDescription string

//go:embed browser_wait.md
var browserWaitDescription string

type browserExtractParams struct {
	Offset int `json:"offset,omitempty" jsonschema:"characters of the page's text to leave out, for the rest of a long page"`
	Skip   int `json:"skip_elements,omitempty" jsonschema:"elements to leave out, for the rest of a long list"`
}

func newBrowserExtract() Tool {
	return &browserTool[browserExtractParams]{
		params: describe[browserExtractParams]("browser_extract", browserExtractDescription, func(s *jsonschema.Schema) {
			s.Properties["offset"].Minimum = new(0.0)
			s.Properties["skip_elements"].Minimum = new(0.0)
		}),
		action: "extract",
		looks:  true,
		plan: func(_ context.Context, _ Call, p browserExtractParams) (browserAct, error) {
			return browserAct{
				window: window{offset: p.Offset, skip: p.Skip, page: true},
				do:     func(ctx context.Context, b browser.Backend) (browser.Look, error) { return b.Extract(ctx) },
			}, nil
		},
	}
}

type browserScreenshotParams struct {
	element

	FullPage bool `json:"full_page,omitempty" jsonschema:"the whole page in place of what is in view; a long one comes out small"`
}

func newBrowserScreenshot() Tool {
	return &browserTool[browserScreenshotParams]{
		params: describe[browserScreenshotParams]("browser_screenshot", browserScreenshotDescription, refineElement),
		action: "screenshot",
		looks:  true,
		plan:   planScreenshot,
	}
}

func planScreenshot(_ context.Context, _ Call, p browserScreenshotParams) (browserAct, error) {
	at, err := p.at(true)
	switch {
	case err != nil:
		return browserAct{}, err
	case p.FullPage && at != (browser.At{}):
		return browserAct{}, errors.New("full_page: not beside an element; give one of them")
	}
	act := browserAct{target: p.element.String()}
	if p.FullPage {
		act.target = "the whole page"
	}
	var pic browser.Picture
	act.do = func(ctx context.Context, b browser.Backend) (browser.Look, error) {
		var err error
		pic, err = b.Screenshot(ctx, browser.Shot{At: at, Full: p.FullPage, Longest: longestPicture})
		return browser.Look{Text: pic.Text, Notices: pic.Notices, Tab: pic.Tab}, err
	}
	act.also = func(r *Result, d *BrowserDisplay) {
		d.Picture = &BrowserPicture{Width: pic.Width, Height: pic.Height, Scale: pic.Scale}
		data, mediaType := smaller(pic.Data, pic.Type)
		if len(data) > maxPicture {
			r.Text += fmt.Sprintf("\n[The picture has %s and is not shown: take one of a part of the page.]", count(len(data), "byte"))
			d.Picture = nil
			return
		}
		r.Images = []llm.Image{{MediaType: mediaType, Data: data}}
	}
	return act, nil
}

// smaller makes a large PNG, as one of a page full of photographs, a JPEG.
func smaller(data []byte, mediaType string) ([]byte, string) {
	if mediaType != "image/png" || len(data) <= maxPNG {
		return data, mediaType
	}
	head, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil || float64(head.Width)*float64(head.Height) > maxPixels {
		return data, mediaType
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return data, mediaType
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, img, &jpeg.Options{Quality: 85}); err != nil || out.Len() >= len(data) {
		return data, mediaType
	}
	return out.Bytes(), "image/jpeg"
}

type browserWaitParams struct {
	Selector string `json:"selector,omitempty" jsonschema:"a CSS selector that is to match something visible"`
	Text     string `json:"text,omitempty" jsonschema:"a text that is to be on the page"`
	URL      string `json:"url,omitempty" jsonschema:"a part of the address that the tab is to show"`
	Timeout  int    `json:"timeout,omitempty" jsonschema:"milliseconds to wait at most (10000 when left out, 60000 at most)"`
}

// newBrowserWait returns the tool that waits. It is not among those that only look:
// what the model asks for after it in one answer is meant for afterwards.
func newBrowserWait() Tool {
	return &browserTool[browserWaitParams]{
		params: describe[browserWaitParams]("browser_wait", browserWaitDescription, func(s *jsonschema.Schema) {
			s.Properties["timeout"].Minimum = new(1.0)
			s.Properties["timeout"].Maximum = new(float64(maxBrowserWait))
		}),
		action:   "wait",
		defaults: browserWaitParams{Timeout: browserWait},
		plan: func(_ context.Context, _ Call, p browserWaitParams) (browserAct, error) {
			limit := time.Duration(p.Timeout) * time.Millisecond
			a := browser.Action{Kind: browser.Wait, At: browser.At{Selector: p.Selector}, Text: p.Text, URL: p.URL, Timeout: limit}
			target := a.Awaited()
			if target == "" {
				target = limit.String()
			}
			return browserAct{target: target, do: doing(a)}, nil
		},
	}
}
