// Package capture keeps a bounded part of one output stream of a command, with
// its exact length and hash, and lets any number of readers follow it.
//
// One goroutine writes a [Stream]; readers made by [Stream.Reader] run beside
// it. Under execenv.OverflowDrop a write never waits: a reader that falls more
// than execenv.RingBytes behind misses what was overwritten and sees the gap in
// the offsets. Under execenv.OverflowBlock a write waits for the slowest reader,
// or for the first one to come, and nothing is lost; the half of the ring behind
// a reader stays readable, so that a reader whose connection was cut can start
// again at the last offset that arrived.
package capture

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// window is how far a blocking stream may run ahead of its slowest reader. The
// rest of the ring covers what was in flight on a cut connection.
const window = execenv.RingBytes / 2

// firstRing is the size a ring starts with: most commands print less.
const firstRing = 16 << 10

// Stream captures one output stream. Make it with New.
type Stream struct {
	sum hash.Hash // touched by the writer alone until closed

	mu       sync.Mutex
	block    bool
	head     []byte
	ring     []byte // the last len(ring) bytes, byte i of the stream at i % len(ring)
	tail     []byte // set when the ring is let go
	total    int64
	consumed int64 // by readers that are gone
	readers  map[*Reader]struct{}
	digest   string
	closed   bool
	changed  chan struct{} // closed at the next write or close; nil when nobody waits
	room     chan struct{} // closed when a reader moves; nil when the writer does not wait
}

// New returns an empty Stream.
func New(overflow execenv.Overflow) *Stream {
	return &Stream{
		sum:     sha256.New(),
		block:   overflow == execenv.OverflowBlock,
		readers: map[*Reader]struct{}{},
	}
}

// Restore returns a closed Stream of which only c is left.
func Restore(c execenv.Captured) *Stream {
	return &Stream{
		head: c.Head, tail: c.Tail, total: c.Total, digest: c.Hash,
		closed:  true,
		readers: map[*Reader]struct{}{},
	}
}

// Write appends p. It returns an error only after Close.
func (s *Stream) Write(p []byte) (int, error) {
	s.sum.Write(p)
	n := len(p)
	for len(p) > 0 {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return n - len(p), io.ErrClosedPipe
		}
		m := len(p)
		if s.block {
			if free := s.slowest() + window - s.total; free < int64(m) {
				m = int(max(free, 0))
			}
			if m == 0 {
				if s.room == nil {
					s.room = make(chan struct{})
				}
				room := s.room
				s.mu.Unlock()
				<-room
				continue
			}
		}
		s.put(p[:m])
		s.wake()
		s.mu.Unlock()
		p = p[m:]
	}
	return n, nil
}

// put stores p, which may be larger than the ring. mu is held.
func (s *Stream) put(p []byte) {
	if free := execenv.HeadBytes - len(s.head); free > 0 {
		s.head = append(s.head, p[:min(free, len(p))]...)
	}
	s.grow(len(p))
	if over := len(p) - len(s.ring); over > 0 {
		s.total += int64(over)
		p = p[over:]
	}
	for len(p) > 0 {
		n := copy(s.ring[s.total%int64(len(s.ring)):], p)
		s.total += int64(n)
		p = p[n:]
	}
}

// grow makes the ring large enough to keep n more bytes, up to its limit.
func (s *Stream) grow(n int) {
	want := s.total + int64(n)
	if int64(len(s.ring)) >= min(want, execenv.RingBytes) {
		return
	}
	size := max(len(s.ring), firstRing)
	for int64(size) < min(want, execenv.RingBytes) {
		size *= 2
	}
	// Until it has its full size the ring has never wrapped: it holds the whole
	// stream from its start.
	ring := make([]byte, size)
	copy(ring, s.ring[:s.total])
	s.ring = ring
}

func (s *Stream) slowest() int64 {
	if len(s.readers) == 0 {
		return s.consumed
	}
	at := s.total
	for r := range s.readers {
		at = min(at, r.at)
	}
	return at
}

func (s *Stream) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *Stream) makeRoom() {
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// Unblock makes the stream drop from now on, so that its command can end
// whether or not anybody reads.
func (s *Stream) Unblock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block = false
	s.makeRoom()
}

// Close ends the stream. The writer calls it once, after its last Write.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.digest = hex.EncodeToString(s.sum.Sum(nil))
	s.closed = true
	s.wake()
	s.makeRoom()
}

// Captured returns what was kept of a closed stream.
func (s *Stream) Captured() execenv.Captured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return execenv.Captured{Head: s.head, Tail: s.lastBytes(), Total: s.total, Hash: s.digest}
}

// lastBytes returns up to TailBytes that are not in head. mu is held.
func (s *Stream) lastBytes() []byte {
	if s.ring == nil {
		return s.tail
	}
	from := max(int64(len(s.head)), s.total-execenv.TailBytes)
	tail := make([]byte, s.total-from)
	s.copyAt(tail, from)
	return tail
}

func (s *Stream) copyAt(p []byte, at int64) {
	for len(p) > 0 {
		i := at % int64(len(s.ring))
		n := copy(p, s.ring[i:])
		p, at = p[n:], at+int64(n)
	}
}

// Release lets the ring of a closed stream go; readers still get head and tail.
// It returns how many bytes that freed.
func (s *Stream) Release() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed || s.ring == nil {
		return 0
	}
	n := len(s.ring)
	s.tail = s.lastBytes()
	s.ring = nil
	return n
}

// Held returns the bytes of memory that Release would free.
func (s *Stream) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring)
}

// Reader follows a Stream from an offset. It is used by one goroutine.
type Reader struct {
	s  *Stream
	at int64
}

// Reader returns a reader that starts at offset from. Close it.
func (s *Stream) Reader(from int64) *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Reader{s: s, at: min(max(from, 0), s.total)}
	s.readers[r] = struct{}{}
	s.makeRoom()
	return r
}

// Close ends the reader.
func (r *Reader) Close() {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.readers[r]; !ok {
		return
	}
	delete(s.readers, r)
	s.consumed = max(s.consumed, r.at)
	s.makeRoom()
}

// Read copies the next bytes into p without waiting. offset is where they lie
// in the stream; it is past the end of the last Read when bytes were dropped.
// When there is nothing yet, n is 0 and wait is closed at the next change. The
// error is io.EOF after the last byte of a closed stream.
func (r *Reader) Read(p []byte) (n int, offset int64, wait <-chan struct{}, err error) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.at == s.total {
		if s.closed {
			return 0, r.at, nil, io.EOF
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		return 0, r.at, s.changed, nil
	}
	oldest := s.total - int64(len(s.ring))
	if s.ring == nil {
		oldest = s.total - int64(len(s.tail))
	}
	if r.at < oldest && r.at >= int64(len(s.head)) {
		r.at = oldest
	}
	switch {
	case r.at < oldest: // overwritten, but kept as the head
		n = copy(p, s.head[r.at:])
	case s.ring == nil:
		n = copy(p, s.tail[r.at-oldest:])
	default:
		n = int(min(int64(len(p)), s.total-r.at))
		s.copyAt(p[:n], r.at)
	}
	offset = r.at
	r.at += int64(n)
	s.makeRoom()
	return n, offset, nil, nil
}
