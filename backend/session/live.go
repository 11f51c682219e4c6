package session

import (
	"sync"

	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// liveTail bounds what is kept of one running text or output for those who
// begin to watch late.
const liveTail = 64 << 10

// liveBuffers hold the newest part of what is running, so that a view that is
// opened in the middle of it does not start blank. All of it may be lost.
type liveBuffers struct {
	mu    sync.Mutex
	parts map[string]map[liveKey]*stream.Live // by root task
}

type liveKey struct{ task, kind, call, stream string }

func newLiveBuffers() *liveBuffers {
	return &liveBuffers{parts: map[string]map[liveKey]*stream.Live{}}
}

func (b *liveBuffers) add(f stream.Live) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, ok := b.parts[f.RootTaskID]
	if !ok {
		m = map[liveKey]*stream.Live{}
		b.parts[f.RootTaskID] = m
	}
	key := liveKey{f.TaskID, f.Kind, f.CallID, f.Stream}
	p, ok := m[key]
	if !ok || f.Offset != p.End || len(f.Data) >= liveTail { // what came before is of no use then
		p = &stream.Live{}
		*p = f
		m[key] = p
	} else {
		p.Data += f.Data
		p.End = f.End
	}
	if over := len(p.Data) - liveTail; over > liveTail {
		for over < len(p.Data) && p.Data[over]&0xC0 == 0x80 {
			over++ // cut between characters
		}
		p.Data, p.Offset = p.Data[over:], p.End-int64(len(p.Data)-over)
	}
}

// settle forgets what p has made durable, or void: the text of a request that
// failed was never said.
func (b *liveBuffers) settle(root, taskID string, p task.Payload) {
	call, text := "", false
	switch p := p.(type) { // an agent hands over values, a person's call a pointer
	case task.LLMRequestFinished:
		text = true
	case task.ToolResultRecorded:
		call = p.CallID
	case *task.ToolResultRecorded:
		call = p.CallID
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.parts[root] {
		if text && key.task == taskID && (key.kind == stream.LiveText || key.kind == stream.LiveThinking) || call != "" && key.call == call {
			delete(b.parts[root], key)
		}
	}
}

func (b *liveBuffers) drop(root string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.parts, root)
}

func (b *liveBuffers) of(root string) []stream.Live {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []stream.Live
	for _, p := range b.parts[root] {
		out = append(out, *p)
	}
	return out
}

// publish hands a live frame to those who watch and to those who come late.
func (s *Service) publish(f stream.Live) {
	s.live.add(f)
	s.o.Hub.Publish(f)
}

// Live returns the newest part of everything that is running in a session.
func (s *Service) Live(root string) []stream.Live { return s.live.of(root) }
