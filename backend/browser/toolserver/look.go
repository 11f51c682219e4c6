package toolserver

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	_ "image/png" // the format of most servers' pictures
	"regexp"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox/backend/browser"
)

// maxPixels bounds a picture that is decoded: a small file can be a huge one.
const maxPixels = 64 << 20

// numbered is an element in a server's list, one on a line:
// "[3]<button type=submit>Sign in</button>", or "[3] <a> Sign in (/login)".
var numbered = regexp.MustCompile(`(?m)^[\s*|-]*\[(\d{1,6})\]\s*:?\s*<\s*([a-zA-Z][\w-]*)[^>\n]*>([^\n]*)$`)

var markup = regexp.MustCompile(`<[^>]*>|/>`)

// elements reads the elements of a list. A text without any is no fault: the
// form is the server's.
func elements(text string) []browser.Element {
	var all []browser.Element
	for _, m := range numbered.FindAllStringSubmatch(text, browser.MaxElements) {
		n, _ := strconv.Atoi(m[1]) // six digits at most
		all = append(all, browser.Element{Number: n, Tag: strings.ToLower(m[2]), Name: strings.TrimSpace(markup.ReplaceAllString(m[3], ""))})
	}
	return all
}

// note takes a list for the newest.
func (b *Browser) note(list string) {
	b.known, b.stale = nil, false
	for _, e := range elements(list) {
		if b.known == nil {
			b.known = map[int]bool{}
		}
		b.known[e.Number] = true
	}
}

// list asks for the elements of the page.
func (b *Browser) list(ctx context.Context) (string, error) {
	res, err := b.call(ctx, toolElements, nil)
	if err != nil {
		return "", err
	}
	text := textOf(res)
	b.note(text)
	return text, nil
}

// element returns the arguments that name an element to a tool.
func (b *Browser) element(ctx context.Context, name string, at browser.At) (map[string]any, error) {
	if err := b.connect(ctx); err != nil {
		return nil, err
	}
	switch {
	case at.Selector != "" && !b.takes(name, "selector"):
		return nil, fmt.Errorf("%w: its %s knows elements by their number alone", ErrUnsupported, name)
	case at.Selector != "":
		return map[string]any{"selector": at.Selector}, nil
	case !b.takes(name, "index"):
		return nil, fmt.Errorf("%w: its %s takes no element", ErrUnsupported, name)
	case b.stale || b.known != nil && !b.known[at.Number]:
		return nil, browser.ErrStale
	}
	return map[string]any{"index": at.Number}, nil
}

// join puts the page and its elements together; what is empty is left out.
func join(page, list string) string {
	page, list = strings.TrimSpace(page), strings.TrimSpace(list)
	switch {
	case list == "":
		return page
	case page != "":
		page += "\n\n"
	}
	return page + "# Interactive elements\n" + list
}

// look is a Look of a text.
func look(text string) browser.Look {
	return browser.Look{Text: text, Elements: elements(text)}
}

// textOf joins the text of a result; what is no text is left out.
func textOf(res *mcp.CallToolResult) string {
	var parts []string
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			parts = append(parts, strings.ToValidUTF8(t.Text, "\uFFFD"))
		}
	}
	return strings.Join(parts, "\n")
}

// picture takes the first image out of a result. Its type is read from its bytes
// and all of it is decoded: a picture that was cut off on its way is none.
func picture(res *mcp.CallToolResult, shot browser.Shot) (browser.Picture, error) {
	var data []byte
	for _, c := range res.Content {
		if i, ok := c.(*mcp.ImageContent); ok {
			data = i.Data
			break
		}
	}
	if len(data) == 0 {
		return browser.Picture{}, &ToolError{toolScreenshot, "its answer holds no picture; try again"}
	}
	is, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err == nil && is.Width*is.Height > maxPixels {
		err = fmt.Errorf("it has %d×%d pixels", is.Width, is.Height)
	}
	var decoded image.Image
	if err == nil {
		decoded, _, err = image.Decode(bytes.NewReader(data))
	}
	if err != nil {
		return browser.Picture{}, &ToolError{toolScreenshot, fmt.Sprintf("its picture of %d bytes cannot be read (%v); try again", len(data), err)}
	}
	if shot.JPEG && format != "jpeg" {
		if data, err = asJPEG(decoded, shot.Quality); err != nil {
			return browser.Picture{}, fmt.Errorf("write the picture as JPEG: %w", err)
		}
		format = "jpeg"
	}
	p := browser.Picture{
		Data: data, Type: "image/" + format, Width: is.Width, Height: is.Height,
		Scale: 1, CSSWidth: float64(is.Width), CSSHeight: float64(is.Height),
	}
	p.Text = fmt.Sprintf("Screenshot of %d×%d pixels.", p.Width, p.Height)
	return p, nil
}

// asJPEG writes a picture on white, which a page without a colour of its own is.
func asJPEG(from image.Image, quality int) ([]byte, error) {
	if quality <= 0 {
		quality = 80
	}
	on := image.NewRGBA(from.Bounds())
	draw.Draw(on, on.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(on, on.Bounds(), from, from.Bounds().Min, draw.Over)
	var out bytes.Buffer
	if err := jpeg.Encode(&out, on, &jpeg.Options{Quality: min(quality, 100)}); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
