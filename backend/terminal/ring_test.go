//go:build unix

package terminal

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

func TestRing(t *testing.T) {
	var all bytes.Buffer
	var r ring
	for i, size := range []int{1, 10, 4085, 1, 4096, 70_000, 0, ringBytes - 5, 7, ringBytes, 3 * ringBytes, 123, ringBytes / 2} {
		piece := make([]byte, size)
		for j := range piece {
			piece[j] = byte(i*31 + j*7 + j>>8)
		}
		all.Write(piece)
		r.write(piece)
		if r.end != int64(all.Len()) {
			t.Fatalf("after piece %d the end is %d, want %d", i, r.end, all.Len())
		}
		if want := max(0, r.end-int64(len(r.buf))); r.start() != want || len(r.buf) > ringBytes {
			t.Errorf("after piece %d the start is %d, want %d", i, r.start(), want)
		}
		kept := make([]byte, ringBytes+10)
		kept = kept[:r.read(kept, r.start())]
		if !bytes.Equal(kept, all.Bytes()[r.start():]) {
			t.Errorf("after piece %d of %d bytes what is kept is not what was written last", i, size)
		}
	}
	if cap(new(ring).buf) != 0 {
		t.Error("an empty ring holds memory")
	}
}

func TestRing_lineAfter(t *testing.T) {
	var r ring
	r.write([]byte("one\ntwo\nthree"))
	for at, want := range map[int64]int64{0: 4, 2: 4, 4: 8, 9: 9, 13: 13} {
		if got := r.lineAfter(at); got != want {
			t.Errorf("lineAfter(%d) = %d, want %d", at, got, want)
		}
	}
}

// Who types is never held back; a flood is held to the rate.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		began := time.Now()
		for range 100 {
			if err := p.Spend(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("100 keys were held back for %v", took)
		}
		const flood = 4 << 20
		for range flood / readBytes {
			if err := p.Spend(t.Context(), readBytes); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 500*time.Millisecond {
			t.Errorf("%d bytes went in %v", flood, took)
		}
	})
}
