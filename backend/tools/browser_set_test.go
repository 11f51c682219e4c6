package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// What a model is told of the tools is pinned: a change of it is a change of
// every prompt.
func TestBrowser_definitions(t *testing.T) {
	set := tools.NewSet(tools.Browser()...)
	var got bytes.Buffer
	for _, d := range set.Definitions() {
		var schema bytes.Buffer
		if err := json.Indent(&schema, d.Schema, "", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n%s\n%s\n\n", d.Name, d.Description, &schema)
		if !strings.Contains(schema.String(), `"additionalProperties": false`) {
			t.Errorf("%s takes additional properties", d.Name)
		}
		tool, _ := set.Lookup(d.Name)
		if _, asks := tool.(tools.Asker); asks {
			continue
		}
		looks := slices.Contains([]string{"browser_extract", "browser_screenshot", "browser_downloads", "browser_console"}, d.Name)
		if tool.Risk() != tools.RiskHigh || tools.ReadOnly(tool) != looks || tools.Kept(tool) {
			t.Errorf("%s: risk %s, read-only %v, kept %v", d.Name, tool.Risk(), tools.ReadOnly(tool), tools.Kept(tool))
		}
	}
	golden := filepath.Join("testdata", "browser.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("definitions (-want +got); renew with -update:\n%s", diff)
	}
}

// A set without the browser is the same byte for byte, whether or not another
// agent has one.
func TestBrowser_leavesOtherSetsAlone(t *testing.T) {
	bytesOf := func(s *tools.Set) []byte {
		raw, err := json.Marshal(s.Definitions())
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	standard := tools.Standard()
	before := bytesOf(standard)
	with := bytesOf(standard.With(tools.Browser()...))
	if !bytes.Equal(before, bytesOf(standard)) || !bytes.Equal(before, bytesOf(tools.Standard())) {
		t.Error("the set changed when the browser was added to another")
	}
	if bytes.Contains(before, []byte("browser_")) {
		t.Error("the standard set speaks of the browser")
	}
	if !bytes.HasPrefix(with, before[:len(before)-1]) {
		t.Error("the browser's tools do not come after the others")
	}
}

func TestBrowser_inputErrorsNameTheParameter(t *testing.T) {
	b := &stub{}
	s := stubbed(t, b)
	s.put("here.txt", "x")
	for _, c := range []struct {
		tool, input, want string
	}{
		{"browser_navigate", `{}`, "url: required"},
		{"browser_navigate", `{"url": " "}`, "url: must not be empty"},
		{"browser_navigate", `{"url": 5}`, "url: must be a string"},
		{"browser_click", `{}`, "index: required"},
		{"browser_click", `{"index": null}`, "index: required"},
		{"browser_click", `{"index": true}`, "index: must be an integer"},
		{"browser_click", `{"index": "3"}`, "index: must be an integer"},
		{"browser_click", `{"index": 1.5}`, "index: must be an integer"},
		{"browser_click", `{"index": -1}`, "index: must be at least 0"},
		{"browser_click", `{"index": 1, "selector": "a"}`, "selector: not beside index"},
		{"browser_click", `{"index": 1, "x": 2}`, "x: no such parameter; there are index, selector"},
		{"browser_type", `{"index": 1}`, "text: required"},
		{"browser_type", `{"text": "x"}`, "index: required"},
		{"browser_type", `{"index": 1, "text": "x", "submit": "yes"}`, "submit: must be a boolean"},
		{"browser_extract", `{"offset": -1}`, "offset: must be at least 0"},
		{"browser_screenshot", `{"index": 1, "full_page": true}`, "full_page: not beside an element"},
		{"browser_scroll", `{"direction": "in"}`, "direction: must be one of"},
		{"browser_press", `{"keys": ""}`, "keys: must not be empty"},
		{"browser_select", `{"index": 1}`, "values: required"},
		{"browser_select", `{"index": 1, "values": "a"}`, "values: must be an array"},
		{"browser_wait", `{"timeout": 60001}`, "timeout: must be at most 60000"},
		{"browser_tabs", `{"action": "eat"}`, "action: must be one of"},
		{"browser_tabs", `{"action": "switch"}`, "tab: required to switch"},
		{"browser_tabs", `{"tab": 2}`, "tab: not with list"},
		{"browser_tabs", `{"url": "http://a"}`, "use browser_navigate"},
		{"browser_upload", `{"files": []}`, "files: must not be empty"},
		{"browser_upload", `{"files": [""]}`, "must not hold an empty name"},
		{"browser_upload", `{"files": ["nowhere.txt"]}`, "no such file"},
		{"browser_upload", `{"files": ["here.txt", "."]}`, "is not a regular file"},
		{"browser_dialog", `{}`, "accept: required"},
		{"browser_back", `{"steps": 2}`, "steps: no such parameter"},
	} {
		t.Run(c.tool+" "+c.input, func(t *testing.T) {
			tool, _ := s.set.Lookup(c.tool)
			r, err := tool.Run(t.Context(), tools.Call{ID: "c", Input: json.RawMessage(c.input), Env: s.env, Browser: s.open})
			if err != nil || r.Status != task.CallError || !strings.Contains(r.Text, c.want) {
				t.Errorf("%s, %q, %v; want an error with %q", r.Status, r.Text, err, c.want)
			}
		})
	}
	if b.n != 0 {
		t.Errorf("the browser was asked %d times", b.n)
	}
	s.ok("browser_click", in{"index": 0}) // some browsers count from 0
	s.ok("browser_upload", in{"files": []string{"here.txt"}, "index": nil})
}

func TestBrowser_faultsAreTyped(t *testing.T) {
	for _, c := range []struct {
		err    error
		status task.CallStatus // "" when the error itself has to come back
		want   string

		notMade bool
	}{
		{execenv.ErrFenced, "", "", false},
		{&control.HeldError{Viewer: "ann"}, task.CallError, "a person has taken control of the browser", true},
		{control.ErrLook, task.CallError, "take a fresh look (browser_extract", true},
		{&browser.TakenError{Done: true, Told: "Clicked <a>.", Cause: &control.HeldError{Viewer: "ann"}}, task.CallOK, "Clicked <a>. Then a person took control of the browser, so what came of it was not seen; look at the page afresh", false},
		{&browser.TakenError{Cause: control.ErrLook}, task.CallUnknown, "a person took control of the browser in the middle of this call: some of it may have been done", false},
		{browser.ErrStale, task.CallError, "take a fresh look (browser_extract)", false},
		{&browser.CoveredError{What: "<a>", By: "<div#veil>"}, task.CallError, "<a> is covered by <div#veil>: close or move that first", false},
		{browser.ErrTimeout, task.CallTimeout, "look at the page and decide.", false},
		{tabs.ErrStuck, task.CallTimeout, "reload it, navigate elsewhere, or switch to another tab", false},
		{tabs.ErrBroken, task.CallUnknown, "whether it took effect is not known; look at the page again", false},
		{tabs.ErrCrashed, task.CallError, "navigate to open a page again", false},
		{tabs.ErrForbidden, task.CallError, "opened at http://127.0.0.1:8000/", false},
		{&tabs.DialogError{Kind: "confirm", Text: "Sure?"}, task.CallError, `answer it with browser_dialog`, false},
		{fmt.Errorf("%w: %w", tabs.ErrUnreachable, execenv.ErrNoBrowser), task.CallError, "There is no browser in this sandbox", true},
		{fmt.Errorf("%w: %w", tabs.ErrUnreachable, execenv.ErrBrowser), task.CallError, "the next call starts it again", true},
		{fmt.Errorf("%w: %w", tabs.ErrUnreachable, execenv.ErrLost), task.CallLost, "Sandbox lost", false},
		{context.DeadlineExceeded, task.CallTimeout, "did not answer in time", false},
		{errors.New("a page on fire \xff\nand more"), task.CallError, "a page on fire \uFFFD.\nand more", false},
	} {
		for _, call := range []struct {
			tool  string
			input in
		}{{"browser_click", in{"index": 1}}, {"browser_extract", in{}}, {"browser_screenshot", in{}}, {"browser_back", in{}}} {
			t.Run(fmt.Sprint(call.tool, " ", c.err), func(t *testing.T) {
				s := stubbed(t, &stub{err: fmt.Errorf("call: %w", c.err)})
				if c.status == "" {
					if _, err := s.attempt(t.Context(), call.tool, call.input); !errors.Is(err, c.err) {
						t.Errorf("error = %v, want %v", err, c.err)
					}
					return
				}
				if r := s.want(c.status, call.tool, call.input, c.want); r.NotMade != c.notMade {
					t.Errorf("not made %v, want %v", r.NotMade, c.notMade)
				}
			})
		}
	}
}

func TestBrowser_thatCannotBeHad(t *testing.T) {
	s := stubbed(t, &stub{})
	s.open = nil
	s.refused("browser_extract", in{}, "There is no browser in this session")
	for _, c := range []struct {
		err  error
		want string
	}{
		{execenv.ErrNoBrowser, "There is no browser in this sandbox"},
		{execenv.ErrBrowser, "the next call starts it again"},
	} {
		s.open = func(context.Context) (browser.Backend, error) { return nil, fmt.Errorf("open: %w", c.err) }
		if r := s.refused("browser_click", in{"index": 1}, c.want); !r.NotMade {
			t.Errorf("%v: nothing says that the call was not made", c.err)
		}
	}
	s.open = func(context.Context) (browser.Backend, error) { return nil, fmt.Errorf("open: %w", execenv.ErrLost) }
	if r := s.want(task.CallLost, "browser_click", in{"index": 1}, "Sandbox lost"); !r.NotMade {
		t.Error("in a lost sandbox: nothing says that the call was not made")
	}
	s.open = func(context.Context) (browser.Backend, error) { return nil, execenv.ErrUnreachable }
	if _, err := s.attempt(t.Context(), "browser_click", in{"index": 1}); !errors.Is(err, execenv.ErrUnreachable) {
		t.Errorf("error = %v, want ErrUnreachable: the turn waits for the sandbox", err)
	}
}

// A call that a crash cut off is not made again, unless it only looks.
func TestBrowser_takeUp(t *testing.T) {
	b := &stub{}
	s := stubbed(t, b)
	for _, tool := range tools.Browser() {
		if _, asks := tool.(tools.Asker); asks {
			continue
		}
		name := tool.Definition().Name
		before := b.n
		r, err := tool.Run(t.Context(), tools.Call{ID: "old", Boot: "boot0", Input: json.RawMessage(`{}`), Env: s.env, Browser: s.open})
		if err != nil {
			t.Fatal(err)
		}
		if tools.ReadOnly(tool) {
			if r.Status != task.CallOK || b.n != before+1 {
				t.Errorf("%s = %s after %d calls, want a new look", name, r.Status, b.n-before)
			}
			continue
		}
		if r.Status != task.CallUnknown || b.n != before || !strings.Contains(r.Text, "look at the page") {
			t.Errorf("%s = %s after %d calls: %s", name, r.Status, b.n-before, r.Text)
		}
	}
}

// All of a long page can be had, in parts that the answers themselves name.
func TestBrowserExtract_parts(t *testing.T) {
	var page, list strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&page, "Line %d of the page: ünïcödé.\n", i)
	}
	for i := range 900 {
		fmt.Fprintf(&list, "[%d] <button> Button %d with a name\n", i+1, i+1)
		if i == 450 {
			list.WriteString("In frame http://other/:\n")
		}
	}
	head := "alert \"hi\" was accepted.\nTab 1 (the only one): Long (http://long/)\n"
	s := stubbed(t, &stub{look: browser.Look{Text: head + "\n" + page.String() + "\n# Interactive elements\n" + list.String()}})
	first := s.ok("browser_extract", in{}, head, "Line 0 of", "# Interactive elements\n", "[1] <button>", "browser_extract with offset=40000 goes on", "more elements are not shown: browser_extract with skip_elements=")
	if n := len([]rune(first.Text)); n > 61_000 {
		t.Errorf("the first part has %d characters", n)
	}
	if len([]rune(first.display.Snapshot)) > 4000 || !strings.HasPrefix(first.Text, first.display.Snapshot) {
		t.Errorf("the card has %d characters", len(first.display.Snapshot))
	}
	// Put together, the parts are the whole.
	whole := ""
	for offset := 0; ; {
		r := s.ok("browser_extract", in{"offset": offset})
		_, text, _ := strings.Cut(r.Text, "(http://long/)\n")
		text, _, _ = strings.Cut(text, "\n# Interactive elements\n")
		part, note, more := strings.Cut(text, "\n[Characters ")
		whole += part
		if !more {
			break
		}
		if _, err := fmt.Sscanf(note[strings.Index(note, "offset="):], "offset=%d", &offset); err != nil {
			t.Fatal(err)
		}
	}
	if whole != "\n"+page.String() {
		t.Errorf("the parts have %d bytes, want %d", len(whole), page.Len()+1)
	}
	names := ""
	for skip := 0; ; {
		r := s.ok("browser_extract", in{"skip_elements": skip})
		_, text, _ := strings.Cut(r.Text, "# Interactive elements\n")
		at := strings.LastIndex(text, "skip_elements=")
		if at < 0 {
			names += text
			break
		}
		names += text[:strings.LastIndex(text[:at], "[")]
		if _, err := fmt.Sscanf(text[at:], "skip_elements=%d", &skip); err != nil {
			t.Fatal(err)
		}
	}
	if names != list.String() {
		t.Errorf("the lists have %d bytes, want %d", len(names), list.Len())
	}
	s.ok("browser_extract", in{"offset": 10_000_000}, "is past the end")
	// What is no look at the page itself has the head and the list alone.
	s = stubbed(t, &stub{look: browser.Look{Text: head + list.String()}})
	s.ok("browser_click", in{"index": 1}, head, "[1] <button>", "skip_elements=")
}

func TestBrowserExtract_overOneMiB(t *testing.T) {
	text := strings.Repeat("0123456789abcde\n", (1<<20)/16) + "beyond"
	s := stubbed(t, &stub{look: browser.Look{Text: "Tab 1 (the only one): Big (http://big/)\n" + text + "\n# Interactive elements\n[1] <a> x\n"}})
	r := s.ok("browser_extract", in{"offset": 1<<20 - 100}, "The page's text is longer than 1 MiB; it is cut there", "[1] <a> x")
	r.lacks("beyond")
}

func TestBrowserConsole_newestAreKept(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "12:00:00 log: line %d of many\n", i)
	}
	s := stubbed(t, &stub{look: browser.Look{Text: b.String()}})
	s.ok("browser_console", in{}, "older left out]\n", "line 1999 of many").lacks("line 5 of many")
}
