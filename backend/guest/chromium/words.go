package chromium

import (
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// maxWords is how much is kept of what a browser writes to its standard error,
// in bytes. It is for a person who asks why it ended.
const maxWords = 4 << 10

// lastWords keeps the end of what a browser says.
type lastWords struct {
	r    *os.File
	over chan struct{} // closed when nothing more comes

	mu   sync.Mutex
	text []byte
}

func listen(r *os.File) *lastWords {
	w := &lastWords{r: r, over: make(chan struct{})}
	go func() {
		defer close(w.over)
		_, _ = io.Copy(w, r)
	}()
	return w
}

// Write implements io.Writer.
func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	if over := len(w.text) - maxWords; over > 0 {
		w.text = w.text[:copy(w.text, w.text[over:])]
	}
	return len(p), nil
}

// close returns when all that was said is here. Whoever could still say
// something was killed; one that hangs in the kernel is not waited for.
func (w *lastWords) close() {
	select {
	case <-w.over:
	case <-time.After(deadTime):
	}
	w.r.Close()
	<-w.over
}

// String returns the last lines in one.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	const lines, width = 4, 300
	all := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(w.text), "\ufffd")), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		line = withoutPrefix(line)
		if len(line) > width {
			line = strings.ToValidUTF8(line[:width], "") + "…"
		}
		all[i] = line
	}
	return strings.Join(all, "; ")
}

// sentence returns the first sentence that has a word in it, or "".
func (w *lastWords) sentence(word string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.SplitSeq(strings.ToValidUTF8(string(w.text), "\ufffd"), "\n") {
		line = withoutPrefix(line)
		if !strings.Contains(strings.ToLower(line), word) {
			continue
		}
		if end := strings.IndexAny(line, ".!,"); end > 0 {
			line = line[:end]
		}
		return line
	}
	return ""
}

// withoutPrefix takes [pid:thread:date:LEVEL:file.cc:line] off, which says nothing
// to a person.
func withoutPrefix(line string) string {
	if _, rest, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(line, "[") {
		return rest
	}
	return line
}
