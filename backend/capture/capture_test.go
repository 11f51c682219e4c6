package capture_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/capture"
	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// readAll follows r to its end; a gap is filled with zeros.
func readAll(t *testing.T, r *capture.Reader) (data []byte, gaps int) {
	t.Helper()
	buf := make([]byte, 10_000)
	for {
		n, at, wait, err := r.Read(buf)
		if errors.Is(err, io.EOF) {
			return data, gaps
		}
		if wait != nil {
			<-wait
			continue
		}
		if missing := int(at) - len(data); missing > 0 {
			gaps++
			data = append(data, make([]byte, missing)...)
		}
		data = append(data, buf[:n]...)
	}
}

func TestStream_keepsHeadTailTotalHash(t *testing.T) {
	for _, size := range []int{0, 1, 100, execenv.HeadBytes, execenv.HeadBytes + 1, execenv.HeadBytes + execenv.TailBytes, 300_000, execenv.RingBytes + 7, 5 << 20} {
		for _, step := range []int{1 << 10, 77_777, 3 << 20} {
			want := noise(size)
			s := capture.New(execenv.OverflowDrop)
			for p := want; len(p) > 0; {
				n := min(step, len(p))
				s.Write(p[:n])
				p = p[n:]
			}
			s.Close()
			for _, released := range []bool{false, true} {
				if released {
					s.Release()
				}
				c := s.Captured()
				sum := sha256.Sum256(want)
				if c.Total != int64(size) || c.Hash != hex.EncodeToString(sum[:]) {
					t.Fatalf("size %d: total %d, hash %s", size, c.Total, c.Hash)
				}
				if !bytes.HasPrefix(want, c.Head) || !bytes.HasSuffix(want, c.Tail) {
					t.Fatalf("size %d step %d: head or tail is wrong", size, step)
				}
				if size <= execenv.HeadBytes+execenv.TailBytes && !bytes.Equal(append(bytes.Clone(c.Head), c.Tail...), want) {
					t.Fatalf("size %d: head and tail are not the whole", size)
				}
			}
		}
	}
}

func TestReader_seesEveryByteOrTheGap(t *testing.T) {
	want := noise(3 << 20)
	s := capture.New(execenv.OverflowDrop)
	s.Write(want[:len(want)-5])
	s.Write(want[len(want)-5:])
	s.Close()
	for _, released := range []bool{false, true} {
		if released {
			s.Release()
		}
		r := s.Reader(0)
		got, gaps := readAll(t, r)
		r.Close()
		if len(got) != len(want) || gaps != 1 {
			t.Fatalf("released %v: %d bytes with %d gaps, want %d with 1", released, len(got), gaps, len(want))
		}
		if !bytes.Equal(got[:execenv.HeadBytes], want[:execenv.HeadBytes]) || !bytes.Equal(got[len(got)-execenv.TailBytes:], want[len(want)-execenv.TailBytes:]) {
			t.Errorf("released %v: head or tail differ", released)
		}
	}
}

func TestStream_blockLosesNothing(t *testing.T) {
	want := noise(6 << 20)
	s := capture.New(execenv.OverflowBlock)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Write(want)
		s.Close()
	}()
	// A reader that is cut and comes back where its peer stopped receiving.
	var got []byte
	buf := make([]byte, 50_000)
	r := s.Reader(0)
	for cuts := 0; ; {
		n, at, wait, err := r.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if wait != nil {
			<-wait
			continue
		}
		if at != int64(len(got)) {
			t.Fatalf("read at %d, want %d", at, len(got))
		}
		if len(got) > (cuts+1)<<20 && cuts < 4 {
			cuts++ // what was read last never arrived
			r.Close()
			r = s.Reader(int64(len(got)))
			continue
		}
		got = append(got, buf[:n]...)
	}
	r.Close()
	<-done
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes that differ from the %d written", len(got), len(want))
	}
}

func TestStream_unblockFreesTheWriter(t *testing.T) {
	s := capture.New(execenv.OverflowBlock)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Write(make([]byte, 4<<20))
		s.Close()
	}()
	select {
	case <-done:
		t.Fatal("4 MiB were written while nobody read")
	default:
	}
	s.Unblock()
	<-done
	if got := s.Captured().Total; got != 4<<20 {
		t.Errorf("total = %d", got)
	}
}

func BenchmarkStream_Write(b *testing.B) {
	s := capture.New(execenv.OverflowDrop)
	p := make([]byte, 64<<10)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		s.Write(p)
	}
}
