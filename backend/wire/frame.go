package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// FrameKind is the first byte of a frame.
type FrameKind byte

// The kinds of frames in the answer to PathRun and PathCall: FrameStarted once,
// then output, then FrameOutcome or FrameError last. A stream that ends without
// one of those two was cut.
const (
	FrameStarted FrameKind = 'S' // CallInfo as JSON
	FrameStdout  FrameKind = '1' // bytes at Offset
	FrameStderr  FrameKind = '2' // bytes at Offset
	FrameOutcome FrameKind = 'X' // execenv.Outcome as JSON
	FrameError   FrameKind = 'E' // Error as JSON
)

// The kinds of frames in the answer to PathWatch, until it ends with a
// FrameError. One of the two comes at least every WatchBeat; a guest that is
// silent for longer is paused or gone.
const (
	FrameChanged FrameKind = 'C' // WatchDirs as JSON
	FrameBeat    FrameKind = 'B' // nothing
)

// WatchBeat is the longest silence of a watch.
const WatchBeat = 5 * time.Second

// The further kinds of frames of a view of a terminal. The guest sends
// FrameTerminal first and at each change, output as FrameStdout, FramePing now
// and then, and FrameEnd last; the host sends FrameInput and FrameResize.
const (
	FrameTerminal FrameKind = 'T' // execenv.Terminal as JSON
	FramePing     FrameKind = 'P' // nothing: the guest is there
	FrameEnd      FrameKind = 'Z' // nothing: the terminal has ended and all its output was sent
	FrameInput    FrameKind = 'I' // bytes that were typed
	FrameResize   FrameKind = 'R' // TerminalSize as JSON
)

// MaxView bounds the payload of one frame of a view.
const MaxView = 64 << 10

// MaxFrame bounds the payload of one frame.
const MaxFrame = 1 << 20

const frameHeader = 1 + 8 + 4

// Frame is one piece of a stream: kind, offset (big-endian, 8 bytes), length
// (big-endian, 4 bytes), payload.
type Frame struct {
	Kind    FrameKind
	Offset  int64
	Payload []byte
}

// AppendFrame appends the encoded frame to b.
func AppendFrame(b []byte, f Frame) []byte {
	b = append(b, byte(f.Kind))
	b = binary.BigEndian.AppendUint64(b, uint64(f.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Payload)))
	return append(b, f.Payload...)
}

// ReadFrame reads one frame. The payload lies in buf when it fits there. The
// error is io.EOF only at a frame's border.
func ReadFrame(r io.Reader, buf []byte) (Frame, error) {
	var h [frameHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(h[9:])
	if n > MaxFrame {
		return Frame{}, fmt.Errorf("frame of %d bytes is over the limit of %d", n, MaxFrame)
	}
	if int(n) > len(buf) {
		buf = make([]byte, n)
	}
	f := Frame{Kind: FrameKind(h[0]), Offset: int64(binary.BigEndian.Uint64(h[1:])), Payload: buf[:n]}
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}
