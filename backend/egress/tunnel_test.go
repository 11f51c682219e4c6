package egress_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// pair opens a tunnel by CONNECT to a listener of the test, and returns both ends.
func (w *world) pair(l net.Listener) (client, server net.Conn) {
	w.t.Helper()
	client, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { client.Close() })
	fmt.Fprintf(client, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", l.Addr())
	if server, err = l.Accept(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { server.Close() })
	const established = "HTTP/1.1 200 Connection established\r\n\r\n"
	buf := make([]byte, len(established))
	if _, err := io.ReadFull(client, buf); err != nil || string(buf) != established {
		w.t.Fatalf("CONNECT: %q, %v", buf, err)
	}
	return client, server
}

func TestTunnel_backPressure(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := newWorld(t, nil, nil, "127.0.0.1")
	client, server := w.pair(l)
	data := make([]byte, 32<<20)
	rand.Read(data)
	// Nobody reads: the server is held back instead of filling memory.
	server.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	n, err := server.Write(data)
	if err == nil {
		t.Fatal("32 MiB went where nobody reads")
	}
	t.Logf("held back after %d KiB", n>>10)
	server.SetWriteDeadline(time.Time{})
	go func() {
		server.Write(data[n:])
		server.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("read %d bytes, %v; not what was sent", len(got), err)
	}
}

func TestTunnel_endsWithTheService(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Run("serve", func(t *testing.T) { // whose end waits for Serve
		w := newWorld(t, nil, nil, "127.0.0.1")
		w.pair(l)
	})
}

func TestTunnel_manyAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	defer server.Close()
	w := newWorld(t, nil, nil, "127.0.0.1")
	const many = 500
	begin := make(chan struct{})
	errs := make(chan error, many)
	var ready sync.WaitGroup
	for i := range many {
		ready.Add(1)
		go func() {
			conn, err := net.Dial("tcp", w.addr)
			ready.Done()
			if err != nil {
				errs <- err
				return
			}
			defer conn.Close()
			<-begin
			conn.SetDeadline(time.Now().Add(30 * time.Second))
			fmt.Fprintf(conn, "POST %s/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\n%04d", server.URL, i)
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				errs <- err
				return
			}
			body, err := io.ReadAll(r.Body)
			if want := fmt.Sprintf("%04d", i); err == nil && string(body) != want {
				err = fmt.Errorf("%s %q, want %q", r.Status, body, want)
			}
			errs <- err
		}()
	}
	ready.Wait()
	close(begin)
	for range many {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	w.await("ends", func() bool { return len(w.ended) == many && len(w.decided) == many })
}

func TestWebSocketUpgrade(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			http.Error(w, "no upgrade", 400)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(conn, line)
	}))
	defer server.Close()
	w := newWorld(t, nil, nil, "127.0.0.1")
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "GET %s/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", server.URL)
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != 101 {
		t.Fatalf("upgrade: %v, %v", answer, err)
	}
	io.WriteString(conn, "hello\n")
	if line, err := r.ReadString('\n'); line != "hello\n" {
		t.Errorf("echo %q, %v", line, err)
	}
}
