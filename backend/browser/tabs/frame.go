package tabs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// world is the name of the isolated world that our scripts run in: they share the
// page's document, and none of its variables.
const world = "glovebox"

// maxFrames bounds how many frames of a page are looked into.
const maxFrames = 60

// Frame is one document of a tab's page: the page itself, or a frame in it, in
// whatever process.
type Frame struct {
	ID     cdp.FrameID
	URL    string
	Name   string
	Parent *Frame // nil for the page itself

	tab     *Tab
	session *devtools.Session
}

// Session is the way to the process that the frame is in.
func (f *Frame) Session() *devtools.Session { return f.session }

// Frames returns the documents of the tab's page, the page itself first and always
// there, parents before children. Frames that come and go meanwhile may be missing.
func (t *Tab) Frames(ctx context.Context) ([]*Frame, error) {
	t.b.mu.Lock()
	var rest []*frameSession
	if t.b.link != nil {
		for _, f := range t.b.link.frames {
			if f.tab == t {
				rest = append(rest, f)
			}
		}
	}
	t.b.mu.Unlock()

	top, err := Call(ctx, t, t.session, page.GetFrameTree, cdp.Empty{})
	if err != nil {
		return nil, err
	}
	byID := map[cdp.FrameID]*Frame{}
	var out []*Frame
	var add func(tree *page.FrameTree, parent *Frame, s *devtools.Session)
	add = func(tree *page.FrameTree, parent *Frame, s *devtools.Session) {
		if tree == nil || tree.Frame == nil || len(out) >= maxFrames || byID[tree.Frame.ID] != nil {
			return
		}
		f := &Frame{ID: tree.Frame.ID, URL: told(tree.Frame.URL), Name: tree.Frame.Name, Parent: parent, tab: t, session: s}
		byID[f.ID] = f
		out = append(out, f)
		for _, child := range tree.ChildFrames {
			add(child, f, s)
		}
	}
	add(top.FrameTree, nil, t.session)
	if len(out) == 0 {
		return nil, errors.New("the browser tells of no document in the tab; reload it")
	}

	// Frames with a process of their own hang under one that is known by then.
	trees := map[*frameSession]*page.FrameTree{}
	for _, f := range rest {
		if len(trees) >= maxFrames {
			break
		}
		r, err := Call(ctx, t, f.session, page.GetFrameTree, cdp.Empty{})
		if err != nil {
			var broken *devtools.Error
			if errors.As(err, &broken) {
				continue // it has just gone
			}
			return nil, err
		}
		trees[f] = r.FrameTree
	}
	for placed := true; placed; {
		placed = false
		for f, tree := range trees {
			if tree == nil || tree.Frame == nil {
				delete(trees, f)
				continue
			}
			if parent := byID[tree.Frame.ParentID]; parent != nil {
				add(tree, parent, f.session)
				delete(trees, f)
				placed = true
			}
		}
	}
	return out, nil
}

// By is the same frame for somebody whose scripts pass a gate.
func (f *Frame) By(g devtools.Gate) *Frame {
	gated := *f
	gated.session = f.session.Gated(g)
	return &gated
}

// ScriptError is what a script of ours threw in a page.
type ScriptError struct{ Text string }

func (e *ScriptError) Error() string { return "script in the page: " + e.Text }

// Eval calls a function in the frame's isolated world with args and reads its
// result, which may be a promise, into out.
func (f *Frame) Eval(ctx context.Context, function string, out any, args ...any) error {
	made, err := Call(ctx, f.tab, f.session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: f.ID, WorldName: world})
	if err != nil {
		return err
	}
	return f.call(ctx, runtime.CallFunctionOnParams{ExecutionContextID: made.ExecutionContextID}, function, out, args)
}

// EvalOn calls a function in the frame's isolated world with this being the
// node.
func (f *Frame) EvalOn(ctx context.Context, node cdp.BackendNodeID, function string, out any, args ...any) error {
	object, err := f.object(ctx, node)
	if err != nil {
		return err
	}
	return f.call(ctx, runtime.CallFunctionOnParams{ObjectID: object}, function, out, args)
}

func (f *Frame) object(ctx context.Context, node cdp.BackendNodeID) (runtime.RemoteObjectID, error) {
	made, err := Call(ctx, f.tab, f.session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: f.ID, WorldName: world})
	if err != nil {
		return "", err
	}
	r, err := Call(ctx, f.tab, f.session, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node, ExecutionContextID: made.ExecutionContextID, ObjectGroup: world})
	if err != nil {
		return "", err
	}
	if r.Object == nil {
		return "", errors.New("the node has no object")
	}
	return r.Object.ObjectID, nil
}

// Owner is the element of the parent's document that the frame is shown in.
func (f *Frame) Owner(ctx context.Context) (cdp.BackendNodeID, error) {
	r, err := Call(ctx, f.tab, f.Parent.session, dom.GetFrameOwner, dom.GetFrameOwnerParams{FrameID: f.ID})
	return r.BackendNodeID, err
}

// Object calls a function that returns a node and gives the node's handle, for
// commands that take one; "" when it returned none.
func (f *Frame) Object(ctx context.Context, function string, args ...any) (runtime.RemoteObjectID, error) {
	made, err := Call(ctx, f.tab, f.session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: f.ID, WorldName: world})
	if err != nil {
		return "", err
	}
	function, given, err := applied(function, args)
	if err != nil {
		return "", err
	}
	r, err := Call(ctx, f.tab, f.session, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		ExecutionContextID: made.ExecutionContextID, FunctionDeclaration: function, Arguments: given, ObjectGroup: world,
	})
	if err != nil {
		return "", err
	}
	if err := thrown(r.ExceptionDetails); err != nil || r.Result == nil {
		return "", err
	}
	return r.Result.ObjectID, nil
}

func (f *Frame) call(ctx context.Context, p runtime.CallFunctionOnParams, function string, out any, args []any) error {
	yes := true
	function, given, err := applied(function, args)
	if err != nil {
		return err
	}
	p.FunctionDeclaration, p.Arguments, p.ReturnByValue, p.AwaitPromise = function, given, &yes, &yes
	r, err := Call(ctx, f.tab, f.session, runtime.CallFunctionOn, p)
	if err != nil {
		return err
	}
	if err := thrown(r.ExceptionDetails); err != nil {
		return err
	}
	if out == nil || r.Result == nil || len(r.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(r.Result.Value, out)
}

// applied returns a function with the arguments that it is to be called with. They
// go as one list: an argument that is "" or an empty list would not be sent.
func applied(function string, args []any) (string, []*runtime.CallArgument, error) {
	if len(args) == 0 {
		return function, nil, nil
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return "", nil, fmt.Errorf("arguments of a script: %w", err)
	}
	return `function(args) { return (` + function + `).apply(this, args) }`, []*runtime.CallArgument{{Value: jsonv2.Value(raw)}}, nil
}

func thrown(d *runtime.ExceptionDetails) error {
	if d == nil {
		return nil
	}
	text := d.Text
	if d.Exception != nil && d.Exception.Description != "" {
		text = d.Exception.Description
	}
	first, _, _ := strings.Cut(text, "\n")
	return &ScriptError{first}
}
