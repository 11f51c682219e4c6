package toolserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// The tools of the server, by the names that they have had since its first
// versions.
const (
	toolNavigate   = "browser_navigate"
	toolClick      = "browser_click"
	toolFill       = "browser_form_input_fill"
	toolPress      = "browser_press_key"
	toolMarkdown   = "browser_get_markdown"
	toolElements   = "browser_get_clickable_elements"
	toolScreenshot = "browser_screenshot"
	toolText       = "browser_get_text"
	toolScroll     = "browser_scroll"
	toolSelect     = "browser_select"
	toolHover      = "browser_hover"
	toolBack       = "browser_go_back"
	toolForward    = "browser_go_forward"
	toolTabs       = "browser_tab_list"
	toolNewTab     = "browser_new_tab"
	toolSwitchTab  = "browser_switch_tab"
	toolCloseTab   = "browser_close_tab"
	toolDownloads  = "browser_get_download_list"
)

// abilities are what can be done, in the words of browser.Backend and of an
// Action's kinds, and the tool that each needs.
var abilities = []struct{ kind, tool string }{
	{"navigate", toolNavigate}, {"click", toolClick}, {"type", toolFill}, {"extract", toolMarkdown}, {"screenshot", toolScreenshot},
	{browser.Scroll, toolScroll}, {browser.Press, toolPress}, {browser.Select, toolSelect}, {browser.Hover, toolHover},
	{browser.Back, toolBack}, {browser.Forward, toolForward}, {browser.Wait, toolElements}, {browser.Tabs, toolTabs}, {browser.Downloads, toolDownloads},
}

// unsupported refuses something, and names what works.
func (b *Browser) unsupported(what string) error {
	var works []string
	for _, a := range abilities {
		if b.has(a.tool) {
			works = append(works, a.kind)
		}
	}
	return fmt.Errorf("%s: %w; what works is %s", what, ErrUnsupported, strings.Join(works, ", "))
}

// step is one call of a tool, and what is told of it; what the server says when "".
type step struct {
	tool string
	args map[string]any
	say  string
}

// act calls the tools one after the other and looks at what became of the page:
// the numbers of before hold no more.
func (b *Browser) act(ctx context.Context, steps ...step) (browser.Look, error) {
	var said []string
	for _, s := range steps {
		res, err := b.call(ctx, s.tool, s.args)
		if err != nil {
			b.stale = true // it may have done a part of it
			if len(said) > 0 {
				err = fmt.Errorf("%w (before that: %s)", err, strings.Join(said, " "))
			}
			return browser.Look{}, err
		}
		said = append(said, cmp.Or(s.say, textOf(res)))
	}
	text := strings.Join(said, "\n")
	if seen := look(text); len(seen.Elements) > 0 || steps[0].tool == toolNavigate {
		b.note(text) // the server has listed them by itself
		return seen, nil
	}
	b.stale = true
	list, err := b.list(ctx)
	if err != nil {
		// The act was done; that is the answer.
		b.o.Log.DebugContext(ctx, "list the elements after an act", "err", err)
		return browser.Look{Text: text + "\n\nThe page could not be looked at after that; take a fresh look (browser_extract)."}, nil
	}
	return look(join(text, list)), nil
}

// Do does one of the other actions as far as the server has a tool for it.
func (b *Browser) Do(ctx context.Context, a browser.Action) (browser.Look, error) {
	more := time.Duration(0)
	if a.Kind == browser.Wait {
		more = waitTime(a)
	}
	ctx, end, err := b.begin(ctx, more)
	if err != nil {
		return browser.Look{}, err
	}
	defer end()
	if err := b.connect(ctx); err != nil {
		return browser.Look{}, err
	}
	do, ok := actions[a.Kind]
	if !ok {
		return browser.Look{}, b.unsupported(a.Kind)
	}
	return do(b, ctx, a)
}

var actions = map[string]func(*Browser, context.Context, browser.Action) (browser.Look, error){
	browser.Scroll: (*Browser).scroll,
	browser.Press:  (*Browser).press,
	browser.Select: (*Browser).choose,
	browser.Hover: func(b *Browser, ctx context.Context, a browser.Action) (browser.Look, error) {
		args, err := b.element(ctx, toolHover, a.At)
		if err != nil {
			return browser.Look{}, fmt.Errorf("hover over %v: %w", a.At, err)
		}
		return b.act(ctx, step{tool: toolHover, args: args})
	},
	browser.Back: func(b *Browser, ctx context.Context, _ browser.Action) (browser.Look, error) {
		return b.act(ctx, step{tool: toolBack})
	},
	browser.Forward: func(b *Browser, ctx context.Context, _ browser.Action) (browser.Look, error) {
		return b.act(ctx, step{tool: toolForward})
	},
	browser.Wait:      (*Browser).wait,
	browser.Tabs:      (*Browser).tabs,
	browser.Downloads: (*Browser).downloads,
}

func (b *Browser) scroll(ctx context.Context, a browser.Action) (browser.Look, error) {
	const far = 1 << 24 // pixels; no page that is looked at is longer
	if a.At != (browser.At{}) {
		return browser.Look{}, b.unsupported("scroll an element")
	}
	amount := a.Amount
	if amount == 0 {
		amount = 600
	}
	switch a.Direction {
	case "", "down":
	case "up":
		amount = -amount
	case "bottom":
		amount = far
	case "top":
		amount = -far
	default:
		return browser.Look{}, b.unsupported("scroll " + a.Direction)
	}
	return b.act(ctx, step{tool: toolScroll, args: map[string]any{"amount": amount}})
}

