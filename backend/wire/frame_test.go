package wire_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/wire"
)

func TestReadFrame_anyCut(t *testing.T) {
	want := []wire.Frame{
		{Kind: wire.FrameStarted, Payload: []byte("{}")},
		{Kind: wire.FrameStdout, Offset: 1 << 40, Payload: []byte("你好")},
		{Kind: wire.FrameStderr, Offset: 0, Payload: []byte{}},
		{Kind: wire.FrameOutcome, Payload: bytes.Repeat([]byte("x"), 5000)},
	}
	var stream []byte
	for _, f := range want {
		stream = wire.AppendFrame(stream, f)
	}
	// A byte at a time is every possible cut.
	r := iotest.OneByteReader(bytes.NewReader(stream))
	for _, f := range want {
		got, err := wire.ReadFrame(r, make([]byte, 16))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, got); diff != "" {
			t.Errorf("ReadFrame() differs:\n%s", diff)
		}
	}
	if _, err := wire.ReadFrame(r, nil); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	// Only a cut at a border is an end.
	for n := 1; n < 40; n++ {
		_, err := wire.ReadFrame(bytes.NewReader(wire.AppendFrame(nil, want[1])[:min(n, 18)]), nil)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(wire.AppendFrame(nil, wire.Frame{Kind: wire.FrameStdout, Offset: 7, Payload: []byte("hello")}))
	f.Add([]byte("1\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		buf := make([]byte, 64)
		for read := []byte(nil); ; {
			frame, err := wire.ReadFrame(r, buf)
			if err != nil {
				return
			}
			if len(frame.Payload) > wire.MaxFrame {
				t.Fatalf("a payload of %d bytes", len(frame.Payload))
			}
			read = wire.AppendFrame(read, frame)
			if !bytes.HasPrefix(b, read) {
				t.Fatal("what was read is not what was there")
			}
		}
	})
}
