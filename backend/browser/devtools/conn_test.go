package devtools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// fake is the browser's end of a connection, as a test plays it.
type fake struct {
	t     *testing.T
	peers chan *websocket.Conn
	dial  devtools.DialFunc
	url   string
}

type request struct {
	ID     int64           `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, peers: make(chan *websocket.Conn, 4)}
	end := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		ws.SetReadLimit(-1)
		f.peers <- ws
		<-end
		ws.CloseNow()
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(end) })
	f.url = "ws" + strings.TrimPrefix(srv.URL, "http")
	f.dial = devtools.Endpoint{URL: f.url}.Dial
	return f
}

func (f *fake) connect(o devtools.Options) (*devtools.Conn, *websocket.Conn) {
	f.t.Helper()
	o.Dial = f.dial
	c, err := devtools.Connect(f.t.Context(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c, <-f.peers
}

func (f *fake) read(ws *websocket.Conn) request {
	f.t.Helper()
	_, b, err := ws.Read(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	var r request
	if err := json.Unmarshal(b, &r); err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fake) say(ws *websocket.Conn, format string, a ...any) {
	f.t.Helper()
	if err := ws.Write(f.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, a...)); err != nil {
		f.t.Fatal(err)
	}
}

type answer struct {
	Text string `json:"text"`
}

type outcome struct {
	answer
	err error
}

func ask(ctx context.Context, c *devtools.Conn, method string) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		var o outcome
		o.err = c.Call(ctx, method, nil, &o.answer)
		out <- o
	}()
	return out
}

func TestConn_answersOutOfOrder(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c, ws := f.connect(devtools.Options{})
	first := ask(t.Context(), c, "A.one")
	one := f.read(ws)
	second := ask(t.Context(), c, "A.two")
	two := f.read(ws)
	f.say(ws, `{"id":%d,"result":{"text":"two"}}`, two.ID)
	f.say(ws, `{"id":%d,"error":{"code":-32000,"message":"no such one"}}`, one.ID)
	if got := <-second; got.err != nil || got.Text != "two" {
		t.Errorf("second = %v", got)
	}
	got := <-first
	if fault, ok := errors.AsType[*devtools.Error](got.err); !ok || fault.Message != "no such one" {
		t.Errorf("first = %v, want the browser's own error", got.err)
	}
}

func TestConn_incomingSizes(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c, ws := f.connect(devtools.Options{MaxIncoming: 8 << 20})
	for _, size := range []int{40 << 10, 5 << 20} {
		call := ask(t.Context(), c, "A.big")
		r := f.read(ws)
		f.say(ws, `{"id":%d,"result":{"text":"%s"}}`, r.ID, strings.Repeat("x", size))
		if got := <-call; got.err != nil || len(got.Text) != size {
			t.Errorf("%d bytes: got %d, %v", size, len(got.Text), got.err)
		}
	}
	// Over the limit, with the id in front and behind: that call fails alone.
	for _, tc := range []struct {
		form string
		size int
	}{{`{"id":%[1]d,"result":{"text":"%[2]s"}}`, 60 << 20}, {`{"result":{"text":"%[2]s"},"id":%[1]d}`, 9 << 20}} {
		call, other := ask(t.Context(), c, "A.big"), ask(t.Context(), c, "A.small")
		big, small := f.read(ws), f.read(ws)
		if big.Method != "A.big" {
			big, small = small, big
		}
		f.say(ws, tc.form, big.ID, strings.Repeat("x", tc.size))
		f.say(ws, `{"id":%d,"result":{"text":"ok"}}`, small.ID)
		if got := <-call; !errors.Is(got.err, devtools.ErrTooLarge) {
			t.Errorf("%d bytes: %v, want ErrTooLarge", tc.size, got.err)
		}
		if got := <-other; got.err != nil || got.Text != "ok" {
			t.Errorf("the call beside it = %v", got)
		}
	}
}

func TestConn_outgoingTooLarge(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c, ws := f.connect(devtools.Options{})
	err := c.Call(t.Context(), "A.put", map[string]string{"text": strings.Repeat("x", 3<<19)}, nil)
	if !errors.Is(err, devtools.ErrTooLarge) {
		t.Fatalf("1.5 MB out: %v, want ErrTooLarge", err)
	}
	call := ask(t.Context(), c, "A.next")
	f.say(ws, `{"id":%d,"result":{"text":"alive"}}`, f.read(ws).ID)
	if got := <-call; got.err != nil || got.Text != "alive" {
		t.Errorf("the next call = %v", got)
	}
}

func TestConn_cutFailsPendingCalls(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c, ws := f.connect(devtools.Options{})
	calls := []<-chan outcome{ask(t.Context(), c, "A.a"), ask(t.Context(), c, "A.b"), ask(t.Context(), c, "A.c")}
	for range calls {
		f.read(ws)
	}
	events, _ := c.Subscribe("A.event")
	ws.CloseNow()
	limit := time.After(30 * time.Second) // without a cut they wait for as long as the test does
	for _, call := range calls {
		select {
		case got := <-call:
			if !errors.Is(got.err, devtools.ErrClosed) {
				t.Errorf("pending call: %v, want ErrClosed", got.err)
			}
		case <-limit:
			t.Fatal("a pending call was still waiting half a minute after the cut")
		}
	}
	if _, open := <-events; open {
		t.Error("the subscription gave an event")
	}
	if err := c.Call(t.Context(), "A.d", nil, nil); !errors.Is(err, devtools.ErrClosed) {
		t.Errorf("a call after the cut: %v, want ErrClosed at once", err)
	}
	<-c.Done()

	// The next connection knows nothing of the old one's calls.
	c2, ws2 := f.connect(devtools.Options{})
	call := ask(t.Context(), c2, "A.new")
	r := f.read(ws2)
	f.say(ws2, `{"id":%d,"result":{"text":"old"}}`, r.ID+2)
	f.say(ws2, `{"id":%d,"result":{"text":"new"}}`, r.ID)
	if got := <-call; got.err != nil || got.Text != "new" {
		t.Errorf("the new connection's call = %v", got)
	}
}

func TestConn_callThatGaveUp(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c, ws := f.connect(devtools.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	call := ask(ctx, c, "A.slow")
	slow := f.read(ws)
	cancel()
	if got := <-call; !errors.Is(got.err, context.Canceled) {
		t.Errorf("cancelled call: %v", got.err)
	}
	next := ask(t.Context(), c, "A.next")
	r := f.read(ws)
	f.say(ws, `{"id":%d,"result":{"text":"late"}}`, slow.ID)
	f.say(ws, `{"id":%d,"result":{"text":"mine"}}`, r.ID)
	if got := <-next; got.err != nil || got.Text != "mine" {
		t.Errorf("the call after it = %v", got)
	}
}

// A command that its gate puts off is not sent once nobody waits for it.
func TestSession_putOff(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c, ws := f.connect(devtools.Options{})
	sends := make(chan func(), 1) // the gate never waits for who lets it through
	s := c.Session("s1").Gated(func(send func()) error {
		sends <- send
		return nil
	})
	call := func() (send, cancel func(), failed <-chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan error, 1)
		go func() { out <- s.Call(ctx, "A.late", nil, nil) }()
		return <-sends, cancel, out
	}
	send, cancel, failed := call()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up: %v", err)
	}
	send()
	c.Post("A.next", nil)
	if r := f.read(ws); r.Method != "A.next" {
		t.Errorf("%s was sent for nobody", r.Method)
	}
	// It may be let through in the very moment.
	send, cancel, failed = call()
	sent := make(chan struct{})
	go func() {
		send()
		close(sent)
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up: %v", err)
	}
	<-sent
}

func TestConn_eventsInOrderAndBounded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	seen := make(chan string, 8)
	c, ws := f.connect(devtools.Options{Event: func(c *devtools.Conn, e devtools.Event) {
		if e.Method == "A.told" {
			seen <- e.Session + string(e.Params)
			c.Session(e.Session).Post("A.noted", nil)
		}
	}})
	events, cancel := c.Session("s1").Subscribe("A.flood")
	defer cancel()
	f.say(ws, `{"method":"A.told","sessionId":"s1","params":{"n":1,"half":"\ud83d, \uD83D\uDE00 \\ud83d"}}`)
	f.say(ws, `{"method":"A.told","sessionId":"s2","params":{"n":2}}`)
	for _, want := range []string{`s1{"n":1,"half":"\ufffd, \uD83D\uDE00 \\ud83d"}`, `s2{"n":2}`} {
		if got := <-seen; got != want {
			t.Errorf("event %s, want %s", got, want)
		}
	}
	if r := f.read(ws); r.Method != "A.noted" {
		t.Errorf("posted by the handler: %s", r.Method)
	}
	for range 1100 {
		f.say(ws, `{"method":"A.flood","sessionId":"s1","params":{}}`)
	}
	f.say(ws, `{"method":"A.told","sessionId":"end","params":{}}`)
	<-seen
	n := 0
	for range events {
		n++
	}
	if n != 1024 {
		t.Errorf("a reader that lags got %d events before the end, want 1024", n)
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, path, named string }{
		{"bare port", "", "ws://localhost/devtools/browser/id-1"},
		{"bare port, own port named", "", "ws://localhost:9222/devtools/browser/id-1"},
		{"path, prefix kept", "/cdp", "ws://10.0.0.7:8080/cdp/devtools/browser/id-1"},
		{"path, prefix lost", "/cdp/", "ws://127.0.0.1:9222/devtools/browser/id-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			prefix := strings.TrimSuffix(tc.path, "/")
			mux := http.NewServeMux()
			upgraded := make(chan struct{})
			strict := func(h http.HandlerFunc) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					if prefix == "" && r.Host != "localhost" {
						http.Error(w, "Host header is specified and is not an IP address or localhost.", http.StatusInternalServerError)
						return
					}
					h(w, r)
				}
			}
			mux.HandleFunc(prefix+"/json/version", strict(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, `{"Browser":"Chrome/1","webSocketDebuggerUrl":%q}`, tc.named)
			}))
			mux.HandleFunc(prefix+"/devtools/browser/id-1", strict(func(w http.ResponseWriter, r *http.Request) {
				ws, err := websocket.Accept(w, r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				close(upgraded)
				ws.Close(websocket.StatusNormalClosure, "")
			}))
			srv := httptest.NewServer(mux)
			defer srv.Close()

			// A name that only this client knows stands for a container's.
			client := &http.Client{Transport: &http.Transport{
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, srv.Listener.Addr().String())
				},
			}}
			defer client.CloseIdleConnections()
			e := devtools.Endpoint{URL: "http://chrome-7:9222" + tc.path, Client: client}
			to, err := e.Resolve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if want := "ws://chrome-7:9222" + prefix + "/devtools/browser/id-1"; to != want {
				t.Errorf("Resolve() = %s, want %s", to, want)
			}
			ws, err := e.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ws.CloseNow()
			<-upgraded
		})
	}
	for _, bad := range []string{"", "chrome:9222", "ftp://x", "::"} {
		if _, err := (devtools.Endpoint{URL: bad}).Resolve(t.Context()); err == nil {
			t.Errorf("Resolve(%q) has no error", bad)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`"\ud83d"`))
	f.Add([]byte(`"\\\ud83d\ude00\`))
	f.Fuzz(func(t *testing.T, b []byte) {
		clean := devtools.Mend(append([]byte(nil), b...))
		var v any
		if json.Unmarshal(b, &v) == nil && strings.HasPrefix(string(b), `"`) {
			var s string
			if err := jsonv2.Unmarshal(clean, &s); err != nil {
				t.Errorf("%q is JSON to one decoder and after mending %q not to the other: %v", b, clean, err)
			}
		}
	})
}
