package browser

import (
	"slices"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
)

// A browser in a sandbox may be anything: one that says of two parts of a page that
// each is in the other is read to an end all the same.
func TestOutline_ofPartsInEachOther(t *testing.T) {
	role := func(s string) *accessibility.Value { return &accessibility.Value{Value: []byte(`"` + s + `"`)} }
	root := &accessibility.Node{NodeID: "1", Ignored: true, ChildIDs: []accessibility.NodeID{"2", "3", "1"}}
	nodes := map[accessibility.NodeID]*accessibility.Node{
		"1": root,
		"2": {NodeID: "2", Ignored: true, ChildIDs: []accessibility.NodeID{"1", "2"}},
		"3": {NodeID: "3", Role: role("button"), Name: role("Press"), Properties: []*accessibility.Property{nil}, ChildIDs: []accessibility.NodeID{"2", "none"}},
	}
	var o Outline
	r := outliner{out: &o, trees: map[cdp.FrameID]tree{"f": {root: root, nodes: nodes}}}
	r.frame("f", 0)
	if want := []Node{{Role: "button", Name: "Press"}}; !slices.EqualFunc(o.Nodes, want, func(a, b Node) bool { return a.Role == b.Role && a.Name == b.Name }) {
		t.Errorf("outline: %+v", o.Nodes)
	}
}
