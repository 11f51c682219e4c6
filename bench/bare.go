package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// chromium is where this machine's browser is; "" when there is none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	return ""
}

// bare is a browser of this machine and the one client that looks at it.
type bare struct {
	cmd  *exec.Cmd
	said io.ReadCloser
	conn *devtools.Conn
	page *devtools.Session
	read atomic.Int64 // bytes that came from the browser

	frames chan time.Duration // 64: how old each frame was; what nobody takes is let go
	closed bool
}

// startTime bounds the start of a browser.
const startTime = time.Minute

// startBare starts a browser over a profile, with a screencast of an empty page.
func startBare(ctx context.Context, profile string) (_ *bare, err error) {
	b := &bare{frames: make(chan time.Duration, 64)}
	b.cmd = exec.Command(chromium(), "--headless=new", "--remote-debugging-port=0", "--no-sandbox", "--no-proxy-server",
		fmt.Sprintf("--window-size=%d,%d", viewWidth, viewHeight), "--no-first-run", "--no-default-browser-check", "--password-store=basic",
		"--disable-gpu", "--mute-audio", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-default-apps", "--disable-breakpad", "--disable-quic", "--disable-hang-monitor", "--disable-backgrounding-occluded-windows",
		"--user-data-dir="+profile, "about:blank")
	b.cmd.Env = append(os.Environ(), "HOME="+profile, "XDG_CONFIG_HOME="+profile, "XDG_CACHE_HOME="+profile)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that all of it ends together
	if b.said, err = b.cmd.StderrPipe(); err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-b.pid(), syscall.SIGKILL) }) // ends the wait for its words
	defer stop()
	at := ""
	lines := bufio.NewScanner(b.said)
	for at == "" && lines.Scan() {
		at, _ = strings.CutPrefix(lines.Text(), "DevTools listening on ")
		if at == lines.Text() {
			at = ""
		}
	}
	if at == "" {
		return nil, errors.New("the browser did not say where it listens")
	}
	go func() { _, _ = io.Copy(io.Discard, b.said) }() // until the pipe ends with the process
	return b, b.attach(ctx, at)
}

// attach connects to the browser and to its page.
func (b *bare) attach(ctx context.Context, url string) error {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		return &counted{Conn: c, n: &b.read}, err
	}
	end := devtools.Endpoint{URL: url, Client: &http.Client{Transport: &http.Transport{DialContext: dial}}}
	var err error
	if b.conn, err = devtools.Connect(ctx, devtools.Options{Dial: end.Dial, Event: b.event}); err != nil {
		return err
	}
	made, err := cdp.Call(ctx, b.conn, target.CreateTarget, target.CreateTargetParams{URL: "about:blank"})
	if err != nil {
		return err
	}
	attached, err := cdp.Call(ctx, b.conn, target.AttachToTarget, target.AttachToTargetParams{TargetID: made.TargetID, Flatten: new(true)})
	if err != nil {
		return err
	}
	b.page = b.conn.Session(string(attached.SessionID))
	if _, err := cdp.Call(ctx, b.page, page.Enable, page.EnableParams{}); err != nil {
		return err
	}
	quality := int64(viewQuality)
	devtools.Post(b.page, page.BringToFront, cdp.Empty{})
	_, err = cdp.Call(ctx, b.page, page.StartScreencast, page.StartScreencastParams{
		Format: page.StartScreencastFormatJpeg, Quality: &quality, MaxWidth: viewWidth, MaxHeight: viewHeight,
	})
	return err
}

// event acknowledges a frame and notes how old it was.
func (b *bare) event(c *devtools.Conn, e devtools.Event) {
	f, ok := devtools.Decode(e, page.ScreencastFrame)
	if !ok {
		return
	}
	age := time.Since(time.Unix(0, int64(float64(f.Metadata.Timestamp)*1e9)))
	devtools.Post(c.Session(e.Session), page.ScreencastFrameAck, page.ScreencastFrameAckParams{SessionID: f.SessionID})
	select {
	case b.frames <- age:
	default:
	}
}

// next waits for a frame and returns how old it was when it came.
func (b *bare) next(ctx context.Context) (time.Duration, error) {
	select {
	case age := <-b.frames:
		return age, nil
	case <-b.conn.Done():
		return 0, b.conn.Err()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (b *bare) navigate(ctx context.Context, url string) error {
	_, err := cdp.Call(ctx, b.page, page.Navigate, page.NavigateParams{URL: url})
	return err
}

// press sends a button of the mouse down or up, in the middle of the page.
func (b *bare) press(_ context.Context, how string) error {
	p := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseReleased, X: viewWidth / 2, Y: viewHeight / 2, Button: input.MouseButtonLeft, ClickCount: 1}
	if how == "down" {
		p.Type = input.DispatchMouseEventTypeMousePressed
	}
	devtools.Post(b.page, input.DispatchMouseEvent, p)
	return nil
}

func (b *bare) pid() int { return b.cmd.Process.Pid }

// close ends the browser with all its processes; it may be called more than once.
func (b *bare) close() error {
	if b == nil || b.closed {
		return nil
	}
	b.closed = true
	if b.conn != nil {
		_ = b.conn.Close() // the browser ends anyway
	}
	err := syscall.Kill(-b.pid(), syscall.SIGKILL)
	_ = b.cmd.Wait() // it was killed
	return err
}

// counted counts what is read of a connection.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}
