package tabs

import (
	"errors"
	"fmt"
	"maps"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// The browser itself tells of a title when the next thing happens, if ever; so
// each document is given a script that tells its title, and each one that follows.
const (
	titleBinding = "tellTitle"
	titleScript  = `() => {
	let told = null;
	const tell = () => {
		const title = document.title.slice(0, 300);
		if (title !== told) tellTitle(told = title);
	};
	const watch = () => {
		if (document.head) new MutationObserver(tell).observe(document.head, {childList: true, subtree: true, characterData: true});
		tell();
	};
	if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', watch);
	else watch();
	addEventListener('load', tell);
}`
)

// watchTitle sends what it takes; a document that has gone meanwhile needs none
// of it, and the next one is given its own.
func (t *Tab) watchTitle() {
	s := t.session
	devtools.Post(s, runtime.AddBinding, runtime.AddBindingParams{Name: titleBinding, ExecutionContextName: world})
	s.Go(page.CreateIsolatedWorld.Method, page.CreateIsolatedWorldParams{FrameID: t.frame, WorldName: world}, func(raw jsonv2.Value, err error) {
		var made page.CreateIsolatedWorldResult
		if err != nil || jsonv2.Unmarshal(raw, &made) != nil {
			return
		}
		devtools.Post(s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			FunctionDeclaration: titleScript, ExecutionContextID: made.ExecutionContextID,
		})
	})
}

// handle takes one event of the live connection. It runs in the goroutine that
// reads, with the lock held: it changes state and posts commands, and waits for
// nothing.
func (b *Browser) handle(l *link, e devtools.Event) {
	if e.Session == "" {
		b.handleBrowser(l, e)
		return
	}
	if e.Method == target.AttachedToTarget.Method {
		b.attached(l, e)
		return
	}
	b.worldly(l, e)
	if t := l.sessions[e.Session]; t != nil {
		t.handle(e)
		return
	}
	if f := l.frames[e.Session]; f != nil {
		f.handle(e)
	}
}

func (b *Browser) handleBrowser(l *link, e devtools.Event) {
	switch e.Method {
	case target.AttachedToTarget.Method:
		b.attached(l, e)
	case target.DetachedFromTarget.Method:
		if ev, ok := devtools.Decode(e, target.DetachedFromTarget); ok {
			b.detached(l, string(ev.SessionID))
		}
	case target.TargetInfoChanged.Method:
		ev, ok := devtools.Decode(e, target.TargetInfoChanged)
		if !ok || ev.TargetInfo == nil {
			return
		}
		if t := b.find(func(t *Tab) bool { return t.target == string(ev.TargetInfo.TargetID) }); t != nil {
			t.named(ev.TargetInfo)
		}
	case target.TargetCrashed.Method:
		ev, ok := devtools.Decode(e, target.TargetCrashed)
		if !ok {
			return
		}
		if t := b.find(func(t *Tab) bool { return t.target == string(ev.TargetID) }); t != nil {
			t.crash()
		}
	case browser.DownloadWillBegin.Method:
		if ev, ok := devtools.Decode(e, browser.DownloadWillBegin); ok {
			b.downloadBegins(l, ev)
		}
	case browser.DownloadProgress.Method:
		if ev, ok := devtools.Decode(e, browser.DownloadProgress); ok {
			b.downloadGoesOn(ev)
		}
	}
}

// attached sets a new target up and lets it run. All of it is sent at once: the
// browser takes the commands in order, and the page runs after the last.
func (b *Browser) attached(l *link, e devtools.Event) {
	ev, ok := devtools.Decode(e, target.AttachedToTarget)
	if !ok || ev.TargetInfo == nil {
		return
	}
	info := ev.TargetInfo
	s := l.conn.Session(string(ev.SessionID))
	run := func() { devtools.Post(s, runtime.RunIfWaitingForDebugger, cdp.Empty{}) }

	switch {
	case info.Type == "page" && (b.o.Context == "" || string(info.BrowserContextID) == b.o.Context):
		opener := b.find(func(t *Tab) bool { return t.target == string(info.OpenerID) })
		// One that opens now waits to be set up; those that were there do not.
		fresh := ev.WaitingForDebugger
		// One that was refused may have opened others before it was closed.
		if fresh && info.OpenerID != "" && len(b.tabs) >= b.o.Max {
			run()
			devtools.Post(l.conn, target.CloseTarget, target.CloseTargetParams{TargetID: info.TargetID})
			whose := ""
			if opener != nil {
				whose = fmt.Sprintf(" of tab %d", opener.number)
			}
			b.notice(NoticeTabRefused, opener, info.URL, "A new tab%s was closed at once: %d tabs are open, and no more may be.", whose, len(b.tabs))
			return
		}
		t := b.newTab(s, info, opener, fresh)
		l.sessions[s.ID()] = t
		setUp(s)
		devtools.Post(s, page.SetLifecycleEventsEnabled, page.SetLifecycleEventsEnabledParams{Enabled: true})
		devtools.Post(s, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true})
		// Pages that are not in front behave as if they were: timers run, focus is
		// where it was put.
		devtools.Post(s, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		run()
		s.Go(runtime.Evaluate.Method, runtime.EvaluateParams{Expression: "1"}, func(_ jsonv2.Value, err error) {
			if errors.Is(err, devtools.ErrClosed) {
				return // perhaps from within Go, under the lock
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			t.ready = true
			b.ring()
		})
		b.placed(t, opener, fresh)
	case info.Type == "iframe":
		owner := l.sessions[e.Session]
		if f := l.frames[e.Session]; owner == nil && f != nil {
			owner = f.tab
		}
		if owner == nil {
			run()
			return
		}
		l.frames[s.ID()] = &frameSession{session: s, frame: cdp.FrameID(info.TargetID), tab: owner}
		setUp(s)
		run()
	default:
		// Another one's page, or a kind that is not looked at.
		run()
		devtools.Post(l.conn, target.DetachFromTarget, target.DetachFromTargetParams{SessionID: ev.SessionID})
	}
}

// setUp is what pages and frames with a process of their own have in common.
func setUp(s *devtools.Session) {
	yes := true
	devtools.Post(s, page.Enable, page.EnableParams{})
	watchSecrets(s)
	devtools.Post(s, runtime.Enable, cdp.Empty{})
	devtools.Post(s, log.Enable, cdp.Empty{})
	devtools.Post(s, dom.Enable, dom.EnableParams{})
	devtools.Post(s, target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: &yes, Filter: target.Filter{{Type: "iframe"}},
	})
}

