package tabs

import (
	_ "embed"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// Secrets is an expression for scripts of a [Frame]: what knows the document's fields
// for secrets (is, look, bare, values). It is there from the document's start;
// where it is not, as in a frame that has run no script, the expression makes it.
//
//go:embed secrets.js
var Secrets string

// watchSecrets has every document of a page or a frame watch its fields for secrets,
// the one that is there too.
func watchSecrets(s *devtools.Session) {
	yes := true
	devtools.Post(s, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: Secrets, WorldName: world, RunImmediately: &yes,
	})
}

// Reveal shows in every tab what is covered of secrets, also in documents that come,
// until Cover: a person who has control may look at what they type. It only enqueues.
func (b *Browser) Reveal() { b.reveal(true) }

// Cover ends what Reveal began. What is sent to a page after it finds it covered. It
// only enqueues.
func (b *Browser) Cover() { b.reveal(false) }

func (b *Browser) reveal(yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.revealed == yes {
		return
	}
	b.revealed = yes
	if b.link == nil {
		return
	}
	for session, worlds := range b.link.worlds {
		for id := range worlds {
			revealIn(b.link.conn.Session(session), id, yes)
		}
	}
}

func revealIn(s *devtools.Session, world string, yes bool) {
	call := "globalThis.gloveboxSecrets?.reveal(false)"
	if yes {
		call = "globalThis.gloveboxSecrets?.reveal(true)"
	}
	devtools.Post(s, runtime.Evaluate, runtime.EvaluateParams{Expression: call, UniqueContextID: world})
}

// worldly keeps the worlds of ours that documents have. The lock is held.
func (b *Browser) worldly(l *link, e devtools.Event) {
	switch e.Method {
	case runtime.ExecutionContextCreated.Method:
		ev, ok := devtools.Decode(e, runtime.ExecutionContextCreated)
		if !ok || ev.Context == nil || ev.Context.Name != world {
			return
		}
		if l.worlds[e.Session] == nil {
			l.worlds[e.Session] = map[string]bool{}
		}
		l.worlds[e.Session][ev.Context.UniqueID] = true
		if b.revealed {
			revealIn(l.conn.Session(e.Session), ev.Context.UniqueID, true)
		}
	case runtime.ExecutionContextDestroyed.Method:
		if ev, ok := devtools.Decode(e, runtime.ExecutionContextDestroyed); ok {
			delete(l.worlds[e.Session], ev.ExecutionContextUniqueID)
		}
	case runtime.ExecutionContextsCleared.Method:
		delete(l.worlds, e.Session)
	}
}
