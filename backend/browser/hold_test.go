package browser_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// A person may give back a page that cannot be looked at. The agent that has tried
// and was told so goes on from there.
func TestLease_givenBackStuck(t *testing.T) {
	pages := map[string]string{"/": "<title>main</title>", "/other": "<title>other</title>"}
	extract := func(d *desk) error { _, err := d.agent.Extract(d.t.Context()); return err }
	shot := func(d *desk) error { _, err := d.agent.Screenshot(d.t.Context(), browser.Shot{}); return err }
	const spin, crash = "spin", "crash" // in the place of a script
	for _, c := range []struct {
		name, script string
		look         func(*desk) error
		want         error
		then         func(*desk) browser.Look
	}{
		{"stuck, extract, navigate", spin, extract, tabs.ErrStuck, func(d *desk) browser.Look { return d.visit("/") }},
		{"stuck, screenshot, reload", spin, shot, tabs.ErrStuck, func(d *desk) browser.Look { return d.do(browser.Action{Kind: browser.Reload}) }},
		{"stuck, extract, another tab", spin, extract, tabs.ErrStuck, func(d *desk) browser.Look { return d.do(browser.Action{Kind: browser.Tabs, Op: "new", URL: d.url}) }},
		{"stuck, extract, back", spin, extract, tabs.ErrStuck, func(d *desk) browser.Look { return d.do(browser.Action{Kind: browser.Back}) }},
		{"crashed, screenshot, navigate", crash, shot, tabs.ErrCrashed, func(d *desk) browser.Look { return d.visit("/") }},
		{"crashed, extract, reload", crash, extract, tabs.ErrCrashed, func(d *desk) browser.Look { return d.do(browser.Action{Kind: browser.Reload}) }},
		{"crashed, extract, close", crash, extract, tabs.ErrCrashed, func(d *desk) browser.Look { return d.do(browser.Action{Kind: browser.Tabs, Op: "close"}) }},
		{"asks, screenshot, navigate", "setTimeout(() => { while (true) if (confirm('Stay?')) break })", shot, tabs.ErrDialog, func(d *desk) browser.Look { return d.visit("/") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, pages)
			d.visit("/other")
			d.visit("/")
			if _, err := d.lease.Take("ann", time.Minute); err != nil {
				t.Fatal(err)
			}
			tab := d.tabs.Current()
			switch c.script {
			case spin:
				d.spin()
			case crash:
				tab.Session().Post("Page.crash", nil)
				await(t, d.tabs, "the crash", func() bool { return tab.Alive() != nil })
			default:
				d.page("() => { " + c.script + " }")
				await(t, d.tabs, "the dialog", func() bool { return tab.Dialog() != nil })
			}
			d.lease.GiveBack("ann")
			if _, err := d.agent.Navigate(t.Context(), d.url); !errors.Is(err, control.ErrLook) {
				t.Errorf("before a look: %v, want ErrLook", err)
			}
			if err := c.look(d); !errors.Is(err, c.want) {
				t.Fatalf("the look: %v, want %v", err, c.want)
			}
			if l := c.then(d); l.Tab.Crashed || d.tabs.Current().Dialog() != nil {
				t.Errorf("afterwards: %+v\n%s", l.Tab, l.Text)
			}
		})
	}
}

// A look at a stuck page that a person interrupts was none.
func TestLease_interruptedAtAStuckPage(t *testing.T) {
	d := newDesk(t, map[string]string{"/": "<title>main</title>"})
	d.visit("/")
	if _, err := d.lease.Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	d.spin()
	d.lease.GiveBack("ann")
	looked := make(chan error, 1)
	go func() {
		_, err := d.agent.Extract(t.Context())
		looked <- err
	}()
	// The look takes ten seconds to find the page stuck. Whenever it begins, a person
	// takes control in the middle of it.
	var err error
	for looks := true; looks; {
		select {
		case err = <-looked:
			looks = false
		case <-time.After(2 * time.Second):
			if _, err := d.lease.Take("ann", time.Minute); err != nil {
				t.Error(err)
			}
			d.lease.GiveBack("ann")
		}
	}
	if !errors.Is(err, control.ErrLook) || errors.Is(err, tabs.ErrStuck) {
		t.Errorf("the look: %v, want ErrLook", err)
	}
	if _, err := d.agent.Navigate(t.Context(), d.url); !errors.Is(err, control.ErrLook) {
		t.Errorf("after it: %v, want ErrLook", err)
	}
}

// What happened when no call was there to tell it is told by the next, once.
func TestNotices_betweenCalls(t *testing.T) {
	d := newDesk(t, map[string]string{"/": `<title>d</title>
		<button onclick="document.title='said '+confirm('Delete?')">Confirm</button>
		<button onclick="prompt('Name?')">Prompt</button>`})
	d.visit("/")
	const expired, dismissed = `confirm "Delete?" was dismissed: nobody answered it.`, `prompt "Name?" was dismissed: another call came instead of an answer.`
	extract := func() browser.Look {
		t.Helper()
		l, err := d.agent.Extract(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	expire := func() {
		t.Helper()
		d.click(number(t, extract(), "Confirm"))
		await(t, d.tabs, "the end of the dialog", func() bool { return d.tabs.Current().Dialog() == nil })
	}
	expire()
	l := extract()
	wants(t, l, expired)
	if len(l.Notices) != 1 {
		t.Errorf("notices %+v", l.Notices)
	}
	lacks(t, extract(), "Delete?")
	expire()
	wants(t, d.do(browser.Action{Kind: browser.Tabs}), expired, "Tab 1 [active]")
	lacks(t, d.do(browser.Action{Kind: browser.Tabs}), "Delete?")

	d.click(number(t, extract(), "Prompt"))
	p, err := d.agent.Screenshot(t.Context(), browser.Shot{})
	if err != nil || !strings.Contains(p.Text, dismissed) || len(p.Notices) != 1 {
		t.Errorf("a screenshot: %v, %+v\n%s", err, p.Notices, p.Text)
	}

	// A call that was stopped has told nobody.
	expire()
	if _, err := d.agent.Extract(canceled(t)); err == nil {
		t.Error("a call that was stopped looks")
	}
	wants(t, extract(), expired)

	// What a page says to a person is theirs.
	if _, err := d.lease.Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	d.page("() => { setTimeout(() => alert('your code is 1234')) }")
	await(t, d.tabs, "the alert", func() bool {
		n := d.tabs.Notices(0)
		return strings.Contains(n[len(n)-1].Text, "1234")
	})
	d.lease.GiveBack("ann")
	lacks(t, extract(), "1234")
}
