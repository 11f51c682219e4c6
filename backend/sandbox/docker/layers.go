package docker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// pullLine is one message of an engine's stream about a pull. Engines differ in
// what they fill in: a store of containerd's sends no totals, and counts seconds
// while it unpacks; podman sends some lines without an id.
type pullLine struct {
	Status         string
	ID             string
	ProgressDetail struct {
		Current, Total int64
		Units          string // "" for bytes
	}
	Error       string
	ErrorDetail struct{ Message string }
}

// fault returns the error that a line tells, or "".
func (l pullLine) fault() string {
	if l.ErrorDetail.Message != "" {
		return l.ErrorDetail.Message
	}
	return l.Error
}

// longestLine bounds what one message is read into memory for. Those of engines
// are some hundred bytes.
const longestLine = 64 << 10

// readPull hands every message of a pull's stream to told, and returns the fault
// that one of them tells, else how the stream ended. A line that does not parse,
// or is too long, is left out: it is news, and not the pull.
func readPull(r io.Reader, told func(pullLine)) error {
	lines := bufio.NewReaderSize(r, longestLine)
	for {
		line, tooLong, err := lines.ReadLine()
		if tooLong {
			line = nil
			for tooLong && err == nil {
				_, tooLong, err = lines.ReadLine()
			}
		}
		for messages := json.NewDecoder(bytes.NewReader(line)); ; {
			var message pullLine
			if messages.Decode(&message) != nil {
				break
			}
			if fault := message.fault(); fault != "" {
				return errors.New(fault)
			}
			told(message)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// layers is how far a pull has come: the sum over the image's layers. The zero
// value is a pull of which nothing is known.
type layers struct {
	byID    map[string]*layer
	said    string // the last line that was about no layer
	samples []sample
}

type layer struct {
	current, total int64 // bytes; total is 0 while it is not known
	fetched        bool
	unpacking      bool
	done           bool
}

type sample struct {
	at    time.Time
	bytes int64
}

// take takes one message in.
func (l *layers) take(m pullLine) {
	d := m.ProgressDetail
	known := l.byID[m.ID]
	if known == nil {
		switch m.Status {
		case "Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete", "Extracting", "Pull complete", "Already exists":
		default:
			// The tag of an image has the place of an id in the first line.
			if m.ID == "" || d.Current <= 0 {
				l.said = m.Status
				return
			}
		}
		known = &layer{}
		if l.byID == nil {
			l.byID = map[string]*layer{}
		}
		l.byID[m.ID] = known
	}
	switch m.Status {
	case "Extracting":
		known.fetched, known.unpacking = true, true
	case "Verifying Checksum", "Download complete":
		known.fetched = true
	case "Pull complete", "Already exists":
		known.fetched, known.unpacking, known.done = true, false, true
	default:
		if d.Units == "" && (d.Current > 0 || d.Total > 0) {
			known.current, known.total = max(0, d.Current), max(0, d.Total)
			known.fetched = known.total > 0 && known.current >= known.total
		}
	}
	if known.fetched {
		known.current = max(known.current, known.total)
	}
}

// sum returns the bytes that have come and those of all layers, 0 while one of
// them has not told its own, and says in words how far that is.
func (l *layers) sum() (bytes, total int64, detail string) {
	if len(l.byID) == 0 {
		return 0, 0, l.said
	}
	done, fetched, unpacking, known := 0, 0, false, true
	for _, layer := range l.byID {
		bytes += layer.current
		total += max(layer.total, layer.current)
		known = known && (layer.fetched || layer.total > 0)
		unpacking = unpacking || layer.unpacking
		if layer.fetched {
			fetched++
		}
		if layer.done {
			done++
		}
	}
	if !known {
		total = 0
	}
	detail = fmt.Sprintf("%d of %d layers", done, len(l.byID))
	if unpacking && fetched == len(l.byID) {
		detail += ", unpacking"
	}
	return bytes, total, detail
}

// The rate is that of the last seconds, so that a stall shows.
const (
	rateOver  = 5 * time.Second
	rateAfter = time.Second / 2 // no measure before
)

// rate returns the bytes per second at a moment when so many have come.
func (l *layers) rate(now time.Time, bytes int64) int64 {
	if n := len(l.samples); n == 0 || now.Sub(l.samples[n-1].at) >= rateOver/20 {
		l.samples = append(l.samples, sample{now, bytes})
	}
	for len(l.samples) > 1 && now.Sub(l.samples[1].at) >= rateOver {
		l.samples = l.samples[1:]
	}
	first := l.samples[0]
	span := now.Sub(first.at)
	if span < rateAfter {
		return 0
	}
	return max(0, int64(float64(bytes-first.bytes)/span.Seconds()))
}
