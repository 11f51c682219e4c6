package bench

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

func TestStat_nearestRank(t *testing.T) {
	var ds []time.Duration
	for i := 100; i >= 1; i-- {
		ds = append(ds, time.Duration(i)*time.Millisecond)
	}
	if got, want := *millis(ds), (Stat{N: 100, Median: 50, P95: 95, P99: 99}); got != want {
		t.Errorf("millis(1…100) = %+v, want %+v", got, want)
	}
	if got, want := *millis(ds[:1]), (Stat{N: 1, Median: 100, P95: 100, P99: 100}); got != want {
		t.Errorf("millis of one = %+v, want %+v", got, want)
	}
	// A rate's tail is its slow side.
	if got := rates(ds, 1e6); got.Median != 20 || got.P95 >= got.Median {
		t.Errorf("rates(1…100) = %+v, want a median of 20 and a lower p95", got)
	}
	if got := millis(nil); got != nil {
		t.Errorf("millis of none = %+v, want nil", got)
	}
}

func TestRow_goals(t *testing.T) {
	ms := func(v float64) *Stat { return &Stat{N: 1, Median: v, P95: v, P99: v} }
	for _, tt := range []struct {
		name  string
		row   Row
		goal  goal
		text  string
		met   bool
		ratio float64
	}{
		{"ratio reached", Row{Value: ms(11), Floor: ms(10)}, ratioAtMost(1.15), "≤ 1.15 ×", true, 1.1},
		{"ratio missed", Row{Value: ms(20), Floor: ms(10)}, ratioAtMost(1.15), "≤ 1.15 ×", false, 2},
		{"fraction", Row{Value: ms(1), Floor: ms(20)}, ratioAtMost(1.0 / 15), "≤ 1/15", true, 0.05},
		{"rate", Row{Value: ms(150)}, atLeast(200, "MB/s"), "≥ 200 MB/s", false, 0},
		{"a ratio without a floor is not met", Row{Value: ms(1)}, ratioAtMost(2), "≤ 2 ×", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.row
			r.finish(tt.goal)
			if r.Goal != tt.text || r.Met == nil || *r.Met != tt.met {
				t.Errorf("goal %q met %v, want %q %v", r.Goal, r.Met, tt.text, tt.met)
			}
			if tt.ratio != 0 && (r.Ratio == nil || *r.Ratio != tt.ratio) {
				t.Errorf("ratio %v, want %v", r.Ratio, tt.ratio)
			}
		})
	}
}

func TestTable_saysWhatIsMissing(t *testing.T) {
	var table Table
	table.Add(Row{What: "measured", Unit: "ms", Value: &Stat{N: 1, Median: 12.34}})
	table.Add(Row{What: "no wall", Missing: "no engine answers"})
	table.Add(Row{What: "broken", Error: "it fell over"})
	var out bytes.Buffer
	if err := table.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"12.3 ms", "no wall: missing: no engine answers", "broken: error: it fell over"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
}

// TestInside holds that what runs in a sandbox prints what the outside reads.
func TestInside(t *testing.T) {
	var out bytes.Buffer
	if err := Spawn(t.Context(), &out, 2, "/bin/sh"); err != nil {
		t.Fatal(err)
	}
	ds, err := nanoseconds(out.String())
	if err != nil || len(ds) != 2 || ds[0] <= 0 {
		t.Errorf("Spawn printed %q: %v, %v", &out, ds, err)
	}
	if err := Spawn(t.Context(), &out, 1, "/nonexistent"); err == nil {
		t.Error("Spawn of nothing: no error")
	}

	out.Reset()
	before := time.Now()
	if err := Stamp(t.Context(), &out, 3, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	stamps, err := nanoseconds(out.String())
	if err != nil || len(stamps) != 3 || time.Unix(0, int64(stamps[0])).Before(before) {
		t.Errorf("Stamp printed %q: %v, %v", &out, stamps, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Stamp(ctx, &out, 1, time.Hour); err == nil {
		t.Error("Stamp after the end of its context: no error")
	}
}
