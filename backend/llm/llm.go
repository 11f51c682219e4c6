// Package llm is the vocabulary between an agent and a model, and the [Model]
// interface that every model implements. It knows no vendor: those live in the
// packages below it.
package llm

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Role says who wrote a message.
type Role string

// The roles. Tool results travel in a message of RoleUser.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one message of a conversation.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// Text returns a message of one text block.
func Text(role Role, text string) Message {
	return Message{Role: role, Blocks: []Block{{Text: text}}}
}

// Block is one part of a message: exactly one of its fields is set.
type Block struct {
	Text     string    `json:"text,omitempty"`
	Thinking *Thinking `json:"thinking,omitempty"`
	Image    *Image    `json:"image,omitempty"`
	Use      *Use      `json:"use,omitempty"`
	Result   *Result   `json:"result,omitempty"`
}

// Thinking is what a model thought on its way to an answer. It stands among the
// blocks where it was thought.
//
// Anthropic's wire wants it back, unchanged and at its place, with each later
// request: a Signature covers its Text, and Redacted, which comes instead of
// both, is unreadable to all but the vendor. Only the model that thought it gets
// it back, and it may be left out for any other. OpenAI's wire has none; servers
// that speak it send a text alone, which no one wants back.
type Thinking struct {
	Text      string        `json:"text,omitempty"` // may be empty where the vendor keeps it to itself
	Signature string        `json:"signature,omitempty"`
	Redacted  string        `json:"redacted,omitempty"`
	From      string        `json:"from,omitempty"` // server and model, in the words of the Model that gave it; "" goes back to none
	Took      time.Duration `json:"took,omitempty"`
}

// Image is a picture for a model that can see.
type Image struct {
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
}

// Use is a model's wish to call a tool. Its ID is the call's id.
type Use struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Result answers a Use.
type Result struct {
	ID      string  `json:"id"`
	Text    string  `json:"text"`
	Images  []Image `json:"images,omitempty"`
	IsError bool    `json:"is_error"`
}

// Tool describes a tool to a model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// Request is one request to a model.
type Request struct {
	Model     string
	System    string
	Messages  []Message
	Tools     []Tool
	MaxTokens int
}

// Event is one step of a model's answer: a piece of text or of thinking, or,
// once and last, the whole message.
type Event struct {
	Text     string   // appended to the text so far
	Thinking string   // appended to the thinking so far
	Message  *Message // the complete answer; the last event
	Usage    Usage    // with Message, or with an error, as far as it is known
}

// Usage counts tokens. Input holds those that were read afresh; those that came
// from or went to a vendor's cache are counted beside it.
type Usage struct {
	Input      int `json:"input"`
	Output     int `json:"output"`
	CacheRead  int `json:"cache_read"`
	CacheWrite int `json:"cache_write"`
}

// Add returns the sum of two counts.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite}
}

// Price is what tokens cost, in US dollars per million.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
}

// Cost returns what u costs, in US dollars.
func (p Price) Cost(u Usage) float64 {
	return (p.Input*float64(u.Input) + p.Output*float64(u.Output) +
		p.CacheRead*float64(u.CacheRead) + p.CacheWrite*float64(u.CacheWrite)) / 1e6
}

// Model answers requests. Stream yields events until the one that holds
// Message, or one error, and then ends. Leaving the loop or ending ctx stops
// the request. A Model may be used from several goroutines.
type Model interface {
	Stream(ctx context.Context, r Request) iter.Seq2[Event, error]
}

// Served is a model as a session uses it.
type Served struct {
	Model     Model
	Name      string // on its wire
	MaxTokens int    // of one answer; 0 leaves it to the model
	Price     *Price // nil when it is not known
	Sees      bool   // whether it takes images

	// Plugins are what an agent with it is given where nothing is said of them, as
	// a script wants that shows them; nil is the configured default.
	Plugins []string
}
