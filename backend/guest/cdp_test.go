//go:build linux

package guest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
)

// needChromium skips a test on a machine without a browser.
func needChromium(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("GLOVEBOX_TEST_REQUIRE"), ","), "chromium") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// cdp is a client of the browser in a test.
type cdp struct {
	t    *testing.T
	conn *websocket.Conn
	last int
	kept []cdpMessage // events that came while an answer was waited for
}

type cdpMessage struct {
	ID      int             `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func openCDP(t *testing.T, c *client.Client) *cdp {
	t.Helper()
	conn, err := c.CDP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	return &cdp{t: t, conn: conn}
}

func (c *cdp) read() (m cdpMessage) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	_, text, err := c.conn.Read(ctx)
	if err != nil {
		c.t.Fatalf("read of the browser: %v", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		c.t.Fatalf("%.200s: %v", text, err)
	}
	return m
}

// end reads on until the connection ends, and returns why it did.
func (c *cdp) end() error {
	for {
		if _, _, err := c.conn.Read(c.t.Context()); err != nil {
			return err
		}
	}
}

// send sends a command and returns its id.
func (c *cdp) send(session, method, params string) int {
	c.t.Helper()
	c.last++
	text := fmt.Sprintf(`{"id":%d,"method":%q,"params":%s`, c.last, method, params)
	if session != "" {
		text += fmt.Sprintf(`,"sessionId":%q`, session)
	}
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, []byte(text+"}")); err != nil {
		c.t.Fatal(err)
	}
	return c.last
}

// ask sends a command and waits for its answer.
func (c *cdp) ask(session, method, params string) cdpMessage {
	c.t.Helper()
	for id := c.send(session, method, params); ; {
		m := c.read()
		switch {
		case m.Method != "":
			c.kept = append(c.kept, m)
		case m.ID != id || m.Session != session:
			c.t.Fatalf("answer %d of session %q, want %d of %q", m.ID, m.Session, id, session)
		default:
			return m
		}
	}
}

// call is ask for a command that has to succeed; it reads the result into v.
func (c *cdp) call(session, method, params string, v any) {
	c.t.Helper()
	m := c.ask(session, method, params)
	if m.Error != nil {
		c.t.Fatalf("%s: %s", method, m.Error.Message)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(m.Result, v); err != nil {
		c.t.Fatal(err)
	}
}

// event waits for an event that is wanted.
func (c *cdp) event(method string, wanted func(cdpMessage) bool) cdpMessage {
	c.t.Helper()
	for i, m := range c.kept {
		if m.Method == method && wanted(m) {
			c.kept = slices.Delete(c.kept, i, i+1)
			return m
		}
	}
	for {
		if m := c.read(); m.Method == method && wanted(m) {
			return m
		}
	}
}

// tabs lists the open tabs.
func (c *cdp) tabs() (ids, urls []string) {
	c.t.Helper()
	var list struct {
		Infos []struct {
			ID   string `json:"targetId"`
			Type string `json:"type"`
			URL  string `json:"url"`
		} `json:"targetInfos"`
	}
	c.call("", "Target.getTargets", "{}", &list)
	for _, i := range list.Infos {
		if i.Type == "page" {
			ids, urls = append(ids, i.ID), append(urls, i.URL)
		}
	}
	return ids, urls
}

// attach returns a session to a tab.
func (c *cdp) attach(target string) string {
	c.t.Helper()
	var r struct{ SessionID string }
	c.call("", "Target.attachToTarget", fmt.Sprintf(`{"targetId":%q,"flatten":true}`, target), &r)
	return r.SessionID
}

// page attaches to the first tab.
func (c *cdp) page() string {
	c.t.Helper()
	ids, _ := c.tabs()
	if len(ids) == 0 {
		c.t.Fatal("the browser has no tab")
	}
	return c.attach(ids[0])
}

// visit loads a page and returns the browser's error, "" for none.
func (c *cdp) visit(session, url string) string {
	c.t.Helper()
	c.call(session, "Page.enable", "{}", nil)
	var r struct{ LoaderID, ErrorText string }
	c.call(session, "Page.navigate", fmt.Sprintf(`{"url":%q}`, url), &r)
	if r.ErrorText == "" {
		c.event("Page.loadEventFired", func(m cdpMessage) bool { return m.Session == session })
	}
	return r.ErrorText
}

// eval evaluates an expression whose value is a string.
func (c *cdp) eval(session, expression string) string {
	c.t.Helper()
	var r struct {
		Result struct{ Value json.RawMessage } `json:"result"`
	}
	params, _ := json.Marshal(map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	c.call(session, "Runtime.evaluate", string(params), &r)
	var s string
	if json.Unmarshal(r.Result.Value, &s) != nil {
		return string(r.Result.Value)
	}
	return s
}
