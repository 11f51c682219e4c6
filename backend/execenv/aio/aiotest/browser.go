package aiotest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// inside is the address that the server believes itself to have.
const inside = "172.17.0.9:8080"

// browser says where the server's browser is.
func (s *Server) browser(w http.ResponseWriter, _ *http.Request) {
	if s.o.NoBrowser {
		fail(w, http.StatusServiceUnavailable, "browser is not available")
		return
	}
	cdp := "ws://" + inside + "/cdp/devtools/browser/abc?x=1"
	if u, err := url.Parse(s.o.CDP); err == nil && s.o.CDP != "" {
		cdp = "ws://" + inside + "/cdp" + u.Path
	}
	view := map[string]any{"width": 1280, "height": 1024}
	ok(w, map[string]any{"user_agent": "Chrome", "cdp_url": cdp, "vnc_url": "http://" + inside + "/vnc/index.html", "viewport": view})
}

// cdp leads to the browser, under a Host that it answers to.
func (s *Server) cdp() http.Handler {
	u, err := url.Parse(s.o.CDP)
	if err != nil {
		panic(err) // a fault of the test
	}
	to := &url.URL{Scheme: "http", Host: u.Host}
	return http.StripPrefix("/cdp", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = u.Host
		r.Out.Header.Del("Origin")
	}})
}

// Page is a page as the browser tools show it.
type Page struct {
	Markdown string
	Elements []string          // such as "<button>Sign in</button>", numbered from 0
	Clicks   map[string]string // the address that an element leads to
}

// Tools are the browser tools of an MCP server: those that the server in the
// real containers has, over pages that are made up. Its sessions, its faults in
// band, and its way to take a number for whatever had it in the last list are the
// real one's. Set the fields before it is first asked.
type Tools struct {
	Pages map[string]Page   // by address
	Image []byte            // what a screenshot is; a picture that was cut off, if the test wants
	Less  []string          // tools that it has not
	Old   bool              // it lists no tools, and gives no session
	Fail  map[string]string // what a tool says instead of doing its work
	Hook  func(tool string) // called before a tool does its work

	mu      sync.Mutex
	session string // "" before the first, and after a restart
	began   int
	url     string
	list    []string // the elements that numbers are taken for
	calls   []Call
}

// Call is one call of a tool.
type Call struct {
	Tool string
	Args map[string]any
}

// Restart forgets the session, as a new process in the container has.
func (t *Tools) Restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session, t.list = "", nil
}

// Calls are the calls of tools since it was last asked.
func (t *Tools) Calls() []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.calls
	t.calls = nil
	return calls
}

// Sessions is how many have begun.
func (t *Tools) Sessions() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.began
}

// parameters of the tools.
var parameters = map[string][]string{
	"browser_navigate": {"url"}, "browser_screenshot": {"name", "selector", "index", "width", "height", "highlight"},
	"browser_click": {"index"}, "browser_form_input_fill": {"selector", "index", "value", "clear"},
	"browser_select": {"index", "selector", "value"}, "browser_hover": {"index", "selector"}, "browser_evaluate": {"script"},
	"browser_get_clickable_elements": {}, "browser_get_text": {}, "browser_get_markdown": {}, "browser_read_links": {},
	"browser_scroll": {"amount"}, "browser_go_back": {}, "browser_go_forward": {}, "browser_tab_list": {},
	"browser_new_tab": {"url"}, "browser_close_tab": {}, "browser_switch_tab": {"index"}, "browser_press_key": {"key"},
	"browser_get_download_list": {},
}

// ServeHTTP implements the streamable HTTP transport: answers come as a stream of
// one event, which is what the real server's library sends.
func (t *Tools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given := r.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodDelete {
		t.mu.Lock()
		defer t.mu.Unlock()
		if given == t.session {
			t.session = ""
		}
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		fault(w, http.StatusBadRequest, nil, -32700, "Parse error")
		return
	}
	t.mu.Lock()
	known := t.Old || given != "" && given == t.session
	if req.Method == "initialize" {
		t.began++
		if !t.Old {
			t.session = fmt.Sprintf("s-%d-%d", time.Now().UnixNano(), t.began)
			w.Header().Set("Mcp-Session-Id", t.session)
		}
	}
	t.mu.Unlock()
	switch {
	case req.Method == "initialize":
		answer(w, req.ID, map[string]any{
			"protocolVersion": "2024-11-05", "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "Web Browser", "version": "1.2.20"},
		})
	case !known:
		fault(w, http.StatusNotFound, nil, -32001, "Session not found")
	case strings.HasPrefix(req.Method, "notifications/"):
		w.WriteHeader(http.StatusAccepted)
	case req.Method == "tools/list" && !t.Old:
		answer(w, req.ID, map[string]any{"tools": t.tools()})
	case req.Method == "tools/call":
		if t.Hook != nil {
			t.Hook(req.Params.Name)
		}
		t.mu.Lock()
		res := t.call(req.Params.Name, req.Params.Arguments)
		t.mu.Unlock()
		answer(w, req.ID, res)
	default:
		fault(w, http.StatusOK, req.ID, -32601, "Method not found")
	}
}

