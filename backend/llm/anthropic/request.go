package anthropic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/remote"
)

// maxID is the longest id of a call that the wire is known to take.
const maxID = 64

// params maps a request to the wire. Each turn of an agent sends the whole
// history again, so three places are marked for the vendor's cache: the end of
// the tools, of the system prompt and of the history.
func (m *Model) params(r llm.Request) sdk.MessageNewParams {
	p := sdk.MessageNewParams{
		Model:     r.Model,
		MaxTokens: int64(cmp.Or(r.MaxTokens, m.o.MaxTokens)),
		Messages:  m.history(r.Messages),
	}
	if strings.TrimSpace(r.System) != "" {
		p.System = []sdk.TextBlockParam{{Text: r.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	for _, t := range r.Tools {
		tool := &sdk.ToolParam{Name: t.Name, InputSchema: schema(t.Schema)}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: tool})
	}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	return p
}

// schema is sent as it was written: a cache knows a prefix by its bytes.
func schema(s json.RawMessage) sdk.ToolInputSchemaParam {
	if !json.Valid(s) {
		return sdk.ToolInputSchemaParam{}
	}
	return param.Override[sdk.ToolInputSchemaParam](s)
}

func (m *Model) history(messages []llm.Message) []sdk.MessageParam {
	var out []sdk.MessageParam
	turns := remote.Turns(messages)
	for i, turn := range turns {
		var content []sdk.ContentBlockParamUnion
		for _, b := range turn.Blocks {
			content = append(content, m.block(b))
		}
		if i == len(turns)-1 {
			*content[len(content)-1].GetCacheControl() = sdk.NewCacheControlEphemeralParam()
		}
		if turn.Role == llm.RoleAssistant {
			out = append(out, sdk.NewAssistantMessage(content...))
		} else {
			out = append(out, sdk.NewUserMessage(content...))
		}
	}
	return out
}

func (m *Model) block(b llm.Block) sdk.ContentBlockParamUnion {
	switch {
	case b.Use != nil:
		return sdk.NewToolUseBlock(remote.ID(b.Use.ID, maxID), remote.Input(b.Use.Input), remote.Name(b.Use.Name))
	case b.Result != nil:
		return sdk.ContentBlockParamUnion{OfToolResult: m.result(*b.Result)}
	case b.Image != nil:
		if image := m.image(*b.Image); image != nil {
			return sdk.ContentBlockParamUnion{OfImage: image}
		}
		return sdk.NewTextBlock(remote.NoImage)
	}
	return sdk.NewTextBlock(b.Text)
}

func (m *Model) result(r llm.Result) *sdk.ToolResultBlockParam {
	out := &sdk.ToolResultBlockParam{ToolUseID: remote.ID(r.ID, maxID)}
	if r.IsError {
		out.IsError = param.NewOpt(true)
	}
	text := func(s string) {
		out.Content = append(out.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: s}})
	}
	if strings.TrimSpace(r.Text) != "" {
		text(r.Text)
	}
	for _, i := range r.Images {
		image := m.image(i)
		if image == nil {
			text(remote.NoImage)
			continue
		}
		out.Content = append(out.Content, sdk.ToolResultBlockParamContentUnion{OfImage: image})
	}
	return out
}

// image returns nil for what the model or the wire does not take.
func (m *Model) image(i llm.Image) *sdk.ImageBlockParam {
	if m.o.Blind || !remote.Shows(i.MediaType) || len(i.Data) == 0 {
		return nil
	}
	return sdk.NewImageBlockBase64(i.MediaType, base64.StdEncoding.EncodeToString(i.Data)).OfImage
}
