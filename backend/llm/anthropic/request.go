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
	}
	turns := remote.Turns(r.Messages, m.takes(r.Model))
	p.Messages = history(turns)
	p.Thinking = m.thinking(turns)
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

// takes tells what a model may be sent of what was thought: its own alone, and
// what the vendor can know again. What was cut off before its signature is not.
func (m *Model) takes(model string) func(llm.Thinking) bool {
	from := m.from(model)
	return func(t llm.Thinking) bool { return t.From == from && (t.Signature != "" || t.Redacted != "") }
}

// thinking maps the option to the wire. With a budget, the wire wants an answer
// whose calls have just been made to begin with what was thought. One that does
// not, as of another model, is gone on from without thinking.
func (m *Model) thinking(turns []llm.Message) (p sdk.ThinkingConfigParamUnion) {
	switch m.o.Thinking.Mode {
	case ThinkOff:
		p.OfDisabled = &sdk.ThinkingConfigDisabledParam{}
	case ThinkAuto:
		p.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
	case ThinkBudget:
		if n := len(turns); n > 1 && turns[n-1].Blocks[0].Result != nil && turns[n-2].Blocks[0].Thinking == nil {
			return p
		}
		p.OfEnabled = &sdk.ThinkingConfigEnabledParam{BudgetTokens: int64(m.o.Thinking.Budget), Display: sdk.ThinkingConfigEnabledDisplaySummarized}
	}
	return p
}

func history(turns []llm.Message) []sdk.MessageParam {
	var out []sdk.MessageParam
	for i, turn := range turns {
		var content []sdk.ContentBlockParamUnion
		for _, b := range turn.Blocks {
			content = append(content, block(b))
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

func block(b llm.Block) sdk.ContentBlockParamUnion {
	switch {
	case b.Thinking != nil && b.Thinking.Redacted != "":
		return sdk.NewRedactedThinkingBlock(b.Thinking.Redacted)
	case b.Thinking != nil:
		return sdk.NewThinkingBlock(b.Thinking.Signature, b.Thinking.Text)
	case b.Use != nil:
		return sdk.NewToolUseBlock(remote.ID(b.Use.ID, maxID), remote.Input(b.Use.Input), remote.Name(b.Use.Name))
	case b.Result != nil:
		return sdk.ContentBlockParamUnion{OfToolResult: result(*b.Result)}
	case b.Image != nil:
		if shown := image(*b.Image); shown != nil {
			return sdk.ContentBlockParamUnion{OfImage: shown}
		}
		return sdk.NewTextBlock(remote.NoImage)
	}
	return sdk.NewTextBlock(b.Text)
}

func result(r llm.Result) *sdk.ToolResultBlockParam {
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
		shown := image(i)
		if shown == nil {
			text(remote.NoImage)
			continue
		}
		out.Content = append(out.Content, sdk.ToolResultBlockParamContentUnion{OfImage: shown})
	}
	return out
}

// image returns nil for what the wire does not take.
func image(i llm.Image) *sdk.ImageBlockParam {
	if !remote.Shows(i.MediaType) || len(i.Data) == 0 {
		return nil
	}
	return sdk.NewImageBlockBase64(i.MediaType, base64.StdEncoding.EncodeToString(i.Data)).OfImage
}
