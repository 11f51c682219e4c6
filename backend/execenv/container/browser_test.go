//go:build linux

package container_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/egress"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// tab is a page of the sandbox's browser.
type tab struct {
	t       *testing.T
	conn    *websocket.Conn
	session string
	last    int
}

func openTab(t *testing.T, c *client.Client) *tab {
	t.Helper()
	conn, err := c.CDP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	b := &tab{t: t, conn: conn}
	var made struct{ TargetID string }
	b.call("Target.createTarget", `{"url":"about:blank"}`, &made)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", fmt.Sprintf(`{"flatten":true,"targetId":%q}`, made.TargetID), &attached)
	b.session = attached.SessionID
	return b
}

// call sends a command to the tab, or before there is one to the browser.
func (b *tab) call(method, params string, v any) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	b.last++
	text := fmt.Sprintf(`{"id":%d,"method":%q,"params":%s`, b.last, method, params)
	if b.session != "" {
		text += fmt.Sprintf(`,"sessionId":%q`, b.session)
	}
	if err := b.conn.Write(ctx, websocket.MessageText, []byte(text+"}")); err != nil {
		b.t.Fatal(err)
	}
	for {
		_, text, err := b.conn.Read(ctx)
		if err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(text, &m); err != nil {
			b.t.Fatal(err)
		}
		if m.ID != b.last {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if v != nil {
			if err := json.Unmarshal(m.Result, v); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// gone waits until the browser has ended, which its clients are told.
func (b *tab) gone() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	for {
		if _, _, err := b.conn.Read(ctx); ctx.Err() != nil {
			b.t.Fatal("a browser that was killed keeps its client")
		} else if err != nil {
			return
		}
	}
}

// eval evaluates an expression, or a promise of one, as text.
func (b *tab) eval(expression string) string {
	b.t.Helper()
	params, err := json.Marshal(map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if err != nil {
		b.t.Fatal(err)
	}
	var r struct {
		Result struct{ Value any }
	}
	b.call("Runtime.evaluate", string(params), &r)
	return fmt.Sprint(r.Result.Value)
}

// visit loads a page. The browser's error is "" for none; that of a proxy is a page.
func (b *tab) visit(address string) string {
	b.t.Helper()
	var r struct{ ErrorText string }
	b.call("Page.navigate", fmt.Sprintf(`{"url":%q}`, address), &r)
	b.eval(`new Promise(r => document.readyState == "complete" ? r() : addEventListener("load", r))`)
	return r.ErrorText
}

// oneName resolves every name to this machine's loopback.
type oneName struct{}

func (oneName) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// withEnviron lists the processes of this machine that were started with a variable.
func withEnviron(kv string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if env, err := os.ReadFile(f); err == nil && bytes.Contains(env, []byte(kv)) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// TestBrowser is one browser behind each wall, from its first demand to the
// sandbox's end.
func TestBrowser(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		if required("chromium") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	for _, w := range walls {
		t.Run(string(w.name), func(t *testing.T) {
			var mu sync.Mutex
			served := map[string]int{}
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				served[r.Host]++
				mu.Unlock()
				fmt.Fprint(w, "<title>the site</title>")
			}))
			t.Cleanup(site.Close)
			at, err := url.Parse(site.URL)
			if err != nil {
				t.Fatal(err)
			}
			mark := "BROWSER_TEST=" + rand.Text()
			name, value, _ := strings.Cut(mark, "=")
			spec := sandbox.Spec{
				Network: sandbox.Network{Mode: sandbox.NetworkProxy, Allow: []string{"allowed.test:" + at.Port()}},
				Env:     map[string]sandbox.EnvValue{name: {Literal: value}},
			}
			if w.name == sandbox.WallDocker {
				newDocker(t, directory(t), "test-"+strings.ToLower(rand.Text()[:10])) // skips without an engine
				spec.Image = browserImage(t)
			}
			way := egress.New(egress.Options{Resolver: oneName{}})
			onWall(t, w, way, spec, func(t *testing.T, p *place) {
				c, _, err := p.manager.Client(t.Context(), root)
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				b := openTab(t, c)
				t.Logf("demand to first tab: %v", time.Since(begun))
				status, err := c.BrowserStatus(t.Context())
				if err != nil || status.State != wire.BrowserRunning || status.Clients != 1 {
					t.Fatalf("status %+v, %v", status, err)
				}
				t.Logf("%s from %s, sandboxed %v (%s)", status.Version, status.Program, status.Sandboxed, status.Unsandboxed)
				if !status.Sandboxed && status.Unsandboxed == "" {
					t.Error("nothing says why Chromium has no sandbox of its own")
				}
				if os.Getuid() == 0 {
					if uid, _ := sh(t, p.env, "awk '/^Uid:/ {print $2}' /proc/"+strconv.Itoa(status.PID)+"/status"); strings.TrimSpace(uid) != "1000" {
						t.Errorf("it runs as %q", uid)
					}
				}

				// The proxy is the only way out.
				if fault := b.visit("http://allowed.test:" + at.Port()); fault != "" || b.eval("document.title") != "the site" {
					t.Errorf("an allowed site: %q, %q", fault, b.eval("document.title"))
				}
				if got := b.eval("navigator.onLine"); got != "true" {
					t.Errorf("onLine = %s", got)
				}
				b.visit("http://refused.test:" + at.Port())
				if got := b.eval("document.title"); got == "the site" {
					t.Error("a site that no policy allows was loaded")
				}
				for _, direct := range []string{site.URL, "http://" + outward(t) + ":" + at.Port()} {
					if b.visit(direct); b.eval("document.title") == "the site" {
						t.Errorf("%s was loaded", direct)
					}
				}
				mu.Lock()
				for host, n := range served {
					if !strings.HasPrefix(host, "allowed.test:") {
						t.Errorf("the site was asked %d times as %s", n, host)
					}
				}
				mu.Unlock()

				// It has letters: two fonts that are not one.
				b.visit("data:text/html,<canvas>")
				if got := b.eval(`(() => { const c = document.querySelector("canvas").getContext("2d"); c.font = "20px sans-serif"; return c.measureText("WWWW").width > 2 * c.measureText("iiii").width })()`); got != "true" {
					t.Error("no proportional font was found")
				}
				if got := b.eval(`String("x".repeat(5 << 20).length)`); got != strconv.Itoa(5<<20) {
					t.Errorf("a page with 5 MB has %s", got)
				}

				// Killed from inside, it comes back when it is asked for.
				sh(t, p.env, "kill -9 "+strconv.Itoa(status.PID))
				b.gone()
				if got := openTab(t, c).eval("6*7"); got != "42" {
					t.Errorf("after a crash: %s", got)
				}
				again, err := c.BrowserStatus(t.Context())
				if err != nil || again.PID == status.PID || again.LastEnd == nil || again.LastEnd.Cause != wire.BrowserEndCrash {
					t.Errorf("after a crash: %+v, %v", again, err)
				}

				// So it does after a start of the sandbox, whose name is on the lock.
				if _, err := p.manager.Restart(t.Context(), root); err != nil {
					t.Fatal(err)
				}
				if c, _, err = p.manager.Client(t.Context(), root); err != nil {
					t.Fatal(err)
				}
				owner := strings.TrimSpace(first(sh(t, p.env, "hostname")))
				sh(t, p.env, fmt.Sprintf("ln -sfn %s-99999 %s/SingletonLock", owner, again.Profile))
				if got := openTab(t, c).eval("6*7"); got != "42" {
					t.Errorf("after a restart: %s", got)
				}
				if len(withEnviron(mark)) < 2 {
					t.Fatal("the browser's processes are not found by their variable")
				}
				stopped, err := c.BrowserStop(t.Context())
				if err != nil || stopped.State != wire.BrowserStopped || len(stopped.LastEnd.Kill.Left) > 0 {
					t.Errorf("stop: %+v, %v", stopped, err)
				}
				if left := withEnviron(mark + "\x00"); len(left) > 0 {
					t.Errorf("left of the browser: %q", left)
				}

				// And none outlives the sandbox.
				openTab(t, c)
				if err := p.manager.Release(t.Context(), root, lifetime.Remove); err != nil {
					t.Fatal(err)
				}
				if left := withEnviron(mark + "\x00"); len(left) > 0 {
					t.Errorf("left of the sandbox: %q", left)
				}
			})
		})
	}
}

func first[A, B any](a A, _ B) A { return a }

// outward is an address of this machine that is not loopback.
func outward(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return "192.0.2.1"
}
