package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// errBare refuses a picture of a page that undoes what covers a secret.
var errBare = errors.New("take a screenshot: the page shows a password or a code in the clear and does not let it be covered; read the page with browser_extract, or ask the person to hide it")

// Screenshot takes a picture of the active tab. It is a look, and refused while a
// person has control, whose secrets it could show.
func (a *Agent) Screenshot(ctx context.Context, shot Shot) (Picture, error) {
	token, err := a.lease.Look()
	if err != nil {
		return Picture{}, err
	}
	c, ctx, end, err := a.begin(ctx, false)
	if err != nil {
		return Picture{}, err
	}
	defer end()
	if err := token.Do(a.tabs.Cover); err != nil {
		return Picture{}, err
	}
	if shot.Tab != 0 && shot.Tab != c.tab.Number() {
		if c.tab, err = a.tabs.Find(shot.Tab); err != nil {
			return Picture{}, err
		}
		if err := a.tabs.Activate(token.Do, c.tab); err != nil {
			return Picture{}, err
		}
	}
	p, err := c.picture(ctx, shot)
	if err != nil && !stands(err) {
		if taken := token.Do(func() {}); taken != nil {
			return Picture{}, taken
		}
		return Picture{}, c.explain(err)
	}
	if err := token.Done(); err != nil {
		return Picture{}, err
	}
	p.Tab, p.Notices = c.tab.Info(), c.news()
	if err != nil {
		return p, c.explain(fmt.Errorf("tab %d (%s) cannot be looked at: %w", p.Tab.Number, p.Tab.URL, err))
	}
	var text strings.Builder
	c.tell(&text, p.Notices)
	p.Text = text.String() + fmt.Sprintf("%d×%d px of tab %d, %s; scale %.4g: a CSS pixel is %.4g px of the picture.", p.Width, p.Height, p.Tab.Number, p.Tab.URL, p.Scale, p.Scale)
	return p, nil
}

func (c *act) picture(ctx context.Context, shot Shot) (Picture, error) {
	m, err := tabs.Call(ctx, c.tab, c.tab.Session(), page.GetLayoutMetrics, cdp.Empty{})
	if err != nil {
		return Picture{}, err
	}
	if m.CSSLayoutViewport == nil || m.CSSVisualViewport == nil || m.CSSContentSize == nil {
		return Picture{}, errors.New("take a screenshot: the browser tells no size of the page; reload it")
	}
	// The picture shows the visual viewport, scrollbars included, which the page's
	// own width leaves out.
	var size struct{ Width, Height float64 }
	frames, err := c.tab.Frames(ctx)
	if err != nil {
		return Picture{}, err
	}
	if err := frames[0].Eval(ctx, `() => ({width: innerWidth, height: innerHeight})`, &size); err != nil {
		return Picture{}, err
	}
	p := Picture{Type: "image/png", CSSWidth: size.Width, CSSHeight: size.Height}
	take := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}
	if shot.JPEG {
		quality := int64(80)
		if shot.Quality > 0 {
			quality = int64(min(shot.Quality, 100))
		}
		p.Type, take.Format, take.Quality = "image/jpeg", page.CaptureScreenshotFormatJpeg, &quality
	}
	beyond := true
	switch {
	case shot.At != At{}:
		aimed, err := c.aim(ctx, shot.At)
		if err != nil {
			return Picture{}, fmt.Errorf("%v: %w", shot.At, err)
		}
		at := aimed.place()
		if m, err = tabs.Call(ctx, c.tab, c.tab.Session(), page.GetLayoutMetrics, cdp.Empty{}); err != nil {
			return Picture{}, err
		}
		take.Clip = &page.Viewport{
			X: at.X + m.CSSVisualViewport.PageX, Y: at.Y + m.CSSVisualViewport.PageY,
			Width: at.Width, Height: min(at.Height, MaxPageHeight), Scale: 1,
		}
		take.CaptureBeyondViewport = &beyond
	case shot.Full:
		take.Clip = &page.Viewport{
			Width: m.CSSContentSize.Width, Height: min(m.CSSContentSize.Height, MaxPageHeight), Scale: 1,
		}
		take.CaptureBeyondViewport = &beyond
	}
	if take.Clip != nil {
		p.CSSWidth, p.CSSHeight = take.Clip.Width, take.Clip.Height
		if longest := max(p.CSSWidth, p.CSSHeight); shot.Longest > 0 && longest > float64(shot.Longest) {
			take.Clip.Scale = float64(shot.Longest) / longest
		}
	}
	for _, f := range frames {
		if err := f.Eval(ctx, script, nil, "veil"); err != nil && (f.Parent == nil || !gone(err)) {
			return Picture{}, err
		}
	}
	taken, err := tabs.Call(ctx, c.tab, c.tab.Session(), page.CaptureScreenshot, take)
	if err != nil {
		return Picture{}, fmt.Errorf("take a screenshot: %w", err)
	}
	for _, f := range frames {
		var bare bool
		if err := f.Eval(ctx, script, &bare, "bare"); err != nil && (f.Parent == nil || !gone(err)) {
			return Picture{}, err
		}
		if bare {
			return Picture{}, errBare
		}
	}
	head, _, err := image.DecodeConfig(bytes.NewReader(taken.Data))
	if err != nil {
		return Picture{}, fmt.Errorf("read the screenshot: %w", err)
	}
	if p.CSSWidth <= 0 || p.CSSHeight <= 0 {
		return Picture{}, errors.New("take a screenshot: the page has no size; reload it")
	}
	p.Data, p.Width, p.Height = taken.Data, head.Width, head.Height
	p.Scale = float64(p.Width) / p.CSSWidth
	return p, nil
}
