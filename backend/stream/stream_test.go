package stream_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/stream"
)

func rung(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestBell(t *testing.T) {
	var h stream.Hub
	h.Ring() // for nobody
	a, b := h.Subscribe(), h.Subscribe()
	defer b.Close()
	if rung(a.C()) {
		t.Error("a bell rang before its subscription")
	}
	for range 1000 {
		h.Ring() // would block here if rings were queued
	}
	if !rung(a.C()) || rung(a.C()) {
		t.Error("many rings are not heard as one")
	}
	h.Ring()
	if !rung(a.C()) {
		t.Error("a ring after a receive is not heard")
	}
	a.Close()
	a.Close()
	h.Ring()
	if rung(a.C()) {
		t.Error("a closed bell rings")
	}
	if !rung(b.C()) {
		t.Error("the other bell does not ring")
	}
}

func TestListener_getsItsFrames(t *testing.T) {
	var h stream.Hub
	if h.Watched("r") {
		t.Error("Watched() with no listener")
	}
	one, all := h.Listen("r"), h.Listen("")
	defer all.Close()
	mine := stream.Live{RootTaskID: "r", Kind: stream.LiveText, Data: "a"}
	other := stream.Live{RootTaskID: "s", Kind: stream.LiveOutput, Stream: "stdout", Offset: 7, Data: "b"}
	h.Publish(mine)
	h.Publish(other)
	if !rung(one.C()) || rung(one.C()) {
		t.Error("two frames are not one wake")
	}
	check := func(l *stream.Listener, want []stream.Live) {
		t.Helper()
		got, dropped := l.Take()
		if diff := cmp.Diff(want, got); diff != "" || dropped {
			t.Errorf("Take() dropped = %v (-want +got):\n%s", dropped, diff)
		}
	}
	check(one, []stream.Live{mine})
	check(one, nil)
	check(all, []stream.Live{mine, other})

	if !h.Watched("r") || !h.Watched("s") {
		t.Error("Watched() misses a listener")
	}
	one.Close()
	all.Close()
	h.Publish(mine)
	check(one, nil)
	if h.Watched("r") {
		t.Error("Watched() after the last Close")
	}
}

func TestListener_dropsTheOldest(t *testing.T) {
	var h stream.Hub
	l := h.Listen("r")
	defer l.Close()
	const frames, each = 100, 64 << 10
	for i := range frames {
		h.Publish(stream.Live{RootTaskID: "r", Offset: int64(i), Data: strings.Repeat("x", each)})
	}
	got, dropped := l.Take()
	if !dropped {
		t.Error("Take() does not say that frames were dropped")
	}
	if len(got)*each > 1<<20 || len(got) < 2 {
		t.Errorf("%d frames of 64 KB were kept, want at most 1 MB", len(got))
	}
	for i, f := range got {
		if want := int64(frames - len(got) + i); f.Offset != want {
			t.Fatalf("frame %d is number %d, want %d: the newest are kept, in order", i, f.Offset, want)
		}
	}
	h.Publish(stream.Live{RootTaskID: "r", Data: "next"})
	if got, dropped := l.Take(); len(got) != 1 || dropped {
		t.Errorf("Take() = %d frames, dropped %v, want one and nothing dropped since", len(got), dropped)
	}
	h.Publish(stream.Live{RootTaskID: "r", Data: strings.Repeat("x", 2<<20)})
	if got, _ := l.Take(); len(got) != 1 {
		t.Errorf("Take() = %d frames, want the newest one however large", len(got))
	}
}

// TestHub_atOnce has meaning under the race detector; what it asserts is that a
// reader who subscribes first and reads after each ring misses nothing.
func TestHub_atOnce(t *testing.T) {
	var h stream.Hub
	var mu sync.Mutex
	log := 0
	const writers, each = 8, 200
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			b, l := h.Subscribe(), h.Listen(fmt.Sprint(i))
			defer b.Close()
			defer l.Close()
			for {
				mu.Lock()
				n := log
				mu.Unlock()
				l.Take()
				if n == writers*each {
					return
				}
				select {
				case <-b.C():
				case <-t.Context().Done():
					t.Error("a reader never heard of the last entry")
					return
				}
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				mu.Lock()
				log++
				mu.Unlock()
				h.Ring()
				h.Publish(stream.Live{RootTaskID: fmt.Sprint(w % 4), Offset: int64(i), Data: "x"})
				h.Watched("1")
			}
		})
	}
	wg.Wait()
}
