package tabs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// How long a page may take: to answer at all, and to load.
const (
	AnswerTime = 20 * time.Second
	LoadTime   = 15 * time.Second
)

// ErrNavigate is what every NavigateError is.
var ErrNavigate = errors.New("the address could not be opened")

// NavigateError is an address that could not be opened, with the browser's code
// for it.
type NavigateError struct{ URL, Code string }

// Is makes a NavigateError one of ErrNavigate.
func (e *NavigateError) Is(target error) bool { return target == ErrNavigate }

func (e *NavigateError) Error() string {
	if e.Code == "net::ERR_INVALID_AUTH_CREDENTIALS" {
		return fmt.Sprintf("open %s: the site asks for a user name and a password: they go into the address, as NAME:PASSWORD@ before the host", e.URL)
	}
	return fmt.Sprintf("open %s: %s", e.URL, e.Code)
}

// Address reads what was typed as an address: a URL of a web page, or a host to
// which the scheme is added. Anything else is refused with [ErrForbidden].
func Address(typed string) (string, error) {
	s := strings.TrimSpace(typed)
	if s == "" {
		return "", fmt.Errorf("no address given: %w", ErrForbidden)
	}
	if strings.EqualFold(s, "about:blank") {
		return "about:blank", nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
		// host, host:port or host/path; a scheme with a host behind it is not one.
		host, _, _ := strings.Cut(s, "/")
		name, port, _ := strings.Cut(host, ":")
		digits := strings.Trim(port, "0123456789") == ""
		if strings.Contains(s, "://") || name == "" || !digits || (port == "" && strings.Contains(host, ":")) ||
			!(strings.Contains(name, ".") || name == "localhost" || port != "") || strings.ContainsAny(host, " @\\") {
			return "", fmt.Errorf("%.200q: %w", s, ErrForbidden)
		}
		scheme := "https://"
		if name == "localhost" || net.ParseIP(name) != nil || (port != "" && port != "443") {
			scheme = "http://"
		}
		if u, err = url.Parse(scheme + s); err != nil {
			return "", fmt.Errorf("%.200q: %w", s, ErrForbidden)
		}
	}
	if u.Host == "" {
		return "", fmt.Errorf("%.200q has no host: %w", s, ErrForbidden)
	}
	return u.String(), nil
}

// Loaded is how far a navigation came.
type Loaded struct {
	Complete bool // the load event fired
	Download bool // it was a file, and the page that was there stays
}

// Navigate opens an address in the tab and waits until it has loaded, [LoadTime]
// at most: a page that never ends loading is there all the same, and said to be
// incomplete. It works on a tab that has crashed. by is asked before the command
// is sent; nil for nobody.
func (t *Tab) Navigate(ctx context.Context, by devtools.Gate, address string) (Loaded, error) {
	to, err := Address(address)
	if err != nil {
		return Loaded{}, err
	}
	shown := to
	if u, err := url.Parse(to); err == nil {
		shown = u.Redacted()
	}
	// A tab is told of before it has a process; sent elsewhere in that moment, it
	// crashes now and then. One that is stuck is not waited for.
	young, enough := context.WithTimeout(ctx, readyTime)
	t.b.wait(young, func() bool { return t.ready || t.gone || t.crashed || t.dialog != nil })
	enough()
	t.unstick(ctx, by)
	if t.closed() {
		return Loaded{}, ErrGone
	}
	call, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	var before int
	res, err := cdp.Call(call, t.session.Gated(t.leaving(by, &before)), page.Navigate, page.NavigateParams{URL: to})
	switch {
	case err != nil && call.Err() != nil && ctx.Err() == nil && t.b.answers():
		devtools.Post(t.session.Gated(by), page.StopLoading, cdp.Empty{})
		return Loaded{}, fmt.Errorf("open %s: the server did not answer within %v; try again later, or another address (%w)", shown, AnswerTime, ErrStuck)
	case err != nil:
		return Loaded{}, t.b.fault(fmt.Errorf("open %s: %w", shown, err))
	case res.IsDownload:
		return Loaded{Complete: true, Download: true}, nil
	case res.ErrorText != "":
		return Loaded{}, &NavigateError{URL: shown, Code: res.ErrorText}
	case res.LoaderID == "":
		return Loaded{Complete: true}, nil // within the document
	}
	return t.loaded(ctx, func() bool { return t.loader == res.LoaderID && t.documents > before })
}

// leaving is the gate by for what leaves the page: with it the page is no more the
// one that crashed, since a new page is a new process. before gets how many documents
// the tab has shown until then.
func (t *Tab) leaving(by devtools.Gate, before *int) devtools.Gate {
	return func(send func()) error {
		return by.Pass(func() {
			t.b.mu.Lock()
			*before, t.crashed = t.documents, false
			t.b.mu.Unlock()
			send()
		})
	}
}

