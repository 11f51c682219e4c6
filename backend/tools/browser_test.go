package tools_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	_ "image/jpeg"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/task"
)

func TestBrowser_form(t *testing.T) {
	s := newSurf(t, map[string]string{
		"/": `<title>Order</title><form action=/done><label>Name <input name=name></label>
			<select name=size aria-label=size><option value=s>Small<option value=l>Large</select>
			<select name=extra aria-label=extra multiple><option>Milk<option>Sugar</select>
			<button>Send</button></form>`,
		"/done": "<title>Thanks</title><p>It is on its way.",
	})
	l := s.visit("/", "Order (", "<input type=text> Name", `options ["Small" "Large"]`)
	if l.display.Action != "navigate" || l.display.Target != s.url+"/" || l.display.Title != "Order" || l.display.Tab != 1 || l.display.Elements != 4 || l.display.Snapshot == "" {
		t.Errorf("display = %+v", l.display)
	}
	typed := s.ok("browser_type", in{"index": l.index("Name"), "text": "Ünal"}, `Name = "Ünal"`)
	if d := typed.display; d.Secret || d.Box == nil || d.Box.Width < 20 || d.Box.Height < 5 || d.Target != `<input> "Name"` {
		t.Errorf("display = %+v, box %+v", d, d.Box)
	}
	s.ok("browser_select", in{"index": l.index("size"), "values": []string{"Large"}}, `Chose ["Large"]`, `size = "Large"`)
	s.ok("browser_select", in{"selector": "[name=extra]", "values": []string{"Milk", "Sugar"}}, `extra = "Milk, Sugar"`)
	s.ok("browser_select", in{"selector": "[name=extra]", "values": []string{}}, "Chose []")
	s.refused("browser_select", in{"index": l.index("size"), "values": []string{"Huge"}}, `it has no option "Huge", only ["Small" "Large"]`)
	s.refused("browser_type", in{"index": l.index("size"), "text": "Large"}, "browser_select")
	done := s.ok("browser_click", in{"index": l.index("Send")}, `Clicked <button> "Send".`, "Thanks ("+s.url+"/done?name=%C3%9Cnal&size=l)")
	if d := done.display; d.Target != `<button> "Send"` || d.Box == nil || d.Box.X <= 0 || d.URL != s.url+"/done?name=%C3%9Cnal&size=l" {
		t.Errorf("display = %+v, box %+v", d, d.Box)
	}
	s.ok("browser_extract", in{}, "It is on its way.", "# Interactive elements\n(nothing on the page can be acted on)")
	s.ok("browser_back", in{}, "Order (")
	s.ok("browser_forward", in{}, "Thanks (")
	s.refused("browser_forward", in{}, "forward: ")
	s.ok("browser_reload", in{}, "Thanks (")
	s.visit("/")
	s.ok("browser_type", in{"selector": "[name=name]", "text": "Ann", "submit": true}, "Thanks (", "name=Ann")
}

// No result tells what was typed into a field for secrets, also while the page
// shows it in the clear, and the screen is told to hide the call's input.
func TestBrowserType_secrets(t *testing.T) {
	s := newSurf(t, map[string]string{"/": `<title>Sign in</title>
		<input type=password aria-label=word value=old>
		<input autocomplete="section-a one-time-code" aria-label=code oninput="code.textContent = this.value.length"><b id=code></b>
		<input aria-label=plain>`})
	l := s.visit("/")
	for _, field := range []string{"word", "code"} {
		r := s.ok("browser_type", in{"index": l.index(field), "text": "hunter2"}, "Typed into", "= (a password)")
		r.lacks("hunter2")
		if !r.display.Secret {
			t.Errorf("%s: the screen may show it", field)
		}
	}
	if r := s.ok("browser_type", in{"index": l.index("plain"), "text": "open"}); r.display.Secret {
		t.Error("a plain field is taken for a secret")
	}
	s.ok("browser_extract", in{}, "**7**").lacks("hunter2")
	// Nobody knows what would have been typed into.
	if r := s.refused("browser_type", in{"index": 999, "text": "hunter2"}); !r.display.Secret {
		t.Error("a text that went nowhere may be shown")
	} else {
		r.lacks("hunter2")
	}
	s.refused("browser_navigate", in{"url": "http://ann:hunter2@127.0.0.1:1/"}, "127.0.0.1:1").lacks("hunter2")
}

