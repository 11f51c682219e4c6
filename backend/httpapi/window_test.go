package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/stream"
)

// fakeWindow stands for the desktop window, which needs a display.
type fakeWindow struct{ links, notices []string }

func (w *fakeWindow) PickFolder(_ context.Context, start string) (string, error) {
	return start + "/picked", nil
}
func (w *fakeWindow) OpenLink(address string) error { w.links = append(w.links, address); return nil }
func (w *fakeWindow) Notify(title, body string) error {
	w.notices = append(w.notices, title+"|"+body)
	return nil
}
func (w *fakeWindow) Show() error { panic(nil) }

// ask sends a request to a server as its own page does.
func ask(t *testing.T, s *Server, path, body string) (int, string) {
	t.Helper()
	server := httptest.NewServer(s.guard(s.routes()))
	t.Cleanup(server.Close)
	s.setHosts(server.Listener.Addr())
	return post(t, server.URL, path, body)
}

func post(t *testing.T, server, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestWindow(t *testing.T) {
	w := &fakeWindow{}
	s := New(Options{Hub: &stream.Hub{}, Token: NewToken(testToken), Window: w, Log: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/window/link", `{"url":"https://example.org/a?b=c#d"}`, http.StatusOK},
		{"/window/link", `{"url":"file:///etc/passwd"}`, http.StatusUnprocessableEntity},
		{"/window/link", `{"url":"javascript:alert(1)"}`, http.StatusUnprocessableEntity},
		{"/window/link", `{"url":"http:relative"}`, http.StatusUnprocessableEntity},
		{"/window/link", `{"url":"-oops"}`, http.StatusUnprocessableEntity},
		{"/window/notify", `{"title":"Waits","body":"` + strings.Repeat("é", 2000) + `"}`, http.StatusOK},
		{"/window/notify", `{"tittle":"Waits"}`, http.StatusBadRequest},
	} {
		if status, text := ask(t, s, c.path, c.body); status != c.status {
			t.Errorf("%s %.60s: status %d, want %d: %s", c.path, c.body, status, c.status, text)
		}
	}
	if len(w.links) != 1 || w.links[0] != "https://example.org/a?b=c#d" {
		t.Errorf("opened %q, want the one web address", w.links)
	}
	if len(w.notices) != 1 || len(w.notices[0]) > maxNoticeTitle+1+maxNoticeBody || !strings.HasPrefix(w.notices[0], "Waits|éé") {
		t.Errorf("showed %.80q, want one notice, clipped", w.notices)
	}
	status, text := ask(t, s, "/window/folder", `{"start":"/home"}`)
	var picked FolderResponse
	if err := json.Unmarshal([]byte(text), &picked); err != nil || status != http.StatusOK || picked.Path != "/home/picked" {
		t.Errorf("folder: %d %s", status, text)
	}
}

func TestWindow_none(t *testing.T) {
	s := New(Options{Hub: &stream.Hub{}, Token: NewToken(testToken)})
	if status, text := ask(t, s, "/window/show", ""); status != http.StatusNotImplemented || !strings.Contains(text, "no_window") {
		t.Errorf("show without a window: %d %s", status, text)
	}
}

// A handler that panics, even with nil, fails its request and nothing else.
func TestGuard_panic(t *testing.T) {
	s := New(Options{Hub: &stream.Hub{}, Token: NewToken(testToken), Window: &fakeWindow{}, Log: slog.New(slog.DiscardHandler)})
	for range 2 {
		status, text := ask(t, s, "/window/show", "")
		if status != http.StatusInternalServerError || !strings.Contains(text, `"internal"`) || strings.Contains(text, "panic") {
			t.Errorf("a handler that panics: %d %s", status, text)
		}
	}
	begun := s.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		panic("late")
	}))
	server := httptest.NewServer(begun)
	t.Cleanup(server.Close)
	s.setHosts(server.Listener.Addr())
	resp, err := http.Get(server.URL + "/")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("an answer that was begun and broke off looks whole")
	}
}

// waiting is a window in which a person takes their time to choose a folder.
type waiting struct {
	fakeWindow
	asked chan struct{}
}

func (w *waiting) PickFolder(ctx context.Context, _ string) (string, error) {
	close(w.asked)
	<-ctx.Done()
	return "", ctx.Err()
}

func TestServe_endsRequests(t *testing.T) {
	w := &waiting{asked: make(chan struct{})}
	s := New(Options{Hub: &stream.Hub{}, Token: NewToken(testToken), Window: w, Log: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	go func() {
		<-w.asked
		stop()
	}()
	status, text := post(t, "http://"+l.Addr().String(), "/window/folder", `{}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(text, `"stopping"`) || !strings.Contains(text, "start it again") {
		t.Errorf("a request that the end broke off: %d %s", status, text)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve() = %v", err)
	}
}
