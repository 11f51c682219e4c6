// Package stream wakes readers of the store and fans out what may be lost.
//
// A [Bell] says that there may be something new and holds no data: whoever
// hears it reads the store from its own sequence number. A [Live] frame is a
// piece of text or output while it comes; any hop may drop it, and it never
// changes folded state.
package stream

import "sync"

// Live is one droppable frame.
type Live struct {
	RootTaskID string `json:"session_id"`
	TaskID     string `json:"task_id"`
	Kind       string `json:"kind"` // "text", "thinking" or "output"
	CallID     string `json:"call_id"`
	Stream     string `json:"stream"` // "stdout" or "stderr", of output
	After      int64  `json:"after"`  // of text and thinking: the end of the task's log when the model was asked
	Offset     int64  `json:"offset"` // in bytes, of Data in the whole text or stream
	End        int64  `json:"end"`    // offset of what comes next; not always Offset+len(Data), since Data is repaired UTF-8
	Data       string `json:"data"`   // valid UTF-8
}

// The kinds of live frames.
const (
	LiveText     = "text"
	LiveThinking = "thinking"
	LiveOutput   = "output"
)

// queueBytes bounds what a slow listener can hold back: then the oldest go.
const queueBytes = 1 << 20

// Hub connects those who write with those who watch. The zero Hub is ready.
type Hub struct {
	mu        sync.Mutex
	bells     map[*Bell]struct{}
	listeners map[*Listener]struct{}
}

// Bell is rung after every append. It must be closed.
type Bell struct {
	hub *Hub
	c   chan struct{} // capacity one: a ring while one is pending says nothing new
}

// Subscribe returns a new Bell. Subscribe first, then read the store.
func (h *Hub) Subscribe() *Bell {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &Bell{hub: h, c: make(chan struct{}, 1)}
	if h.bells == nil {
		h.bells = map[*Bell]struct{}{}
	}
	h.bells[b] = struct{}{}
	return b
}

// C receives when the bell has been rung since the last receive.
func (b *Bell) C() <-chan struct{} { return b.c }

// Close ends the subscription.
func (b *Bell) Close() {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	delete(b.hub.bells, b)
}

// Ring wakes every Bell and never blocks.
func (h *Hub) Ring() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for b := range h.bells {
		select {
		case b.c <- struct{}{}:
		default:
		}
	}
}

// Listener receives live frames, the newest ones when it is slow. It must be closed.
type Listener struct {
	hub  *Hub
	root string
	c    chan struct{} // capacity one, as a Bell's

	mu      sync.Mutex
	frames  []Live
	size    int
	dropped bool
}

// Listen returns a Listener for one root task, or for all when rootTaskID is "".
func (h *Hub) Listen(rootTaskID string) *Listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &Listener{hub: h, root: rootTaskID, c: make(chan struct{}, 1)}
	if h.listeners == nil {
		h.listeners = map[*Listener]struct{}{}
	}
	h.listeners[l] = struct{}{}
	return l
}

// Publish hands a frame to every listener of its root task and never blocks.
func (h *Hub) Publish(f Live) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.root == "" || l.root == f.RootTaskID {
			l.push(f)
		}
	}
}

// Watched reports whether anyone listens to a root task.
func (h *Hub) Watched(rootTaskID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.root == "" || l.root == rootTaskID {
			return true
		}
	}
	return false
}

func (l *Listener) push(f Live) {
	l.mu.Lock()
	l.frames = append(l.frames, f)
	l.size += len(f.Data)
	for l.size > queueBytes && len(l.frames) > 1 {
		l.size -= len(l.frames[0].Data)
		l.frames, l.dropped = l.frames[1:], true
	}
	l.mu.Unlock()
	select {
	case l.c <- struct{}{}:
	default:
	}
}

// C receives when there are frames to Take.
func (l *Listener) C() <-chan struct{} { return l.c }

// Take returns what has come since the last Take, and whether frames were
// dropped before it.
func (l *Listener) Take() (frames []Live, dropped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	frames, dropped = l.frames, l.dropped
	l.frames, l.size, l.dropped = nil, 0, false
	return frames, dropped
}

// Close ends the subscription.
func (l *Listener) Close() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	delete(l.hub.listeners, l)
}
