// Package browsertest gives tests a real Chromium, one for a test binary, with a
// browser context of its own for each test.
//
//	func TestMain(m *testing.M) { browsertest.Main(m) }
//
//	func TestX(t *testing.T) {
//		place := browsertest.Context(t)
//		b := tabs.New(tabs.Options{Dial: place.Dial, Context: place.ID})
//
// Where there is no Chromium a test is skipped, or fails where
// GLOVEBOX_TEST_REQUIRE names chromium.
package browsertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// Chromium is a running browser.
type Chromium struct {
	URL string // of its WebSocket
	PID int

	cmd  *exec.Cmd
	dir  string
	once sync.Once
}

var shared struct {
	sync.Once
	c   *Chromium
	err error
}

// Main runs the tests of a binary and ends the Chromium that they shared.
func Main(m *testing.M) {
	code := m.Run()
	if shared.c != nil {
		shared.c.Kill()
	}
	os.Exit(code)
}

// Path is where Chromium is, "" when it is not there.
func Path() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	return ""
}

// Shared is the Chromium of this test binary.
func Shared(tb testing.TB) *Chromium {
	tb.Helper()
	need(tb)
	shared.Do(func() { shared.c, shared.err = start() })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.c
}

// Own starts a Chromium for a test that kills it.
func Own(tb testing.TB) *Chromium {
	tb.Helper()
	need(tb)
	c, err := start()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Kill)
	return c
}

func need(tb testing.TB) {
	tb.Helper()
	if Path() != "" {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("GLOVEBOX_TEST_REQUIRE"), ","), "chromium") {
		tb.Fatal("no chromium on this machine: apt-get install chromium")
	}
	tb.Skip("no chromium on this machine")
}

func start() (*Chromium, error) {
	dir, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(Path(), "--headless=new", "--remote-debugging-port=0", "--no-sandbox",
		"--disable-gpu", "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-quic", "--site-per-process",
		"--window-size=1280,720", "--user-data-dir="+filepath.Join(dir, "profile"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = attributes()
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &Chromium{cmd: cmd, dir: dir, PID: cmd.Process.Pid}
	url := make(chan string, 1)
	go func() { // until the pipe ends with the process
		lines := bufio.NewScanner(said)
		for lines.Scan() {
			if at, ok := strings.CutPrefix(lines.Text(), "DevTools listening on "); ok {
				url <- at
			}
		}
		close(url)
	}()
	select {
	case c.URL = <-url:
	case <-time.After(60 * time.Second):
	}
	if c.URL == "" {
		c.Kill()
		return nil, errors.New("chromium did not say where it listens within a minute")
	}
	return c, nil
}

// Kill ends the browser and all its processes, and removes its profile.
func (c *Chromium) Kill() {
	c.once.Do(func() {
		syscall.Kill(-c.PID, syscall.SIGKILL)
		c.cmd.Wait()
		os.RemoveAll(c.dir)
	})
}

// Place is a browser context: tabs, cookies and downloads of its own.
type Place struct {
	Chromium *Chromium
	ID       string
	Dial     devtools.DialFunc
}

// Context makes a browser context of the shared Chromium for one test.
func Context(tb testing.TB) Place {
	tb.Helper()
	return Shared(tb).Context(tb)
}

// Alone is Context in a Chromium of the test's own, for one that takes files: a browser
// tells all who are connected to it of all files, whosever context they are of.
func Alone(tb testing.TB) Place {
	tb.Helper()
	return Own(tb).Context(tb)
}

// Context makes a browser context that is disposed of at the end of the test.
func (c *Chromium) Context(tb testing.TB) Place {
	tb.Helper()
	p := Place{Chromium: c, Dial: devtools.Endpoint{URL: c.URL}.Dial}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := devtools.Connect(ctx, devtools.Options{Dial: p.Dial})
	if err != nil {
		tb.Fatal(err)
	}
	made, err := cdp.Call(ctx, conn, target.CreateBrowserContext, target.CreateBrowserContextParams{})
	if err != nil {
		conn.Close()
		tb.Fatal(fmt.Errorf("make a browser context: %w", err))
	}
	p.ID = string(made.BrowserContextID)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		// A browser that the test killed has nothing to dispose of.
		cdp.Call(ctx, conn, target.DisposeBrowserContext, target.DisposeBrowserContextParams(made))
		conn.Close()
	})
	return p
}
