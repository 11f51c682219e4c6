package tabs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/page"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// Dialog is a question that a page waits for.
type Dialog struct {
	Kind    string    `json:"kind"` // confirm or prompt
	Text    string    `json:"text"`
	Default string    `json:"default,omitzero"`
	URL     string    `json:"url"`
	Opened  time.Time `json:"opened"`
	Until   time.Time `json:"until"` // when it is dismissed without an answer

	timer *time.Timer
}

// DialogError says that a dialog waits for an answer.
type DialogError struct{ Kind, Text string }

// ErrDialog is what every DialogError is.
var ErrDialog = errors.New("the page waits for an answer to its dialog")

// Is makes a DialogError one of ErrDialog.
func (e *DialogError) Is(target error) bool { return target == ErrDialog }

func (e *DialogError) Error() string {
	return fmt.Sprintf("the page waits for an answer to its %s %q: answer it with browser_dialog", e.Kind, e.Text)
}

// ErrNoDialog says that there is nothing to answer.
var ErrNoDialog = errors.New("no dialog is open")

// dialogOpens takes a dialog that a page opened. The lock is held.
func (t *Tab) dialogOpens(ev page.EventJavascriptDialogOpening) {
	text := clip(ev.Message, maxDialogText)
	switch ev.Type {
	case page.DialogTypeAlert:
		t.answer(true, "")
		t.b.notice(NoticeDialog, t, ev.URL, "alert %q was accepted.", text)
	case page.DialogTypeBeforeunload:
		t.answer(true, "")
		t.b.notice(NoticeDialog, t, ev.URL, "beforeunload: the page asked whether to leave it, and was left.")
	default:
		d := &Dialog{
			Kind: string(ev.Type), Text: text, Default: clip(ev.DefaultPrompt, maxDefault), URL: told(ev.URL),
			Opened: time.Now(), Until: time.Now().Add(dialogTime),
		}
		d.timer = time.AfterFunc(dialogTime, func() { t.dialogExpires(d) })
		t.dialog = d
		t.b.notice(NoticeDialog, t, ev.URL, "%s %q is open and waits for an answer (browser_dialog); without one it is dismissed after %d s or by the next call, unless a person has control.", d.Kind, text, int(dialogTime.Seconds()))
	}
}

// dialogExpires dismisses a dialog that nobody answered, unless a person has
// control, who is waited for.
func (t *Tab) dialogExpires(d *Dialog) {
	held := t.b.o.Held != nil && t.b.o.Held()
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.dialog != d {
		return
	}
	if held {
		d.Until = time.Now().Add(dialogTime)
		d.timer.Reset(dialogTime)
		t.b.ring()
		return
	}
	t.answer(false, "")
	t.b.notice(NoticeDialog, t, d.URL, "%s %q was dismissed: nobody answered it.", d.Kind, d.Text)
	t.dialogCloses()
}

// answer sends an answer to the dialog that is open. The lock is held.
func (t *Tab) answer(accept bool, text string) {
	devtools.Post(t.session, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: accept, PromptText: text})
}

func (t *Tab) dialogCloses() {
	if t.dialog == nil {
		return
	}
	t.dialog.timer.Stop()
	t.dialog = nil
	t.b.ring()
}

// Answer answers the dialog that is open: accept or dismiss it, with the text
// that a prompt asks for.
func (t *Tab) Answer(accept bool, text string) error {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.dialog == nil {
		return ErrNoDialog
	}
	how := "dismissed"
	if accept {
		how = "accepted"
	}
	t.answer(accept, text)
	t.b.notice(NoticeDialog, t, t.dialog.URL, "%s %q was %s.", t.dialog.Kind, t.dialog.Text, how)
	t.dialogCloses()
	return nil
}

// Dismiss dismisses the dialog that is open, if one is, because something else
// is to be done in the tab.
func (t *Tab) Dismiss() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.dialog == nil {
		return
	}
	t.answer(false, "")
	t.b.notice(NoticeDialog, t, t.dialog.URL, "%s %q was dismissed: another call came instead of an answer.", t.dialog.Kind, t.dialog.Text)
	t.dialogCloses()
}

// Dialog returns the dialog that waits in the tab, nil when none does.
func (t *Tab) Dialog() *Dialog {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.dialog == nil {
		return nil
	}
	d := *t.dialog
	return &d
}

// unlessStuck returns a context that also ends when a dialog opens that waits for
// an answer, the page crashes or the tab closes: nothing would answer then.
func (t *Tab) unlessStuck(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() { // until stop, which waits for it
		defer close(done)
		var cause error
		if t.b.wait(ctx, func() bool {
			switch {
			case t.gone:
				cause = ErrGone
			case t.crashed:
				cause = ErrCrashed
			case t.dialog != nil:
				cause = &DialogError{t.dialog.Kind, t.dialog.Text}
			}
			return cause != nil
		}) == nil {
			cancel(cause)
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-done
	}
}