// unstick ends a script that runs without end in a page that is about to be left:
// the next page may be one of the same process, and would wait for it. A dialog that
// is open is dismissed: its page cannot be left before. A page that goes on all the
// same, like one whose dialogs never end, is ended as a whole.
func (t *Tab) unstick(ctx context.Context, by devtools.Gate) {
	if t.Alive() != nil {
		return
	}
	by.Pass(t.Dismiss)
	if t.answers(ctx, probeTime) {
		return
	}
	devtools.Post(t.session.Gated(by), runtime.TerminateExecution, cdp.Empty{})
	for range 3 { // one more dialog may open before the script is ended
		by.Pass(t.Dismiss)
		if t.answers(ctx, probeTime) {
			return
		}
		if t.Dialog() == nil {
			break
		}
	}
	devtools.Post(t.session.Gated(by), page.Crash, cdp.Empty{})
	ended, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	t.b.wait(ended, func() bool { return t.crashed || t.gone })
}

// answers tells whether the page runs what it is asked to; one with a dialog does
// not. The end of ctx is no verdict.
func (t *Tab) answers(ctx context.Context, within time.Duration) bool {
	probe, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	probe, stop := t.unlessStuck(probe)
	defer stop()
	_, err := cdp.Call(probe, t.session, runtime.Evaluate, runtime.EvaluateParams{Expression: "1"})
	return err == nil || probe.Err() == nil || ctx.Err() != nil
}

// committed is cdp.Call for a command that the browser refuses while one page gives
// way to the next, which takes as long as either is busy: it is sent again until then.
func committed[P, R any](ctx context.Context, s *devtools.Session, c cdp.Command[P, R], params P) (R, error) {
	busy, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	for {
		r, err := cdp.Call(ctx, s, c, params)
		if err == nil || !strings.Contains(err.Error(), "Not attached to an active page") {
			return r, err
		}
		pause := time.NewTimer(100 * time.Millisecond) // nothing is told of the end of it
		select {
		case <-pause.C:
		case <-busy.Done():
			pause.Stop()
			return r, busy.Err()
		}
	}
}

// Reload loads the tab's page again.
func (t *Tab) Reload(ctx context.Context, by devtools.Gate) (Loaded, error) {
	t.unstick(ctx, by)
	call, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	var before int
	if _, err := committed(call, t.session.Gated(t.leaving(by, &before)), page.Reload, page.ReloadParams{}); err != nil {
		return Loaded{}, t.b.fault(fmt.Errorf("reload: %w", err))
	}
	return t.loaded(ctx, func() bool { return t.documents > before })
}

// ErrNoHistory says that there is no page before or after this one.
var ErrNoHistory = errors.New("there is no page in that direction of the tab's history")

// History goes by steps in the tab's history: -1 is back, 1 forward.
func (t *Tab) History(ctx context.Context, by devtools.Gate, steps int) (Loaded, error) {
	call, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	h, err := committed(call, t.session, page.GetNavigationHistory, cdp.Empty{})
	if err != nil {
		return Loaded{}, t.b.fault(fmt.Errorf("read the history: %w", err))
	}
	to := int(h.CurrentIndex) + steps
	if to < 0 || to >= len(h.Entries) || h.Entries[to] == nil {
		return Loaded{}, ErrNoHistory
	}
	t.unstick(ctx, by)
	t.b.mu.Lock()
	url := t.url
	t.b.mu.Unlock()
	var before int
	if _, err := cdp.Call(call, t.session.Gated(t.leaving(by, &before)), page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: h.Entries[to].ID}); err != nil {
		return Loaded{}, t.b.fault(fmt.Errorf("go in the history: %w", err))
	}
	want := told(h.Entries[to].URL)
	return t.loaded(ctx, func() bool { return t.documents > before || (t.url != url && t.url == want) })
}

// loaded waits until a document has begun and ended loading.
func (t *Tab) loaded(ctx context.Context, begun func() bool) (Loaded, error) {
	limit, cancel := context.WithTimeout(ctx, LoadTime)
	defer cancel()
	var l Loaded
	var dead error
	err := t.b.wait(limit, func() bool {
		switch {
		case t.gone:
			dead = ErrGone
		case t.crashed:
			dead = ErrCrashed
		case t.dialog != nil:
			// Its script waits for the dialog, and the caller has to answer it.
			dead = nil
			return true
		}
		l.Complete = begun() && (slices.Contains(t.reached, "load") || !t.loading)
		return dead != nil || l.Complete
	})
	if dead != nil {
		return Loaded{}, dead
	}
	if err != nil && ctx.Err() != nil {
		return Loaded{}, t.b.fault(context.Cause(ctx))
	}
	return l, nil
}

// Settle waits until the tab has ended loading what it loads now, [LoadTime] at
// most, and tells whether it has.
func (t *Tab) Settle(ctx context.Context) bool {
	limit, cancel := context.WithTimeout(ctx, LoadTime)
	defer cancel()
	err := t.b.wait(limit, func() bool {
		return t.gone || t.crashed || t.dialog != nil || !t.loading
	})
	return err == nil
}
