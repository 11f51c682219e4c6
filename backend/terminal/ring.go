//go:build unix

package terminal

import "bytes"

// ringBytes is how much of a terminal's output is kept.
const ringBytes = 1 << 20

// ring is the newest output by offset. It grows with what it holds, so that a
// terminal in which little was printed costs little.
type ring struct {
	buf []byte // the byte at offset n is at n modulo its length
	end int64  // bytes written in all
}

// start is the offset of the oldest byte that is kept.
func (r *ring) start() int64 { return max(0, r.end-int64(len(r.buf))) }

func (r *ring) write(b []byte) {
	if over := len(b) - ringBytes; over > 0 {
		b = b[over:]
		r.end += int64(over)
	}
	r.grow(int(min(r.end+int64(len(b)), ringBytes)))
	for len(b) > 0 {
		n := copy(r.buf[r.end%int64(len(r.buf)):], b)
		b = b[n:]
		r.end += int64(n)
	}
}

// grow makes room for n bytes. A ring that is smaller than the largest one has
// never gone round, so its bytes lie at their offsets.
func (r *ring) grow(n int) {
	if n <= len(r.buf) {
		return
	}
	size := max(4<<10, len(r.buf))
	for size < n {
		size *= 2
	}
	old := r.buf
	r.buf = make([]byte, size)
	copy(r.buf, old)
}

// read copies what is kept from an offset on, which is not before the start.
func (r *ring) read(b []byte, at int64) (n int) {
	b = b[:min(int64(len(b)), r.end-at)]
	for n < len(b) {
		from := (at + int64(n)) % int64(len(r.buf))
		n += copy(b[n:], r.buf[from:])
	}
	return n
}

// lineAfter returns the offset after the next line feed that is near, so that
// what is read from there does not begin within a character or a sequence; at
// itself where there is none.
func (r *ring) lineAfter(at int64) int64 {
	near := make([]byte, 4<<10)
	near = near[:r.read(near, at)]
	if i := bytes.IndexByte(near, '\n'); i >= 0 {
		return at + int64(i) + 1
	}
	return at
}
