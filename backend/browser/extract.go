package browser

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"

	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// Extract returns the page as Markdown, its frames after it, with the numbered
// elements. It is a look: after a person gave control back, one of these or a
// screenshot comes first.
func (a *Agent) Extract(ctx context.Context) (Look, error) {
	if _, err := a.lease.Look(); err != nil {
		return Look{}, err
	}
	c, ctx, end, err := a.begin(ctx, false)
	if err != nil {
		return Look{}, err
	}
	defer end()
	return c.look(ctx, true)
}

// markdown writes what the frames show.
func (c *act) markdown(ctx context.Context, frames []*tabs.Frame, w *bytes.Buffer) error {
	left := MaxMarkdown
	for _, f := range frames {
		var doc struct {
			HTML, Title string
			Cut         bool
		}
		if err := f.Eval(ctx, script, &doc, "html", left); err != nil {
			if f.Parent != nil && gone(err) {
				continue
			}
			return err
		}
		left -= len(doc.HTML)
		text, err := toMarkdown(doc.HTML)
		if err != nil {
			return fmt.Errorf("make Markdown of %s: %w", f.URL, err)
		}
		if text == "" {
			continue
		}
		if f.Parent != nil {
			fmt.Fprintf(w, "\n# In frame %s\n", frameName(f))
		}
		w.WriteString("\n" + text + "\n")
		if doc.Cut {
			w.WriteString("\n(The page is longer than this.)\n")
		}
		if left <= 0 {
			break
		}
	}
	return nil
}

func toMarkdown(html string) (string, error) {
	conv := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin(),
	))
	text, err := conv.ConvertString(html)
	return strings.TrimSpace(text), err
}