func answer(w http.ResponseWriter, id json.RawMessage, result any) {
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "result": result}) // maps of plain values
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", body) // the peer may be gone
}

func fault(w http.ResponseWriter, status int, id json.RawMessage, code int, message string) {
	send(w, status, map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}})
}

func (t *Tools) tools() []any {
	all := []any{}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if slices.Contains(t.Less, name) {
			continue
		}
		properties := map[string]any{}
		for _, p := range parameters[name] {
			properties[p] = map[string]any{}
		}
		all = append(all, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object", "properties": properties}})
	}
	return all
}

// said is a result of text; failed is one that is a fault in band.
func said(format string, a ...any) map[string]any {
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": fmt.Sprintf(format, a...)}}, "isError": false}
}

func failed(format string, a ...any) map[string]any {
	res := said(format, a...)
	res["isError"] = true
	return res
}

// call does the work of a tool. t.mu is held.
func (t *Tools) call(name string, args map[string]any) map[string]any {
	t.calls = append(t.calls, Call{name, args})
	if text, ok := t.Fail[name]; ok {
		return failed("%s", text)
	}
	page := t.Pages[t.url]
	switch name {
	case "browser_navigate":
		to, _ := args["url"].(string)
		if _, ok := t.Pages[to]; !ok {
			return failed("Navigation failed net::ERR_NAME_NOT_RESOLVED at %s", to)
		}
		t.url = to
		return said("Navigated to %s\nclickable elements(Might be outdated, if an error occurs with the index element, use browser_get_clickable_elements to refresh it): \n%s", to, t.look())
	case "browser_get_clickable_elements":
		return said("%s", t.look())
	case "browser_get_markdown", "browser_get_text":
		return said("%s", page.Markdown)
	case "browser_click":
		element, ok := t.element(args)
		if !ok {
			return failed("Failed to click element: %v. Error: Cannot read properties of undefined", args["index"])
		}
		if to, ok := page.Clicks[element]; ok {
			t.url = to
		}
		return said("Clicked element: %v", args["index"])
	case "browser_form_input_fill":
		if _, ok := t.element(args); !ok {
			return failed("No form input found for index %v", args["index"])
		}
		return said("Successfully filled index %v with: %q (cleared existing text)", args["index"], args["value"])
	case "browser_screenshot":
		return map[string]any{"content": []any{
			map[string]any{"type": "text", "text": "Screenshot 'undefined' taken at 800x600"},
			map[string]any{"type": "image", "data": t.Image, "mimeType": "image/png"},
		}, "isError": false}
	case "browser_tab_list":
		res := said("Current Tab: [0] one\nAll Tabs: \n[0] Title: one (URL: http://one/)\n[1] Title: two (URL: http://two/)")
		res["structuredContent"] = map[string]any{"tabList": []any{
			map[string]any{"index": 0, "active": true, "title": "one", "url": "http://one/"},
			map[string]any{"index": 1, "active": false, "title": "two", "url": "http://two/"},
		}}
		return res
	case "browser_get_download_list":
		return said(`{"list":[{"suggestedFilename":"report.pdf","state":"completed"}]}`)
	}
	if _, ok := parameters[name]; !ok {
		return failed("MCP error -32602: Tool %s not found", name)
	}
	return said("%s done", name)
}

// look numbers the elements of the page, which are what numbers mean from now on.
func (t *Tools) look() string {
	t.list = t.Pages[t.url].Elements
	var w strings.Builder
	for n, e := range t.list {
		fmt.Fprintf(&w, "[%d]%s\n", n, e)
	}
	return w.String()
}

func (t *Tools) element(args map[string]any) (string, bool) {
	n, ok := args["index"].(float64)
	if !ok || n < 0 || int(n) >= len(t.list) {
		return "", false
	}
	return t.list[int(n)], true
}
