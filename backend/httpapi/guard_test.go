package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/glovebox-dev/glovebox/backend/stream"
)

const (
	testToken  = "0123456789abcdef"
	testScript = "\n  a(\"b\") // c\n"
)

// serve starts a server whose only working route is About, and returns its port.
func serve(t *testing.T, asked *int) string {
	t.Helper()
	s := New(Options{
		Hub: &stream.Hub{}, Token: NewToken(testToken), Version: "test", Instance: "i", Built: true,
		Assets: fstest.MapFS{"index.html": {Data: []byte("<title>Glovebox</title><script>" + testScript + "</script><script src=\"assets/a.js\"></script>")}, "assets/a.js": {Data: []byte("1")}},
		About:  func(context.Context) About { *asked++; return About{Version: "test"} },
		Rotate: func() (string, error) { return "fedcba9876543210", nil },
		Images: &asking{asked},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// asking is an Imager that counts the commands that reach it.
type asking struct{ asked *int }

func (a *asking) Images(context.Context) Images        { return Images{} }
func (a *asking) Builds() []Build                      { return nil }
func (a *asking) Build(string) (Build, error)          { *a.asked++; return Build{}, nil }
func (a *asking) Pull(string) (Build, error)           { *a.asked++; return Build{}, nil }
func (a *asking) Remove(context.Context, string) error { *a.asked++; return nil }
func (a *asking) Cancel(context.Context, string, string) (Build, error) {
	*a.asked++
	return Build{}, nil
}

type attempt struct {
	method, path, host, origin, token, contentType, body, protocol string
}

func (a attempt) send(t *testing.T, port string) *http.Response {
	t.Helper()
	method := a.method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:"+port+a.path, strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if a.host != "" {
		req.Host = strings.ReplaceAll(a.host, "PORT", port)
	}
	if a.origin != "" {
		req.Header.Set("Origin", strings.ReplaceAll(a.origin, "PORT", port))
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.contentType != "" {
		req.Header.Set("Content-Type", a.contentType)
	}
	if a.protocol != "" {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "websocket")
		req.Header.Set("Sec-WebSocket-Version", "13")
		req.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		req.Header.Set("Sec-WebSocket-Protocol", a.protocol)
	}
	resp, err := (&http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestGuard_refuses(t *testing.T) {
	asked := 0
	port := serve(t, &asked)
	const about, build, events = "/api/v1/about", "/api/v1/images/build", "/api/v1/events"
	good := "glovebox.v1, token." + testToken
	for _, c := range []struct {
		name string
		attempt
		status int
	}{
		{"another host", attempt{path: about, host: "evil.example:PORT", token: testToken}, 421},
		{"a host that begins like loopback", attempt{path: about, host: "127.evil.com:PORT", token: testToken}, 421},
		{"a host that begins with localhost", attempt{path: about, host: "localhost.evil.com:PORT", token: testToken}, 421},
		{"loopback without a port", attempt{path: about, host: "127.0.0.1", token: testToken}, 421},
		{"loopback with another port", attempt{path: about, host: "127.0.0.1:1", token: testToken}, 421},
		{"another host for the page", attempt{path: "/", host: "evil.example:PORT"}, 421},
		{"another origin", attempt{path: about, origin: "http://evil.example", token: testToken}, 403},
		{"the null origin", attempt{path: about, origin: "null", token: testToken}, 403},
		{"origin equal to a foreign host", attempt{path: about, host: "evil.example:PORT", origin: "http://evil.example:PORT", token: testToken}, 421},
		{"our origin by another scheme", attempt{path: about, origin: "https://127.0.0.1:PORT", token: testToken}, 403},
		{"our origin on another port", attempt{path: about, origin: "http://127.0.0.1:1", token: testToken}, 403},
		{"our other name as origin", attempt{path: about, origin: "http://localhost:PORT", token: testToken}, 403},
		{"no token", attempt{path: about}, 401},
		{"a wrong token", attempt{path: about, token: "0123456789abcdee"}, 401},
		{"an empty token", attempt{path: about, token: " "}, 401},
		{"the token in the address", attempt{path: about + "?token=" + testToken}, 401},
		{"no token and no origin, posting", attempt{method: "POST", path: build}, 401},
		{"a form's text", attempt{method: "POST", path: build, token: testToken, contentType: "text/plain", body: "{}"}, 415},
		{"a form", attempt{method: "POST", path: build, token: testToken, contentType: "application/x-www-form-urlencoded", body: "a=b"}, 415},
		{"no content type", attempt{method: "POST", path: build, token: testToken, body: "{}"}, 415},
		{"posting to the page", attempt{method: "POST", path: "/"}, 401},
		{"a socket without a token", attempt{path: events, protocol: "glovebox.v1"}, 401},
		{"a socket with a wrong token", attempt{path: events, protocol: "glovebox.v1, token.wrong"}, 401},
		{"a socket from another page", attempt{path: events, protocol: good, origin: "http://evil.example"}, 403},
		{"a socket for another host", attempt{path: events, protocol: good, host: "evil.example:PORT"}, 421},
		{"a socket from the null origin", attempt{path: events, protocol: good, origin: "null"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := asked
			resp := c.send(t, port)
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d: %s", resp.StatusCode, c.status, body)
			}
			if asked != before {
				t.Error("the request had an effect")
			}
			if strings.Contains(string(body), testToken) {
				t.Error("the answer holds the token")
			}
			if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("Access-Control-Allow-Origin: %s", got)
			}
		})
	}
}

func TestGuard_lets(t *testing.T) {
	asked := 0
	port := serve(t, &asked)
	for _, host := range []string{"127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT"} {
		for _, origin := range []string{"", "http://" + host} {
			resp := attempt{path: "/api/v1/about", host: host, origin: origin, token: testToken}.send(t, port)
			if resp.StatusCode != 200 {
				t.Errorf("host %s, origin %q: status %d, want 200", host, origin, resp.StatusCode)
			}
		}
	}
	if resp := (attempt{method: "POST", path: "/api/v1/images/build", token: testToken}).send(t, port); resp.StatusCode != 202 {
		t.Errorf("POST without a body: status %d, want 202", resp.StatusCode)
	}
	if asked != 7 {
		t.Errorf("%d requests reached their handler, want 7", asked)
	}
}

func TestGuard_headers(t *testing.T) {
	asked := 0
	port := serve(t, &asked)
	for _, path := range []string{"/", "/assets/a.js", "/nothing", "/api/v1/about", "/api/v1/nothing"} {
		resp := attempt{path: path, token: testToken}.send(t, port)
		csp := resp.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q allows something unsafe", path, csp)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", path, name, got, want)
			}
		}
		if len(resp.Cookies()) > 0 {
			t.Errorf("%s sets a cookie", path)
		}
	}
}

