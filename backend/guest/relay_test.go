//go:build linux

package guest_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
)

// withRelay gives the guest a relay on a free port of this machine.
func withRelay(p *place) { p.cfg.Relay = freeAddress() }

// freeAddress is one of this machine that nobody listens at, with a port that the
// kernel gives to nobody who asks for any.
func freeAddress() string {
	for {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", 10_000+mrand.IntN(20_000)))
		if err == nil {
			l.Close()
			return l.Addr().String()
		}
	}
}

// through makes a request by the relay and returns the answer.
func through(t *testing.T, relay, url string) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", relay)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", url)
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return r.StatusCode, string(body)
}

// answering serves a relay's channel with a server that says who it is.
func answering(t *testing.T, c *client.Client, name string) (l net.Listener, done <-chan struct{}) {
	t.Helper()
	l, err := c.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s got %s", name, r.URL)
	})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		l.Close()
		<-over
	})
	return l, over
}

// carried makes one connection by a relay: its outside end is the program's, and
// the stream the end of whoever holds the channel l.
func carried(t *testing.T) (l net.Listener, outside, stream net.Conn) {
	t.Helper()
	p := newPlace(t, withRelay)
	c := p.start()
	l, err := c.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if outside, err = net.Dial("tcp", p.cfg.Relay); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { outside.Close() })
	if stream, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return l, outside, stream
}

func TestRelay_carriesByTheLastChannel(t *testing.T) {
	for name, change := range walls {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, append(change, withRelay)...)
			c := p.start()
			if status, body := through(t, p.cfg.Relay, "http://a.test/"); status != 503 || !strings.Contains(body, "closed at this moment") {
				t.Errorf("without a channel: %d %q", status, body)
			}
			l, _ := answering(t, c, "first")
			if status, body := through(t, p.cfg.Relay, "http://a.test/x"); status != 200 || body != "first got http://a.test/x" {
				t.Errorf("by the channel: %d %q", status, body)
			}
			_, second := answering(t, c, "second")
			if _, err := l.Accept(); !errors.Is(err, io.EOF) {
				t.Errorf("the former channel: %v, want its end", err)
			}
			if _, body := through(t, p.cfg.Relay, "http://a.test/"); !strings.HasPrefix(body, "second") {
				t.Errorf("by the second channel: %q", body)
			}
			p.kill()
			select {
			case <-second:
			case <-time.After(10 * time.Second):
				t.Error("the channel outlives the guest")
			}
		})
	}
}

func TestRelay_endOfTheChannelIsNoCleanEnd(t *testing.T) {
	l, outside, stream := carried(t)
	io.WriteString(stream, "half")
	if _, err := io.ReadFull(outside, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	l.Close()
	_ = outside.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := outside.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("a cut connection reads %d, %v; want a reset", n, err)
	}
}

func TestRelay_halfClose(t *testing.T) {
	_, outside, stream := carried(t)
	io.WriteString(outside, "question")
	outside.(*net.TCPConn).CloseWrite()
	if all, err := io.ReadAll(stream); err != nil || string(all) != "question" {
		t.Fatalf("asked %q, %v", all, err)
	}
	io.WriteString(stream, "answer")
	stream.Close()
	if all, err := io.ReadAll(outside); err != nil || string(all) != "answer" {
		t.Errorf("answered %q, %v", all, err)
	}
}

func TestRelay_failsSOCKSWithoutAChannel(t *testing.T) {
	p := newPlace(t, withRelay)
	p.start()
	conn, err := net.Dial("tcp", p.cfg.Relay)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	answer := make([]byte, 2)
	conn.Write([]byte{5, 1, 0})
	if _, err := io.ReadFull(conn, answer); err != nil || answer[1] != 0 {
		t.Fatalf("greeting % x, %v", answer, err)
	}
	conn.Write([]byte{5, 1, 0, 3, 1, 'a', 0, 80})
	if _, err := io.ReadFull(conn, answer); err != nil || answer[1] != 1 {
		t.Errorf("answer % x, %v; want a general failure", answer, err)
	}
}

func TestRelay_namedToEveryProgram(t *testing.T) {
	p := newPlace(t, withRelay)
	c := p.start()
	want := "http://" + p.cfg.Relay
	names := []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"}
	out := text(sh(t, c, "env").Stdout)
	for _, name := range names {
		if !strings.Contains(out, name+"="+want+"\n") {
			t.Errorf("%s is not %s", name, want)
		}
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		if !strings.Contains(out, name+"=localhost,127.0.0.1,::1\n") {
			t.Errorf("%s does not name the inside", name)
		}
	}
	none := newPlace(t)
	if out := strings.ToLower(text(sh(t, none.start(), "env").Stdout)); strings.Contains(out, "_proxy=") {
		t.Errorf("without a relay there is a proxy in %q", out)
	}
	if _, err := none.client("guest-1", none.secret).Relay(t.Context()); !errors.Is(err, execenv.ErrUnsupported) {
		t.Errorf("Relay of a guest without one: %v", err)
	}
	term, err := c.OpenTerminal(t.Context(), execenv.TerminalRequest{Argv: []string{"/bin/sh", "-c", "env; sleep 60"}, Cols: 200, Rows: 50})
	if err != nil {
		t.Fatal(err)
	}
	view, err := c.ViewTerminal(t.Context(), term.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	seen := ""
	for !strings.Contains(seen, "all_proxy="+want) || !strings.Contains(seen, "HTTP_PROXY="+want) {
		e, err := view.Next(ctx)
		if err != nil {
			t.Fatalf("a terminal's environment is %q: %v", seen, err)
		}
		seen += string(e.Data)
	}
}

// A client that does not read holds back its own connection and no other, and
// takes little memory, however much is on its way.
func TestRelay_slowReaderHoldsNobodyUp(t *testing.T) {
	p := newPlace(t, withRelay)
	c := p.start()
	l, err := c.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	data := make([]byte, 32<<20)
	rand.Read(data)
	open := func() (conn, stream net.Conn) {
		t.Helper()
		conn, err := net.Dial("tcp", p.cfg.Relay)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if stream, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		return conn, stream
	}
	slow, full := open()
	_ = full.SetWriteDeadline(time.Now().Add(time.Second))
	n, err := full.Write(data)
	if err == nil {
		t.Fatal("32 MiB went where nobody reads")
	}
	_ = full.SetWriteDeadline(time.Time{})

	quick, stream := open()
	sent := make(chan error, 1)
	go func() {
		_, err := stream.Write(data)
		stream.Close()
		sent <- err
	}()
	_ = quick.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := io.ReadAll(quick); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("beside a slow one: %d bytes, %v", len(got), err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	stats, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.GuestMemory > 64<<20 {
		t.Errorf("the guest holds %d MiB", stats.GuestMemory>>20)
	}
	go func() {
		_, err := full.Write(data[n:])
		full.Close()
		sent <- err
	}()
	_ = slow.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := io.ReadAll(slow); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the slow one: %d bytes, %v", len(got), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestRelay_manyAtOnce(t *testing.T) {
	p := newPlace(t, withRelay)
	c := p.start()
	answering(t, c, "it")
	const many = 500
	conns := make([]net.Conn, many)
	for i := range conns { // all are open before the first is answered
		conn, err := net.Dial("tcp", p.cfg.Relay)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		conns[i] = conn
	}
	for i, conn := range conns {
		fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", i)
	}
	for i, conn := range conns {
		all, err := io.ReadAll(conn)
		if want := fmt.Sprintf("it got /%d", i); err != nil || !strings.HasSuffix(string(all), want) {
			t.Fatalf("answer %d: %q, %v", i, all, err)
		}
	}
}
