package egress

import (
	"bytes"
	"io"
	"testing"
)

// said is a client that has said all it will say, and takes any answer.
type said struct {
	io.Reader
	answers bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) { return s.answers.Write(b) }

func FuzzReadSocks(f *testing.F) {
	f.Add([]byte{5, 1, 0, 5, 1, 0, 1, 10, 0, 0, 1, 0, 80})
	f.Add([]byte{5, 2, 1, 0, 5, 1, 0, 3, 1, 'a', 1, 187})
	f.Add(append([]byte{5, 1, 0, 5, 3, 0, 4}, make([]byte, 18)...))
	f.Add([]byte{5, 0, 5, 1, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &said{Reader: bytes.NewReader(b)}
		_, host, _, err := readSocks(c)
		if n := c.answers.Len(); n > 2 {
			t.Fatalf("the greeting was answered with %d bytes", n)
		}
		if err == nil && len(host) > 255 {
			t.Fatalf("a host of %d bytes", len(host))
		}
		if err == nil && c.answers.Bytes()[1] != socksNoAuth {
			t.Fatal("a client that was turned away was read on")
		}
	})
}
