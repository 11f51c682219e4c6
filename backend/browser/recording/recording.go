package recording

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrNoPicture says that an entry has no picture, or not any more.
var ErrNoPicture = errors.New("the recording has no such picture; what was oldest is removed when it is full")

// Bounds of what a page can make as long as it likes, in bytes.
const maxURL, maxTitle = 2048, 512

// pageEntries is how many entries are read at once.
const pageEntries = 2000

// The share of the limit that one segment, which goes as a whole, has.
const segmentShare = 16

// recording is what was recorded of one session's browser. Its methods may be
// called from several goroutines.
type recording struct {
	dir   string
	limit int64

	// mu also makes the writes follow one another.
	mu       sync.Mutex
	segments []*segment // oldest first; the last is written to
	records  []record
	next     int64
	file     *os.File           // of the last segment; nil until something is written
	seen     map[[32]byte]int64 // pictures of the last segment, by content
	shown    *Entry             // the newest frame, unless a gap came after it
	why      string             // the reason of that gap; "" where there is none
}

// open reads a recording. A directory that is not there is an empty one. What a
// process that was killed wrote in part is cut off.
func open(dir string, limit int64) (*recording, error) {
	r := &recording{dir: dir, limit: limit, next: 1}
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("open the recording in %s: %w", dir, err)
	}
	return r, nil
}

// load reads the files. The lock is held, or nobody else is there.
func (r *recording) load() error {
	r.records, r.shown, r.why, r.seen = nil, nil, "", map[[32]byte]int64{}
	all, err := segments(r.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r.segments = all
	for i, s := range all {
		var body func(record, []byte)
		if i == len(all)-1 {
			body = func(c record, b []byte) {
				if len(b) > 0 {
					r.seen[sha256.Sum256(b)] = c.N
				}
			}
		}
		records, end, err := s.scan(body)
		if err != nil {
			return err
		}
		if i == len(all)-1 && end < s.size {
			if err := os.Truncate(s.path, end); err != nil {
				return err
			}
			s.size = end
		}
		r.records = append(r.records, records...)
		r.next = max(r.next, s.first)
	}
	if n := len(r.records); n > 0 {
		r.next = max(r.next, r.records[n-1].N+1)
		for _, c := range slices.Backward(r.records) {
			if c.Kind == KindFrame {
				r.shown = &c.Entry
			}
			if c.Kind == KindGap {
				r.why = c.Reason
			}
			if c.Kind != KindAction {
				break
			}
		}
	}
	return nil
}

func (r *recording) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shut()
}

// shut closes the file that is written to. The lock is held.
func (r *recording) shut() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// frame adds what a page looks like, unless it is what the newest frame shows,
// and tells whether it did. A picture that is there already is not written again.
func (r *recording) frame(e Entry, picture []byte) (bool, error) {
	sum := sha256.Sum256(picture)
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Kind, e.Picture = KindFrame, r.seen[sum]
	e.URL, e.Title = clip(e.URL, maxURL), clip(e.Title, maxTitle)
	if e.Picture != 0 && r.shown != nil && same(e, *r.shown) {
		return false, nil
	}
	if e.Picture != 0 && !r.full() {
		picture = nil
	} else {
		e.Picture = 0
	}
	e, err := r.append(e, picture)
	if err != nil {
		return false, err
	}
	if picture != nil {
		r.seen[sum] = e.N
	}
	r.shown, r.why = &e, ""
	return true, nil
}

// same reports whether two frames show the same.
func same(a, b Entry) bool {
	return a.Picture == b.Picture && a.Tab == b.Tab && a.URL == b.URL && a.Title == b.Title &&
		a.Width == b.Width && a.Height == b.Height && a.OffsetTop == b.OffsetTop && a.ScrollX == b.ScrollX && a.ScrollY == b.ScrollY
}

func (r *recording) action(e Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Kind = KindAction
	e.URL, e.Title, e.Label = clip(e.URL, maxURL), clip(e.Title, maxTitle), clip(e.Label, maxTitle)
	_, err := r.append(e, nil)
	return err
}

// gap says that nothing is recorded from now on, and why. Where that is so already
// it adds nothing, but for what tells of more than the gap there is: that the agent
// uses the browser again, and that a person has control.
func (r *recording) gap(at time.Time, reason, label string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown == nil && (len(r.records) == 0 || !over(r.why, reason)) {
		return nil
	}
	return r.addGap(at, reason, label)
}

func (r *recording) addGap(at time.Time, reason, label string) error {
	if _, err := r.append(Entry{At: at, Kind: KindGap, Reason: reason, Label: label}, nil); err != nil {
		return err
	}
	r.shown, r.why = nil, reason
	return nil
}

// over reports whether a gap for one reason gives way to one for another.
func over(old, reason string) bool {
	switch reason {
	case GapHeld:
		return old != GapHeld
	case GapBegun:
		return old == GapIdle || old == GapEnded
	case GapIdle:
		return old == GapBegun
	}
	return false
}

// last is the time of the newest entry.
func (r *recording) last() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) == 0 {
		return time.Time{}
	}
	return r.records[len(r.records)-1].At
}

