// Package recording keeps what a browser showed while an agent used it, so that
// one can go back in it later.
//
//	l := recording.New(recording.Options{Dir: filepath.Join(data, "recordings"), On: true})
//	defer l.Close()
//	l.Watch(root, recording.Source{Relay: r, Lease: lease}) // when there is a browser
//	l.Began(root, callID)                                   // a call of the agent uses it
//	l.Ended(root, recording.Entry{CallID: callID, Label: `click 3 “Save”`, …})
//	page, err := l.Page(root, 0)
//	jpeg, err := l.Picture(root, page.Entries[0].Picture)
//
// A recorder is a viewer of the relay that joins when a call of the agent begins
// and leaves soon after the last: one picture a second at most, two while much
// changes, none while the page is still. It holds up no viewer and starts no
// browser.
//
// Nothing is kept of what a person does: no picture that came while they had
// control or before the agent has looked again, and none of which it is not
// certain that it was painted later. A gap says so in its place.
//
// A recording is a directory of files of records (mode 0700, 0600) that are only
// appended to. A picture that is there already is not written again. Beyond the
// limit the oldest part goes. A process that is killed loses at most the record
// that it was writing, which the next one cuts off.
package recording

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// DefaultLimit is how large the recording of one session may become, in bytes, and
// MinLimit what is the least.
const (
	DefaultLimit = 64 << 20
	MinLimit     = 1 << 20
)

// Options are what a Library is made of; Dir is needed.
type Options struct {
	Dir   string // of all recordings; made when there is something to keep
	On    bool   // false records nothing; what there is can be read and erased
	Limit int64  // of one session, DefaultLimit when 0
	Log   *slog.Logger
}

// Library is the recordings of all sessions. Its methods may be called from
// several goroutines.
type Library struct {
	o    Options
	log  *slog.Logger
	life context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	shelf  map[string]*place
	closed bool
}

// place is the recording of one session. What is in it is guarded by the
// Library's lock.
type place struct {
	root      string
	open      *recording // nil while nobody needs it
	users     int        // of open
	used      time.Time
	source    *Source
	calls     map[string]time.Time // that are under way, and when they began
	woke      time.Time            // when the newest call began that found no recording wanted
	until     time.Time            // when it is not wanted any more, without another call
	recording bool                 // a recorder is at work
}

// keptOpen is how many recordings that nobody uses stay open: somebody goes back
// and forth in them.
const keptOpen = 4

// New returns a Library. Nothing is read or made before it is needed.
func New(o Options) *Library {
	l := &Library{o: o, log: o.Log, shelf: map[string]*place{}}
	if l.log == nil {
		l.log = slog.Default()
	}
	l.log = l.log.With("component", "recording")
	if l.o.Limit == 0 {
		l.o.Limit = DefaultLimit
	}
	l.o.Limit = max(l.o.Limit, MinLimit)
	l.life, l.stop = context.WithCancel(context.Background())
	return l
}

// Close ends what is being recorded and closes every file.
func (l *Library) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.work.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, p := range l.shelf {
		if p.open != nil {
			errs = append(errs, p.open.close())
			p.open = nil
		}
	}
	return errors.Join(errs...)
}

// Watch says which browser is that of a session now. Several sessions may have the
// same one, and it may be said again.
func (l *Library) Watch(root string, s Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.at(root)
	if p.source == nil || *p.source != s {
		p.source = &s
	}
	l.start(p)
}