func (b *Browser) detached(l *link, session string) {
	if t := l.sessions[session]; t != nil {
		delete(l.sessions, session)
		delete(l.worlds, session)
		maps.DeleteFunc(l.frames, func(_ string, f *frameSession) bool { return f.tab == t })
		b.remove(t)
	}
}

// handle takes an event of a tab's own session.
func (t *Tab) handle(e devtools.Event) {
	switch e.Method {
	case page.FrameNavigated.Method:
		ev, ok := devtools.Decode(e, page.FrameNavigated)
		if !ok || ev.Frame == nil || ev.Frame.ParentID != "" {
			return
		}
		t.frame = ev.Frame.ID
		t.at(ev.Frame.URL + ev.Frame.URLFragment)
		t.crashed, t.committed, t.failed = false, true, told(ev.Frame.UnreachableURL)
		t.documents++
		t.title = ""
		t.watchTitle()
		t.b.ring()
	case page.NavigatedWithinDocument.Method:
		if ev, ok := devtools.Decode(e, page.NavigatedWithinDocument); ok && ev.FrameID == t.frame {
			t.at(ev.URL)
			t.b.ring()
		}
	case page.FrameStartedLoading.Method:
		if ev, ok := devtools.Decode(e, page.FrameStartedLoading); ok && ev.FrameID == t.frame {
			t.loading = true
			t.b.ring()
		}
	case page.FrameStoppedLoading.Method:
		if ev, ok := devtools.Decode(e, page.FrameStoppedLoading); ok && ev.FrameID == t.frame {
			t.loading = false
			t.b.ring()
		}
	case page.LifecycleEvent.Method:
		if ev, ok := devtools.Decode(e, page.LifecycleEvent); ok && ev.FrameID == t.frame {
			t.lived(ev)
		}
	case page.JavascriptDialogOpening.Method:
		if ev, ok := devtools.Decode(e, page.JavascriptDialogOpening); ok {
			t.dialogOpens(ev)
		}
	case page.JavascriptDialogClosed.Method:
		t.dialogCloses()
	case page.FileChooserOpened.Method:
		if ev, ok := devtools.Decode(e, page.FileChooserOpened); ok {
			t.chooser = ev.BackendNodeID
			t.b.notice(NoticeFileChooser, t, t.url, "The page asks for a file: give it one with browser_upload.")
		}
	case runtime.BindingCalled.Method:
		if ev, ok := devtools.Decode(e, runtime.BindingCalled); ok && ev.Name == titleBinding {
			t.title = ev.Payload
			t.b.ring()
		}
	case runtime.ConsoleAPICalled.Method, runtime.ExceptionThrown.Method, log.EntryAdded.Method:
		t.printed(e)
	case target.DetachedFromTarget.Method:
		t.frameDetached(e)
	}
	for _, watch := range t.watchers {
		watch(e)
	}
}

// handle takes an event of a frame that has a process of its own.
func (f *frameSession) handle(e devtools.Event) {
	switch e.Method {
	case page.JavascriptDialogOpening.Method:
		if ev, ok := devtools.Decode(e, page.JavascriptDialogOpening); ok {
			f.tab.dialogOpens(ev)
		}
	case page.JavascriptDialogClosed.Method:
		f.tab.dialogCloses()
	case runtime.ConsoleAPICalled.Method, runtime.ExceptionThrown.Method, log.EntryAdded.Method:
		f.tab.printed(e)
	case target.DetachedFromTarget.Method:
		f.tab.frameDetached(e)
	}
}

func (t *Tab) frameDetached(e devtools.Event) {
	if ev, ok := devtools.Decode(e, target.DetachedFromTarget); ok && t.b.link != nil {
		delete(t.b.link.frames, string(ev.SessionID))
		delete(t.b.link.worlds, string(ev.SessionID))
	}
}