func TestBrowser_dialogs(t *testing.T) {
	s := newSurf(t, map[string]string{"/": `<title>d</title>
		<button onclick="alert('Saved')">Alert</button>
		<button onclick="document.title='said '+confirm('Delete?')">Confirm</button>
		<button onclick="document.title='name '+prompt('Name?','x')">Prompt</button>`})
	l := s.visit("/")
	if r := s.ok("browser_click", in{"index": l.index("Alert")}, `alert "Saved" was accepted`); len(r.display.Notices) != 1 || r.display.Notices[0].Kind != tabs.NoticeDialog {
		t.Errorf("notices = %+v", r.display.Notices)
	}
	s.ok("browser_click", in{"index": l.index("Confirm")}, `confirm "Delete?" is open`, "browser_dialog", `waits for an answer to its confirm "Delete?"`)
	s.ok("browser_dialog", in{"accept": true}, `confirm "Delete?" was accepted`, "said true")
	s.ok("browser_click", in{"index": l.index("Confirm")})
	s.ok("browser_screenshot", in{}) // under a dialog: it is dismissed
	s.ok("browser_extract", in{}, "said false")
	s.ok("browser_click", in{"index": l.index("Prompt")})
	if r := s.ok("browser_dialog", in{"accept": true, "text": "Ann"}, "name Ann"); r.display.Target != "accept" {
		t.Errorf("display = %+v", r.display)
	}
	s.refused("browser_dialog", in{"accept": false}, "dialog: no dialog is open.")
}

func TestBrowser_popupsAndTabs(t *testing.T) {
	s := newSurf(t, map[string]string{
		"/": `<title>main</title><a target=_blank href="/new">Blank</a>
			<button onclick="window.open('/brief')">Brief</button>`,
		"/new": "<title>new</title>", "/brief": `<title>brief</title><script>setTimeout(close, 50)</script><img src="/silent">`, // it is not there before it closes
	})
	s.handler.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	l := s.visit("/")
	popup := s.ok("browser_click", in{"index": l.index("Blank")}, "It shows "+s.url+"/new", "Tab 2 (2 are open): new")
	if popup.display.Tab != 2 || popup.display.URL != s.url+"/new" {
		t.Errorf("display = %+v", popup.display)
	}
	s.refused("browser_click", in{"index": l.index("Blank")}, "not in the newest look", "browser_extract")
	if r := s.ok("browser_tabs", in{}, "Tab 1: main", "Tab 2 [active]: new"); len(r.display.Tabs) != 2 {
		t.Errorf("display = %+v", r.display)
	}
	s.ok("browser_tabs", in{"action": "switch", "tab": 1}, "Tab 1 (2 are open): main")
	l = s.ok("browser_tabs", in{"action": "close", "tab": 2}, "Tab 1 (the only one): main")
	s.ok("browser_click", in{"index": l.index("Brief")}, "Tab 1 (the only one): main")
	s.ok("browser_tabs", in{"action": "new", "url": s.url + "/new"}, "Tab 4 (2 are open): new")
	s.refused("browser_tabs", in{"action": "new", "url": "file:///etc/passwd"}, "only http and https")
	s.refused("browser_tabs", in{"action": "switch", "tab": 99}, "list the tabs")
	s.ok("browser_tabs", in{"action": "close"}, "Tab 1 (the only one): main")
	s.ok("browser_tabs", in{"action": "close"}, "about:blank") // the last one gives way to an empty one
}

