package app

import (
	"strings"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/stream"
)

// said is how much of a model's answers was printed while they came. Live frames
// may be late, or lost; the log has all of it in the end, and what is missing is
// printed from there.
type said struct {
	heard    map[int64]map[string]int64 // by the end of the log when the model was asked, and kind: the end of what was printed, lost after a gap
	answered int64                      // where the last answer ends in the log: nothing of it is news any more
}

// lost stands for the end of a text of which a piece never came.
const lost = -1

// news notes a frame that is to be printed; false for one that came too late. The
// output of calls is none of it.
func (s *said) news(f stream.Live) bool {
	if f.Kind == stream.LiveOutput {
		return true
	}
	if f.After < s.answered {
		return false
	}
	if s.heard == nil {
		s.heard = map[int64]map[string]int64{}
	}
	ends := s.heard[f.After]
	if ends == nil {
		ends = map[string]int64{}
		s.heard[f.After] = ends
	}
	if ends[f.Kind] != f.Offset {
		ends[f.Kind] = lost
	} else {
		ends[f.Kind] = f.End
	}
	return true
}

// missing returns what was not printed of a message that stands at seq in the log,
// of its thinking or its text; whole says that it is all of it.
func (s *said) missing(seq int64, kind string, m llm.Message) (text string, whole bool) {
	var all strings.Builder
	for _, b := range m.Blocks {
		switch {
		case b.Thinking != nil && kind == stream.LiveThinking:
			all.WriteString(b.Thinking.Text)
		case b.Thinking == nil && kind == stream.LiveText:
			all.WriteString(b.Text)
		}
	}
	var end, asked int64
	for after, ends := range s.heard {
		if after < seq && after >= asked {
			asked, end = after, ends[kind]
		}
	}
	text = all.String()
	if end == lost {
		return text, true
	}
	return text[min(int(end), len(text)):], end == 0
}

// over forgets what was printed of requests before seq.
func (s *said) over(seq int64) {
	for after := range s.heard {
		if after < seq {
			delete(s.heard, after)
		}
	}
}
