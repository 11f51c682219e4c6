package app

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// The demo gets the browser without a word of it, and opens a page that it serves
// in its own sandbox. Where it is given none it says so, and goes on.
func TestDemo_opensAPage(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallNamespace)
	installed(t, "chromium")
	s := start(t, dataDir(t))
	demo := httpapi.OpenRequest{Goal: "go", Model: "demo", Spec: sandbox.Spec{Wall: sandbox.WallNamespace, Network: sandbox.Network{Mode: sandbox.NetworkNone}}}
	without := demo
	demo.Workspace = workspace(t, 1000)
	without.Workspace, without.Plugins = workspace(t, 1000), []string{}
	with, blind := s.open(demo), s.open(without)
	for _, tool := range []string{"browser_navigate", "browser_type", "browser_click", "browser_screenshot"} {
		r := awaitEvent(s, with, 90*time.Second, func(r *task.ToolResultRecorded) bool { return r.Tool == tool })
		if r.Status != task.CallOK || strings.Contains(tool, "screenshot") != (len(r.Images) == 1) {
			t.Errorf("%s = %s, %d images: %s", tool, r.Status, len(r.Images), r.Text)
		}
	}
	awaitEvent(s, blind, 90*time.Second, func(m *task.MessagesAppended) bool {
		return len(m.Messages) > 0 && strings.HasPrefix(m.Messages[0].Blocks[0].Text, "I have no browser in this session")
	})
}
