package browser_test

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

func TestScreenshot(t *testing.T) {
	d := newDesk(t, map[string]string{"/": `<title>pic</title><style>body{margin:0;height:3000px}
		#mark{position:absolute;left:300px;top:200px;width:50px;height:40px;background:rgb(255,0,0);border:0;border-radius:0}</style>
		<button id=mark></button>`})
	l := d.visit("/")
	for _, dpr := range []float64{1, 1.25, 2, 3} {
		if _, err := cdp.Call(t.Context(), d.tabs.Current().Session(), emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: 800, Height: 600, DeviceScaleFactor: dpr,
		}); err != nil {
			t.Fatal(err)
		}
		p, img := d.shot()
		if math.Abs(p.Scale-dpr) > 0.01 || p.Width != img.Bounds().Dx() || !strings.Contains(p.Text, fmt.Sprintf("scale %.4g", p.Scale)) {
			t.Errorf("dpr %v: scale %v, width %d: %s", dpr, p.Scale, p.Width, p.Text)
		}
		// The stated factor leads to the mark, and only to the mark.
		for _, tc := range []struct {
			x, y float64
			red  bool
		}{{302, 202, true}, {348, 238, true}, {297, 220, false}, {353, 220, false}} {
			r, g, _, _ := img.At(int(tc.x*p.Scale), int(tc.y*p.Scale)).RGBA()
			if red := r > 0xf000 && g < 0x1000; red != tc.red {
				t.Errorf("dpr %v: (%v,%v) is %v", dpr, tc.x, tc.y, color.RGBAModel.Convert(img.At(int(tc.x*p.Scale), int(tc.y*p.Scale))))
			}
		}
	}
	full, err := d.agent.Screenshot(t.Context(), browser.Shot{Full: true, JPEG: true})
	if err != nil {
		t.Fatal(err)
	}
	if full.CSSHeight != 3000 || full.Type != "image/jpeg" || math.Abs(float64(full.Height)/full.Scale-3000) > 2 {
		t.Errorf("full page: %+v", full.Text)
	}
	d.do(browser.Action{Kind: browser.Scroll, Direction: "down", Amount: 100})
	one, err := d.agent.Screenshot(t.Context(), browser.Shot{At: browser.At{Number: l.Elements[0].Number}})
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(one.Data))
	if err != nil {
		t.Fatal(err)
	}
	r, g, _, _ := img.At(one.Width/2, one.Height/2).RGBA()
	if one.CSSWidth != 50 || one.CSSHeight != 40 || r < 0xf000 || g > 0x1000 {
		t.Errorf("element: %v×%v, middle %x %x", one.CSSWidth, one.CSSHeight, r, g)
	}
	first := d.tabs.Current().Number()
	d.do(browser.Action{Kind: browser.Tabs, Op: "new"})
	if _, err := d.agent.Screenshot(t.Context(), browser.Shot{Tab: first}); err != nil {
		t.Errorf("a tab in the background: %v", err)
	}
	if _, err := d.agent.Screenshot(t.Context(), browser.Shot{Tab: 99}); !errors.Is(err, tabs.ErrGone) {
		t.Errorf("no such tab: %v", err)
	}
}

func TestOutline(t *testing.T) {
	d := newDesk(t, map[string]string{
		"/": `<title>tree</title><main><h1>Head</h1><p>Some <b>bold</b> text</p><nav aria-label=Menu><a href="/x">Link</a></nav>
			<label>Word <input type=password value=hunter2></label><input type=checkbox checked aria-label=Box>
			<iframe src="OTHER/inner"></iframe></main>`,
		"/inner": `<h2>Inside</h2><button disabled>Press</button>`,
	})
	d.visit("/")
	o, err := browser.ReadOutline(t.Context(), d.tabs.Current())
	if err != nil {
		t.Fatal(err)
	}
	find := func(role, name string) *browser.Node {
		for i, n := range o.Nodes {
			if n.Role == role && n.Name == name {
				return &o.Nodes[i]
			}
		}
		t.Errorf("no %s %q in\n%s", role, name, o.Text())
		return &browser.Node{}
	}
	if h := find("heading", "Head"); h.Level != 1 {
		t.Errorf("heading = %+v", h)
	}
	if b := find("checkbox", "Box"); !strings.Contains(strings.Join(b.States, " "), "checked") {
		t.Errorf("checkbox = %+v", b)
	}
	inner, frame := find("heading", "Inside"), (*browser.Node)(nil)
	for i := range o.Nodes {
		if o.Nodes[i].Role == "Iframe" {
			frame = &o.Nodes[i]
		}
	}
	if frame == nil || inner.Depth <= frame.Depth {
		t.Errorf("the frame's content is not in the frame:\n%s", o.Text())
	}
	if b := find("button", "Press"); !strings.Contains(strings.Join(b.States, " "), "disabled") {
		t.Errorf("button = %+v", b)
	}
	find("link", "Link")
	find("navigation", "Menu")
	if strings.Contains(o.Text(), "hunter2") {
		t.Errorf("the outline holds a password:\n%s", o.Text())
	}
	if !strings.Contains(o.Text(), "Some") || !strings.Contains(o.Text(), "bold") {
		t.Errorf("text is missing:\n%s", o.Text())
	}
}

// A page may hold pictures of 200 MB, more than a container has of shared memory.
func TestHugeCanvas(t *testing.T) {
	d := newDesk(t, map[string]string{"/": `<title>paint</title><body style="margin:0"><button onclick="paint(this)">Paint</button>
		<canvas id=c width=7300 height=7200 style="position:absolute;left:0;top:100px;width:600px;height:400px"></canvas>
		<script>function paint(b) {
			const g = c.getContext('2d', {willReadFrequently: true}); g.fillStyle = 'rgb(0,0,255)'; g.fillRect(0, 0, c.width, c.height)
			b.textContent = 'blue ' + g.getImageData(c.width - 1, c.height - 1, 1, 1).data[2]
		}</script>`})
	l := d.click(number(t, d.visit("/"), "Paint"))
	wants(t, l, "blue 255")
	p, img := d.shot()
	if r, _, b, _ := img.At(int(300*p.Scale), int(300*p.Scale)).RGBA(); r > 0x1000 || b < 0xf000 {
		t.Errorf("the canvas is %v", img.At(int(300*p.Scale), int(300*p.Scale)))
	}
	wants(t, d.visit("/"), "Paint")
}
