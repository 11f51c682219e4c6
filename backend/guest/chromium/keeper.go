package chromium

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// onLine makes pages see that there is a way out. Chromium looks for a network
// interface, and a sandbox has none but its loopback.
const onLine = `Object.defineProperty(Navigator.prototype, "onLine", {configurable: true, enumerable: true, get() { return true }})`

// keeper is the browser's own client. It keeps a tab open, downloads where they
// are looked for, tells pages that they are on line where they are, and answers
// the dialogs that nobody else is there to answer.
type keeper struct {
	c         *Client
	downloads string
	online    bool // pages have to be told

	last    int64
	pages   map[string]bool   // sessions of tabs
	dialogs map[string]dialog // that are open, by their tab's session
}

// dialog is one that waits for an answer.
type dialog struct {
	accept bool      // what it is answered where nobody else does
	told   []*Client // those who were told when it opened; whoever comes later is not
}

type event struct {
	ID        int64           `json:"id"`
	Method    string          `json:"method"`
	SessionID string          `json:"sessionId"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func newKeeper(c *Client, downloads string, online bool) *keeper {
	return &keeper{c: c, downloads: downloads, online: online, pages: map[string]bool{}, dialogs: map[string]dialog{}}
}

// begin sets the browser up and returns its version.
func (k *keeper) begin(ctx context.Context) (version string, err error) {
	result, err := k.call(ctx, "Browser.getVersion", struct{}{})
	if err != nil {
		return "", err
	}
	var v struct {
		Product string `json:"product"`
	}
	if err := json.Unmarshal(result, &v); err != nil {
		return "", fmt.Errorf("read the browser's version: %w", err)
	}
	_, err = k.call(ctx, "Target.setAutoAttach", attachTo("page", true))
	if err != nil {
		return "", err
	}
	_, err = k.call(ctx, "Browser.setDownloadBehavior", k.keepDownloads())
	return v.Product, err
}

func (k *keeper) keepDownloads() any {
	return struct {
		Behavior string `json:"behavior"`
		Path     string `json:"downloadPath"`
	}{"allow", k.downloads}
}

// attachTo are the parameters of Target.setAutoAttach for one type of target.
// With pause, a target waits at its start until it has been told everything.
func attachTo(kind string, pause bool) any {
	type filter struct {
		Type    string `json:"type,omitempty"`
		Exclude bool   `json:"exclude"`
	}
	return struct {
		AutoAttach bool     `json:"autoAttach"`
		Wait       bool     `json:"waitForDebuggerOnStart"`
		Flatten    bool     `json:"flatten"`
		Filter     []filter `json:"filter"`
	}{true, pause, true, []filter{{Type: kind}, {Exclude: true}}}
}

// run handles events until the browser ends, which is io.EOF, or ctx does.
func (k *keeper) run(ctx context.Context) error {
	events := make(chan event)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			e, err := k.next(ctx)
			if err != nil {
				ended <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				ended <- context.Cause(ctx)
				return
			}
		}
	}()
	var err error
	for err == nil {
		select {
		case e := <-events:
			err = k.handle(ctx, e)
		case <-k.c.m.left:
			// A client that had set it took the setting with it.
			err = errors.Join(k.send(ctx, "", "Browser.setDownloadBehavior", k.keepDownloads()), k.answer(ctx))
		case err = <-ended:
			return err
		}
	}
	cancel()
	<-ended
	return err
}

func (k *keeper) next(ctx context.Context) (e event, err error) {
	text, err := k.c.Next(ctx)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, fmt.Errorf("read an event of the browser: %w", err)
	}
	return e, nil
}

// send sends a command whose answer nobody waits for: a tab may have closed since.
func (k *keeper) send(ctx context.Context, session, method string, params any) error {
	k.last++
	text, err := json.Marshal(struct {
		ID        int64  `json:"id"`
		SessionID string `json:"sessionId,omitempty"`
		Method    string `json:"method"`
		Params    any    `json:"params"`
	}{k.last, session, method, params})
	if err != nil {
		return err
	}
	return k.c.Send(ctx, text)
}

// call sends a command to the browser and handles events until it is answered.
func (k *keeper) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if err := k.send(ctx, "", method, params); err != nil {
		return nil, err
	}
	for id := k.last; ; {
		e, err := k.next(ctx)
		switch {
		case err != nil:
			return nil, err
		case e.ID == id && e.Error != nil:
			return nil, fmt.Errorf("%s: %w", method, errors.New(e.Error.Message))
		case e.ID == id:
			return e.Result, nil
		}
		if err := k.handle(ctx, e); err != nil {
			return nil, err
		}
	}
}

func (k *keeper) handle(ctx context.Context, e event) error {
	switch e.Method {
	case "Target.attachedToTarget":
		return k.attached(ctx, e)
	case "Target.detachedFromTarget":
		session := sessionIn(e.Params)
		delete(k.dialogs, session)
		if !k.pages[session] {
			return nil
		}
		if delete(k.pages, session); len(k.pages) > 0 {
			return nil
		}
		return k.send(ctx, "", "Target.createTarget", map[string]string{"url": blankPage})
	case "Page.javascriptDialogOpening":
		return k.opened(ctx, e)
	case "Page.javascriptDialogClosed":
		delete(k.dialogs, e.SessionID)
	}
	return nil
}

func (k *keeper) attached(ctx context.Context, e event) error {
	var p struct {
		SessionID string `json:"sessionId"`
		Waiting   bool   `json:"waitingForDebugger"`
		Target    struct {
			Type string `json:"type"`
		} `json:"targetInfo"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil {
		return fmt.Errorf("read of a new tab: %w", err)
	}
	if p.Target.Type == "page" {
		k.pages[p.SessionID] = true
	}
	none := struct{}{}
	// Without it dialogs are not told, and scripts are kept and not run.
	if err := k.send(ctx, p.SessionID, "Page.enable", none); err != nil {
		return err
	}
	if k.online {
		err := errors.Join(
			k.send(ctx, p.SessionID, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": onLine, "runImmediately": true}),
			k.send(ctx, p.SessionID, "Target.setAutoAttach", attachTo("iframe", true)), // frames of another site
		)
		if err != nil {
			return err
		}
	}
	if p.Waiting {
		return k.send(ctx, p.SessionID, "Runtime.runIfWaitingForDebugger", none)
	}
	return nil
}

// opened takes a dialog that has opened.
func (k *keeper) opened(ctx context.Context, e event) error {
	var p struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil {
		return fmt.Errorf("read of a dialog: %w", err)
	}
	k.dialogs[e.SessionID] = dialog{
		accept: p.Type == "alert" || p.Type == "beforeunload",
		told:   k.c.m.watchers(k.c, e.SessionID),
	}
	return k.answer(ctx)
}

// answer closes the dialogs that nobody is there for who was told of them. They
// would hold their tabs up until the end, since a client that comes later is not
// told.
func (k *keeper) answer(ctx context.Context) error {
	for session, d := range k.dialogs {
		if slices.ContainsFunc(d.told, k.c.m.has) {
			continue
		}
		delete(k.dialogs, session)
		if err := k.send(ctx, session, "Page.handleJavaScriptDialog", map[string]bool{"accept": d.accept}); err != nil {
			return err
		}
	}
	return nil
}
