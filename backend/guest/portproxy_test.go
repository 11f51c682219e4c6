//go:build linux

package guest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
)

// portClient is an HTTP client whose connections are the guest's.
func portClient(t *testing.T, c *client.Client) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Connect(ctx) }}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// A server inside gets requests as they were made, without the prefix, and its
// answers come back as they are.
func TestPortProxy(t *testing.T) {
	p := newPlace(t, withRelay)
	guest := p.start()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "echo" {
			conn, buf, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(conn, buf)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.RequestURI, body)
	}))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	http1 := portClient(t, guest)
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http1.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(said)
	}
	for path, want := range map[string]string{
		"/proxy/" + port:                    "POST localhost:" + port + " / x",
		"/proxy/" + port + "/a/b?q=1&r=%2F": "POST localhost:" + port + " /a/b?q=1&r=%2F x",
		"/proxy/" + port + "/a%2Fb%20c":     "POST localhost:" + port + " /a%2Fb%20c x",
	} {
		if status, said := ask("POST", path, "x"); status != http.StatusTeapot || said != want {
			t.Errorf("%s: %d %q, want %q", path, status, said, want)
		}
	}

	_, relay, _ := net.SplitHostPort(p.cfg.Relay)
	_, nobody, _ := net.SplitHostPort(freeAddress())
	for path, want := range map[string]int{
		"/proxy/" + relay + "/":  http.StatusForbidden, // the guest's own
		"/proxy/" + nobody + "/": http.StatusBadGateway,
		"/proxy/0/":              http.StatusBadRequest,
		"/proxy/65536/":          http.StatusBadRequest,
		"/proxy/+" + port + "/":  http.StatusBadRequest,
		"/proxy/0" + port + "/":  http.StatusBadRequest,
		"/proxy/example.com/":    http.StatusBadRequest,
	} {
		if status, said := ask("GET", path, ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, said, want)
		}
	}

	conn, err := guest.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "GET /proxy/%s/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", port)
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("an upgrade: %v, %v", answer, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := in.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("it echoed %q, %v", line, err)
	}
}
