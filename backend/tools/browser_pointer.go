package tools

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/glovebox-dev/glovebox/backend/browser"
)

//go:embed browser_click.md
var browserClickDescription string

//go:embed browser_hover.md
var browserHoverDescription string

//go:embed browser_scroll.md
var browserScrollDescription string

func newBrowserClick() Tool {
	return pointing("click", browserClickDescription, func(at browser.At) func(context.Context, browser.Backend) (browser.Look, error) {
		return func(ctx context.Context, b browser.Backend) (browser.Look, error) { return b.Click(ctx, at) }
	})
}

func newBrowserHover() Tool {
	return pointing("hover", browserHoverDescription, func(at browser.At) func(context.Context, browser.Backend) (browser.Look, error) {
		return doing(browser.Action{Kind: browser.Hover, At: at})
	})
}

// pointing returns a tool that puts the pointer on an element.
func pointing(action, description string, do func(browser.At) func(context.Context, browser.Backend) (browser.Look, error)) Tool {
	return &browserTool[element]{
		params: describe[element]("browser_"+action, description, refineElement),
		action: action,
		plan: func(_ context.Context, _ Call, p element) (browserAct, error) {
			at, err := p.at(false)
			return browserAct{target: p.String(), do: do(at)}, err
		},
	}
}

type browserScrollParams struct {
	element

	Direction string `json:"direction,omitempty" jsonschema:"up, down, left, right, top or bottom; left out, the element is brought into view, or the page scrolled down"`
	Amount    int    `json:"amount,omitempty" jsonschema:"CSS pixels (600 when left out)"`
}

func newBrowserScroll() Tool {
	return &browserTool[browserScrollParams]{
		params: describe[browserScrollParams]("browser_scroll", browserScrollDescription, func(s *jsonschema.Schema) {
			refineElement(s)
			s.Properties["direction"].Enum = []any{"up", "down", "left", "right", "top", "bottom"}
			s.Properties["amount"].Minimum = new(1.0)
			s.Properties["amount"].Maximum = new(100_000.0)
		}),
		action: "scroll",
		plan: func(_ context.Context, _ Call, p browserScrollParams) (browserAct, error) {
			at, err := p.at(true)
			target := p.Direction
			if at != (browser.At{}) {
				target = fmt.Sprintf("%s %s", p.element, p.Direction)
			}
			return browserAct{target: target, do: doing(browser.Action{Kind: browser.Scroll, At: at, Direction: p.Direction, Amount: p.Amount})}, err
		},
	}
}
