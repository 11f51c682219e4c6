package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/remote"
)

// maxID is the longest id of a call that the wire takes.
const maxID = 40

// params maps a request to the wire.
func (m *Model) params(r llm.Request) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model:         r.Model,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if limit := cmp.Or(r.MaxTokens, m.o.MaxTokens); limit > 0 && m.vendor {
		p.MaxCompletionTokens = param.NewOpt(int64(limit)) // its newer models refuse the old word
	} else if limit > 0 {
		p.MaxTokens = param.NewOpt(int64(limit)) // other servers may know the old word alone
	}
	if strings.TrimSpace(r.System) != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(r.System))
	}
	tools := map[string]string{} // by the call's id: the tool's name
	for _, turn := range remote.Turns(r.Messages, remote.NoThinking) {
		if turn.Role == llm.RoleAssistant {
			p.Messages = append(p.Messages, assistant(turn.Blocks, tools))
		} else {
			p.Messages = append(p.Messages, user(turn.Blocks, tools)...)
		}
	}
	for _, t := range r.Tools {
		f := shared.FunctionDefinitionParam{Name: t.Name}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		var schema shared.FunctionParameters
		if json.Unmarshal(t.Schema, &schema) == nil {
			f.Parameters = schema
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	return p
}

func assistant(blocks []llm.Block, tools map[string]string) sdk.ChatCompletionMessageParamUnion {
	var p sdk.ChatCompletionAssistantMessageParam
	var texts []string
	for _, b := range blocks {
		switch {
		case b.Use != nil:
			tools[b.Use.ID] = b.Use.Name
			p.ToolCalls = append(p.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: remote.ID(b.Use.ID, maxID),
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name: remote.Name(b.Use.Name), Arguments: string(remote.Input(b.Use.Input)),
				},
			}})
		case b.Image != nil:
			texts = append(texts, remote.NoImage) // the wire has none in a model's own words
		case b.Text != "":
			texts = append(texts, b.Text)
		}
	}
	if texts != nil {
		p.Content.OfString = param.NewOpt(strings.Join(texts, "\n\n"))
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &p}
}

// user maps a user's message. Results of calls are messages of their own and
// hold text alone, so their images follow in a message that names the call.
func user(blocks []llm.Block, tools map[string]string) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	var parts []sdk.ChatCompletionContentPartUnionParam
	images := false
	show := func(i llm.Image) bool {
		if !remote.Shows(i.MediaType) || len(i.Data) == 0 {
			return false
		}
		images = true
		parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{
			URL: "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data),
		}))
		return true
	}
	var texts []string
	say := func(s string) {
		texts = append(texts, s)
		parts = append(parts, sdk.TextContentPart(s))
	}
	for _, b := range blocks {
		switch {
		case b.Result != nil:
			text := resultText(*b.Result)
			for i, image := range b.Result.Images {
				before := len(parts)
				say(fmt.Sprintf("Image %d of the result of %s (call %s):", i+1, remote.Name(tools[b.Result.ID]), remote.ID(b.Result.ID, maxID)))
				if !show(image) {
					parts, texts = parts[:before], texts[:len(texts)-1]
					text = strings.TrimPrefix(text+"\n"+remote.NoImage, "\n")
				}
			}
			out = append(out, sdk.ToolMessage(text, remote.ID(b.Result.ID, maxID)))
		case b.Image != nil:
			if !show(*b.Image) {
				say(remote.NoImage)
			}
		case b.Text != "":
			say(b.Text)
		}
	}
	switch {
	case images:
		out = append(out, sdk.UserMessage(parts))
	case texts != nil: // a plain string is what every server takes
		out = append(out, sdk.UserMessage(strings.Join(texts, "\n\n")))
	}
	return out
}

// resultText says of a failed call that it failed: the wire has no mark for it.
func resultText(r llm.Result) string {
	if r.IsError && !strings.HasPrefix(strings.ToLower(r.Text), "error") {
		return "Error: " + r.Text
	}
	return r.Text
}
