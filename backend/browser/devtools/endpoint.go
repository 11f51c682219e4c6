package devtools

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"
)

// Endpoint is a browser's debugging port as it is reached from here, which is
// rarely as the browser sees it: it answers to the Host names localhost and IP
// addresses alone, and names itself by the Host it was asked under.
type Endpoint struct {
	// URL is where /json/version is found: http://host:9222, or with a path that a
	// relay serves it under (https://host/cdp). A ws or wss URL is the browser's
	// own and is dialled as it stands.
	URL string

	// Client makes the requests, the WebSocket's included; http.DefaultClient when
	// nil. A client without a proxy is right for addresses of this machine.
	Client *http.Client

	// Header is asked before each request, so that a credential is as fresh as it
	// can be; nil for none.
	Header func(ctx context.Context) (http.Header, error)
}

// Dial opens the browser's WebSocket; it is a [DialFunc].
func (e Endpoint) Dial(ctx context.Context) (*websocket.Conn, error) {
	to, err := e.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	header, err := e.header(ctx)
	if err != nil {
		return nil, err
	}
	ws, _, err := websocket.Dial(ctx, to, &websocket.DialOptions{
		HTTPClient: e.Client,
		HTTPHeader: header,
		Host:       e.host(),
		// Frames are JPEG already, and every byte is compressed on two busy cores.
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", bare(to), err)
	}
	return ws, nil
}

// Resolve asks the browser for its WebSocket and returns the URL of it that can
// be dialled from here: ours in scheme, host and path prefix, the browser's in
// what follows.
func (e Endpoint) Resolve(ctx context.Context) (string, error) {
	base, err := url.Parse(e.URL)
	if err != nil || base.Host == "" {
		return "", fmt.Errorf("browser address %q: want http://host:port", e.URL)
	}
	switch base.Scheme {
	case "ws", "wss":
		return e.URL, nil
	case "http", "https":
	default:
		return "", fmt.Errorf("browser address %q: want http, https, ws or wss", e.URL)
	}
	prefix := strings.TrimSuffix(base.Path, "/")

	ask := *base
	ask.Path = prefix + "/json/version"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ask.String(), nil)
	if err != nil {
		return "", err
	}
	header, err := e.header(ctx)
	if err != nil {
		return "", err
	}
	if header != nil {
		req.Header = header
	}
	req.Host = e.host()
	client := e.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask the browser at %s: %w", base.Host, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("ask the browser at %s: %w", base.Host, err)
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ask the browser at %s: status %s", base.Host, res.Status)
	}
	var version struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	if err := json.Unmarshal(body, &version); err != nil || version.URL == "" {
		return "", fmt.Errorf("ask the browser at %s: no webSocketDebuggerUrl in its answer; is it a browser's debugging port?", base.Host)
	}
	named, err := url.Parse(version.URL)
	if err != nil {
		return "", fmt.Errorf("the browser at %s names its address %q: %w", base.Host, version.URL, err)
	}
	to := url.URL{Scheme: "ws", Host: base.Host, Path: named.Path, RawQuery: named.RawQuery}
	if base.Scheme == "https" {
		to.Scheme = "wss"
	}
	if prefix != "" && !strings.HasPrefix(to.Path, prefix+"/") {
		to.Path = prefix + to.Path
	}
	if to.RawQuery == "" {
		to.RawQuery = base.RawQuery
	}
	return to.String(), nil
}

// host is the Host header to ask under: localhost where the browser itself
// answers, the real one where a relay with a path or TLS stands before it and
// picks by name.
func (e Endpoint) host() string {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme == "https" || u.Scheme == "wss" {
		return ""
	}
	if (u.Scheme == "http") && strings.Trim(u.Path, "/") != "" {
		return ""
	}
	return "localhost"
}

func (e Endpoint) header(ctx context.Context) (http.Header, error) {
	if e.Header == nil {
		return nil, nil
	}
	h, err := e.Header(ctx)
	if err != nil {
		return nil, fmt.Errorf("authenticate to the browser: %w", err)
	}
	return h.Clone(), nil
}

// bare is a URL without what may be secret in it.
func bare(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the browser"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}
