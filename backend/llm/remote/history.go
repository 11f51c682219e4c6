package remote

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// Turns returns a conversation as the wires take it: nothing empty, no two
// messages of one role in a row, and the results of calls before what else a
// message says. Thinking is in it where takes says so, and never last in a
// message: something has to come of it.
func Turns(messages []llm.Message, takes func(llm.Thinking) bool) []llm.Message {
	var out []llm.Message
	for _, m := range messages {
		var results, others []llm.Block
		for _, b := range m.Blocks {
			switch {
			case b.Result != nil:
				results = append(results, b)
			case b.Image != nil, b.Use != nil, strings.TrimSpace(b.Text) != "",
				b.Thinking != nil && takes(*b.Thinking):
				others = append(others, b)
			}
		}
		for len(others) > 0 && others[len(others)-1].Thinking != nil {
			others = others[:len(others)-1]
		}
		blocks := append(results, others...)
		if len(blocks) == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Role == m.Role {
			out[n-1] = llm.Message{Role: m.Role, Blocks: merge(out[n-1].Blocks, results, others)}
			continue
		}
		out = append(out, llm.Message{Role: m.Role, Blocks: blocks})
	}
	return out
}

// merge puts results behind the results that are there already.
func merge(before, results, others []llm.Block) []llm.Block {
	n := 0
	for n < len(before) && before[n].Result != nil {
		n++
	}
	var out []llm.Block
	for _, part := range [][]llm.Block{before[:n], results, before[n:], others} {
		out = append(out, part...)
	}
	return out
}

// NoThinking is for Turns, where a wire has no thinking in its history.
func NoThinking(llm.Thinking) bool { return false }

// ID returns a call's id as a wire takes it: letters, digits, _ and -, and no
// longer than limit. The same id always becomes the same.
func ID(id string, limit int) string {
	if id != "" && len(id) <= limit && plain(id) == id {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// maxName is the shorter of the vendors' limits for a tool's name.
const maxName = 64

// Name returns a tool's name as the wires take it. A model may have called a
// tool that does not exist by a name that no tool can have; its own words must
// not make every later request fail.
func Name(name string) string {
	if name == "" {
		return "unnamed"
	}
	name = plain(name)
	return name[:min(len(name), maxName)]
}

func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}

// Input returns a call's input as the wires take it: a JSON object.
func Input(input json.RawMessage) json.RawMessage {
	if t := bytes.TrimSpace(input); len(t) > 0 && t[0] == '{' && json.Valid(t) {
		return t
	}
	return json.RawMessage("{}")
}

// NoImage stands where an image was that the model cannot take.
const NoImage = "[An image was left out: this model cannot take it.]"

// Shows reports whether the wires take images of a media type.
func Shows(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}