func (b *Browser) press(ctx context.Context, a browser.Action) (browser.Look, error) {
	switch {
	case a.At != (browser.At{}):
		return browser.Look{}, b.unsupported("press a key in an element (click it first, then press)")
	case strings.Contains(strings.TrimSuffix(a.Keys, "+"), "+") || strings.ContainsRune(a.Keys, ' '):
		return browser.Look{}, b.unsupported("press several keys at once")
	}
	return b.act(ctx, step{tool: toolPress, args: map[string]any{"key": a.Keys}})
}

func (b *Browser) choose(ctx context.Context, a browser.Action) (browser.Look, error) {
	if len(a.Values) != 1 {
		return browser.Look{}, b.unsupported("select other than one value")
	}
	args, err := b.element(ctx, toolSelect, a.At)
	if err != nil {
		return browser.Look{}, fmt.Errorf("select in %v: %w", a.At, err)
	}
	args["value"] = a.Values[0]
	return b.act(ctx, step{tool: toolSelect, args: args})
}

// waitTime is how long an action waits at most.
func waitTime(a browser.Action) time.Duration {
	if a.Timeout <= 0 {
		return 10 * time.Second
	}
	return min(a.Timeout, browser.MaxWait)
}

// wait lets time pass, until a text is on the page where one is named: the page
// is asked again and again, since the server tells nobody of its changes.
func (b *Browser) wait(ctx context.Context, a browser.Action) (browser.Look, error) {
	if a.At.Selector != "" || a.URL != "" {
		return browser.Look{}, b.unsupported("wait for an element or an address (wait for a text of the page)")
	}
	over := time.NewTimer(waitTime(a))
	defer over.Stop()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		if a.Text != "" {
			res, err := b.call(ctx, toolText, nil)
			if err != nil {
				return browser.Look{}, err
			}
			if strings.Contains(textOf(res), a.Text) {
				break
			}
		}
		select {
		case <-again.C:
			continue
		case <-over.C:
			if a.Text != "" {
				return browser.Look{}, fmt.Errorf("wait for text %q: %w", a.Text, browser.ErrTimeout)
			}
		case <-ctx.Done():
			return browser.Look{}, context.Cause(ctx)
		}
		break
	}
	list, err := b.list(ctx)
	if err != nil {
		return browser.Look{}, err
	}
	return look(join("", list)), nil
}

// tabs lists and changes the tabs. The server counts them from zero; here they
// have numbers from one on, as those of every other browser.
func (b *Browser) tabs(ctx context.Context, a browser.Action) (browser.Look, error) {
	pick := step{tool: toolSwitchTab, args: map[string]any{"index": a.Tab - 1}}
	switch {
	case a.Op == "" || a.Op == "list":
		res, err := b.call(ctx, toolTabs, nil)
		if err != nil {
			return browser.Look{}, err
		}
		return browser.Look{Text: tabList(res)}, nil
	case a.Op == "new":
		url := "about:blank"
		if a.URL != "" {
			var err error
			if url, err = tabs.Address(a.URL); err != nil {
				return browser.Look{}, err
			}
		}
		return b.act(ctx, step{tool: toolNewTab, args: map[string]any{"url": url}})
	case a.Op == "switch" && a.Tab > 0:
		return b.act(ctx, pick)
	case a.Op == "close" && a.Tab > 0:
		return b.act(ctx, pick, step{tool: toolCloseTab})
	case a.Op == "close":
		return b.act(ctx, step{tool: toolCloseTab})
	}
	return browser.Look{}, fmt.Errorf("%s tab %d: only list, switch, close and new, with tabs from 1 on: %w", a.Op, a.Tab, browser.ErrWrongKind)
}

// tabLine is a tab in the text of servers that send no structure.
var tabLine = regexp.MustCompile(`(?m)^\[(\d{1,4})\] ?`)

func tabList(res *mcp.CallToolResult) string {
	var list struct {
		Tabs []struct {
			Index      int
			Active     bool
			Title, URL string
		} `json:"tabList"`
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil && json.Unmarshal(raw, &list) == nil && len(list.Tabs) > 0 {
		var w strings.Builder
		for _, t := range list.Tabs {
			mark := ""
			if t.Active {
				mark = " [active]"
			}
			fmt.Fprintf(&w, "Tab %d%s: %s (%s)\n", t.Index+1, mark, t.Title, t.URL)
		}
		return w.String()
	}
	return tabLine.ReplaceAllStringFunc(textOf(res), func(m string) string {
		n, _ := strconv.Atoi(strings.Trim(m, "[] ")) // four digits at most
		return fmt.Sprintf("Tab %d: ", n+1)
	})
}

func (b *Browser) downloads(ctx context.Context, _ browser.Action) (browser.Look, error) {
	res, err := b.call(ctx, toolDownloads, nil)
	if err != nil {
		return browser.Look{}, err
	}
	return browser.Look{Text: textOf(res)}, nil
}
