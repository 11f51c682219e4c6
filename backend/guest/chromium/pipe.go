package chromium

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// pipeReader reads what a browser writes to its debugging pipe: messages that
// each end with a NUL byte.
type pipeReader struct {
	r   *bufio.Reader
	max int // bytes of a message
}

func newPipeReader(r io.Reader, limit int) *pipeReader {
	return &pipeReader{bufio.NewReaderSize(r, 64<<10), limit}
}

// next returns the next message, which is the caller's. Of one that is over the
// limit, only the beginning is kept, and whole is false.
func (p *pipeReader) next() (text []byte, whole bool, err error) {
	for over := false; ; {
		piece, err := p.r.ReadSlice(0)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, false, err
		}
		switch {
		case over:
		case len(text)+len(piece) > p.max:
			over = true
			text = bytes.Clone(text[:min(len(text), 1<<10)])
		default:
			text = append(text, piece...)
		}
		if err == nil {
			return bytes.TrimSuffix(text, []byte{0}), !over, nil
		}
	}
}
