//go:build linux

// Package journal is the guest's memory across its own death: which effects
// were started, how they ended, and the highest generation seen per root task.
//
// It is one append-only file of JSON lines. A line is handed to the kernel
// before the effect it announces, which makes it survive the guest being
// killed; it is not synced, so a power loss is outside the promise. A torn last
// line is cut off at the next [Open].
//
// The journal is bounded: kept outcomes above [MaxOutcomes] bytes are dropped,
// the oldest first, and the file is rewritten when most of it is dead.
package journal

import (
	"bufio"
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// MaxOutcomes bounds the bytes of all kept outcomes.
const MaxOutcomes = 64 << 20

// slack is the least amount of dead bytes that is worth a rewrite.
const slack = 4 << 20

// Entry is one effect that the journal knows.
type Entry struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"`
	Root       string    `json:"root,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	Boot       string    `json:"boot"` // of the guest that started it
	Argv       []string  `json:"argv,omitempty"`
	StartedAt  time.Time `json:"started_at"`
	Finished   bool      `json:"-"`
}

// line is one line of the file; exactly one field is set.
type line struct {
	Started *Entry   `json:"started,omitempty"`
	Outcome *outcome `json:"outcome,omitempty"`
	Forgot  string   `json:"forgot,omitempty"`
	Fence   *fence   `json:"fence,omitempty"`
}

type outcome struct {
	ID   string          `json:"id"`
	Body json.RawMessage `json:"body"`
}

type fence struct {
	Root       string `json:"root"`
	Generation int64  `json:"generation"`
}

// Journal is an open journal. Its methods may be called from several
// goroutines at once.
type Journal struct {
	dir string // "" keeps it in memory that only this process has
	as  func(func())

	mu     sync.Mutex
	f      *os.File
	size   int64
	live   int64 // bytes of lines that still count
	bodies int64 // bytes of kept outcomes
	known  map[string]*record
	done   *list.List // of *record with an outcome, oldest first
	fences map[string]fenceRecord
}

type record struct {
	Entry
	startSize int64
	off, size int64 // of the outcome's line
	elem      *list.Element
}

type fenceRecord struct{ generation, size int64 }

// Open reads the journal in dir, or makes one. With dir "" the journal does
// not outlive the process. A later rewrite creates its file inside as, which
// runs a function with the rights that dir asks for; nil calls it plainly.
func Open(dir string, as func(func())) (*Journal, error) {
	if as == nil {
		as = func(f func()) { f() }
	}
	j := &Journal{
		dir:    dir,
		as:     as,
		known:  map[string]*record{},
		done:   list.New(),
		fences: map[string]fenceRecord{},
	}
	f, err := j.create("journal", os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.f = f
	if err := j.load(); err != nil {
		f.Close()
		return nil, fmt.Errorf("read journal %s: %w", f.Name(), err)
	}
	return j, nil
}

func (j *Journal) create(name string, flag int) (*os.File, error) {
	if j.dir != "" {
		return os.OpenFile(filepath.Join(j.dir, name), flag, 0o600)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (j *Journal) load() error {
	r := bufio.NewReaderSize(j.f, 64<<10)
	for {
		text, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		var l line
		if err == io.EOF || json.Unmarshal(text, &l) != nil {
			break // the end, or what a kill in the middle of a write left
		}
		j.apply(l, j.size, int64(len(text)))
		j.size += int64(len(text))
	}
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	_, err := j.f.Seek(j.size, io.SeekStart)
	return err
}

// apply folds one line into the index.
func (j *Journal) apply(l line, off, size int64) {
	switch {
	case l.Started != nil:
		j.known[l.Started.ID] = &record{Entry: *l.Started, startSize: size}
		j.live += size
	case l.Outcome != nil:
		r, ok := j.known[l.Outcome.ID]
		if !ok || r.Finished {
			return
		}
		r.Finished, r.off, r.size = true, off, size
		r.elem = j.done.PushBack(r)
		j.live += size
		j.bodies += size
	case l.Forgot != "":
		if r, ok := j.known[l.Forgot]; ok {
			j.drop(r)
		}
	case l.Fence != nil:
		j.live += size - j.fences[l.Fence.Root].size
		j.fences[l.Fence.Root] = fenceRecord{l.Fence.Generation, size}
	}
}

func (j *Journal) drop(r *record) {
	delete(j.known, r.ID)
	j.live -= r.startSize
	if r.Finished {
		j.done.Remove(r.elem)
		j.live -= r.size
		j.bodies -= r.size
	}
}

// add writes one line and folds it in. mu is held.
func (j *Journal) add(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode a journal line: %w", err)
	}
	return j.put(l, append(text, '\n'))
}

// put writes text, which is l encoded, and folds l in. mu is held.
func (j *Journal) put(l line, text []byte) error {
	if n, err := j.f.Write(text); err != nil {
		if n > 0 { // leave no half line for the next one to be glued to
			err = errors.Join(err, j.f.Truncate(j.size))
			_, serr := j.f.Seek(j.size, io.SeekStart)
			err = errors.Join(err, serr)
		}
		return fmt.Errorf("write journal: %w", err)
	}
	j.apply(l, j.size, int64(len(text)))
	j.size += int64(len(text))
	return nil
}

// Start notes that an effect is about to happen. The id must be unknown.
func (j *Journal) Start(e Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.known[e.ID]; ok {
		return fmt.Errorf("journal: %s was started before", e.ID)
	}
	return j.add(line{Started: &e})
}

// Finish keeps body, JSON on one line, as the outcome of a started effect.
func (j *Journal) Finish(id string, body []byte) error {
	quoted, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encode a journal line: %w", err)
	}
	// By hand: a body may be megabytes, which an encoder would read through.
	text := fmt.Appendf(nil, `{"outcome":{"id":%s,"body":%s}}`+"\n", quoted, body)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.put(line{Outcome: &outcome{ID: id}}, text); err != nil {
		return err
	}
	for j.bodies > MaxOutcomes && j.done.Len() > 1 {
		j.drop(j.done.Front().Value.(*record))
	}
	j.compact()
	return nil
}

// Forget drops an effect and its outcome.
func (j *Journal) Forget(id string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.known[id]; !ok {
		return nil
	}
	if err := j.add(line{Forgot: id}); err != nil {
		return err
	}
	j.compact()
	return nil
}

// Lookup returns an effect by its id.
func (j *Journal) Lookup(id string) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.known[id]
	if !ok {
		return Entry{}, false
	}
	return r.Entry, true
}

// Entries returns every effect that is known.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]Entry, 0, len(j.known))
	for _, r := range j.known {
		all = append(all, r.Entry)
	}
	return all
}

// Outcome returns the body that Finish was given.
func (j *Journal) Outcome(id string) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.known[id]
	if !ok || !r.Finished {
		return nil, fmt.Errorf("journal: no outcome of %s", id)
	}
	text, err := j.read(r)
	if err != nil {
		return nil, err
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil || l.Outcome == nil {
		return nil, fmt.Errorf("journal: the outcome of %s does not read back: %w", id, err)
	}
	return l.Outcome.Body, nil
}

func (j *Journal) read(r *record) ([]byte, error) {
	text := make([]byte, r.size)
	if _, err := j.f.ReadAt(text, r.off); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return text, nil
}

// Raise remembers generation for root if it is the highest so far, and returns
// the highest.
func (j *Journal) Raise(root string, generation int64) (highest int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f, ok := j.fences[root]; ok && f.generation >= generation {
		return f.generation, nil
	}
	if err := j.add(line{Fence: &fence{root, generation}}); err != nil {
		return 0, err
	}
	return generation, nil
}

// compact rewrites the file when more than half of it is dead. A rewrite that
// cannot be made leaves the old file, which holds everything. mu is held.
func (j *Journal) compact() {
	if j.size-j.live < max(j.live, slack) {
		return
	}
	var f *os.File
	var err error
	j.as(func() { f, err = j.create("journal.new", os.O_RDWR|os.O_CREATE|os.O_TRUNC) })
	if err != nil {
		return
	}
	n := &Journal{f: f, known: map[string]*record{}, done: list.New(), fences: map[string]fenceRecord{}}
	err = n.copyFrom(j)
	if err == nil && j.dir != "" {
		j.as(func() { err = os.Rename(f.Name(), filepath.Join(j.dir, "journal")) })
	}
	if err != nil {
		f.Close()
		return
	}
	j.f.Close()
	j.f, j.size, j.live, j.bodies = n.f, n.size, n.live, n.bodies
	j.known, j.done, j.fences = n.known, n.done, n.fences
}

func (j *Journal) copyFrom(old *Journal) error {
	for root, f := range old.fences {
		if err := j.add(line{Fence: &fence{root, f.generation}}); err != nil {
			return err
		}
	}
	for _, r := range old.known {
		e := r.Entry
		e.Finished = false // until its outcome follows
		if err := j.add(line{Started: &e}); err != nil {
			return err
		}
	}
	for e := old.done.Front(); e != nil; e = e.Next() {
		r := e.Value.(*record)
		text, err := old.read(r)
		if err == nil {
			err = j.put(line{Outcome: &outcome{ID: r.ID}}, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.f.Close()
}
