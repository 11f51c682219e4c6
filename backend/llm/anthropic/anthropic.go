// Package anthropic is the models that speak Anthropic's Messages wire, at the
// vendor itself or at any server that speaks the same:
//
//	m := anthropic.New(anthropic.Options{KeyEnv: anthropic.DefaultKeyEnv})
//
// Answers are streamed. Nothing is tried twice: that is up to the agent, which
// knows whether a turn still waits for the answer.
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/remote"
)

// The vendor's own server, and the variable that usually holds its key.
const (
	DefaultBaseURL = "https://api.anthropic.com"
	DefaultKeyEnv  = "ANTHROPIC_API_KEY"
)

// defaultMaxTokens is sent where nobody says otherwise, since the wire demands
// a limit. It leaves room for a large file, and every current model takes it.
const defaultMaxTokens = 32000

// Options say where the models are.
type Options struct {
	BaseURL       string        // "" is DefaultBaseURL
	KeyEnv        string        // variable that holds the key, read at every request; "" sends none
	MaxTokens     int           // of one answer, where a request does not say; 0 is 32000
	Thinking      Thinking      // the zero value leaves it to the server
	HTTP          *http.Client  // nil is a client of its own
	HeaderTimeout time.Duration // until an answer begins; 0 is 5 minutes
	IdleTimeout   time.Duration // that an answer may stand still; 0 is 2 minutes
}

// Thinking says whether a model thinks before it answers. Which forms a model
// takes depends on its age; it refuses the others.
type Thinking struct {
	Mode   string // "" says nothing, or ThinkOff, ThinkAuto, ThinkBudget
	Budget int    // tokens, of ThinkBudget; at least 1024, and less than the answer's limit
}

// The modes of Thinking.
const (
	ThinkOff    = "off"
	ThinkAuto   = "auto" // as much as the model finds fit
	ThinkBudget = "budget"
)

// Model implements llm.Model.
type Model struct {
	o        Options
	base     string // without the version
	client   *remote.Client
	messages sdk.MessageService
}

var _ llm.Model = (*Model)(nil)

// New returns a Model. Nothing is asked yet.
func New(o Options) *Model {
	o.BaseURL = cmp.Or(o.BaseURL, DefaultBaseURL)
	o.MaxTokens = cmp.Or(o.MaxTokens, defaultMaxTokens)
	client := remote.New(remote.Options{
		BaseURL: o.BaseURL, KeyEnv: o.KeyEnv, KeyHeader: "X-Api-Key",
		HTTP: o.HTTP, HeaderTimeout: o.HeaderTimeout, IdleTimeout: o.IdleTimeout,
	})
	// The service is made without the SDK's client, which would read keys,
	// profiles and headers from the environment by itself. The SDK adds v1.
	base := strings.TrimSuffix(strings.TrimRight(o.BaseURL, "/"), "/v1")
	return &Model{o: o, base: base, client: client, messages: sdk.NewMessageService(option.WithBaseURL(base), option.WithMaxRetries(0))}
}

// from names a model in what it thought.
func (m *Model) from(model string) string { return model + " at " + m.base }

// Stream implements llm.Model.
func (m *Model) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		x := m.client.Exchange(r.Model)
		p := m.params(r)
		stream := m.messages.NewStreaming(ctx, p, option.WithHTTPClient(x))
		defer stream.Close()
		a := newAnswer(x, m.from(r.Model), int(p.MaxTokens))
		for stream.Next() {
			piece, err := a.add(stream.Current())
			if err != nil {
				yield(llm.Event{}, err)
				return
			}
			if piece != (llm.Event{}) && !yield(piece, nil) {
				return
			}
			if !a.complete {
				continue
			}
			if note := a.note(); note != "" && !yield(llm.Event{Text: note}, nil) {
				return
			}
			message, err := a.message()
			yield(llm.Event{Message: message, Usage: a.usage}, err)
			return
		}
		yield(llm.Event{}, x.Ended(ctx, stream.Err(), named(stream.Err())))
	}
}

// named returns the error that the server sent within a stream, if that is how it ended.
func named(err error) []byte {
	if in, ok := errors.AsType[*sdk.Error](err); ok {
		return []byte(in.RawJSON())
	}
	return nil
}