// A download is told with the path under which the other tools find it.
func TestBrowser_downloads(t *testing.T) {
	s := newSurfIn(t, browsertest.Alone, map[string]string{"/": `<title>main</title><a href="/file">Get</a><a target=_blank href="/file">Tab</a>`})
	l := s.visit("/")
	path := filepath.Join(s.files, "report.csv")
	s.ok("browser_downloads", in{}, "(none)")
	s.ok("browser_click", in{"index": l.index("Get")}, `Downloaded "report.csv", 8 bytes`, path, "Tab 1 (the only one): main")
	r := s.ok("browser_downloads", in{}, "report.csv: done, 8 bytes, at "+path)
	if d := r.display.Downloads; len(d) != 1 || d[0].Path != path || d[0].Received != 8 {
		t.Errorf("downloads = %+v", d)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "a,b\n1,2\n" {
		t.Errorf("the file: %q, %v", b, err)
	}
	s.ok("browser_click", in{"index": l.index("Tab")}, "Downloaded", "Tab 1 (the only one): main") // no empty tab is left
	s.ok("browser_navigate", in{"url": s.url + "/file"}, "The address is a file", "main (")
}

func TestBrowserClick_whatCannotBeClicked(t *testing.T) {
	s := newSurf(t, map[string]string{"/": `<title>quiet</title><style>button{width:120px;height:30px}</style>
		<div style="position:relative"><button onclick="document.title='through'">Under</button>
		<div id=veil style="position:absolute;inset:0;background:#eee">cookies</div></div>
		<button disabled>Off</button><button id=gone style="display:none">Gone</button>
		<button onclick="this.remove()">Once</button>
		<div style="height:4000px"></div><button onclick="document.title='low'">Low</button>`})
	l := s.visit("/", "Low [off-screen]", "Off [disabled]")
	s.refused("browser_click", in{"index": l.index("Under")}, `is covered by <div#veil> "cookies": close or move that first; nothing was clicked`)
	s.refused("browser_click", in{"index": l.index("Off")}, "it is disabled")
	s.refused("browser_click", in{"selector": "#gone"}, "not visible")
	s.refused("browser_click", in{"selector": "#nobody"}, "nothing on the page matches")
	s.refused("browser_click", in{"selector": "a[["}, "selector")
	s.ok("browser_click", in{"index": l.index("Once")})
	s.refused("browser_click", in{"index": l.index("Once")}, "not in the newest look")
	s.ok("browser_click", in{"index": l.index("Low")}, "low (")
}

func TestBrowser_keysPointerWaitsAndFiles(t *testing.T) {
	s := newSurf(t, map[string]string{"/": `<title>acts</title><style>#tip{display:none} #tipped:hover + #tip{display:block}</style>
		<button id=tipped>Tipped</button><div id=tip><a href="#t">Tip</a></div>
		<input aria-label=keys onkeydown="document.title += ' ' + event.key">
		<input type=file aria-label=file onchange="document.title = files[0].name + files[0].size">
		<button onclick="setTimeout(() => later.innerHTML = '<b id=here>finally</b>', 400)">Later</button><div id=later></div>
		<button onclick="console.error('seen', 42)">Log</button>
		<div style="height:3000px"></div><a href="#end">End</a>`})
	l := s.visit("/")
	s.ok("browser_hover", in{"index": l.index("Tipped")}, "<a> Tip (")
	s.ok("browser_press", in{"index": l.index("keys"), "keys": "a"})
	s.ok("browser_press", in{"keys": "ArrowDown"}, "acts a ArrowDown", `keys = "a"`)
	s.refused("browser_press", in{"keys": "Hyper+A"}, "press: ")
	s.ok("browser_scroll", in{"direction": "down", "amount": 700}, "Scrolled to 700 of")
	s.ok("browser_scroll", in{}, "Scrolled to 1300 of")
	s.ok("browser_scroll", in{"direction": "top"}, "Scrolled to 0 of", "End (", "[off-screen]")
	r := s.ok("browser_scroll", in{"index": l.index("End")})
	if strings.Contains(r.Text[strings.Index(r.Text, "End ("):], "[off-screen]") {
		t.Errorf("the element is not in view: %s", r.Text)
	}

	s.put("up.txt", "12345")
	s.ok("browser_upload", in{"index": l.index("file"), "files": []string{"up.txt"}}, "up.txt5")
	s.ok("browser_click", in{"index": l.index("file")}, "asks for a file", "browser_upload")
	s.ok("browser_upload", in{"files": []string{s.path("up.txt")}})

	s.ok("browser_click", in{"index": l.index("Later")})
	s.ok("browser_wait", in{"selector": "#here", "text": "finally", "url": s.url})
	late := s.want(task.CallTimeout, "browser_wait", in{"text": "never", "timeout": 300}, `wait for text "never"`, "look at the page and decide")
	if late.display.Target != `text "never"` {
		t.Errorf("display = %+v", late.display)
	}
	s.ok("browser_wait", in{"timeout": 10}, "Tab 1 (the only one)")
	s.ok("browser_click", in{"index": l.index("Log")})
	r = s.ok("browser_console", in{}, "error: seen 42")
	if c := r.display.Console; len(c) == 0 || c[len(c)-1].Level != "error" || c[len(c)-1].Text != "seen 42" {
		t.Errorf("console = %+v", c)
	}
}

func TestBrowser_whatIsNotOpened(t *testing.T) {
	s := newSurf(t, nil)
	for _, url := range []string{"file:///etc/passwd", "chrome://settings", "javascript:alert(1)", "data:text/html,hi", "view-source:http://a/", "ftp://a/b"} {
		s.refused("browser_navigate", in{"url": url}, "only http and https pages are opened", "http.server")
	}
	s.ok("browser_navigate", in{"url": "about:blank"}, "about:blank")
	s.refused("browser_navigate", in{"url": "http://127.0.0.1:1/"}, "open http://127.0.0.1:1/: net::ERR_")
	s.handler.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		if user, word, ok := r.BasicAuth(); !ok || user != "ann" || word != "hunter2" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "<title>inside</title>")
	})
	s.refused("browser_navigate", in{"url": s.url + "/auth"}, "asks for a user name and a password")
	s.ok("browser_navigate", in{"url": strings.Replace(s.url, "://", "://ann:hunter2@", 1) + "/auth"}, "inside").lacks("hunter2")
}

