package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

func TestClick_numbers(t *testing.T) {
	d := newDesk(t, map[string]string{"/": `<title>list</title>
		<button onclick="document.title='one'">One</button>
		<button onclick="list.innerHTML='<button onclick=wrong()>Two</button>'">Redraw</button>
		<div id=list><button onclick="document.title='two'">Two</button></div>
		<a href="/next">Next</a>`, "/next": `<title>next</title><button onclick="document.title='wrong'">One</button>`})
	l := d.visit("/")
	wants(t, l, "<button> One", "<a> Next ("+d.url+"/next)", "list")
	one, two, redraw := number(t, l, "One"), number(t, l, "Two"), number(t, l, "Redraw")

	l = d.click(one)
	if got := d.page("() => document.title"); got != "one" {
		t.Errorf("title = %s", got)
	}
	if again := number(t, l, "One"); again != one {
		t.Errorf("the same button had number %v and has %v", one, again)
	}
	l = d.click(redraw)
	if number(t, l, "Two") == two {
		t.Error("another button has the number of the old one")
	}
	if _, err := d.agent.Click(t.Context(), two); !errors.Is(err, browser.ErrStale) {
		t.Errorf("the old number: %v, want ErrStale", err)
	}
	d.click(number(t, l, "Next"))
	for _, old := range []browser.At{one, two, redraw, {Number: 99999}, {}, {Number: -1}} {
		if _, err := d.agent.Click(t.Context(), old); !errors.Is(err, browser.ErrStale) {
			t.Errorf("%v on another page: %v, want ErrStale", old, err)
		}
	}
	if got := d.page("() => document.title"); got != "next" {
		t.Errorf("title = %s", got)
	}
}

func TestClick_framesAndShadowRoots(t *testing.T) {
	d := newDesk(t, map[string]string{
		"/": `<title>outer</title><h1>top</h1><div style="height:1500px"></div>
			<div id=host></div>
			<iframe name=near src="/inner?near" style="border:7px solid;padding:5px;width:400px;height:200px"></iframe>
			<iframe name=far src="OTHER/nest" style="width:500px;height:400px;transform:scale(.8)"></iframe>
			<script>const r = host.attachShadow({mode: 'open'});
			r.innerHTML = '<div id=in></div>';
			r.getElementById('in').attachShadow({mode: 'open'}).innerHTML = '<button>Deep</button><input placeholder=shade>';
			r.getElementById('in').shadowRoot.querySelector('button').onclick = () => document.title += ' deep';
			addEventListener('message', e => document.title += ' ' + e.data)</script>`,
		"/inner": `<div style="height:600px">tall</div><button onclick="top.postMessage('hit' + location.search, '*')">Inner</button>
			<input id=f placeholder=word oninput="top.postMessage('typed:' + value, '*')">`,
		"/nest": `<iframe src="/inner?far" style="width:300px;height:150px"></iframe>`,
	})
	l := d.visit("/")
	wants(t, l, "In frame \"near\"", "In frame "+d.other+"/inner?far", "Deep")
	d.click(number(t, l, "Deep"))
	title := func() string { return d.page("() => document.title") }
	// What frames post is on its way.
	comes := func(parts ...string) {
		t.Helper()
		lacks := func(part string) bool { return !strings.Contains(title(), part) }
		for limit := time.Now().Add(20 * time.Second); slices.ContainsFunc(parts, lacks) && time.Now().Before(limit); <-time.After(10 * time.Millisecond) {
		}
		if slices.ContainsFunc(parts, lacks) {
			t.Errorf("the title is %q, want %q in it", title(), parts)
		}
	}
	if got := title(); !strings.Contains(got, "deep") {
		t.Errorf("after the button in the shadow root: %s", got)
	}
	for _, e := range l.Elements {
		if e.Name == "Inner" {
			d.click(browser.At{Number: e.Number})
		}
	}
	comes("hit?near", "hit?far")
	for _, e := range l.Elements {
		if e.Name == "word" {
			d.typed(browser.At{Number: e.Number}, "in "+e.Frame[strings.Index(e.Frame, "?"):], false)
		}
	}
	comes("typed:in ?near", "typed:in ?far")
	l = d.do(browser.Action{Kind: browser.Wait, Timeout: 200 * time.Millisecond})
	d.typed(number(t, l, "shade"), "dusk", false)
	if got := d.page("() => host.shadowRoot.getElementById('in').shadowRoot.querySelector('input').value"); got != "dusk" {
		t.Errorf("the field in the shadow root holds %q", got)
	}
	d.click(browser.At{Selector: "button[onclick*=postMessage]"})
	l, err := d.agent.Extract(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, l, "# top", "tall", "# Interactive elements")
}

