package chromium

import (
	"bytes"
	"errors"
	"strconv"
)

// message is one CDP message, taken apart as far as a relay has to. A message
// can be many megabytes of one picture, so nothing of it is decoded: only where
// the members of the outermost object lie is known.
type message struct {
	id      []byte   // the token; nil when there is none
	session string   // "" when there is none
	method  string   // "" in an answer
	params  []byte   // the value of "params"
	rest    [][]byte // every member but id and sessionId, as "name":value
}

var (
	errNotJSON  = errors.New("the message is not a JSON object")
	errTwice    = errors.New("the message names its id or sessionId twice")
	errNotPlain = errors.New("the message has a name, sessionId or method that is not a plain string")
)

// parse takes a message apart. It finds the borders of members and does not
// check what is between them.
func parse(text []byte) (m message, err error) {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return m, errNotJSON
	}
	i = skipSpace(text, i+1)
	if i < len(text) && text[i] == '}' {
		return m, atEnd(text, i+1)
	}
	for {
		start := i
		if i == len(text) || text[i] != '"' {
			return m, errNotJSON
		}
		after := skipString(text, i)
		if after < 0 {
			return m, errNotJSON
		}
		name, ok := plain(text[i:after])
		if !ok { // the browser would read "session\u0049d" as what it says
			return m, errNotPlain
		}
		if i = skipSpace(text, after); i == len(text) || text[i] != ':' {
			return m, errNotJSON
		}
		i = skipSpace(text, i+1)
		end := skipValue(text, i)
		if end < 0 {
			return m, errNotJSON
		}
		if err := m.member(name, text[start:end], text[i:end]); err != nil {
			return m, err
		}
		if i = skipSpace(text, end); i == len(text) {
			return m, errNotJSON
		}
		switch text[i] {
		case ',':
			i = skipSpace(text, i+1)
		case '}':
			return m, atEnd(text, i+1)
		default:
			return m, errNotJSON
		}
	}
}

func (m *message) member(name string, whole, value []byte) error {
	switch name {
	case "id":
		if m.id != nil {
			return errTwice
		}
		m.id = value
		return nil
	case "sessionId":
		if m.session != "" {
			return errTwice
		}
		var ok bool
		if m.session, ok = plain(value); !ok {
			return errNotPlain
		}
		return nil
	case "method":
		var ok bool
		if m.method, ok = plain(value); !ok {
			return errNotPlain
		}
	case "params":
		m.params = value
	}
	m.rest = append(m.rest, whole)
	return nil
}

// with returns the message with another id and session; nil and "" are for none.
func (m message) with(id []byte, session string) []byte {
	size := len(id) + len(session) + 32
	for _, member := range m.rest {
		size += len(member) + 1
	}
	out := make([]byte, 0, size)
	sep := byte('{')
	add := func(parts ...string) {
		out = append(out, sep)
		for _, p := range parts {
			out = append(out, p...)
		}
		sep = ','
	}
	if id != nil {
		add(`"id":`, string(id))
	}
	for _, member := range m.rest {
		out = append(append(out, sep), member...)
		sep = ','
	}
	if session != "" {
		add(`"sessionId":"`, session, `"`)
	}
	if sep == '{' {
		out = append(out, sep)
	}
	return append(out, '}')
}

// number returns the id, if it is a whole number that is not negative.
func (m message) number() (int64, bool) {
	n, err := strconv.ParseInt(string(m.id), 10, 64)
	return n, err == nil && n >= 0
}

// plain returns the content of a string without escapes.
func plain(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return "", false
	}
	return string(value[1 : len(value)-1]), true
}

func atEnd(text []byte, i int) error {
	if skipSpace(text, i) != len(text) {
		return errNotJSON
	}
	return nil
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// skipString returns where the string that begins at i is over, or -1.
func skipString(text []byte, i int) int {
	for from := i + 1; ; {
		n := bytes.IndexByte(text[from:], '"')
		if n < 0 {
			return -1
		}
		at := from + n
		escapes := 0
		for at-1-escapes > i && text[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at + 1
		}
		from = at + 1
	}
}

// skipValue returns where the value that begins at i is over, or -1.
func skipValue(text []byte, i int) int {
	if i == len(text) {
		return -1
	}
	switch text[i] {
	case '"':
		return skipString(text, i)
	case '{', '[':
	default: // a number or a word
		n := bytes.IndexAny(text[i:], ",}] \n\t\r\"")
		if n <= 0 {
			return -1
		}
		return i + n
	}
	for depth := 0; i < len(text); {
		switch text[i] {
		case '"':
			if i = skipString(text, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}
