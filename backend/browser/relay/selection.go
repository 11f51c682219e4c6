package relay

import (
	"context"
	"fmt"
)

// selected tells what a document has selected, and whether the keyboard is in it.
// What is in a password field is not given away, as in any browser.
const selected = `() => {
	let at = document.activeElement
	while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
	const focused = document.hasFocus()
	if (at instanceof HTMLInputElement && at.type == "password") return {text: "", focused}
	let text = ""
	if (at instanceof HTMLTextAreaElement || at instanceof HTMLInputElement) {
		text = at.value.slice(at.selectionStart ?? 0, at.selectionEnd ?? 0)
	}
	return {text: text || String(getSelection()), focused}
}`

// Selection returns the text that is selected in the active tab, for the viewer
// that has control, "" for none. It is theirs alone: it goes into no log and to no
// other viewer.
func (v *Viewer) Selection(ctx context.Context) (string, error) {
	gate := func(send func()) error { return v.r.o.Lease.Person(v.view.ID, send) }
	if err := gate(func() {}); err != nil {
		return "", err
	}
	v.r.o.Lease.Settle(ctx) // keys that select come to the page by another way than a script
	tab, err := v.r.o.Browser.Active(ctx)
	if err != nil {
		return "", err
	}
	frames, err := tab.Frames(ctx)
	if err != nil {
		return "", err
	}
	text, focused := "", false
	for _, f := range frames {
		var got struct {
			Text    string
			Focused bool
		}
		if err := f.By(gate).Eval(ctx, selected, &got); err != nil {
			if f.Parent != nil {
				continue // it may have just gone
			}
			return "", err
		}
		// The innermost of those that have the keyboard comes last.
		if got.Text != "" && (text == "" || got.Focused || !focused) {
			text, focused = got.Text, got.Focused
		}
	}
	if len(text) > MaxText {
		return "", fmt.Errorf("%d bytes are selected, at most %d can be copied at once: %w", len(text), MaxText, ErrInput)
	}
	if err := gate(func() {}); err != nil { // control may have changed hands meanwhile
		return "", err
	}
	return text, nil
}
