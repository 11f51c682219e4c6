package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// protocol is the version that the session is begun in; the server answers with
// one that it knows.
const protocol = "2025-06-18"

// maxTools bounds the tools that are read of a server that aggregates others'.
const maxTools = 2000

// tool is what a tool of the server takes; nil where it does not say.
type tool []string

// first are the tools that every server of this kind has had, for one that does
// not list them.
var first = map[string]tool{
	toolNavigate: {"url"}, toolClick: {"index"}, toolFill: {"index", "value", "clear"}, toolPress: {"key"},
	toolMarkdown: {}, toolElements: {}, toolScreenshot: {"index", "selector"},
}

func (b *Browser) has(name string) bool {
	_, ok := b.tools[name]
	return ok
}

func (b *Browser) takes(name, parameter string) bool {
	return slices.Contains(b.tools[name], parameter)
}

// connect begins a session unless there is one.
func (b *Browser) connect(ctx context.Context) error {
	if b.session != nil {
		return nil
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "glovebox", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	http := *b.o.Client
	http.Transport = wire{b.o.Client.Transport}
	transport := &mcp.StreamableClientTransport{
		Endpoint: b.o.URL, HTTPClient: &http, MaxEventSize: maxAnswer,
		MaxRetries:           -1,   // what was sent is not sent again
		DisableStandaloneSSE: true, // nothing is asked of us
	}
	var session *mcp.ClientSession
	err := b.watched(ctx, "begin a session with the server's browser tools", func(ctx context.Context) (err error) {
		session, err = client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
		return err
	})
	if err != nil {
		return err
	}
	tools := map[string]tool{}
	err = b.watched(ctx, "list the server's browser tools", func(ctx context.Context) error {
		for t, err := range session.Tools(ctx, nil) {
			if err != nil {
				return err
			}
			if len(tools) == maxTools {
				break
			}
			tools[t.Name] = parameters(t)
		}
		return nil
	})
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		tools, err = maps.Clone(first), nil // an old one
	}
	if _, ok := tools[toolNavigate]; err == nil && !ok {
		err = fmt.Errorf("%w: the server's tools are for other things", execenv.ErrNoBrowser)
	}
	if err != nil {
		_ = session.Close() // whose fault is not the one to tell
		return err
	}
	b.session, b.tools = session, tools
	return nil
}

// parameters are the names in a tool's schema.
func parameters(t *mcp.Tool) tool {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	raw, err := json.Marshal(t.InputSchema)
	if err != nil || json.Unmarshal(raw, &schema) != nil {
		return nil
	}
	return slices.Collect(maps.Keys(schema.Properties))
}

// drop ends the session; the next call begins another, for which the numbers of
// this one mean nothing.
func (b *Browser) drop() {
	if b.session == nil {
		return
	}
	_ = b.session.Close() // the server may be gone
	b.session, b.stale = nil, b.known != nil
}

// call runs a tool. A server that has forgotten the session has run nothing: it
// is asked again in a new one.
func (b *Browser) call(ctx context.Context, name string, args map[string]any) (*mcp.CallToolResult, error) {
	res, err := b.once(ctx, name, args)
	if errors.Is(err, errSession) {
		b.drop()
		if _, numbered := args["index"]; numbered {
			return nil, fmt.Errorf("the sandbox's server has begun anew: %w", browser.ErrStale)
		}
		res, err = b.once(ctx, name, args)
	}
	return res, err
}

func (b *Browser) once(ctx context.Context, name string, args map[string]any) (*mcp.CallToolResult, error) {
	if err := b.connect(ctx); err != nil {
		return nil, err
	}
	if !b.has(name) {
		return nil, b.unsupported("without " + name)
	}
	if args == nil {
		args = map[string]any{} // null is refused
	}
	var res *mcp.CallToolResult
	err := b.watched(ctx, name, func(ctx context.Context) (err error) {
		res, err = b.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		return err
	})
	fault, refused := errors.AsType[*jsonrpc.Error](err)
	switch {
	case refused:
		return nil, &ToolError{name, clip(fault.Message)}
	case errors.Is(err, tabs.ErrBroken), errors.Is(err, execenv.ErrTooLarge):
		b.drop() // what is left of the session is in no state to be known
		return nil, err
	case err != nil:
		return nil, err
	case res.IsError:
		return nil, &ToolError{name, clip(textOf(res))}
	}
	return res, nil
}

// clip bounds what a server says of a fault.
func clip(s string) string {
	const most = 2000
	s = strings.ToValidUTF8(strings.TrimSpace(s), "\uFFFD")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
