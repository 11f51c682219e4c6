package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/egress"
)

// office is an upstream proxy that says what it was asked for, and answers each
// with status. Behind it every address is one server, which speaks first.
type office struct {
	addr   string
	status int

	mu    sync.Mutex
	asked []string
}

func newOffice(t *testing.T, status int) *office {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &office{addr: l.Addr().String(), status: status}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { o.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return o
}

func (o *office) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	o.mu.Lock()
	o.asked = append(o.asked, r.Method+" "+r.RequestURI)
	o.mu.Unlock()
	if o.status == 0 {
		io.WriteString(conn, "SSH-2.0-nonsense\r\n\r\n")
		return
	}
	fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nVia: office\r\n\r\n", o.status)
	if o.status == 200 {
		io.WriteString(conn, "hello first\n")
		io.Copy(conn, in)
	}
}

func (o *office) requests() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.asked, ", ")
}

// tunnel asks the proxy to connect, and returns the first line of its answer.
func (w *world) tunnel(to string) (net.Conn, *bufio.Reader, string) {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", to)
	in := bufio.NewReader(conn)
	answer, err := in.ReadString('\n')
	for line := answer; err == nil && line != "\r\n"; {
		line, err = in.ReadString('\n')
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return conn, in, answer
}

// Public addresses are reached by the upstream proxy, by the very address that
// was judged; others straight. The policy is what it was.
func TestUpstream(t *testing.T) {
	o := newOffice(t, 200)
	straight := newOffice(t, 200) // stands for a server of this machine
	dial := egress.Upstream(o.addr, nil)
	w := newWorld(t, nil, dial, straight.addr)
	w.names.set("web.test", []string{"93.184.216.34"})
	w.names.set("inside.test", []string{"10.1.2.3"})

	conn, in, answer := w.tunnel("web.test:443")
	if !strings.Contains(answer, "200") {
		t.Fatalf("a public address: %s", answer)
	}
	if line, err := in.ReadString('\n'); err != nil || line != "hello first\n" {
		t.Errorf("the server's first words: %q, %v", line, err)
	}
	fmt.Fprintf(conn, "ping\n")
	if line, err := in.ReadString('\n'); err != nil || line != "ping\n" {
		t.Errorf("an echo: %q, %v", line, err)
	}
	if got := o.requests(); got != "CONNECT 93.184.216.34:443" {
		t.Errorf("the upstream proxy was asked for %q", got)
	}
	if _, _, answer := w.tunnel("inside.test:443"); !strings.Contains(answer, "403") {
		t.Errorf("a private address: %s", answer)
	}
	if _, _, answer := w.tunnel(straight.addr); !strings.Contains(answer, "200") {
		t.Errorf("an allowed address of this machine: %s", answer)
	}
	if got := o.requests(); got != "CONNECT 93.184.216.34:443" {
		t.Errorf("the upstream proxy was asked for %q", got)
	}
}

func TestUpstream_refuses(t *testing.T) {
	for name, status := range map[string]int{"it answered 407 Proxy Authentication Required": 407, "it is no HTTP proxy": 0} {
		o := newOffice(t, status)
		if _, err := egress.Upstream(o.addr, nil)(t.Context(), "tcp", "93.184.216.34:443"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := silent.Accept(); err == nil {
			bufio.NewReader(conn).ReadString('\n') // the request is there
			cancel()
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	if _, err := egress.Upstream(silent.Addr().String(), nil)(ctx, "tcp", "93.184.216.34:443"); err == nil {
		t.Error("a silent proxy holds a dial that was given up")
	}
}
