package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
)

// keyHeader names a command, so that one whose answer was lost can be sent again
// and has its effect once. The header is that of
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/.
const keyHeader = "Idempotency-Key"

const (
	maxKey      = 64       // bytes
	maxKept     = 256      // answers that are kept
	maxKeptBody = 64 << 10 // bytes of one that is kept
)

var (
	errKey     = errors.New("an Idempotency-Key has at most 64 bytes")
	errKeyUsed = errors.New("this Idempotency-Key has named another body; take a new one")
)

// once carries a named command out one time, however often it is sent: who sends
// it again waits for the first one's answer, or is given it. A browser breaks its
// requests off whenever a container comes or goes with a network interface of its
// own, and cannot know what has arrived. Such a command goes on when its client
// leaves, until the server ends.
func (s *Server) once(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(keyHeader)
		if key == "" || r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		if len(key) > maxKey {
			s.fail(w, r, errKey)
			return
		}
		body, err := io.ReadAll(r.Body) // whole, before anything is done
		if err != nil {
			s.fail(w, r, unread(err))
			return
		}
		name := r.Method + " " + r.URL.Path + " " + key
		kept, isFirst := s.named.take(name, sha256.Sum256(body))
		if kept == nil {
			s.fail(w, r, errKeyUsed)
			return
		}
		if isFirst {
			ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
			stop := context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })
			r := r.WithContext(ctx)
			r.Body = io.NopCloser(bytes.NewReader(body))
			func() {
				defer cancel(nil)
				defer stop()
				defer s.named.done(name, kept) // also when it panics, which fails its answer
				next.ServeHTTP(kept, r)
				kept.WriteHeader(http.StatusOK) // of one that wrote nothing
			}()
		}
		select {
		case <-kept.answered:
			kept.send(w)
		case <-r.Context().Done():
		}
	})
}

// named holds the commands that were named and their answers.
type named struct {
	mu       sync.Mutex
	commands map[string]*kept
	answered []string // the oldest first; at most maxKept
}

// take returns the command of a name, and whether it is the caller's to carry
// out; nil where the name is that of another body.
func (n *named) take(name string, sum [sha256.Size]byte) (k *kept, isFirst bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.commands[name]; k != nil {
		if k.sum != sum {
			return nil, false
		}
		return k, false
	}
	if n.commands == nil {
		n.commands = map[string]*kept{}
	}
	k = &kept{sum: sum, answered: make(chan struct{}), header: http.Header{}}
	n.commands[name] = k
	return k, true
}

// done gives a command's answer to all who wait for it, and keeps it for who asks
// again, unless it is large or failed.
func (n *named) done(name string, k *kept) {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(k.answered)
	if k.status == 0 || k.body.Len() > maxKeptBody {
		delete(n.commands, name)
		return
	}
	if n.answered = append(n.answered, name); len(n.answered) > maxKept {
		delete(n.commands, n.answered[0])
		n.answered = n.answered[1:]
	}
}

// kept is an answer as it is written, to be sent to more than one. It is complete
// when answered is closed.
type kept struct {
	sum      [sha256.Size]byte // of the request's body
	answered chan struct{}
	header   http.Header
	status   int // 0: it failed
	body     bytes.Buffer
}

func (k *kept) Header() http.Header { return k.header }

func (k *kept) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

func (k *kept) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(b)
}

func (k *kept) send(w http.ResponseWriter) {
	if k.status == 0 {
		reply(w, http.StatusInternalServerError, ErrorResponse{internal})
		return
	}
	maps.Copy(w.Header(), k.header)
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body.Bytes()) // who left asks again
}
