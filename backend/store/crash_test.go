package store_test

import (
	"fmt"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/store"
)

// TestAppend_survivesKill kills a process that appends, again and again at some
// point of its work, and finds every event whose Append had returned.
func TestAppend_survivesKill(t *testing.T) {
	dir := t.TempDir()
	create(t, open(t, dir, store.Options{}), "r")
	var acknowledged [][2]int64
	for round := range 20 {
		c := startChild(t, "append", dir)
		var lines []string
		for range 1 + round { // so that it is killed at another point each time
			lines = append(lines, c.line())
		}
		for _, line := range append(lines, c.kill(t)...) {
			var first, last int64
			if n, _ := fmt.Sscan(line, &first, &last); n == 2 { // the last line may be cut
				acknowledged = append(acknowledged, [2]int64{first, last})
			}
		}

		s, err := store.Open(t.Context(), dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		events, err := s.Events(t.Context(), store.Query{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for i, e := range events {
			if e.Seq != int64(i+1) {
				t.Fatalf("event %d has seq %d: there is a gap", i, e.Seq)
			}
		}
		if len(events)%3 != 1 { // the creation, then three at a time
			t.Errorf("%d events: an Append was written in part", len(events))
		}
		for _, a := range acknowledged {
			if a[1] > int64(len(events)) || a[1] != a[0]+2 {
				t.Fatalf("events %d to %d were acknowledged, %d are there", a[0], a[1], len(events))
			}
		}
	}
	if len(acknowledged) < 20 {
		t.Errorf("%d appends were acknowledged, want at least one per round", len(acknowledged))
	}
}
