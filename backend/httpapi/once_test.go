package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/stream"
)

// commands is a server whose one command is do.
func commands(t *testing.T, do http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := New(Options{Hub: &stream.Hub{}, Token: NewToken(testToken), Log: slog.New(slog.DiscardHandler)})
	server := httptest.NewServer(s.guard(s.once(do)))
	t.Cleanup(server.Close)
	s.setHosts(server.Listener.Addr())
	return server
}

// sendNamed sends a command, and returns its answer's status, type and body; status
// 0 where none came.
func sendNamed(ctx context.Context, t *testing.T, server *httptest.Server, method, path, key, body string) (status int, contentType, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set(keyHeader, key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

// A command with a name has its effect once, and one answer; what differs in
// anything is another command.
func TestOnce(t *testing.T) {
	var done atomic.Int32
	server := commands(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/x-test")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, strconv.Itoa(int(done.Add(1)))+string(body))
	})
	for _, c := range []struct{ name, method, path, key, body, want string }{
		{"first", "POST", "/api/v1/a", "k", "{}", "1{}"},
		{"again", "POST", "/api/v1/a", "k", "{}", "1{}"},
		{"another path", "POST", "/api/v1/b", "k", "{}", "2{}"},
		{"another method", "DELETE", "/api/v1/a", "k", "{}", "3{}"},
		{"another key", "POST", "/api/v1/a", "l", "{}", "4{}"},
		{"the first again", "POST", "/api/v1/a", "k", "{}", "1{}"},
		{"without a key", "POST", "/api/v1/a", "", "{}", "5{}"},
		{"without a key again", "POST", "/api/v1/a", "", "{}", "6{}"},
	} {
		status, kind, text := sendNamed(t.Context(), t, server, c.method, c.path, c.key, c.body)
		if status != http.StatusTeapot || kind != "text/x-test" || text != c.want {
			t.Errorf("%s: %d %s %q, want %q", c.name, status, kind, text, c.want)
		}
	}
	for range 2 {
		if _, _, text := sendNamed(t.Context(), t, server, "GET", "/api/v1/a", "k", ""); !strings.HasPrefix(text, strconv.Itoa(int(done.Load()))) {
			t.Errorf("a read was answered from what was kept: %q", text)
		}
	}
	before := done.Load()
	if status, _, text := sendNamed(t.Context(), t, server, "POST", "/api/v1/a", "k", "[]"); status != http.StatusUnprocessableEntity || !strings.Contains(text, "key_used") {
		t.Errorf("a key with another body: %d %s", status, text)
	}
	if status, _, text := sendNamed(t.Context(), t, server, "POST", "/api/v1/a", strings.Repeat("k", maxKey+1), "{}"); status != http.StatusBadRequest || !strings.Contains(text, "invalid_key") {
		t.Errorf("a long key: %d %s", status, text)
	}
	if done.Load() != before {
		t.Error("a refused command was carried out")
	}
}

// Who sends a command again while it is carried out waits for it; it does not end
// with who sent it first.
func TestOnce_joins(t *testing.T) {
	var done atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	server := commands(t, func(w http.ResponseWriter, r *http.Request) {
		done.Add(1)
		close(begun)
		<-goOn
		if err := r.Context().Err(); err != nil {
			t.Errorf("it ended with who had sent it: %v", err)
		}
		reply(w, http.StatusAccepted, Accepted{SessionID: "s"})
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan int)
	go func() {
		status, _, _ := sendNamed(ctx, t, server, "POST", "/api/v1/a", "k", "{}")
		left <- status
	}()
	<-begun
	leave()
	if status := <-left; status != 0 {
		t.Fatalf("the first had an answer: %d", status)
	}
	joined := make(chan int)
	go func() {
		status, _, _ := sendNamed(t.Context(), t, server, "POST", "/api/v1/a", "k", "{}")
		joined <- status
	}()
	close(goOn)
	if status := <-joined; status != http.StatusAccepted {
		t.Errorf("the second: status %d", status)
	}
	if done.Load() != 1 {
		t.Errorf("it was carried out %d times", done.Load())
	}
}

// A command that panicked has failed for all who waited, and is tried anew by who
// asks again.
func TestOnce_fails(t *testing.T) {
	var done atomic.Int32
	server := commands(t, func(w http.ResponseWriter, _ *http.Request) {
		if done.Add(1) == 1 {
			panic("first")
		}
		reply(w, http.StatusAccepted, Accepted{})
	})
	for _, want := range []int{http.StatusInternalServerError, http.StatusAccepted, http.StatusAccepted} {
		if status, _, text := sendNamed(t.Context(), t, server, "POST", "/api/v1/a", "k", "{}"); status != want || strings.Contains(text, "first") {
			t.Errorf("%d %s, want %d", status, text, want)
		}
	}
	if done.Load() != 2 {
		t.Errorf("it was carried out %d times, want 2", done.Load())
	}
}

// What is kept is bounded in number and size.
func TestOnce_bounded(t *testing.T) {
	var n named
	carryOut := func(name string, size int) bool {
		k, isFirst := n.take(name, [32]byte{})
		if isFirst {
			_, _ = k.Write(make([]byte, size))
			n.done(name, k)
		}
		return isFirst
	}
	for i := range 3 * maxKept {
		carryOut(strconv.Itoa(i), 1)
	}
	if len(n.commands) != maxKept || len(n.answered) != maxKept {
		t.Errorf("%d commands and %d answers are kept, want %d", len(n.commands), len(n.answered), maxKept)
	}
	if carryOut(strconv.Itoa(3*maxKept-1), 1) || !carryOut("0", 1) {
		t.Error("the newest are not what is kept")
	}
	if !carryOut("large", maxKeptBody+1) || !carryOut("large", 1) || carryOut("large", 1) {
		t.Error("a large answer is kept, or its name does not work afterwards")
	}
}