// Began says that a call of the agent begins to use the browser.
func (l *Library) Began(root, callID string) {
	if !l.o.On {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.at(root)
	now := time.Now()
	p.calls[callID] = now
	if !now.Before(p.until) {
		p.woke = now
	}
	p.until = now.Add(stale)
	l.start(p)
}

// Ended says what a call that began and has ended was: Label, Box, Tab, URL, Title,
// CallID and Failed of action. One without a Label is not shown.
func (l *Library) Ended(root string, action Entry) {
	if !l.o.On {
		return
	}
	l.mu.Lock()
	p := l.at(root)
	at, began := p.calls[action.CallID]
	delete(p.calls, action.CallID)
	if len(p.calls) == 0 {
		p.until = time.Now().Add(tail)
	}
	l.mu.Unlock()
	if !began || action.Label == "" {
		return
	}
	action.At = at
	err := l.with(root, func(r *recording) error { return r.action(action) })
	if err != nil {
		l.log.Warn("action not recorded", "session", root, "call", action.CallID, "err", err)
	}
}

// start has a recorder begin where one is wanted and none is at work. The lock is
// held.
func (l *Library) start(p *place) {
	if !l.o.On || l.closed || p.source == nil || p.recording || !time.Now().Before(p.until) {
		return
	}
	p.recording = true
	source := p.source
	l.work.Go(func() {
		goes := l.record(p, *source)
		l.mu.Lock()
		defer l.mu.Unlock()
		p.recording = false
		if goes || p.source != source { // a call, or another browser, came meanwhile
			l.start(p)
		}
	})
}

// record runs one recorder, and reports whether there could be another.
func (l *Library) record(p *place, s Source) bool {
	r, done, err := l.take(p.root)
	if err != nil {
		l.log.Warn("browser not recorded", "session", p.root, "err", err)
		return false
	}
	defer done()
	// A process that was killed could not say that it stopped.
	if err := r.gap(r.last(), GapEnded, "The recording ended with the server."); err != nil {
		l.log.Warn("browser not recorded", "session", p.root, "err", err)
		return false
	}
	l.mu.Lock()
	woke := p.woke
	l.mu.Unlock()
	c := recorder{to: r, from: s, woke: woke, log: l.log.With("session", p.root), wanted: func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return time.Now().Before(p.until)
	}}
	return c.run(l.life)
}

// Page returns the entries of a session's recording after the one that is
// numbered so.
func (l *Library) Page(root string, after int64) (Page, error) {
	var page Page
	err := l.with(root, func(r *recording) error {
		page = r.page(after)
		return nil
	})
	page.Info.On = l.o.On
	return page, err
}

// Picture returns the JPEG of a frame, by its number; ErrNoPicture where there is
// none.
func (l *Library) Picture(root string, n int64) ([]byte, error) {
	var b []byte
	err := l.with(root, func(r *recording) (err error) {
		b, err = r.picture(n)
		return err
	})
	return b, err
}

// Erase removes what has been recorded of a session. What goes on is recorded on.
func (l *Library) Erase(root string) error {
	return l.with(root, func(r *recording) error { return r.erase(time.Now()) })
}

func (l *Library) with(root string, do func(*recording) error) error {
	r, done, err := l.take(root)
	if err != nil {
		return err
	}
	defer done()
	return do(r)
}

// at is the place of a session. The lock is held.
func (l *Library) at(root string) *place {
	p, ok := l.shelf[root]
	if !ok {
		p = &place{root: root, calls: map[string]time.Time{}}
		l.shelf[root] = p
	}
	return p
}

// name is what the directory of a recording may be called: ids of sessions are.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// take opens a recording, and keeps it open until done.
func (l *Library) take(root string) (r *recording, done func(), err error) {
	if !name.MatchString(root) {
		return nil, nil, fmt.Errorf("no recording can be called %q", root)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.at(root)
	if p.open == nil {
		// Under the lock: two must not write to the same file.
		if p.open, err = open(filepath.Join(l.o.Dir, root), l.o.Limit); err != nil {
			return nil, nil, err
		}
	}
	p.users++
	p.used = time.Now()
	return p.open, func() { l.put(p) }, nil
}

// put closes the recordings that were not used for longest.
func (l *Library) put(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.users--
	for {
		var oldest *place
		idle := 0
		for _, c := range l.shelf {
			if c.open == nil || c.users > 0 {
				continue
			}
			idle++
			if oldest == nil || c.used.Before(oldest.used) {
				oldest = c
			}
		}
		if idle <= keptOpen {
			return
		}
		if err := oldest.open.close(); err != nil {
			l.log.Warn("close a recording", "session", oldest.root, "err", err)
		}
		oldest.open = nil
	}
}