// A script that stands in the page runs by the hash of its text: no other does,
// and nowhere else.
func TestGuard_ownScript(t *testing.T) {
	asked := 0
	port := serve(t, &asked)
	sum := sha256.Sum256([]byte(testScript))
	want := "script-src 'self' 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"
	for _, path := range []string{"/", "/index.html"} {
		if got := (attempt{path: path}).send(t, port).Header.Get("Content-Security-Policy"); !strings.Contains(got, want) {
			t.Errorf("%s: policy %q lacks %s", path, got, want)
		}
	}
	for _, path := range []string{"/assets/a.js", "/nothing", "/api/v1/about"} {
		if got := (attempt{path: path, token: testToken}).send(t, port).Header.Get("Content-Security-Policy"); !strings.Contains(got, "script-src 'self';") {
			t.Errorf("%s: policy %q lets a script in besides the server's", path, got)
		}
	}
}

func TestToken_rotate(t *testing.T) {
	asked := 0
	port := serve(t, &asked)
	if resp := (attempt{method: "POST", path: "/api/v1/token", token: testToken}).send(t, port); resp.StatusCode != 202 {
		t.Fatalf("rotate: status %d, want 202", resp.StatusCode)
	}
	for token, want := range map[string]int{testToken: 401, "fedcba9876543210": 200} {
		if resp := (attempt{path: "/api/v1/about", token: token}).send(t, port); resp.StatusCode != want {
			t.Errorf("token %s: status %d, want %d", token, resp.StatusCode, want)
		}
	}
	tok := NewToken("a")
	ctx, cancel := tok.until(t.Context())
	defer cancel()
	tok.Set("b")
	<-ctx.Done() // a socket of the former token ends
	if NewToken("").matches("") {
		t.Error("no token matches an empty one")
	}
}

func TestServer_bodies(t *testing.T) {
	asked := 0
	port := serve(t, &asked)
	for _, c := range []struct {
		name, body string
		status     int
		field      string
	}{
		{"broken", `{"goal": `, 400, ""},
		{"unknown field", `{"gaol": "x"}`, 400, "gaol"},
		{"two values", `{"goal": "x"} {}`, 400, ""},
		{"wrong type", `{"goal": 7}`, 400, "goal"},
		{"wrong type below", `{"spec": {"image": []}}`, 400, "spec.image"},
		{"no object", `7`, 400, "body"},
		{"too large", `{"goal": "` + strings.Repeat("x", maxBody) + `"}`, 413, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := attempt{method: "POST", path: "/api/v1/sessions", token: testToken, contentType: "application/json", body: c.body}.send(t, port)
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			var answer ErrorResponse
			if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != c.status || answer.Error.Field != c.field {
				t.Errorf("status %d and field %q, want %d and %q: %s", resp.StatusCode, answer.Error.Field, c.status, c.field, body)
			}
			if strings.Contains(string(body), "httpapi.") || strings.Contains(string(body), "Go ") {
				t.Errorf("the answer speaks of Go: %s", body)
			}
		})
	}
}
