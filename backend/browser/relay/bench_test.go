package relay_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// circles is a page that paints at every chance.
const circles = `<body style="margin:0;background:#123"><canvas id=c width=1280 height=633></canvas><script>
const x = c.getContext('2d');
(function draw(t) {
	x.clearRect(0, 0, 1280, 633);
	for (let i = 0; i < 40; i++) { x.beginPath(); x.fillStyle = 'hsl(' + i * 9 + ',80%,60%)'; x.arc(640 + 500 * Math.sin(t / 900 + i), 316 + 250 * Math.cos(t / 700 + i * 2), 18, 0, 7); x.fill() }
	requestAnimationFrame(draw);
})(0)</script>`

// BenchmarkCast compares what a viewer of the relay gets with what a bare client
// of the debugging connection gets of the same page: frames per second, and the
// time from the paint to the hand, at 50 and 95 percent.
func BenchmarkCast(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(circles))
	}))
	defer srv.Close()
	setUp := func(b *testing.B) (*tabs.Browser, *tabs.Tab) {
		place := browsertest.Context(b)
		browser := tabs.New(tabs.Options{Dial: place.Dial, Context: place.ID})
		b.Cleanup(func() { browser.Close() })
		tab, err := browser.Active(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tab.Navigate(context.Background(), nil, srv.URL); err != nil {
			b.Fatal(err)
		}
		return browser, tab
	}
	report := func(b *testing.B, began time.Time, delays []time.Duration) {
		slices.Sort(delays)
		b.ReportMetric(float64(len(delays))/time.Since(began).Seconds(), "frames/s")
		b.ReportMetric(float64(delays[len(delays)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(delays[len(delays)*95/100].Microseconds())/1000, "p95-ms")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("bare", func(b *testing.B) {
		_, tab := setUp(b)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		frames := cdp.Events(ctx, tab.Session(), page.ScreencastFrame)
		if _, err := cdp.Call(ctx, tab.Session(), page.StartScreencast, page.StartScreencastParams{Format: "jpeg", MaxWidth: 1280, MaxHeight: 800}); err != nil {
			b.Fatal(err)
		}
		var delays []time.Duration
		began := time.Now()
		for f, err := range frames {
			if err != nil {
				b.Fatal(err)
			}
			delays = append(delays, time.Since(time.Unix(0, int64(float64(f.Metadata.Timestamp)*1e9))))
			tab.Session().Post("Page.screencastFrameAck", page.ScreencastFrameAckParams{SessionID: f.SessionID})
			if len(delays) >= b.N {
				break
			}
		}
		report(b, began, delays)
	})
	b.Run("relay", func(b *testing.B) {
		browser, _ := setUp(b)
		r := relay.New(relay.Options{Browser: browser, Lease: control.New()})
		defer r.End("")
		v := r.Join(relay.View{ID: "bench", Width: 1280, Height: 800})
		defer v.Leave()
		var delays []time.Duration
		var began time.Time
		for len(delays) < b.N {
			m, err := v.Next(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			if m.Frame == nil {
				continue
			}
			if began.IsZero() {
				began = time.Now()
			}
			delays = append(delays, time.Since(m.Frame.Shown))
		}
		report(b, began, delays)
	})
}