func TestActed_whereInThePage(t *testing.T) {
	d := newDesk(t, map[string]string{
		"/": `<body style="margin:0;height:4000px"><style>button,input,iframe{position:absolute;left:100px;width:200px;height:40px;border:0}</style>
			<button style="top:10px">Near</button><button style="top:2000px">Far</button><input aria-label=Name style="top:2500px">
			<iframe style="top:3000px;height:300px" src="OTHER/inner"></iframe>`,
		"/inner": `<body style="margin:0"><button style="position:absolute;left:20px;top:50px;width:100px;height:30px;border:0">Inner</button>`,
	})
	l := d.visit("/")
	for _, tt := range []struct {
		name string
		act  func(browser.At) browser.Look
		want browser.Box
	}{
		{"Near", d.click, browser.Box{X: 100, Y: 10, Width: 200, Height: 40}},
		{"Far", d.click, browser.Box{X: 100, Y: 2000, Width: 200, Height: 40}},
		{"Name", func(at browser.At) browser.Look { return d.typed(at, "Kim", false) }, browser.Box{X: 100, Y: 2500, Width: 200, Height: 40}},
		{"Inner", d.click, browser.Box{X: 120, Y: 3050, Width: 100, Height: 30}},
		{"Near", d.click, browser.Box{X: 100, Y: 10, Width: 200, Height: 40}},
	} {
		l = tt.act(number(t, l, tt.name))
		if got := l.Acted.Box; math.Abs(got.X-tt.want.X) > 1 || math.Abs(got.Y-tt.want.Y) > 1 || got.Width != tt.want.Width || got.Height != tt.want.Height {
			t.Errorf("%s was acted on at %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestClick_refusals(t *testing.T) {
	d := newDesk(t, map[string]string{"/": `<title>quiet</title><style>button{width:120px;height:30px}</style>
		<div style="position:relative"><button onclick="document.title='through'">Under</button>
		<div id=veil class=veil style="position:absolute;inset:0;background:#eee">cookies</div></div>
		<div style="position:relative"><button onclick="document.title='half'">Half</button>
		<div style="position:absolute;left:0;top:0;width:70px;height:30px;background:#eee"></div></div>
		<button disabled>Off</button>
		<button id=run style="position:absolute;top:300px;left:0" onclick="document.title='caught'">Run</button>
		<div style="overflow:auto;height:100px;margin-top:250px"><div style="height:2000px"></div><button onclick="document.title='far'">Far</button></div>
		<div style="height:4000px"></div><button onclick="document.title='low'">Low</button>
		<button id=gone style="display:none">Gone</button>
		<script>let x = 0; setInterval(() => run.style.left = (x = (x + 40) % 600) + 'px', 16)</script>`})
	l := d.visit("/")
	wants(t, l, "Off [disabled]", "Low [off-screen]", "Scrolled to 0 of")
	_, err := d.agent.Click(t.Context(), number(t, l, "Under"))
	covered, ok := errors.AsType[*browser.CoveredError](err)
	if !ok || !strings.Contains(covered.By, "div#veil") {
		t.Errorf("a covered button: %v", err)
	}
	if _, err = d.agent.Click(t.Context(), number(t, l, "Off")); !errors.Is(err, browser.ErrDisabled) {
		t.Errorf("a disabled button: %v", err)
	}
	// One that runs is caught or missed, and said to be so; nothing else is hit.
	_, err = d.agent.Click(t.Context(), number(t, l, "Run"))
	if caught := d.page("() => document.title") == "caught"; caught != (err == nil) || (err != nil && !errors.Is(err, browser.ErrMoving)) {
		t.Errorf("a button that runs: caught %v, %v", caught, err)
	}
	d.page("() => { document.title = 'quiet' }")
	if _, err = d.agent.Click(t.Context(), browser.At{Selector: "#gone"}); !errors.Is(err, browser.ErrHidden) {
		t.Errorf("a button that is not shown: %v", err)
	}
	if _, err = d.agent.Click(t.Context(), browser.At{Selector: "#nobody"}); !errors.Is(err, browser.ErrNotFound) {
		t.Errorf("a selector of nothing: %v", err)
	}
	if _, err = d.agent.Click(t.Context(), browser.At{Selector: "a[["}); err == nil || !strings.Contains(err.Error(), "selector") {
		t.Errorf("no selector at all: %v", err)
	}
	if got := d.page("() => document.title"); got != "quiet" {
		t.Errorf("something was clicked: %s", got)
	}
	for _, b := range []string{"Half", "Far", "Low"} {
		d.click(number(t, l, b))
		if got := d.page("() => document.title"); got != strings.ToLower(b) {
			t.Errorf("after %s: %s", b, got)
		}
	}
}

func TestType(t *testing.T) {
	d := newDesk(t, map[string]string{"/": `<title>form</title><form action=/echo>
		<label>Name <input name=name value=old></label>
		<input name=short maxlength=3 placeholder=short>
		<input name=word type=password placeholder=word value=old>
		<textarea name=area placeholder=area></textarea>
		<input name=day type=date aria-label=day>
		<select name=size aria-label=size><option value=s>Small<option value=l>Large</select>
		<div contenteditable=true aria-label=edit oninput="hid.value=textContent">was</div><input type=hidden id=hid name=edit>
		<input type=checkbox name=box aria-label=box><input readonly aria-label=fixed><button>Send</button>
		</form>`})
	l := d.visit("/")
	wants(t, l, `<input type=text> Name = "old"`, `= (a password)`, `options ["Small" "Large"]`)
	d.typed(number(t, l, "Name"), "Ünal & 漢字", false)
	wants(t, d.typed(number(t, l, "short"), "abcdef", false), `The field holds "abc" now`)
	lacks(t, d.typed(number(t, l, "word"), "hunter2", false), "hunter2")
	d.typed(number(t, l, "area"), "two\nlines", false)
	d.typed(number(t, l, "day"), "2026-12-31", false)
	d.typed(number(t, l, "edit"), "now", false)
	d.do(browser.Action{Kind: browser.Select, At: number(t, l, "size"), Values: []string{"Large"}})
	wants(t, d.click(number(t, l, "box")), "box [checked]")
	for _, tc := range []struct {
		at   browser.At
		text string
	}{{number(t, l, "fixed"), "x"}, {number(t, l, "size"), "x"}, {number(t, l, "box"), "x"}, {number(t, l, "day"), "tomorrow"}} {
		if _, err := d.agent.Type(t.Context(), tc.at, tc.text, false); !errors.Is(err, browser.ErrWrongKind) {
			t.Errorf("Type(%v): %v, want ErrWrongKind", tc.at, err)
		}
	}
	if _, err := d.agent.Do(t.Context(), browser.Action{Kind: browser.Select, At: number(t, l, "size"), Values: []string{"Huge"}}); !errors.Is(err, browser.ErrNotFound) || !strings.Contains(err.Error(), "Small") {
		t.Errorf("an option that is not there: %v", err)
	}
	wants(t, d.typed(number(t, l, "Name"), "", false), "<input type=text> Name\n")
	wants(t, d.typed(number(t, l, "day"), "", false), "<input type=date> day\n")
	d.typed(number(t, l, "day"), "2026-12-31", false)
	d.typed(number(t, l, "Name"), "last", true)
	if got := d.page("() => document.body.innerText"); got != "got name=last&short=abc&word=hunter2&area=two%0D%0Alines&day=2026-12-31&size=l&edit=now&box=on" {
		t.Errorf("submitted: %s", got)
	}
}

func TestDialog(t *testing.T) {
	d := newDesk(t, map[string]string{"/": `<title>d</title>
		<button onclick="alert('Saved');alert('Again')">Alert</button>
		<button onclick="document.title='said '+confirm('Delete?')">Confirm</button>
		<button onclick="document.title='name '+prompt('Name?','x')">Prompt</button>
		<button onclick="document.title='plain'">Plain</button>
		<a href="/away">Away</a><input aria-label=dirt oninput="dirty=true">
		<script>let dirty = false; addEventListener('beforeunload', e => { if (dirty) { e.preventDefault(); e.returnValue = 'x' } })</script>`,
		"/away": "<title>away</title>"})
	l := d.visit("/")
	wants(t, d.click(number(t, l, "Alert")), `alert "Saved" was accepted`, `alert "Again" was accepted`, "<button> Plain")

	began := time.Now()
	wants(t, d.click(number(t, l, "Confirm")), `confirm "Delete?" is open`)
	if took := time.Since(began); took >= 10*time.Second { // after which inputs and dialogs are given up
		t.Errorf("a click that opens a dialog took %v", took)
	}
	wants(t, d.do(browser.Action{Kind: browser.Dialog, Accept: true}), `confirm "Delete?" was accepted`, "said true")

	d.click(number(t, l, "Confirm")) // the numbers of before the dialog hold: same page, same buttons
	if _, err := d.agent.Screenshot(t.Context(), browser.Shot{}); err != nil {
		t.Fatalf("a screenshot under a dialog: %v", err)
	}
	if got := d.page("() => document.title"); got != "said false" {
		t.Errorf("a dialog that was not answered: %s", got)
	}
	l, err := d.agent.Extract(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.click(number(t, l, "Prompt"))
	d.do(browser.Action{Kind: browser.Dialog, Accept: true, Text: "Ann"})
	if got := d.page("() => document.title"); got != "name Ann" {
		t.Errorf("a prompt: %s", got)
	}
	if _, err := d.agent.Do(t.Context(), browser.Action{Kind: browser.Dialog}); !errors.Is(err, tabs.ErrNoDialog) {
		t.Errorf("answering nothing: %v", err)
	}
	d.typed(number(t, l, "dirt"), "x", false)
	wants(t, d.click(number(t, l, "Away")), "beforeunload", "away")
}

func TestPopup(t *testing.T) {
	d := newDeskIn(t, browsertest.Alone, map[string]string{
		"/": `<title>main</title><a target=_blank href="/new">Blank</a>
			<button onclick="setTimeout(() => window.open('/late'), 100)">Late</button>
			<button onclick="window.open('/brief')">Brief</button><a target=_blank href="/file">File</a><a href="/file">Direct</a>`,
		"/new": "<title>new</title>", "/late": "<title>late</title>",
		"/brief": `<title>brief</title><script>setTimeout(close, 50)</script><img src="/silent">`, // it is not there before it closes
	})
	l := d.visit("/")
	main := l.Tab.Number
	l2 := d.click(number(t, l, "Blank"))
	wants(t, l2, "is the active tab now. It shows "+d.url+"/new", "new ("+d.url+"/new)")
	if l2.Tab.Number == main {
		t.Error("the new tab is not the one that is looked at")
	}
	if _, err := d.agent.Click(t.Context(), number(t, l, "Late")); !errors.Is(err, browser.ErrStale) {
		t.Errorf("a number of the other tab: %v", err)
	}
	l = d.do(browser.Action{Kind: browser.Tabs, Op: "close"})
	wants(t, l, "main", "Brief")
	wants(t, d.click(number(t, l, "Late")), d.url+"/late")
	// A page may tell its title after it was shown.
	l = d.do(browser.Action{Kind: browser.Tabs})
	for limit := time.Now().Add(20 * time.Second); !strings.Contains(l.Text, "late (") && time.Now().Before(limit); <-time.After(20 * time.Millisecond) {
		l = d.do(browser.Action{Kind: browser.Tabs})
	}
	wants(t, l, "Tab 1: main", "[active]: late")
	l = d.do(browser.Action{Kind: browser.Tabs, Op: "switch", Tab: main})
	l = d.click(number(t, l, "Brief"))
	wants(t, l, "main")
	l = d.click(number(t, l, "File"))
	wants(t, l, `Downloaded "report.csv", 8 bytes, to `+filepath.Join(d.files, "report.csv"), "main (")
	if n := len(d.tabs.State().Tabs); n != 2 {
		t.Errorf("%d tabs are open, want 2", n)
	}
	l = d.click(number(t, l, "Direct"))
	wants(t, l, "Downloaded", "8 bytes")
	wants(t, d.do(browser.Action{Kind: browser.Downloads}), "report.csv: done, 8 bytes")
	b, err := os.ReadFile(filepath.Join(d.files, "report.csv"))
	if err != nil || string(b) != "a,b\n1,2\n" {
		t.Errorf("the file: %q, %v", b, err)
	}
	for range 4 {
		if l, err = d.agent.Do(t.Context(), browser.Action{Kind: browser.Tabs, Op: "new"}); err != nil {
			break
		}
	}
	if !errors.Is(err, tabs.ErrTabs) {
		t.Errorf("too many tabs: %v", err)
	}
}

// A page that is busy after a click has its time for what the click leads to.
func TestPopup_ofABusyPage(t *testing.T) {
	d := newDesk(t, map[string]string{
		"/": `<title>main</title><button onclick="setTimeout(() => window.open('/late'), 100); setTimeout(() => {
			for (const began = performance.now(); performance.now() < began + 900;);
		}, 50)">Late</button>`,
		"/late": "<title>late</title>",
	})
	wants(t, d.click(number(t, d.visit("/"), "Late")), "is the active tab now. It shows "+d.url+"/late")
}

func TestActions(t *testing.T) {
	d := newDesk(t, map[string]string{
		"/": `<title>acts</title><style>#tip{display:none} #tipped:hover + #tip{display:block}</style>
			<button id=tipped>Tipped</button><div id=tip><a href="#t">Tip</a></div>
			<input aria-label=keys onkeydown="document.title += ' ' + event.key + (event.ctrlKey ? '^' : '')">
			<input type=file aria-label=file onchange="document.title = files[0].name + files[0].size">
			<button onclick="setTimeout(() => later.innerHTML = '<b id=here>finally</b>', 400)">Later</button><div id=later></div>
			<a href="/two">Two</a><button onclick="console.error('seen', 42)">Log</button>
			<div style="height:3000px"></div><a href="#end">End</a>`,
		"/two": "<title>two</title>",
	})
	l := d.visit("/")
	lacks(t, l, "Tip (")
	wants(t, d.do(browser.Action{Kind: browser.Hover, At: number(t, l, "Tipped")}), "<a> Tip (")
	d.do(browser.Action{Kind: browser.Press, At: number(t, l, "keys"), Keys: "a"})
	d.do(browser.Action{Kind: browser.Press, Keys: "ctrl+B"})
	l = d.do(browser.Action{Kind: browser.Press, Keys: "ArrowDown"})
	wants(t, l, `keys = "a"`, "acts a Control^ b^ ArrowDown")
	wants(t, d.do(browser.Action{Kind: browser.Press, Keys: "Control+A"}), "a^")
	wants(t, d.do(browser.Action{Kind: browser.Press, Keys: "Backspace"}), "<input type=text> keys\n")
	if _, err := d.agent.Do(t.Context(), browser.Action{Kind: browser.Press, Keys: "Hyper+A"}); !errors.Is(err, browser.ErrWrongKind) {
		t.Errorf("no such key: %v", err)
	}
	wants(t, d.do(browser.Action{Kind: browser.Scroll, Direction: "down", Amount: 700}), "Scrolled to 700 of")
	wants(t, d.do(browser.Action{Kind: browser.Scroll, Direction: "bottom"}), "Two (", "End (")
	wants(t, d.do(browser.Action{Kind: browser.Scroll, Direction: "top"}), "Scrolled to 0 of")

	file := filepath.Join(t.TempDir(), "up.txt")
	if err := os.WriteFile(file, []byte("12345"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.do(browser.Action{Kind: browser.Upload, At: number(t, l, "file"), Files: []string{file}})
	if got := d.page("() => document.title"); got != "up.txt5" {
		t.Errorf("upload: %s", got)
	}
	wants(t, d.click(number(t, l, "file")), "asks for a file")
	d.do(browser.Action{Kind: browser.Upload, Files: []string{file}})

	d.click(number(t, l, "Later"))
	d.do(browser.Action{Kind: browser.Wait, At: browser.At{Selector: "#here"}, Text: "finally"})
	if _, err := d.agent.Do(t.Context(), browser.Action{Kind: browser.Wait, Text: "never", Timeout: 300 * time.Millisecond}); !errors.Is(err, browser.ErrTimeout) {
		t.Errorf("waiting for nothing: %v", err)
	}
	if _, err := d.agent.Do(t.Context(), browser.Action{Kind: browser.Wait, At: browser.At{Selector: "a[["}}); err == nil || errors.Is(err, browser.ErrTimeout) || !strings.Contains(err.Error(), "not a valid selector") {
		t.Errorf("waiting for what is no selector: %v", err)
	}
	d.click(number(t, l, "Log"))
	wants(t, d.do(browser.Action{Kind: browser.Console}), "error: seen 42")
	wants(t, d.click(number(t, l, "Two")), "two (")
	wants(t, d.do(browser.Action{Kind: browser.Back}), "Tipped")
	wants(t, d.do(browser.Action{Kind: browser.Forward}), "two (")
	wants(t, d.do(browser.Action{Kind: browser.Reload}), "two (")
	if _, err := d.agent.Do(t.Context(), browser.Action{Kind: browser.Forward}); !errors.Is(err, tabs.ErrNoHistory) {
		t.Errorf("forward at the end: %v", err)
	}
	if _, err := d.agent.Do(t.Context(), browser.Action{Kind: "dance"}); !errors.Is(err, browser.ErrWrongKind) {
		t.Errorf("no such action: %v", err)
	}
	for _, bad := range []string{"file:///etc/passwd", "chrome://settings", "javascript:alert(1)"} {
		if _, err := d.agent.Navigate(t.Context(), bad); !errors.Is(err, tabs.ErrForbidden) {
			t.Errorf("Navigate(%s): %v, want ErrForbidden", bad, err)
		}
	}
	if _, err := d.agent.Navigate(canceled(t), d.url+"/"); err == nil {
		t.Error("a call whose context has ended went through")
	}
}

func TestExtract(t *testing.T) {
	d := newDesk(t, map[string]string{"/": `<title>doc</title><h1>Head</h1><p>Some <b>bold</b> and <a href="/x">a link</a>.</p>
		<ul><li>one<li>two</ul><table><tr><th>a<th>b<tr><td>1<td>2</table><pre><code>x = 1</code></pre>
		<script>var hidden = "script text"</script><style>.a{}</style><p style="display:none">not shown</p>
		<div id=host></div><script>host.attachShadow({mode:'open'}).innerHTML = '<p>from the shade</p>'</script>
		<img alt="a cat" src="/cat.png">`})
	d.visit("/")
	l, err := d.agent.Extract(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, l, "# Head", "**bold**", "[a link]("+d.url+"/x)", "- one", "x = 1", "from the shade", "![a cat]", "| a | b |", "# Interactive elements\n[")
	lacks(t, l, "script text", "not shown", "<p>")
}

// A name and a password in an address are in nothing that is told of the page, its
// frames, links, dialogs and scripts.
func TestNavigate_withAPassword(t *testing.T) {
	d := newDeskIn(t, browsertest.Alone, map[string]string{
		"/": `<title>in</title><a href="/next">Next</a><p>Here</p><iframe src="/inner"></iframe><img src="/none.png">
			<script>console.error("seen"); alert("hello"); setTimeout(() => { throw new Error("thrown") })</script>`,
		"/inner": `<button>Inner</button><a href="/file">File</a>`,
	})
	l, err := d.agent.Navigate(d.t.Context(), strings.Replace(d.url, "http://", "http://ann:hunter2@", 1)+"/")
	if err != nil {
		t.Fatal(err)
	}
	wants(t, l, "Next", "Inner", "hello")
	whole, err := d.agent.Extract(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, err := browser.ReadOutline(t.Context(), d.tabs.Current())
	if err != nil {
		t.Fatal(err)
	}
	file := d.click(number(t, l, "File"))
	wants(t, file, "Downloaded")
	seen := []any{l, whole, o, file, d.do(browser.Action{Kind: browser.Console}), d.do(browser.Action{Kind: browser.Downloads}), d.tabs.State(), d.tabs.Notices(0)}
	for i, s := range seen {
		if body, err := json.Marshal(s); err != nil || bytes.Contains(body, []byte("hunter2")) {
			t.Errorf("the %dth has the password, or none can tell: %v, %s", i, err, body)
		}
	}
}

func TestStuckAndCrashed(t *testing.T) {
	d := newDesk(t, map[string]string{
		"/":     `<title>fine</title><button onclick="while (true) {}">Spin</button><button onclick="while (true) alert('again')">Nag</button>`,
		"/fine": `<title>fine</title>`,
	})
	l := d.visit("/")
	began := time.Now()
	if _, err := d.agent.Click(t.Context(), number(t, l, "Spin")); !errors.Is(err, tabs.ErrStuck) {
		t.Errorf("a click on an endless script: %v, want ErrStuck", err)
	}
	if took := time.Since(began); took > 70*time.Second {
		t.Errorf("took %v", took)
	}
	wants(t, d.visit("/fine"), "fine")
	_, err := d.agent.Click(t.Context(), number(t, d.visit("/"), "Nag"))
	if !errors.Is(err, tabs.ErrStuck) || strings.Count(err.Error(), "again") > 50 {
		t.Errorf("a click on dialogs without end: %.2000v", err)
	}
	wants(t, d.visit("/fine"), "fine")
	d.tabs.Current().Session().Post("Page.crash", nil)
	await(t, d.tabs, "the crash", func() bool { return d.tabs.Current().Info().Crashed })
	if _, err := d.agent.Extract(t.Context()); !errors.Is(err, tabs.ErrCrashed) {
		t.Errorf("a look at a crashed page: %v, want ErrCrashed", err)
	}
	wants(t, d.visit("/"), "Spin")
}

func TestLease(t *testing.T) {
	d := newDesk(t, map[string]string{"/": `<title>main</title><button onclick="document.title+='!'">Go</button>`})
	l := d.visit("/")
	at := number(t, l, "Go")
	if _, err := d.lease.Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if _, ok := errors.AsType[*control.HeldError](err); !ok || !strings.Contains(err.Error(), "a person has taken control") {
			t.Errorf("%s during a hold: %v", what, err)
		}
	}
	_, err := d.agent.Click(t.Context(), at)
	refused("click", err)
	_, err = d.agent.Navigate(t.Context(), d.url+"/")
	refused("navigate", err)
	_, err = d.agent.Type(t.Context(), at, "x", false)
	refused("type", err)
	_, err = d.agent.Screenshot(t.Context(), browser.Shot{})
	refused("screenshot", err)
	_, err = d.agent.Extract(t.Context())
	refused("extract", err)
	for _, kind := range []string{browser.Scroll, browser.Press, browser.Back, browser.Tabs, browser.Wait, browser.Console, browser.Dialog} {
		_, err = d.agent.Do(t.Context(), browser.Action{Kind: kind})
		refused(kind, err)
	}
	d.lease.GiveBack("ann")
	if _, err := d.agent.Click(t.Context(), at); !errors.Is(err, control.ErrLook) {
		t.Errorf("a click without a look: %v, want ErrLook", err)
	}
	if got := d.page("() => document.title"); got != "main" {
		t.Errorf("something went through: %s", got)
	}
	if _, err := d.agent.Screenshot(t.Context(), browser.Shot{}); err != nil {
		t.Fatal(err)
	}
	d.click(at)
	if got := d.page("() => document.title"); got != "main!" {
		t.Errorf("after a look: %s", got)
	}
}

// TestBrowserThatDies kills the browser under an agent: one call fails and says
// so, or none does, and the next works with the browser that was started again.
func TestBrowserThatDies(t *testing.T) {
	t.Parallel()
	chrome := browsertest.Own(t)
	var mu sync.Mutex
	at := chrome.URL
	b := tabs.New(tabs.Options{Dial: func(ctx context.Context) (*websocket.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		return devtools.Endpoint{URL: at}.Dial(ctx)
	}})
	defer b.Close()
	agent := browser.NewAgent(browser.Options{Browser: b})
	if _, err := agent.Navigate(t.Context(), "about:blank"); err != nil {
		t.Fatal(err)
	}
	chrome.Kill()
	await(t, b, "the end of the connection", func() bool { return !b.State().Connected })
	if _, err := agent.Extract(t.Context()); !errors.Is(err, tabs.ErrUnreachable) {
		t.Errorf("with no browser: %v, want ErrUnreachable", err)
	}
	mu.Lock()
	at = browsertest.Own(t).URL
	mu.Unlock()
	if _, err := agent.Click(t.Context(), browser.At{Number: 1}); !errors.Is(err, browser.ErrStale) {
		t.Errorf("an old number at a new browser: %v, want ErrStale", err)
	}
	l, err := agent.Extract(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, l, "about:blank")
}
