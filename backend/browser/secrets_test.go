package browser_test

import (
	"image"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
)

// A field for a secret stays one when the page shows it, wherever it is and however it
// is shown.
func TestSecrets_shownInTheClear(t *testing.T) {
	const form = `<input id=p type=password aria-label=Password><button id=b onclick="document.getElementById('p').type='text'">Show</button>`
	pages := map[string]string{
		"/form": form,
		"/shadow": `<div id=h></div><script>
			const r = document.getElementById('h').attachShadow({mode: 'open'});
			r.innerHTML = '<input id=p type=password aria-label=Password><button>Show</button>';
			r.querySelector('button').onclick = () => r.getElementById('p').setAttribute('type', 'text')</script>`,
		"/swap": `<div id=h><input type=password aria-label=Password></div><button>Show</button><script>
			document.querySelector('button').onclick = () => {
				const n = document.createElement('input');
				n.setAttribute('aria-label', 'Password');
				n.value = document.querySelector('input').value;
				document.querySelector('input').replaceWith(n);
			}</script>`,
		"/late": `<button>Show</button><script>
			document.open(); document.write('<div id=h></div><button>Show</button>'); document.close();
			setTimeout(() => {
				document.getElementById('h').innerHTML = '<p><input type=password aria-label=Password></p>';
				document.querySelector('button').onclick = () => { document.querySelector('input').removeAttribute('type') };
			}, 100)</script>`,
		"/styled": `<input style="-webkit-text-security: disc" aria-label=Password><button
			onclick="document.querySelector('input').style.webkitTextSecurity = 'none'">Show</button>`,
		"/framed": `<iframe src="/form" width=500 height=200></iframe>`,
		"/other":  `<iframe src="OTHER/form" width=500 height=200></iframe>`,
	}
	for _, path := range []string{"/form", "/shadow", "/swap", "/late", "/styled", "/framed", "/other"} {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			d := newDesk(t, pages)
			d.visit(path)
			l := d.do(browser.Action{Kind: browser.Wait, At: browser.At{Selector: "input, iframe"}, Timeout: 5 * time.Second})
			typed := number(t, l, "Password")
			show := number(t, l, "Show")
			d.typed(typed, "GazelleFour", false)
			d.tabs.Reveal() // as for a person who has control
			l = d.click(show)
			if strings.Contains(l.Text, "GazelleFour") || !strings.Contains(l.Text, "(a password)") {
				t.Errorf("the look: %s", l.Text)
			}
			l, err := d.agent.Extract(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lacks(t, l, "GazelleFour")
			o, err := browser.ReadOutline(t.Context(), d.tabs.Current())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(o.Text(), "GazelleFour") || !strings.Contains(o.Text(), "Password") {
				t.Errorf("the outline:\n%s", o.Text())
			}
		})
	}
}

// One picture of a secret is as any other of as many characters.
func TestScreenshot_coversSecrets(t *testing.T) {
	const form = `<style>body { margin: 0 } input { font: 40px monospace; width: 90%; caret-color: transparent; outline: none }</style>
		<input autocomplete=one-time-code aria-label=Code>
		<input id=p type=password aria-label=Password><button onclick="document.getElementById('p').type = 'text'">Show</button>`
	d := newDesk(t, map[string]string{"/form": form, "/other": `<iframe src="OTHER/form" width=700 height=300></iframe>`})
	for _, path := range []string{"/form", "/other"} {
		var shots []image.Image
		for _, secret := range []string{"111111", "WWWWWW"} {
			l := d.visit(path)
			d.typed(number(t, l, "Code"), secret, false)
			d.typed(number(t, l, "Password"), secret, false)
			d.click(number(t, l, "Show"))
			if _, err := d.lease.Take("me", time.Minute); err != nil {
				t.Fatal(err)
			}
			d.tabs.Reveal()
			d.lease.GiveBack("me")
			_, shot := d.shot()
			shots = append(shots, shot)
		}
		if !alike(shots[0], shots[1]) {
			t.Errorf("%s: the pictures of two secrets differ", path)
		}
	}
	// It is not the picture that hides it: who has control sees what they type.
	d.visit("/form")
	l := d.visit("/form")
	d.typed(number(t, l, "Code"), "111111", false)
	security := `() => getComputedStyle(document.querySelector('input')).webkitTextSecurity`
	if got := d.page(security); got != "disc" {
		t.Errorf("the agent's page has %q", got)
	}
	d.tabs.Reveal()
	if got := d.page(security); got != "none" {
		t.Errorf("the person's page has %q", got)
	}
	if got := d.page(`() => document.querySelector('input').hasAttribute('style')`); got != "false" {
		t.Error("something of the cover is left")
	}
	if _, err := d.tabs.Current().Navigate(t.Context(), nil, d.url+"/form"); err != nil {
		t.Fatal(err)
	}
	if got := d.page(security); got != "none" {
		t.Errorf("the person's next page has %q", got)
	}
	if _, err := d.agent.Extract(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.page(security); got != "disc" {
		t.Errorf("after a look the page has %q", got)
	}
}

func alike(a, b image.Image) bool {
	if a.Bounds() != b.Bounds() {
		return false
	}
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			if a.At(x, y) != b.At(x, y) {
				return false
			}
		}
	}
	return true
}