func TestBrowser_loadWithoutEnd(t *testing.T) {
	s := newSurf(t, nil)
	s.handler.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>slow</title><button>Here</button>"+strings.Repeat(" ", 4096))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	l := s.ok("browser_navigate", in{"url": s.url + "/slow"}, "has not finished loading", "<button> Here")
	s.ok("browser_click", in{"index": l.index("Here")}, "<button> Here")
	s.ok("browser_navigate", in{"url": "about:blank"})
}

func TestBrowser_crash(t *testing.T) {
	s := newSurf(t, map[string]string{"/": `<title>fine</title><button>Go</button>`})
	l := s.visit("/")
	s.tabs.Current().Session().Post("Page.crash", nil)
	for bell := s.tabs.Watch(); !s.tabs.Current().Info().Crashed; bell = s.tabs.Watch() {
		<-bell
	}
	s.refused("browser_extract", in{}, "the page crashed; reload it, navigate to open a page again")
	s.refused("browser_click", in{"index": l.index("Go")}, "crashed")
	s.visit("/", "<button> Go")
}

func TestBrowser_heldByAPerson(t *testing.T) {
	s := newSurf(t, map[string]string{"/": `<title>main</title><button onclick="document.title+='!'">Go</button>`})
	l := s.visit("/")
	goButton := in{"index": l.index("Go")}
	if _, err := s.lease.Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool  string
		input in
	}{
		{"browser_navigate", in{"url": s.url}}, {"browser_click", goButton}, {"browser_type", in{"index": 1, "text": "x"}}, {"browser_extract", in{}},
		{"browser_screenshot", in{}}, {"browser_scroll", in{}}, {"browser_press", in{"keys": "a"}}, {"browser_select", in{"index": 1, "values": []string{"a"}}},
		{"browser_hover", goButton}, {"browser_back", in{}}, {"browser_forward", in{}}, {"browser_reload", in{}}, {"browser_wait", in{}}, {"browser_tabs", in{}},
		{"browser_tabs", in{"action": "new"}}, {"browser_downloads", in{}}, {"browser_console", in{}}, {"browser_dialog", in{"accept": true}},
	} {
		r := s.refused(c.tool, c.input, "a person has taken control of the browser", "look at the page afresh")
		if r.Images != nil || r.display.Picture != nil || r.display.Snapshot != "" {
			t.Errorf("%s shows something of the page during a hold", c.tool)
		}
	}
	s.lease.GiveBack("ann")
	s.refused("browser_click", goButton, "take a fresh look (browser_extract or browser_screenshot)")
	s.ok("browser_extract", in{}).lacks("main!")
	s.ok("browser_click", goButton, "main!")
}

