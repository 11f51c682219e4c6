package chromium

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// fakeBrowser is the other end of a pipe, which a test speaks by hand.
type fakeBrowser struct {
	t        *testing.T
	m        *mux
	commands *bufio.Reader
	answers  *os.File
	sessions int
}

func newFakeBrowser(t *testing.T) *fakeBrowser {
	t.Helper()
	commandR, commandW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answerR, answerW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeBrowser{t: t, commands: bufio.NewReader(commandR), answers: answerW}
	f.m = newMux(answerR, commandW, 2<<20, func() {})
	t.Cleanup(func() {
		answerW.Close()
		commandR.Close()
		f.m.close()
	})
	return f
}

func (f *fakeBrowser) take() (c struct {
	ID      int64           `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}) {
	f.t.Helper()
	text, err := f.commands.ReadBytes(0)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &c); err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fakeBrowser) say(format string, args ...any) {
	f.t.Helper()
	if _, err := f.answers.Write(append(fmt.Appendf(nil, format, args...), 0)); err != nil {
		f.t.Error(err)
	}
}

// attach opens a client and returns its session.
func (f *fakeBrowser) attach() (*Client, string) {
	f.t.Helper()
	type result struct {
		c   *Client
		err error
	}
	got := make(chan result, 1)
	go func() {
		c, err := f.m.attach(f.t.Context())
		got <- result{c, err}
	}()
	c := f.take()
	f.sessions++
	session := fmt.Sprintf("root-%d", f.sessions)
	f.say(`{"id":%d,"result":{"sessionId":%q}}`, c.ID, session)
	r := <-got
	if r.err != nil {
		f.t.Fatal(r.err)
	}
	return r.c, session
}

func next(t *testing.T, c *Client) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	text, err := c.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMux_answersOutOfOrder(t *testing.T) {
	f := newFakeBrowser(t)
	a, rootA := f.attach()
	b, rootB := f.attach()
	for _, c := range []*Client{a, b, a} {
		if err := c.Send(t.Context(), []byte(`{"id":5,"method":"X.y"}`)); err != nil {
			t.Fatal(err)
		}
	}
	one, two, three := f.take(), f.take(), f.take()
	if one.Session != rootA || two.Session != rootB || three.Session != rootA || one.ID == two.ID || one.ID == three.ID {
		t.Errorf("commands %+v, %+v, %+v", one, two, three)
	}
	f.say(`{"id":%d,"result":{"n":3},"sessionId":%q}`, three.ID, rootA)
	f.say(`{"id":%d,"result":{"n":2},"sessionId":%q}`, two.ID, rootB)
	f.say(`{"id":%d,"result":{"n":1},"sessionId":%q}`, one.ID, rootA)
	f.say(`{"id":%d,"result":{"n":4},"sessionId":%q}`, one.ID, rootA) // an answer too many
	f.say(`{"method":"X.done","params":{},"sessionId":%q}`, rootA)
	for _, want := range []string{`{"id":5,"result":{"n":3}}`, `{"id":5,"result":{"n":1}}`, `{"method":"X.done","params":{}}`} {
		if got := next(t, a); got != want {
			t.Errorf("the first client got %s, want %s", got, want)
		}
	}
	if got, want := next(t, b), `{"id":5,"result":{"n":2}}`; got != want {
		t.Errorf("the second client got %s, want %s", got, want)
	}
}

func TestMux_routesBySession(t *testing.T) {
	f := newFakeBrowser(t)
	a, rootA := f.attach()
	b, _ := f.attach()
	f.say(`{"method":"Target.attachedToTarget","params":{"sessionId":"child","targetInfo":{"targetId":"T"}},"sessionId":%q}`, rootA)
	f.say(`{"method":"Target.attachedToTarget","params":{"sessionId":"grandchild"},"sessionId":"child"}`)
	f.say(`{"method":"X.y","params":{},"sessionId":"grandchild"}`)
	f.say(`{"method":"X.lost","sessionId":"nobody's"}`)
	f.say(`{"method":"X.root"}`)
	f.say(`not JSON at all`)
	f.say(`{"method":"X.last","sessionId":"child"}`)
	for _, want := range []string{"attachedToTarget", "attachedToTarget", `{"method":"X.y","params":{},"sessionId":"grandchild"}`, "X.last"} {
		if got := next(t, a); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if err := b.Send(t.Context(), []byte(`{"id":1,"method":"X.y","sessionId":"grandchild"}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := next(t, b), `{"id":1,"error":{"code":-32001,"message":"Session with given id not found."},"sessionId":"grandchild"}`; got != want {
		t.Errorf("another's session: %s", got)
	}
	// A client that leaves takes its sessions with it, and the browser is told.
	closed := make(chan struct{})
	go func() {
		a.Close()
		close(closed)
	}()
	c := f.take()
	if c.Method != "Target.detachFromTarget" || sessionIn(c.Params) != rootA || c.Session != "" {
		t.Errorf("the browser was told %+v", c)
	}
	f.say(`{"id":%d,"result":{}}`, c.ID)
	<-closed
	if _, err := a.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("a client that was closed: %v", err)
	}
	if f.m.count() != 1 {
		t.Errorf("%d clients", f.m.count())
	}
}

func TestMux_answerThatIsTooLarge(t *testing.T) {
	f := newFakeBrowser(t)
	c, root := f.attach()
	if err := c.Send(t.Context(), []byte(`{"id":9,"method":"X.y"}`)); err != nil {
		t.Fatal(err)
	}
	got := f.take()
	piece := bytes.Repeat([]byte("x"), 1<<20)
	fmt.Fprintf(f.answers, `{"id":%d,"result":{"data":"`, got.ID)
	for range 3 {
		if _, err := f.answers.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	f.say(`"},"sessionId":%q}`, root)
	f.say(`{"method":"X.after","sessionId":%q}`, root)
	if got := next(t, c); !strings.HasPrefix(got, `{"id":9,"error":`) {
		t.Errorf("the answer: %s", got)
	}
	if got := next(t, c); got != `{"method":"X.after"}` {
		t.Errorf("after it: %s", got)
	}
}

func TestMux_slowClientHoldsNobodyUp(t *testing.T) {
	f := newFakeBrowser(t)
	slow, rootSlow := f.attach()
	quick, rootQuick := f.attach()
	piece := strings.Repeat("x", 1<<20)
	for range maxQueue>>20 + 1 {
		f.say(`{"method":"X.y","params":%q,"sessionId":%q}`, piece, rootSlow)
	}
	f.say(`{"method":"X.y","sessionId":%q}`, rootQuick)
	if got := next(t, quick); got != `{"method":"X.y"}` {
		t.Errorf("the quick one got %s", got)
	}
	<-slow.Done()
	if _, err := slow.Next(t.Context()); !errors.Is(err, ErrSlow) {
		t.Errorf("the slow one: %v", err)
	}
	if f.m.count() != 1 {
		t.Errorf("%d clients, want the quick one", f.m.count())
	}
}

func TestMux_end(t *testing.T) {
	f := newFakeBrowser(t)
	c, root := f.attach()
	f.say(`{"method":"X.last","sessionId":%q}`, root)
	f.answers.Close()
	<-f.m.ended
	f.m.close()
	if got := next(t, c); got != `{"method":"X.last"}` {
		t.Errorf("what was sent before the end: %s", got)
	}
	if _, err := c.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("then: %v", err)
	}
	if err := c.Send(t.Context(), []byte(`{"id":1,"method":"X.y"}`)); err == nil {
		t.Error("a command after the end was taken")
	}
	if _, err := f.m.attach(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("a client after the end: %v", err)
	}
	c.Close()
}