// newest is the time of the newest frame or gap.
func (r *recording) newest() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Backward(r.records) {
		if c.Kind != KindAction {
			return c.At
		}
	}
	return time.Time{}
}

// full reports whether the next record begins a segment. The lock is held.
func (r *recording) full() bool {
	return len(r.segments) == 0 || r.segments[len(r.segments)-1].size >= r.limit/segmentShare
}

// append writes a record, and removes what is oldest where that is too much. What
// could be written in part only is taken back. The lock is held.
func (r *recording) append(e Entry, body []byte) (Entry, error) {
	if r.full() {
		if err := r.begin(); err != nil {
			return e, err
		}
	}
	e.N, e.At = r.next, e.At.UTC()
	if e.Kind == KindFrame && e.Picture == 0 {
		e.Picture = e.N
	}
	whole, at, err := encode(e, body)
	if err != nil {
		return e, err
	}
	s := r.segments[len(r.segments)-1]
	if err := r.room(int64(len(whole))); err != nil {
		return e, err
	}
	if r.file == nil {
		if r.file, err = os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0); err != nil {
			return e, err
		}
	}
	if _, err := r.file.Write(whole); err != nil {
		return e, errors.Join(err, r.file.Truncate(s.size))
	}
	c := record{Entry: e, segment: s, offset: s.size + int64(at), length: int64(len(body))}
	c.sum = crc32.Checksum(body, castagnoli)
	s.size += int64(len(whole))
	r.records = append(r.records, c)
	r.next++
	return e, nil
}

// clip cuts a text that is too long.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// begin makes a new segment. The lock is held.
func (r *recording) begin() error {
	if err := r.shut(); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	s := &segment{path: filepath.Join(r.dir, segmentName(r.next)), first: r.next}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	r.file = f
	r.segments = append(r.segments, s)
	clear(r.seen)
	return nil
}

// room removes the oldest segments until there is room for n bytes. The lock is
// held.
func (r *recording) room(n int64) error {
	if n > r.limit/segmentShare*2 {
		return fmt.Errorf("a picture of %d bytes: too large for a recording of %d", n, r.limit)
	}
	for r.bytes()+n > r.limit && len(r.segments) > 1 {
		s := r.segments[0]
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		r.segments = r.segments[1:]
		kept := slices.IndexFunc(r.records, func(c record) bool { return c.segment != s })
		if kept < 0 {
			kept = len(r.records)
		}
		r.records = slices.Clone(r.records[kept:]) // so that the rest is not held in memory
	}
	return nil
}

func (r *recording) bytes() int64 {
	var n int64
	for _, s := range r.segments {
		n += s.size
	}
	return n
}

// erase removes everything, and leaves a note that something was there. Numbers
// go on, so that nobody takes a new picture for an old one.
func (r *recording) erase(at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) == 0 && r.bytes() == 0 {
		return nil
	}
	if err := r.shut(); err != nil {
		return err
	}
	clear(r.seen)
	if r.segments[len(r.segments)-1].size > 0 {
		if err := r.begin(); err != nil { // before the rest goes: its name holds the number
			return err
		}
	}
	for _, s := range r.segments[:len(r.segments)-1] {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(err, r.shut(), r.load())
		}
	}
	r.segments = r.segments[len(r.segments)-1:]
	r.records, r.shown, r.why = nil, nil, ""
	return r.addGap(at, GapErased, "What was recorded before was erased.")
}

// page returns the entries after a number.
func (r *recording) page(after int64) Page {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, _ := slices.BinarySearchFunc(r.records, after+1, func(c record, n int64) int { return cmp.Compare(c.N, n) })
	p := Page{Entries: []Entry{}, Info: r.info()}
	for _, c := range r.records[from:min(from+pageEntries, len(r.records))] {
		p.Entries = append(p.Entries, c.Entry)
	}
	p.More = from+pageEntries < len(r.records)
	return p
}

func (r *recording) sum() Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.info()
}

// info is the sum. The lock is held.
func (r *recording) info() Info {
	i := Info{Bytes: r.bytes(), Limit: r.limit, First: r.next}
	for _, c := range r.records {
		if c.Kind == KindFrame {
			i.Frames++
		}
	}
	if n := len(r.records); n > 0 {
		i.First, i.From, i.To = r.records[0].N, r.records[0].At, r.records[n-1].At
	}
	return i
}

// picture returns the JPEG of a frame.
func (r *recording) picture(n int64) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.find(n)
	if ok && c.Kind == KindFrame && c.Picture != n {
		c, ok = r.find(c.Picture)
	}
	if !ok || c.length == 0 {
		return nil, ErrNoPicture
	}
	b, err := c.read()
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errTorn) {
		return nil, ErrNoPicture
	}
	return b, err
}

func (r *recording) find(n int64) (record, bool) {
	i, ok := slices.BinarySearchFunc(r.records, n, func(c record, n int64) int { return cmp.Compare(c.N, n) })
	if !ok {
		return record{}, false
	}
	return r.records[i], true
}
