package local

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/capture"
	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// maxPipe is more than a pipe holds unless somebody made it larger.
const maxPipe = 1 << 20

// output is one stream of a command: the pipe and what was captured of it.
type output struct {
	*capture.Stream
	stream  execenv.Stream
	r       *os.File
	settled chan struct{} // closed when the capture is complete
}

// newOutput returns an output and the end of its pipe that the command gets.
func newOutput(stream execenv.Stream, overflow execenv.Overflow) (*output, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &output{Stream: capture.New(overflow), stream: stream, r: r, settled: make(chan struct{})}, w, nil
}

// drain captures the pipe until exited is called and what lay in it then has
// been read. After that it keeps the pipe empty for background children, who
// must neither block nor get SIGPIPE, until the last of them has closed it.
func (o *output) drain() {
	defer o.r.Close()
	buf := make([]byte, 64<<10)
	_, err := io.CopyBuffer(onlyWriter{o.Stream}, onlyReader{o.r}, buf)
	held := errors.Is(err, os.ErrDeadlineExceeded)
	if held {
		_ = o.r.SetReadDeadline(time.Time{})
		o.drainRest(buf)
	}
	o.Stream.Close()
	close(o.settled)
	if held {
		_, _ = io.CopyBuffer(onlyWriter{io.Discard}, onlyReader{o.r}, buf[:4<<10])
	}
}

// onlyReader and onlyWriter hide the methods by which io.Copy would go around
// the buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// drainRest captures what lies in the pipe now, and not much more: a background
// child may write without end.
func (o *output) drainRest(buf []byte) {
	raw, err := o.r.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < maxPipe; {
		n := 0
		if err := raw.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), buf) }); err != nil || n <= 0 {
			return // nothing now, or the end
		}
		_, _ = o.Stream.Write(buf[:n])
		total += n
	}
}

// exited tells drain that the first process is gone.
func (o *output) exited() { _ = o.r.SetReadDeadline(time.Unix(1, 0)) }

// follow hands both outputs to live, in the order of each, until they end.
func follow(live func(execenv.Chunk), outputs ...*output) {
	readers := make([]*capture.Reader, len(outputs))
	for i, o := range outputs {
		readers[i] = o.Reader(0)
		defer readers[i].Close()
	}
	buf := make([]byte, 32<<10)
	for {
		var waits [2]<-chan struct{}
		moved, open := false, false
		for i, r := range readers {
			n, offset, wait, err := r.Read(buf)
			switch {
			case n > 0:
				live(execenv.Chunk{Stream: outputs[i].stream, Offset: offset, Data: buf[:n]})
				moved, open = true, true
			case err == nil:
				waits[i], open = wait, true
			}
		}
		switch {
		case !open:
			return
		case !moved:
			select {
			case <-waits[0]:
			case <-waits[1]:
			}
		}
	}
}
