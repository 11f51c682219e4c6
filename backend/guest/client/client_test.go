package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// serve makes a client whose guest is f, called for each connection after the
// greeting.
func serve(t *testing.T, f func(conn net.Conn)) *client.Client {
	t.Helper()
	c := client.New(client.Options{GuestID: "g", Dial: func(context.Context) (net.Conn, error) {
		host, guest := net.Pipe()
		go func() {
			defer guest.Close()
			line, _ := json.Marshal(wire.Greeting{Version: wire.Version, GuestID: "g", Trusted: true})
			if _, err := guest.Write(append(line, '\n')); err == nil {
				f(guest)
			}
		}()
		return host, nil
	}})
	t.Cleanup(func() { c.Close() })
	return c
}

// serveHTTP makes a client whose guest answers by h.
func serveHTTP(t *testing.T, h http.HandlerFunc) *client.Client {
	return serve(t, func(conn net.Conn) {
		l := &oneConn{conn: make(chan net.Conn, 1), done: make(chan struct{})}
		l.conn <- &closing{conn, l.done}
		_ = (&http.Server{Handler: h}).Serve(l)
	})
}

type oneConn struct {
	conn chan net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, io.EOF
	}
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{} }

type closing struct {
	net.Conn
	done chan struct{}
}

func (c *closing) Close() error {
	select {
	case <-c.done:
	default:
		close(c.done)
	}
	return c.Conn.Close()
}

func send(w http.ResponseWriter, kind wire.FrameKind, at int64, payload string) {
	_, _ = w.Write(wire.AppendFrame(nil, wire.Frame{Kind: kind, Offset: at, Payload: []byte(payload)}))
	w.(http.Flusher).Flush()
}

