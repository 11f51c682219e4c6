package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/browser"
)

//go:embed browser_tabs.md
var browserTabsDescription string

//go:embed browser_downloads.md
var browserDownloadsDescription string

//go:embed browser_console.md
var browserConsoleDescription string

//go:embed browser_dialog.md
var browserDialogDescription string

type browserTabsParams struct {
	Action string `json:"action,omitempty" jsonschema:"list (when left out), switch, new or close"`
	Tab    int    `json:"tab,omitempty" jsonschema:"the tab's number, for switch and close; close without one closes the active tab"`
	URL    string `json:"url,omitempty" jsonschema:"what a new tab is to open; left out, it stays empty"`
}

func newBrowserTabs() Tool {
	return &browserTool[browserTabsParams]{
		params: describe[browserTabsParams]("browser_tabs", browserTabsDescription, func(s *jsonschema.Schema) {
			s.Properties["action"].Enum = []any{"list", "switch", "new", "close"}
			s.Properties["tab"].Minimum = new(1.0)
		}),
		action:   "tabs",
		defaults: browserTabsParams{Action: "list"},
		plan: func(_ context.Context, _ Call, p browserTabsParams) (browserAct, error) {
			target := p.Action
			switch {
			case p.Action == "switch" && p.Tab == 0:
				return browserAct{}, errors.New("tab: required to switch")
			case p.Tab != 0 && p.Action != "switch" && p.Action != "close":
				return browserAct{}, fmt.Errorf("tab: not with %s", p.Action)
			case p.URL != "" && p.Action != "new":
				return browserAct{}, fmt.Errorf("url: not with %s; use browser_navigate", p.Action)
			case p.Tab != 0:
				target = fmt.Sprintf("%s tab %d", p.Action, p.Tab)
			case p.URL != "":
				target = "new " + redacted(p.URL)
			}
			return browserAct{target: target, do: doing(browser.Action{Kind: browser.Tabs, Op: p.Action, Tab: p.Tab, URL: p.URL})}, nil
		},
	}
}

func newBrowserDownloads() Tool {
	return listing("downloads", browserDownloadsDescription, browser.Downloads)
}

func newBrowserConsole() Tool {
	return listing("console", browserConsoleDescription, browser.Console)
}

// listing returns a tool that lists what has come about, the newest last.
func listing(action, description, kind string) Tool {
	return &browserTool[noParams]{
		params: describe[noParams]("browser_"+action, description, nil),
		action: action,
		looks:  true,
		plan: func(context.Context, Call, noParams) (browserAct, error) {
			return browserAct{window: window{newest: true}, do: doing(browser.Action{Kind: kind})}, nil
		},
	}
}

type browserDialogParams struct {
	Accept bool   `json:"accept" jsonschema:"true for OK, false for Cancel"`
	Text   string `json:"text,omitempty" jsonschema:"what a prompt asks for"`
}

func newBrowserDialog() Tool {
	return &browserTool[browserDialogParams]{
		params: describe[browserDialogParams]("browser_dialog", browserDialogDescription, nil),
		action: "dialog",
		plan: func(_ context.Context, _ Call, p browserDialogParams) (browserAct, error) {
			target := "dismiss"
			if p.Accept {
				target = "accept"
			}
			return browserAct{target: target, typed: p.Text != "", do: doing(browser.Action{Kind: browser.Dialog, Accept: p.Accept, Text: p.Text})}, nil
		},
	}
}
