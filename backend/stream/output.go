package stream

import (
	"strings"
	"unicode/utf8"
)

// Output turns the chunks of one call's output into live frames of valid UTF-8.
// A character that two chunks share is held back until it is whole; bytes that
// are no character become U+FFFD. It is used by one goroutine at a time.
type Output struct {
	root, task, call string
	held             map[string]held
}

type held struct {
	offset int64
	bytes  []byte
}

// NewOutput returns an Output for one call.
func NewOutput(rootTaskID, taskID, callID string) *Output {
	return &Output{root: rootTaskID, task: taskID, call: callID, held: map[string]held{}}
}

// Frame returns the frame for a chunk at an offset of a stream. Its Data is
// empty when the chunk holds no whole character yet. data is not kept.
func (o *Output) Frame(streamName string, offset int64, data []byte) Live {
	h := o.held[streamName]
	if len(h.bytes) > 0 && h.offset+int64(len(h.bytes)) == offset {
		data = append(h.bytes, data...)
		offset = h.offset
	}
	whole := len(data) - partial(data)
	o.held[streamName] = held{offset + int64(whole), append([]byte(nil), data[whole:]...)}
	return Live{
		RootTaskID: o.root, TaskID: o.task, Kind: LiveOutput, CallID: o.call, Stream: streamName,
		Offset: offset, End: offset + int64(whole),
		Data: strings.ToValidUTF8(string(data[:whole]), "\uFFFD"),
	}
}

// partial returns how many bytes at the end of b begin a character that is not
// complete.
func partial(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		c := b[len(b)-n]
		if utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
