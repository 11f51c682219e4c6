package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// secretText stands for what a field for a secret holds.
const secretText = "(a password)"

var secretValues = `() => { const s = ` + tabs.Secrets + `; s.look(); return s.values() }`

// MaxOutline is how many nodes of an outline are kept.
const MaxOutline = 5000

// Outline is a page as assistive technology reads it: a text twin of the picture,
// to search and to read aloud. Nodes are in document order, each with its depth.
type Outline struct {
	Tab   tabs.Info `json:"tab"`
	Nodes []Node    `json:"nodes"`
	Cut   bool      `json:"cut"` // there are more than MaxOutline
}

// Node is one part of an Outline.
type Node struct {
	Depth  int      `json:"depth"`
	Role   string   `json:"role"`
	Name   string   `json:"name"`
	Value  string   `json:"value,omitzero"` // never what a field for a secret holds
	Level  int      `json:"level,omitzero"` // of a heading
	States []string `json:"states,omitzero"`
}

// Text writes an outline as indented lines.
func (o Outline) Text() string {
	var w strings.Builder
	for _, n := range o.Nodes {
		w.WriteString(strings.Repeat("  ", n.Depth) + n.Role)
		if n.Level > 0 {
			fmt.Fprintf(&w, " %d", n.Level)
		}
		if n.Name != "" {
			fmt.Fprintf(&w, " %q", n.Name)
		}
		if n.Value != "" {
			fmt.Fprintf(&w, " = %q", n.Value)
		}
		for _, s := range n.States {
			w.WriteString(" [" + s + "]")
		}
		w.WriteString("\n")
	}
	return w.String()
}

// ReadOutline reads the outline of a tab's page, its frames in their places. It
// is for persons who look on, and asks no lease.
func ReadOutline(ctx context.Context, tab *tabs.Tab) (Outline, error) {
	o := Outline{Tab: tab.Info()}
	frames, err := tab.Frames(ctx)
	if err != nil {
		return o, err
	}
	r := outliner{out: &o, trees: map[cdp.FrameID]tree{}}
	for _, f := range frames {
		var values []string
		if err := f.Eval(ctx, secretValues, &values); err != nil {
			if f.Parent != nil && gone(err) {
				continue
			}
			return o, fmt.Errorf("read the outline: %w", err)
		}
		for _, v := range values {
			r.secrets = append(r.secrets, plain(v))
		}
		got, err := tabs.Call(ctx, tab, f.Session(), accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{FrameID: f.ID})
		if err != nil {
			if f.Parent != nil && gone(err) {
				continue
			}
			return o, fmt.Errorf("read the outline: %w", err)
		}
		t := tree{nodes: map[accessibility.NodeID]*accessibility.Node{}, owners: map[cdp.BackendNodeID]cdp.FrameID{}}
		for _, n := range got.Nodes {
			if n == nil {
				continue
			}
			t.nodes[n.NodeID] = n
			if n.ParentID == "" && t.root == nil {
				t.root = n
			}
		}
		r.trees[f.ID] = t
		if f.Parent != nil {
			// Node ids are of one process: the frame is looked up in its parent's tree.
			if owner, err := f.Owner(ctx); err == nil {
				if p, ok := r.trees[f.Parent.ID]; ok {
					p.owners[owner] = f.ID
				}
			}
		}
	}
	r.frame(frames[0].ID, 0)
	return o, nil
}

type tree struct {
	root   *accessibility.Node
	nodes  map[accessibility.NodeID]*accessibility.Node
	owners map[cdp.BackendNodeID]cdp.FrameID // the frames in it, by the element that shows them
}

type outliner struct {
	out     *Outline
	trees   map[cdp.FrameID]tree
	secrets []string // what fields for secrets hold
}

// hidden is a text without what fields for secrets hold, which a page shows in them.
func (r *outliner) hidden(s string) string {
	for _, secret := range r.secrets {
		if s == secret || len(secret) > 3 && strings.Contains(s, secret) {
			return secretText
		}
	}
	return s
}

func (r *outliner) frame(id cdp.FrameID, depth int) {
	t, ok := r.trees[id]
	if !ok || t.root == nil {
		return
	}
	delete(r.trees, id) // once
	r.node(t, t.root, depth, "")
}

// node adds a node and what is in it. Nodes that say nothing of their own give
// their place to what is in them.
func (r *outliner) node(t tree, n *accessibility.Node, depth int, around string) {
	if n == nil {
		return
	}
	delete(t.nodes, n.NodeID) // once, whatever the browser says of who is in whom
	if len(r.out.Nodes) >= MaxOutline {
		r.out.Cut = true
		return
	}
	role, name := text(n.Role), r.hidden(text(n.Name))
	if role == "InlineTextBox" {
		return
	}
	kept := !n.Ignored && role != "none" && (role != "generic" || name != "") && !(role == "StaticText" && (name == "" || name == around))
	if kept {
		node := Node{Depth: depth, Role: role, Name: name, Value: r.hidden(text(n.Value))}
		if role == "StaticText" {
			node.Role = "text"
		}
		for _, p := range n.Properties {
			if p == nil {
				continue
			}
			v := text(p.Value)
			switch p.Name {
			case accessibility.PropertyNameLevel:
				fmt.Sscan(v, &node.Level)
			case accessibility.PropertyNameChecked, accessibility.PropertyNameExpanded, accessibility.PropertyNameDisabled,
				accessibility.PropertyNameSelected, accessibility.PropertyNameRequired, accessibility.PropertyNamePressed, accessibility.PropertyNameFocused:
				if v == "true" || v == "mixed" {
					node.States = append(node.States, string(p.Name))
				}
			}
		}
		if node.Value == name {
			node.Value = ""
		}
		r.out.Nodes = append(r.out.Nodes, node)
		depth++
		around = name
	}
	if id, ok := t.owners[n.BackendDOMNodeID]; ok {
		r.frame(id, depth)
	}
	for _, id := range n.ChildIDs {
		r.node(t, t.nodes[id], depth, around)
	}
}

func text(v *accessibility.Value) string {
	if v == nil || len(v.Value) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(v.Value, &s) == nil {
		return plain(s)
	}
	return string(v.Value)
}

func plain(s string) string { return clip(strings.Join(strings.Fields(s), " "), 500) }
