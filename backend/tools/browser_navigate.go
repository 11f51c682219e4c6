package tools

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

//go:embed browser_navigate.md
var browserNavigateDescription string

//go:embed browser_back.md
var browserBackDescription string

//go:embed browser_forward.md
var browserForwardDescription string

//go:embed browser_reload.md
var browserReloadDescription string

type browserNavigateParams struct {
	URL string `json:"url" jsonschema:"the address to open: http or https, or about:blank; a scheme that is left out is added"`
}

func newBrowserNavigate() Tool {
	return &browserTool[browserNavigateParams]{
		params: describe[browserNavigateParams]("browser_navigate", browserNavigateDescription, nil),
		action: "navigate",
		plan: func(_ context.Context, _ Call, p browserNavigateParams) (browserAct, error) {
			if strings.TrimSpace(p.URL) == "" {
				return browserAct{}, errors.New("url: must not be empty")
			}
			return browserAct{target: redacted(p.URL), do: func(ctx context.Context, b browser.Backend) (browser.Look, error) {
				return b.Navigate(ctx, p.URL)
			}}, nil
		},
	}
}

// redacted is an address as it may be shown, without the password that it may hold.
func redacted(address string) string {
	if u, err := tabs.Address(address); err == nil {
		address = u
	}
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(authority, "@")
	name, _, secret := strings.Cut(authority[:max(at, 0)], ":")
	if !secret {
		return address
	}
	return scheme + "://" + name + ":xxxxx" + rest[at:]
}

type noParams struct{}

func newBrowserBack() Tool {
	return moving("back", browserBackDescription, browser.Back)
}

func newBrowserForward() Tool {
	return moving("forward", browserForwardDescription, browser.Forward)
}

func newBrowserReload() Tool {
	return moving("reload", browserReloadDescription, browser.Reload)
}

// moving returns a tool that moves in a tab's history.
func moving(action, description, kind string) Tool {
	return &browserTool[noParams]{
		params: describe[noParams]("browser_"+action, description, nil),
		action: action,
		plan: func(context.Context, Call, noParams) (browserAct, error) {
			return browserAct{do: doing(browser.Action{Kind: kind})}, nil
		},
	}
}

// doing makes one of a Backend's other actions.
func doing(a browser.Action) func(context.Context, browser.Backend) (browser.Look, error) {
	return func(ctx context.Context, b browser.Backend) (browser.Look, error) { return b.Do(ctx, a) }
}