func TestHostileGuest(t *testing.T) {
	answer := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			r := bufio.NewReader(conn)
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			fmt.Fprint(conn, text)
		}
	}
	tests := map[string]func(net.Conn){
		"says nothing and leaves": func(net.Conn) {},
		"is not HTTP":             answer("hello\r\n\r\n"),
		"is not JSON":             answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
		"cuts its answer":         answer("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"),
		"sends elsewhere":         answer("HTTP/1.1 302 Found\r\nLocation: http://example.org/\r\nContent-Length: 0\r\n\r\n"),
		"fails without a reason":  answer("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
		"endless headers":         answer("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20)),
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := serve(t, f).Hello(t.Context()); !errors.Is(err, execenv.ErrUnreachable) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestHostileGuest_greeting(t *testing.T) {
	for name, line := range map[string]string{
		"endless": strings.Repeat("x", 1<<20),
		"garbage": "\x00\x01\n",
		"other":   `{"version":1,"guest_id":"h","trusted":true}` + "\n",
		"future":  `{"version":99,"guest_id":"g","trusted":true}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := client.New(client.Options{GuestID: "g", Dial: func(context.Context) (net.Conn, error) {
				host, guest := net.Pipe()
				go func() {
					defer guest.Close()
					_, _ = io.WriteString(guest, line)
				}()
				return host, nil
			}})
			defer c.Close()
			if _, err := c.Hello(t.Context()); !errors.Is(err, execenv.ErrUnreachable) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestRun_takesACutStreamUpAgain(t *testing.T) {
	var runs, follows atomic.Int32
	c := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathRun {
			runs.Add(1)
			send(w, wire.FrameStarted, 0, "{}")
			send(w, wire.FrameStdout, 0, "one ")
			panic(http.ErrAbortHandler)
		}
		if at := r.URL.Query().Get("stdout"); at != "4" {
			t.Errorf("rejoined at %s", at)
		}
		if follows.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		send(w, wire.FrameStarted, 0, "{}")
		send(w, wire.FrameStdout, 4, "two")
		send(w, wire.FrameOutcome, 0, `{"exit_code":3}`)
	})
	var got strings.Builder
	o, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{Argv: []string{"x"}}, func(ch execenv.Chunk) { got.Write(ch.Data) })
	if err != nil || o.ExitCode != 3 || got.String() != "one two" || runs.Load() != 1 {
		t.Errorf("%+v, %v, output %q, %d runs", o, err, got.String(), runs.Load())
	}
}

func TestRun_hostileFrames(t *testing.T) {
	tests := map[string]func(w http.ResponseWriter){
		"backwards": func(w http.ResponseWriter) {
			send(w, wire.FrameStdout, 10, "x")
			send(w, wire.FrameStdout, 0, "y")
		},
		"negative": func(w http.ResponseWriter) { send(w, wire.FrameStdout, -5, "x") },
		"too large": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("1\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))
		},
		"bad outcome": func(w http.ResponseWriter) { send(w, wire.FrameOutcome, 0, "[") },
		"bad error":   func(w http.ResponseWriter) { send(w, wire.FrameError, 0, "[") },
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some are taken up again for seconds
			c := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { f(w) })
			if o, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{Argv: []string{"x"}}, nil); err == nil {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

// A stop that overtakes its own command still ends it.
func TestRun_stopBeforeTheGuestKnows(t *testing.T) {
	begin, killed := make(chan struct{}), make(chan struct{})
	var kills atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathRun {
			cancel()
			<-begin
			send(w, wire.FrameStarted, 0, "{}")
			<-killed
			send(w, wire.FrameOutcome, 0, `{"exit_code":143}`)
			return
		}
		if kills.Add(1) == 1 {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(wire.Error{Code: wire.CodeUnknownCall})
			close(begin)
			return
		}
		_ = json.NewEncoder(w).Encode(execenv.KillReport{Cause: "stop"})
		close(killed)
	})
	o, err := c.Run(ctx, execenv.Caller{}, execenv.Command{Argv: []string{"x"}}, nil)
	if err != nil || !o.Interrupted || o.Kill == nil || kills.Load() != 2 {
		t.Errorf("%+v, %v after %d kills", o, err, kills.Load())
	}
}

// A guest from before a request was invented has no answer of its own to it.
func TestClient_olderGuest(t *testing.T) {
	old := http.NewServeMux()
	old.HandleFunc("GET "+wire.PathHello, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	c := serveHTTP(t, old.ServeHTTP)
	for name, ask := range map[string]func() error{
		"list": func() error { _, err := c.ListTerminals(t.Context()); return err },
		"open": func() error { _, err := c.OpenTerminal(t.Context(), execenv.TerminalRequest{}); return err },
		"view": func() error { _, err := c.ViewTerminal(t.Context(), "t-1", 0); return err },
	} {
		if err := ask(); !errors.Is(err, execenv.ErrUnsupported) || !strings.Contains(err.Error(), "restart the sandbox") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A view believes its guest as little as everything else does.
func TestTerminalView_hostileGuest(t *testing.T) {
	const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.ProtocolView + "\r\n\r\n"
	out := func(at int64, data string) string {
		return string(wire.AppendFrame(nil, wire.Frame{Kind: wire.FrameStdout, Offset: at, Payload: []byte(data)}))
	}
	for name, sent := range map[string]string{
		"leaves":      "",
		"backwards":   out(10, "later") + out(3, "earlier"),
		"negative":    out(-5, "x"),
		"too large":   "1\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff",
		"no terminal": string(wire.AppendFrame(nil, wire.Frame{Kind: wire.FrameTerminal, Payload: []byte("[")})),
		"cut":         out(0, "whole")[:15],
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(conn net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.WriteString(conn, switched+sent)
				}
			})
			v, err := c.ViewTerminal(t.Context(), "t-1", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			for err == nil {
				_, err = v.Next(t.Context())
			}
			if !errors.Is(err, execenv.ErrUnreachable) {
				t.Errorf("Next() = %v", err)
			}
		})
	}
}
