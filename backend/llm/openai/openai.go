// Package openai is the models that speak OpenAI's Chat Completions wire, at
// the vendor itself or at any of the many servers that speak the same, local
// ones among them:
//
//	m := openai.New(openai.Options{BaseURL: "http://127.0.0.1:11434/v1"})
//
// Answers are streamed. Nothing is tried twice: that is up to the agent, which
// knows whether a turn still waits for the answer.
package openai

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/remote"
)

// The vendor's own server, and the variable that usually holds its key.
const (
	DefaultBaseURL = "https://api.openai.com/v1"
	DefaultKeyEnv  = "OPENAI_API_KEY"
)

// Options say where the models are.
type Options struct {
	BaseURL       string        // with its version, "…/v1"; "" is DefaultBaseURL
	KeyEnv        string        // variable that holds the key, read at every request; "" sends none
	MaxTokens     int           // of one answer, where a request does not say; 0 leaves it to the server
	HTTP          *http.Client  // nil is a client of its own
	HeaderTimeout time.Duration // until an answer begins; 0 is 5 minutes
	IdleTimeout   time.Duration // that an answer may stand still; 0 is 2 minutes
}

// Model implements llm.Model.
type Model struct {
	o       Options
	vendor  bool // BaseURL is the vendor's own, whose newer words others do not know
	client  *remote.Client
	answers sdk.ChatCompletionService
}

var _ llm.Model = (*Model)(nil)

// New returns a Model. Nothing is asked yet.
func New(o Options) *Model {
	o.BaseURL = cmp.Or(o.BaseURL, DefaultBaseURL)
	client := remote.New(remote.Options{
		BaseURL: o.BaseURL, KeyEnv: o.KeyEnv, KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		HTTP: o.HTTP, HeaderTimeout: o.HeaderTimeout, IdleTimeout: o.IdleTimeout,
	})
	// The service is made without the SDK's client, which would read keys and
	// headers from the environment by itself.
	return &Model{
		o: o, vendor: isVendor(o.BaseURL), client: client,
		answers: sdk.NewChatCompletionService(option.WithBaseURL(o.BaseURL), option.WithMaxRetries(0)),
	}
}

func isVendor(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil {
		return false
	}
	return u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".openai.azure.com")
}

// Stream implements llm.Model.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		x := m.client.Exchange(r.Model)
		stream := m.answers.NewStreaming(ctx, m.params(r), option.WithHTTPClient(x))
		defer stream.Close()
		a := answer{x: x, limit: cmp.Or(r.MaxTokens, m.o.MaxTokens)}
		for stream.Next() {
			for _, piece := range a.add(stream.Current()) {
				if !yield(piece, nil) {
					return
				}
			}
		}
		// What follows the reason to stop are counts, which some servers never
		// send: an answer that has one is whole, however its stream ended.
		if a.finish == "" || ctx.Err() != nil {
			yield(llm.Event{}, x.Ended(ctx, stream.Err(), named(stream.Err())))
			return
		}
		if note := a.note(); note != "" && !yield(llm.Event{Text: note}, nil) {
			return
		}
		message, err := a.message()
		yield(llm.Event{Message: message, Usage: a.usage}, err)
	}
}

// named returns the error that the server sent within a stream, if that is how it ended.
func named(err error) []byte {
	if in, ok := errors.AsType[*ssestream.StreamError](err); ok {
		return in.Event.Data
	}
	return nil
}