func TestBrowser_stop(t *testing.T) {
	s := newSurf(t, map[string]string{"/": "<title>main</title>"})
	s.visit("/")
	asked := make(chan struct{})
	var once sync.Once
	s.handler.HandleFunc("/never", func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	var stopped time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-asked
		stopped = time.Now()
		cancel()
	}()
	r, err := s.attempt(ctx, "browser_navigate", in{"url": s.url + "/never"})
	<-done
	if err != nil || r.Status != task.CallInterrupted || !strings.Contains(r.Text, "look at the page") {
		t.Errorf("%+v, %v; want it to be interrupted", r, err)
	}
	if took := time.Since(stopped); took > tabs.AnswerTime/2 { // which a server that never answers has
		t.Errorf("took %v after the stop", took)
	}
	if r.Kill == nil || len(r.Kill.Left) != 0 {
		t.Errorf("kill = %+v: nothing of a browser's call runs on", r.Kill)
	}
	s.visit("/", "main (")
}

// A browser in a sandbox may say of a small picture that it is huge: it is passed on
// as it is, and nothing is made room for.
func TestBrowserScreenshot_thatBoasts(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	binary.BigEndian.PutUint32(data[16:], 12_000)
	binary.BigEndian.PutUint32(data[20:], 12_000)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	data = append(data, make([]byte, 2<<20)...)
	s := stubbed(t, &stub{pic: browser.Picture{Data: data, Type: "image/png", Width: 12_000, Height: 12_000, Scale: 1}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := s.ok("browser_screenshot", in{})
	runtime.ReadMemStats(&after)
	if len(r.Images) != 1 || !bytes.Equal(r.Images[0].Data, data) {
		t.Errorf("%d images", len(r.Images))
	}
	if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 64 {
		t.Errorf("%d MiB were allocated for a picture of two", made)
	}
}

func TestBrowserScreenshot(t *testing.T) {
	s := newSurf(t, map[string]string{
		"/":      `<title>pic</title><style>body{margin:0;height:6000px}</style><button style="width:50px;height:40px">Go</button>`,
		"/noise": `<title>noise</title><canvas width=1200 height=700></canvas><script>const c = document.querySelector('canvas').getContext('2d'), d = c.createImageData(1200, 700); for (let i = 0; i < d.data.length; i += 60000) crypto.getRandomValues(d.data.subarray(i, i + 60000)); for (let i = 3; i < d.data.length; i += 4) d.data[i] = 255; c.putImageData(d, 0, 0)</script>`,
	})
	s.visit("/")
	for _, c := range []struct {
		name   string
		input  in
		target string
		w, h   int // 0 for any
	}{
		{"viewport", in{}, "", 1280, 0},
		{"whole page", in{"full_page": true}, "the whole page", 0, 2000},
		{"element", in{"selector": "button"}, `"button"`, 50, 40},
	} {
		r := s.ok("browser_screenshot", c.input, "px of tab 1", "scale ")
		if len(r.Images) != 1 {
			t.Fatalf("%s: %d images", c.name, len(r.Images))
		}
		head, kind, err := image.DecodeConfig(bytes.NewReader(r.Images[0].Data))
		if err != nil {
			t.Fatal(err)
		}
		p := r.display.Picture
		if p == nil || p.Width != head.Width || p.Height != head.Height || r.Images[0].MediaType != "image/"+kind || r.display.Target != c.target {
			t.Errorf("%s: %+v of %s %dx%d, target %q", c.name, p, r.Images[0].MediaType, head.Width, head.Height, r.display.Target)
		}
		if (c.w != 0 && head.Width != c.w) || (c.h != 0 && (head.Height < c.h-1 || head.Height > c.h)) || max(head.Width, head.Height) > 2000 {
			t.Errorf("%s: %d×%d, want %d×%d", c.name, head.Width, head.Height, c.w, c.h)
		}
		if c.name == "whole page" && (p.Scale < 0.32 || p.Scale > 0.34) {
			t.Errorf("%s: scale %v, want a third", c.name, p.Scale)
		}
	}
	s.visit("/noise")
	if r := s.ok("browser_screenshot", in{}); len(r.Images) != 1 || r.Images[0].MediaType != "image/jpeg" || len(r.Images[0].Data) > 2<<20 {
		t.Errorf("a picture that is too large as PNG: %s, %d bytes", r.Images[0].MediaType, len(r.Images[0].Data))
	}
	s.refused("browser_screenshot", in{"index": 999}, "not in the newest look")
}
